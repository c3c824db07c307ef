"""What a loss, a small number or a wrong server is called: one line, and the command that mends it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.project import Project

pytestmark = pytest.mark.local


@pytest.fixture
def mine(trained: Project, tmp_path: Path) -> Project:
    """A copy of the trained project."""
    shutil.copytree(trained.root, tmp_path / "repo", symlinks=True)
    return replace(trained, root=tmp_path / "repo")


@pytest.fixture
def website() -> Iterator[str]:
    """The base URL of a server that answers everything with a page."""
    page = b"<!DOCTYPE html>\n<html><head><title>Not here</title></head><body>" + b"<p>x\x1b[31m</p>" * 500

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(404)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_lost_trace_is_said_to_stay_lost_and_what_there_is_instead(mine: Project) -> None:
    lost = sorted((mine.root / ".ht" / "traces").rglob("*.parquet"))
    for path in lost:
        path.unlink()
    with mine.store() as store:
        epoch = store.epoch(1)
        (first,) = [one for one in store.rollouts(epoch.cand_run or "") if one.task == "one"]
        cand = store.run(epoch.cand_run or "").commit
    command = f"ht evaluate {cand[:8]} --split train --fresh again"
    instead = f"it stays lost; `{command}` measures the same anew, as another run"
    checked = mine.ht("fsck", "--exit-code")
    assert checked.code == 3 and "stay lost" in checked.err and "gc" not in checked.err
    assert checked.err.startswith(f"answer: no, {len(lost)} findings")
    assert all("it stays lost; `ht evaluate " in line for line in checked.lines)
    assert [line for line in checked.lines if instead in line]
    verified = mine.ht("verify")
    assert verified.code == 1 and "3 verdicts cannot be derived any more" in verified.err
    assert sum("not derived" in line for line in verified.lines) == 3
    assert sum("missing" in line and "traces/" in line for line in verified.lines) == len(lost)
    shown = mine.ht("cat-trace", first.id)
    assert shown.code == 1 and f"hint: {instead}" in shown.err
    (mine.root / ".ht" / "traces" / "stray.parquet").write_bytes(b"")
    assert "`ht gc` removes orphans" in mine.ht("fsck", "--exit-code").err

    (anew,) = mine.ht(*command.split()[1:]).lines
    told = f"it stays lost; run {anew[:8]} measured the same anew"
    (line,) = [line for line in mine.ht("fsck").lines if told in line]
    assert line.startswith("missing traces/")
    assert f"hint: {told}" in mine.ht("cat-trace", first.id).err
    assert "3 verdicts cannot be derived any more" in mine.ht("verify").err


@pytest.mark.parametrize("damage", ["cut", "folder"])
def test_a_damaged_cache_stops_no_evaluation(mine: Project, damage: str) -> None:
    path = mine.root / ".ht" / "cache.db"
    os.truncate(path, 5000)
    if damage == "folder":
        path.unlink()
        path.mkdir()
    ran = mine.ht("evaluate", "--fresh", "c1", HT_LLM_ENGINE="scripted")
    assert ran.code == 0, ran.err
    assert len([line for line in ran.err.splitlines() if "made anew" in line]) == 1
    assert mine.ht("cache", "stats").code == 0


def test_one_is_not_said_as_many(mine: Project) -> None:
    (mine.root / "agent" / "new.txt").write_text("x")
    assert "1 file changed" in mine.ht("status").out
    assert "note: 1 uncommitted file is not measured: agent/new.txt" in mine.ht("evaluate", "@", "-n").err


def test_a_file_in_the_place_of_a_folder_is_a_wrong_argument(mine: Project, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    ran = mine.ht("cache", "export", str(tmp_path / "out"))
    assert ran.code == 2 and "is not a folder" in ran.err


def test_a_no_is_worded_as_an_answer(mine: Project) -> None:
    with mine.store() as store:
        rejected = store.epoch(2)
    assert rejected.base_run and rejected.cand_run
    ran = mine.ht("judge", f"{rejected.base_run[:10]}..{rejected.cand_run[:10]}", "--exit-code")
    assert ran.code == 3
    assert "answer: no, the candidate is not selected: lost two" in ran.err and "error" not in ran.err


def test_kept_states_are_named_where_steps_are_put_out_of_reach(mine: Project) -> None:
    assert "`ht cache states --max-mb 0`" in mine.ht("cache", "bump", "step").err
    assert "states" not in mine.ht("cache", "bump", "llm").err


def test_a_server_of_something_else_is_said_in_one_short_line(mine: Project, website: str) -> None:
    ran = mine.ht("evaluate", HT_LLM_ENGINE="external", HT_LLM_URL=website, HT_LLM_MODEL="m")
    assert ran.code == 6, ran.err
    first = next(line for line in ran.err.splitlines() if line.startswith("error:"))
    assert "a web page, 'Not here'" in first and len(first) < 300 and "\x1b" not in ran.err and "<p>" not in ran.err
