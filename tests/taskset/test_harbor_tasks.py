"""Harbor task directories: what is read, what is refused as wrong, what is refused as unsupported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.errors import ConfigError, NotFound, Unsupported
from harnesstrain.taskset import against_host, allowed, inspect_task, load_task, schema, with_host
from harnesstrain.taskset.document import Document
from harnesstrain.taskset.limits import find_problems

MakeTask = Callable[..., Path]


def test_a_whole_task_is_read(make_task: MakeTask) -> None:
    toml = """schema_version = "1.4"
artifacts = ["/app/out.txt"]

[task]
name = "org/hello"
description = "Says hello."

[metadata]
difficulty = "easy"
tags = ["one", "two"]

[metadata.harnesstrain]
pass_reward = 0.5

[agent]
timeout_sec = 120
user = 1000

[verifier]
timeout_sec = 30.0
user = "root"
env = { EXPECTED = "${EXPECTED:-hello}" }

[environment]
network_mode = "no-network"
workdir = "/srv"
cpus = 1.5
memory_mb = 512
storage_mb = 1024
gpus = 0
mcp_servers = []
env = { NAME = "x" }

[solution.env]
MODE = "fast"
"""
    directory = make_task(toml=toml)
    task = load_task(directory)
    assert (task.name, task.instruction, task.timeout, task.pass_reward) == ("hello", "Say hello.\n", 120.0, 0.5)
    environment = task.environment
    assert (environment.context, environment.image) == (directory / "environment", None)
    assert (environment.workdir, environment.user, environment.env) == ("/srv", "1000", {"NAME": "x"})
    assert (environment.cpus, environment.memory_mb, environment.storage_mb) == (1.5, 512, 1024)
    assert environment.network == "none"
    assert (task.verifier.tests, task.verifier.timeout) == (directory / "tests", 30.0)
    assert (task.verifier.env, task.verifier.user) == ({"EXPECTED": "hello"}, "root")
    assert task.solution is not None
    assert (task.solution.path, task.solution.env) == (directory / "solution", {"MODE": "fast"})
    assert task.metadata == {
        "package": "org/hello",
        "description": "Says hello.",
        "difficulty": "easy",
        "tags": "one, two",
    }


@pytest.mark.parametrize(
    "toml", ["", 'version = "1.0"\n', 'schema_version = "1.1"\n', "[environment]\n[verifier.env]\n"]
)
def test_old_and_short_files_get_the_defaults_of_the_format(make_task: MakeTask, toml: str) -> None:
    task = load_task(make_task(toml=toml))
    assert (task.timeout, task.verifier.timeout, task.pass_reward) == (None, 600.0, 1.0)
    assert (task.environment.cpus, task.environment.memory_mb) == (None, None)
    assert task.environment.network == "host"


WILD = {
    "first schema, only limits": """version = "1.0"
[verifier]
timeout_sec = 120.0
[agent]
timeout_sec = 120.0
[environment]
build_timeout_sec = 600.0
cpus = 1
memory_mb = 2048
storage_mb = 10240
skills_dir = "/skills"
""",
    "migrated, every table empty": """schema_version = "1.4"
artifacts = []
[metadata]
author_name = "unknown"
tags = [ "python", "programming",]
[verifier]
timeout_sec = 120.0
collect = []
[verifier.env]
[agent]
timeout_sec = 600.0
[environment]
network_mode = "public"
build_timeout_sec = 600.0
os = "linux"
mcp_servers = []
[environment.env]
[solution.env]
""",
    "published, with a ready image": """schema_version = "1.1"
artifacts = []
[task]
name = "org/fix"
keywords = []
[[task.authors]]
name = "Somebody"
email = "somebody@example.org"
[metadata]
expert_time_estimate_min = 5.0
[verifier]
timeout_sec = 900.0
[agent]
timeout_sec = 900.0
[environment]
docker_image = "example/fix:1"
cpus = 1
gpus = 0
allow_internet = true
mcp_servers = []
[verifier.env]
[environment.env]
[solution.env]
""",
}


@pytest.mark.parametrize("kind", WILD)
def test_files_as_they_are_found_in_the_wild(make_task: MakeTask, kind: str) -> None:
    inspected = inspect_task(make_task(toml=WILD[kind]))
    assert inspected.task is not None
    assert inspected.notes == ()
    assert inspected.task.environment.network == "host"
    assert inspected.task.timeout in (120.0, 600.0, 900.0)


@pytest.mark.parametrize(
    ("environment", "field", "value"),
    [
        ('memory = "2G"', "memory_mb", 2048),
        ('memory = "512M"', "memory_mb", 512),
        ('memory = "2048K"', "memory_mb", 2),
        ('storage = "1.5G"', "storage_mb", 1536),
        ('memory = "2G"\nmemory_mb = 2048', "memory_mb", 2048),
        ("allow_internet = false", "network", "none"),
        ("allow_internet = true", "network", "host"),
        ('allow_internet = true\nnetwork_mode = "no-network"', "network", "none"),
        ('os = "Linux"', "network", "host"),
    ],
)
def test_legacy_keys_of_the_environment(make_task: MakeTask, environment: str, field: str, value: object) -> None:
    task = load_task(make_task(toml=f"[environment]\n{environment}\n"))
    assert getattr(task.environment, field) == value


def test_a_ready_image_wins_over_the_dockerfile(make_task: MakeTask) -> None:
    toml = '[environment]\ndocker_image = "debian:12"\nnetwork_mode = "no-network"\n'
    task = load_task(make_task(toml=toml))
    assert (task.environment.image, task.environment.context) == ("debian:12", None)
    bare = load_task(make_task("bare", toml=toml, files={"environment/Dockerfile": None}))
    assert bare.environment.digest == task.environment.digest


def test_leading_canary_lines_are_not_shown(make_task: MakeTask) -> None:
    text = "<!-- some-canary GUID 1-2-3 -->\n\n# Canary GUID 4\n\n# Title\nSay canary.\n"
    assert load_task(make_task(files={"instruction.md": text})).instruction == "# Title\nSay canary.\n"


@pytest.mark.parametrize("text", ["# Title\r\nSay hello.\r\n", "  Say hello.", "Sag »hallo«.\n"])
def test_the_instruction_is_shown_as_it_is_written(make_task: MakeTask, text: str) -> None:
    assert load_task(make_task(files={"instruction.md": text})).instruction == text


@pytest.mark.parametrize(
    ("toml", "line", "message"),
    [
        ("[agent]\ntimeout_sec = \n", 2, "not TOML"),
        (b"[agent]\n# \xff\n", 2, "not UTF-8"),
        (b"\xef\xbb\xbf[agent]\n", None, "byte order mark"),
        ("[agent]\n\n" + 'timeout_sec = "120"\n', 3, "agent.timeout_sec"),
        ("[agent]\ntimeout_sec = -1\n", 2, "agent.timeout_sec"),
        ("[agent]\ntimeout_sec = nan\n", 2, "agent.timeout_sec"),
        ("[verifier]\nenv = { A = 1 }\n", 2, "verifier.env"),
        ("[environment]\ncpus = true\n", 2, "environment.cpus"),
        ("[environment]\ncpus = 0\n", 2, "environment.cpus"),
        ('[environment]\nnetwork_mode = "off"\n', 2, "environment.network_mode"),
        ('[environment]\nworkdir = "app"\n', 2, "an absolute path"),
        ('[environment]\nmemory = "lots"\n', 2, "a size such as"),
        ('[environment]\nmemory = "1G"\nmemory_mb = 512\n', 2, "differ"),
        ('[environment.env]\n"A B" = "x"\n', 2, "the name of a variable"),
        ('schema_version = "latest"\n', 1, "a version such as"),
        ("agent = 3\n", 1, "agent"),
        ("[task]\ndescription = 'x'\n", 1, "task"),
        ("[metadata.harnesstrain]\npass_rewards = 1\n", 2, "pass_rewards"),
        ("[metadata.harnesstrain]\npass_reward = inf\n", 2, "finite"),
        ("[metadata]\nharnesstrain = 1\n", 2, "not a table"),
        ("a = " + "[" * 5000 + "]" * 5000, None, ""),
    ],
)
def test_a_wrong_task_toml_names_file_and_line(
    make_task: MakeTask, toml: str | bytes, line: int | None, message: str
) -> None:
    directory = make_task(toml=toml)
    with pytest.raises(ConfigError) as caught:
        load_task(directory)
    place = directory / "task.toml"
    assert caught.value.message.startswith(f"{place}:{line}: " if line else str(place))
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"task.toml": None}, "task.toml is missing"),
        ({"instruction.md": None}, "instruction.md is missing"),
        ({"instruction.md": ""}, "is empty"),
        ({"instruction.md": " \n\t\n"}, "is empty"),
        ({"instruction.md": "# canary GUID 1\n\n"}, "is empty"),
        ({"instruction.md": b"Say \xe9t\xe9.\n"}, "1: not UTF-8"),
        ({"instruction.md": "\N{BOM}Say hello.\n"}, "byte order mark"),
        ({"instruction.md": "Say\0hello.\n"}, "NUL"),
        ({"instruction.md": "x" * 1_100_000}, "larger than"),
        ({"tests/test.sh": None}, "no verifier"),
        ({"tests/test.sh": ""}, "is empty"),
        ({"tests/test.sh": "#!/bin/sh\r\necho 1\r\n"}, "CRLF"),
        ({"environment/Dockerfile": None}, "neither environment/Dockerfile nor a docker_image"),
    ],
)
def test_a_task_with_wrong_files_is_a_config_error(
    make_task: MakeTask, files: dict[str, str | bytes | None], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_task(make_task(files={"task.toml": "", **files}))
    assert message in caught.value.message
    assert caught.value.hint


def test_what_is_no_task_directory(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        load_task(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="is no task"):
        load_task(tmp_path)


@pytest.mark.parametrize(
    ("toml", "files", "problem"),
    [
        ('[environment]\nos = "Windows"\n', {"tests/test.sh": None, "tests/test.bat": "rem\n"}, "windows"),
        ("[environment]\ngpus = 1\n", {}, "GPU"),
        ('[environment]\ngpu_types = ["H100"]\n', {}, "GPU"),
        ('[environment]\ntpu = { type = "v4", topology = "2x2" }\n', {}, "TPU"),
        ('[[environment.mcp_servers]]\nname = "desktop"\n', {}, "MCP"),
        ('[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["x.org"]\n', {}, "allowed hosts"),
        ('[environment.env]\nKEY = "${SECRET_KEY}"\n', {}, "SECRET_KEY"),
        ("[verifier.environment]\ngpus = 1\n", {}, "its verifier needs a GPU"),
        (
            '[verifier]\nenvironment_mode = "separate"\n',
            {"tests/docker-compose.yaml": "x"},
            "tests/docker-compose.yaml",
        ),
        ('[[verifier.collect]]\ncommand = "true"\nservice = "db"\n', {}, "another container, 'db'"),
        ("artifacts = [{ source = '/x', service = 'db' }]\n", {}, "another container, 'db'"),
        ("", {"tests/test.sh": None, "tests/test.bat": "rem\n"}, "Windows batch file"),
        ('[[steps]]\nname = "a"\n[steps.agent]\nuser = "bob"\n', {}, "step 'a': it runs as another user"),
        ('[[steps]]\nname = "a"\n[steps.agent]\nnetwork_mode = "no-network"\n', {}, "step 'a': "),
        ('[verifier]\nnetwork_mode = "no-network"\n', {}, "another network"),
        ('[agent]\nnetwork_mode = "no-network"\n', {}, "another network"),
        ('[agent]\nnetwork_mode = "allowlist"\n', {}, "allowed hosts"),
        ('schema_version = "1.5"\n', {}, "schema 1.5"),
        ('version = "2.0"\n', {}, "schema 2.0"),
    ],
)
def test_what_no_linux_container_gives_is_unsupported(
    make_task: MakeTask, toml: str, files: dict[str, str | bytes | None], problem: str
) -> None:
    directory = make_task(toml=toml, files=files)
    inspected = inspect_task(directory)
    assert inspected.task is None
    assert [one for one in inspected.problems if problem in one] == list(inspected.problems)
    with pytest.raises(Unsupported) as caught:
        load_task(directory)
    assert caught.value.extra["problems"] == list(inspected.problems)
    assert problem in caught.value.message


def test_every_problem_is_told_at_once(make_task: MakeTask) -> None:
    inspected = inspect_task(make_task(toml="[environment]\ngpus = 2\nos = 'windows'\ntpu = { type = 'v4' }\n"))
    assert len(inspected.problems) == 3


def test_unknown_keys_are_ignored_and_told(make_task: MakeTask) -> None:
    toml = "[agent]\ntimout_sec = 5\n\n[environment]\ncpus = 1\nartifacts = []\nzzz = 1\n[[environment.qqq]]\na = 1\n"
    inspected = inspect_task(make_task(toml=toml))
    assert inspected.task is not None
    assert inspected.task.timeout is None
    assert inspected.notes == (
        "task.toml:2: unknown key 'agent.timout_sec' is ignored; did you mean 'timeout_sec'?",
        "task.toml:6: unknown key 'environment.artifacts' is ignored; it belongs before the first table",
        "task.toml:7: unknown key 'environment.zzz' is ignored",
        "task.toml:8: unknown key 'environment.qqq' is ignored",
    )


def test_no_variable_of_the_host_reaches_a_task(make_task: MakeTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "from the host")
    toml = '[environment.env]\nWHO = "${NAME:-nobody}, ${NAME:-}"\n[solution.env]\nKEY = "${NAME}"\n'
    inspected = inspect_task(make_task(toml=toml))
    assert inspected.task is not None
    assert inspected.task.environment.env == {"WHO": "nobody, "}
    assert inspected.task.solution is None
    assert inspected.notes == ("its reference solution needs variables of the host: NAME",)


def test_a_verifier_is_given_the_variables_that_are_allowed(make_task: MakeTask) -> None:
    directory = make_task(toml='[verifier.env]\nKEY = "a${JUDGE_KEY}b"\nMODEL = "${MODEL:-small}"\nPLAIN = "x"\n')
    task = load_task(directory)
    host = allowed(["JUDGE_KEY", "MODEL", "UNSET"], {"JUDGE_KEY": "secret", "MODEL": "large", "HOME": "/root"})
    assert host == {"JUDGE_KEY": "secret", "MODEL": "large"}
    given = with_host(task, host)
    assert given.verifier.env == {"KEY": "asecretb", "MODEL": "large", "PLAIN": "x"}
    assert (against_host(task, host), given.digest) == (None, task.digest)
    assert with_host(task, {"JUDGE_KEY": "1"}).verifier.env["MODEL"] == "small"
    missing = against_host(task, {})
    assert missing is not None
    assert missing.message == "its verifier needs variables of the host: JUDGE_KEY"
    assert "JUDGE_KEY" in (missing.hint or "")


def test_values_of_the_host_enter_no_record(make_task: MakeTask) -> None:
    task = load_task(make_task(toml='[verifier.env]\nKEY = "a${JUDGE_KEY}b"\n'))
    given = with_host(task, {"JUDGE_KEY": "secret"})
    assert "secret" not in given.model_dump_json()
    assert given.model_dump()["verifier"]["env"] == {"KEY": "a${JUDGE_KEY}b"}
    assert given.model_dump_json() == task.model_dump_json()


def test_what_harbor_would_leave_out_is_told(make_task: MakeTask) -> None:
    files: dict[str, str | bytes | None] = {"tests/.harborignore": "*.log\n", "tests/a.log": "x"}
    inspected = inspect_task(make_task(files=files))
    assert inspected.notes == ("tests/.harborignore is not applied: every file beside it is uploaded, and counts",)


def test_a_task_without_a_solution_can_be_measured(make_task: MakeTask) -> None:
    inspected = inspect_task(make_task(files={"solution/solve.sh": None}))
    assert inspected.task is not None
    assert inspected.notes == ("it has no reference solution (solution/solve.sh)",)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
TABLES = {"agent": schema.AgentTable, "verifier": schema.VerifierTable, "environment": schema.EnvironmentTable}


@given(st.sampled_from(sorted(TABLES)), st.data())
def test_any_value_in_a_task_file_is_read_or_refused(table: str, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(TABLES[table].model_fields)))
    document = Document(Path("task.toml"), "", {table: {key: data.draw(VALUES)}})
    try:
        tables = schema.validate(document)
        assert all(problem.isprintable() for problem in find_problems(Path("nowhere"), tables))
    except ConfigError as error:
        assert error.message.startswith(f"task.toml: {table}")
        assert "\n" not in error.message
