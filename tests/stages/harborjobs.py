"""Job folders as Harbor writes them, made from a few words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WHEN = "2026-01-01T00:00:{:02d}Z"


def ran(start: int, seconds: int = 1) -> dict[str, str]:
    """A part of a trial that took some seconds."""
    return {"started_at": WHEN.format(start), "finished_at": WHEN.format(start + seconds)}


def raised(name: str, message: str = "it broke", **policy: Any) -> dict[str, Any]:
    """An exception of a trial."""
    table = {"exception_type": name, "exception_message": message, "exception_traceback": "", "occurred_at": ""}
    return table | ({"policy": policy} if policy else {})


def trial(task: str, rewards: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    """A trial's result.json; the keys of `more` replace its own."""
    table: dict[str, Any] = {
        "schema_version": 1,
        "task_name": task,
        "task_id": {"path": f"tasks/{task}"},
        "task_checksum": (task.encode().hex() * 64)[:64],
        "config": {"agent": {"name": "mine", "kwargs": {}}},
        "agent_info": {"name": "mine", "version": "1.0", "model_info": None},
        "agent_result": None,
        "verifier_result": None if rewards is None else {"rewards": dict(rewards)},
        "exception_info": None,
        "agent_execution": ran(1, 2),
        "reward_valid": rewards is not None,
    }
    return table | more


def job(folder: Path, trials: list[dict[str, Any]], agent: str = "mine", **config: Any) -> Path:
    """Writes a job folder; trials start in the order given.  A `trajectory` in a trial is its agent's."""
    folder.mkdir(parents=True)
    configured = {"schema_version": 1, "job_name": folder.name, "datasets": [{"path": "some/tasks"}], **config}
    (folder / "config.json").write_text(json.dumps(configured))
    done = {
        "schema_version": 1,
        "id": f"id-{folder.name}",
        "finished_at": WHEN.format(50),
        "n_total_trials": len(trials),
    }
    (folder / "result.json").write_text(json.dumps(done))
    (folder / "lock.json").write_text(json.dumps({"schema_version": 3, "harbor": {"version": "0.26.0"}}))
    for number, given in enumerate(trials):
        table = dict(given)
        trajectory = table.pop("trajectory", None)
        name = f"{table['task_name']}__{number:07d}"
        place = folder / name
        (place / "agent").mkdir(parents=True)
        table |= {"trial_name": name, "trial_uri": "", "started_at": WHEN.format(number)}
        if agent != "mine":
            table["agent_info"] = table["agent_info"] | {"name": agent}
        (place / "config.json").write_text("{}")
        (place / "result.json").write_text(json.dumps(table))
        if trajectory is not None:
            (place / "agent/trajectory.json").write_text(json.dumps(trajectory))
    return folder


TRAJECTORY: dict[str, Any] = {
    "schema_version": "ATIF-v1.8",
    "agent": {"name": "mine", "version": "1.0"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "be brief"},
        {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "list the files"}]},
        {
            "step_id": 3,
            "source": "agent",
            "message": "so I do",
            "reasoning_content": "hm",
            "tool_calls": [{"tool_call_id": "a", "function_name": "bash", "arguments": {"command": "ls"}}],
            "observation": {"results": [{"source_call_id": "a", "content": "one two"}]},
            "metrics": {"prompt_tokens": 10, "completion_tokens": 4, "cached_tokens": 3},
        },
        {"step_id": 4, "source": "agent", "message": "done", "metrics": {"prompt_tokens": 20, "completion_tokens": 1}},
        {
            "step_id": 5,
            "source": "agent",
            "message": "",
            "llm_call_count": 0,
            "tool_calls": [{"tool_call_id": "b", "function_name": "submit", "arguments": {}}],
        },
    ],
}
"""An agent that looks, answers and submits."""
