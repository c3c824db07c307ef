"""The example history is one that the product itself would have made."""

from __future__ import annotations

from pathlib import Path

from harnesstrain.stages.judging.derive import rederived
from harnesstrain.stages.report.history import log
from harnesstrain.store import Store
from tests.storied import Story, tell


def test_every_kind_of_epoch_is_in_it_and_every_verdict_holds(tmp_path: Path, cache_folder: Path) -> None:
    project = tell(Story(steps=4), tmp_path, cache_folder)
    with Store.open(project.root / ".ht") as store:
        assert {row.state for row in log(store)} == {"promoted", "rejected", "unmeasurable", "skipped", "failed"}
        assert [rederived(store, verdict) for verdict in store.verdicts()] == [()] * len(store.verdicts())
        assert store.fsck() == []
        last = store.verdicts()[-1]
        assert last.gained and last.lost and last.excluded
        assert any(verdict.not_needed for verdict in store.verdicts())


def test_the_same_story_is_the_same_history(tmp_path: Path, cache_folder: Path) -> None:
    told = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        project = tell(Story(epochs=3, tasks=4, holdout=0, steps=2), tmp_path / name, cache_folder)
        with Store.open(project.root / ".ht") as store:
            told.append([rollout.measurement for run in store.runs() for rollout in store.rollouts(run.id)])
    assert told[0] == told[1]
