"""What `ht tasks oracle` does: every task is solved by its reference solution or left alone, and graded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harnesstrain.cli import exits, output
from harnesstrain.cli.checking import panel_of
from harnesstrain.cli.session import settings_for
from harnesstrain.core.errors import AnswerNo, HtError, Incomplete, Unmeasurable, Unsupported
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.sandbox import Grade
from harnesstrain.core.records.task import REWARD, Task
from harnesstrain.measure.sandboxes import open_for
from harnesstrain.rollout.oracle import Trial, differences, do_nothing, solve
from harnesstrain.sandbox.base import Sandbox
from harnesstrain.taskset import LoadedPanel, against_host, allowed, load_panel, reasons_of, with_host

DIFFERS = "differs"


class OracleSpec(Record):
    """The command's options."""

    panel: str | None
    split: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    noop: bool
    twice: bool = False
    jobs: int | None
    config: Path | None
    given: tuple[str, ...]


class Line(Record):
    """One task's result."""

    task: str
    result: str
    """solved, unsolved, differs (the second time), unsupported, error (it cannot be loaded), another error's kind, or
    skipped."""
    reward: float | None = None
    rewards: dict[str, float] = {}
    """Named rewards, and those of a task's steps."""
    detail: str = ""


def run_oracle(spec: OracleSpec, *, as_json: bool, exit_code: bool) -> None:
    """Run it, print a line a task.  Raises Unmeasurable when a task could not be graded."""
    settings = settings_for(config=spec.config, given=list(spec.given))
    split = None if spec.split == "all" else spec.split
    loaded = load_panel(panel_of(spec.panel, settings), settings.root).select(split, spec.include, spec.exclude)
    exits.STOP.drains = True
    host = allowed(settings.sandbox.verifier_env, os.environ)
    sandbox = open_for(settings)
    lines: list[Line] = []
    try:
        with ThreadPoolExecutor(max_workers=spec.jobs or settings.measure.jobs) as pool:
            names = [place.task for place in loaded.places]
            for line in pool.map(lambda name: _line(sandbox, loaded, name, spec, host), names):
                lines.append(line)
                if not as_json:
                    output.data(f"{line.result:15} {line.task}" + (f"  {line.detail}" if line.detail else ""))
    finally:
        sandbox.close()
    solved = sum(line.result == "solved" for line in lines)
    if as_json:
        output.emit_list("oracle", lines, panel=loaded.name, noop=spec.noop, solved=solved)
    differing = [line.task for line in lines if line.result == DIFFERS]
    twice = f"; {len(differing)} of {len(lines)} not the same twice" if spec.twice else ""
    output.say(f"{solved} of {len(lines)} solved by {'doing nothing' if spec.noop else 'reference solutions'}{twice}")
    if any(line.result == "skipped" for line in lines):
        msg = "stopped before every task was run"
        raise Incomplete(msg, hint="run the command again")
    ungraded = [line.task for line in lines if line.result not in ("solved", "unsolved", DIFFERS)]
    if ungraded:
        msg = f"could not be graded: {', '.join(ungraded)}"
        raise Unmeasurable(msg, hint="the lines above say why")
    if exit_code and (differing or solved != (0 if spec.noop else len(lines))):
        msg = f"not the same twice: {', '.join(differing)}" if differing else f"{solved} of {len(lines)} solved"
        raise AnswerNo(msg)


def _line(sandbox: Sandbox, loaded: LoadedPanel, name: str, spec: OracleSpec, host: Mapping[str, str]) -> Line:
    trouble = loaded.troubles.get(name) or against_host(loaded.tasks[name], host)
    if trouble is None:
        return _graded(sandbox, with_host(loaded.tasks[name], host), spec)
    result = "unsupported" if isinstance(trouble, Unsupported) else "error"
    return Line(task=name, result=result, detail="; ".join(reasons_of(trouble)))


def _graded(sandbox: Sandbox, task: Task, spec: OracleSpec) -> Line:
    if exits.STOP.is_set():
        return Line(task=task.name, result="skipped")
    run = do_nothing if spec.noop else solve
    try:
        trial = run(sandbox, task)
        differs = differences(trial, run(sandbox, task)) if spec.twice else ()
    except HtError as error:
        said = error.message.strip().splitlines() or [""]
        return Line(task=task.name, result=error.kind, detail=said[0] + (f" … {said[-1]}" if said[1:] else ""))
    result = DIFFERS if differs else "solved" if trial.solved else "unsolved"
    parts = [_rewards(trial)] if task.steps else []
    if not trial.solved and not spec.noop:
        parts += [_short(task, trial.grade), f"solve.sh exited {trial.exit_code}{_printed(trial.output, ', and')}"]
        parts += [f"the verifier{_printed(trial.grade.output)}"] if trial.grade.output.strip() else []
    parts += differs
    if spec.twice and not differs:
        parts.append("twice the same")
    return Line(
        task=task.name,
        result=result,
        reward=trial.grade.reward,
        rewards=trial.grade.rewards,
        detail="; ".join(part for part in parts if part),
    )


def _short(task: Task, grade: Grade) -> str:
    """The reward, and each that is less than the task needs."""
    had = {**grade.rewards, REWARD: grade.reward}
    told = {REWARD: f"reward {grade.reward:g}"}
    for name, least in (task.pass_rewards or {REWARD: task.pass_reward}).items():
        if name not in had:
            told[name] = f"no '{name}', needs {least:g}"
        elif had[name] < least:
            told[name] = f"{name} {had[name]:g}, needs {least:g}"
    return "; ".join(told.values())


def _printed(output: str, how: str = "") -> str:
    """The last line of what was printed, as the end of a sentence."""
    lines = output.strip().splitlines()
    return f"{how} printed: {lines[-1]}" if lines else ""


def _rewards(trial: Trial) -> str:
    stopped = f", stopped {trial.stopped}" if trial.stopped else ""
    return f"steps {', '.join(f'{reward:g}' for reward in trial.steps)}{stopped}"
