"""What the rollout tests make things with: tasks, harness programs, a bench."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harnesstrain.core.ports import LlmCache
from harnesstrain.core.records.harness import Manifest
from harnesstrain.core.records.llm import Reply, Sampling
from harnesstrain.core.records.run import Budgets, Regime
from harnesstrain.core.records.task import Environment, Task, Verifier
from harnesstrain.harness.template import sdk_source
from harnesstrain.llm.cached import CachedModel
from harnesstrain.llm.script import Rule, Script, Settings
from harnesstrain.llm.scripted import ScriptedModel
from harnesstrain.rollout.bench import Bench, Cell, Finished
from harnesstrain.rollout.episode import attempt
from harnesstrain.sandbox.base import Sandbox

PASS_IF_DONE = (
    "mkdir -p /logs/verifier\nif [ -e /app/done ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
)
"""A verifier: the task is to make /app/done."""

SDK = "from ht_sdk import *\ndef solve(ep):\n"


class Kept(dict[str, Reply]):
    """An LLM cache in memory."""

    def put(self, key: str, reply: Reply) -> None:
        self.setdefault(key, reply)


class Workbench:
    """Makes cells and plays them."""

    def __init__(self, place: Path, sandbox: Sandbox) -> None:
        self.place = place
        self.sandbox = sandbox
        self.isolated = True
        self.model: ScriptedModel | None = None

    def task(self, test_sh: str = PASS_IF_DONE, **changes: Any) -> Task:
        """A task whose environment is an empty /app."""
        tests = self.place / "tests"
        tests.mkdir(exist_ok=True)
        (tests / "test.sh").write_text(test_sh)
        verifier = Verifier(tests=tests, timeout=20, digest="0" * 64)
        fields: dict[str, Any] = {
            "name": "make-done",
            "digest": "1" * 64,
            "instruction": "Make /app/done.",
            "environment": Environment(workdir="/app", digest="2" * 64),
            "verifier": verifier,
        }
        return Task(**(fields | changes))

    def cell(self, program: str, task: Task | None = None, *, seed: int = 1) -> Cell:
        """One attempt of a harness whose program is the given python text."""
        tree = self.place / "tree"
        tree.mkdir(exist_ok=True)
        (tree / "main.py").write_text(program)
        (tree / "ht_sdk.py").write_bytes(sdk_source().read_bytes())
        manifest = Manifest(name="test", command=("python", "main.py"), surface=("agent/**",))
        return Cell(
            run="3" * 64,
            rollout="4" * 64,
            task=task or self.task(),
            seed=seed,
            attempt=1,
            worktree=tree,
            manifest=manifest,
        )

    def bench(
        self,
        rules: Iterable[Rule | Mapping[str, Any]] | Script = ({"reply": "ok"},),
        *,
        budgets: Budgets | None = None,
        sampling: Sampling | None = None,
        grading: str = "submitted",
        cache: LlmCache | None = None,
        settings: Settings | None = None,
        **more: Any,
    ) -> Bench:
        """Devices around a scripted model."""
        self.model = ScriptedModel(rules if isinstance(rules, Script) else list(rules), settings)
        endpoint = self.model.endpoint()
        regime = Regime(
            endpoint=endpoint.fingerprint,
            deterministic=endpoint.deterministic,
            sampling=sampling or Sampling(max_tokens=100),
            context_length=endpoint.context_length,
            sandbox=self.sandbox.identity(),
            budgets=budgets or Budgets(),
            grading=grading,
        )
        return Bench(
            model=CachedModel(self.model, cache),
            sandbox=self.sandbox,
            regime=regime,
            isolated=self.isolated,
            **more,
        )

    def play(self, program: str, bench: Bench | None = None, task: Task | None = None, **more: Any) -> Finished:
        """One attempt, played."""
        return attempt(self.cell(program, task, **more), bench or self.bench())

    def solve(self, body: str, bench: Bench | None = None, task: Task | None = None, **more: Any) -> Finished:
        """One attempt of an SDK harness; `body` are the lines of `solve(ep)`."""
        lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
        return self.play(f"{SDK}{lines}\nserve(solve)\n", bench, task, **more)
