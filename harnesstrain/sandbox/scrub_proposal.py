"""A scrub rule proposed for two outputs of one command that differ.  It is shown to a person, never applied by itself.

A difference is volatile only where its neighbourhood says so: a clock, a duration with its unit, an address, a name in
/tmp, or a number or identifier behind a word such as `pid`, `port` or `session`.  A bare number, a count, a digest or
another line is task signal or pure randomness: then there is no proposal, and the reason is told.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harnesstrain.core.records.base import Record

LINES = 400
"""Longest output that is looked at, in lines."""
MOST = 4
"""Rules in one proposal, at most."""
BEFORE, AFTER = 40, 16
"""Characters of literal text kept on either side of what differs, at most."""

_TOKEN = re.compile(r"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?|0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?=[A-Za-zµ]{0,4}\b)|\w+|\s+|.")
_WORD = re.compile(r"[A-Za-z]{2,}")
_UNIT = re.compile(r" ?(?:ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?|hours?|[kKMG]?i?B/s|[MG]Hz)\b")
_LABEL = re.compile(
    r"\b(pid|tid|ppid|process|thread|port|addr|address|inode|ino|uptime|elapsed|took|duration|latency|epoch|"
    r"timestamp|time|stamp|mtime|rss|rate|speed)\W{1,3}$",
    re.IGNORECASE,
)
_IDENTITY = re.compile(
    r"\b(id|uuid|guid|session|token|nonce|container|worker|build|job|request|trace|span|instance|host|boot|cookie)"
    r"\W{1,3}$",
    re.IGNORECASE,
)
_DIGEST = re.compile(r"sha\d*|md5|hash|digest|checksum|commit|crc", re.IGNORECASE)
_TMP = re.compile(r"(?:/tmp/|/var/tmp/|\btmp|\btemp)[\w./-]*$", re.IGNORECASE)


class Proposal(Record):
    """What is proposed, and why; or why nothing is."""

    rule: str | None = None
    """[[rule]] tables for a scrub file."""
    reason: str


@dataclass(frozen=True)
class _Span:
    """One token that differs, in its two lines."""

    line: str
    """The recorded line."""
    before: str
    """Literal text in front, up to the last word boundary that fits."""
    token: str
    other: str
    after: str


@dataclass(frozen=True)
class _Found:
    """A rule for one span."""

    name: str
    pattern: str
    replacement: str
    reason: str
    line: str
    scrubbed: str
    bare: str

    def apply(self, text: str) -> str:
        """`text` with this rule applied."""
        return re.sub(self.pattern, self.replacement, text, flags=re.MULTILINE)


class _None(Exception):
    """There is no proposal; the message says why."""


def propose(recorded: str, observed: str) -> Proposal:
    """A rule that makes two scrubbed outputs equal, or the reason why there is none."""
    try:
        found = _rules(recorded, observed)
    except _None as why:
        return Proposal(reason=str(why))
    names = " and ".join(dict.fromkeys(one.reason for one in found))
    return Proposal(rule="\n\n".join(_toml(one) for one in found) + "\n", reason=names)


def _rules(recorded: str, observed: str) -> list[_Found]:
    if "\ufffd" in recorded or "\ufffd" in observed:
        raise _None("the outputs are not text")
    left, right = recorded.splitlines(), observed.splitlines()
    if len(left) != len(right):
        raise _None(
            f"{len(left)} line{'s' if len(left) != 1 else ''} became {len(right)}: that is task signal, or chance"
        )
    if len(left) > LINES:
        raise _None(f"the output is longer than {LINES} lines")
    if (moved := _moved(left, right)) is not None:
        raise _None(moved)
    found: dict[str, _Found] = {}
    for one, other in zip(left, right, strict=True):
        for span in _spans(one, other) if one != other else ():
            rule = _rule(span)
            found.setdefault(rule.pattern, rule)
    if len(found) > MOST:
        raise _None(f"{len(found)} kinds of text differ: too much for a rule")
    rules = list(found.values())
    if _applied(rules, recorded) != _applied(rules, observed):
        raise _None("no rule makes the outputs equal")
    once = _applied(rules, recorded)
    if _applied(rules, once) != once:
        raise _None("no rule leaves alone what it wrote")
    return rules


def _moved(left: Sequence[str], right: Sequence[str]) -> str | None:
    """How lines came in another order; None where it is their text that differs."""
    pairs = [(one, other) for one, other in zip(left, right, strict=True) if one != other]
    before, after = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    moved = (before & after).total()
    if not pairs:
        return "the lines are the same: nothing but their ends can differ"
    if moved == len(pairs):
        return "the same lines came in another order: sort them in the command"
    if 2 * moved >= len(pairs):
        return f"{moved} of {len(pairs)} lines that differ only came in another order: sort them in the command"
    return None


def _applied(rules: Sequence[_Found], text: str) -> str:
    for rule in rules:
        text = rule.apply(text)
    return text


def _spans(one: str, other: str) -> list[_Span]:
    """The tokens that differ between two lines.  Raises _None when the lines are built differently."""
    left, right = _TOKEN.findall(one), _TOKEN.findall(other)
    if len(left) != len(right):
        raise _None(f"a line reads differently: {_short(one)} became {_short(other)}")
    spans, at = [], 0
    for token, changed in zip(left, right, strict=True):
        if token != changed:
            spans.append(_Span(one, _tail(one[:at]), token, changed, _head(one[at + len(token) :])))
        at += len(token)
    shared = "".join(token for token, changed in zip(left, right, strict=True) if token == changed)
    if not _WORD.search(shared) and "/tmp/" not in shared:
        raise _None(f"nothing but the value stands in the line: {_short(one)} is chance, or the task's own result")
    return spans


def _tail(text: str) -> str:
    """The end of `text`, from a place where a word begins."""
    if len(text) <= BEFORE:
        return text
    cut = text[-BEFORE:]
    return cut[cut.index(" ") + 1 :] if " " in cut[:-1] else cut


def _head(text: str) -> str:
    return re.match(rf".{{0,{AFTER}}}?(?=[\d<]|\b\w{{6,}}\d|$)|.{{0,{AFTER}}}", text).group()  # type: ignore[union-attr]


def _rule(span: _Span) -> _Found:
    name, kind, word = _kind(span)
    before, after = span.before, span.after
    prefix = re.split(r"[\d<>]", before)[-1]
    if not _WORD.search(prefix) and "/tmp/" not in prefix:
        prefix = before
    if name == "temporary-name":
        prefix += _common(span.token, span.other)
    start = r"^" if prefix == span.line[: len(prefix)] and len(prefix) < BEFORE else ""
    tail = _UNIT.match(after)
    look = _literal(tail.group() if tail else after[:1])
    where = f"after {_short(prefix.strip())}" if prefix.strip() else f"before {_short(after.strip())}"
    pattern = f"{start}({_literal(prefix)}){kind}(?={look})" if look else f"{start}({_literal(prefix)}){kind}$"
    replacement = rf"\1<{word}>"
    made = _Found(
        name=_named(prefix, name),
        pattern=pattern,
        replacement=replacement,
        reason=f"{name.replace('-', ' ')} {where}",
        line=span.line,
        scrubbed="",
        bare=span.token,
    )
    scrubbed = made.apply(span.line)
    return _Found(**{**vars(made), "scrubbed": scrubbed})


def _kind(span: _Span) -> tuple[str, str, str]:
    """Name, pattern and replacement word of what differs.  Raises _None when nothing says that it is volatile."""
    pair = (span.token, span.other)
    shown = f"{_short(span.token)} became {_short(span.other)} in {_short(span.line)}"
    if all(re.fullmatch(r"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?", token) for token in pair):
        return "time", r"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?", "TIME"
    if all(re.fullmatch(r"0x[0-9a-fA-F]{4,}", token) for token in pair):
        return "address", r"0x[0-9a-fA-F]+", "ADDR"
    before = span.before
    if _TMP.search(before + _common(*pair)) and all(re.fullmatch(r"\w{4,}", token) for token in pair):
        return "temporary-name", r"\w+", "RAND"
    if _DIGEST.search(before[-24:]):
        raise _None(f"a digest differs, so what it covers does: {shown}")
    if all(re.fullmatch(r"\d+(?:\.\d+)?", token) for token in pair):
        if _UNIT.match(span.after):
            return "duration", r"\d+(?:\.\d+)?", "N"
        if _LABEL.search(before) or (_IDENTITY.search(before) and all(len(token) > 2 for token in pair)):
            return "number", r"\d+(?:\.\d+)?", "N"
        raise _None(f"a number differs and nothing says that it is volatile: {shown}")
    if all(re.fullmatch(r"(?=\w*\d)\w{6,}", token) for token in pair) and _IDENTITY.search(before):
        digits = "[0-9a-fA-F]" if all(re.fullmatch(r"[0-9a-fA-F]+", token) for token in pair) else r"\w"
        return "identifier", f"{digits}{{6,}}", "ID"
    raise _None(f"what differs carries the task's signal, or is chance: {shown}")


def _common(one: str, other: str) -> str:
    """What two words begin with alike, up to their last separator or change of kind."""
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    shared = one[:length]
    found = re.match(r"(?:[A-Za-z]{2,}(?=[^a-z]|$))?[\W_]?", shared)
    return found.group() if found else ""


def _literal(text: str) -> str:
    """`text` as a pattern; runs of blanks may have any length."""
    return re.sub(r"(?:\\? )+", r" +", re.escape(text).replace(r"\ ", " "))


def _named(prefix: str, kind: str) -> str:
    words = [word.lower() for word in _WORD.findall(prefix)][-2:]
    return "-".join([*words, kind])


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")


def _toml(rule: _Found) -> str:
    """A [[rule]] table, as `scrub_file` reads it."""
    return "\n".join(
        (
            "[[rule]]",
            f"name = {_quoted(rule.name)}",
            f"pattern = {_quoted(rule.pattern)}",
            f"replacement = {_quoted(rule.replacement)}",
            f"reason = {_quoted(rule.reason)}",
            f"matches = [{{ text = {_quoted(rule.line)}, scrubbed = {_quoted(rule.scrubbed)} }}]",
            f"ignores = [{_quoted(rule.bare)}]",
        )
    )


def _quoted(text: str) -> str:
    """A TOML string: literal where it can be, so that a pattern stays readable."""
    if "'" not in text and text.isprintable():
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'
