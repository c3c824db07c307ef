"""Reading an estimator's table of ht.toml into its record: unknown keys and wrong values are errors with a hint."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError

from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.base import Record

Options = TypeVar("Options", bound=Record)


def read_options(kind: type[Options], name: str, given: Mapping[str, Any]) -> Options:
    """The options of [estimator.NAME].  Raises ConfigError naming the first key that is wrong."""
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        keys = ", ".join(kind.model_fields)
        table = f"[estimator.{name}]"
        if first["type"] == "extra_forbidden":
            close = get_close_matches(key, kind.model_fields, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"keys: {keys}"
            raise ConfigError(f"{table} has no key '{key}'", hint=hint) from None
        if first["type"] == "missing":
            raise ConfigError(f"{table} needs the key '{key}'", hint=f"keys: {keys}") from None
        what = first["msg"].removeprefix("Value error, ").replace("Input ", "", 1)
        raise ConfigError(f"{table} {key + ' ' if key else ''}{what}", hint=f"keys: {keys}") from None
