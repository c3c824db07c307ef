"""`llm`: one model behind an OpenAI-compatible endpoint writes search/replace edits and the memo.

For users without an agent CLI.  Without a URL the frozen model of the run itself is asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import Field

from harnesstrain.core.errors import Incomplete, LlmFailure, Prerequisite, ProposalFailure
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.candidate import Proposal
from harnesstrain.core.records.llm import LlmRequest, Reply, Sampling, Usage
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.harness import globs
from harnesstrain.llm.base import Model
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.stages.propose.base import Diagnosis, Evidence, Workshop
from harnesstrain.stages.propose.estimators import briefs
from harnesstrain.stages.propose.estimators.edits import EditRefused, apply, parse
from harnesstrain.stages.propose.estimators.options import read_options
from harnesstrain.stages.propose.estimators.prompts import policy


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
        """One change; a reply that cannot be applied is answered with the reason, up to `attempts` times.

        Raises ProposalFailure (no usable reply, the model failed), Prerequisite (no key), ConfigError.
        """
        options = read_options(LlmOptions, self.name, workshop.options)
        with _talking(workshop, options, evidence) as talk:
            talk.open(briefs.proposal(workshop, evidence, policy(evidence), options.tasks))
            for _ in range(options.attempts):
                if workshop.stop.is_set():
                    raise Incomplete("stopped while the estimator worked", hint="the same command goes on from here")
                workshop.say("asking the model for a change")
                reply = talk.ask()
                try:
                    return _applied(workshop, reply, talk)
                except EditRefused as refused:
                    talk.answer(f"That cannot be applied: {refused}.  Write the whole answer again.")
            msg = f"no reply of {options.attempts} held a change that can be applied"
            raise ProposalFailure(msg, hint="raise attempts in [estimator.llm], or use a stronger model")

    def diagnose(self, workshop: Workshop, evidence: Evidence, verdict: Verdict | None, outcome: str) -> Diagnosis:
        """The memo, rewritten by the model.  Raises as `propose` does."""
        options = read_options(LlmOptions, self.name, workshop.options)
        with _talking(workshop, options, evidence) as talk:
            talk.open(briefs.memo(evidence, outcome))
            text = talk.ask().content.strip()
            if not text:
                msg = "the model wrote an empty memo"
                raise ProposalFailure(msg)
            return Diagnosis(memo=text, usage=talk.usage, transcript=talk.transcript())


class _Talk:
    """One conversation with the estimator's model: the brief, and the last reply with what is wrong with it."""

    def __init__(self, model: Model, options: LlmOptions, salt: int) -> None:
        self._model = model
        self._sampling = Sampling(temperature=options.temperature, max_tokens=options.max_tokens, seed=salt)
        self._said: list[dict[str, Any]] = []
        self._messages: list[dict[str, Any]] = []
        self.usage = Usage()
        self.source = options.model or "the frozen model"

    def open(self, parts: Sequence[briefs.Part]) -> None:
        """Begin with a brief that fits."""
        self.source = self._model.endpoint().model
        self._messages = [self._note("user", briefs.fitted(parts, self._model, self._sampling.max_tokens))]

    def ask(self) -> Reply:
        """The model's reply."""
        reply = self._model.complete(LlmRequest(messages=tuple(self._messages), sampling=self._sampling))
        self.usage = self.usage + reply.usage
        self._note("assistant", reply.content)
        return reply

    def answer(self, text: str) -> None:
        """Answer the last reply.  A talk that no longer fits goes on from the brief and this answer alone."""
        reply, answer = self._said[-1], self._note("user", text)
        self._messages = [self._messages[0], reply, answer]
        room = self._model.endpoint().context_length - self._sampling.max_tokens - briefs.MARGIN
        if self._model.count_tokens(self._messages) > room:
            short = f"{self._messages[0]['content']}\n\nAn answer was refused.  {text}"
            self._messages = [{"role": "user", "content": short}]

    def transcript(self) -> str:
        """Everything that was said, as JSON lines."""
        return "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in self._said)

    def _note(self, role: str, text: str) -> dict[str, Any]:
        message = {"role": role, "content": text}
        self._said.append(message)
        return message


def _applied(workshop: Workshop, reply: Reply, talk: _Talk) -> Proposal:
    text = reply.content
    edits = parse(text)
    if not edits:
        cut = "; it was cut off at max_tokens" if reply.finish_reason == "length" else ""
        msg = f"it holds no edit in the form FILE / SEARCH / REPLACE{cut}"
        raise EditRefused(msg)
    outside = [edit.path for edit in edits if not globs.matches(edit.path, workshop.manifest.surface)]
    if outside:
        msg = f"{outside[0]} is not one of the files you may change"
        raise EditRefused(msg)
    apply(workshop.worktree, edits)
    hypothesis = re.search(r"^\W*HYPOTHESIS\W*:[\W_]*(.+)$", text, re.MULTILINE)
    predicted = re.search(r"^\W*PREDICTED\W*:[\W_]*(.+)$", text, re.MULTILINE)
    names = [part.strip(" `*.") for part in predicted.group(1).split(",")] if predicted else []
    files = ", ".join(sorted({edit.path for edit in edits}))
    return Proposal(
        hypothesis=hypothesis.group(1).strip() if hypothesis else f"Change {files}",
        predicted=tuple(name for name in names if name),
        usage=talk.usage,
        transcript=talk.transcript(),
        source=talk.source,
    )


@contextmanager
def _talking(workshop: Workshop, options: LlmOptions, evidence: Evidence) -> Iterator[_Talk]:
    """A conversation; whatever fails in it is a ProposalFailure with the transcript so far.

    Its seed moves on with every proposal, so that a rejected idea is not drawn again.
    """
    with _model(workshop, options) as model:
        talk = _Talk(model, options, len(evidence.ledger))
        try:
            yield talk
        except (LlmFailure, ProposalFailure) as failure:
            ours = isinstance(failure, ProposalFailure)
            raise ProposalFailure(
                failure.message if ours else f"the estimator's model failed: {failure.message}",
                hint=failure.hint,
                source=talk.source,
                transcript=talk.transcript(),
                usage=talk.usage,
            ) from failure


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
