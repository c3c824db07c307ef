"""Runs and the regimes they are measured under."""

from __future__ import annotations

import shlex
from typing import Any

from pydantic import Field

from harnesstrain.core.digests import digest
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Sampling
from harnesstrain.core.records.sandbox import Limits, SandboxIdentity

CONFIGURED = "llm"
"""The name of the model that [llm] configures, among endpoints."""
MODEL_BOUND = ("endpoint", "deterministic", "context_length")
"""Fields of a regime that come with the model."""
MEASUREMENT_VERSION = 1
"""Raised whenever the measuring code changes what it measures."""


class Budgets(Record):
    """What one rollout may spend.  Steps and tokens are exact; time is recorded time."""

    steps: int = 30
    """Model calls."""
    actions: int = 200
    """Environment actions."""
    tokens: int = 200_000
    """Completion plus prompt tokens, over the rollout."""
    time: float = 900.0
    """Recorded seconds; a task's own timeout replaces it when it has one."""
    time_multiplier: float = 1.0
    """Stretches every time budget."""


class Regime(Record):
    """Everything besides the harness version that determines a measurement."""

    endpoint: str
    """Fingerprint of the model endpoint."""
    deterministic: bool
    sampling: Sampling
    context_length: int
    sandbox: SandboxIdentity
    limits: Limits = Field(default_factory=Limits)
    """What a sandbox may use where its task names nothing."""
    budgets: Budgets = Field(default_factory=Budgets)
    grading: str = "submitted"
    """`submitted`: only a submitted state can be solved.  `final_state`: grade whatever is there at the end.
    `imported`: as another program did."""
    overrides: tuple[str, ...] = ("max_tokens", "stop")
    """Sampling fields that a harness may change; max_tokens only downwards."""
    harness_environment: str | None = None
    """Lock digest of the harness's virtual environment."""
    version: int = MEASUREMENT_VERSION

    @property
    def digest(self) -> str:
        """The measurement identity: two runs are comparable only if it is equal."""
        return digest(self)

    def differing(self, other: Regime) -> dict[str, tuple[Any, Any]]:
        """The fields in which `other` differs, dotted, with the plain value of both."""
        left, right = (_flat(one.model_dump(mode="json")) for one in (self, other))
        keys = sorted({*left, *right})
        return {key: (left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)}


IMPORTED = "imported"
"""The grading rule of a regime that another program measured under."""


class Imported(Record):
    """Where a run comes from that another program measured."""

    program: str
    """harbor."""
    job: str
    """Id of the job that it was."""
    name: str
    """What the job is called."""
    agent: str
    version: str
    """Of the agent: it has no commit."""
    model: str | None = None


class Run(Record):
    """The rollouts of one harness version over one panel under one regime, for some seeds."""

    id: str
    """digest(commit, panel, regime, seeds, salt)."""
    commit: str
    panel: str
    """Panel digest."""
    panel_name: str
    split: str | None = None
    """None: the whole panel."""
    regime: str
    """Regime digest."""
    seeds: tuple[int, ...]
    salt: str = ""
    """From --fresh; empty otherwise."""
    early_stop_against: str | None = None
    """The baseline run against which the cells that were not measured cannot change the verdict."""
    imported: Imported | None = None
    """Set when another program measured it; `commit` is then a digest of the agent, and no git knows it."""
    asked_as: tuple[str, ...] = ()
    """How its model was named: `llm` for the configured one, else what --endpoint said.  Empty: the configured one."""
    include: tuple[str, ...] = ()
    """Globs that chose its tasks, as far as they were recorded; the panel's digest says which tasks these are."""
    exclude: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    """`KEY=VALUE` of what --set said of its model and its kind of sandbox, as far as that was recorded.  Paths are
    relative to the project where they lie in it."""

    @property
    def configured(self) -> bool:
        """Whether the model was the one of [llm] when it was measured."""
        return not self.asked_as or CONFIGURED in self.asked_as

    @property
    def place(self) -> str:
        """What was measured and how, in a few words: panel, split, seeds, salt, and the model where it was named."""
        seeds = f", {len(self.seeds)} seeds" if len(self.seeds) > 1 else ""
        salt = f", --fresh {shlex.quote(self.salt)}" if self.salt else ""
        model = "" if self.configured else f", on {self.asked_as[0]}"
        return f"{self.panel_name}/{self.split or 'all'}{seeds}{salt}{model}"

    def command(self, *, panel: bool = False) -> str:
        """The command that asks for this run, as far as it is on record: where its regime is not the one in use, more
        is to be said.  `panel`: its panel can be loaded by name, and has to be named.
        """
        named = f" --panel {shlex.quote(self.panel_name)}" if panel else ""
        globs = [f" --include {shlex.quote(one)}" for one in self.include]
        globs += [f" --exclude {shlex.quote(one)}" for one in self.exclude]
        seeds = f" --seeds {len(self.seeds)}" if len(self.seeds) > 1 else ""
        salt = f" --fresh {shlex.quote(self.salt)}" if self.salt else ""
        endpoint = "" if self.configured else f" --endpoint {shlex.quote(self.asked_as[0])}"
        said = [one for one in self.given if self.configured or not one.startswith(f"{CONFIGURED}.")]
        given = "".join(f" --set {shlex.quote(one)}" for one in said)
        split = f"{named} --split {self.split or 'all'}{''.join(globs)}"
        return f"ht evaluate {self.commit[:8]}{split}{seeds}{salt}{endpoint}{given}"

    @staticmethod
    def identify(commit: str, panel: str, regime: str, seeds: tuple[int, ...], salt: str = "") -> str:
        """The run id: the same command is the same run."""
        return digest({"commit": commit, "panel": panel, "regime": regime, "seeds": list(seeds), "salt": salt})

    def rollout_id(self, task: str, seed: int, attempt: int = 1) -> str:
        """Id of one attempt at one cell.  Later attempts exist only after infrastructure failures."""
        return digest({"run": self.id, "task": task, "seed": seed, "attempt": attempt})


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested maps as dotted keys."""
    if not isinstance(value, dict):
        return {prefix: value}
    found: dict[str, Any] = {}
    for name, item in value.items():
        found |= _flat(item, f"{prefix}.{name}" if prefix else name)
    return found
