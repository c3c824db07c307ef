"""Certify the harness: does it issue the same requests and actions when its recorded rollouts are played back?

A certificate is inherited when commit, task, requests and chain match.  What was measured is read from the records:
neither a model nor a sandbox is needed, but for a harness that counts tokens, or a directory that nothing recorded.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import Incomplete, Prerequisite
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.core.records.harness import Manifest
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.core.records.rollout import Rollout, latest_attempts
from harnesstrain.core.records.run import Regime, Run
from harnesstrain.core.records.task import Task
from harnesstrain.measure.context import Context
from harnesstrain.measure.resuming import resume
from harnesstrain.measure.sandboxes import open_for
from harnesstrain.rollout.bench import Cell
from harnesstrain.rollout.chain import start_key
from harnesstrain.rollout.playback import Played, Recorded, play
from harnesstrain.stages.certify.issue import issue
from harnesstrain.taskset import load_panel


class HarnessSpec(Record):
    """A run whose rollouts are to be played back."""

    run: str
    panel: str | None = None
    """Where the run's tasks are, if one has to be opened; None: the configured panel."""
    tasks: tuple[str, ...] = ()
    """Only these tasks; empty: all."""
    again: bool = False
    """Play back also where a certificate holds."""


class CertifiedHarness(Record):
    """The certificates of a run's harness."""

    run: str
    commit: str
    certificates: tuple[Certificate, ...]
    played: int
    """Rollouts played back now; the others were inherited."""

    @property
    def repeats(self) -> bool:
        """Whether it did the same on every rollout."""
        return not any(one.result is Certified.FORKED for one in self.certificates)


def run(context: Context, spec: HarnessSpec) -> CertifiedHarness:
    """Play back every rollout of a run whose harness has no certificate for it yet.

    A harness that does not repeat itself is warned about on the bus.  Raises Incomplete (the run has unmeasured cells,
    or stopped), Prerequisite (no jail; tokens are counted by a model that is not at hand), SandboxFailure.
    """
    record = context.store.run(spec.run)
    if not context.store.is_complete(record.id):
        msg = f"run {record.id[:8]} ({record.place}) is not complete"
        raise Incomplete(msg, hint=f"`{resume(context, record)}` goes on with it", run=record.id)
    rollouts = [r for r in latest_attempts(context.store.rollouts(record.id)) if not spec.tasks or r.task in spec.tasks]
    rollouts = [one for one in rollouts if one.outcome.scorable and one.trace is not None]
    history = context.store.certificates(kind="harness")
    newest = {one.id: _newest(history, record, one) for one in rollouts}
    known = {key: found for key, found in newest.items() if found is not None and not spec.again}
    todo = [one for one in rollouts if one.id not in known]
    if todo:
        player = _Player(context, record, spec.panel)
        manifest = context.repo.version(record.commit).manifest
        with context.repo.worktree(record.commit) as worktree:
            work = {one.id: functools.partial(player.certify, one, worktree, manifest, newest[one.id]) for one in todo}
            known |= issue(context, work, "rollouts")
    done = CertifiedHarness(
        run=record.id,
        commit=record.commit,
        certificates=tuple(known[one.id] for one in rollouts),
        played=len(todo),
    )
    if not done.repeats:
        context.bus.emit("warning", _loud(done))
    return done


def _loud(done: CertifiedHarness) -> str:
    forks = [one for one in done.certificates if one.result is Certified.FORKED]
    first = forks[0]
    return (
        f"harness {done.commit[:8]} does not repeat itself: on {len(forks)} of {len(done.certificates)} rollouts it "
        f"did something else on the same replies, first on {first.task} at step {first.step} ({first.command}); "
        "its flips are not the diff's doing"
    )


def _newest(history: Sequence[Certificate], record: Run, rollout: Rollout) -> Certificate | None:
    wanted = (record.commit, rollout.task_digest, rollout.seed, rollout.requests_digest, rollout.chain_digest)
    alike = [c for c in history if (c.commit, c.task_digest, c.seed, c.requests, c.chain) == wanted]
    return alike[-1] if alike else None


class _Player:
    """Plays back rollouts of one run."""

    def __init__(self, context: Context, record: Run, panel: str | None) -> None:
        self._context = context
        self._record = record
        self._panel = panel
        self._regime: Regime = context.store.regime(record.regime)
        self._endpoint: Endpoint = context.store.endpoint(self._regime.endpoint)
        self._workdirs: dict[str, str] = {}

    def certify(self, rollout: Rollout, worktree: Path, manifest: Manifest, before: Certificate | None) -> Certificate:
        """Play one rollout back and say what came of it."""
        context, record = self._context, self._record
        task = _recorded_task(context, rollout)
        cell = Cell(
            run=record.id,
            rollout=rollout.id,
            task=task,
            seed=rollout.seed,
            attempt=rollout.attempt,
            worktree=worktree,
            manifest=manifest,
        )
        recorded = Recorded(
            rollout=rollout,
            trace=context.store.trace(rollout.id),
            regime=self._regime,
            endpoint=self._endpoint,
            workdir=self._workdir(task),
        )
        played = play(cell, recorded, self._count, isolated=not context.settings.sandbox.allow_unisolated)
        context.bus.emit("certified", task=rollout.task, seed=rollout.seed, result=played.result.value)
        return _certificate(record, rollout, played, before)

    def _count(self, messages: Sequence[Mapping[str, Any]]) -> int:
        model = self._context.devices.bench.model
        if model.endpoint().fingerprint != self._endpoint.fingerprint:
            msg = f"the harness counts tokens, and the model of its run ({self._endpoint.model}) is not the one in use"
            raise Prerequisite(msg, hint="use that model again, or `ht evaluate` with this one")
        return model.count_tokens(messages)

    def _workdir(self, task: Task) -> str:
        """Where commands of a task start: as it says, as it was recorded, or as a sandbox has it."""
        environment = task.environment
        if environment.workdir is not None:
            return posixpath.normpath(posixpath.join("/", environment.workdir))
        known = self._workdirs.get(environment.digest)
        if known is None:
            entry = self._context.store.step_cache().get(
                start_key(self._regime.sandbox, self._regime.limits, environment)
            )
            known = entry.result.stdout.decode(errors="surrogateescape") if entry is not None else self._opened(task)
            self._workdirs[environment.digest] = known
        return known

    def _opened(self, task: Task) -> str:
        settings = self._context.settings
        tasks = load_panel(self._panel or settings.panel.chosen, settings.root).tasks
        found = tasks.get(task.name)
        if found is None or found.digest != task.digest:
            msg = f"where commands of task '{task.name}' start was not recorded, and it is not in the panel any more"
            raise Prerequisite(msg, hint="name the panel it came from with --panel, or evaluate again")
        sandbox = open_for(settings)
        try:
            session = sandbox.open(found.environment, limits=self._regime.limits)
            try:
                return session.workdir
            finally:
                session.close()
        finally:
            sandbox.close()


def _recorded_task(context: Context, rollout: Rollout) -> Task:
    """The task as it was recorded: without the files on this machine, which only its environment and grading need."""
    fields = context.store.get("task", rollout.task_digest)
    steps = [_without_files(step) for step in fields.get("steps", ())]
    return Task.model_validate({**_without_files(fields), "steps": steps})


def _without_files(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {**fields, "verifier": {**fields["verifier"], "tests": Path()}, "solution": None}


def _certificate(record: Run, rollout: Rollout, played: Played, before: Certificate | None) -> Certificate:
    identity = {
        "kind": "harness",
        "commit": record.commit,
        "task": rollout.task_digest,
        "seed": rollout.seed,
        "requests": rollout.requests_digest,
        "chain": rollout.chain_digest,
        "before": before.id if before is not None else None,
    }
    return Certificate(
        id=digest(identity),
        kind="harness",
        run=record.id,
        regime=record.regime,
        task=rollout.task,
        task_digest=rollout.task_digest,
        seed=rollout.seed,
        chain=rollout.chain_digest,
        commit=record.commit,
        requests=rollout.requests_digest,
        result=played.result,
        step=played.step,
        command=played.what,
        recorded=played.recorded,
        observed=played.issued,
        diff=played.diff,
        detail={"played": played.played},
    )
