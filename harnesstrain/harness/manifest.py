"""`harness.toml`, read strictly: an unknown key, a wrong type or a bad glob is a ConfigError that says where."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.harness import Manifest
from harnesstrain.harness import globs

NAME = "harness.toml"
"""File name, at the root of the harness repo."""

SDK = "ht_sdk.py"
"""The vendored SDK, at the root of the harness repo."""

FROZEN = (NAME, SDK)
"""Never part of a surface."""

MAX_BYTES = 64 * 1024
"""Size of a manifest, at most."""

_KEYS = ("name", "command", "surface", "visible", "check", "check_timeout", "environment", "kind")


def load(worktree: Path) -> Manifest:
    """The manifest of the harness in `worktree`.  Raises ConfigError."""
    path = worktree / NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"no {NAME} in {worktree}", hint="`ht init DIR` makes a harness repo") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="check the file") from error
    return parse(data)


def parse(data: bytes, source: str = NAME) -> Manifest:
    """The manifest in `data`; `source` names it in errors.  Raises ConfigError."""
    if len(data) > MAX_BYTES:
        _wrong(source, f"larger than {MAX_BYTES} bytes")
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        _wrong(source, "not UTF-8")
    except tomllib.TOMLDecodeError as error:
        _wrong(source, f"not TOML: {error}")
    _known(source, document, ("harness", "modules"), "table")
    table = document.get("harness")
    if not isinstance(table, dict):
        _wrong(source, "no [harness] table")
    _known(source, table, _KEYS, "key")
    if "kind" in table:
        _kind(source, table["kind"])
    surface = _globs(source, "surface", table.get("surface", ()))
    if not surface:
        _wrong(source, "surface is empty", 'name what a candidate may change, e.g. surface = ["agent/**"]')
    if open_glob := next((glob for glob in surface if any(globs.matches(name, [glob]) for name in FROZEN)), None):
        hint = f"{' and '.join(FROZEN)} are frozen; name directories, e.g. 'agent/**'"
        _wrong(source, f"surface '{open_glob}' covers a frozen file", hint)
    return Manifest(
        name=_string(source, "name", table.get("name")),
        command=_strings(source, "command", table.get("command", ()), required=True),
        surface=surface,
        visible=_globs(source, "visible", table.get("visible", ["**"])),
        check=_strings(source, "check", table.get("check", ())),
        check_timeout=_seconds(source, "check_timeout", table.get("check_timeout", 300.0)),
        environment=_string(source, "environment", table["environment"]) if "environment" in table else None,
        modules=_modules(source, document.get("modules", {})),
    )


def _modules(source: str, table: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(table, dict):
        _wrong(source, "[modules] is not a table")
    return {name: _globs(source, f"modules.{name}", value) for name, value in table.items()}


def _known(source: str, table: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    names = list(known)
    for key in table:
        if key not in names:
            close = get_close_matches(key, names, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(names)}"
            _wrong(source, f"unknown {what} '{key}'", hint)


def _kind(source: str, kind: Any) -> None:
    if kind == "external":
        _wrong(source, 'kind = "external" is reserved and not available yet', "leave kind out")
    if kind != "protocol":
        _wrong(source, f"unknown kind {kind!r}", 'leave kind out; "protocol" is the only one')


def _string(source: str, key: str, value: Any) -> str:
    if value is None:
        _wrong(source, f"{key} is missing", f'add {key} = "..." under [harness]')
    if isinstance(value, str) and value.strip() and not value.isprintable():
        _wrong(source, f"{key} must be text that can be printed, not {ascii(value)}", f'write {key} = "..."')
    if not isinstance(value, str) or not value.strip():
        _wrong(source, f"{key} must be a non-empty string", f'write {key} = "..."')
    return value


def _strings(source: str, key: str, value: Any, *, required: bool = False) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and "\0" not in item for item in value):
        _wrong(source, f"{key} must be a list of strings", f'write {key} = ["python", "-m", "agent"]')
    if (required and not value) or (value and not value[0]):
        _wrong(source, f"{key} is empty", f'write {key} = ["python", "-m", "agent"]')
    return tuple(value)


def _globs(source: str, key: str, value: Any) -> tuple[str, ...]:
    found = _strings(source, key, value)
    for glob in found:
        if why := globs.problem(glob):
            _wrong(source, f"{key} has a bad glob '{glob}': {why}", 'globs look like "agent/**" or "prompts/*.md"')
    return found


def _seconds(source: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
        _wrong(source, f"{key} must be seconds, more than 0 and at most a day", f"write {key} = 300")
    return float(value)


def _wrong(source: str, what: str, hint: str = "see the harness guide for what the file may hold") -> NoReturn:
    raise ConfigError(f"{source}: {what}", hint=hint, file=source)
