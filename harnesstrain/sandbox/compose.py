"""A task's compose file: read, vetted, and turned into one that holds nothing a task should not have.

The agent works in the service `main`; what it leaves out is as in a task of one container.  A closed list of keys is
understood; any other is refused by name before anything starts, so that nothing is weakened in silence.  Variables come
from the task alone, never from this machine's environment; paths stay inside the task's folder.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import Unsupported
from harnesstrain.sandbox.images import Recipe

MAIN = "main"
STAYS_UP = ["sh", "-c", "while :; do sleep 3600; done"]
"""The command of `main` when nobody names one."""
KEPT = (
    "command",
    "depends_on",
    "entrypoint",
    "environment",
    "expose",
    "extra_hosts",
    "healthcheck",
    "hostname",
    "init",
    "networks",
    "platform",
    "read_only",
    "shm_size",
    "stdin_open",
    "tmpfs",
    "tty",
    "user",
    "working_dir",
)
"""Keys of a service that are taken as they are."""
DROPPED = ("container_name", "labels", "logging", "ports", "pull_policy", "restart", "stop_grace_period", "stop_signal")
"""Keys that have no meaning here: nothing is published, names are made, what ends stays ended."""
READ = (
    "image",
    "build",
    "volumes",
    "mem_limit",
    "cpus",
    "pids_limit",
    "deploy",
    "env_file",
    "network_mode",
    "profiles",
)
BUILD = ("context", "dockerfile", "args", "target")
_VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|(?P<plain>\w+)|\{(?P<name>\w+)(?:(?P<how>:?[-?+])(?P<other>[^}]*))?\})")


@dataclass(frozen=True)
class Service:
    """One container of a task."""

    name: str
    settings: Mapping[str, Any]
    """Compose's own keys, vetted; without image, build and limits."""
    image: str | None = None
    build: Recipe | None = None
    """None, like `image`: the task's own image (`main` only)."""
    memory_mb: int | None = None
    cpus: float | None = None
    pids: int | None = None

    @property
    def checks_health(self) -> bool:
        """Whether it says when it is ready."""
        check = self.settings.get("healthcheck")
        return bool(check) and not (check or {}).get("disable")


@dataclass(frozen=True)
class Composition:
    """What a compose file asks for."""

    services: Mapping[str, Service]
    """`main` is always among them."""
    networks: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()


@dataclass
class _Reader:
    folder: Path
    values: Mapping[str, str]
    problems: list[str] = field(default_factory=list)

    def filled(self, value: Any) -> Any:
        """`value` with its variables replaced, `$$` by `$`."""
        if isinstance(value, str):
            return _VARIABLE.sub(self._value, value)
        if isinstance(value, dict):
            return {key: self.filled(one) for key, one in value.items()}
        return [self.filled(one) for one in value] if isinstance(value, list) else value

    def _value(self, found: re.Match[str]) -> str:
        if found["escaped"]:
            return "$"
        name, how = found["plain"] or found["name"], found["how"] or ""
        known = self.values.get(name)
        usable = bool(known) if how.startswith(":") else known is not None
        if how.endswith("+"):
            return found["other"] if usable else ""
        if usable:
            return known or ""
        if how.endswith("-"):
            return found["other"] or ""
        self.problems.append(f"it needs the variable {name}")
        return ""

    def inside(self, text: str, what: str) -> Path | None:
        """A path of the task's folder, or a problem."""
        path = (self.folder / text).resolve()
        if path.is_relative_to(self.folder):
            return path
        self.problems.append(f"{what} lies outside the task's environment ({text})")
        return None


def read_composition(file: Path, values: Mapping[str, str]) -> Composition:
    """What a compose file asks for; `values`: variables it may use.  Raises Unsupported with every reason there is."""
    import yaml

    try:
        text = file.read_text(encoding="utf-8")
        document = yaml.load(text, _loader())  # noqa: S506 - it makes plain values only
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise Unsupported(f"{file} cannot be read: {reason}", hint="`docker compose config` says more") from error
    reader = _Reader(file.parent.resolve(), values)
    if not isinstance(document, dict) or not isinstance(document.get("services") or {}, dict):
        raise Unsupported(f"{file} names no services")
    document = reader.filled(document)
    for key in document.keys() - {"services", "version", "name", "networks", "volumes"}:
        if not str(key).startswith("x-"):
            reader.problems.append(f"it uses {key}")
    services = document.get("services") or {}
    found = {
        str(name): _service(reader, str(name), table or {})
        for name, table in services.items()
        if not isinstance(table, dict) or not table.get("profiles")
    }
    found.setdefault(MAIN, Service(MAIN, {}))
    networks = tuple(_plain(reader, document, "networks", ("name", "internal", "attachable"), ("bridge",)))
    volumes = tuple(_plain(reader, document, "volumes", ("name",), ("local",)))
    _complete(reader, found)
    if reader.problems:
        said = "; ".join(dict.fromkeys(reader.problems))
        raise Unsupported(f"the docker sandbox does not run {file.name} as it is: {said}")
    return Composition(found, networks, volumes)


@functools.cache
def _loader() -> Any:
    """Plain values, as compose reads them: of the words for a truth value only `true` and `false` are one."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in found if not tag.endswith(":bool")]
            for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
    )
    return Loader


def _service(reader: _Reader, name: str, table: Any) -> Service:
    if not isinstance(table, dict):
        reader.problems.append(f"service {name} is no mapping")
        return Service(name, {})
    for key in table.keys() - {*KEPT, *DROPPED, *READ}:
        if not str(key).startswith("x-"):
            reader.problems.append(f"service {name} uses {key}")
    settings = {key: table[key] for key in KEPT if table.get(key) is not None}
    settings["environment"] = _environment(reader, name, table.get("environment") or {})
    mode = str(table.get("network_mode") or "")
    if mode.startswith("service:") or mode == "none":
        settings["network_mode"] = mode
    elif mode not in ("", "bridge"):
        reader.problems.append(f"service {name} uses network_mode {mode}")
    files = table.get("env_file") or []
    if files:
        listed = [files] if isinstance(files, str) else files
        paths = [reader.inside(str(one), f"env_file of service {name}") for one in listed]
        settings["env_file"] = [str(path) for path in paths if path]
    if table.get("volumes"):
        settings["volumes"] = list(_mounts(reader, name, table["volumes"]))
    limits = ((table.get("deploy") or {}).get("resources") or {}).get("limits") or {}
    return Service(
        name,
        settings,
        image=table.get("image") if table.get("build") is None else None,
        build=_build(reader, name, table["build"]) if table.get("build") is not None else None,
        memory_mb=_megabytes(reader, name, table.get("mem_limit") or limits.get("memory")),
        cpus=_number(reader, name, "cpus", table.get("cpus") or limits.get("cpus")),
        pids=int(_number(reader, name, "pids_limit", table.get("pids_limit") or limits.get("pids")) or 0) or None,
    )


def _environment(reader: _Reader, name: str, table: Any) -> dict[str, str]:
    pairs = [str(one).partition("=") for one in table] if isinstance(table, list) else []
    given = {key: value if sign else None for key, sign, value in pairs} if pairs else dict(table)
    for key in [key for key, value in given.items() if value is None]:
        reader.problems.append(f"service {name} needs the variable {key} of this machine")
        del given[key]
    return {str(key): _text(value) for key, value in given.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _build(reader: _Reader, name: str, table: Any) -> Recipe | None:
    found: dict[str, Any] = {"context": table} if isinstance(table, str) else table
    for key in found.keys() - set(BUILD):
        reader.problems.append(f"service {name} uses build.{key}")
    context = reader.inside(str(found.get("context") or "."), f"the build context of service {name}")
    if context is None:
        return None
    given = found.get("args") or {}
    args: dict[str, Any] = dict(str(one).partition("=")[::2] for one in given) if isinstance(given, list) else given
    dockerfile = str(found.get("dockerfile") or "Dockerfile")
    if not (context / dockerfile).resolve().is_relative_to(context):
        reader.problems.append(f"the Dockerfile of service {name} lies outside its build context")
    values = {str(key): _text(value) for key, value in args.items()}
    return Recipe(context, dockerfile, values, found.get("target"))


def _mounts(reader: _Reader, name: str, volumes: Any) -> Iterator[dict[str, Any]]:
    """Named and nameless volumes; files of the task's folder, which can only be read."""
    for one in volumes:
        if isinstance(one, str):
            source, target, *mode = one.split(":") if ":" in one else ("", one)
            kind = "bind" if source.startswith((".", "/", "~")) else "volume"
            mount: dict[str, Any] = {"type": kind, "target": target}
            mount |= {"source": source} if source else {}
            mount |= {"read_only": True} if mode == ["ro"] else {}
        else:
            mount = {key: one[key] for key in ("type", "source", "target", "read_only") if one.get(key) is not None}
            for key in one.keys() - {"type", "source", "target", "read_only"}:
                reader.problems.append(f"service {name} uses {key} of a volume")
        if mount.get("type") == "bind":
            path = reader.inside(str(mount.get("source")), f"a volume of service {name}")
            mount |= {"source": str(path), "read_only": True}
        elif mount.get("type") not in ("volume", "tmpfs"):
            reader.problems.append(f"service {name} uses a volume of type {mount.get('type')}")
        yield mount


def _plain(
    reader: _Reader, document: Mapping[str, Any], what: str, known: tuple[str, ...], drivers: tuple[str, ...]
) -> Iterator[str]:
    """Names of networks or volumes that the project has for itself."""
    for name, table in (document.get(what) or {}).items():
        for key in (table or {}).keys() - {*known, "driver", "labels"}:
            reader.problems.append(f"{what}.{name} uses {key}")
        driver = (table or {}).get("driver")
        if driver not in (None, *drivers):
            reader.problems.append(f"{what}.{name} uses the driver {driver}")
        yield str(name)


def _complete(reader: _Reader, services: dict[str, Service]) -> None:
    for service in services.values():
        if service.name != MAIN and service.image is None and service.build is None:
            reader.problems.append(f"service {service.name} has neither an image nor a build")
        for other in service.settings.get("depends_on") or ():
            if other not in services:
                reader.problems.append(f"service {service.name} depends on {other}, which is not there")


def _megabytes(reader: _Reader, name: str, value: Any) -> int | None:
    if value in (None, ""):
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([bkmg]?)b?\s*", str(value).lower())
    if not found:
        reader.problems.append(f"service {name} has a memory limit of {value}")
        return None
    return max(16, int(float(found[1]) * {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[found[2]]) >> 20)


def _number(reader: _Reader, name: str, key: str, value: Any) -> float | None:
    try:
        return None if value in (None, "") else float(value)
    except (TypeError, ValueError):
        reader.problems.append(f"service {name} has {key} of {value}")
        return None
