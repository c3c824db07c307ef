"""What `ht certify` does for each part, and what it says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from harnesstrain.cli import output, runs
from harnesstrain.core.errors import HtError, NotFound, Prerequisite, TransportFailure, UsageError
from harnesstrain.core.records.certificate import Certificate, Certified, Regraded
from harnesstrain.measure.regimes import changed, in_words
from harnesstrain.stages import certify

if TYPE_CHECKING:
    from harnesstrain.measure.context import Context

PARTS = ("model", "env", "harness")
"""What can be certified, in order: a model certificate changes the regime that env certificates are of."""
DIFF_LINES = 12
"""Lines of a diff that are printed; `ht show` has more."""


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
    played: int = 0
    """Rollouts played back now."""
    forked: list[str] = field(default_factory=list)
    """What is not deterministic, in words."""
    missing: list[HtError] = field(default_factory=list)
    """Why parts were passed over."""


def asked(what: str | None, run: str | None) -> Asked:
    """The parts that `ht certify WHAT RUN` means.  Raises UsageError."""
    if what is not None and what not in PARTS:
        if run is not None:
            msg = f"'{what}' is nothing that can be certified here"
            raise UsageError(msg, hint=f"one of {', '.join(PARTS)}; or `ht certify RUN` for all that apply")
        what, run = None, what
    if what == "model" and run is not None:
        raise UsageError("a model is certified without a run", hint="`ht certify model`, or `ht certify env RUN`")
    return Asked(parts=PARTS if what is None else (what,), run=run or "@", all=what is None)


@contextmanager
def part(name: str, asked: Asked, made: Made) -> Iterator[None]:
    """One part.  Where every part that applies was asked for, one that lacks its model or sandbox is passed over."""
    try:
        yield
    except (Prerequisite, TransportFailure) as missing:
        if not asked.all:
            raise
        made.missing.append(missing)
        output.say(f"{name}: not certified: {missing.message}")


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


def of_env(context: Context, identifiers: Sequence[str], spec: certify.CertifySpec, made: Made) -> None:
    """Certify the environment of each run's tasks and say what was found.  `spec`: of the runs, but for which."""
    env: list[Certificate] = []
    idle = 0
    for identifier in identifiers:
        done = certify.run(context, spec.model_copy(update={"run": identifier}))
        made.runs.append(identifier)
        made.executed += done.executed
        env += done.certificates
        idle += done.no_chain
    made.certificates += env
    without = f", {idle} ran no command" if idle else ""
    ran = [one for one in env if one.result is not Certified.NO_CHAIN]
    output.say(f"{_counted(ran)}{without}; {made.executed} chains re-executed now")
    if regraded := _regraded(env):
        output.say(f"graded again: {regraded}")
    forks = [one for one in env if one.result is Certified.FORKED]
    for one in forks:
        output.say(f"  {one.task}: {_where(one)}")
        _say_diff(one)
        if one.grading is Regraded.OTHER:
            continue
        if one.proposal is None:
            output.say(f"    no scrub rule is proposed: {one.proposal_reason or 'nothing is known of why'}")
            continue
        output.say(f"    a scrub rule for it ({one.proposal_reason}), if that carries no signal; `scrub` in [sandbox]")
        output.say("    names the file to put it in:")
        for line in one.proposal.splitlines():
            output.say(f"      {line}")
    if forks:
        made.forked.append(f"{len(forks)} task{'s' if len(forks) > 1 else ''}")


def of_harness(context: Context, identifiers: Sequence[str], spec: certify.HarnessSpec, made: Made) -> None:
    """Play back each run's rollouts and say what was found.  `spec`: of the runs, but for which."""
    for identifier in identifiers:
        done = certify.certify_harness(context, spec.model_copy(update={"run": identifier}))
        if identifier not in made.runs:
            made.runs.append(identifier)
        made.certificates += done.certificates
        made.played += done.played
        told = f"harness {done.commit[:8]}: {_counted(done.certificates)}; {done.played} rollouts played back now"
        output.say(told)
        forks = [one for one in done.certificates if one.result is Certified.FORKED]
        for alike in _alike(forks):
            output.say(f"  {alike[0].task}: step {alike[0].step}: {alike[0].command}")
            _say_diff(alike[0])
            if len(alike) > 1:
                output.say(f"    {len(alike) - 1} more like it")
        if forks:
            made.forked.append(f"harness {done.commit[:8]}")


def _alike(forks: Sequence[Certificate]) -> list[list[Certificate]]:
    """Forks at one step in one command together, by name of the first task of each."""
    found: dict[tuple[int | None, str | None], list[Certificate]] = {}
    for one in sorted(forks, key=lambda fork: (fork.task or "", fork.seed or 0)):
        found.setdefault((one.step, one.command), []).append(one)
    return list(found.values())


def _counted(certificates: Sequence[Certificate]) -> str:
    counts = {result: sum(one.result is result for one in certificates) for result in Certified}
    shown = ", ".join(f"{count} {result.value}" for result, count in counts.items() if count)
    return shown or "nothing to certify"


def _regraded(certificates: Sequence[Certificate]) -> str:
    """What grading again showed, of the certificates that tell.  Those that could not be were warned about."""
    counts = Counter(one.grading for one in certificates)
    words = {Regraded.SAME: "the same grade", Regraded.OUTCOME: "another reward with the same outcome"}
    words |= {Regraded.OTHER: "another outcome", Regraded.NO_GRADE: "had no grade", Regraded.IMPOSSIBLE: "could not be"}
    return ", ".join(f"{counts[word]} {text}" for word, text in words.items() if counts[word])


def _where(fork: Certificate) -> str:
    return f"step {fork.step}: {fork.command}" if fork.step is not None else fork.grading_reason


def _say_diff(certificate: Certificate) -> None:
    lines = (certificate.diff or "").splitlines()
    for line in lines[:DIFF_LINES]:
        output.say(f"    {line}")
    if len(lines) > DIFF_LINES:
        output.say(f"    … `ht show {certificate.id[:8]}` shows {len(lines) - DIFF_LINES} lines more")


def check_names(context: Context, names: Sequence[str], *, word: bool) -> None:
    """Raise NotFound for a name that no run or version has, before anything is done.

    `word`: the name was the only word given, so it may be a misspelt part.
    """
    for name in names:
        try:
            runs.commit_named(context, name)
        except NotFound as unknown:
            if not word:
                raise
            msg = f"'{name}' is neither {', '.join(PARTS)} nor a run or a version"
            close = get_close_matches(name, PARTS, n=1)
            hint = f"did you mean `ht certify {close[0]}`?" if close else unknown.hint
            raise NotFound(msg, hint=hint) from unknown


def runs_named(context: Context, names: Sequence[str], *, strict: bool, endpoint: str | None = None) -> list[str]:
    """The runs that names mean.  Without `strict`, versions that were not measured are passed over, and said.

    `endpoint`: of versions, the runs on that model.
    """
    found: list[str] = []
    for name in names:
        try:
            found.append(runs.run_of(context, name, complete=True, endpoint=endpoint))
        except NotFound as missing:
            if strict:
                raise
            output.say(f"environments and harness: {missing.message}; `ht evaluate {name}` measures it")
    return found


def of_this_regime(context: Context, identifiers: Sequence[str]) -> list[str]:
    """The runs that were measured under the present regime; the others are passed over, and said."""
    found = list(identifiers)
    regime = context.devices.bench.regime.digest if found else ""
    for identifier in identifiers:
        run = context.store.run(identifier)
        if run.regime != regime:
            why = in_words(context, run, changed(context, run))
            told = f"environments: run {identifier[:8]} is of another regime; `ht evaluate` measures under this one"
            output.say(f"{told}: {why}")
            found.remove(identifier)
    return found


def plans(
    context: Context, asked: Asked, spec: certify.ModelSpec, names: Sequence[str], endpoint: str | None = None
) -> tuple[list[str], list[str]]:
    """What would be done, a sentence for each part, and the runs that names mean."""
    found: list[str] = []
    made = Made()
    if "model" in asked.parts:
        with part("model", asked, made):
            found.append(model_plan(context, spec))
    identifiers = runs_named(context, names, strict=not asked.all, endpoint=endpoint)
    if identifiers and "env" in asked.parts:
        with part("environments", asked, made):
            these = of_this_regime(context, identifiers) if asked.all else identifiers
            found += [env_plan(context, these)] if these else []
    if identifiers and "harness" in asked.parts:
        found.append(harness_plan(context, identifiers))
    return found, identifiers


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
    again = f" and grade {sum(one.graded for one in rollouts)} again"
    return f"would re-execute {sum(one.actions for one in rollouts)} commands of {len(rollouts)} rollouts{again}"


def harness_plan(context: Context, identifiers: Sequence[str]) -> str:
    """One sentence: what would be played back."""
    rollouts = [one for identifier in identifiers for one in context.store.rollouts(identifier)]
    return f"would play back {len(rollouts)} rollouts to their harness"
