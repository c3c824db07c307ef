"""Every kind of record has a page; what a page has no words for is shown as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.cli.particulars import PAGES, page
from harnesstrain.cli.showing import record_of, render
from harnesstrain.cli.styled import text_of
from harnesstrain.store import Store
from harnesstrain.store.kinds import KINDS
from tests.project import Project
from tests.storied import Story, tell


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Project:
    """A short history."""
    return tell(Story(epochs=4, tasks=5, steps=3), tmp_path_factory.mktemp("told"), cache_folder)


def shown(store: Store, name: str, width: int | None = 90) -> list[str]:
    return [text_of(one) for one in render(record_of(store, name), width)]


def test_every_kind_has_one() -> None:
    assert set(PAGES) == set(KINDS)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"epoch", "task"}))
def test_no_raw_field_is_left(told: Project, kind: str) -> None:
    with told.store() as store:
        for entry in list(store.entries(kind))[-2:]:
            lines = shown(store, entry.id)
            assert lines[0] == f"{kind} {entry.id}"
            raw = [one for one in lines if one[:14].strip() and one[14:16] in ('{"', '["') and not one.startswith(" ")]
            assert raw == []


def test_a_run_leads_to_its_rollouts(told: Project) -> None:
    with told.store() as store:
        epoch = store.epoch(1)
        run = epoch.cand_run or ""
        lines = shown(store, run[:10])
        assert any(one.startswith("solved") and "complete" in one for one in lines)
        assert any(epoch.verdict and epoch.verdict[:8] in one for one in lines)
        (command,) = [one for one in lines if one.startswith(f"ht show {run[:8]}:")]
        name = command.split()[2]
        rollout = shown(store, name)
        assert rollout[0].startswith("rollout ")
        assert any(one.startswith("step 0 reply (") for one in rollout)
        assert any(one.strip() == f"│ {'exit 0'}" or one.startswith("  │ ") for one in rollout)


def test_an_epoch_leads_to_all_it_left(told: Project) -> None:
    with told.store() as store:
        epoch = store.epoch(1)
        text = "\n".join(shown(store, "e1"))
    for id in (epoch.base_run, epoch.cand_run, epoch.candidate, epoch.verdict):
        assert id is not None and id[:8] in text
    assert f"ht show {(epoch.verdict or '')[:8]}" in text


def test_fields_of_another_version() -> None:
    lines = [text_of(one) for one in page("memo", "m" * 64, {"text": "x", "new_field": {"a": 1}}, {}, None)]
    assert 'new field     {"a": 1}' in lines
    lines = [text_of(one) for one in page("gadget", "g" * 64, {"id": "g", "colour": "red", "empty": ""}, {}, None)]
    assert lines == [f"gadget {'g' * 64}", "colour        red"]
