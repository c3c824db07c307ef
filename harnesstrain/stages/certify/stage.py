"""Certify the environment of each task of a run, and its verifier.

A certificate is inherited when regime, task and chain all match, and the grade where there is one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import Incomplete, NotFound, UsageError
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certificate, Certified, Regraded
from harnesstrain.core.records.rollout import Rollout, latest_attempts
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.task import Task
from harnesstrain.measure.context import Context
from harnesstrain.measure.regimes import changed, in_words
from harnesstrain.measure.resuming import as_settings, resume
from harnesstrain.rollout.evidence import unified
from harnesstrain.rollout.reexecution import ChainCheck, reexecute
from harnesstrain.rollout.regrading import Regrader
from harnesstrain.sandbox.scrub import version as rules_in_force
from harnesstrain.stages.certify.issue import issue
from harnesstrain.taskset import against_host, allowed, load_panel, with_host


class CertifySpec(Record):
    """A run whose chains are to be re-executed."""

    run: str
    panel: str | None = None
    """Where the run's tasks are; None: the configured panel."""
    tasks: tuple[str, ...] = ()
    """Only these tasks; empty: all."""
    again: bool = False
    """Re-execute also where a certificate holds, and compare the files that are left, too."""
    gradings: int = 1
    """How often the verifier is run again on what was graded; 0: the certificates vouch for the commands alone."""


class CertifiedRun(Record):
    """The certificates of a run."""

    run: str
    certificates: tuple[Certificate, ...]
    executed: int
    """Chains re-executed now; the others were inherited."""
    no_chain: int = 0
    """Rollouts that ran no command: there is nothing to certify."""

    def tasks(self, *results: Certified) -> tuple[str, ...]:
        """Names of the tasks with one of these results."""
        return tuple(c.task or "" for c in self.certificates if c.result in results)


def run(context: Context, spec: CertifySpec) -> CertifiedRun:
    """Re-execute every recorded chain of a run that has no certificate yet.

    Raises Incomplete (the run has unmeasured cells), UsageError (the regime is another one now), SandboxFailure
    (infrastructure: neither certifies nor excludes), Incomplete when stopped.
    """
    record = context.store.run(spec.run)
    regime = context.devices.bench.regime
    if record.regime != regime.digest:
        fields = changed(context, record)
        msg = f"run {record.id[:8]} was measured under another regime: {in_words(context, record, fields)}"
        same = as_settings(fields)
        hint = f"`ht certify env {record.id[:8]} {same}` certifies it as it was measured; " if same else ""
        raise UsageError(
            msg, hint=f"{hint}`{resume(context, record)}` measures it under this one", differs=list(fields)
        )
    if not context.store.is_complete(record.id):
        msg = f"run {record.id[:8]} ({record.place}) is not complete"
        raise Incomplete(msg, hint=f"`{resume(context, record)}` goes on with it", run=record.id)
    host = allowed(context.settings.sandbox.verifier_env, context.environ)
    loaded = load_panel(spec.panel or context.settings.panel.chosen, context.settings.root).tasks
    tasks = {name: with_host(task, host) for name, task in loaded.items()}
    rollouts = [r for r in latest_attempts(context.store.rollouts(record.id)) if not spec.tasks or r.task in spec.tasks]
    known = {
        rollout.id: found
        for rollout in rollouts
        if not spec.again and (found := _known(context, record, rollout, spec.gradings)) is not None
    }
    todo = [r for r in rollouts if r.id not in known and r.outcome.scorable]
    todo = [one for one in todo if one.chain_digest is not None or (one.graded and spec.gradings)]
    work = {}
    for one in todo:
        task = _task(tasks, one)
        barred = against_host(task, host)
        regrade = functools.partial(Regrader, times=spec.gradings, barred=barred.message if barred else "")
        work[one.id] = functools.partial(_certify, context, record, one, task, regrade if spec.gradings else None)
    known |= issue(context, work, "chains")
    ordered = tuple(known[rollout.id] for rollout in rollouts if rollout.id in known)
    idle = sum(one.chain_digest is None and one.outcome.scorable for one in rollouts)
    executed = sum(one.chain_digest is not None for one in todo)
    return CertifiedRun(run=record.id, certificates=ordered, executed=executed, no_chain=idle)


def _known(context: Context, record: Run, rollout: Rollout, gradings: int) -> Certificate | None:
    """The certificate that holds for a rollout's chain and grade: its own, or an inherited one.

    Equal bytes are equal under any scrub rules; every other result holds only under those that compared.  What was
    graded has to be graded again so often; a verifier that once gave another outcome needs no further look.
    """
    newest = _newest(context, record, rollout)
    if newest is None or newest.grading is Regraded.OTHER:
        return newest
    if newest.result is not Certified.EXACT and newest.rules not in (None, rules_in_force()):
        return None
    if newest.result is Certified.FORKED or not (rollout.graded and gradings):
        return newest
    again = newest.grading in (Regraded.SAME, Regraded.OUTCOME) and newest.gradings >= gradings
    return newest if again and newest.reward == rollout.reward else None


def _newest(context: Context, record: Run, rollout: Rollout) -> Certificate | None:
    found = context.store.certificates(kind="env", regime=record.regime, chain=rollout.chain_digest)
    wanted = (rollout.task_digest, rollout.seed, rollout.chain_digest)
    alike = [c for c in found if (c.task_digest, c.seed, c.chain) == wanted]
    return alike[-1] if alike else None


def _identify(record: Run, rollout: Rollout, before: Certificate | None) -> str:
    """`before`: what is certified anew, because of other rules or because it was asked for."""
    return digest(
        {
            "kind": "env",
            "regime": record.regime,
            "task": rollout.task_digest,
            "seed": rollout.seed,
            "chain": rollout.chain_digest,
            "rules": rules_in_force(),
            "before": before.id if before is not None else None,
        }
    )


def _task(tasks: Mapping[str, Task], rollout: Rollout) -> Task:
    task = tasks.get(rollout.task)
    if task is None or task.digest != rollout.task_digest:
        msg = f"task '{rollout.task}' is not in the panel any more, or was changed since it was measured"
        raise NotFound(msg, hint="name the panel it came from with --panel, or evaluate again")
    return task


def _certify(
    context: Context, record: Run, rollout: Rollout, task: Task, regrade: Callable[..., Regrader] | None
) -> Certificate:
    bench = context.devices.bench
    before = _newest(context, record, rollout)
    state = before.state if before is not None else None
    steps = context.store.trace(rollout.id).steps
    regrader = regrade(bench, task, rollout, steps, before=before) if regrade is not None else None
    check = reexecute(bench.sandbox, task, steps, bench.limits, state, regrader)
    context.bus.emit("certified", task=rollout.task, seed=rollout.seed, result=check.result.value)
    if check.regrading is not None and check.regrading.result is Regraded.IMPOSSIBLE:
        context.bus.emit("warning", f"{rollout.task} is not graded again: {check.regrading.reason}")
    return Certificate(
        id=_identify(record, rollout, before),
        kind="env",
        run=record.id,
        regime=record.regime,
        task=rollout.task,
        task_digest=rollout.task_digest,
        seed=rollout.seed,
        chain=rollout.chain_digest,
        result=check.result,
        step=check.step,
        command=check.command,
        rules=rules_in_force(),
        state=check.state,
        reward=rollout.reward,
        detail={"executed": check.executed} | ({"other_files": True} if check.other_files else {}),
        **_evidence(check),
    )


def _evidence(check: ChainCheck) -> dict[str, Any]:
    """What a fork shows, and what grading again did."""
    found = check.difference.model_dump() if check.difference is not None else {}
    again = check.regrading
    if again is None:
        return found
    if again.recorded is not None and again.observed is not None:
        both = (again.recorded, again.observed)
        found |= {"recorded": both[0], "observed": both[1], "diff": unified(*both)}
    return found | {"grading": again.result, "grading_reason": again.reason, "gradings": again.times}
