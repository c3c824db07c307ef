"""The parts of a Harbor task: environments, verifiers, solutions, each with the digest of all that counts in it.

A digest covers what is there: a table that a task does not use leaves the digest as it was before the format had it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.task import Artifact, Collect, Environment, Healthcheck, Solution, Verifier
from harnesstrain.taskset.content import digest_directory
from harnesstrain.taskset.document import Document
from harnesstrain.taskset.limits import compose_file, network, size_mb
from harnesstrain.taskset.schema import (
    AgentTable,
    ArtifactTable,
    EnvironmentTable,
    HealthcheckTable,
    SolutionTable,
    VerifierTable,
)
from harnesstrain.taskset.templates import fill, templates_in

SCRIPT = "test.sh"
CONVENTION = "/logs/artifacts"
"""A directory that is an artifact of every task."""


def environment(
    document: Document, folder: Path, table: EnvironmentTable, phase: AgentTable | VerifierTable
) -> Environment:
    """The environment that `folder` and `table` describe.  An image wins over a Dockerfile.

    Raises ConfigError when there is neither.
    """
    builds = table.docker_image is None
    compose = compose_file(folder)
    if builds and compose is None and not (folder / "Dockerfile").is_file():
        where = folder.relative_to(document.path.parent)
        key = ("environment",) if where.name == "environment" else ("verifier",)
        whose = "the task" if where.name == "environment" else "its separate verifier"
        document.wrong(f"{whose} has neither {where}/Dockerfile nor a docker_image", key, f"add {where}/Dockerfile")
    lays = not builds and not (folder / "Dockerfile").exists() and folder.is_dir() and any(folder.iterdir())
    found = Environment(
        context=folder if builds else None,
        image=table.docker_image,
        workdir=table.workdir,
        user=user(phase if isinstance(phase, AgentTable) else None),
        env=fill(table.env).values,
        cpus=table.cpus,
        memory_mb=size_mb(document, "memory", table.memory_mb, table.memory),
        storage_mb=size_mb(document, "storage", table.storage_mb, table.storage),
        network=network(table, phase),
        build_timeout=table.build_timeout_sec,
        files=folder if lays else None,
        compose=str(folder / compose) if compose and not (builds or lays) else compose,
        healthcheck=healthcheck(table.healthcheck),
    )
    extra: dict[str, Any] = {}
    if found.healthcheck is not None:
        extra["healthcheck"] = found.healthcheck
    if lays or (compose and not builds):
        extra["files"] = digest_directory(folder)
    content = digest_directory(folder) if builds else ""
    return found.model_copy(update={"digest": _digest(found, content, extra)})


def user(phase: AgentTable | VerifierTable | None) -> str | None:
    """Who a phase runs as; None: the image's own."""
    return None if phase is None or phase.user is None else str(phase.user)


def healthcheck(table: HealthcheckTable | None) -> Healthcheck | None:
    """A health check; times in seconds."""
    if table is None:
        return None
    return Healthcheck(
        command=table.command,
        interval=table.interval_sec,
        timeout=table.timeout_sec,
        start_period=table.start_period_sec,
        start_interval=table.start_interval_sec,
        retries=table.retries,
    )


def artifacts(document: Document, found: Iterable[str | ArtifactTable], workdir: str | None) -> tuple[Artifact, ...]:
    """What is carried to a verifier of its own: the declared ones and /logs/artifacts.

    A relative source belongs to the working directory; without one in task.toml it is a ConfigError.
    """
    named: dict[str, Artifact] = {CONVENTION: Artifact(source=CONVENTION)}
    for one in found:
        table = ArtifactTable(source=one) if isinstance(one, str) else one
        source = table.source
        if not source.startswith("/"):
            if workdir is None:
                hint = "write an absolute path, or set [environment] workdir"
                document.wrong(f"artifact '{source}' has no absolute path", ("artifacts",), hint)
            source = f"{workdir.rstrip('/')}/{source}"
        parts = source.split("/")
        if ".." in parts or source.strip("/") == "":
            document.wrong(f"artifact '{table.source}' is no path below the root", ("artifacts",))
        named[source.rstrip("/")] = Artifact(source=source.rstrip("/"), exclude=tuple(table.exclude))
    return tuple(named.values())


def verifier(
    document: Document,
    table: VerifierTable,
    tests: Path,
    *,
    base: Path | None = None,
    own: Environment | None = None,
    carried: Sequence[Artifact] = (),
) -> Verifier:
    """The verifier whose files are in `tests`, over those of `base`.

    `own`: its environment, when it has one; `carried`: what is brought there.  Raises ConfigError: no test.sh.
    """
    templates = templates_in(table.env)
    unset = {name: text for name, text in templates.items() if fill({name: text}).missing}
    in_image = own is not None and (own.context == tests or not (tests / SCRIPT).exists())
    if not in_image:
        _script(tests, base)
    found = Verifier(
        tests=tests if tests.is_dir() or base is None else base,
        base=base if tests.is_dir() else None,
        timeout=table.timeout_sec,
        env=fill(table.env).values | unset,
        user=user(table),
        collect=tuple(Collect(command=c.command, timeout=c.timeout_sec, user=user_of(c.user)) for c in table.collect),
        environment=own,
        artifacts=tuple(carried) if own is not None else (),
        in_image=in_image,
        templates=templates,
    )
    extra: dict[str, Any] = {}
    if found.base is not None:
        extra["base"] = digest_directory(found.base)
    if found.collect:
        extra["collect"] = found.collect
    if own is not None:
        extra["place"] = {"environment": own.digest, "artifacts": found.artifacts, "in_image": in_image}
    content = digest_directory(found.tests) if found.tests.is_dir() else ""
    return found.model_copy(update={"digest": _digest(found, content, extra)})


def user_of(found: str | int | None) -> str | None:
    """A user as text."""
    return None if found is None else str(found)


def solution(folder: Path, table: SolutionTable, timeout: float | None) -> Solution | None:
    """The reference solution in `folder`; None when there is none that can be run."""
    filled = fill(table.env)
    if not (folder / "solve.sh").is_file() or filled.missing:
        return None
    return Solution(path=folder, timeout=timeout or 600.0, env=filled.values)


def _script(tests: Path, base: Path | None) -> None:
    """Raises ConfigError unless there is a test.sh that a shell can run."""
    script = tests / SCRIPT
    if not script.is_file() and base is not None:
        script = base / SCRIPT
    if not script.is_file():
        where = f"{tests.parent} has no verifier: {tests.name}/{SCRIPT} is missing"
        raise ConfigError(where, hint=f"add {tests.name}/{SCRIPT}")
    with script.open("rb") as file:
        first = file.readline(4096)
    if not first:
        raise ConfigError(f"{script} is empty", hint="write the verifier; it writes /logs/verifier/reward.txt")
    if first.endswith(b"\r\n"):
        raise ConfigError(f"{script} has CRLF line ends, which no shell runs", hint="save it with LF line ends")


def _digest(part: Environment | Verifier, content: str, extra: Mapping[str, Any]) -> str:
    settings = part.model_dump(mode="json", exclude={"digest", "env"})
    env = {name: digest_bytes(value.encode()) for name, value in part.env.items()}
    return digest({"content": content, "env": env, **settings, **extra})
