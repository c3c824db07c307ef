"""solution.yaml: a list of {command, block, append_enter, …} that a terminal would be sent, as a script.

Lines that end with Enter are fed to one shell in order, as a terminal would.  What is typed key by key (an editor, a
control key) has no script.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_KEY = re.compile(r"(?:[CMS]-.|Escape|Enter|Tab|BSpace|Space|Up|Down|Left|Right|Home|End|F\d{1,2})")
MARK = "HT-END-OF-KEYSTROKES"


class Keys(BaseModel):
    """One thing typed."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    command: str
    min_timeout_sec: Annotated[float, Field(ge=0)] = 0.0
    max_timeout_sec: Annotated[float, Field(ge=0)] = 180.0
    block: bool = False
    append_enter: bool = True


def script(found: Any) -> str | None:
    """A bash script that types `found`; None when no script can.  Raises ValueError when it is no list of keys."""
    if not isinstance(found, list):
        raise ValueError("not a list of commands")
    try:
        typed = [Keys.model_validate(item) for item in found]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if not typed or any(not keys.append_enter or _KEY.fullmatch(keys.command.strip()) for keys in typed):
        return None
    lines = "\n".join(keys.command.rstrip("\n") for keys in typed)
    if MARK in lines:
        return None
    return f"#!/bin/bash\nexec bash -s <<'{MARK}'\n{lines}\n{MARK}\n"
