"""The epochs of a history, committed to a store and a harness repo one after the other, as the stages do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harnesstrain.core.digests import digest
from harnesstrain.core.records.candidate import Candidate, CandidateStatus
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.core.records.llm import Endpoint, Reply, Sampling, Usage
from harnesstrain.core.records.rollout import Outcome, Rollout
from harnesstrain.core.records.run import Regime, Run
from harnesstrain.core.records.sandbox import SandboxIdentity
from harnesstrain.core.records.task import Panel, PanelTask
from harnesstrain.core.records.verdict import Epoch, Memo, Promotion, Verdict
from harnesstrain.judge import StrictPareto
from harnesstrain.judge.base import Criterion
from harnesstrain.stages.judging.derive import comparison_of
from harnesstrain.store import Store
from tests.project import Project, make_project
from tests.storied.behaviour import Course, Version, outcome, play
from tests.storied.plot import Turn, turns
from tests.storied.tasks import needs

ENDPOINT = Endpoint(engine="embedded", model="qwen2.5-coder-1.5b", context_length=8192, deterministic=True)
REASONS = {"skip": "patch 7 does not apply to the baseline", "invalid": "tests/test_agent.py is outside the surface"}


@dataclass(frozen=True)
class Story:
    """How large a history is."""

    epochs: int = 14
    tasks: int = 16
    holdout: int = 4
    steps: int = 12
    even: bool = False
    """Every rollout has exactly `steps` steps."""
    hostile: str = ""
    """Appended to whatever a model, a task, a harness or an estimator says."""
    words: int = 40


def tell(story: Story, place: Path, cache: Path) -> Project:
    """A project below `place` whose store holds the history."""
    project = make_project(place, cache, tasks=(), skills=())
    with Store.open(project.root / ".ht", create=True) as store:
        _Teller(story, project, store).tell()
    return project


class _Teller:
    def __init__(self, story: Story, project: Project, store: Store) -> None:
        self.story, self.project, self.store = story, project, store
        self.course = Course(story.steps, story.even, story.hostile, story.words)
        every = [replace(one, name=one.name + story.hostile) for one in needs(story.tasks + story.holdout)]
        self.splits = {"train": every[: story.tasks], "holdout": every[story.tasks :]}
        self.regime = Regime(
            endpoint=ENDPOINT.fingerprint, deterministic=True, sampling=Sampling(seed=12345, max_tokens=192),
            context_length=8192, sandbox=SandboxIdentity(kind="local", image=digest("host"), pins="1"),
        )  # fmt: skip
        store.put_endpoint(ENDPOINT)
        store.put_regime(self.regime)
        self.panels = {}
        for split, members in self.splits.items():
            listed = tuple(PanelTask(name=one.name, digest=digest(one.name), split=split) for one in members)
            self.panels[split] = Panel(name="quick", tasks=listed)
            store.put_panel(self.panels[split])
        self.criterion: Criterion = StrictPareto()
        self.cache = store.llm_cache()

    def tell(self) -> None:
        """Everything, from the first baseline to the last memo."""
        base = Version(self.project.git("rev-parse", "HEAD"))
        first = base
        run = self._run(base, "train", None)
        self._certify(run)
        self._run(base, "holdout", None)
        for number, turn in enumerate(turns(self.story.epochs), start=1):
            epoch = Epoch(number=number, base=base.commit, base_run=run.id, state="started", seconds=40.0 + number)
            if turn.kind in REASONS:
                self._failed(epoch, turn)
                continue
            version = self._changed(base, turn)
            if turn.kind in ("lose", "stop"):
                fault = self._fault(version, turn)
                abilities, added = (*version.abilities, fault), (*version.added, fault)
                version = replace(version, abilities=abilities, added=added)
            candidate = self._candidate(epoch, turn, base.commit, version.commit)
            measured = self._run(version, "train", base, turn=turn, against=run)
            verdict = self.criterion.judge(comparison_of(self.store, run.id, measured.id))
            self.store.put_verdict(verdict)
            promotion = self._promoted(verdict) if verdict.selected else None
            state = "promoted" if promotion else verdict.decision.value
            self.store.put_epoch(
                epoch.model_copy(
                    update={
                        "candidate": candidate.id, "cand_run": measured.id, "verdict": verdict.id, "state": state,
                        "promotion": promotion.id if promotion else None, "reason": verdict.sentence,
                    }
                )
            )  # fmt: skip
            if promotion:
                self.project.git("merge", "-q", "--ff-only", version.commit)
                base, run = Version(version.commit, version.abilities), measured
                self._certify(run)
            self._memo(number, turn, verdict)
        if base.commit != first.commit:
            self._run(base, "holdout", first)

    def _run(
        self,
        version: Version,
        split: str,
        base: Version | None,
        *,
        turn: Turn | None = None,
        against: Run | None = None,
    ) -> Run:
        panel = self.panels[split]
        stops = turn is not None and turn.kind == "stop"
        run = Run(
            id=Run.identify(version.commit, panel.digest, self.regime.digest, (1,)), commit=version.commit,
            panel=panel.digest, panel_name=panel.name, split=split, regime=self.regime.digest, seeds=(1,),
            early_stop_against=against.id if stops and against else None,
        )  # fmt: skip
        self.store.put_run(run)
        before = base.abilities if base else None
        for place, need in enumerate(self.splits[split]):
            if stops and place > 2 * len(self.splits[split]) // 3:
                break
            played = play(run, version, need, 1, self.course, before)
            rollout = played.rollout
            if turn is not None and turn.kind == "noise" and place % 3 == 0:
                failed = {"outcome": Outcome.INFRA_LLM, "detail": "connection reset" + self.story.hostile}
                rollout = rollout.model_copy(update={**failed, "reason": None, "reward": None, "from_caches": False})
            self.store.commit_rollout(rollout, played.trace)
            self._asked(played.rollout.requests_digest or "", rollout.llm_cached)
        self.store.complete_run(run.id)
        return run

    def _certify(self, run: Run) -> None:
        """As `ht epoch` does before it proposes."""
        for place, rollout in enumerate(self.store.rollouts(run.id)):
            self._certified(run, rollout, place)

    def _asked(self, request: str, hits: int) -> None:
        """The cache's own counters move as they do when exchanges are looked up."""
        if self.cache.get(request) is None:
            self.cache.put(request, Reply(content="ok", usage=Usage(prompt=10, completion=2)))
        for _ in range(min(hits, 3)):
            self.cache.get(request)

    def _certified(self, run: Run, rollout: Rollout, place: int) -> None:
        chain = rollout.chain_digest
        result = Certified.FORKED if place == 3 else Certified.EQUIVALENT if place % 4 == 1 else Certified.EXACT
        forked = result is Certified.FORKED
        hostile = self.story.hostile
        self.store.put_certificate(
            Certificate(
                id=digest([chain, result]), kind="env", run=run.id, regime=run.regime, task=rollout.task,
                task_digest=rollout.task_digest, seed=1, chain=chain, result=result, step=2 if forked else None,
                command="date +%N" + hostile if forked else None, recorded="104" if forked else None,
                observed="887" + hostile if forked else None,
            )
        )  # fmt: skip

    def _changed(self, base: Version, turn: Turn) -> Version:
        """A commit on the baseline that adds the turn's file."""
        path = self.project.root / "agent" / f"{turn.name}.py"
        old = path.read_text().splitlines() if path.exists() else ['"""What the harness tells the model."""', ""]
        path.write_text("\n".join([*old, f"# {turn.hypothesis}{self.story.hostile}", f'RULE = "{turn.name}"', ""]))
        self.project.git("checkout", "-q", "--detach")
        self.project.git("add", "agent")
        self.project.git("commit", "-q", "-m", turn.hypothesis)
        commit = self.project.git("rev-parse", "HEAD")
        self.project.git("update-ref", f"refs/ht/candidates/{commit}", commit)
        self.project.git("checkout", "-q", "main")
        return Version(commit, (*base.abilities, *turn.abilities), base.commit, turn.abilities, f"agent/{turn.name}.py")

    def _fault(self, version: Version, turn: Turn) -> str:
        """A fault that breaks something the version can do, and early in the panel."""
        early = self.splits["train"][: 2 * self.story.tasks // 3]
        solved = [need for need in early if outcome(version, need)[0] is Outcome.SOLVED]
        named = [f"fault {turn.name} {number}" for number in range(20)]
        return next((one for one in named if any(need.broken_by(one) for need in solved)), named[0])

    def _candidate(self, epoch: Epoch, turn: Turn, base: str, commit: str | None, **changes: object) -> Candidate:
        fields: dict[str, object] = {
            "id": digest([base, commit, turn.hypothesis, epoch.number]),
            "status": CandidateStatus.CANDIDATE,
            "base": base,
            "commit": commit,
            "estimator": "patches",
            "hypothesis": turn.hypothesis + self.story.hostile,
            "epoch": epoch.number,
            "files": (f"agent/{turn.name}.py",),
            "usage": Usage(prompt=9000, completion=700),
            **changes,
        }
        candidate = Candidate.model_validate(fields)
        self.store.put_candidate(candidate)
        return candidate

    def _failed(self, epoch: Epoch, turn: Turn) -> None:
        none, reason = turn.kind == "skip", REASONS[turn.kind] + self.story.hostile
        status = CandidateStatus.NO_CANDIDATE if none else CandidateStatus.INVALID
        candidate = self._candidate(epoch, turn, epoch.base, None, status=status, reason=reason)
        state = "skipped" if none else "failed"
        self.store.put_epoch(epoch.model_copy(update={"candidate": candidate.id, "state": state, "reason": reason}))

    def _promoted(self, verdict: Verdict) -> Promotion:
        promotion = Promotion(
            id=digest(["promotion", verdict.id]), verdict=verdict.id, branch="main", old=verdict.base_commit,
            new=verdict.cand_commit, state="intended",
        )  # fmt: skip
        self.store.put_promotion(promotion)
        done = promotion.model_copy(update={"state": "done"})
        self.store.put_promotion(done)
        return done

    def _memo(self, number: int, turn: Turn, verdict: Verdict) -> None:
        lines = [
            "# Memo",
            "",
            f"Last: epoch {number}, {turn.hypothesis}: {verdict.decision.value}, {verdict.sentence}.",
            "",
            "The model answers in fences, and wraps commands in prose when a task names several files.",
            "",
            *_said("Gained", (flip.task for flip in verdict.gained)),
            *_said("Lost", (flip.task for flip in verdict.lost)),
        ]
        text = "\n".join(lines) + self.story.hostile
        self.store.put_memo(
            Memo(id=digest(text), text=text, epoch=number, verdict=verdict.id, author="patches" + self.story.hostile)
        )


def _said(what: str, tasks: Iterable[str]) -> Sequence[str]:
    named = ", ".join(tasks)
    return (f"- {what}: {named}.",) if named else ()
