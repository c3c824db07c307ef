"""What `ht tasks prebuild` does: every environment of a panel is built or pulled before a run needs it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from harnesstrain.cli import exits, output
from harnesstrain.cli.checking import panel_of
from harnesstrain.cli.session import settings_for
from harnesstrain.core.errors import HtError, Incomplete, Prerequisite, Unmeasurable, Unsupported
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.task import Environment, Task
from harnesstrain.measure.sandboxes import open_for
from harnesstrain.sandbox.base import KeepsBuilds, Sandbox
from harnesstrain.taskset import LoadedPanel, load_panel, reasons_of
from harnesstrain.taskset.panels import find_panel_file

DONE = {"to-build": "built", "to-pull": "pulled"}
"""What is to be done, and what it is called when it is."""
FINE = frozenset({"here", "unsupported", *DONE, *DONE.values()})


class PrebuildSpec(Record):
    """The command's options."""

    panel: str | None
    split: str | None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    jobs: int | None = None
    dry_run: bool = False
    config: Path | None = None
    given: tuple[str, ...] = ()


class Built(Record):
    """One environment."""

    task: str
    """The first task that needs it."""
    tasks: int = 1
    """How many do."""
    result: str
    """here, built, pulled, to-build, to-pull, skipped, unsupported, error, or the kind of what went wrong."""
    bytes: int | None = None
    seconds: float | None = None
    detail: str = ""
    hint: str | None = None
    """What may help, where it cannot be built."""


def run_prebuild(spec: PrebuildSpec, *, as_json: bool) -> None:
    """Do it, a line an environment.

    Raises Unmeasurable when one cannot be built, Incomplete when it was stopped, Prerequisite when this sandbox takes
    none of them.
    """
    settings = settings_for(config=spec.config, given=list(spec.given))
    split = None if spec.split == "all" else spec.split
    named = panel_of(spec.panel, settings)
    loaded = load_panel(named, settings.root)
    chosen = loaded.select(split, spec.include, spec.exclude)
    panel = find_panel_file(named.partition(":")[0], settings.root)
    if panel is not None and panel.published is not None and panel.published.images:
        output.say(f"images of the whole panel: {panel.published.images}")
    exits.STOP.drains = True
    sandbox = open_for(settings)
    kind = sandbox.capabilities().kind
    lines: list[Built] = []
    try:
        for line in _lines(sandbox, chosen, jobs=spec.jobs or _at_once(), dry_run=spec.dry_run):
            lines.append(line)
            if not as_json:
                output.data(shown(line))
    finally:
        sandbox.close()
    if as_json:
        output.emit_list("environments", lines, panel=chosen.name, dry_run=spec.dry_run)
    output.say(_total(lines))
    if any(line.result == "skipped" for line in lines):
        msg = "stopped before every environment was built"
        raise Incomplete(msg, hint="run the command again; what was built is kept")
    failed = [line.task for line in lines if line.result not in FINE]
    if failed:
        msg = f"cannot be built: {', '.join(failed)}"
        raise Unmeasurable(msg, hint="the lines above say why; --exclude leaves a task out")
    if all(line.result == "unsupported" for line in lines):
        raise Prerequisite(
            f"sandbox '{kind}' can build none of these environments", hint=_elsewhere(kind, chosen, lines)
        )


def shown(line: Built) -> str:
    """An environment in one line."""
    facts = [] if line.bytes is None else [f"{line.bytes / 1e6:.1f} MB"]
    facts += [] if line.seconds is None else [f"{line.seconds:.1f} s"]
    facts += [f"{line.tasks} tasks"] if line.tasks > 1 else []
    more = f"  {', '.join(facts)}" if facts else ""
    return f"{line.result:15} {line.task}{more}" + (f"  {line.detail}" if line.detail else "")


def _elsewhere(kind: str, chosen: LoadedPanel, lines: list[Built]) -> str:
    """What may help where a sandbox takes nothing."""
    if kind != "docker" and chosen.tasks:
        return "docker may: `--set sandbox.kind=docker`, or kind under [sandbox] in ht.toml; `ht tasks check` compares"
    return next((line.hint for line in lines if line.hint is not None), "the lines above say why")


def _at_once() -> int:
    return max(1, min(4, os.cpu_count() or 1))


def _lines(sandbox: Sandbox, chosen: LoadedPanel, *, jobs: int, dry_run: bool) -> Iterator[Built]:
    todo: list[Built] = []
    environments: dict[str, Environment] = {}
    for line, environment in _asked(sandbox, chosen):
        if line.result not in DONE:
            yield line
            continue
        todo.append(line)
        environments[line.task] = environment
    free = sandbox.room() if isinstance(sandbox, KeepsBuilds) else None
    disk = f"{free / 1e9:.1f} GB free" if free is not None else "free space unknown: it is another machine's"
    output.say(f"{output.counted(len(todo), 'environment')} to build or pull; {disk}")
    if dry_run:
        yield from todo
        return
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = [pool.submit(_build, sandbox, line, environments[line.task]) for line in todo]
        for number, future in enumerate(as_completed(futures), start=1):
            line = future.result()
            output.say(f"  {number}/{len(todo)} {line.task}")
            yield line


def _asked(sandbox: Sandbox, chosen: LoadedPanel) -> Iterator[tuple[Built, Environment]]:
    """Each environment once, with what is known of it before anything is built."""
    nowhere = Environment()
    needed: dict[str, tuple[str, Environment]] = {}
    counts: dict[str, int] = {}
    for place in chosen.places:
        if place.task in chosen.troubles:
            trouble = chosen.troubles[place.task]
            result = "unsupported" if isinstance(trouble, Unsupported) else "error"
            yield Built(task=place.task, result=result, detail="; ".join(reasons_of(trouble))), nowhere
            continue
        for environment in environments_of(chosen.tasks[place.task]):
            key = environment.digest or f"{place.task}/{len(needed)}"
            needed.setdefault(key, (place.task, environment))
            counts[key] = counts.get(key, 0) + 1
    for key, (task, environment) in needed.items():
        yield _state(sandbox, task, environment, counts[key]), environment


def environments_of(task: Task) -> list[Environment]:
    """Where a task happens and where it is graded, if that is elsewhere."""
    verifiers = [task.verifier, *(step.verifier for step in task.steps)]
    return [task.environment, *(one.environment for one in verifiers if one.environment is not None)]


def _state(sandbox: Sandbox, task: str, environment: Environment, count: int) -> Built:
    try:
        sandbox.check(environment)
        size = sandbox.built(environment) if isinstance(sandbox, KeepsBuilds) else None
    except HtError as error:
        return Built(task=task, tasks=count, result=error.kind, detail=error.message, hint=error.hint)
    return Built(task=task, tasks=count, result=todo(environment) if size is None else "here", bytes=size)


def todo(environment: Environment) -> str:
    """What has to be done where an environment is not here."""
    published = environment.image is not None and environment.context is None and environment.compose is None
    return "to-pull" if published else "to-build"


def _build(sandbox: Sandbox, line: Built, environment: Environment) -> Built:
    if exits.STOP.is_set():
        return line.model_copy(update={"result": "skipped"})
    began = time.monotonic()
    found: Mapping[str, object]
    try:
        sandbox.prepare(environment)
        size = sandbox.built(environment) if isinstance(sandbox, KeepsBuilds) else None
        found = {"result": DONE[line.result], "bytes": size}
    except HtError as error:
        found = {"result": error.kind, "detail": error.message}
    return line.model_copy(update={**found, "seconds": time.monotonic() - began})


def _total(lines: list[Built]) -> str:
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.result] = counts.get(line.result, 0) + 1
    size = sum(line.bytes or 0 for line in lines)
    told = ", ".join(f"{count} {result}" for result, count in counts.items())
    return f"{told}; {size / 1e6:.1f} MB here, shared parts counted each time" if size else told
