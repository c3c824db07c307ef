"""Ids from prefixes."""

from __future__ import annotations

import pytest

from harnesstrain.core.errors import Ambiguous, NotFound, UsageError
from harnesstrain.core.records.verdict import Memo
from harnesstrain.store import Store
from tests.store.making import PANEL, a_rollout, a_trace, recorded


def test_any_kind_is_found_by_a_unique_prefix(store: Store) -> None:
    run = recorded(store)
    rollout = a_rollout(run)
    store.commit_rollout(rollout, a_trace(rollout))
    for kind, identifier in (("run", run.id), ("rollout", rollout.id), ("panel", PANEL.digest)):
        found = store.resolve(identifier[:8].upper())
        assert (found.kind, found.id) == (kind, identifier)
    assert store.resolve(run.id).kind == "run"


def test_several_matches_are_listed_and_kinds_narrow_them(store: Store) -> None:
    run = recorded(store)
    twins = [run.id[:6] + "0" * 58, run.id[:6] + "1" * 58]
    for twin in twins:
        store.put_memo(Memo(id=twin, text=twin))
    with pytest.raises(Ambiguous) as caught:
        store.resolve(run.id[:6])
    assert caught.value.extra["candidates"] == sorted([run.id, *twins])
    assert store.resolve(run.id[:6], kinds=["run"]).id == run.id
    assert store.resolve(twins[1][:7], kinds=["memo", "run"]).id in (twins[1], run.id)


@pytest.mark.parametrize(
    ("prefix", "error"),
    [("abc", UsageError), ("", UsageError), ("abcd", NotFound), ("main", NotFound), ("%%%%", NotFound)],
)
def test_what_cannot_be_an_id(store: Store, prefix: str, error: type[Exception]) -> None:
    recorded(store)
    with pytest.raises(error):
        store.resolve(prefix, kinds=["memo"])


def test_an_unknown_kind_is_a_usage_error(store: Store) -> None:
    with pytest.raises(UsageError, match="no kind 'tree'"):
        store.resolve("abcd", kinds=["tree"])
