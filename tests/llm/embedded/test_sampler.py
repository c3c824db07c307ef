"""The sampler is a pure function, exact where it promises to be, and samples what it should."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from harnesstrain.core.errors import LlmFailure
from harnesstrain.core.records.llm import Sampling
from harnesstrain.llm.embedded.sampler import FLOOR, exponential, logprob, sample, uniform

rows = hnp.arrays(np.float32, st.integers(1, 60), elements=st.floats(-50, 50, width=32))
temperatures = st.floats(0.01, 5)
seeds = st.integers(-(2**70), 2**70)
steps = st.integers(0, 10_000)


@given(rows, seeds, steps)
def test_greedy_takes_the_best_token_and_the_lowest_id_among_equals(row, seed, step):
    assert sample(row, Sampling(temperature=0, seed=seed), step) == list(row).index(max(row))


@given(rows, temperatures, seeds, steps)
def test_equal_input_gives_equal_tokens(row, temperature, seed, step):
    sampling = Sampling(temperature=temperature, seed=seed, top_p=0.9)
    assert sample(row, sampling, step) == sample(row.copy(), sampling, step)


@given(rows, temperatures, seeds, steps, st.integers(1, 5))
def test_top_k_stays_among_the_k_best(row, temperature, seed, step, k):
    token = sample(row, Sampling(temperature=temperature, seed=seed, top_k=k), step)
    ranked = sorted(range(len(row)), key=lambda place: (-row[place], place))
    assert token in ranked[:k]


@given(rows, temperatures, seeds, steps)
def test_a_tiny_nucleus_is_greedy(row, temperature, seed, step):
    assert sample(row, Sampling(temperature=temperature, seed=seed, top_p=1e-9), step) == int(np.argmax(row))


@given(rows, st.floats(0.05, 1), seeds)
def test_the_nucleus_is_the_smallest_set_that_holds_enough(row, top_p, seed):
    weights = np.exp(row.astype(float) - row.max())
    order = sorted(range(len(row)), key=lambda place: (-row[place], place))
    before = 0.0
    for place in order:
        if before >= top_p * weights.sum() * (1 + 1e-9):
            break
        before += weights[place]
    allowed = order[: order.index(place) + 1]
    assert sample(row, Sampling(temperature=1, top_p=top_p, seed=seed), 0) in allowed


@given(hnp.arrays(np.float64, st.integers(1, 50), elements=st.floats(FLOOR, 0)))
def test_the_exponential_is_accurate(values):
    np.testing.assert_allclose(exponential(values), np.exp(values), rtol=4e-16)


def test_the_exponential_has_the_same_bits_everywhere():
    bits = exponential(np.linspace(FLOOR, 0, 10_001)).tobytes()
    assert hashlib.sha256(bits).hexdigest() == "f55494caad4fedf55ad7b7de5377c744a4f78bf8bbddb09167d3e68abdb6a174"


def test_the_noise_has_the_same_bits_everywhere():
    assert [uniform(12345, step) for step in range(3)] == [0.6463801884227345, 0.6858310038055312, 0.9511649332269972]
    assert min(uniform(1, step) for step in range(500)) >= 0.0 and max(uniform(1, step) for step in range(500)) < 1.0


@given(seeds, steps)
def test_noise_depends_on_seed_and_step_alone(seed, step):
    first = uniform(seed, step)
    uniform(seed + 1, step + 1)
    assert uniform(seed, step) == first != uniform(seed, step + 1)


def test_draws_follow_the_softmax():
    row = np.log(np.array([0.5, 0.25, 0.15, 0.1], dtype=np.float32))
    draws = [sample(row, Sampling(temperature=1, seed=99), step) for step in range(4000)]
    assert stats.chisquare(np.bincount(draws, minlength=4), [2000, 1000, 600, 400]).pvalue > 1e-3


@settings(max_examples=30)
@given(rows)
def test_logprobs_are_those_of_the_softmax(row):
    wanted = row.astype(float) - row.max() - math.log(np.exp(row.astype(float) - row.max()).sum())
    assert [logprob(row, token) for token in range(len(row))] == pytest.approx(wanted.tolist(), abs=1e-9)


def test_scores_that_are_not_numbers_are_refused():
    with pytest.raises(LlmFailure, match="not numbers"):
        sample(np.array([0.0, np.nan, 1.0], dtype=np.float32), Sampling(), 0)
