"""docker-compose.yaml of a task: what its one service `client` sets.

What a single container without the host's files cannot give is a problem: the task is refused, never run otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from harnesstrain.taskset.terminalbench.yamlfile import YamlDocument

SERVICE = "client"

VARIABLES = {
    "T_BENCH_TEST_DIR": "/tests",
    "T_BENCH_CONTAINER_LOGS_PATH": "/logs",
    "T_BENCH_CONTAINER_AGENT_LOGS_PATH": "/agent-logs",
}
"""What compose files may ask for, and what it is in a sandbox."""

_LOGS = {"T_BENCH_TASK_LOGS_PATH", "T_BENCH_TASK_AGENT_LOGS_PATH"}
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?::?-([^}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))")
_WITHOUT_EFFECT = {"container_name", "tty", "stdin_open", "init", "restart", "labels", "expose", "hostname"}
_WITHOUT_EFFECT |= {"stop_signal", "stop_grace_period", "pull_policy", "logging"}
_HANDLED = {"build", "image", "command", "environment", "volumes", "working_dir", "user", "deploy", "mem_limit"}
_HANDLED |= {"cpus", "network_mode", "platform"}
_WAITS = re.compile(r"(sleep\s+(infinity|\d+)|tail\s+-f\s+/dev/null|(/bin/)?(ba)?sh(\s+-l)?)")
_PLATFORMS = ("linux/amd64", "linux/x86_64")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([bkmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1 / 1024**2, "b": 1 / 1024**2, "k": 1 / 1024, "m": 1.0, "g": 1024.0}


@dataclass
class Client:
    """The service, as far as one container goes."""

    dockerfile: str | None = "Dockerfile"
    """Relative to the task's directory; None: `image` is used."""
    image: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    workdir: str | None = None
    user: str | None = None
    cpus: float | None = None
    memory_mb: int | None = None
    network: str = "host"
    """`host`: compose gives a network unless told otherwise."""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_client(document: YamlDocument) -> Client:
    """The service of a compose file.  Raises ConfigError when the file is no compose file."""
    services = document.table.get("services")
    if not isinstance(services, Mapping) or not services:
        document.wrong("there are no services", hint=f"a task has one service, called {SERVICE}")
    found = Client()
    others = sorted(str(name) for name in services if name != SERVICE)
    if SERVICE not in services:
        document.wrong(f"there is no service '{SERVICE}'", ("services",))
    if others:
        found.problems.append(f"it needs several containers (docker-compose.yaml: {', '.join(others)})")
    for key in ("secrets", "configs"):
        if document.table.get(key):
            found.problems.append(f"it uses {key} of docker compose")
    service = services[SERVICE]
    if not isinstance(service, Mapping):
        document.wrong(f"service '{SERVICE}' is not a mapping", ("services",))
    _Reader(document, service, found).read()
    return found


class _Reader:
    """One pass over the service."""

    def __init__(self, document: YamlDocument, service: Mapping[str, Any], found: Client) -> None:
        self._document = document
        self._service = service
        self._found = found

    def read(self) -> None:
        """Fill in everything."""
        self._build()
        self._environment()
        self._resources()
        for target in self._volumes():
            self._problem(f"it mounts {target}")
        self._command()
        network = self._service.get("network_mode")
        if network == "none":
            self._found.network = "none"
        elif network not in (None, "bridge", "host", "default"):
            self._problem(f"it needs network mode '{network}'")
        if (platform := self._service.get("platform")) not in (None, *_PLATFORMS):
            self._problem(f"it needs platform {platform}")
        self._found.workdir = self._text("working_dir")
        if self._found.workdir and not self._found.workdir.startswith("/"):
            self._wrong("working_dir is no absolute path")
        self._found.user = self._text("user")
        for key in self._service:
            if key not in _WITHOUT_EFFECT | _HANDLED and self._service[key] not in (None, [], {}, False):
                if key == "ports":
                    self._found.notes.append("its ports are not published on this machine")
                else:
                    self._problem(f"it uses {key} of docker compose")

    def _build(self) -> None:
        build = self._service.get("build")
        if build is None:
            image = self._text("image")
            if not image:
                self._wrong("it has neither build nor image")
            self._found.dockerfile, self._found.image = None, image
            return
        table = {"context": build} if isinstance(build, str) else build
        if not isinstance(table, Mapping):
            self._wrong("build is neither a path nor a mapping")
        context = str(table.get("context", "."))
        if context.rstrip("/") not in (".", "") or context.startswith("/"):
            self._problem(f"it is built from '{context}' instead of its own directory")
        self._found.dockerfile = str(table.get("dockerfile", "Dockerfile")).removeprefix("./")
        if ".." in self._found.dockerfile.split("/") or self._found.dockerfile.startswith("/"):
            self._wrong("build.dockerfile lies outside the task")
        for key in table:
            if key not in ("context", "dockerfile") and table[key]:
                self._problem(f"it uses build.{key} of docker compose")

    def _environment(self) -> None:
        given = self._service.get("environment") or {}
        if isinstance(given, list):
            if not all(isinstance(item, str) for item in given):
                self._wrong("environment is no list of NAME=value")
            pairs = [item.partition("=") for item in given]
            missing = [name for name, sign, _ in pairs if not sign]
            if missing:
                self._problem(f"its environment needs variables of the host: {', '.join(missing)}")
            given = {name: value for name, sign, value in pairs if sign}
        if not isinstance(given, Mapping):
            self._wrong("environment is neither a list nor a mapping")
        for name, value in given.items():
            if value is None:
                self._problem(f"its environment needs variables of the host: {name}")
            elif isinstance(value, Mapping | list):
                self._wrong(f"environment.{name} is no text")
            else:
                shown = str(value).lower() if isinstance(value, bool) else str(value)
                self._found.env[str(name)] = self._filled(shown, f"environment.{name}")

    def _resources(self) -> None:
        deploy = self._service.get("deploy") or {}
        resources = deploy.get("resources") or {} if isinstance(deploy, Mapping) else None
        if not isinstance(resources, Mapping):
            self._wrong("deploy.resources is not a mapping")
        limits = resources.get("limits") or {}
        reserved = resources.get("reservations") or {}
        if not isinstance(limits, Mapping) or not isinstance(reserved, Mapping):
            self._wrong("deploy.resources.limits is not a mapping")
        if reserved.get("devices"):
            self._problem("it needs a GPU or another device")
        cpus = limits.get("cpus", self._service.get("cpus"))
        if cpus is not None:
            try:
                self._found.cpus = float(str(cpus))
            except ValueError:
                self._wrong(f"cpus is no number: {cpus}")
            if not 0 < self._found.cpus < 4096:
                self._wrong(f"cpus is out of range: {cpus}")
        memory = limits.get("memory", self._service.get("mem_limit"))
        if memory is not None:
            size = _SIZE.fullmatch(str(memory).strip())
            if not size:
                self._wrong(f"memory is no size: {memory}")
            self._found.memory_mb = max(1, round(float(size[1]) * _UNITS[size[2].lower()]))

    def _volumes(self) -> Iterator[str]:
        given = self._service.get("volumes") or []
        if not isinstance(given, list):
            self._wrong("volumes is no list")
        for item in given:
            shown = item if isinstance(item, str) else f"{item.get('source', '')}" if isinstance(item, Mapping) else ""
            source = _VARIABLE.match(shown.strip())
            if source is None or (source[1] or source[3]) not in _LOGS:
                yield f"'{shown}', which no sandbox gives"

    def _command(self) -> None:
        given = self._service.get("command")
        if given is None:
            return
        words = given if isinstance(given, list) else [given]
        text = " ".join(str(word) for word in words).strip()
        text = re.sub(r"^(/bin/)?(ba)?sh -l?c\s+", "", text).strip("\"' ")
        if not _WAITS.fullmatch(text):
            self._problem(f"its container runs a command of its own: {text[:60]}")

    def _text(self, key: str) -> str | None:
        value = self._service.get(key)
        if value is None:
            return None
        if isinstance(value, Mapping | list):
            self._wrong(f"{key} is no text")
        return self._filled(str(value), key)

    def _filled(self, text: str, where: str) -> str:
        missing: list[str] = []

        def value(found: re.Match[str]) -> str:
            name = found[1] or found[3]
            if name in VARIABLES:
                return VARIABLES[name]
            if found[2] is None:
                missing.append(name)
            return found[2] or ""

        filled = _VARIABLE.sub(value, text.replace("$$", "\0")).replace("\0", "$")
        if missing:
            self._problem(f"its {where} needs variables of the host: {', '.join(missing)}")
        return filled

    def _problem(self, text: str) -> None:
        if text not in self._found.problems:
            self._found.problems.append(text)

    def _wrong(self, what: str) -> NoReturn:
        self._document.wrong(f"service '{SERVICE}': {what}", ("services",))
