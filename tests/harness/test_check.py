"""The conformance check finds what is planted, and trial runs the manifest's check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.harness import Manifest
from harnesstrain.harness import check
from harnesstrain.harness.check import conformance
from harnesstrain.harness.scenarios import SCENARIOS
from harnesstrain.harness.trial import run_check

Make = Callable[..., tuple[Path, Manifest]]

TOML = '[harness]\nname = "t"\ncommand = ["python", "main.py"]\nsurface = ["agent/**"]\n'

GOOD = """
from ht_sdk import ContextOverflow, FileFault, serve
TOOL = {"type": "function", "function": {"name": "run", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}
def solve(ep):
    messages = [{"role": "user", "content": ep.task.instruction}]
    for _ in range(3):
        try:
            reply = ep.complete(messages, tools=[TOOL])
        except ContextOverflow:
            return
        messages += [reply.message(), {"role": "user", "content": ep.run("ls").stdout}]
        try:
            ep.write("a", ep.read("b"))
        except FileFault:
            pass
    ep.submit()
serve(solve)
"""


def check_of(harness: Make, program: str, isolated: bool = True, only: str = "") -> dict[str, list[str]]:
    """Scenarios by violated rule."""
    scenarios = [scenario for scenario in SCENARIOS if only in scenario.name]
    place, _ = harness(program)
    (place / "harness.toml").write_text(TOML)
    found: dict[str, list[str]] = {}
    for violation in conformance(place, isolated=isolated, patience=5.0, scenarios=scenarios):
        found.setdefault(violation.rule, []).append(violation.scenario)
    return found


def test_a_good_one(harness: Make, isolated: bool) -> None:
    assert check_of(harness, GOOD, isolated) == {}


@pytest.mark.usefixtures("jailed")
@pytest.mark.parametrize(
    ("old", "new", "rule", "scenario"),
    [
        ("serve(solve)", "print('hello')", check.SPEAKS, "a model that calls tools"),
        ("serve(solve)", "", check.STARTS, "a model that calls tools"),
        ("serve(solve)", "1/0", check.STARTS, "a model that calls tools"),
        ("serve(solve)", "import time; time.sleep(60)", check.STARTS, "a model that calls tools"),
        ("except ContextOverflow", "except ZeroDivisionError", check.ENDS, "context_overflow always"),
        ("except FileFault", "except ZeroDivisionError", check.ENDS, "files that cannot be read or written"),
        (".stdout}", ".stdout_bytes.decode()}", check.ENDS, "output that is not UTF-8"),
        ("reply.message()", "reply.tool_calls[0] and reply.message()", check.ENDS, "a model that only talks"),
        (
            "    ep.submit()",
            "    ep.submit()\n    import time; time.sleep(60)",
            check.LEAVES,
            "a model that calls tools",
        ),
        ('ep.run("ls")', "ep.run('ls', timeout=-1)", check.KNOWN, "a model that calls tools"),
    ],
)
def test_a_planted_fault(harness: Make, old: str, new: str, rule: str, scenario: str) -> None:
    assert old in GOOD
    assert check_of(harness, GOOD.replace(old, new), only=scenario)[rule] == [scenario]


def test_raw_misbehaviour(jailed: None, harness: Make) -> None:
    program = """
import json, sys
def say(number, method, params):
    print(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}), flush=True)
    return json.loads(sys.stdin.readline())
say(1, "note", {})
say(1, "initialize", {"protocol": 1, "sdk": {"name": "x", "version": "1"}})
say(2, "initialize", {"protocol": 1, "sdk": {"name": "x", "version": "1"}})
say(3, "env.exec", {})
number = 4
while True:
    say(number, "llm.complete", {"messages": [{"role": "user", "content": "x"}]})
    number += 1
"""
    found = check_of(harness, program)
    assert found.keys() >= {check.STARTS, check.UNIQUE, check.ONCE, check.KNOWN, check.BOUNDED}


def test_the_scenarios_have_names_of_their_own() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


def test_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no harness.toml"):
        conformance(tmp_path)


# --- the manifest's own check


def test_no_check_is_a_yes(harness: Make) -> None:
    assert run_check(*harness("")).ok


@pytest.mark.parametrize(("code", "ok"), [(0, True), (1, False), (77, False)])
def test_the_exit_code_decides(harness: Make, isolated: bool, code: int, ok: bool) -> None:
    program = f"import sys; print('out'); print('err', file=sys.stderr); sys.exit({code})"
    place, manifest = harness(program, check=("python", "main.py"))
    result = run_check(place, manifest, isolated=isolated)
    assert (result.ok, result.code) == (ok, code)
    assert "out" in result.output
    assert "err" in result.output


def test_pytest_works_and_the_worktree_stays_as_it_is(harness: Make, isolated: bool) -> None:
    place, manifest = harness("", check=("python", "-m", "pytest", "-q"))
    (place / "test_it.py").write_text(
        "def test_it(tmp_path):\n    open('made', 'w').write('x')\n    (tmp_path / 'a').mkdir()\n"
    )
    before = sorted(path.name for path in place.rglob("*"))
    result = run_check(place, manifest, isolated=isolated)
    assert result.ok, result.output
    assert "1 passed" in result.output
    assert sorted(path.name for path in place.rglob("*")) == before


def test_a_check_that_hangs_is_stopped(harness: Make, isolated: bool) -> None:
    program = (
        "import subprocess, time\nprint('started', flush=True)\nsubprocess.Popen(['sleep', '3600'])\ntime.sleep(3600)"
    )
    place, manifest = harness(program, check=("python", "main.py"), check_timeout=1.0)
    result = run_check(place, manifest, isolated=isolated)
    assert (result.ok, result.timed_out, result.code) == (False, True, 124)
    assert "started" in result.output
    assert "[stopped after 1 seconds]" in result.output


def test_a_check_that_leaves_something_running_is_over_when_it_ends(harness: Make, isolated: bool) -> None:
    program = "import subprocess\nsubprocess.Popen(['sleep', '3600'])"
    place, manifest = harness(program, check=("python", "main.py"), check_timeout=60.0)
    assert run_check(place, manifest, isolated=isolated).ok


def test_the_output_of_a_check_is_bounded(harness: Make, isolated: bool) -> None:
    place, manifest = harness("print('a' * 3_000_000 + 'end')", check=("python", "main.py"))
    result = run_check(place, manifest, isolated=isolated)
    assert result.ok
    assert len(result.output) < 300_000
    assert result.output.endswith("end\n")


def test_a_check_cannot_touch_the_worktree_or_read_the_host(jailed: None, harness: Make, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary-99")
    program = (
        "import os\nopen('main.py', 'w').write('changed')\n"
        f"print(os.path.exists({str(tmp_path / 'secret')!r}), os.access('/harness/main.py', os.W_OK))"
    )
    place, manifest = harness(program, check=("python", "main.py"))
    result = run_check(place, manifest)
    assert result.output == "False False\n"
    assert (place / "main.py").read_text() == program


def test_a_check_that_cannot_start(harness: Make, isolated: bool) -> None:
    place, manifest = harness("", check=("no-such-program",))
    if isolated:
        result = run_check(place, manifest)
        assert not result.ok
        assert "no-such-program" in result.output
    else:
        with pytest.raises(ConfigError, match="cannot start the check"):
            run_check(place, manifest, isolated=False)
