"""What `ht tasks check` and `ht tasks oracle` do.

check: the sandbox is asked about every task of a panel.  oracle: every task is solved by its reference solution or left
alone, and graded.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harnesstrain.cli import exits, output
from harnesstrain.cli.session import settings_for
from harnesstrain.core.errors import AnswerNo, HtError, Incomplete, Prerequisite, Unmeasurable, Unsupported
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.task import Task
from harnesstrain.core.settings import Settings
from harnesstrain.measure.sandboxes import open_for
from harnesstrain.rollout.oracle import do_nothing, solve
from harnesstrain.sandbox.base import Sandbox
from harnesstrain.taskset import LoadedPanel, load_panel, reasons_of


class OracleSpec(Record):
    """The command's options."""

    panel: str | None
    split: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    noop: bool
    jobs: int | None
    config: Path | None
    given: tuple[str, ...]


class Line(Record):
    """One task's result."""

    task: str
    result: str
    """solved, unsolved, unsupported, error (it cannot be loaded), another error's kind, or skipped."""
    reward: float | None = None
    detail: str = ""


def asked(settings: Settings, loaded: LoadedPanel) -> LoadedPanel:
    """The panel, where what the sandbox of the settings refuses is a trouble too.  Starts no environment.

    Where no sandbox can be had, says so and leaves the panel as it is.
    """
    try:
        sandbox = open_for(settings)
    except (Prerequisite, Unsupported) as error:
        output.say(f"note: only the tasks' files are checked, no sandbox can be had: {error.message}")
        return loaded
    refused: dict[str, HtError] = {}
    try:
        for name, task in loaded.tasks.items():
            try:
                sandbox.check(task.environment)
            except Unsupported as error:
                refused[name] = error
    finally:
        sandbox.close()
    return loaded.refuse(refused)


def run_oracle(spec: OracleSpec, *, as_json: bool, exit_code: bool) -> None:
    """Run it, print a line a task.  Raises Unmeasurable when a task could not be graded."""
    settings = settings_for(config=spec.config, given=list(spec.given))
    split = None if spec.split == "all" else spec.split
    loaded = load_panel(spec.panel or settings.panel.chosen, settings.root).select(split, spec.include, spec.exclude)
    exits.STOP.drains = True
    sandbox = open_for(settings)
    lines: list[Line] = []
    try:
        with ThreadPoolExecutor(max_workers=spec.jobs or settings.measure.jobs) as pool:
            names = [place.task for place in loaded.places]
            for line in pool.map(lambda name: _line(sandbox, loaded, name, noop=spec.noop), names):
                lines.append(line)
                if not as_json:
                    output.data(f"{line.result:15} {line.task}" + (f"  {line.detail}" if line.detail else ""))
    finally:
        sandbox.close()
    solved = sum(line.result == "solved" for line in lines)
    if as_json:
        output.emit_list("oracle", lines, panel=loaded.name, noop=spec.noop, solved=solved)
    output.say(f"{solved} of {len(lines)} solved by {'doing nothing' if spec.noop else 'reference solutions'}")
    if any(line.result == "skipped" for line in lines):
        msg = "stopped before every task was run"
        raise Incomplete(msg, hint="run the command again")
    ungraded = [line.task for line in lines if line.result not in ("solved", "unsolved")]
    if ungraded:
        msg = f"could not be graded: {', '.join(ungraded)}"
        raise Unmeasurable(msg, hint="the lines above say why")
    if exit_code and solved != (0 if spec.noop else len(lines)):
        msg = f"{solved} of {len(lines)} solved"
        raise AnswerNo(msg)


def _line(sandbox: Sandbox, loaded: LoadedPanel, name: str, *, noop: bool) -> Line:
    trouble = loaded.troubles.get(name)
    if trouble is None:
        return _graded(sandbox, loaded.tasks[name], noop=noop)
    result = "unsupported" if isinstance(trouble, Unsupported) else "error"
    return Line(task=name, result=result, detail="; ".join(reasons_of(trouble)))


def _graded(sandbox: Sandbox, task: Task, *, noop: bool) -> Line:
    if exits.STOP.is_set():
        return Line(task=task.name, result="skipped")
    try:
        trial = do_nothing(sandbox, task) if noop else solve(sandbox, task)
    except HtError as error:
        return Line(task=task.name, result=error.kind, detail=error.message)
    detail = ""
    if not trial.solved and not noop:
        last = (trial.output.strip().splitlines() or trial.grade.output.strip().splitlines() or [""])[-1]
        detail = f"solve.sh exited {trial.exit_code}: {last}"
    return Line(
        task=task.name, result="solved" if trial.solved else "unsolved", reward=trial.grade.reward, detail=detail
    )
