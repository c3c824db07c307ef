"""Panels whose tasks are published elsewhere, subsets, and the two that are shipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError, NotFound, Prerequisite
from harnesstrain.taskset import load_panel
from harnesstrain.taskset.panels import find_panel_file

MakeTask = Callable[..., Path]
SOURCE = f'[source]\nrepository = "https://example.org/x.git"\ncommit = "{"1" * 40}"\n'


def write(root: Path, text: str) -> None:
    """Write tasksets/mine.toml."""
    (root / "tasksets").mkdir(exist_ok=True)
    (root / "tasksets/mine.toml").write_text(text)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, of this test only."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("name", "counts"),
    [("terminal-bench", {"train": 36, "holdout": 53}), ("swe-bench", {"train": 39, "holdout": 461})],
)
def test_shipped_panels(name: str, counts: dict[str, int]) -> None:
    panel = find_panel_file(name)
    assert panel is not None and panel.published is not None
    assert {split: len(names) for split, names in panel.splits.items() if names} == counts
    assert len(set(panel.names)) == len(panel.names) == sum(counts.values())
    with pytest.raises(Prerequisite, match="were not pulled yet") as caught:
        load_panel(name)
    assert f"`ht tasks pull {name}`" in str(caught.value.hint)


def test_the_subset_without_attacks_has_76_tasks() -> None:
    panel = find_panel_file("terminal-bench")
    assert panel is not None
    left = set(panel.names) - set(panel.subsets["no-cyber"].exclude)
    assert len(left) == 76
    assert set(panel.splits["train"]) <= left


def test_the_names_are_those_of_the_published_panels() -> None:
    place = Path(__file__).parents[3] / "shared/realdata/panels.json"
    if not place.is_file():
        pytest.skip(f"no panels.json at {place}")
    import json

    known = json.loads(place.read_text())
    for name, key in (("terminal-bench", "terminal_bench"), ("swe-bench", "swebench")):
        panel = find_panel_file(name)
        assert panel is not None
        assert Counter(panel.names) == Counter(known[f"{key}_full"])
        assert list(panel.splits["train"]) == known[f"{key}_train"]
    tb = find_panel_file("terminal-bench")
    assert tb is not None
    assert set(tb.names) - set(tb.subsets["no-cyber"].exclude) == set(known["terminal_bench_no_cyber"])


def test_subsets_keep_splits_and_order(tmp_path: Path, make_task: MakeTask) -> None:
    for name in ("b", "a", "c"):
        make_task(name, folder=tmp_path / "tasksets/set")
    subsets = '[panel.subsets]\nshort = ["a", "b"]\nrest = { exclude = ["a"] }\n'
    write(tmp_path, f'[panel]\nsource = "set"\ntrain = ["b", "a"]\nholdout = ["c"]\n{subsets}')

    def part(name: str) -> list[tuple[str, str]]:
        return [(one.name, one.split) for one in load_panel(name, tmp_path).panel.tasks]

    assert part("mine:short") == [("b", "train"), ("a", "train")]
    assert part("mine:rest") == [("b", "train"), ("c", "holdout")]
    assert load_panel("mine:rest", tmp_path).panel.name == "mine:rest"
    assert part("tasksets/mine.toml:short") == part("mine:short")
    with pytest.raises(NotFound, match="has no subset 'shirt'") as caught:
        load_panel("mine:shirt", tmp_path)
    assert caught.value.hint == "did you mean 'mine:short'?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[panel]\nsource = "set"\ntrain = ["a"]\n' + SOURCE, "a source and a \\[source\\] table"),
        ('[panel]\ntrain = ["a*"]\n' + SOURCE, "'a\\*' is no name"),
        ('[panel]\ntrain = ["a"]\n' + SOURCE.replace("1" * 40, "main"), ":5: source.commit must be 40"),
        ('[panel]\ntrain = ["a"]\n' + SOURCE + 'path = "../x"\n', "lies outside"),
        ('[panel]\ntrain = ["a"]\n' + SOURCE + 'format = "x"\n', "no format 'x'"),
        ('[panel]\ntrain = ["a"]\n' + SOURCE + "digest = 1\n", "must be a string"),
        ('[panel]\ntrain = ["a"]\n' + SOURCE + 'bytes = "1"\n', "number of bytes"),
        ('[panel]\ntrain = ["a"]\n' + SOURCE + "sha = 1\n", "unknown key 'source.sha'"),
        ('[panel]\ntrain = ["a"]\n[source]\ncommit = "1"\n', "no repository"),
        ('[panel]\nsource = "set"\ntrain = ["a"]\n[panel.subsets]\nx = "a"\n', "neither a list nor"),
    ],
)
def test_what_is_wrong_in_a_panel_file(tmp_path: Path, make_task: MakeTask, text: str, message: str) -> None:
    make_task("a", folder=tmp_path / "tasksets/set")
    write(tmp_path, text)
    with pytest.raises(ConfigError, match=message):
        load_panel("mine", tmp_path)


def test_a_name_of_a_panel_never_leaves_the_cache(cache: Path, tmp_path: Path) -> None:
    write(tmp_path, '[panel]\nname = "../../x"\ntrain = ["a"]\n' + SOURCE)
    panel = find_panel_file("mine", tmp_path)
    assert panel is not None and panel.published is not None
    assert panel.published.folder(panel.name).parent == cache / "harnesstrain/datasets"
