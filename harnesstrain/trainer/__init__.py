"""The loop over the stages, and the Python API.  The user owns the loop; there is no fit().

    from harnesstrain.trainer import GreedyMonotonic, PatchQueue, StrictPareto, Trainer

    optimizer = GreedyMonotonic()
    trainer = Trainer("ht.toml", estimator=PatchQueue(), criterion=StrictPareto(), optimizer=optimizer)
    for loss in trainer.epochs(30):
        loss.backward()      # record the verdict
        optimizer.step()     # promote or reject

Read this to learn what one epoch does.  May import: stages, measure, the devices, core.

trainer.py     Trainer: opens a project, yields losses
epoch.py       one epoch, resumable at every stage
loss.py        Loss: a verdict that can be recorded
optimizer.py   Optimizer, bound to a trainer; GreedyMonotonic
limits.py      when a loop stops by itself
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harnesstrain.judge.pareto import StrictPareto
    from harnesstrain.judge.total import TotalSolves
    from harnesstrain.stages.propose.estimators.agent import AgenticEstimator
    from harnesstrain.stages.propose.estimators.backends import ClaudeBackend, CodexBackend, CommandBackend
    from harnesstrain.stages.propose.estimators.llm import LlmEstimator
    from harnesstrain.stages.propose.estimators.patches import PatchQueue
    from harnesstrain.trainer.limits import Limits
    from harnesstrain.trainer.loss import Loss
    from harnesstrain.trainer.optimizer import GreedyMonotonic, Optimizer
    from harnesstrain.trainer.trainer import Trainer

_HOME = {
    "AgenticEstimator": "harnesstrain.stages.propose.estimators.agent",
    "ClaudeBackend": "harnesstrain.stages.propose.estimators.backends",
    "CodexBackend": "harnesstrain.stages.propose.estimators.backends",
    "CommandBackend": "harnesstrain.stages.propose.estimators.backends",
    "GreedyMonotonic": "harnesstrain.trainer.optimizer",
    "Limits": "harnesstrain.trainer.limits",
    "LlmEstimator": "harnesstrain.stages.propose.estimators.llm",
    "Loss": "harnesstrain.trainer.loss",
    "Optimizer": "harnesstrain.trainer.optimizer",
    "PatchQueue": "harnesstrain.stages.propose.estimators.patches",
    "StrictPareto": "harnesstrain.judge.pareto",
    "TotalSolves": "harnesstrain.judge.total",
    "Trainer": "harnesstrain.trainer.trainer",
}

__all__ = [
    "AgenticEstimator",
    "ClaudeBackend",
    "CodexBackend",
    "CommandBackend",
    "GreedyMonotonic",
    "Limits",
    "LlmEstimator",
    "Loss",
    "Optimizer",
    "PatchQueue",
    "StrictPareto",
    "TotalSolves",
    "Trainer",
]


def __getattr__(name: str) -> Any:
    """Names of the API, imported when used, so that importing the room stays cheap."""
    from importlib import import_module

    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOME[name]), name)
