"""The one error tree.  Every class says what went wrong (`kind`), what the process returns (`exit_code`)
and, through `hint`, which command comes next.

HtError                        bug             1
├─ UsageError                  usage           2   a bad option value or range
│  ├─ NotFound                 not_found       2   no id or revision matches
│  └─ Ambiguous                ambiguous       2   several do; carries them
├─ ConfigError                 config          2   ht.toml, harness.toml, task.toml, a panel
├─ AnswerNo                    answer_no       3   the answer is no, asked with --exit-code
├─ Unmeasurable                unmeasurable    4   infrastructure noise could flip the verdict
├─ Incomplete                  incomplete      5   stopped early; rerunning resumes
├─ Prerequisite                prerequisite    6   a daemon, a server, a schema, an extra is missing
├─ Busy                        busy            7   somebody else holds the lease
├─ StoreCorrupt                corrupt         1   points at `ht fsck`
├─ PolicyFailure               policy          1   the harness's own fault: recorded as an outcome
├─ ProposalFailure             proposal        4   an estimator failed: ends its epoch, not the loop
└─ InfraFailure                infra           4   model, sandbox or verifier: retried, then unmeasurable
   ├─ LlmFailure               infra_llm
   │  ├─ ContextOverflow       context_overflow    the request does not fit (owned by the policy)
   │  ├─ RateLimited           rate_limited
   │  ├─ TransportFailure      transport
   │  ├─ BadRequest            bad_request         400, 413, 422: the harness's to handle, never retried
   │  └─ Refused               refused             any other 4xx (key, credit, model, route): not retried at once
   ├─ SandboxFailure           infra_sandbox
   │  └─ Unsupported           unsupported         the sandbox cannot run this task; said before anything starts
   └─ VerifierFailure          infra_verifier
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar


class Owner(StrEnum):
    """Whose failure it is.  Decided at the two typed boundaries only (harness; model and sandbox)."""

    POLICY = "policy"
    INFRA = "infra"
    FRAMEWORK = "framework"


class HtError(Exception):
    """Root of the tree.  `message` says what happened; `hint` says the next command; `extra` is data for --json."""

    kind: ClassVar[str] = "bug"
    exit_code: ClassVar[int] = 1
    owner: ClassVar[Owner] = Owner.FRAMEWORK

    def __init__(self, message: str, *, hint: str | None = None, **extra: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.extra = extra

    def payload(self) -> dict[str, Any]:
        """The `error` object of the --json contract: kind, message, hint and whatever data came along."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint, **self.extra}


class UsageError(HtError):
    """A bad option value, range or argument."""

    kind = "usage"
    exit_code = 2


class NotFound(UsageError):
    """No id, revision, task or panel of that name."""

    kind = "not_found"


class Ambiguous(UsageError):
    """An id prefix that several records share; `candidates` names them."""

    kind = "ambiguous"


class ConfigError(HtError):
    """A file the user wrote cannot be used: ht.toml, harness.toml, task.toml, a panel."""

    kind = "config"
    exit_code = 2


class AnswerNo(HtError):
    """The answer is no.  Raised only where the user asked for it with --exit-code."""

    kind = "answer_no"
    exit_code = 3


class Unmeasurable(HtError):
    """Infrastructure noise could flip the verdict, so there is none."""

    kind = "unmeasurable"
    exit_code = 4


class Incomplete(HtError):
    """Work remains (a budget, a signal, a stop file); the same command resumes."""

    kind = "incomplete"
    exit_code = 5


class Prerequisite(HtError):
    """Something this command needs is not there: a daemon, a server, a schema version, an extra."""

    kind = "prerequisite"
    exit_code = 6


class Busy(HtError):
    """Another process holds the lease."""

    kind = "busy"
    exit_code = 7


class StoreCorrupt(HtError):
    """A committed record or file cannot be read back."""

    kind = "corrupt"


class PolicyFailure(HtError):
    """The harness broke: crashed, broke the protocol, exceeded its own limits.  Recorded as `policy_crash`."""

    kind = "policy"
    owner = Owner.POLICY


class ProposalFailure(HtError):
    """An estimator failed: crashed, ran out of its limits, left nothing that can be captured.

    `source` and `transcript` in `extra` are kept with the candidate record that says why there is none.
    """

    kind = "proposal"
    exit_code = 4


class InfraFailure(HtError):
    """The model, the sandbox or the verifier failed for reasons that are not the harness's."""

    kind = "infra"
    exit_code = 4
    owner = Owner.INFRA


class LlmFailure(InfraFailure):
    """The model endpoint failed."""

    kind = "infra_llm"


class ContextOverflow(LlmFailure):
    """The request does not fit the model's context.  The harness is told; it is the harness's to handle."""

    kind = "context_overflow"
    owner = Owner.POLICY


class RateLimited(LlmFailure):
    """The endpoint kept answering 429 until the deadline."""

    kind = "rate_limited"


class TransportFailure(LlmFailure):
    """Connection errors or 5xx until the deadline."""

    kind = "transport"


class BadRequest(LlmFailure):
    """The endpoint refused the request for what is in it (400, 413, 422).  The harness is told.  Never retried."""

    kind = "bad_request"


class Refused(LlmFailure):
    """The endpoint would refuse any request: the key, the credit, the model or the route.  Waiting does not mend it."""

    kind = "refused"


class SandboxFailure(InfraFailure):
    """The sandbox could not start or its agent went away."""

    kind = "infra_sandbox"


class Unsupported(SandboxFailure):
    """This sandbox cannot run this task.  Said before anything starts; never scored."""

    kind = "unsupported"
    exit_code = 6


class VerifierFailure(InfraFailure):
    """The verifier gave no grade for a reason that is not the submitted state."""

    kind = "infra_verifier"
