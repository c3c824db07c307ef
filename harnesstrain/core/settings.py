"""Settings in layers: flag > environment > `ht.toml` (nearest parent) > user file > default.  Origins are kept.

This room reads no environment and no arguments; the caller passes both in.  Unknown keys and wrong types raise
ConfigError with file and line.  Relative paths belong to the place that wrote them: a file's folder, the working
directory for flags and variables, the project's root for defaults.
"""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from harnesstrain.core.errors import ConfigError, HtError, UsageError
from harnesstrain.core.layers import FREE_TABLE, Given, Origin, flatten, read_file
from harnesstrain.core.records.base import Record
from harnesstrain.core.sections import (
    BudgetsSection,
    EndpointSection,
    HarnessSection,
    LlmSection,
    LoopSection,
    MeasureSection,
    PanelSection,
    SandboxSection,
    Section,
    StoreSection,
    looks_like_key,
)

FILE_NAME = "ht.toml"
ALTERNATIVES = (("panel.name", "panel.path"), ("store.path", "store.url"))
"""Two ways to say one thing."""
ENDPOINTS = "endpoints"
"""[endpoints.NAME] tables all have the settings of EndpointSection."""
_SECRET_NAMES = frozenset({"api_key", "apikey", "token", "secret", "password"})


class Declared(Record):
    """One declared setting."""

    key: str
    """Dotted: `measure.jobs`."""
    default: Any
    measured: bool
    via: str | None
    """For measured settings that act through an identity: endpoint, sandbox or panel."""
    env: str | None
    help: str


class Explained(Record):
    """One row of `ht config --show-origin`."""

    key: str
    value: Any
    """Plain JSON value."""
    origin: Origin
    measured: bool
    env: str | None
    help: str


class Settings(Record):
    """Everything that can be configured, validated, with origins."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    harness: HarnessSection = Field(default_factory=HarnessSection)
    store: StoreSection = Field(default_factory=StoreSection)
    llm: LlmSection = Field(default_factory=LlmSection)
    sandbox: SandboxSection = Field(default_factory=SandboxSection)
    budgets: BudgetsSection = Field(default_factory=BudgetsSection)
    measure: MeasureSection = Field(default_factory=MeasureSection)
    panel: PanelSection = Field(default_factory=PanelSection)
    loop: LoopSection = Field(default_factory=LoopSection)
    estimator: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Free-form table of each estimator, by name."""
    endpoints: dict[str, EndpointSection] = Field(default_factory=dict)
    """Models besides that of [llm], by name."""
    root: Path
    """The folder of `ht.toml`, or the starting folder when there is none."""
    file: Path | None = None
    """The `ht.toml` in use."""
    origins: dict[str, Origin] = Field(default_factory=dict)
    """Origin of each value that is not a default, by dotted key."""

    @property
    def store_location(self) -> str | Path:
        """What to open: the database URL when one is set, else the store's directory."""
        return self.store.url or self.store.path

    def value(self, key: str) -> Any:
        """The value of a dotted key.  Raises UsageError for an unknown one."""
        if key.startswith((f"{FREE_TABLE}.", f"{ENDPOINTS}.")):
            found = (_free(self) | _endpoints(self)).get(key, _ABSENT)
        else:
            found = functools.reduce(getattr, key.split("."), self) if key in _declared() else _ABSENT
        if found is _ABSENT:
            raise UsageError(f"no setting '{key}'", hint=_did_you_mean(key, _known(self)))
        return found

    def origin(self, key: str) -> Origin:
        """Where the value of a dotted key came from.  Raises UsageError for an unknown one."""
        self.value(key)
        return self.origins.get(key, Origin(layer="default"))

    def explain(self) -> tuple[Explained, ...]:
        """One row per setting, in the order of the tables."""
        rows = [
            Explained(
                key=one.key,
                value=_plain(self.value(one.key)),
                origin=self.origin(one.key),
                measured=one.measured,
                env=one.env,
                help=one.help,
            )
            for one in declared()
        ]
        for key, value in _endpoints(self).items():
            one = _of_endpoints()[key.rpartition(".")[2]].shown
            rows.append(
                Explained(
                    key=key,
                    value=_plain(value),
                    origin=self.origin(key),
                    measured=one.measured,
                    env=None,
                    help=one.help,
                )
            )
        for key, value in sorted(_free(self).items()):
            rows.append(
                Explained(key=key, value=_plain(value), origin=self.origin(key), measured=False, env=None, help="")
            )
        return tuple(rows)

    def measured(self) -> dict[str, Any]:
        """The settings that enter a regime by value, by dotted key: what to digest."""
        return {one.key: _plain(self.value(one.key)) for one in declared() if one.measured and one.via is None}

    def resolve(self, text: str | Path) -> Path:
        """A path of a free-form table, relative to the project's root."""
        return self.root / Path(text).expanduser()


_ABSENT = object()


@dataclass(frozen=True)
class _Field:
    shown: Declared
    adapter: TypeAdapter[Any] = field(repr=False)
    is_path: bool
    is_list: bool


def _walk(section: type[Section], prefix: str) -> dict[str, _Field]:
    found: dict[str, _Field] = {}
    for name, info in section.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            found |= _walk(kind, f"{prefix}{name}.")
            continue
        extra = info.json_schema_extra
        assert isinstance(extra, dict), f"{prefix}{name} is not declared with setting()"
        shown = Declared(key=f"{prefix}{name}", default=_plain(info.default), help=info.description or "", **extra)
        text = str(kind)
        found[shown.key] = _Field(shown, TypeAdapter(info.rebuild_annotation()), "Path" in text, "tuple" in text)
    return found


@functools.cache
def _declared() -> dict[str, _Field]:
    found: dict[str, _Field] = {}
    for name, info in Settings.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
            found |= _walk(info.annotation, f"{name}.")
    return found


@functools.cache
def _of_endpoints() -> dict[str, _Field]:
    """The settings of one [endpoints.NAME] table, by their own name."""
    return _walk(EndpointSection, "")


def declared() -> tuple[Declared, ...]:
    """Every declared setting, in the order of the tables."""
    return tuple(one.shown for one in _declared().values())


def declared_of_endpoints() -> tuple[Declared, ...]:
    """The settings of every [endpoints.NAME] table; `key` is the setting's own name."""
    return tuple(one.shown for one in _of_endpoints().values())


def find_file(start: Path) -> Path | None:
    """The `ht.toml` of the nearest folder at or above `start`."""
    for folder in (start, *start.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    return None


def load(
    start: Path,
    env: Mapping[str, str],
    flags: Mapping[str, Any],
    user_file: Path | None = None,
    *,
    file: Path | None = None,
) -> Settings:
    """The settings that hold in folder `start`.

    `flags` maps dotted keys to values; None means not given.  `file` replaces the search for `ht.toml`.
    Raises ConfigError (unknown key, wrong type, unreadable file) or UsageError (a bad flag).
    """
    start = start.resolve()
    if file is not None and not file.is_file():
        problem = f"{file} is a folder" if file.is_dir() else f"no such file: {file}"
        raise ConfigError(problem, hint="give --config an existing ht.toml")
    project = file.resolve() if file is not None else find_file(start)
    root = project.parent if project else start
    layers: list[dict[str, Given]] = []
    if user_file is not None and user_file.is_file():
        layers.append(read_file(user_file, "user"))
    if project is not None:
        layers.append(read_file(project, "project"))
    layers.append(
        {
            key: Given(env[name], Origin(layer="env", place=name), start, text=True)
            for key, one in _declared().items()
            if (name := one.shown.env) and env.get(name)
        }
    )
    layers.append(
        {
            key: Given(value, Origin(layer="flag"), start, text=isinstance(value, str))
            for key, value in flags.items()
            if value is not None
        }
    )
    return _build(_merged(layers), root, project)


def _merged(layers: Sequence[Mapping[str, Given]]) -> dict[str, Given]:
    """Later layers win, key by key.  A layer that names one of two alternatives hides the other one below it."""
    merged: dict[str, Given] = {}
    for layer in layers:
        for one, other in (*ALTERNATIVES, *(pair[::-1] for pair in ALTERNATIVES)):
            if one in layer and other not in layer:
                merged.pop(other, None)
        merged.update(layer)
    return merged


def _build(given: Mapping[str, Given], root: Path, project: Path | None) -> Settings:
    tree: dict[str, Any] = {FREE_TABLE: {}, ENDPOINTS: {}, "store": {"path": root / StoreSection().path}}
    origins: dict[str, Origin] = {}
    for key, one in given.items():
        if key not in _declared() and one.value == {} and _is_table(key):
            table, _, inner = key.partition(".")
            if inner and table in (FREE_TABLE, ENDPOINTS):
                tree[table].setdefault(inner, {})
            continue
        if key.startswith((f"{FREE_TABLE}.", f"{ENDPOINTS}.")):
            tables, _, name = key.rpartition(".")
            path = tables.split(".", 1)
        else:
            *path, name = key.split(".")
        value = _validated(key, one)
        place = tree
        for table in path:
            place = place.setdefault(table, {})
        place[name] = value
        origins[key] = one.origin
    return Settings(**tree, root=root, file=project, origins=origins)


def _is_table(key: str) -> bool:
    named = key.partition(".")[0] in (FREE_TABLE, ENDPOINTS)
    return named or any(k.startswith(f"{key}.") for k in _declared())


def _validated(key: str, given: Given) -> Any:
    endpoint = key.startswith(f"{ENDPOINTS}.") and key.count(".") >= 2
    one = _of_endpoints().get(key.rpartition(".")[2]) if endpoint else _declared().get(key)
    if one is None:
        if endpoint:
            known = {f"{key.rpartition('.')[0]}.{name}": None for name in _of_endpoints()}
            raise _fault(given, f"unknown setting '{key}'", _did_you_mean(key, known))
        if key.startswith(f"{FREE_TABLE}.") and key.count(".") >= 2:
            _refuse_secret(key, given)
            return given.value
        if _is_table(key):
            raise _fault(given, f"'{key}' is a table", f"write [{key}] and its settings below")
        raise _fault(given, f"unknown setting '{key}'", _did_you_mean(key, _declared()))
    try:
        if given.text and one.is_list:
            value = one.adapter.validate_python(_listed(given))
        elif given.text:
            value = one.adapter.validate_strings(given.value)
        elif given.origin.layer == "flag":
            value = one.adapter.validate_python(given.value)
        else:
            value = one.adapter.validate_json(json.dumps(given.value), strict=True)
    except ValidationError as error:
        raise _fault(given, f"{key} {_complaint(error, given.value)}", f"`ht config` explains {key}") from None
    except TypeError:
        raise _fault(given, f"{key} cannot be a date or time", f"`ht config` explains {key}") from None
    return (given.base / value.expanduser()) if one.is_path and value is not None else value


def _complaint(error: ValidationError, value: Any) -> str:
    first = error.errors()[0]
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ")
    if first["type"] == "string_too_short" and not value:
        return "is empty"
    shown = repr(value)
    return f"{first['msg'].replace('Input ', '', 1)}, got {shown if len(shown) <= 40 else shown[:37] + '…'}"


def _listed(given: Given) -> list[Any]:
    """A list that is written as text: as in `ht.toml` where anything is quoted, else parts between commas."""
    import tomllib

    text = given.value.strip()
    if not text.startswith("[") or not {'"', "'"} & set(text):
        return [part.strip() for part in text.split(",")]
    try:
        found = tomllib.loads(f"list = {text}")
    except tomllib.TOMLDecodeError:
        found = {}
    if len(found) != 1 or not isinstance(found["list"], list):
        raise _fault(given, f"'{text}' is no list", 'write ["a", "b"] or a,b')
    return found["list"]


def _fault(given: Given, message: str, hint: str) -> HtError:
    if given.origin.layer == "flag":
        return UsageError(message, hint=hint)
    return ConfigError(f"{given.origin.place}: {message}", hint=hint)


def _refuse_secret(key: str, given: Given) -> None:
    def look(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for inner, item in value.items():
                look(inner, item)
        elif name.lower() in _SECRET_NAMES:
            raise _fault(given, f"{key} would keep a secret in a file", f"name the variable that holds it: {name}_env")
        elif name.endswith("_env") and isinstance(value, str) and looks_like_key(value):
            raise _fault(given, f"{key} takes the name of an environment variable, not the key itself", "export it")

    look(key.rpartition(".")[2], given.value)


def _did_you_mean(key: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    if not close:
        last = key.rpartition(".")[2]
        close = [other for other in known if other.rpartition(".")[2] == last][:1]
    return f"did you mean '{close[0]}'?" if close else "`ht config` lists every setting"


def _known(settings: Settings) -> dict[str, Any]:
    return {**_declared(), **_endpoints(settings), **_free(settings)}


def _endpoints(settings: Settings) -> dict[str, Any]:
    """What the [endpoints.NAME] tables say, by dotted key."""
    return {
        f"{ENDPOINTS}.{name}.{key}": value
        for name, table in sorted(settings.endpoints.items())
        for key, value in table
        if value is not None
    }


def _free(settings: Settings) -> dict[str, Any]:
    """The settings of the free-form tables by dotted key.  Tables without any have none."""
    return {key: value for key, value in flatten({FREE_TABLE: settings.estimator}).items() if key.count(".") >= 2}


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
