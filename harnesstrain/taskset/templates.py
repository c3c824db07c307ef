"""`${VAR}` and `${VAR:-default}` in the env tables of task.toml.

Harbor takes every value from the machine that runs the task.  Here no variable of the host reaches an environment in
which a harness acts, for it would change what is measured without being recorded: the default is used, and a variable
without one is missing.  A verifier may be given those variables that the user lists by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harnesstrain.core.errors import Unsupported
from harnesstrain.core.records.task import Task, Verifier

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True)
class Filled:
    """An env table without templates."""

    values: dict[str, str]
    missing: tuple[str, ...]
    """Variables that have neither a value nor a default, in order."""


def fill(env: Mapping[str, str], host: Mapping[str, str] | None = None) -> Filled:
    """Replace every template by the host's value, where `host` has one, else by its default."""
    missing: list[str] = []
    known = host or {}

    def value(found: re.Match[str]) -> str:
        if found[1] in known:
            return known[found[1]]
        if found[2] is None:
            missing.append(found[1])
        return found[2] or ""

    values = {name: _VARIABLE.sub(value, text) for name, text in env.items()}
    return Filled(values, tuple(dict.fromkeys(missing)))


def templates_in(env: Mapping[str, str]) -> dict[str, str]:
    """The entries that name a variable of the host."""
    return {name: text for name, text in env.items() if _VARIABLE.search(text)}


def allowed(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a verifier may be given: those named, where they are set."""
    return {name: environ[name] for name in names if name in environ}


def lacking(task: Task, host: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that a verifier of the task needs and `host` does not give, in order."""
    found = [name for one in _verifiers(task) for name in fill(one.templates, host).missing]
    return tuple(dict.fromkeys(found))


def against_host(task: Task, host: Mapping[str, str]) -> Unsupported | None:
    """Why the task cannot be graded with the variables of `host`; None when it can."""
    missing = lacking(task, host)
    if not missing:
        return None
    hint = f"set it, and allow it: `--set sandbox.verifier_env={','.join(missing)}`"
    return Unsupported(f"its verifier needs variables of the host: {', '.join(missing)}", hint=hint)


def needs_of_host(task: Task, host: Mapping[str, str]) -> None:
    """Raises Unsupported where `against_host` says why."""
    why = against_host(task, host)
    if why is not None:
        raise why


def with_host(task: Task, host: Mapping[str, str]) -> Task:
    """The task whose verifiers have the values of `host`.  They enter no record: it keeps the templates."""
    if not any(one.templates for one in _verifiers(task)):
        return task
    steps = tuple(step.model_copy(update={"verifier": _given(step.verifier, host)}) for step in task.steps)
    return task.model_copy(update={"verifier": _given(task.verifier, host), "steps": steps})


def _verifiers(task: Task) -> list[Verifier]:
    return [step.verifier for step in task.steps] or [task.verifier]


def _given(verifier: Verifier, host: Mapping[str, str]) -> Verifier:
    return verifier.model_copy(update={"env": verifier.env | fill(verifier.templates, host).values})
