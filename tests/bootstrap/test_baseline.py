"""The harness that `ht init` writes: honest, thin, and in keeping with the protocol."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harnesstrain.core import confinement
from harnesstrain.harness import manifest as manifests
from harnesstrain.harness.check import conformance
from harnesstrain.harness.trial import run_check
from tests.bootstrap.conftest import Make, check
from tests.bootstrap.episode import play

SUBMIT = json.dumps({"tool": "submit"})


def run(command: str) -> str:
    return json.dumps({"tool": "run", "command": command})


def test_its_own_tests_pass(baseline: Path) -> None:
    done = check(baseline)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Ran \d\d tests", done.stderr)


def test_its_check_passes_in_the_jail(baseline: Path) -> None:
    if why := confinement.unavailable():
        pytest.skip(f"no jail here: {why}")
    result = run_check(baseline, manifests.load(baseline))
    assert result.ok, result.output


def test_pytest_runs_its_tests_too(baseline: Path) -> None:
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=baseline, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed", done.stdout)


def test_it_keeps_the_protocol(baseline: Path) -> None:
    assert conformance(baseline, isolated=False) == []


def test_tests_manifest_and_sdk_are_frozen(baseline: Path) -> None:
    surface = manifests.load(baseline).surface
    assert surface == ("agent/**", "prompts/**")
    assert {path.name for path in baseline.iterdir()} >= {"ht_sdk.py", "program.md", "tests", "harness.toml"}


def test_every_named_module_is_there(baseline: Path) -> None:
    for globs in manifests.load(baseline).modules.values():
        for glob in globs:
            assert list(baseline.glob(glob)), glob


def test_strict_json_acts(baseline: Path, workdir: Path) -> None:
    played = play(baseline, workdir, [run("echo hi > a.txt"), run("cat a.txt"), SUBMIT])
    assert played.ended == "submitted"
    assert played.commands == ["echo hi > a.txt", "cat a.txt"]
    assert played.told(2) == "exit code: 0\nhi"
    assert played.valid == [True, True, True]


def test_a_fenced_reply_is_no_action_yet(baseline: Path, workdir: Path) -> None:
    fenced = f"```json\n{run('touch a.txt')}\n```"
    played = play(baseline, workdir, [fenced] * 9)
    assert played.ended == "gave_up"
    assert played.valid == [False, False, False]
    assert played.commands == []


def test_nothing_but_the_instruction_is_told(baseline: Path, workdir: Path) -> None:
    (workdir / "secret.txt").write_text("content")
    played = play(baseline, workdir, [SUBMIT], instruction="Sort {workdir} it.")
    assert [message["role"] for message in played.requests[0]] == ["system", "user"]
    assert played.requests[0][1]["content"] == f"Task: Sort {{workdir}} it.\n\nWorking directory: {workdir}"
    assert "secret" not in json.dumps(played.requests)


def test_the_same_replies_give_the_same_requests(baseline: Path, workdir: Path) -> None:
    replies = [run("ls; date +%Y"), "no action", run("echo x"), SUBMIT]
    assert play(baseline, workdir, replies).requests == play(baseline, workdir, replies).requests


def test_it_stays_small(make: Make) -> None:
    """Thin but learnable: any one mechanism has to be a small diff."""
    sizes = {path.name: len(path.read_text().splitlines()) for path in (make() / "agent").glob("*.py")}
    assert max(sizes.values()) <= 80, sizes
    assert sum(sizes.values()) <= 320, sizes
