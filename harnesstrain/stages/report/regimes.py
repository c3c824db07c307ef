"""Under what else the store's runs were measured: only the fields that differ."""

from __future__ import annotations

from typing import Any

from harnesstrain.core.errors import NotFound
from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.run import Regime
from harnesstrain.stages.report.source import Records


class RegimeShown(Record):
    """One other regime, against the reported one."""

    digest: str
    runs: int
    """Measured under it."""
    differs: dict[str, tuple[str, ...]]
    """By field: the reported value, the other value."""


class Regimes(Record):
    """The reported regime among all."""

    digest: str
    runs: int
    """Measured under the reported regime."""
    others: tuple[RegimeShown, ...] = ()
    unknown: int = 0
    """Runs whose regime the store does not know."""


def regimes(records: Records, reported: Regime) -> Regimes:
    """The reported regime and every other one that a run of the store was measured under, in order of first use."""
    counts: dict[str, int] = {}
    for run in records.runs():
        counts[run.regime] = counts.get(run.regime, 0) + 1
    others, unknown = [], 0
    for digest, count in counts.items():
        if digest == reported.digest:
            continue
        try:
            other = records.regime(digest)
        except NotFound:
            unknown += count
            continue
        differs = {
            name: tuple(_model(records, str(one)) if name == "endpoint" else _said(one) for one in both)
            for name, both in reported.differing(other).items()
        }
        others.append(RegimeShown(digest=digest, runs=count, differs=differs))
    return Regimes(digest=reported.digest, runs=counts.get(reported.digest, 0), others=tuple(others), unknown=unknown)


def _model(records: Records, fingerprint: str) -> str:
    try:
        found = records.endpoint(fingerprint)
    except NotFound:
        return fingerprint
    return f"{found.model} on {found.engine}, {short(fingerprint)}"


def _said(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list | tuple):
        return ", ".join(str(one) for one in value) or "–"
    return str(value)
