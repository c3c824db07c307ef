"""The trainer: opens a project, runs epochs, yields a loss for each candidate that was measured."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from harnesstrain.core.errors import ProposalFailure, UsageError
from harnesstrain.core.events import Bus
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.registry import load as plugin
from harnesstrain.core.settings import load
from harnesstrain.judge.base import Criterion
from harnesstrain.measure.context import Context
from harnesstrain.measure.project import open_context
from harnesstrain.stages import promote
from harnesstrain.stages.propose.base import Estimator
from harnesstrain.trainer.epoch import Turn, failures_in_a_row
from harnesstrain.trainer.limits import Limits
from harnesstrain.trainer.loss import Loss
from harnesstrain.trainer.optimizer import Optimizer

LEASE = "loop"
"""One loop per harness repo."""


class Trainer:
    """Trains the harness of one project.  Use it as a context manager, or call `close()`."""

    def __init__(
        self,
        config: str | Path | Context = "ht.toml",
        *,
        estimator: Estimator | None = None,
        criterion: Criterion | None = None,
        optimizer: Optimizer | None = None,
        bus: Bus | None = None,
        stop: StopSignal | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`config`: path of ht.toml, or an open context.  What is not given comes from the settings.

        Raises ConfigError (ht.toml), Prerequisite (no harness repo, old store schema).
        """
        if isinstance(config, Context):
            self.context = config
            self._own = False
        else:
            environment = os.environ if environ is None else environ
            file = Path(config)
            settings = load(file.absolute().parent, environment, {}, file=file)
            self.context = open_context(settings, environ=environment, bus=bus, stop=stop)
            self._own = True
        self.estimator = estimator
        self.criterion = criterion
        self.optimizer = optimizer
        if optimizer is not None:
            optimizer.bind(self)
        self._recorded: Loss | None = None
        self._turn: Turn | None = None

    def epochs(self, n: int, limits: Limits | None = None) -> Iterator[Loss]:
        """Up to `n` epochs.  An epoch that was interrupted is continued first and counts as one.

        Yields a loss for each measured candidate; epochs without one are recorded, diagnosed and passed over.
        Raises Busy (another loop runs), Incomplete (a limit or stop; rerunning resumes), ProposalFailure (too many
        failed proposals in a row), whatever the stages raise.
        """
        if n < 1:
            msg = f"the number of epochs must be positive, not {n}"
            raise UsageError(msg)
        context = self.context
        self._check_names()
        bounds = limits or Limits(context.stop)
        outer, context.stop = context.stop, bounds
        try:
            with context.store.lease(LEASE, purpose="training loop") as held:
                promote.repair(context)
                for _ in range(n):
                    held.check()
                    bounds.check()
                    turn = Turn(context, bounds, estimator=self.estimator, criterion=self.criterion)
                    self._turn, self._recorded = turn, None
                    verdict = turn.measure()
                    if verdict is None:
                        self._give_up_after(failures_in_a_row(context), turn.reason)
                        continue
                    held.check()
                    yield Loss(self, verdict, turn.candidate, turn.number)
                    turn.conclude()
        finally:
            context.stop = outer
            self._turn = None

    def record(self, loss: Loss) -> None:
        """Write a loss's verdict: what `loss.backward()` does."""
        self.context.store.put_verdict(loss.verdict)
        self._recorded = loss
        if self._turn is not None:
            self._turn.recorded(loss.verdict)

    def step(self) -> promote.Promoted:
        """Promote or reject the loss last recorded: what `optimizer.step()` does.

        Raises UsageError without a recorded loss.  An unmeasurable verdict is not acted on.
        """
        loss = self._recorded
        if loss is None:
            msg = "no loss was recorded"
            raise UsageError(msg, hint="call loss.backward() before optimizer.step()")
        if not loss.measurable:
            head = loss.verdict.base_commit
            promoted = promote.Promoted(applied=False, commit=head, reason=loss.verdict.sentence)
        else:
            promoted = promote.run(self.context, promote.PromoteSpec(verdict=loss.verdict), self.optimizer)
        if self._turn is not None:
            self._turn.promoted = promoted
        return promoted

    def close(self) -> None:
        """Close what the trainer opened."""
        if self._own:
            self.context.close()
            self.context.store.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_names(self) -> None:
        """Raise NotFound for a name in the settings that no plugin has, before anything is measured."""
        loop = self.context.settings.loop
        for group, name, given in (
            ("estimators", loop.estimator, self.estimator),
            ("criteria", loop.criterion, self.criterion),
            ("optimizers", loop.optimizer, self.optimizer),
        ):
            if given is None:
                plugin(group, name)

    def _give_up_after(self, failures: int, last: str) -> None:
        """Raise ProposalFailure when enough proposals in a row, also those of earlier loops, gave no candidate."""
        loop = self.context.settings.loop
        if failures >= loop.stop_after_failures:
            msg = f"{failures} proposals in a row gave no candidate; the last: {last.splitlines()[0] if last else '?'}"
            hint = "`ht log` shows each; check the estimator's options"
            options = self.context.settings.estimator.get(loop.estimator, {})
            if self.estimator is None and loop.estimator == "patches" and "nothing to propose" in last:
                hint = f"add a *.patch file to {options.get('dir', 'its directory')}/"
            raise ProposalFailure(msg, hint=hint)
