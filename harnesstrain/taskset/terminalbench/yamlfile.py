"""YAML files read strictly: what is wrong is said with file and line.  The one place that imports yaml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from harnesstrain.core.errors import ConfigError
from harnesstrain.taskset.document import MAX_BYTES, Document, read_text

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class YamlDocument(Document):
    """One parsed YAML file with a mapping at its top."""

    def line(self, key: tuple[str, ...]) -> int | None:
        """The line of a top-level key."""
        if not key:
            return None
        wanted = re.compile(rf"""(["']?){re.escape(key[0])}\1\s*:""")
        return next((number for number, line in enumerate(self.text.splitlines(), 1) if wanted.match(line)), None)


def read_yaml(path: Path) -> YamlDocument:
    """Parse a YAML file.  Raises ConfigError: missing, unreadable, too large, not YAML, no mapping."""
    text = read_text(path, MAX_BYTES)
    table = load(text, path)
    if not isinstance(table, dict) or not all(isinstance(key, str) for key in table):
        raise ConfigError(f"{path}: not a mapping of keys to values", hint="correct the file")
    return YamlDocument(path, text, table)


def load(text: str, path: Path) -> Any:
    """The value that a YAML text stands for; plain data only.  Raises ConfigError with file and line."""
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError(f"{place}: not YAML: {error.problem or error.context}", hint="correct the file") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: {str(error).splitlines()[0]}", hint="correct the file") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply", hint="correct the file") from None


def validate(document: YamlDocument, model: type[Model]) -> Model:
    """The document as a model.  Raises ConfigError with file, line and key of the first fault."""
    try:
        return model.model_validate(document.table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = tuple(str(part) for part in first["loc"])
        if first["type"] == "missing":
            document.wrong(f"there is no {key[0]}", hint=f"write {key[0]}: …")
        what = (first["msg"][0].lower() + first["msg"][1:]).removeprefix("input ")
        count = error.error_count()
        document.wrong(
            f"{'.'.join(key)}: {what}",
            key[:1],
            f"the file has {count} faults; this is the first" if count > 1 else None,
        )
