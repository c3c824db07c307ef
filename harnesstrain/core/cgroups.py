"""Control groups: bounds for all processes of a confinement together.  Imports as little as the launcher."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "harnesstrain"
MEGABYTE = 1 << 20


class suppress:
    """`contextlib.suppress`.  Importing contextlib takes the launcher longer than everything it does."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


def read(path: str) -> str:
    """The whole text of a file."""
    with open(path) as file:
        return file.read()


def write(path: str, text: str) -> None:
    """Write a text file."""
    with open(path, "w") as file:
        file.write(text)


def controllers() -> dict[str, tuple[str, int]]:
    """Where a group can be made for each usable controller: its directory and the hierarchy's version."""
    found: dict[str, tuple[str, int]] = {}
    for line in read("/proc/self/mounts").splitlines():
        _, place, kind, options, *_ = line.split(" ")
        if kind == "cgroup":
            for name in {"memory", "pids", "cpu"} & set(options.split(",")):
                found[name] = (place, 1)
        elif kind == "cgroup2":
            with suppress(OSError):
                for name in {"memory", "pids", "cpu"} & set(read(f"{place}/cgroup.controllers").split()):
                    found.setdefault(name, (place, 2))
    return {name: where for name, where in found.items() if os.access(where[0], os.W_OK)}


def _settings(spec: dict[str, Any], version: int) -> dict[str, list[tuple[str, str]]]:
    memory = spec["memory_mb"]
    wanted: dict[str, list[tuple[str, str]]] = {}
    if memory:
        size = str(memory * MEGABYTE)
        wanted["memory"] = (
            [("memory.limit_in_bytes", size), ("memory.memsw.limit_in_bytes", size)]
            if version == 1
            else [("memory.max", size), ("memory.swap.max", "0")]
        )
    if spec["pids"]:
        wanted["pids"] = [("pids.max", str(spec["pids"]))]
    if spec["cpus"]:
        quota = str(int(spec["cpus"] * 100_000))
        wanted["cpu"] = [("cpu.cfs_quota_us", quota)] if version == 1 else [("cpu.max", f"{quota} 100000")]
    return wanted


def make(spec: dict[str, Any]) -> dict[str, str]:
    """One group per wanted controller, by controller; those that cannot be made are left out."""
    made: dict[str, str] = {}
    name = f"{PREFIX}-{spec['owner']}-{os.urandom(4).hex()}"
    for controller, (place, version) in controllers().items():
        settings = _settings(spec, version).get(controller)
        if not settings:
            continue
        group = f"{place}/{name}"
        try:
            if version == 2 and controller not in read(f"{place}/cgroup.subtree_control").split():
                write(f"{place}/cgroup.subtree_control", f"+{controller}")
            os.makedirs(group, exist_ok=True)
            write(f"{group}/{settings[0][0]}", settings[0][1])
        except OSError:
            with suppress(OSError):
                os.rmdir(group)
            continue
        for file, value in settings[1:]:
            with suppress(OSError):  # no swap accounting: nothing to bound
                write(f"{group}/{file}", value)
        made[controller] = group
    return made


def remove(groups: dict[str, str]) -> None:
    """Remove groups whose processes are gone."""
    for group in set(groups.values()):
        with suppress(OSError):
            os.rmdir(group)


def sweep() -> int:
    """Remove empty groups of starters that no longer live; returns how many."""
    swept = 0
    for place in {place for place, _ in controllers().values()}:
        for name in os.listdir(place):
            prefix, _, rest = name.partition("-")
            owner = rest.partition("-")[0]
            if prefix == PREFIX and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                with suppress(OSError):
                    os.rmdir(f"{place}/{name}")
                    swept += 1
    return swept
