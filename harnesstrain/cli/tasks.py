"""What `ht tasks oracle` does: every task of a panel, solved by its reference solution or left alone, and graded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harnesstrain.cli import exits, output
from harnesstrain.cli.session import settings_for
from harnesstrain.core.errors import AnswerNo, HtError, Incomplete, Unmeasurable
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.task import Task
from harnesstrain.measure.sandboxes import open_for
from harnesstrain.rollout.oracle import do_nothing, solve
from harnesstrain.sandbox.base import Sandbox
from harnesstrain.taskset import load_panel


class OracleSpec(Record):
    """The command's options."""

    panel: str | None
    split: str | None
    include: tuple[str, ...]
    noop: bool
    jobs: int | None
    config: Path | None
    given: tuple[str, ...]


class Line(Record):
    """One task's result."""

    task: str
    result: str
    """solved, unsolved, an error kind, or skipped."""
    reward: float | None = None
    detail: str = ""


def run_oracle(spec: OracleSpec, *, as_json: bool, exit_code: bool) -> None:
    """Run it, print a line a task.  Raises Unmeasurable when a task could not be graded."""
    settings = settings_for(config=spec.config, given=list(spec.given))
    split = None if spec.split == "all" else spec.split
    loaded = load_panel(spec.panel or settings.panel.chosen, settings.root).select(split, spec.include)
    exits.STOP.drains = True
    sandbox = open_for(settings)
    lines: list[Line] = []
    try:
        with ThreadPoolExecutor(max_workers=spec.jobs or settings.measure.jobs) as pool:
            for line in pool.map(lambda task: _line(sandbox, task, noop=spec.noop), loaded.tasks.values()):
                lines.append(line)
                if not as_json:
                    output.data(f"{line.result:10}{line.task}" + (f"  {line.detail}" if line.detail else ""))
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


def _line(sandbox: Sandbox, task: Task, *, noop: bool) -> Line:
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
