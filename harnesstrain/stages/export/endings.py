"""What a trial of Harbor is as the outcome of a rollout.

Harbor says of each exception whether the reward still counts.  Where it does, the reward decides, and a trial that is
not solved is the agent's failure.  Where it does not, the trial is no measurement of the agent, and the table says
whose failure it was.  A trial that failed before its agent ran never counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Outcome, Reason
from harnesstrain.core.rewards import MAIN
from harnesstrain.stages.export.harborjob import ExceptionInfo, TrialResult

PASSES = 1.0
"""A reward that counts as solved."""
DETAIL = 300
"""Characters of a detail."""


@dataclass(frozen=True)
class Meaning:
    """What an exception says of a trial."""

    outcome: Outcome
    """When the trial is not solved."""
    reason: str | None = None

    @property
    def graded(self) -> bool:
        """Whether the reward counts."""
        return self.outcome.scorable


def _all(meaning: Meaning, names: str) -> dict[str, Meaning]:
    return dict.fromkeys(names.split(), meaning)


MEANINGS: dict[str, Meaning] = {
    "AgentTimeoutError": Meaning(Outcome.NO_SUBMIT, Reason.TIME_LIMIT.value),
    "NonZeroAgentExitCodeError": Meaning(Outcome.POLICY_CRASH),
    **_all(
        Meaning(Outcome.NO_SUBMIT, Reason.CONTEXT_OVERFLOW.value),
        "ContextLengthExceededError ContextWindowExceededError",
    ),
    **_all(Meaning(Outcome.NO_SUBMIT, Reason.TOKEN_LIMIT.value), "OutputLengthExceededError OutputTokenExceededError"),
    **_all(Meaning(Outcome.NO_SUBMIT, Reason.GAVE_UP.value), "AgentSafetyRefusalError ContentPolicyViolationError"),
    **_all(
        Meaning(Outcome.INFRA_LLM, "llm"),
        "RateLimitError InternalServerError ServiceUnavailableError APIConnectionError APITimeoutError APIError "
        "Timeout OverloadedError BadGatewayError APIResponseValidationError AgentAuthenticationError "
        "AuthenticationError "
        "PermissionDeniedError ModelNotFoundError ApiProviderResourceNotFoundError NotFoundError BadRequestError "
        "BudgetExceededError UnprocessableEntityError UnsupportedParamsError UnsupportedModelParametersError",
    ),
    **_all(
        Meaning(Outcome.INFRA_VERIFIER, "verifier"),
        "VerifierTimeoutError RewardFileNotFoundError RewardFileEmptyError VerifierOutputParseError AddTestsDirError "
        "DownloadVerifierDirError RegradeError",
    ),
    **_all(
        Meaning(Outcome.INFRA_SANDBOX, "sandbox"),
        "EnvironmentStartTimeoutError EnvironmentBuildTimeoutError SandboxBuildFailedError AgentSetupTimeoutError "
        "HealthcheckError SandboxOutOfMemoryError ServiceOperationsUnsupportedError MissingExtraError",
    ),
    "CancelledError": Meaning(Outcome.INFRA_SANDBOX, "cancelled"),
}
"""By exception; what is not here is the sandbox's, unless its reward counts."""

_UNKNOWN = Meaning(Outcome.INFRA_SANDBOX, "exception")


class Ending(Record):
    """How a trial ended."""

    outcome: Outcome
    reason: str | None = None
    detail: str = ""
    reward: float | None = None
    rewards: dict[str, float] = {}


def ending_of(trial: TrialResult) -> Ending:
    """The ending of a trial."""
    raised = trial.exception_info or next((s.exception_info for s in reversed(trial.steps) if s.exception_info), None)
    rewards = trial.verifier_result.finite if trial.verifier_result else None
    given = trial.verifier_result is not None and trial.verifier_result.rewards is not None
    if raised is not None and not (_counts(trial, raised) and given):
        meaning = MEANINGS.get(raised.exception_type, _UNKNOWN)
        if meaning.graded:  # it would count, but there is no reward
            meaning = Meaning(Outcome.INFRA_VERIFIER, "no_reward") if trial.agent_ran else _UNKNOWN
        return Ending(outcome=meaning.outcome, reason=meaning.reason, detail=_detail(raised))
    if rewards is None:
        detail = "a reward is no finite number" if given else "there is no reward"
        return Ending(outcome=Outcome.INFRA_VERIFIER, reason="no_reward", detail=detail)
    reward = rewards.get(MAIN, min(rewards.values()))
    named = {} if set(rewards) == {MAIN} else rewards
    named = named | {
        step.step_name: value for step in trial.steps if (value := _step(step.verifier_result)) is not None
    }
    if reward >= PASSES:
        return Ending(outcome=Outcome.SOLVED, reward=reward, rewards=named)
    meaning = MEANINGS.get(raised.exception_type, _UNKNOWN) if raised is not None else _UNKNOWN
    outcome, reason = (meaning.outcome, meaning.reason) if meaning.graded else (Outcome.FAILED_VERIFICATION, None)
    detail = _detail(raised) if raised is not None else ""
    return Ending(outcome=outcome, reason=reason, detail=detail, reward=reward, rewards=named)


def _counts(trial: TrialResult, raised: ExceptionInfo) -> bool:
    """Whether the reward of a trial that an exception ended counts."""
    if not trial.agent_ran or trial.reward_valid is False:
        return False
    if raised.policy is not None and raised.policy.has_valid_reward is not None:
        return raised.policy.has_valid_reward
    meaning = MEANINGS.get(raised.exception_type)
    return meaning is None or meaning.graded


def _step(found: object) -> float | None:
    rewards = getattr(found, "finite", None)
    return rewards.get(MAIN, min(rewards.values())) if rewards else None


def _detail(raised: ExceptionInfo) -> str:
    lines: Iterable[str] = (line.strip() for line in raised.exception_message.splitlines())
    first = next((line for line in lines if line), "")
    return f"{raised.exception_type}: {first}"[:DETAIL] if first else raised.exception_type[:DETAIL]
