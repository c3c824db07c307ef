"""Panels: files, lookup, splits, selection, checks."""

from __future__ import annotations

import os
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.errors import ConfigError, NotFound, Unsupported, UsageError
from harnesstrain.taskset import check_panel, load_panel, panel_names
from harnesstrain.taskset.base import SPLITS
from harnesstrain.taskset.document import Document
from harnesstrain.taskset.panelfile import PanelFile, parse, places

MakeTask = Callable[..., Path]
NAMES = ("alpha", "beta", "gamma", "fix-one", "fix-two")


@pytest.fixture
def root(tmp_path: Path, make_task: MakeTask) -> Path:
    """A directory with tasksets/mine.toml over five tasks."""
    folder = tmp_path / "tasksets"
    for name in NAMES:
        make_task(name, folder=folder / "mine")
    write(tmp_path, 'train = ["beta", "alpha"]\nholdout = ["fix-*"]\nsealed = ["gamma"]\n')
    return tmp_path


def write(root: Path, splits: str, source: str = "mine", name: str = "mine") -> Path:
    """Write a panel file."""
    path = root / "tasksets" / f"{name}.toml"
    path.write_text(f'[panel]\nsource = "{source}"\n{splits}')
    return path


def test_a_panel_keeps_its_order_and_splits(root: Path) -> None:
    loaded = load_panel("mine", root)
    assert [(one.name, one.split) for one in loaded.panel.tasks] == [
        ("beta", "train"),
        ("alpha", "train"),
        ("fix-one", "holdout"),
        ("fix-two", "holdout"),
        ("gamma", "sealed"),
    ]
    assert list(loaded.tasks) == [one.name for one in loaded.panel.tasks]
    assert all(loaded.tasks[one.name].digest == one.digest for one in loaded.panel.tasks)


def test_selection_by_split_and_globs(root: Path) -> None:
    loaded = load_panel("mine", root)

    def names(*args: object, **options: object) -> list[str]:
        return [one.name for one in loaded.select(*args, **options).panel.tasks]  # type: ignore[arg-type]

    assert names("train") == ["beta", "alpha"]
    assert names() == [one.name for one in loaded.panel.tasks]
    assert names("holdout", exclude=["*-two"]) == ["fix-one"]
    assert names(include=["fix-*", "gamma"]) == ["fix-one", "fix-two", "gamma"]
    assert names("train", include=["*a"], exclude=["beta"]) == ["alpha"]
    narrowed = loaded.select("train")
    assert list(narrowed.tasks) == ["beta", "alpha"]
    assert narrowed.panel.digest != loaded.panel.digest


def test_a_selection_that_says_nothing_is_refused(root: Path) -> None:
    loaded = load_panel("mine", root)
    with pytest.raises(UsageError, match="no split 'training'"):
        loaded.select("training")
    with pytest.raises(UsageError) as caught:
        loaded.select(include=["alpa"])
    assert caught.value.hint == "did you mean 'alpha'?"
    with pytest.raises(UsageError, match="'nothing' matches no task"):
        loaded.select(exclude=["nothing"])
    with pytest.raises(ConfigError, match="no task is left"):
        loaded.select("train", include=["gamma"])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "no [panel] table"),
        ("[panel]\n", 1, "has no source"),
        ('[panel]\nsource = "mine"\n', 1, "the panel is empty"),
        ('[panel]\nsource = "mine"\ntrain = []\n', 1, "the panel is empty"),
        ('[panel]\nsource = "nowhere"\ntrain = ["*"]\n', 2, "no directory 'nowhere'"),
        ('[panel]\nsource = "mine"\ntrain = ["alpa"]\n', 3, "no task 'alpa'"),
        ('[panel]\nsource = "mine"\ntrain = ["x*"]\n', 3, "matches no task"),
        ('[panel]\nsource = "mine"\ntrain = ["alpha", "alpha"]\n', 3, "named twice: train, train"),
        ('[panel]\nsource = "mine"\ntrain = ["*"]\nholdout = ["alpha"]\n', 4, "named twice: train, holdout"),
        ('[panel]\nsource = "mine"\ntrain = "alpha"\n', 3, "must be a list"),
        ('[panel]\nsource = "mine"\ntrain = [1]\n', 3, "must be a list"),
        ('[panel]\nsource = "mine"\ntrain = ["../mine/alpha"]\n', 3, "is no task name"),
        ('[panel]\nsource = "mine"\ntrian = ["alpha"]\n', 3, "unknown key 'panel.trian'"),
        ('[panel]\nsource = "mine"\ntrain = ["*"]\n[panels]\n', 4, "unknown key 'panels'"),
        ('[panel]\nname = ""\nsource = "mine"\ntrain = ["*"]\n', 2, "name must be"),
        ('[panel]\nsource = "mine"\ntrain = ["*"\n', 3, "not TOML"),
        ('[panel]\nsource = "a\\u0000"\ntrain = ["*"]\n', 2, "source must be"),
    ],
)
def test_a_wrong_panel_file_names_file_and_line(root: Path, text: str, line: int | None, message: str) -> None:
    path = root / "tasksets/mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_panel("mine", root)
    assert caught.value.message.startswith(f"{path}:{line}: " if line else str(path))
    assert message in caught.value.message
    assert caught.value.hint


def test_a_name_is_a_path_else_a_file_here_else_shipped(root: Path, make_task: MakeTask) -> None:
    assert {"demo", "mine", "quick"} <= set(panel_names(root))
    assert len(load_panel("quick", root).places) == 32
    write(root, 'train = ["alpha"]\n', name="quick")
    assert [one.task for one in load_panel("quick", root).places] == ["alpha"]
    make_task("only", folder=root / "quick")
    assert [one.task for one in load_panel("quick", root).places] == ["only"]
    assert load_panel("tasksets/mine.toml", root).name == "mine"
    assert load_panel(root / "tasksets/mine.toml").name == "mine"


def test_a_directory_of_tasks_is_a_panel_and_so_is_one_task(root: Path) -> None:
    (root / "tasksets/mine/notes").mkdir()
    loaded = load_panel("./tasksets/mine", root)
    assert (loaded.name, {one.split for one in loaded.places}) == ("mine", {"train"})
    assert [one.task for one in loaded.places] == sorted(NAMES)
    assert [one.task for one in load_panel(root / "tasksets/mine/alpha").places] == ["alpha"]


def test_a_panel_file_may_select_from_a_shipped_set(root: Path) -> None:
    write(root, 'train = ["fix-*"]\n', source="quick", name="bugs")
    assert "fix-countdown" in load_panel("bugs", root).tasks


@pytest.mark.parametrize(
    "name", [b"fix-\xff", b"fix-\n  9 of 9 forged", b"fix-\t", b"fix-\x1b[2J", b"fix-\xe2\x80\xa8"]
)
def test_a_directory_whose_name_is_no_line_of_text_is_no_task(root: Path, name: bytes) -> None:
    folder = root / "tasksets" / "mine"
    (folder / "fix-one").rename(os.fsdecode(os.fsencode(folder) + b"/" + name))
    for asked in ("mine", str(folder)):
        with pytest.raises(ConfigError, match="holds what is no text") as caught:
            load_panel(asked, root)
        assert caught.value.message.isascii() and caught.value.message.isprintable()
        assert caught.value.hint == "rename its directory"


def test_unknown_panels_and_empty_directories(root: Path) -> None:
    with pytest.raises(NotFound) as caught:
        load_panel("min", root)
    assert caught.value.hint == "did you mean 'mine'?"
    for text in ("", "no/such/path", "missing.toml"):
        with pytest.raises(NotFound):
            load_panel(text, root)
    with pytest.raises(ConfigError, match="cannot read panel"):
        load_panel("x" * 5000, root)
    write(root, 'train = ["a"]', source="x" * 5000)
    with pytest.raises(ConfigError, match="cannot read panel"):
        load_panel("mine", root)
    (root / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no task"):
        load_panel("./empty", root)


def test_no_task_leaves_a_panel_silently(root: Path, make_task: MakeTask) -> None:
    folder = root / "tasksets/mine"
    make_task("beta", folder=folder, toml="[environment]\ngpus = 1\n")
    make_task("fix-one", folder=folder, toml="[environment\n")
    loaded = load_panel("mine", root)
    with pytest.raises(Unsupported, match="'beta' cannot run: it needs a GPU"):
        _ = loaded.panel
    with pytest.raises(ConfigError, match="not TOML"):
        _ = loaded.select("holdout").panel
    assert [one.name for one in loaded.select(exclude=["beta", "fix-one"]).panel.tasks] == ["alpha", "fix-two", "gamma"]


def test_checks_say_why_per_task(root: Path, make_task: MakeTask) -> None:
    folder = root / "tasksets/mine"
    assert check_panel("mine", root).ok
    make_task("alpha", folder=folder, toml="[agent]\ntimeout = 5\n")
    make_task("beta", folder=folder, toml="[environment]\ngpus = 1\n[[environment.mcp_servers]]\nname = 'a'\n")
    make_task("gamma", folder=folder, files={"tests/test.sh": ""})
    (folder / "fix-one/task.toml").unlink()
    found = check_panel("mine", root)
    assert (found.ok, found.digest) == (False, None)
    by_name = {one.name: one for one in found.tasks}
    assert {name: one.status for name, one in by_name.items()} == {
        "alpha": "ok",
        "beta": "unsupported",
        "gamma": "error",
        "fix-one": "error",
        "fix-two": "ok",
    }
    assert by_name["beta"].reasons == ("it needs a GPU", "it needs MCP servers")
    assert "is empty" in by_name["gamma"].reasons[0]
    assert "task.toml is missing" in by_name["fix-one"].reasons[0]
    assert by_name["alpha"].notes == (
        "task.toml:2: unknown key 'agent.timeout' is ignored; did you mean 'timeout_sec'?",
    )
    assert by_name["fix-two"].digest == load_panel("mine", root).tasks["fix-two"].digest


identifiers = st.text(string.ascii_lowercase + "-", min_size=1, max_size=6)


@given(st.lists(identifiers, min_size=1, max_size=9, unique=True), st.data())
def test_every_named_task_has_one_place_in_the_written_order(names: list[str], data: st.DataObject) -> None:
    splits = {name: data.draw(st.sampled_from(SPLITS)) for name in names}
    table = {split: [name for name in names if splits[name] == split] for split in SPLITS}
    document = Document(Path("p.toml"), "", {"panel": {"source": "s", **table}})
    found = places(document, parse(document), sorted(names))
    assert [(one.task, one.split) for one in found] == [(name, split) for split in SPLITS for name in table[split]]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=4))
def test_any_value_in_a_panel_is_read_or_refused(value: object) -> None:
    for key in ("name", "source", "train", "holdout"):
        document = Document(Path("p.toml"), "", {"panel": {"source": "s", "sealed": ["a"], key: value}})
        try:
            assert isinstance(parse(document), PanelFile)
        except ConfigError as error:
            assert "\n" not in error.message
