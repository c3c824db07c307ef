"""The model boundary: one llm.complete, from the harness's params to its answer and the step's record."""

from __future__ import annotations

from typing import Any

from harnesstrain.core.digests import encoder
from harnesstrain.core.errors import BadRequest, ContextOverflow, LlmFailure
from harnesstrain.core.records.llm import LlmRequest, Reply, Sampling
from harnesstrain.core.records.rollout import Step, StepKind
from harnesstrain.core.records.run import Regime
from harnesstrain.harness.protocol import Complete
from harnesstrain.llm.base import Answer
from harnesstrain.rollout.conversation import Conversations, Said

TOLD = (ContextOverflow, BadRequest)
"""Failures that are the harness's to handle.  Every other LlmFailure ends the rollout as infrastructure."""


_readable = encoder(ensure_ascii=False, spaces=True)


class OverrideRefused(ValueError):
    """A sampling override that the regime does not allow."""


def sampling_for(regime: Regime, overrides: dict[str, Any], seed: int) -> Sampling:
    """The regime's sampling for rollout seed 1, 2, … with the harness's allowed overrides.

    `max_tokens` may only go down.  Raises OverrideRefused: a candidate must not buy its win with tokens or temperature.
    """
    changed: dict[str, Any] = {"seed": regime.sampling.seed + seed - 1}
    for name, value in overrides.items():
        if name not in regime.overrides:
            msg = f"sampling override '{name}' is not allowed; allowed: {', '.join(regime.overrides) or 'none'}"
            raise OverrideRefused(msg)
        if name == "max_tokens":
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                msg = "max_tokens must be a positive integer"
                raise OverrideRefused(msg)
            changed[name] = min(value, regime.sampling.max_tokens)
        else:
            changed[name] = value
    try:
        return Sampling.model_validate(regime.sampling.model_dump() | changed)
    except ValueError as error:
        msg = f"bad sampling override: {str(error).splitlines()[0]}"
        raise OverrideRefused(msg) from error


def without_messages(call: Complete, sampling: Sampling) -> LlmRequest:
    """The request but for its messages, whose digest stands for them as long as nobody has to read them."""
    return LlmRequest.trusted(messages=(), tools=call.tools, tool_choice=call.tool_choice, sampling=sampling)


def request_for(call: Complete, said: Said, sampling: Sampling) -> LlmRequest:
    """The exact request.  Messages were validated by the protocol and are shared, not copied."""
    return LlmRequest.trusted(
        messages=said.conversation.messages, tools=call.tools, tool_choice=call.tool_choice, sampling=sampling
    )


def answered_step(index: int, said: Said, tools: str | None, answer: Answer) -> Step:
    """The record of an answered request."""
    reply = answer.reply
    return Step.trusted(
        index=index,
        kind=StepKind.LLM,
        source=answer.source,
        duration=reply.duration,
        request_digest=answer.key,
        messages=said.conversation.digests,
        tools=tools,
        content=reply.content,
        reasoning=reply.reasoning or None,
        tool_calls=_calls(reply),
        finish_reason=reply.finish_reason,
        usage=reply.usage,
    )


def failed_step(index: int, said: Said, tools: str | None, failure: LlmFailure, key: str) -> Step:
    """The record of a request that got no reply.  `key`: digest of the request."""
    return Step(
        index=index,
        kind=StepKind.LLM,
        request_digest=key,
        messages=said.conversation.digests,
        tools=tools,
        error=f"{failure.kind}: {failure.message}",
    )


def keep(conversations: Conversations, call: Complete) -> Said:
    """Keep the call's messages.  Raises PolicyFailure for an unknown handle."""
    return conversations.say(call.messages.prefix, call.messages.append)


def _calls(reply: Reply) -> str | None:
    if not reply.tool_calls:
        return None
    said = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.tool_calls]
    return _readable(said)
