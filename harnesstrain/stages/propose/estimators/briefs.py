"""What a plain model is told, cut to what its context holds: the least useful evidence goes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.errors import ProposalFailure
from harnesstrain.harness import globs
from harnesstrain.llm.base import Model
from harnesstrain.stages.propose.base import Evidence, Workshop
from harnesstrain.stages.propose.ledger import as_markdown

RECENT = 30
"""Entries of the ledger that are shown."""
MARGIN = 64
"""Tokens left free besides the reply: counts of a foreign server may be estimates."""

FORM = """\
Make ONE small change that should solve more tasks and break none.  Answer in exactly this form:
HYPOTHESIS: one line, what changes and why it helps
PREDICTED: names of tasks that should become solved
FILE: path
<<<<<<< SEARCH
lines that stand in the file exactly once
=======
the lines that replace them
>>>>>>> REPLACE
(repeat FILE … REPLACE for further edits)"""


@dataclass(frozen=True)
class Part:
    """A piece of a brief."""

    text: str
    rank: int = 0
    """0: always there; else the higher, the sooner it is left out."""


def proposal(workshop: Workshop, evidence: Evidence, policy: str, pages: int) -> list[Part]:
    """The brief for a change, in the order in which it is read.  `pages`: of failed tasks, at most."""
    return [
        Part("You improve the program around a language model (its harness).  The model itself never changes."),
        Part(f"Rules of the project:\n{policy}" if policy else "", 3),
        Part(f"Memo so far:\n{evidence.memo}" if evidence.memo else "", 2),
        Part(f"Tried so far:\n{_recent(evidence)}", 1),
        Part(f"The current harness on its tasks:\n{evidence.summary}", 4),
        *(Part(page, 5 + number) for number, page in enumerate(_failed(evidence, pages))),
        Part(f"Files you may change:\n{surface(workshop)}"),
        Part(FORM),
    ]


def memo(evidence: Evidence, outcome: str) -> list[Part]:
    """The brief for the memo."""
    return [
        Part(
            "You keep the memo of a training run that improves a harness around a language model.  Rewrite it in at "
            "most 30 lines of Markdown: what is known to help, what is known to hurt, what to try next.  Claim nothing "
            "that the facts do not show."
        ),
        Part(f"What just happened: {outcome}"),
        Part(f"Old memo:\n{evidence.memo or 'none'}", 1),
        Part(f"Tried so far:\n{_recent(evidence)}", 2),
        Part(f"The current harness on its tasks:\n{evidence.summary}", 3),
    ]


def fitted(parts: Sequence[Part], model: Model, reply: int) -> str:
    """The brief with as many parts as leave `reply` tokens free.

    Raises ProposalFailure when even the ranks 0 do not fit, LlmFailure when the model cannot be asked.
    """
    context = model.endpoint().context_length
    limit = max(part.rank for part in parts)
    while True:
        text = "\n\n".join(part.text for part in parts if part.text and part.rank <= limit)
        if model.count_tokens([{"role": "user", "content": text}]) + reply + MARGIN <= context:
            return text
        if limit == 0:
            msg = f"the files that may be changed do not fit the model's context of {context} tokens"
            raise ProposalFailure(
                msg, hint="name a model with a longer context in [estimator.llm], or lower max_tokens"
            )
        limit -= 1


def surface(workshop: Workshop) -> str:
    """The files that may be changed, whole."""
    shown = []
    for path in sorted(workshop.worktree.rglob("*")):
        name = path.relative_to(workshop.worktree).as_posix()
        if path.is_file() and not path.is_symlink() and globs.matches(name, workshop.manifest.surface):
            shown.append(f"--- {name}\n{path.read_text(encoding='utf-8', errors='replace')}")
    return "\n".join(shown)


def _recent(evidence: Evidence) -> str:
    older = len(evidence.ledger) - RECENT
    left_out = f"({older} older ones are left out)\n" if older > 0 else ""
    return left_out + as_markdown(evidence.ledger[-RECENT:])


def _failed(evidence: Evidence, most: int) -> list[str]:
    """Pages of failed tasks, shortest first: more of them fit."""
    pages = [path.read_text(encoding="utf-8") for path in sorted(Path(evidence.directory, "tasks").glob("*.md"))]
    failed = [page for page in pages if "\nOutcome: solved\n" not in page]
    return [f"What happened on a failed task:\n{page}" for page in sorted(failed, key=len)[:most]]
