"""`agent`: an agent CLI changes the harness, jailed in its worktree.  Claude Code, Codex, or any command.

Its whole output is kept as the transcript.  Time, tokens, replies and cost are bounded while it works.  Of the caller's
environment it gets what `pass_env` names; those values stand in no argument, transcript, memo or change.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import Field

from harnesstrain.core import confinement
from harnesstrain.core.errors import ConfigError, Incomplete, Prerequisite, ProposalFailure
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.candidate import Proposal
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.core.sections import Url, VariableName
from harnesstrain.stages.propose.base import Diagnosis, Evidence, Workshop
from harnesstrain.stages.propose.estimators import programs, prompts
from harnesstrain.stages.propose.estimators.backends import Ask, Backend, ClaudeBackend, CodexBackend, CommandBackend
from harnesstrain.stages.propose.estimators.options import read_options
from harnesstrain.stages.propose.estimators.places import Cell, Given, Places
from harnesstrain.stages.propose.estimators.watch import Bounds, watch
from harnesstrain.stages.propose.estimators.work import Secrets, Work, first_line
from harnesstrain.stages.propose.ledger import facts_memo

log = logging.getLogger(__name__)

SECRET = 6
"""Characters from which on a passed value is taken for a secret."""
HYPOTHESIS = 300
"""Characters of a hypothesis."""


class AgentOptions(Record):
    """[estimator.agent]."""

    backend: Literal["claude", "codex"] | None = None
    """A known agent."""
    command: tuple[str, ...] = ()
    """Any other: its program and arguments, with {prompt}, {prompt_file}, {harness}, {evidence}, {out}."""
    program: str | None = None
    """Where the backend's program lies, when it is not on PATH."""
    model: str | None = None
    """The agent's model; none: its own default."""
    base_url: Url | None = None
    """The agent's model server, when it is not the vendor's."""
    pass_env: tuple[VariableName, ...] | None = None
    """Names of variables passed on; none: those that hold the backend's credential."""
    time_limit: float = Field(default=900.0, gt=0, allow_inf_nan=False)
    """Seconds for one call."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Prompt and completion tokens of all its model calls, cached ones included."""
    max_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Dollars, as the agent reports them at its end."""
    max_turns: int | None = Field(default=None, ge=1)
    """Replies of its model."""
    network: bool = True
    """Whether it can reach the network; without it, only a model on a file or nothing."""
    binds: tuple[str, ...] = ()
    """More files and directories to show read-only: `SOURCE` or `SOURCE:TARGET`."""
    memory_mb: int = Field(default=4096, ge=256)
    """Of all its processes together, where control groups can be used."""
    pids: int = Field(default=1024, ge=16)
    """Processes and threads."""
    disk_mb: int = Field(default=2048, ge=16)
    """What it may write."""
    diagnose: bool = True
    """Whether the agent writes the memo; false: it is made of facts."""


class AgenticEstimator:
    """An agent CLI in a jailed worktree."""

    name = "agent"

    def __init__(self, backend: Backend | None = None) -> None:
        """`backend`: the agent; None: the one that the options name."""
        self._backend = backend

    def propose(self, workshop: Workshop, evidence: Evidence) -> Proposal | None:
        """Let the agent change the worktree.  A change it did not explain is explained by its last words.

        Raises ProposalFailure (it crashed, exceeded a limit, gave a secret away), Incomplete (stopped by the user),
        Prerequisite (no jail, no program, no credential), ConfigError.
        """
        policy = prompts.policy(evidence)
        work = self._run(workshop, evidence, lambda places: prompts.propose(places, workshop.manifest, policy))
        leak = work.secrets.found_below(workshop.worktree)
        if leak is not None:
            raise work.failure(f"the change holds the value of {leak}", "a key must not enter the harness")
        said = work.answer(prompts.PROPOSAL)
        predicted = re.search(r"^\W*predicted\W*:\s*(.+)$", said, re.MULTILINE | re.IGNORECASE)
        names = [name.strip(" `*.") for name in predicted.group(1).split(",")] if predicted else []
        return Proposal(
            hypothesis=first_line(said) or first_line(work.last) or f"A change by {work.source}",
            predicted=tuple(name for name in names if name),
            usage=work.meter.usage,
            cost_usd=work.meter.cost_usd,
            transcript=work.transcript,
            source=work.source,
        )

    def diagnose(self, workshop: Workshop, evidence: Evidence, verdict: Verdict | None, outcome: str) -> Diagnosis:
        """The memo that the agent wrote.  Raises as `propose` does, but ProposalFailure when the user stops it."""
        if not read_options(AgentOptions, self.name, workshop.options).diagnose:
            return Diagnosis(memo=facts_memo(evidence, outcome))
        policy = prompts.policy(evidence)
        try:
            work = self._run(workshop, evidence, lambda places: prompts.diagnose(places, outcome, policy))
        except Incomplete as stopped:
            raise ProposalFailure(stopped.message, hint=stopped.hint) from stopped
        text = work.answer(prompts.MEMO)
        if not text:
            raise work.failure("the agent wrote no memo", f"it is asked for {work.cell.places.out}/{prompts.MEMO}")
        return Diagnosis(memo=text, usage=work.meter.usage, transcript=work.transcript)

    def _run(self, workshop: Workshop, evidence: Evidence, brief: Callable[[Places], str]) -> Work:
        given = read_options(AgentOptions, self.name, workshop.options)
        backend = self._backend or _backend(given)
        _require_reports(given, backend)
        keys = _keys(given, backend, workshop.environ)
        cell = Cell(workshop, evidence)
        _require_jail(cell, workshop)
        word = backend.program or given.program or backend.name
        program = programs.find(word, workshop.environ.get("PATH", os.defpath), workshop.resolve)
        prompt = brief(cell.places)
        ask = Ask(prompt, cell.places, keys, given.model, given.base_url, given.max_cost_usd)
        call = backend.call(ask)
        cell.fill_home({**call.files, cell.prompt: prompt})
        allowed = Given(given.network, given.memory_mb, given.pids, given.binds)
        meter = backend.meter()
        model = backend.model or given.model
        source = f"{backend.name} ({model})" if model else backend.name
        workshop.say(f"{source} works on it, at most {given.time_limit:g} seconds")
        ended = watch(
            cell.start(program, call.argv, call.env, keys, allowed),
            Bounds(given.time_limit, given.max_tokens, given.max_cost_usd, given.max_turns, given.disk_mb),
            meter,
            logs=cell.home / backend.logs if backend.logs else None,
            written=(cell.worktree, cell.out, cell.home),
            stop=workshop.stop,
            say=lambda text: workshop.say(f"{source}: {text}"),
        )
        work = Work(cell, ended, meter, source, Secrets({name: workshop.environ[name] for name in keys}), prompt)
        work.require_success()
        return work


def _backend(given: AgentOptions) -> Backend:
    if given.command and (given.backend or given.program):
        msg = "[estimator.agent] has a command and a backend"
        raise ConfigError(msg, hint="a command names its program itself; keep one of them")
    if given.command:
        return CommandBackend(*given.command)
    if given.backend is None:
        msg = "[estimator.agent] names no agent"
        raise ConfigError(msg, hint='backend = "claude", backend = "codex", or command = ["my-agent", "{prompt}"]')
    return ClaudeBackend() if given.backend == "claude" else CodexBackend()


def _require_reports(given: AgentOptions, backend: Backend) -> None:
    """Refuse a limit that could not be kept."""
    limits = {"tokens": given.max_tokens, "cost": given.max_cost_usd, "turns": given.max_turns}
    names = {"tokens": "max_tokens", "cost": "max_cost_usd", "turns": "max_turns"}
    for what, value in limits.items():
        if value is not None and what not in backend.reports:
            msg = f"[estimator.agent] {names[what]} cannot be kept: {backend.name} does not report its {what}"
            raise ConfigError(msg, hint="time_limit holds for every agent")


def _keys(given: AgentOptions, backend: Backend, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables to pass on that are set."""
    names = backend.keys if given.pass_env is None else given.pass_env
    keys = tuple(name for name in names if environ.get(name))
    if names and not keys and given.base_url is None and not given.binds:
        msg = f"{backend.name} has no credential: none of {', '.join(names)} is set"
        raise Prerequisite(msg, hint=f"export {names[0]}=…, or name another variable in pass_env")
    return keys


def _require_jail(cell: Cell, workshop: Workshop) -> None:
    if cell.jailed:
        return
    why = confinement.unavailable()
    if workshop.isolated:
        hint = "install what is missing, or `--set sandbox.allow_unisolated=true` if you trust the agent"
        raise Prerequisite(f"no jail for the agent: {why}", hint=hint)
    log.warning("the agent runs NOT ISOLATED: it can read and write what you can")
    workshop.say("the agent runs NOT ISOLATED: it can read and write what you can")
