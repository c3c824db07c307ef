"""Records as pages for people: certificates, and what runs are made of: regimes, panels, tasks, endpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harnesstrain.cli import portraits
from harnesstrain.cli.page import Page, dumped
from harnesstrain.cli.styled import Line
from harnesstrain.cli.watching import span
from harnesstrain.core.ids import short

GRADED = {
    "same": "the same grade",
    "outcome": "another reward, the same outcome",
    "other": "another outcome",
    "no_grade": "no: the rollout has no grade",
    "impossible": "no",
}
RESULTS = {"exact": "green", "equivalent": "green", "forked": "red", "no_chain": "dim"}


def certificate(page: Page) -> None:
    """A certificate: of what, what it found, and the first step that differed."""
    result = page.take("result")
    kind = page.take("kind")
    page.fact("of", {"env": "an environment", "model": "a model", "harness": "a harness"}.get(kind, kind))
    page.fact("result", result, RESULTS.get(result, ""))
    task, seed = page.take("task"), page.take("seed")
    page.fact("cell", f"{task} s{seed}" if task else "")
    for name in ("endpoint", "run", "regime"):
        page.link(name, page.take(name))
    page.fact("version", page.take("commit") or "")
    step, command = page.take("step"), page.take("command")
    page.fact("parted", f"step {step}: {command}" if step is not None else "")
    grading, why, times = (page.take(name) for name in ("grading", "grading_reason", "gradings"))
    told = GRADED.get(grading, "") + (f" ({why})" if why else "") + (f", {times} times" if times and times > 1 else "")
    page.fact("graded again", told)
    reward = page.take("reward")
    page.fact("reward", f"{reward:g}" if reward is not None else "")
    difference = page.take("diff")
    page.block("what differed", difference or "", _sign)
    sides = [page.take(name) for name in ("recorded", "observed", "recorded_raw", "observed_raw")]
    for title, text in zip(
        ("recorded", "observed", "recorded, as it came", "observed, as it came"), sides, strict=True
    ):
        page.block(title, text or "")
    reason = page.take("proposal_reason")
    page.block(f"a scrub rule for it ({reason})", page.take("proposal") or "")
    digests = [
        (name.replace("_", " "), page.take(name)) for name in ("task_digest", "chain", "requests", "rules", "state")
    ]
    page.fact("digests", ", ".join(f"{name} {short(value)}" for name, value in digests if value))
    for name, value in _flat(page.take("detail") or {}):
        page.fact(name, value)
    if grading == "other":
        page.then("ht tasks oracle --twice", "whether the reference solution is graded alike twice")
    elif task and result == "forked":
        page.then("ht tasks check", "what else in the task may not repeat")


def regime(page: Page) -> None:
    """A regime: everything besides the harness that determines a measurement."""
    endpoint = page.take("endpoint")
    page.link("endpoint", endpoint, page.about.get("model", ""))
    page.fact("repeats", "yes, says its endpoint" if page.take("deterministic") else "no")
    page.fact("context", f"{page.take('context_length')} tokens")
    for name in ("sampling", "sandbox", "limits", "budgets"):
        values = ", ".join(f"{key} {value}" for key, value in _flat(page.take(name) or {}) if value)
        page.fact(name, values)
    page.fact("grading", page.take("grading"))
    page.fact("overrides", ", ".join(page.take("overrides") or ()))
    page.link("harness env", page.take("harness_environment"))
    page.fact("version", f"{page.take('version')} of the measuring code")
    _runs(page)
    page.then(f"ht show {short(endpoint)}", "the model endpoint")
    page.then(f"ht diff {short(page.id)}..OTHER", "the fields in which another regime differs")


def panel(page: Page) -> None:
    """A panel: its tasks, in order."""
    tasks = page.take("tasks")
    page.fact("name", page.take("name"))
    splits = Counter(task["split"] for task in tasks)
    page.fact("tasks", f"{len(tasks)}: " + ", ".join(f"{count} {split}" for split, count in splits.items()))
    _runs(page)
    rows = [(at, task["name"], task["split"], short(task["digest"])) for at, task in enumerate(tasks, 1)]
    page.table("tasks", ("", "name", "split", "id"), rows, ("",))
    if tasks:
        page.then(f"ht show {short(tasks[0]['digest'])}", "a task as it was measured")


def task(page: Page) -> None:
    """A task as it was measured: instruction, environment, verifier."""
    page.fact("name", page.take("name"), "bold")
    page.take("digest")
    timeout = page.take("timeout")
    page.fact("time", f"{span(timeout)} of recorded time" if timeout else "")
    wanted = page.take("pass_rewards") or {}
    least = ", ".join(f"{name} ≥ {value:g}" for name, value in wanted.items())
    page.fact("solved when", least or f"reward ≥ {page.take('pass_reward'):g}")
    page.take("pass_reward")
    for name in ("environment", "verifier", "solution"):
        values = ", ".join(f"{key} {value}" for key, value in _flat(page.take(name) or {}) if value)
        page.fact(name, values)
    for name, value in (page.take("metadata") or {}).items():
        page.fact(name, value)
    steps = page.take("steps") or ()
    page.fact("steps", ", ".join(step["name"] for step in steps))
    strategy = page.take("strategy")
    page.fact("reward", f"the {strategy} over its steps" if steps else "")
    page.block("instruction", page.take("instruction"))
    for step in steps:
        page.block(f"instruction of {step['name']}", step["instruction"])
    page.then("ht tasks list", "the tasks there are now")


def endpoint(page: Page) -> None:
    """A model endpoint: what can change its replies, and what its certificates say."""
    page.fact("model", page.take("model"), "bold")
    page.fact("engine", page.take("engine"))
    page.fact("context", f"{page.take('context_length')} tokens")
    page.fact("repeats", "yes, by construction or certificate" if page.take("deterministic") else "not shown")
    capacity, width = page.take("capacity"), page.take("max_running")
    page.fact("at once", f"{width} requests" + (f", of {capacity} that it works on" if capacity else ""))
    for name, value in _flat(page.take("identity") or {}):
        page.fact(name, value)
    for one in page.about.get("certificates", ()):
        page.fact("certificate", f"{short(one['id'])}  {one['result']}")
    page.then("ht certify model", "whether it repeats itself, and up to how many requests at once")


def _runs(page: Page) -> None:
    found = page.about.get("runs", ())
    newest = ", ".join(short(one) for one in found[::-1][:5])
    page.fact("runs", f"{len(found)}; the newest: {newest}" if found else "")


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested values as dotted names with a word each; what says nothing is left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value not in (None, "", [], ()):
            text = value if isinstance(value, str) else dumped(value)
            yield f"{prefix}{name}".replace("_", " "), short(text) if _digest(text) else text


def _digest(text: str) -> bool:
    return len(text) == 64 and all(char in "0123456789abcdef" for char in text)


def _sign(text: str) -> str:
    return {"+": "green", "-": "red", "@": "cyan"}.get(text[:1], "")


PAGES: dict[str, Callable[[Page], None]] = {
    "run": portraits.run,
    "rollout": portraits.rollout,
    "candidate": portraits.candidate,
    "verdict": portraits.verdict,
    "promotion": portraits.promotion,
    "memo": portraits.memo,
    "epoch": portraits.epoch,
    "certificate": certificate,
    "regime": regime,
    "panel": panel,
    "task": task,
    "endpoint": endpoint,
}
"""The page of each kind of record."""


def page(kind: str, id: str, fields: Mapping[str, Any], about: Mapping[str, Any], width: int | None) -> list[Line]:
    """The record's page; of a kind without one, its fields."""
    made = Page(kind, id, fields, about, width)
    if kind in PAGES:
        PAGES[kind](made)
    return made.finished()
