"""Which record goes into which table, what its id is, and which of its fields that id determines.

A record put again with the fields its id determines unchanged is either the same row (nothing happens) or a
correction (a new row; the newest counts).  With one of those fields changed, two records claim one id: StoreCorrupt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.candidate import Candidate
from harnesstrain.core.records.certificate import Certificate
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.core.records.rollout import Rollout
from harnesstrain.core.records.run import Regime, Run
from harnesstrain.core.records.task import Panel, Task
from harnesstrain.core.records.verdict import Epoch, Memo, Promotion, Verdict
from harnesstrain.store import schema


@dataclass(frozen=True)
class Kind:
    """One kind of record."""

    name: str
    table: sa.Table
    model: type[Record]
    key: Callable[[Any], str]
    """The id of a record."""
    fixed: frozenset[str] | None = None
    """Fields that the id determines; None: all of them."""
    columns: Callable[[Any], dict[str, Any]] = field(default=lambda record: {})
    """Copies of fields for look-ups."""
    readable: bool = True
    """Whether a record can be built again from its row (a Task holds paths that are not kept)."""


def _id(record: Any) -> str:
    return str(record.id)


def _copy(*names: str) -> Callable[[Any], dict[str, Any]]:
    return lambda record: {name: getattr(record, name) for name in names}


def _rollout_columns(record: Rollout) -> dict[str, Any]:
    return {
        **_copy("run", "task", "seed", "attempt", "llm_calls", "actions", "recorded_time", "trace")(record),
        "outcome": record.outcome.value,
        "solved": int(record.solved),
        "scorable": int(record.outcome.scorable),
        "tokens": record.usage.total,
    }


ENDPOINT = Kind(
    "endpoint",
    schema.endpoints,
    Endpoint,
    lambda record: str(record.fingerprint),
    frozenset({"engine", "model", "context_length", "identity"}),
)
REGIME = Kind("regime", schema.regimes, Regime, lambda record: str(record.digest), columns=_copy("endpoint"))
TASK = Kind(
    "task",
    schema.tasks,
    Task,
    lambda record: str(record.digest),
    frozenset({"digest", "instruction"}),
    _copy("name"),
    readable=False,
)
PANEL = Kind("panel", schema.panels, Panel, lambda record: str(record.digest), frozenset(), _copy("name"))
RUN = Kind(
    "run",
    schema.runs,
    Run,
    _id,
    frozenset({"id", "commit", "panel", "regime", "seeds", "salt"}),
    _copy("commit", "panel", "regime"),
)
ROLLOUT = Kind("rollout", schema.rollouts, Rollout, _id, columns=_rollout_columns)
CANDIDATE = Kind(
    "candidate",
    schema.candidates,
    Candidate,
    _id,
    frozenset({"id", "status", "base", "commit", "estimator"}),
    _copy("commit", "epoch"),
)
VERDICT = Kind(
    "verdict",
    schema.verdicts,
    Verdict,
    _id,
    frozenset({"id", "base_run", "cand_run", "criterion", "regime", "inputs", "decision"}),
    lambda record: {**_copy("base_run", "cand_run")(record), "decision": record.decision.value},
)
PROMOTION = Kind(
    "promotion",
    schema.promotions,
    Promotion,
    _id,
    frozenset({"id", "verdict", "branch", "old", "new"}),
    _copy("verdict", "new", "state"),
)
MEMO = Kind("memo", schema.memos, Memo, _id, columns=_copy("epoch"))
EPOCH = Kind(
    "epoch", schema.epochs, Epoch, lambda record: str(record.number), frozenset({"number"}), _copy("number", "state")
)
CERTIFICATE = Kind(
    "certificate",
    schema.certificates,
    Certificate,
    _id,
    frozenset({"id", "kind", "regime", "task_digest", "chain"}),
    lambda record: {
        **_copy("kind", "run", "regime", "task", "task_digest", "chain")(record),
        "result": record.result.value,
    },
)

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        RUN,
        CANDIDATE,
        VERDICT,
        ROLLOUT,
        CERTIFICATE,
        PROMOTION,
        MEMO,
        EPOCH,
        REGIME,
        PANEL,
        TASK,
        ENDPOINT,
    )
}
"""Every kind by name, in the order in which an ambiguous prefix lists them."""
