r"""A user's own scrub rules: a TOML file that ht.toml names.  Every rule proves itself on its examples when it is read.

[[rule]]
name = "build-id"
pattern = '(build id: )[0-9a-f]{8,}'   # a regular expression, multi-line
replacement = '\1<ID>'
reason = "the build numbers itself"
matches = [{ text = "build id: 0a1b2c3d", scrubbed = "build id: <ID>" }]   # each may name a `command`
ignores = ["0a1b2c3d"]                 # what must be left alone
needs = ["build id"]                   # optional: one of these must occur; makes it fast
command = 'make\b'                     # optional: only what such a command printed
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harnesstrain.core.errors import ConfigError
from harnesstrain.sandbox import scrub_proof
from harnesstrain.sandbox.scrub import Example, Rule

MAX_BYTES = 1024 * 1024
"""Size of a scrub file, at most."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Example(_Strict):
    text: str
    scrubbed: str
    command: str = ""


class _Rule(_Strict):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    pattern: str = Field(min_length=1)
    replacement: str
    reason: str = Field(min_length=1)
    matches: list[_Example] = Field(min_length=1)
    ignores: list[str] = Field(min_length=1)
    needs: list[str] = Field(default_factory=list)
    command: str | None = None


def read_rules(path: Path) -> tuple[Rule, ...]:
    """The rules of a scrub file, in order.  Raises ConfigError, one line, with the rule's name or number."""
    table = _table(path)
    if unknown := [key for key in table if key != "rule"]:
        raise _wrong(path, f"unknown key '{unknown[0]}'", "a scrub file consists of [[rule]] tables")
    written = table.get("rule", [])
    if not isinstance(written, list) or not all(isinstance(one, Mapping) for one in written):
        raise _wrong(path, "'rule' is no list of tables", "write [[rule]] with two brackets")
    rules: list[Rule] = []
    for number, one in enumerate(written, 1):
        rule = _rule(path, number, one)
        if rule.name in {known.name for known in rules}:
            raise _wrong(path, f"two rules are named '{rule.name}'", "give each its own name")
        rules.append(rule)
    _prove(path, rules)
    return tuple(rules)


def _table(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        hint = "correct `scrub` in [sandbox]; it is relative to the file that says so"
        raise ConfigError(f"cannot read the scrub file {path}: {error.strerror}", hint=hint) from error
    if len(data) > MAX_BYTES:
        raise _wrong(path, f"larger than {MAX_BYTES} bytes", "keep a few rules")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(path, f"not TOML: {error}", "correct the file") from None


def _rule(path: Path, number: int, written: Mapping[str, Any]) -> Rule:
    name = written.get("name")
    label = f"rule '{name}'" if isinstance(name, str) else f"rule {number}"
    try:
        one = _Rule.model_validate(dict(written))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        said = first["msg"].replace("Input ", "", 1).replace("Extra inputs are not permitted", "unknown key")
        raise _wrong(
            path, f"{label}: {place}: {said}", "`ht certify` proposes rules in the form that is read"
        ) from None
    for what, text in (("pattern", one.pattern), ("command", one.command or "")):
        try:
            re.compile(text.encode() if what == "pattern" else text, re.MULTILINE)
        except re.error as error:
            message = f"{label}: {what} is no regular expression: {error}"
            raise _wrong(path, message, "write it between single quotes") from None
    return Rule(
        name=one.name,
        pattern=one.pattern,
        replacement=one.replacement,
        reason=one.reason,
        matches=tuple(Example(**example.model_dump()) for example in one.matches),
        ignores=tuple(one.ignores),
        needs=tuple(one.needs),
        command=one.command,
    )


def _prove(path: Path, rules: Sequence[Rule]) -> None:
    """Run the examples.  Raises ConfigError at the first that comes out otherwise, or that does not come to an end."""
    proofs = scrub_proof.prove(rules) if rules else []
    for rule, proof in zip(rules, proofs, strict=False):
        _compare(path, rule, proof)
    if len(proofs) < len(rules):
        message = f"rule '{rules[len(proofs)].name}': its pattern did not come to an end on its examples"
        raise _wrong(path, message, "a repetition in a repetition, as in (a+)+, takes for ever: write one")


def _compare(path: Path, rule: Rule, proof: scrub_proof.Proof) -> None:
    label = f"rule '{rule.name}'"
    if proof.problem is not None:
        message = f"{label}: the replacement does not fit the pattern: {proof.problem}"
        raise _wrong(path, message, r"\1 stands for the first group")
    for example, (got, again) in zip(rule.matches, proof.matches, strict=True):
        if got != example.scrubbed:
            message = f"{label}: {_short(example.text)} must become {_short(example.scrubbed)}, is {_short(got)}"
            raise _wrong(path, message, "correct the pattern or the example")
        if again != got:
            raise _wrong(path, f"{label}: it changes what it wrote: {_short(got)}", "let it not match its replacement")
    for text, left in zip(rule.ignores, proof.ignores, strict=True):
        if left != text:
            raise _wrong(path, f"{label}: it changes {_short(text)}", "anchor the pattern to what stands beside it")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")


def _wrong(path: Path, what: str, hint: str) -> ConfigError:
    return ConfigError(f"{path}: {what}", hint=hint)
