"""One moment as lines for people, for `ht watch`: whole for a pipe, fitted to a terminal, or what changed since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harnesstrain.cli.output import counted
from harnesstrain.cli.styled import Line, clipped, flowed, line, padded, width_of
from harnesstrain.core.ids import short
from harnesstrain.stages.report.history import MARKS
from harnesstrain.stages.report.moment import BROKEN_OFF, NOT_NEEDED, RUNNING, WAITING, CellNow, EpochNow, Live, RunNow
from harnesstrain.store.base import Holder

GLYPHS = {"solved": "●", RUNNING: "▸", WAITING: "·", NOT_NEEDED: "-", BROKEN_OFF: "!"}
"""One per state; any other outcome is `×` when the harness owns it, `?` when infrastructure does."""
STYLES = {"●": "green", "▸": "cyan", "·": "dim", "-": "dim", "!": "yellow", "×": "red", "?": "yellow"}
NAME = 28
"""Columns for the name of a cell, at most."""
BAR = 24
IDLE = "nothing is being measured"


def frame(live: Live, *, width: int, height: int | None = None, cells: bool = True) -> list[Line]:
    """The moment in at most `width` columns and `height` lines: cells give way first, then what stands last.

    `height` None: as many lines as there are.  `cells`: name them.
    """
    head = list(_head(live, width))
    runs = [[[], *_run(run, width)] if head or index else [*_run(run, width)] for index, run in enumerate(live.runs)]
    tail = [*_verdicts(live), *_holders(live.holders)]
    room = None
    if height is not None:
        room = max(0, height - len(head) - sum(map(len, runs)) - len(tail)) // max(1, len(runs))
    lines = head
    for run, about in zip(live.runs, runs, strict=True):
        lines += [*about, *(_cells(run, width, room) if cells else ())]
    return (lines + tail)[:height]


def changes(before: Live | None, now: Live) -> Iterator[str]:
    """What is new since `before`, one line each."""
    if before is None or _epoch_key(before) != _epoch_key(now):
        yield from (_epoch_words(now.epoch),) if now.epoch is not None else ()
    known = {run.run: run for run in before.runs} if before is not None else {}
    for run in now.runs:
        old = known.get(run.run)
        if old is not None:
            was = {(cell.task, cell.seed): cell for cell in old.cells}
            new = [cell for cell in run.cells if cell.at != was[cell.task, cell.seed].at]
            for count, cell in enumerate(sorted(new, key=lambda one: one.at or 0.0), old.done + 1):
                yield f"  {min(count, run.done)}/{len(run.cells)} {cell.task} s{cell.seed} {_facts(cell)}"
        if old is None or old.state != run.state:
            yield f"run {short(run.run)}{_role(run)} on {_place(run)}: {run.state}, {_done(run)}, {run.solved} solved"
    told = {verdict.id for verdict in before.verdicts} if before is not None else set()
    for verdict in reversed(now.verdicts):
        if before is not None and verdict.id not in told:
            yield f"  verdict {short(verdict.id)} {verdict.decision}: {verdict.sentence}"
    if before is None or before.state != now.state:
        yield from (_state_words(now),) if now.state not in ("measuring", "working") else ()


def key(live: Live) -> tuple[object, ...]:
    """Equal for two moments between which nothing happened but time."""
    runs = tuple((run.run, run.state, tuple((cell.state, cell.attempt) for cell in run.cells)) for run in live.runs)
    holders = tuple((holder.name, holder.pid, holder.stale) for holder in live.holders)
    return (live.state, live.epoch, runs, tuple(one.id for one in live.verdicts), holders)


# --- parts


def _head(live: Live, width: int) -> Iterator[Line]:
    if live.epoch is not None:
        left = "" if live.at_work else ", left there"
        yield line((_epoch_words(live.epoch) + left, "bold"))
        if live.epoch.candidate is not None:
            yield line(f"  candidate {short(live.epoch.candidate)}  ", (live.epoch.hypothesis, "italic"))
        yield from flowed([f"baseline {short(live.epoch.base)}", _history(live)], width)
    if not live.at_work:
        yield line((_state_words(live), "yellow bold" if live.state == "stale" else "bold"))
        if live.epoch is None and (live.epochs or live.promoted):
            yield line(f"  {_history(live)}")


def _history(live: Live) -> str:
    return f"{counted(live.epochs, 'epoch')} so far, {live.promoted} promoted"


def _epoch_key(live: Live) -> tuple[object, ...]:
    return (live.epoch.number, live.epoch.stage, live.epoch.candidate) if live.epoch is not None else ()


def _epoch_words(epoch: EpochNow) -> str:
    done = f", {epoch.certificates} certificates so far" if epoch.certificates else ""
    return f"epoch {epoch.number}: {epoch.stage}{done}"


def _state_words(live: Live) -> str:
    if live.state == "stale":
        gone = ", ".join(f"pid {pid}" for pid in dict.fromkeys(one.pid for one in live.holders if one.stale))
        resumed = "`ht epoch` goes on" if any(one.name == "loop" for one in live.holders) else "`ht status` says how"
        return f"stale: {gone} is gone; {resumed}"
    if live.state == "nothing":
        return f"{IDLE}; `ht evaluate` measures a version"
    return IDLE


def _role(run: RunNow) -> str:
    return f" of the {run.role}" if run.role else ""


def _place(run: RunNow) -> str:
    return f"{run.panel}/{run.split or 'all'}"


def _done(run: RunNow) -> str:
    return f"{run.done} of {len(run.cells)} done"


def _run(run: RunNow, width: int) -> Iterator[Line]:
    named = f"run {short(run.run)}{_role(run)}"
    model = f" with {run.model}" if run.model else ""
    yield line(
        (named, "bold"), f" on {_place(run)}{model}", *(() if run.state == "measuring" else ((f", {run.state}", ""),))
    )
    most = max(1, len(run.cells))
    full = min(BAR, width - 4) * run.done // most
    eta = ""
    if run.eta is not None and run.running + run.count(WAITING):
        eta = f"{'at most ' if run.at_most else ''}about {span(run.eta.seconds)} left"
    yield line("  ", ("━" * full, "green"), ("╌" * (min(BAR, width - 4) - full), "dim"))
    counts = [_done(run), f"{run.solved} solved", f"{run.running} running" * bool(run.running)]
    counts += [f"{run.unmeasurable} unmeasurable" * bool(run.unmeasurable), eta]
    yield from flowed([one for one in counts if one], width)
    in_model = f" ({number(run.cached)} in the model's cache)" if run.cached else ""
    spent = [f"{number(run.tokens)} tokens{in_model}", f"{_share(run.calls_cached, run.calls)} calls from the cache"]
    if run.actions:
        spent.append(f"{_share(run.actions_cached, run.actions)} actions from the cache")
    yield from flowed(spent, width)
    if len(run.cells) > 1:
        yield from _strip(run.cells, width)


def _strip(cells: Sequence[CellNow], width: int) -> Iterator[Line]:
    """Every cell as one glyph, in panel order."""
    room = max(8, width - 2)
    for start in range(0, len(cells), room):
        glyphs = [_glyph(cell) for cell in cells[start : start + room]]
        yield line("  ", *((glyph, STYLES.get(glyph, "")) for glyph in glyphs))


def _cells(run: RunNow, width: int, room: int | None) -> list[Line]:
    """The cells by name: what runs, then the newest results, then what waits; at most `room` lines."""
    order = {RUNNING: 0, BROKEN_OFF: 0, WAITING: 2, NOT_NEEDED: 3}
    cells = sorted(run.cells, key=lambda cell: (order.get(cell.state, 1), -(cell.at or 0.0)))
    if room == 0 or not cells:
        return []
    names = min(NAME, max(width_of(_named(cell)) for cell in cells), max(12, width - 26))
    facts = max(width_of(_facts(cell)) for cell in cells)
    beside = max(1, width // (names + facts + 6)) if room is not None else 1
    shown = cells if room is None or len(cells) <= room * beside else cells[: max(0, room - 1) * beside]
    rows = -(-len(shown) // beside)
    lines = []
    for index in range(rows):
        row: Line = []
        for cell in shown[index::rows]:
            row += _cell(cell, names, facts if beside > 1 else 0)
        lines.append(row)
    left = len(cells) - len(shown)
    return [*lines, line((f"  … and {left} more", "dim"))] if left else lines


def _cell(cell: CellNow, names: int, facts: int) -> Line:
    glyph = _glyph(cell)
    seed = f" s{cell.seed}"
    named = _named(cell)
    if width_of(named) > names:
        named = clipped(cell.task, names - len(seed)) + seed
    said = (padded(_facts(cell), facts), "dim" if glyph in "·-" else "")
    return line("  ", (glyph, STYLES.get(glyph, "")), f" {padded(named, names)}  ", said)


def _named(cell: CellNow) -> str:
    return f"{cell.task} s{cell.seed}"


def _facts(cell: CellNow) -> str:
    again = f" (attempt {cell.attempt})" if cell.attempt > 1 else ""
    if cell.at is None:
        return f"{cell.state}{again}" + (f" {span(cell.seconds)}" if cell.seconds is not None else "")
    what = cell.state + (f" ({cell.reason})" if cell.reason else "")
    return f"{what}{again}, {span(cell.seconds or 0.0)}, {number(cell.tokens)} tokens"


def _glyph(cell: CellNow) -> str:
    if cell.state in GLYPHS:
        return GLYPHS[cell.state]
    return "?" if cell.state.startswith("infra") or cell.state == "forked" else "×"


def _verdicts(live: Live) -> list[Line]:
    lines: list[Line] = [[], line(("verdicts", "bold"))] if live.verdicts else []
    for one in live.verdicts:
        name = f"e{one.epoch}" if one.epoch is not None else short(one.id)
        mark = MARKS.get("promoted" if one.decision == "selected" else one.decision, "·")
        flips = f"+{one.gained} −{one.lost}"
        lines.append(line(f"  {name:8} {mark} {one.decision:12} {flips:7} {one.hypothesis or one.sentence}"))
    return lines


def _holders(holders: Sequence[Holder]) -> list[Line]:
    title = "was at work" if all(one.stale for one in holders) else "at work"
    lines: list[Line] = [[], line((title, "bold"))] if holders else []
    for one in holders:
        age = f"no sign of life for {span(one.silent)}" if one.stale else f"for {span(one.age)}"
        state = ("stale    ", "yellow") if one.stale else ("running  ", "")
        lines.append(line("  ", state, f"{one.name} by pid {one.pid} on {one.host} {age}"))
    return lines


# --- words


def span(seconds: float) -> str:
    """A length of time, short: `8.2 s`, `42 s`, `3 min`, `1 h 20 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def number(count: int) -> str:
    """A count, short: `812`, `12k`, `1.2M`."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def _share(part: int, whole: int) -> str:
    return f"{number(part)} of {number(whole)}"
