"""Determinism at the source: what is fixed in every sandbox, so that a command can only differ by itself.

The version is part of the regime: change anything here and VERSION goes up.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

VERSION = "2"

HOSTNAME = "sandbox"
PID_BASE = 100
"""Process id of the first command."""

ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "HOME": "/root",
        "USER": "root",
        "LOGNAME": "root",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "COLUMNS": "80",
        "LINES": "24",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_DATE": "@0 +0000",
        "GIT_COMMITTER_DATE": "@0 +0000",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "core.trustctime",
        "GIT_CONFIG_VALUE_0": "false",
        "GIT_CONFIG_KEY_1": "core.checkStat",
        "GIT_CONFIG_VALUE_1": "minimal",
        "SOURCE_DATE_EPOCH": "0",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PERL_HASH_SEED": "0",
        "PERL_PERTURB_KEYS": "0",
        "PIP_PROGRESS_BAR": "off",
        "PIP_NO_COLOR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "DEBIAN_FRONTEND": "noninteractive",
        "NO_COLOR": "1",
    }
)
"""Variables of every command.  A task's own settings win over them.

git compares files by time of change and size alone: a copy of an environment differs in the rest, which git would show.
"""


def proc_files(cpus: int, memory_mb: int) -> dict[str, str]:
    """Fixed texts to lay over files whose contents the kernel makes up, by path."""
    total = memory_mb * 1024
    free = total // 2
    ticks = "cpu{} 1000 0 1000 100000 0 0 0 0 0 0\n"
    processors = "".join(
        f"processor\t: {number}\nvendor_id\t: sandbox\nmodel name\t: sandbox processor\ncpu MHz\t\t: 1000.000\n"
        f"cache size\t: 1024 KB\ncpu cores\t: {cpus}\n\n"
        for number in range(cpus)
    )
    return {
        "/proc/uptime": "1000.00 1000.00\n",
        "/proc/loadavg": "0.00 0.00 0.00 1/100 100\n",
        "/proc/meminfo": "".join(
            f"{name + ':':<16}{value:>8} kB\n"
            for name, value in (
                ("MemTotal", total),
                ("MemFree", free),
                ("MemAvailable", free),
                ("Buffers", 0),
                ("Cached", 0),
                ("SwapTotal", 0),
                ("SwapFree", 0),
            )
        ),
        "/proc/stat": ticks.format(" ")
        + "".join(ticks.format(number) for number in range(cpus))
        + "intr 0\nctxt 0\nbtime 946684800\nprocesses 100\nprocs_running 1\nprocs_blocked 0\n",
        "/proc/cpuinfo": processors,
    }


def cpu_files(cpus: int) -> dict[str, str]:
    """The list of processors, below /sys, by path."""
    text = "0\n" if cpus == 1 else f"0-{cpus - 1}\n"
    folder = "/sys/devices/system/cpu"
    return {f"{folder}/{name}": text for name in ("online", "possible", "present")}
