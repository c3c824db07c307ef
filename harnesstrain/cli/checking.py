"""What `ht tasks check` does: every task of a panel, and where it can run on this machine.  Starts no environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from harnesstrain.cli import output
from harnesstrain.cli.session import settings_for
from harnesstrain.core.errors import AnswerNo, ConfigError, HtError, Prerequisite, Unsupported, UsageError
from harnesstrain.core.records.task import Task
from harnesstrain.core.settings import Settings
from harnesstrain.measure.sandboxes import open_for
from harnesstrain.sandbox.base import Sandbox
from harnesstrain.sandbox.kinds import open_sandbox
from harnesstrain.taskset import LoadedPanel, TaskCheck, allowed, check_loaded, load_panel, needs_of_host, reasons_of

KINDS = ("local", "docker")
"""Sandboxes that a column of the table is about."""
WIDE = 12


def panel_of(given: str | None, settings: Settings) -> str:
    """The panel that an argument names; without one, that of the settings.  Raises UsageError for an empty one."""
    if given is not None and not given.strip():
        hint = f"leave it out for '{settings.panel.chosen}', or name one"
        raise UsageError("the panel's name is empty", hint=hint)
    return given or settings.panel.chosen


def run_check(
    panel: str | None, *, config: Path | None, given: list[str] | None, as_json: bool, exit_code: bool
) -> None:
    """Run it, print a table.  Raises AnswerNo when a task cannot be measured and `exit_code` is asked for."""
    settings = settings_for(config=config, given=given)
    loaded = load_panel(panel_of(panel, settings), settings.root)
    columns = {kind: _asked(kind, settings, loaded) for kind in KINDS}
    checked = check_loaded(asked(settings, loaded))
    tasks = [placed(task, loaded, columns) for task in checked.tasks]
    if as_json:
        output.emit_list("checks", tasks, panel=checked.name, ok=checked.ok)
    else:
        _print(tasks)
        for kind, found in columns.items():
            if isinstance(found, str):
                output.say(f"note: no sandbox of kind '{kind}' can be had here: {found}")
    bad = [task.name for task in tasks if task.status != "ok"]
    output.say(f"{len(tasks) - len(bad)} of {output.counted(len(tasks), 'task')} can be measured")
    if bad and exit_code:
        msg = f"cannot be measured: {', '.join(bad)}"
        raise AnswerNo(msg)


def asked(settings: Settings, loaded: LoadedPanel) -> LoadedPanel:
    """The panel, where what the sandbox of the settings refuses is a trouble too.

    Where no sandbox can be had, says so and leaves the panel as it is.
    """
    refused = _refused(lambda: open_for(settings), loaded, settings)
    if isinstance(refused, str):
        output.say(f"note: only the tasks' files are checked, no sandbox can be had: {refused}")
        return loaded
    return loaded.refuse(refused)


def _asked(kind: str, settings: Settings, loaded: LoadedPanel) -> dict[str, HtError] | str:
    return _refused(lambda: open_sandbox(kind, network=settings.sandbox.network), loaded, settings)


def _refused(opening: Callable[[], Sandbox], loaded: LoadedPanel, settings: Settings) -> dict[str, HtError] | str:
    """What a sandbox refuses, by task; why the sandbox cannot be had, if so."""
    try:
        sandbox = opening()
    except (Prerequisite, Unsupported) as error:
        return error.message
    host = allowed(settings.sandbox.verifier_env, os.environ)
    try:
        return {name: why for name, task in loaded.tasks.items() if (why := _against(sandbox, task, host)) is not None}
    finally:
        sandbox.close()


def _against(sandbox: Sandbox, task: Task, host: Mapping[str, str]) -> Unsupported | ConfigError | None:
    try:
        needs_of_host(task, host)
        for environment in task.environments:
            sandbox.check(environment)
    except (Unsupported, ConfigError) as error:
        return error
    return None


def placed(task: TaskCheck, loaded: LoadedPanel, columns: dict[str, dict[str, HtError] | str]) -> TaskCheck:
    """A check with where the task runs; its hint sends nobody to a sandbox that refuses the task."""
    hint, docker = task.hint, columns["docker"]
    if hint is not None and "sandbox.kind=docker" in hint and not isinstance(docker, str) and task.name in docker:
        hint = docker[task.name].hint
    return task.model_copy(update={"runs": _runs(task, loaded, columns), "hint": hint})


def _runs(
    task: TaskCheck, loaded: LoadedPanel, columns: dict[str, dict[str, HtError] | str]
) -> dict[str, tuple[str, ...] | None]:
    """What speaks against each kind; None: the kind cannot be had here."""
    if task.name in loaded.troubles:
        return dict.fromkeys(columns, reasons_of(loaded.troubles[task.name]))
    found: dict[str, tuple[str, ...] | None] = {}
    for kind, refused in columns.items():
        if isinstance(refused, str):
            found[kind] = None
        else:
            found[kind] = reasons_of(refused[task.name]) if task.name in refused else ()
    return found


def _print(tasks: list[TaskCheck]) -> None:
    width = max((len(task.name) for task in tasks), default=0)
    for task in tasks:
        cells = "  ".join(f"{kind} {_cell(task.runs.get(kind)):3}" for kind in KINDS)
        output.data(f"{task.status:{WIDE}}{task.name:{width}}  {cells}".rstrip())
        for why in task.reasons:
            output.data(" " * WIDE + why)
        for kind in KINDS:
            for why in task.runs.get(kind) or ():
                if why not in task.reasons:
                    output.data(" " * WIDE + f"{kind}: {why}")
        for note in task.notes:
            output.say(f"note: {task.name}: {note}")
        if task.hint:
            output.say(
                f"hint: {task.name}: {task.hint}{', when you run the others' if '--exclude' in task.hint else ''}"
            )


def _cell(against: tuple[str, ...] | None) -> str:
    if against is None:
        return "?"
    return "no" if against else "yes"
