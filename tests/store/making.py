"""Records and traces to store."""

from __future__ import annotations

import base64
import hashlib
import json
import random

from harnesstrain.core.digests import digest
from harnesstrain.core.records.candidate import Candidate, CandidateStatus
from harnesstrain.core.records.llm import Endpoint, Sampling, Usage
from harnesstrain.core.records.rollout import Outcome, Rollout, Source, Step, StepKind, Trace
from harnesstrain.core.records.run import Regime, Run
from harnesstrain.core.records.sandbox import SandboxIdentity
from harnesstrain.core.records.task import Panel, PanelTask
from harnesstrain.core.records.verdict import Decision, Levers, Verdict
from harnesstrain.store import Store

COMMIT = "c" * 40
ENDPOINT = Endpoint(engine="scripted", model="m", context_length=4096, deterministic=True)
REGIME = Regime(
    endpoint=ENDPOINT.fingerprint,
    deterministic=True,
    sampling=Sampling(),
    context_length=4096,
    sandbox=SandboxIdentity(kind="process", image="i" * 64, pins="1"),
)
PANEL = Panel(name="small", tasks=tuple(PanelTask(name=f"task-{i}", digest=digest(i)) for i in range(6)))


def a_run(salt: str = "", commit: str = COMMIT) -> Run:
    """A run over PANEL under REGIME."""
    seeds = (1,)
    identifier = Run.identify(commit, PANEL.digest, REGIME.digest, seeds, salt)
    return Run(
        id=identifier,
        commit=commit,
        panel=PANEL.digest,
        panel_name=PANEL.name,
        regime=REGIME.digest,
        seeds=seeds,
        salt=salt,
    )


def recorded(store: Store, salt: str = "") -> Run:
    """A run in the store, with everything it refers to."""
    run = a_run(salt)
    store.put_endpoint(ENDPOINT)
    store.put_regime(REGIME)
    store.put_panel(PANEL)
    store.put_run(run)
    return run


def a_rollout(
    run: Run, task: str = "task-0", *, outcome: Outcome = Outcome.SOLVED, attempt: int = 1, steps: int = 3
) -> Rollout:
    """An attempt at a cell of a run."""
    return Rollout(
        id=run.rollout_id(task, 1, attempt),
        run=run.id,
        task=task,
        task_digest=digest(task),
        seed=1,
        outcome=outcome,
        attempt=attempt,
        llm_calls=steps,
        actions=steps,
        usage=Usage(prompt=100, completion=10),
        recorded_time=1.5,
        chain_digest=digest(["chain", task]),
        requests_digest=digest(["requests", task]),
    )


def a_trace(rollout: Rollout, steps: int = 3, *, words: int = 200, seed: int = 0) -> Trace:
    """A growing conversation of `steps` model calls and as many actions; `words` is bytes per observation."""
    source = random.Random(f"{rollout.id}{seed}")
    messages: dict[str, dict[str, object]] = {}
    names: list[str] = []
    made: list[Step] = []

    def say(role: str, content: str) -> None:
        message = {"role": role, "content": content}
        name = digest(message)
        messages[name] = message
        names.append(name)

    say("system", "You solve tasks in a shell. " * 20)
    say("user", f"Do {rollout.task}.")
    for number in range(steps):
        command = f"cat file-{number} {_text(source, 80)}"
        reply = f"Next.\n```sh\n{command}\n```"
        output = _text(source, words)
        made.append(
            Step(
                index=2 * number,
                kind=StepKind.LLM,
                duration=source.random(),
                messages=tuple(names),
                request_digest=digest([number, names[-1]]),
                content=reply,
                finish_reason="stop",
                usage=Usage(prompt=50 * number, completion=len(reply) // 4),
            )
        )
        say("assistant", reply)
        made.append(
            Step(
                index=2 * number + 1,
                kind=StepKind.RUN,
                source=Source.CACHE,
                duration=source.random(),
                request_digest=digest([names[-1], number]),
                action=json.dumps({"run": command}),
                exit_code=0,
                stdout=output.encode(),
                stderr=b"",
                scrubbed_digest=hashlib.sha256(output.encode()).hexdigest(),
                raw_digest=hashlib.sha256(output.encode() + b"0").hexdigest(),
            )
        )
        say("user", f"exit code 0\n{output}")
    return Trace(rollout=rollout.id, steps=tuple(made), messages=messages, log="started\n")


def said(trace: Trace) -> int:
    """Bytes of observations and completions in a trace."""
    return sum(len(step.stdout or b"") + len((step.content or "").encode()) for step in trace.steps)


def a_candidate(number: int = 0, **changes: object) -> Candidate:
    """A candidate."""
    fields: dict[str, object] = {
        "id": digest(["candidate", number]),
        "status": CandidateStatus.CANDIDATE,
        "base": COMMIT,
        "commit": f"{number:040x}",
        "estimator": "patches",
        "hypothesis": "shorter prompt",
    }
    return Candidate.model_validate({**fields, **changes})


def a_verdict(base: Run, cand: Run, **changes: object) -> Verdict:
    """A verdict that rejects, with an infinite loss."""
    side = Levers(solved=1, cells=2)
    fields: dict[str, object] = {
        "id": digest([base.id, cand.id]),
        "base_run": base.id,
        "cand_run": cand.id,
        "base_commit": base.commit,
        "cand_commit": cand.commit,
        "regime": base.regime,
        "criterion": "strict-pareto",
        "decision": Decision.REJECTED,
        "loss": float("inf"),
        "sentence": "task-1 was lost",
        "base": side,
        "cand": side,
        "p_value": 1.0,
        "detectable": 2,
    }
    return Verdict.model_validate({**fields, **changes})


def _text(source: random.Random, length: int) -> str:
    """Text that hardly compresses, so that nothing stored twice goes unnoticed."""
    return base64.b64encode(source.randbytes(length * 3 // 4 + 3)).decode()[:length]
