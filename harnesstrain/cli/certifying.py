"""What `ht certify` does for each part, and what it says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harnesstrain.cli import output, runs
from harnesstrain.core.errors import NotFound, UsageError
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.stages import certify

if TYPE_CHECKING:
    from harnesstrain.measure.context import Context

PARTS = ("model", "env")
"""What can be certified, in order: a model certificate changes the regime that env certificates are of."""


@dataclass(frozen=True)
class Asked:
    """Which parts are asked for, of which runs."""

    parts: tuple[str, ...]
    run: str
    all: bool
    """No word was given: parts that do not apply are passed over."""


@dataclass
class Made:
    """What came of it."""

    certificates: list[Certificate] = field(default_factory=list)
    printed: int = 0
    """Certificates whose ids were printed already."""
    runs: list[str] = field(default_factory=list)
    executed: int = 0
    """Chains re-executed now."""
    forked: list[str] = field(default_factory=list)
    """What is not deterministic, in words."""


def asked(what: str | None, run: str | None) -> Asked:
    """The parts that `ht certify WHAT RUN` means.  Raises UsageError."""
    if what is not None and what not in PARTS:
        if run is not None or what == "harness":
            msg = f"'{what}' is nothing that can be certified here"
            raise UsageError(msg, hint=f"one of {', '.join(PARTS)}; or `ht certify RUN` for all that apply")
        what, run = None, what
    if what == "model" and run is not None:
        raise UsageError("a model is certified without a run", hint="`ht certify model`, or `ht certify env RUN`")
    return Asked(parts=PARTS if what is None else (what,), run=run or "@", all=what is None)


def of_model(context: Context, spec: certify.ModelSpec, made: Made) -> None:
    """Certify the model endpoint and say what was found."""
    done = certify.certify_model(context, spec)
    made.certificates.append(done.certificate)
    finding, first = done.finding, done.finding.first
    told = f"model {done.model}: "
    if done.certificate.result is Certified.FORKED:
        made.forked.append("the model")
        told += "not deterministic"
    else:
        told += f"deterministic up to {finding.largest} at once"
        if finding.tested < finding.asked and finding.failed_at is None:
            told += f" (no more ran, of {finding.asked})"
    if done.inherited:
        told += "; certified before, --again asks again"
    output.say(told)
    if first is not None:
        place = f"  {first.axis}: at {first.concurrency}, '{first.probe}' differs in {first.field} {first.position}"
        output.say(f"{place}: {first.reference!r} became {first.observed!r}")
    if "logprobs" not in finding.compared:
        output.say("  compared as text: the endpoint gives no logprobs, so small differences cannot be seen")
    if finding.cold is False:
        output.say("  the reference was not cold: the endpoint reused what it had kept")


def of_env(context: Context, identifiers: Sequence[str], panel: str | None, made: Made) -> None:
    """Certify the environment of each run's tasks and say what was found."""
    env: list[Certificate] = []
    for identifier in identifiers:
        done = certify.run(context, certify.CertifySpec(run=identifier, panel=panel))
        made.runs.append(identifier)
        made.executed += done.executed
        env += done.certificates
    made.certificates += env
    counts = {result: sum(one.result is result for one in env) for result in Certified}
    shown = ", ".join(f"{count} {result.value}" for result, count in counts.items() if count)
    output.say(f"{shown or 'nothing to certify'}; {made.executed} chains re-executed now")
    for certificate in env:
        if certificate.result is Certified.FORKED:
            output.say(f"  {certificate.task}: step {certificate.step}: {certificate.command}")
    if counts[Certified.FORKED]:
        made.forked.append(f"{counts[Certified.FORKED]} tasks")


def runs_for_env(context: Context, names: Sequence[str], *, strict: bool) -> list[str]:
    """The runs that names mean.  Without `strict`, those that cannot be certified now are passed over, and said."""
    found: list[str] = []
    for name in names:
        try:
            found.append(runs.run_of(context, name))
        except NotFound as missing:
            if strict:
                raise
            output.say(f"environments: {missing.message}; `ht evaluate {name}` measures it")
    if strict or not found:
        return found
    regime = context.devices.bench.regime.digest
    for identifier in list(found):
        if context.store.run(identifier).regime != regime:
            output.say(
                f"environments: run {identifier[:8]} is of another regime; `ht evaluate` measures under this one"
            )
            found.remove(identifier)
    return found


def model_plan(context: Context, spec: certify.ModelSpec) -> str:
    """One sentence: what the gate would ask."""
    planned = certify.plan_model(context, spec)
    if planned.inherited is not None:
        return f"model {planned.model}: certificate {planned.inherited[:8]} holds; nothing would be asked"
    levels = ", ".join(str(number) for number in planned.concurrencies)
    return f"model {planned.model}: would ask {len(planned.probes)} probes alone, then at {levels} at once"


def env_plan(context: Context, identifiers: Sequence[str]) -> str:
    """One sentence: what would be re-executed."""
    rollouts = [one for identifier in identifiers for one in context.store.rollouts(identifier)]
    return f"would re-execute {sum(one.actions for one in rollouts)} commands of {len(rollouts)} rollouts"
