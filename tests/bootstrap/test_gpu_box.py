"""The script that makes a GPU machine a certified endpoint, through all its steps, with stand-ins for every program."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harnesstrain.core.resources import shipped
from tests.llm.engines.servers import script

SCRIPT = shipped("bootstrap") / "gpu_box.sh"
URL = "http://127.0.0.1:8000/v1"
PYTHON = """#!/bin/bash
echo "python $*" >> "$NOTES"
case "$*" in
  "-c "*) exit "${OLD_PYTHON:-0}" ;;
  "-m venv "*) mkdir -p "$3/bin"; cp "$STUBS/python" "$STUBS/ht" "$STUBS/hf" "$3/bin/" ;;
  "-m pip "*) exit "${NO_NETWORK:-0}" ;;
esac
"""
HF = """#!/bin/bash
echo "hf $*" >> "$NOTES"
exit "${NO_NETWORK:-0}"
"""
HT = """#!/bin/bash
echo "ht $* [$(basename "$PWD")]" >> "$NOTES"
case "$1 $2" in
  "init "*) mkdir -p "$2"; touch "$2/ht.toml" ;;
  "serve-llm --stop") echo stopped ;;
  "serve-llm "*) [[ -z ${BUSY:-} ]] || { echo "error: another model is served here" >&2; exit 7; }; echo "$URL" ;;
  "certify model") echo "engine $HT_LLM_ENGINE" >> "$NOTES"; echo c0ffee; exit "${UNEQUAL:-0}" ;;
esac
"""
SMI = """#!/bin/bash
echo "nvidia-smi" >> "$NOTES"
echo "${DRIVER:-580.65.06}, NVIDIA H200, 143771 MiB"
"""


class Box:
    """A machine whose programs only write down that they were called."""

    def __init__(self, place: Path) -> None:
        self.home = place / "home"
        self.notes = place / "notes"
        self.stubs = place / "stubs"
        for name, text in (("python", PYTHON), ("hf", HF), ("ht", HT), ("nvidia-smi", SMI)):
            script(self.stubs / name, text)
        for name in ("bash", "basename", "dirname", "mkdir", "touch", "cat", "cp", "hostname"):
            found = shutil.which(name)
            assert found is not None
            (self.stubs / name).symlink_to(found)

    def run(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the script; `notes` are of this run."""
        self.notes.write_text("")
        known = {"PATH": str(self.stubs), "PYTHON": "python", "STUBS": str(self.stubs), "NOTES": str(self.notes)}
        return subprocess.run(
            [str(self.stubs / "bash"), str(SCRIPT), "--home", str(self.home), *args],
            env={**known, "URL": URL, "HOME": str(self.home), **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def did(self) -> list[str]:
        """What was called, without where things lie."""
        text = self.notes.read_text().replace(str(self.home), "HOME").replace(str(SCRIPT.parent.parent), "CLONE")
        return text.splitlines()


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_from_nothing_to_a_certified_endpoint_and_again(box: Box) -> None:
    args = ("--model", "org/Model", "--max-running", "6", "--context-length", "32768", "--engine-option", "tp-size=2")
    ran = box.run(*args)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f'[llm]\nengine = "external"\nurl = "{URL}"\n'
    serve = (
        "ht serve-llm --engine sglang --model HOME/models/org--Model@main --deterministic --max-running 6 "
        "--host 127.0.0.1 --port 8000 --wait 1800 --detach --engine-option tp-size=2 --context-length 32768 [box]"
    )
    certify = "ht certify model --max-running 6 --thorough --exit-code [box]"
    did = box.did()
    assert did[0] == "nvidia-smi"
    assert did[1].startswith("python -c import sys")
    assert did[2:] == [
        "python -m venv HOME/venv",
        "python -m pip install --quiet --disable-pip-version-check CLONE[sglang] sglang==0.5.23",
        "hf download org/Model --revision main --local-dir HOME/models/org--Model@main",
        f"ht init HOME/box [{Path.cwd().name}]",
        serve,
        certify,
        "engine auto",
    ]
    again = box.run(*args)
    assert (again.returncode, again.stdout) == (0, ran.stdout)
    assert [line for line in box.did() if not line.startswith("python -c")] == [
        "nvidia-smi", serve, certify, "engine auto",
    ]  # fmt: skip
    newer = box.run(*args, "--sglang", "0.6.0")
    assert newer.returncode == 0
    assert sum("pip install" in line and "sglang==0.6.0" in line for line in box.did()) == 1
    assert box.run("--stop").stdout == "stopped\n"
    assert box.did() == ["ht serve-llm --stop [box]"]


def test_a_step_that_fails_ends_it_and_the_next_run_goes_on(box: Box, tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    local = ("--model", str(weights))
    assert box.run(*local, NO_NETWORK="1").returncode == 1
    assert not (box.home / "installed").exists()
    assert box.run("--model", "org/Model").returncode == 0
    assert box.run("--model", "org/Other", NO_NETWORK="1").returncode == 1
    assert not any("serve-llm" in line for line in box.did())
    assert box.run("--model", "org/Other").returncode == 0
    assert any(line.startswith("hf download org/Other") for line in box.did())
    busy = box.run(*local, BUSY="1")
    assert (busy.returncode, busy.stdout) == (7, "")
    unequal = box.run(*local, UNEQUAL="3")
    assert (unequal.returncode, unequal.stdout) == (3, "")
    assert "served, but not certified" in unequal.stderr
    done = box.run(*local, "--host", "0.0.0.0", URL="http://0.0.0.0:8000/v1")
    assert done.returncode == 0
    assert "0.0.0.0" not in done.stdout
    assert not any(line.startswith("hf ") for line in box.did())  # the files are here


@pytest.mark.parametrize(("args", "env", "code", "said"), [
    (("--model", "m"), {"DRIVER": "535.1"}, 6, "driver 535 is older than 580"),
    (("--model", "m"), {"DRIVER": "[N/A]"}, 6, "the driver's version is not known"),
    (("--model", "m"), {"OLD_PYTHON": "1"}, 6, "Python 3.11 or newer is needed"),
    ((), {}, 2, "--model is needed"),
    (("--modle", "m"), {}, 2, "unknown option '--modle'"),
    (("--model",), {}, 2, "--model takes a value"),
    (("--model", "m", "--max-running", "0"), {}, 2, "--max-running takes a positive number, not '0'"),
    (("--stop",), {}, 6, "nothing was set up"),
])  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(
    box: Box, args: tuple[str, ...], env: dict[str, str], code: int, said: str
) -> None:
    ran = box.run(*args, **env)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert said in ran.stderr.splitlines()[-1]
    assert not box.home.exists()


def test_without_a_driver_nothing_is_installed(box: Box) -> None:
    (box.stubs / "nvidia-smi").unlink()
    ran = box.run("--model", "m")
    assert (ran.returncode, ran.stdout) == (6, "")
    assert "no NVIDIA driver is here" in ran.stderr
    assert box.did() == []


def test_the_script_parses_and_helps(box: Box) -> None:
    bash = str(box.stubs / "bash")
    assert subprocess.run([bash, "-n", str(SCRIPT)], capture_output=True, check=False).stderr == b""
    helped = box.run("--help")
    assert helped.returncode == 0
    for line in SCRIPT.read_text().splitlines():
        if line.startswith("    --") and line.endswith(";;") and "=" in line:
            assert line.split(")")[0].strip() in helped.stdout
    assert os.access(SCRIPT, os.X_OK)
    assert "set -euo pipefail" in SCRIPT.read_text()
