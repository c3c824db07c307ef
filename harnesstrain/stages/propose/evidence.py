"""What an estimator is shown, staged as files: memo, ledger, summary of the last baseline run, one page per task.

Train tasks only.  Never verifier files or outputs, holdout or sealed tasks, secrets, or anything of the machine.
"""

from __future__ import annotations

import functools
from pathlib import Path

from harnesstrain.core.records.candidate import Candidate
from harnesstrain.core.records.rollout import Outcome, Rollout, Step, StepKind, Trace, latest_attempts
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.measure.context import Context
from harnesstrain.stages.propose.base import Evidence
from harnesstrain.stages.propose.ledger import as_markdown, ledger

HIDDEN = ("holdout", "sealed")
"""Splits an estimator never sees."""
POLICY = "program.md"
"""The user's policy text for estimators, in the harness repo."""
RECENT = 10
"""Candidates that are shown as patches."""
PATCH = 20_000
"""Characters of a patch that are shown."""
CLIP = 1500
"""Characters of one text shown on a task's page."""


def stage(context: Context, directory: Path, base: str, epoch: int | None, run_id: str | None) -> Evidence:
    """Write the evidence for a proposal on `base` into `directory`.

    `run_id`: the baseline's run; None: the newest complete train run of `base` on the configured model, if any.
    """
    store = context.store
    runs, candidates = store.runs(), store.candidates()
    record = store.run(run_id) if run_id else _newest(context, runs, base)
    rollouts = _visible(context, record) if record else []
    tried = ledger(candidates, _to_be_shown(context, runs, store.verdicts()), store.promotions(), store.epochs())
    memo = store.memo()
    summary = _summary(record, rollouts)
    (directory / "tasks").mkdir(parents=True, exist_ok=True)
    (directory / "memo.md").write_text(memo.text if memo else "No memo yet.\n", encoding="utf-8")
    (directory / "ledger.md").write_text(as_markdown(tried), encoding="utf-8")
    (directory / "summary.md").write_text(summary, encoding="utf-8")
    _tried(context, directory, base, runs, candidates)
    policy = context.repo.file(base, POLICY)
    if policy is not None:
        (directory / POLICY).write_bytes(policy)
    for rollout in rollouts:
        name = f"{rollout.task.replace('/', '_')}.s{rollout.seed}.md"
        page = _page(rollout, store.trace(rollout.id) if rollout.trace else None)
        (directory / "tasks" / name).write_text(page, encoding="utf-8")
    return Evidence(
        directory=directory,
        base=base,
        epoch=epoch,
        memo=memo.text if memo else "",
        ledger=tried,
        summary=summary,
    )


def _tried(context: Context, directory: Path, base: str, runs: list[Run], candidates: list[Candidate]) -> None:
    """The newest candidates as patches, and how the last one that was measured did."""
    kept = context.repo.refs("candidates/")
    commits = {one.id: kept.get(f"candidates/{one.id[:16]}") for one in candidates}
    recent = [one for one in candidates if commits[one.id]][-RECENT:]
    (directory / "tried").mkdir(exist_ok=True)
    for number, candidate in enumerate(recent, 1):
        diff = context.repo.diff(candidate.base, commits[candidate.id] or "")[:PATCH]
        text = f"Subject: {candidate.hypothesis}\n\n{diff}"
        (directory / "tried" / f"{number:02}-{candidate.id[:8]}.patch").write_text(text, encoding="utf-8")
    measured = [run for one in recent if (run := _newest(context, runs, commits[one.id] or "")) and run.commit != base]
    if measured:
        summary = _summary(measured[-1], _visible(context, measured[-1]))
        (directory / "candidate.md").write_text(summary, encoding="utf-8")


def _newest(context: Context, runs: list[Run], base: str) -> Run | None:
    split = context.settings.panel.split
    found = (run for run in reversed(runs) if run.commit == base and run.split == split and run.configured)
    return next(found, None)


def _visible(context: Context, record: Run) -> list[Rollout]:
    panel = context.store.panel(record.panel)
    hidden = {task.name for task in panel.tasks if task.split in HIDDEN}
    return [r for r in latest_attempts(context.store.rollouts(record.id)) if r.task not in hidden]


def _to_be_shown(context: Context, runs: list[Run], verdicts: list[Verdict]) -> list[Verdict]:
    """The verdicts that rest on no hidden task."""
    known = {run.id: run for run in runs}
    hidden = functools.cache(lambda panel: any(task.split in HIDDEN for task in context.store.panel(panel).tasks))

    def shown(run: Run) -> bool:
        return run.split not in HIDDEN if run.split is not None else not hidden(run.panel)

    return [one for one in verdicts if shown(known.get(one.base_run) or context.store.run(one.base_run))]


def _summary(record: Run | None, rollouts: list[Rollout]) -> str:
    if record is None:
        return "The baseline was not measured yet.\n"
    solved = sum(rollout.solved for rollout in rollouts)
    lines = [f"{solved} of {len(rollouts)} solved by {record.commit[:8]}."]
    if record.early_stop_against is not None:
        lines.append("Its other cells were not measured: the verdict was decided without them.")
    lines.append("")
    lines += ["| task | seed | outcome | model calls | actions | first-try valid |", "|---|---|---|---|---|---|"]
    for rollout in rollouts:
        outcome = rollout.outcome.value + (f" ({rollout.reason})" if rollout.reason else "")
        valid = f"{rollout.first_try_valid}/{rollout.first_try_total}" if rollout.first_try_total else "-"
        cells = (rollout.task, rollout.seed, outcome, rollout.llm_calls, rollout.actions, valid)
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _page(rollout: Rollout, trace: Trace | None) -> str:
    outcome = rollout.outcome.value + (f" ({rollout.reason})" if rollout.reason else "")
    parts = [f"# {rollout.task}\n\nOutcome: {outcome}\n"]
    told = rollout.outcome.owner is not None and rollout.outcome is not Outcome.INFRA_VERIFIER
    if rollout.detail and told and rollout.reward is None:
        parts.append(f"Detail: {rollout.detail}\n")
    if trace is None:
        return "\n".join([*parts, "Nothing was recorded of it.\n"])
    shown: set[str] = set()
    for step in trace.steps:
        parts.append(_step(step, trace, shown))
    if trace.log.strip():
        parts.append(f"## Harness log\n\n{_quoted(trace.log)}")
    return "\n".join(part for part in parts if part)


def _step(step: Step, trace: Trace, shown: set[str]) -> str:
    title = f"## Step {step.index}: {step.kind.value}"
    if step.kind is StepKind.LLM:
        fresh = [key for key in step.messages if key not in shown]
        shown.update(step.messages)
        said = [_message(trace.messages[key]) for key in fresh if key in trace.messages]
        reply = f"assistant replied ({step.finish_reason}):\n{_quoted(step.content or '')}"
        calls = f"tool calls: {_quoted(step.tool_calls)}" if step.tool_calls else ""
        return "\n".join([title, "", *said, f"error: {step.error}" if step.error else reply, calls])
    if step.kind in (StepKind.RUN, StepKind.READ, StepKind.WRITE):
        out = (step.stdout or b"").decode("utf-8", "replace")
        err = (step.stderr or b"").decode("utf-8", "replace")
        action = _quoted(step.action or "")
        return f"{title}\n\n{action}exit {step.exit_code}\n{_quoted(out)}" + (f"stderr:\n{_quoted(err)}" if err else "")
    return f"{title}\n\n{_quoted(step.note or '')}"


def _message(message: object) -> str:
    if isinstance(message, dict):
        return f"{message.get('role')}:\n{_quoted(str(message.get('content') or ''))}"
    return ""


def _quoted(text: str) -> str:
    if len(text) > CLIP:
        text = f"{text[: CLIP // 2]}\n… {len(text) - CLIP} characters left out …\n{text[-CLIP // 2 :]}"
    return "".join(f"    {line}\n" for line in text.splitlines())
