"""`${VAR}` and `${VAR:-default}` in the env tables of task.toml.

Harbor takes the value from the machine that runs the task.  Here no variable of the host reaches a task, for it would
change what is measured without being recorded: the default is used, and a variable without one is missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True)
class Filled:
    """An env table without templates."""

    values: dict[str, str]
    missing: tuple[str, ...]
    """Variables of the host that have no default, in order."""


def fill(env: Mapping[str, str]) -> Filled:
    """Replace every template by its default."""
    missing: list[str] = []

    def default(found: re.Match[str]) -> str:
        if found[2] is None:
            missing.append(found[1])
        return found[2] or ""

    values = {name: _VARIABLE.sub(default, value) for name, value in env.items()}
    return Filled(values, tuple(dict.fromkeys(missing)))
