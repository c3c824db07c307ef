"""The tables of `task.toml`, schema 1.0 to 1.4.

Types are strict: a string is no number.  Keys that no schema knows are ignored, as Harbor does, and listed by
`unknown_keys`.  Tables that only matter to what is unsupported here are kept as they are.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from harnesstrain.taskset.document import Document

LATEST = (1, 4)
"""The newest schema version that is understood."""

_VERSION = r"^\d{1,4}\.\d{1,4}$"
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_USER = r"^[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)?$"
_SIZE = r"^\d{1,9}(\.\d{1,9})?\s*[KMGkmg]?[Bb]?$"
_ABSOLUTE = r"^/"
_STEP = r"^\w[\w .-]*$"
_LOOKS = {
    _VERSION: "a version such as '1.4'",
    _VARIABLE: "the name of a variable",
    _USER: "a user's name or number",
    _SIZE: "a size such as '2G' or '512M'",
    _ABSOLUTE: "an absolute path",
    _STEP: "the name of a folder",
}
"""What a text that breaks a pattern should have been."""

Seconds = Annotated[float, Field(gt=0, le=30 * 86_400)]
NetworkMode = Literal["public", "no-network", "allowlist"]
Env = dict[Annotated[str, Field(pattern=_VARIABLE)], str]
User = Annotated[str, Field(pattern=_USER)] | Annotated[int, Field(ge=0)]
Size = Annotated[str, Field(pattern=_SIZE)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Command = Annotated[str, Field(min_length=1)]
Version = Annotated[str, Field(pattern=_VERSION)]


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


class Table(BaseModel):
    """One table; unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class PackageTable(Table):
    """[task]: what the task is called."""

    name: str
    description: str = ""
    version: str | None = None
    authors: list[dict[str, Any]] = []
    keywords: list[str] = []


class AgentTable(Table):
    """[agent]: what the harness gets."""

    timeout_sec: Seconds | None = None
    user: User | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None


class HealthcheckTable(Table):
    """[environment.healthcheck]: what must succeed before work begins, by Docker's rules."""

    command: Command
    interval_sec: Annotated[float, Field(gt=0, le=3600)] = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Annotated[float, Field(ge=0, le=86_400)] = 0.0
    start_interval_sec: Annotated[float, Field(gt=0, le=3600)] = 5.0
    retries: Annotated[int, Field(ge=1, le=10_000)] = 3


class CollectTable(Table):
    """[[verifier.collect]]: a command that is run before artifacts are taken."""

    command: Command
    service: str = "main"
    timeout_sec: Seconds = 60.0
    user: User | None = None


class ArtifactTable(Table):
    """One of `artifacts`, when it is more than a path."""

    source: Annotated[str, Field(min_length=1)]
    destination: str | None = None
    """Where it lands on the host: not kept here."""
    exclude: list[str] = []
    service: str | None = None


class EnvironmentTable(Table):
    """[environment]: where the task happens."""

    build_timeout_sec: Seconds = 600.0
    docker_image: Annotated[str, Field(min_length=1)] | None = None
    os: Annotated[Literal["linux", "windows"], BeforeValidator(_lower)] = "linux"
    cpus: Annotated[float, Field(gt=0)] | None = None
    memory_mb: Annotated[int, Field(gt=0)] | None = None
    storage_mb: Annotated[int, Field(gt=0)] | None = None
    memory: Size | None = None
    """Deprecated: "2G"."""
    storage: Size | None = None
    """Deprecated: "10G"."""
    gpus: Annotated[int, Field(ge=0)] | None = None
    gpu_types: list[str] | None = None
    tpu: dict[str, Any] | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None
    allow_internet: bool | None = None
    """Deprecated: network_mode wins."""
    env: Env = {}
    workdir: Annotated[str, Field(pattern=_ABSOLUTE)] | None = None
    skills_dir: str | None = None
    mcp_servers: list[dict[str, Any]] = []
    healthcheck: HealthcheckTable | None = None


class VerifierTable(Table):
    """[verifier]: how the final state is graded."""

    timeout_sec: Seconds = 600.0
    env: Env = {}
    user: User | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentTable | None = None
    collect: list[CollectTable] = []

    @property
    def separate(self) -> bool:
        """Whether the grading happens in a container of its own."""
        return self.environment_mode == "separate" or (self.environment is not None and self.environment_mode is None)


class StepTable(Table):
    """One of [[steps]]."""

    name: Annotated[str, Field(pattern=_STEP, max_length=200)]
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    min_reward: Finite | dict[str, Finite] | None = None
    healthcheck: HealthcheckTable | None = None
    artifacts: list[str | ArtifactTable] = []


class SolutionTable(Table):
    """[solution]: for the reference solution only."""

    env: Env = {}


class TaskToml(Table):
    """The whole file."""

    schema_version: Version = "1.4"
    version: Version | None = None
    """The name of schema_version in schema 1.0."""
    source: str | None = None
    artifacts: list[str | ArtifactTable] = []
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    task: PackageTable | None = None
    metadata: dict[str, Any] = {}
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    environment: EnvironmentTable = EnvironmentTable()
    solution: SolutionTable = SolutionTable()
    steps: list[StepTable] | None = None

    @property
    def schema_number(self) -> tuple[int, int]:
        """The schema version as numbers."""
        text = self.version if self.version and "schema_version" not in self.model_fields_set else self.schema_version
        major, minor = text.split(".")
        return int(major), int(minor)


def validate(document: Document) -> TaskToml:
    """The tables of a task.toml.  Raises ConfigError with file, line and key of the first fault."""
    try:
        return TaskToml.model_validate(document.table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = tuple(str(part) for part in first["loc"])
        key = tuple(part for part in path if part in _every_key(document.table))
        looks = _LOOKS.get(first.get("ctx", {}).get("pattern", ""))
        what = f"should be {looks}" if looks else (first["msg"][0].lower() + first["msg"][1:]).removeprefix("input ")
        hint = f"the file has {error.error_count()} faults; this is the first" if error.error_count() > 1 else None
        document.wrong(f"{'.'.join(key) or 'the file'}: {what}", key, hint)


def unknown_keys(document: Document) -> Iterator[str]:
    """A sentence for each key that no schema version knows.  The loader ignores them."""
    yield from _unknown(document, TaskToml, document.table, ())


def _unknown(document: Document, model: type[Table], table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for key, value in table.items():
        field = model.model_fields.get(key)
        here = (*path, key)
        if field is None:
            yield _sentence(document, here, list(model.model_fields))
        elif inner := _table_type(field.annotation):
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Mapping):
                    yield from _unknown(document, inner, one, here)


def _sentence(document: Document, path: tuple[str, ...], known: list[str]) -> str:
    line = document.line(path)
    close = get_close_matches(path[-1], known, n=1)
    if close:
        why = f"; did you mean '{close[0]}'?"
    elif path[-1] in TaskToml.model_fields:
        why = "; it belongs before the first table"
    else:
        why = ""
    return f"task.toml{f':{line}' if line else ''}: unknown key '{'.'.join(path)}' is ignored{why}"


def _table_type(annotation: Any) -> type[Table] | None:
    """The Table in an annotation such as `PackageTable | None` or `list[str | ArtifactTable]`."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation if issubclass(annotation, Table) else None
    return next((found for one in typing.get_args(annotation) if (found := _table_type(one))), None)


def _every_key(table: Any) -> set[str]:
    if isinstance(table, Mapping):
        return set(table) | {key for value in table.values() for key in _every_key(value)}
    return {key for value in table for key in _every_key(value)} if isinstance(table, list) else set()
