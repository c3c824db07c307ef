"""The real environment of an episode: opened when first needed, and brought to the state the records speak of.

It starts from the deepest kept state where there is one.  The actions after it are executed again and compared with
their records.  States are kept on the way, where executing again would cost more than keeping.
"""

from __future__ import annotations

import time

from harnesstrain.core.errors import SandboxFailure, Unsupported
from harnesstrain.core.records.rollout import Source
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Environment
from harnesstrain.rollout.action import Acted, Action, asked, perform
from harnesstrain.rollout.chain import Chain, Link, states
from harnesstrain.rollout.drift import compare, compare_states
from harnesstrain.rollout.keeping import Keeping, worth
from harnesstrain.rollout.opening import opened
from harnesstrain.sandbox.base import Sandbox, Session


class Ground:
    """At most one session.  One thread at a time."""

    def __init__(
        self, sandbox: Sandbox, environment: Environment, limits: Limits, chain: Chain, *, keeps: bool, uses: str
    ) -> None:
        """`keeps`: whether states are kept; `uses`: kept states are started from (`start`), not looked at (`ignore`),
        or compared with a full re-execution (`compare`).
        """
        self._sandbox = sandbox
        self._environment = environment
        self._limits = limits
        self._chain = chain
        able = sandbox.capabilities().snapshots
        self._keeps = keeps and able
        self._uses = uses if able else "ignore"
        self._session: Session | None = None
        self._reached = 0
        self._keeping = Keeping()
        self._spoiled = False
        self._abandoned = False
        self.executions = 0
        """Actions executed so far, repeated ones included."""
        self.opened = 0
        """Environments opened so far."""
        self.source = Source.LIVE
        """What an action executed now comes from."""

    @property
    def running(self) -> bool:
        """Whether a session is open."""
        return self._session is not None

    def reach(self) -> Session:
        """The session, in the state after every action of the chain.

        Raises Drifted, SandboxFailure.
        """
        if self._spoiled:
            self.close()
        links = self._chain.links[:]
        pending = links[self._reached :]
        kept = self._kept(pending)
        if kept is not None and self._uses == "start":
            self._start_at(kept, links)
        if self._session is None:
            self.opened += 1
            self._session = _opened_twice(self._sandbox, self._environment, self._limits)
        repeated = links[self._reached :]
        for link in repeated:
            if self._abandoned:
                break
            self._repeat(self._session, link)
            if kept == link.state and self._uses == "compare":
                self._compare(self._session, link)
        if repeated and not self._abandoned:
            self._keep(repeated[-1])
        return self._session

    def execute(self, action: Action, seconds: float) -> Acted:
        """Execute a new action in the state reached, for at most `seconds`.  Raises SandboxFailure."""
        assert self._session is not None
        self.executions += 1
        return perform(self._session, action, seconds)

    def advance(self, link: Link) -> None:
        """The action just executed is `link`, the last of the chain."""
        self._count(link)

    def keep(self) -> None:
        """Keep the state reached, if that is worth it."""
        self._keep(self._chain.links[-1])

    def secure(self) -> None:
        """Keep the state reached, whatever that costs, if it can be kept: work goes on from it."""
        links = self._chain.links
        if self._keeps and links and links[-1].clean and self._session is not None:
            self._session.seal(links[-1].state)

    def spoil(self) -> None:
        """What was executed last is not part of the chain: the session is of no use any more."""
        self._spoiled = True

    def abandon(self) -> None:
        """Stop repeating: nobody needs the state."""
        self._abandoned = True

    def close(self) -> None:
        """End the session, if there is one."""
        session, self._session = self._session, None
        self._reached = 0
        self._spoiled = False
        self._keeping.start(fresh=True)
        self.source = Source.LIVE
        if session is not None:
            session.close()

    def _kept(self, pending: list[Link]) -> str | None:
        """The deepest kept state among `pending`, where a running session is not quicker there by itself."""
        if self._uses == "ignore" or not pending or (self._session is not None and not worth(pending)):
            return None
        return self._sandbox.sealed(states(pending))

    def _start_at(self, kept: str, links: list[Link]) -> None:
        """Start from a kept state; from where the session is, or afresh, when the state is gone by now."""
        try:
            session = self._sandbox.open(self._environment, limits=self._limits, at=kept)
        except SandboxFailure:
            return
        self.close()
        self._keeping.start(fresh=False)
        self.opened += 1
        self._session = session
        self._reached = next(done for done, link in enumerate(links, 1) if link.state == kept)
        self.source = Source.SNAPSHOT

    def _repeat(self, session: Session, link: Link) -> None:
        """Execute a recorded action again.  A slow machine is no drift: only what timed out has its time bounded."""
        self.executions += 1
        recorded = link.entry.result
        limit = asked(link.action) if recorded.timed_out else max(asked(link.action), 60.0, recorded.duration * 10)
        compare(link, perform(session, link.action, limit).result)
        self._count(link)

    def _compare(self, session: Session, link: Link) -> None:
        """Compare the files after a full re-execution with those of the kept state."""
        try:
            kept = self._sandbox.open(self._environment, limits=self._limits, at=link.state)
        except SandboxFailure:  # gone by now
            return
        try:
            files = kept.state()
        finally:
            kept.close()
        compare_states(link, files, session.state())

    def _count(self, link: Link) -> None:
        self._reached += 1
        self._keeping.count(link)

    def _keep(self, link: Link) -> None:
        """Keep the state after `link`, if that is due and `link` left nothing that a state cannot hold."""
        if not (self._keeps and link.clean and self._keeping.due):
            return
        assert self._session is not None
        began = time.monotonic()
        self._session.seal(link.state)
        self._keeping.tried(time.monotonic() - began)


def _opened_twice(sandbox: Sandbox, environment: Environment, limits: Limits) -> Session:
    """The environment as it is at the start.  A start that fails is tried once more."""
    try:
        return opened(sandbox, environment, limits)
    except Unsupported:
        raise
    except SandboxFailure:
        return opened(sandbox, environment, limits)
