"""`llm`: one model behind an OpenAI-compatible endpoint writes search/replace edits and the memo.

For users without an agent CLI.  Without a URL the frozen model of the run itself is asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import Field

from harnesstrain.core.errors import LlmFailure, Prerequisite, ProposalFailure
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.candidate import Proposal
from harnesstrain.core.records.llm import LlmRequest, Reply, Sampling, Usage
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.harness import globs
from harnesstrain.llm.base import Model
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.stages.propose.base import Diagnosis, Evidence, Workshop
from harnesstrain.stages.propose.estimators.edits import EditRefused, apply, parse
from harnesstrain.stages.propose.estimators.options import read_options

POLICY = "program.md"
"""The user's policy text for estimators, in the harness repo."""


class LlmOptions(Record):
    """[estimator.llm]."""

    url: str | None = None
    """OpenAI-compatible base URL; none: the frozen model of the run."""
    model: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable with the key."""
    temperature: float = Field(default=0.0, ge=0)
    max_tokens: int = Field(default=1500, ge=64)
    """Completion tokens of one reply."""
    attempts: int = Field(default=3, ge=1, le=10)
    """Replies asked for until one can be applied."""
    tasks: int = Field(default=2, ge=0)
    """Pages of failed tasks shown, if they fit."""
    deadline: float = Field(default=900.0, gt=0)
    """Seconds for one call, retries included."""


class LlmEstimator:
    """Shows the surface and the evidence to a model, and applies the edits it writes."""

    name = "llm"

    def propose(self, workshop: Workshop, evidence: Evidence) -> Proposal | None:
        """One change; a reply that cannot be applied is answered with the reason, up to `attempts` times."""
        options = read_options(LlmOptions, self.name, workshop.options)
        with _model(workshop, options) as model:
            talk = _Talk(model, options, _salt(evidence))
            talk.say("user", _brief(workshop, evidence, options, model))
            for _ in range(options.attempts):
                workshop.say("asking the model for a change")
                reply = talk.ask()
                try:
                    return _applied(workshop, reply, talk)
                except EditRefused as refused:
                    talk.say("user", f"That cannot be applied: {refused}.  Write the whole answer again.")
        msg = f"no reply of {options.attempts} held a change that can be applied"
        source = options.model or "the frozen model"
        raise ProposalFailure(
            msg,
            hint="raise attempts in [estimator.llm], or use a stronger model",
            source=source,
            transcript=talk.transcript(),
            usage=talk.usage,
        )

    def diagnose(self, workshop: Workshop, evidence: Evidence, verdict: Verdict | None, outcome: str) -> Diagnosis:
        """The memo, rewritten by the model."""
        options = read_options(LlmOptions, self.name, workshop.options)
        with _model(workshop, options) as model:
            talk = _Talk(model, options, _salt(evidence))
            talk.say("user", _memo_brief(evidence, outcome))
            text = talk.ask().content.strip()
        if not text:
            msg = "the model wrote an empty memo"
            raise ProposalFailure(msg)
        return Diagnosis(memo=text, usage=talk.usage, transcript=talk.transcript())


class _Talk:
    """One conversation with the estimator's model."""

    def __init__(self, model: Model, options: LlmOptions, salt: int) -> None:
        self._model = model
        self._sampling = Sampling(temperature=options.temperature, max_tokens=options.max_tokens, seed=salt)
        self.messages: list[dict[str, Any]] = []
        self.usage = Usage()

    def say(self, role: str, text: str) -> None:
        """Add a message."""
        self.messages.append({"role": role, "content": text})

    def ask(self) -> Reply:
        """The model's reply, added to the conversation.  Raises ProposalFailure."""
        try:
            reply = self._model.complete(LlmRequest(messages=tuple(self.messages), sampling=self._sampling))
        except LlmFailure as failure:
            msg = f"the estimator's model failed: {failure.message}"
            raise ProposalFailure(msg, hint=failure.hint, transcript=self.transcript()) from failure
        self.usage = self.usage + reply.usage
        self.say("assistant", reply.content)
        return reply

    def transcript(self) -> str:
        """The conversation as JSON lines."""
        return "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in self.messages)


def _applied(workshop: Workshop, reply: Reply, talk: _Talk) -> Proposal:
    text = reply.content
    edits = parse(text)
    if not edits:
        msg = "it holds no edit in the form FILE / SEARCH / REPLACE"
        raise EditRefused(msg)
    outside = [edit.path for edit in edits if not globs.matches(edit.path, workshop.manifest.surface)]
    if outside:
        msg = f"{outside[0]} is not one of the files you may change"
        raise EditRefused(msg)
    apply(workshop.worktree, edits)
    hypothesis = re.search(r"^HYPOTHESIS:\s*(.+)$", text, re.MULTILINE)
    predicted = re.search(r"^PREDICTED:\s*(.+)$", text, re.MULTILINE)
    names = tuple(part.strip() for part in predicted.group(1).split(",") if part.strip()) if predicted else ()
    return Proposal(
        hypothesis=hypothesis.group(1).strip()
        if hypothesis
        else f"Change {', '.join(sorted({e.path for e in edits}))}",
        predicted=names,
        usage=talk.usage,
        transcript=talk.transcript(),
        source=talk._model.endpoint().model,
    )


def _brief(workshop: Workshop, evidence: Evidence, options: LlmOptions, model: Model) -> str:
    """The prompt, with as much of the evidence as fits the model's context."""
    policy = workshop.worktree / POLICY
    parts = [
        "You improve the program around a language model (its harness).  The model itself never changes.",
        f"Rules of the project:\n{policy.read_text(encoding='utf-8')}" if policy.is_file() else "",
        f"Memo so far:\n{evidence.memo}" if evidence.memo else "",
        f"Tried so far:\n{(evidence.directory / 'ledger.md').read_text(encoding='utf-8')}",
        f"The current harness on its tasks:\n{evidence.summary}",
        f"Files you may change:\n{_surface(workshop)}",
    ]
    ask = (
        "Make ONE small change that should solve more tasks and break none.  Answer in exactly this form:\n"
        "HYPOTHESIS: one line, what changes and why it helps\nPREDICTED: names of tasks that should become solved\n"
        "FILE: path\n<<<<<<< SEARCH\nlines that stand in the file exactly once\n=======\nthe lines that replace them\n"
        ">>>>>>> REPLACE\n(repeat FILE … REPLACE for further edits)"
    )
    pages = _pages(evidence, options.tasks)
    room = model.endpoint().context_length - options.max_tokens * 2
    while True:
        shown = "\n\n".join([part for part in [*parts, *pages, ask] if part])
        if not pages or model.count_tokens([{"role": "user", "content": shown}]) <= room:
            return shown
        pages = pages[:-1]


def _memo_brief(evidence: Evidence, outcome: str) -> str:
    return (
        "You keep the memo of a training run that improves a harness around a language model.  Rewrite it in at most "
        "30 lines of Markdown: what is known to help, what is known to hurt, what to try next.  Claim nothing that the "
        f"facts do not show.\n\nWhat just happened: {outcome}\n\nOld memo:\n{evidence.memo or 'none'}\n\n"
        f"Tried so far:\n{(evidence.directory / 'ledger.md').read_text(encoding='utf-8')}\n\n{evidence.summary}"
    )


def _surface(workshop: Workshop) -> str:
    shown = []
    for path in sorted(workshop.worktree.rglob("*")):
        name = path.relative_to(workshop.worktree).as_posix()
        if path.is_file() and not path.is_symlink() and globs.matches(name, workshop.manifest.surface):
            shown.append(f"--- {name}\n{path.read_text(encoding='utf-8', errors='replace')}")
    return "\n".join(shown)


def _pages(evidence: Evidence, most: int) -> list[str]:
    """Pages of failed tasks, shortest first: more of them fit."""
    failed = [page for page in _read_all(evidence.directory / "tasks") if "\nOutcome: solved\n" not in page]
    return [f"What happened on a failed task:\n{page}" for page in sorted(failed, key=len)[:most]]


def _read_all(directory: Path) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(directory.glob("*.md"))]


def _salt(evidence: Evidence) -> int:
    """A seed that moves on with every proposal, so that a rejected idea is not drawn again."""
    return len(evidence.ledger)


@contextmanager
def _model(workshop: Workshop, options: LlmOptions) -> Iterator[Model]:
    if options.url is None:
        yield workshop.model()
        return
    key = None
    if options.api_key_env is not None:
        key = workshop.environ.get(options.api_key_env)
        if not key:
            msg = f"the environment variable {options.api_key_env} is not set"
            raise Prerequisite(msg, hint=f"export {options.api_key_env}=…")
    model = OpenAIModel(options.url, model=options.model, api_key=key, deadline=options.deadline)
    try:
        yield model
    finally:
        model.close()
