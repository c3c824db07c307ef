"""What a lost trace means: it stays lost, and what may be done instead, with the version and the panel."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from harnesstrain.core.errors import NotFound, StoreCorrupt
from harnesstrain.core.ids import short

if TYPE_CHECKING:
    from harnesstrain.core.records.run import Run
    from harnesstrain.store import Store

SALT = "again"


def instead(store: Store, root: Path, run: str, lost: Collection[str] = ()) -> str:
    """What there is instead of a run's trace.  `lost`: runs whose traces are lost, too."""
    from harnesstrain.taskset import panel_names

    try:
        record = store.run(run)
    except NotFound:
        return "it stays lost"
    if record.imported is not None:
        return "it stays lost"
    salts = {one.salt: one for one in store.runs() if _alike(one, record)}
    anew = [one for one in salts.values() if one.id not in (run, *lost) and store.is_complete(one.id)]
    if anew:
        return f"it stays lost; run {short(anew[-1].id)} measured the same anew"
    salt = next(one for one in (SALT, *(f"{SALT}-{number}" for number in range(2, len(salts) + 3))) if one not in salts)
    named = record.panel_name.partition(":")[0] in panel_names(root)
    command = record.model_copy(update={"salt": salt}).command(panel=named)
    return f"it stays lost; `{command}` measures the same anew, as another run"


def explain(store: Store, root: Path, error: StoreCorrupt, lost: Collection[str] = ()) -> None:
    """Complete the hint of an error that names the run of a lost trace."""
    if isinstance(run := error.extra.get("run"), str):
        error.hint = instead(store, root, run, lost)


def _alike(one: Run, other: Run) -> bool:
    return (one.commit, one.panel, one.regime, one.seeds) == (other.commit, other.panel, other.regime, other.seeds)
