"""What one call of an agent came to: its output as a transcript, its answer, or why it failed.  No secret in any."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harnesstrain.core.errors import Incomplete, Prerequisite, ProposalFailure
from harnesstrain.stages.propose.estimators.meters import Meter
from harnesstrain.stages.propose.estimators.places import Cell
from harnesstrain.stages.propose.estimators.prompts import PROPOSAL
from harnesstrain.stages.propose.estimators.watch import STOPPED, Ended

SHORTEST = 6
"""Characters from which on a passed value is a secret; shorter ones stand in any text by chance."""
LINE = 300
"""Characters of a hypothesis or a reason."""


class Secrets:
    """Values of the variables that were passed on."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """`values` by variable."""
        self._names: dict[str, str] = {}
        for name, value in values.items():
            for form in (value, value.strip(), json.dumps(value)[1:-1]):
                if len(form) >= SHORTEST:
                    self._names[form] = name
        longest = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest))) if longest else None

    def redact(self, text: str) -> str:
        """`text` with every value replaced by its variable's name."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"[{self._names[found.group()]}]", text)

    def found_below(self, directory: Path) -> str | None:
        """The variable and the file of the first value that stands in a file or a name below `directory`, or None."""
        if self._pattern is None:
            return None
        for folder, folders, names in os.walk(directory):
            for name in (*folders, *names):
                path = Path(folder, name)
                text = path.relative_to(directory).as_posix() + "\0" + _content(path)
                if (found := self._pattern.search(text)) is not None:
                    return f"{self._names[found.group()]}, in {self.redact(str(path.relative_to(directory)))}"
        return None


@dataclass(frozen=True)
class Work:
    """One call of an agent that ended."""

    cell: Cell
    ended: Ended
    meter: Meter
    source: str
    """The agent and its model."""
    secrets: Secrets
    prompt: str

    @cached_property
    def transcript(self) -> str:
        """What it was told and all it wrote."""
        parts = {"prompt": self.prompt, "stdout": self.ended.stdout, "stderr": self.ended.stderr}
        end = f"exit {self.ended.code} after {self.ended.seconds:.1f} seconds"
        parts["end"] = f"{end}: {self.ended.why}" if self.ended.why else end
        return self.secrets.redact(
            "".join(f"==> {name} <==\n{text.rstrip()}\n\n" for name, text in parts.items() if text)
        )

    @property
    def last(self) -> str:
        """Its last words."""
        return self.secrets.redact(self.meter.last)

    def answer(self, name: str) -> str:
        """An answer file; empty when there is none."""
        return self.secrets.redact(self.cell.answer(name))

    def require_success(self) -> None:
        """Raise unless it ended by itself and well: ProposalFailure, Incomplete (stopped), Prerequisite (the jail)."""
        ended = self.ended
        if ended.why == STOPPED:
            raise Incomplete("stopped while the agent worked", hint="the same command goes on from here")
        if ended.why is not None:
            trouble = self.meter.trouble
            more = f"; it last said: {trouble}" if trouble and trouble not in ended.why else ""
            hint = "check its key and base_url" if self.meter.refused else "raise the limit in [estimator.agent]"
            raise self.failure(f"{self.source} was ended: {ended.why}{more}", hint)
        if not ended.stdout and ended.stderr.startswith(("confinement: ", "bwrap: ")):
            msg = f"the jail of the agent could not be made: {first_line(ended.stderr)}"
            raise Prerequisite(msg, hint="`ht doctor` says more")
        if ended.code or self.meter.trouble is not None:
            said = self.meter.trouble or last_line(ended.stderr) or last_line(ended.stdout)
            how = f"failed with exit code {ended.code}" if ended.code else "failed"
            raise self.failure(f"{self.source} {how}" + (f": {said}" if said else ""), "its transcript says more")

    def failure(self, why: str, hint: str) -> ProposalFailure:
        """Why there is no proposal, with the transcript and what it cost."""
        return ProposalFailure(
            self.secrets.redact(why)[: 2 * LINE],
            hint=hint,
            source=self.source,
            transcript=self.transcript,
            usage=self.meter.usage,
            cost_usd=self.meter.cost_usd,
            hypothesis=first_line(self.answer(PROPOSAL)),
        )


def first_line(text: str) -> str:
    """The first line that says something, without Markdown's heading marks; clipped."""
    for line in text.splitlines():
        said = re.sub(r"^[#>*\-\s]+|[*\s]+$", "", line)
        said = re.sub(r"^\W*hypothesis\W*:\W*", "", said, flags=re.IGNORECASE)
        if said:
            return said if len(said) <= LINE else said[: LINE - 1] + "…"
    return ""


def last_line(text: str) -> str:
    """The last line that is not empty; clipped."""
    lines = [line.strip() for line in text[-4096:].splitlines() if line.strip()]
    return lines[-1][-LINE:] if lines else ""


def _content(path: Path) -> str:
    try:
        if path.is_symlink():
            return os.readlink(path)  # noqa: PTH115 (Path.readlink rewrites)
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return ""
