"""Task directories of the older format: what is read, what is refused, what is laid out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError, Unsupported
from harnesstrain.taskset import check_panel, inspect_task, load_task
from harnesstrain.taskset.terminalbench import keystrokes
from tests.taskset.terminalbench.conftest import COMPOSE, YAML

MakeOld = Callable[..., Path]


def names(folder: Path) -> set[str]:
    """Everything below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_a_task_is_read_whole(make_old: MakeOld, cache: Path) -> None:
    inspected = inspect_task(make_old())
    task = inspected.task
    assert task is not None
    assert (task.name, task.instruction, task.timeout) == ("hello", "Write hello to /app/greeting.txt.", 120.0)
    assert task.environment.env == {"TEST_DIR": "/tests"}
    assert task.environment.network == "none"
    assert (task.verifier.timeout, task.verifier.parser) == (30.0, "pytest")
    assert task.metadata["difficulty"] == "easy"
    assert task.metadata["tags"] == "files"
    assert task.environment.context is not None and task.environment.context.is_relative_to(cache)
    assert names(task.environment.context) == {"Dockerfile", "data/input.txt"}, "neither tests nor solution"
    assert names(task.verifier.tests) == {"run-tests.sh", "test.sh", "test_outputs.py"}
    assert task.solution is not None and names(task.solution.path) == {"solve.sh"}


def test_run_tests_is_wrapped_and_not_edited(make_old: MakeOld) -> None:
    odd = b"# no shebang first\n\xff\nexit 3\n"
    task = load_task(make_old(files={"run-tests.sh": odd}))
    assert (task.verifier.tests / "run-tests.sh").read_bytes() == odd


def test_what_the_dockerfile_copies_by_name_stays(make_old: MakeOld) -> None:
    directory = make_old(
        files={"Dockerfile": 'FROM debian:12\nCOPY ["./tests/", "/t/"]\nADD \\\n  run-tests.sh /r.sh\n'}
    )
    inspected = inspect_task(directory)
    assert inspected.task is not None and inspected.task.environment.context is not None
    kept = names(inspected.task.environment.context)
    assert {"tests/test_outputs.py", "run-tests.sh"} <= kept
    assert not {"solution.sh", "task.yaml"} & kept
    assert any("copies run-tests.sh, tests" in note for note in inspected.notes)


@pytest.mark.parametrize("path", ["run-tests.sh", "tests/test_outputs.py", "Dockerfile", "data/input.txt"])
def test_the_digest_covers_what_acts_and_grades(make_old: MakeOld, path: str) -> None:
    directory = make_old()
    before = load_task(directory).digest
    with (directory / path).open("a") as file:
        file.write("# changed\n")
    assert load_task(directory).digest != before


def test_the_digest_leaves_out_what_nobody_sees(make_old: MakeOld) -> None:
    directory = make_old()
    before = load_task(directory).digest
    (directory / "solution.sh").write_text("true\n")
    (directory / "task.yaml").write_text(YAML + "author_name: somebody\n")
    assert load_task(directory).digest == before
    (directory / "task.yaml").write_text(YAML.replace("pytest", "swebench"))
    assert load_task(directory).digest != before


def test_laid_out_once_and_again_when_it_is_gone(make_old: MakeOld, cache: Path) -> None:
    directory = make_old()
    first, second = load_task(directory), load_task(directory)
    assert first == second
    assert len(list((cache / "unfolded").iterdir())) == 1
    left = cache / "unfolded" / ".part-left"
    left.mkdir()
    os.utime(left, (0, 0))
    (directory / "data/input.txt").write_text("other\n")
    load_task(directory)
    assert not left.exists(), "what an ended process left is removed"
    assert len(list((cache / "unfolded").iterdir())) == 2


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("services:", "services:\n  database:\n    image: postgres", "several containers .*database"),
        ("    network_mode: none", "    privileged: true", "privileged"),
        ("    network_mode: none", "    depends_on: [other]", "depends_on"),
        ("    network_mode: none", "    network_mode: service:other", "network mode"),
        ("    network_mode: none", "    volumes:\n      - ./:/app", "mounts './:/app'"),
        ('[ "sh", "-c", "sleep infinity" ]', '["python3", "serve.py"]', "command of its own"),
        ("${T_BENCH_TEST_DIR}", "${SECRET_KEY}", "variables of the host: SECRET_KEY"),
        ("      dockerfile: Dockerfile", "      context: ..\n      args: {A: 1}", "built from '..'"),
        (
            "    network_mode: none",
            "    deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}",
            "GPU",
        ),
    ],
)
def test_what_one_container_cannot_give_is_refused(make_old: MakeOld, old: str, new: str, problem: str) -> None:
    assert old in COMPOSE
    text = COMPOSE if "volumes" not in new else COMPOSE[: COMPOSE.index("    volumes")]
    with pytest.raises(Unsupported, match=problem):
        load_task(make_old(files={"docker-compose.yaml": text.replace(old, new)}))


def test_limits_of_the_service(make_old: MakeOld) -> None:
    limits = "    deploy: {resources: {limits: {cpus: '1.5', memory: 2G}}}\n    working_dir: /srv\n    user: nobody\n"
    environment = load_task(make_old(files={"docker-compose.yaml": COMPOSE + limits})).environment
    assert (environment.cpus, environment.memory_mb) == (1.5, 2048)
    assert (environment.workdir, environment.user) == ("/srv", "nobody")


def test_a_network_unless_told_otherwise(make_old: MakeOld) -> None:
    compose = COMPOSE.replace("    network_mode: none\n", "")
    assert load_task(make_old(files={"docker-compose.yaml": compose})).environment.network == "host"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"docker-compose.yaml": None, "run-tests.sh": None}, "docker-compose.yaml and run-tests.sh missing"),
        ({"Dockerfile": None}, "Dockerfile missing"),
        ({"task.yaml": "instruction: x\n"}, "there is no difficulty"),
        ({"task.yaml": YAML.replace("pytest", "nose")}, r"task.yaml:5: parser_name"),
        ({"task.yaml": YAML.replace("120", "soon")}, r"task.yaml:6: max_agent_timeout_sec"),
        ({"task.yaml": "a: [\n"}, r"task.yaml:2: not YAML"),
        ({"task.yaml": "- a\n"}, "not a mapping"),
        ({"task.yaml": "[" * 5000}, "not YAML|nested too deeply"),
        ({"docker-compose.yaml": "services: {}\n"}, "no services"),
        ({"docker-compose.yaml": "services: {other: {image: x}}\n"}, "no service 'client'"),
        ({"run-tests.sh": "#!/bin/bash\r\n"}, "CRLF"),
        ({"run-tests.sh": ""}, "is empty"),
        ({"solution.sh": None, "solution.yaml": "- 1\n"}, "solution.yaml"),
    ],
)
def test_what_is_wrong_is_one_line_with_a_hint(make_old: MakeOld, files: dict[str, str | None], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_task(make_old(files=files))
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_a_link_out_of_the_task_is_refused(make_old: MakeOld) -> None:
    directory = make_old()
    (directory / "data/passwd").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="points out of"):
        load_task(directory)


def test_a_panel_of_old_tasks(make_old: MakeOld) -> None:
    folder = make_old().parent
    make_old("partial", files={"run-tests.sh": None})
    checked = check_panel(folder)
    assert [(task.name, task.status) for task in checked.tasks] == [("hello", "ok"), ("partial", "error")]


def test_keystrokes_become_a_script(make_old: MakeOld) -> None:
    typed = "- command: cd /app\n- command: echo hello > greeting.txt\n  block: true\n  append_enter: true\n"
    task = load_task(make_old(files={"solution.sh": None, "solution.yaml": typed}))
    assert task.solution is not None
    assert "cd /app\necho hello > greeting.txt\n" in (task.solution.path / "solve.sh").read_text()


@pytest.mark.parametrize(
    "typed", [[{"command": "i", "append_enter": False}], [{"command": "vim x"}, {"command": "Escape"}], []]
)
def test_keys_have_no_script(typed: list[dict[str, object]]) -> None:
    assert keystrokes.script(typed) is None


def test_real_task_files_that_are_parts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path(__file__).parents[4] / "shared/realdata/terminal-bench"
    if not place.is_dir():
        pytest.skip(f"no real task files at {place}")
    for directory in sorted(place.iterdir()):
        with pytest.raises(ConfigError, match="only part of a task: docker-compose.yaml and run-tests.sh missing"):
            load_task(directory)
