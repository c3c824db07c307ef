"""Choosing the next token: a pure function of the logits row, the sampling parameters and the step.

Noise comes from a counter-based generator keyed by (seed, step), so no request can disturb another.  The softmax is
float64 and uses only correctly rounded operations (no library `exp`, whose last bit depends on the CPU).  Tokens are
ordered by falling logit, ties by the lowest id.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from harnesstrain.core.errors import LlmFailure
from harnesstrain.core.records.llm import Sampling

FLOOR = -40.0
"""Tokens less likely than the best one by more than e**-40 are never drawn."""

_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_INVERSE_FACTORIALS = tuple(1.0 / math.factorial(n) for n in range(14))

Logits = NDArray[np.float32]
"""One row of raw scores, one per token of the vocabulary."""


def uniform(seed: int, step: int) -> float:
    """The number in [0, 1) that decides step `step` under `seed`.  53 random bits, the same on every machine."""
    raw = np.random.Philox(key=seed % 2**64, counter=[0, 0, 0, step % 2**64]).random_raw()
    return float(int(raw) >> 11) * 2.0**-53


def exponential(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """e**x for FLOOR <= x <= 0, elementwise, to about one unit in the last place, the same bits on every CPU."""
    power = np.rint(x * (1.0 / math.log(2.0)))
    rest = (x - power * _LN2_HIGH) - power * _LN2_LOW
    series = np.full_like(rest, _INVERSE_FACTORIALS[-1])
    for coefficient in reversed(_INVERSE_FACTORIALS[:-1]):
        series = series * rest + coefficient
    return np.ldexp(series, power.astype(np.int32))


def sample(logits: Logits, sampling: Sampling, step: int) -> int:
    """The token id chosen at `step` (0 is the first completion token).

    Raises LlmFailure when the row holds scores that are not numbers.
    """
    best = int(np.argmax(logits))
    if not math.isfinite(float(logits[best])):
        raise LlmFailure("the model gave scores that are not numbers", hint="`ht model verify`")
    if sampling.temperature <= 0.0:
        return best
    scores = (logits.astype(np.float64) - float(logits[best])) / sampling.temperature
    tokens = np.flatnonzero(scores >= FLOOR)
    order = np.argsort(-scores[tokens], kind="stable")
    tokens = tokens[order[: sampling.top_k] if sampling.top_k else order]
    mass = np.cumsum(exponential(scores[tokens]))
    if sampling.top_p < 1.0:
        kept = int(np.searchsorted(mass, sampling.top_p * mass[-1], side="left")) + 1
        tokens, mass = tokens[:kept], mass[:kept]
    drawn = int(np.searchsorted(mass, uniform(sampling.seed, step) * mass[-1], side="right"))
    return int(tokens[min(drawn, len(tokens) - 1)])


def logprob(logits: Logits, token: int) -> float:
    """Natural log of the probability of `token` at temperature 1."""
    best = float(logits.max())
    scores = logits.astype(np.float64) - best
    total = float(np.cumsum(exponential(scores[scores >= FLOOR]))[-1])
    return float(scores[token]) - math.log(total)
