"""Records as pages for people, for `ht show`: runs, rollouts, candidates, verdicts, promotions, memos, epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harnesstrain.cli.page import Page, tokens
from harnesstrain.cli.reporting import style_of
from harnesstrain.cli.styled import line
from harnesstrain.cli.tables import explanation
from harnesstrain.cli.watching import span
from harnesstrain.core.ids import short
from harnesstrain.core.records.rollout import Step, StepKind
from harnesstrain.stages.report.history import MARKS
from harnesstrain.stages.report.steplines import action_text, output_text, reply_text


def outcome(row: Mapping[str, Any]) -> str:
    """How a rollout ended."""
    return str(row["outcome"]) + (f" ({row['reason']})" if row["reason"] else "")


def run(page: Page) -> None:
    """A run: where it was measured, what came of it, each rollout."""
    rollouts = page.about["rollouts"]
    panel, split = page.take("panel_name"), page.take("split")
    page.fact("version", page.take("commit"))
    page.fact("panel", f"{panel}/{split or 'all'}  {short(page.take('panel'))}")
    seeds = page.take("seeds")
    page.fact("seeds", ", ".join(map(str, seeds)) if len(seeds) > 1 else "")
    page.link("regime", page.take("regime"), page.about.get("model", ""))
    page.fact("salt", page.take("salt"))
    page.link("stopped early", page.take("early_stop_against"), "decided against this run")
    imported = page.take("imported")
    if imported:
        model = f" with {imported['model']}" if imported["model"] else ""
        agent = f"{imported['agent']} {imported['version']}"
        page.fact("imported", f"job {imported['name']} of {imported['program']}, agent {agent}{model}")
    solved = sum(row["outcome"] == "solved" for row in rollouts)
    state = "complete" if page.about["complete"] else "not complete"
    page.fact("solved", f"{solved} of {len(rollouts)} measured cells; {state}")
    if rollouts:
        sums = {key: sum(row["usage"][key] for row in rollouts) for key in rollouts[0]["usage"]}
        calls, cached = (sum(row[key] for row in rollouts) for key in ("llm_calls", "llm_cached"))
        page.fact("calls", f"{calls}, {cached} from the cache")
        page.fact("tokens", tokens(sums))
        served = sum(row["from_caches"] for row in rollouts)
        page.fact("", f"{served} of {len(rollouts)} served from caches" if served else "")
    for verdict in page.about.get("verdicts", ()):
        side = "candidate" if verdict["cand_run"] == page.id else "baseline"
        page.fact("verdict", f"{short(verdict['id'])}  {verdict['decision']}, as {side}: {verdict['sentence']}")
    rows = [
        (row["task"], row["seed"], outcome(row), row["llm_calls"], row["usage"]["prompt"] + row["usage"]["completion"])
        + (short(row["id"]), row["detail"])
        for row in rollouts
    ]
    heads = ("task", "seed", "outcome", "calls", "tokens", "rollout", "detail")
    page.table("rollouts", heads, rows, ("seed", "calls", "tokens"))
    if rollouts:
        page.then(f"ht show {short(page.id)}:{rollouts[0]['task']}", "one rollout, step by step")
    if not imported:
        page.then(f"ht certify {short(page.id)}", "what of it repeats itself")


def rollout(page: Page) -> None:
    """A rollout: its outcome and every step."""
    attempt = page.take("attempt", 1)
    task = page.take("task")
    page.fact("cell", f"{task} s{page.take('seed')}" + (f", attempt {attempt}" if attempt > 1 else ""))
    run_id = page.take("run")
    page.link("run", run_id)
    row = {"outcome": page.take("outcome"), "reason": page.take("reason")}
    page.fact("outcome", outcome(row), "green" if row["outcome"] == "solved" else "red")
    page.fact("", page.take("detail"))
    reward, rewards = page.take("reward"), page.take("rewards") or {}
    named = ", ".join(f"{name} {value:g}" for name, value in rewards.items())
    cached = " (from the cache)" if page.take("grade_cached") else ""
    page.fact("reward", f"{reward:g}{f'; {named}' if named else ''}{cached}" if reward is not None else named)
    valid, total = page.take("first_try_valid"), page.take("first_try_total")
    repair = f"; {valid} of {total} valid at the first try" if total else ""
    page.fact("calls", f"{page.take('llm_calls')}, {page.take('llm_cached')} from the cache{repair}")
    executed = page.take("executions")
    page.fact("actions", f"{page.take('actions')}, {page.take('actions_cached')} from the cache; {executed} executed")
    page.fact("tokens", tokens(page.take("usage")))
    page.fact("time", f"{span(page.take('recorded_time'))} recorded")
    page.fact("", "nothing ran but the harness: all of it came from caches" if page.take("from_caches") else "")
    page.fact("isolation", "" if page.take("isolated", True) else "none: the sandbox or the jail could not isolate")
    page.link("traced", page.take("traced"), "the version whose difference was traced")
    drift = page.take("drift")
    if drift:
        page.fact("drifted", f"step {drift['step']}: {drift['command']}", "yellow")
        page.block("what the record says", drift["recorded"])
        page.block("what came this time", drift["observed"])
    page.link("task digest", page.take("task_digest"))
    digests = [(name, page.take(f"{name}_digest")) for name in ("chain", "requests")]
    page.fact("digests", ", ".join(f"{name} {short(value)}" for name, value in digests if value))
    page.take("trace")
    trace = page.about.get("trace")
    for step in trace.steps if trace is not None else ():
        _step(page, step)
    if trace is not None:
        page.block("the harness's log", trace.log)
    page.then(f"ht cat-trace {short(page.id)}", "its trace as JSON lines, messages included")
    page.then(f"ht show {short(run_id)}", "the run it belongs to")


def _step(page: Page, step: Step) -> None:
    """A step, whole."""
    how = f"{step.source.value}, {span(step.duration)}"
    match step.kind:
        case StepKind.LLM:
            used = tokens(step.usage.model_dump()) if step.usage is not None else ""
            page.block(f"step {step.index} reply ({how}{', ' + used if used else ''})", reply_text(step) or "(empty)")
        case StepKind.NOTE | StepKind.SUBMIT:
            page.lines += [[], line((f"step {step.index} {step.kind.value}", "bold"), f"  {step.note or ''}")]
        case _:
            page.block(f"step {step.index} {step.kind.value} ({how})", f"{action_text(step)}\n{output_text(step)}")


def candidate(page: Page) -> None:
    """A candidate: what it changes and claims, and what was made of it."""
    page.fact("hypothesis", page.take("hypothesis"), "bold")
    status = page.take("status")
    page.fact("status", status, "" if status == "candidate" else "yellow")
    page.fact("reason", page.take("reason"))
    base, commit = page.take("base"), page.take("commit")
    page.fact("version", commit or "")
    page.link("base", base)
    epoch = page.take("epoch")
    page.fact("epoch", f"e{epoch}" if epoch is not None else "")
    source = page.take("source")
    page.fact("estimator", page.take("estimator") + (f", from {source}" if source else ""))
    page.fact("files", ", ".join(page.take("files") or ()))
    page.fact("predicted", ", ".join(page.take("predicted") or ()))
    page.fact("tokens", tokens(page.take("usage")))
    cost = page.take("cost_usd")
    page.fact("cost", f"{cost:.2f} USD, as it says" if cost is not None else "")
    for verdict in page.about.get("verdicts", ()):
        page.fact("verdict", f"{short(verdict['id'])}  {verdict['decision']}: {verdict['sentence']}")
    if commit:
        page.then(f"ht diff {short(base)}..{short(commit)} --patch", "what it changes")
        if page.about.get("verdicts"):
            page.then(f"ht diff {short(base)}..{short(commit)}", "where its rollouts part from the baseline's")
        else:
            page.then(f"ht evaluate {short(page.id)}", "measures it")
    if page.take("transcript"):
        page.then(f"ht show {short(page.id)} --transcript", "what it was told and all it said")


def verdict(page: Page) -> None:
    """A verdict: the decision, what flipped and why, what was left out."""
    decision = page.take("decision")
    mark = MARKS.get(decision, "·")
    page.fact("decision", f"{mark} {decision}: {page.take('sentence')}", style_of(mark))
    loss = page.take("loss")
    page.fact("criterion", f"{page.take('criterion')}, loss {loss if isinstance(loss, str) else f'{loss:g}'}")
    base_run, cand_run = page.take("base_run"), page.take("cand_run")
    base, cand = page.take("base"), page.take("cand")
    page.fact("baseline", f"{short(page.take('base_commit'))}  run {short(base_run)}")
    page.fact("candidate", f"{short(page.take('cand_commit'))}  run {short(cand_run)}")
    page.fact("solved", f"{base['solved']} → {cand['solved']} of {cand['cells']} compared cells")
    detectable = page.take("detectable")
    effect = f"the smallest effect this panel can show at 0.05 is {detectable} clean gains" if detectable else ""
    page.fact("p", f"{page.take('p_value'):.3g}{'; ' + effect if effect else ''}")
    unchanged = page.take("proven_unchanged")
    page.fact("unchanged", f"{unchanged} cells proven so" if unchanged else "")
    page.link("regime", page.take("regime"))
    certificates, certified = page.take("certificates") or (), page.take("certified")
    rest = ", cells without one left out" if certified else ""
    page.fact("certificates", f"{len(certificates)}{rest}" if certificates else "")
    flips = [("gained", page.take("gained")), ("lost", page.take("lost")), ("hollow", page.take("hollow"))]
    rows = [
        (name, flip["task"], flip["seed"], f"{flip['base_outcome']} → {flip['cand_outcome']}")
        + (explanation(flip["attribution"], flip.get("evidence", "")),)
        for name, found in flips
        for flip in found or ()
    ]
    page.table("flips", ("flip", "task", "seed", "outcomes", "explained by"), rows, ("seed",))
    left = [(name, page.take(name)) for name in ("excluded", "unmeasurable")]
    out = [
        (name, one["task"], one["seed"], one["reason"], one["detail"]) for name, found in left for one in found or ()
    ]
    page.table("not compared", ("", "task", "seed", "reason", "detail"), out, ("seed",))
    levers = [(name, base[name], cand[name]) for name in ("llm_calls", "actions", "recorded_time")]
    levers += [(f"{name} tokens", base["usage"][name], cand["usage"][name]) for name in ("prompt", "completion")]
    sums = [(name.replace("_", " "), f"{one:,.6g}", f"{other:,.6g}") for name, one, other in levers]
    page.table("levers", ("lever", "baseline", "candidate"), sums, ("baseline", "candidate"))
    first = next((flip["task"] for _, found in flips for flip in found or ()), None)
    pair = f"{short(base_run)}..{short(cand_run)}"
    if first is not None:
        page.then(f"ht diff {pair} --task {first}", "the step where it parts")
    page.then(f"ht report --compare {pair}", "all of it, on one page")
    for name in ("base_attempts", "cand_attempts", "inputs"):
        page.take(name)
    page.then("ht verify", "derives every verdict again")


def promotion(page: Page) -> None:
    """A promotion: which branch moved, and on what verdict."""
    state = page.take("state")
    page.fact("state", state, {"done": "green", "refused": "red"}.get(state, "yellow"))
    page.fact("reason", page.take("reason"))
    old, new = page.take("old"), page.take("new")
    page.fact("branch", f"{page.take('branch')}  {short(old)} → {short(new)}")
    found = page.take("verdict")
    page.link("verdict", found)
    page.then(f"ht diff {short(old)}..{short(new)} --patch", "what was promoted")
    if found:
        page.then(f"ht show {short(found)}", "on what evidence")


def memo(page: Page) -> None:
    """A memo: who wrote it, when, and its text."""
    epoch, author = page.take("epoch"), page.take("author")
    page.fact("written", f"{'by ' + author if author else ''}{f' after epoch {epoch}' if epoch is not None else ''}")
    found = page.take("verdict")
    page.link("verdict", found)
    page.fact("tokens", tokens(page.take("usage")))
    page.block("claims, not facts", page.take("text"))
    if page.take("transcript"):
        page.then(f"ht show {short(page.id)} --transcript", "what its author was told and all it said")
    if epoch is not None:
        page.then(f"ht show e{epoch}", "the epoch it is about")


def epoch(page: Page) -> None:
    """An epoch: how far it came, and the records it left."""
    page.take("number")
    state = page.take("state")
    mark = MARKS.get(state, "·")
    page.fact("state", f"{mark} {state}", style_of(mark))
    page.fact("reason", page.take("reason"))
    page.fact("base", short(page.take("base")))
    for label, name in (("base run", "base_run"), ("candidate", "candidate"), ("run", "cand_run")):
        page.link(label, page.take(name), page.about.get(name, ""))
    found = page.take("verdict")
    page.link("verdict", found, page.about.get("verdict", ""))
    page.link("promotion", page.take("promotion"))
    seconds = page.take("seconds")
    page.fact("took", span(seconds) if seconds else "")
    if found:
        page.then(f"ht show {short(found)}", "why")
    if page.about.get("pair"):
        page.then(f"ht report --compare {page.about['pair']}", "all of it, on one page")
    if state == "started":
        page.then("ht epoch", "goes on with it")
