"""Tables of what was measured: runs, rollouts, certificates, panels, caches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harnesstrain.core.records.certificate import Certificate
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Rollout, latest_attempts
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.task import Panel
from harnesstrain.store.base import RunSummary
from harnesstrain.store.frames.reading import Reading, moment
from harnesstrain.store.frames.shapes import Row, shape

RUNS = shape(
    "runs",
    "one run: a harness version over a panel under a regime",
    """
    run            text   id of the run
    commit         text   harness version, 40 hex; of an imported run a digest of its agent
    candidate      text   id of the newest candidate with that commit
    hypothesis     text   what the candidate says of itself
    epoch          int    first epoch whose candidate this run measured
    recorded_at    time   when it was first recorded, UTC
    panel          text   name of the panel
    panel_digest   text   digest of the panel's tasks
    split          text   train, holdout or sealed; null: the whole panel
    seeds          ints   seeds of each task
    salt           text   of --fresh; empty otherwise
    regime         text   measurement identity: runs are comparable only if it is equal
    model          text   name of the model
    engine         text   what serves it
    endpoint       text   fingerprint of the endpoint
    deterministic  bool   whether the endpoint is claimed to repeat itself
    sandbox        text   kind of the sandbox
    network        text   network of the sandbox
    grading        text   submitted, final_state or imported
    temperature    float  of the sampling; 0 is greedy
    sampling_seed  int    of the sampling
    max_tokens     int    completion tokens per call, at most
    complete       bool   whether no cell is missing
    cells          int    cells measured: (task, seed)
    solved         int    of `cells`, solved
    scorable       int    of `cells`, not ended by infrastructure
    not_needed     int    cells that an early decision left unmeasured
    attempts       int    rollouts, retries included
    llm_calls      int    over the newest attempt of each cell, as the next three
    actions        int    actions in the environment
    tokens         int    prompt and completion tokens
    seconds        float  recorded time, s
    against        text   baseline run of an early stop
    imported       text   program that measured it; null: this one
    """,
)

ROLLOUTS = shape(
    "rollouts",
    "one attempt at a task",
    """
    rollout            text   id of the rollout
    run                text   id of its run
    commit             text   harness version
    epoch              int    as in `runs`
    panel              text   name of the panel
    split              text   split of the task in the panel
    task               text   name of the task
    task_digest        text   digest of the task
    seed               int    seed of the cell
    attempt            int    1, or more after failures of infrastructure
    newest             bool   whether it is the attempt of its cell that counts
    outcome            text   solved, failed_verification, no_submit, policy_crash, infra_llm, infra_sandbox …, forked
    reason             text   one word: step_limit, time_limit, token_limit, context_overflow, gave_up …
    detail             text   one sentence of evidence
    solved             bool   whether it counts as a solve
    scorable           bool   whether it is a measurement of the harness, not of infrastructure
    reward             float  what the verifier gave
    rewards            text   named rewards, JSON
    llm_calls          int    calls of the model
    llm_cached         int    of `llm_calls`, from the cache
    actions            int    actions in the environment
    actions_cached     int    of `actions`, from the cache
    executions         int    actions that were executed, those included that only restored a state
    prompt_tokens      int    tokens sent, over all calls
    cached_tokens      int    of `prompt_tokens`, not evaluated again by the server
    completion_tokens  int    tokens received
    reasoning_tokens   int    of `completion_tokens`, reasoning
    first_try_valid    int    replies acted on without repair, as the harness noted
    first_try_total    int    replies of which the harness noted that
    seconds            float  recorded time, s: the same from the caches
    grade_cached       bool   whether the grade came from the cache
    from_caches        bool   whether nothing ran but the harness
    isolated           bool   whether sandbox and jail isolated
    drift_step         int    forked: first step that did not repeat
    drift_command      text   forked: its command
    chain              text   digest over the actions
    requests           text   digest over the model requests
    traced             text   commit that the run was traced against
    trace              text   digest of its trace; null: none was recorded
    """,
)

CERTIFICATES = shape(
    "certificates",
    "one certificate in its newest state",
    """
    certificate     text   id of the certificate
    kind            text   env, model or harness
    result          text   exact, equivalent, forked, no_chain
    run             text   run whose chain was executed again
    commit          text   harness: version that was played back
    task            text   name of the task
    task_digest     text   digest of the task
    seed            int    seed of the cell
    endpoint        text   model: fingerprint of the endpoint
    regime          text   measurement identity
    step            int    first step that differed
    command         text   its command
    recorded        text   what the record says
    observed        text   what came instead
    diff            text   unified diff of the two
    proposal        text   scrub rule to paste
    rules           text   version of the scrub rules
    chain           text   digest over the actions
    state           text   digest of the files that the chain left
    detail          text   more, JSON
    recorded_at     time   when it was first recorded, UTC
    grading         text   env: what grading again showed: same, outcome, other, no_grade, impossible
    grading_reason  text   what the verifier gave instead, or why it was not run
    gradings        int    how often the verifier was run again
    reward          float  recorded reward that was compared
    """,
)

PANELS = shape(
    "panels",
    "one task of a panel",
    """
    panel         text  name of the panel
    panel_digest  text  digest of its tasks
    position      int   from 0
    task          text  name of the task
    task_digest   text  digest of the task
    split         text  train, holdout or sealed
    """,
)

CACHES = shape(
    "caches",
    "one cache as it is now",
    """
    cache     text  llm, step or verify
    entries   int   entries
    bytes     int   compressed size of their values
    hits      int   look-ups that found something, since it was made
    misses    int   look-ups that did not
    broken    int   entries that could not be read back
    epoch     int   of its entries that are in use
    outdated  int   of `entries`, those of older epochs
    """,
)


def runs(reading: Reading) -> Iterator[Row]:
    """Rows of RUNS, oldest run first."""
    summaries = {summary.run: summary for summary in reading.store.summaries()}
    for run in reading.runs:
        if run.id in summaries:
            yield _run(reading, run, summaries[run.id])


def _run(reading: Reading, run: Run, summary: RunSummary) -> Row:
    regime = reading.regime(run.regime)
    endpoint = reading.endpoint(regime.endpoint if regime else None)
    candidate = reading.by_commit.get(run.commit)
    row: Row = {
        **summary.model_dump(include={"run", "commit", "split", "complete", "cells", "solved", "scorable"}),
        **summary.model_dump(include={"not_needed", "attempts", "llm_calls", "actions", "tokens", "regime"}),
        "candidate": candidate.id if candidate else None,
        "hypothesis": candidate.hypothesis if candidate else None,
        "epoch": reading.epoch_of_run.get(run.id),
        "recorded_at": moment(summary.at),
        "panel": run.panel_name,
        "panel_digest": run.panel,
        "seeds": list(run.seeds),
        "salt": run.salt,
        "seconds": summary.recorded_time,
        "against": run.early_stop_against,
        "imported": run.imported.program if run.imported else None,
    }
    if regime is not None:
        row |= {
            "endpoint": regime.endpoint,
            "deterministic": regime.deterministic,
            "sandbox": regime.sandbox.kind,
            "network": regime.sandbox.network,
            "grading": regime.grading,
            "temperature": regime.sampling.temperature,
            "sampling_seed": regime.sampling.seed,
            "max_tokens": regime.sampling.max_tokens,
        }
    model = run.imported.model if run.imported else endpoint.model if endpoint else None
    return row | {"model": model, "engine": endpoint.engine if endpoint else None}


def rollouts(reading: Reading) -> Iterator[Row]:
    """Rows of ROLLOUTS, run by run in order of commit."""
    for run, found in reading.rollouts():
        newest = {rollout.id for rollout in latest_attempts(found)}
        splits = reading.splits(run.panel)
        for rollout in found:
            yield {
                **rollout.model_dump(include=_SAME),
                "rollout": rollout.id,
                "commit": run.commit,
                "epoch": reading.epoch_of_run.get(run.id),
                "panel": run.panel_name,
                "split": splits.get(rollout.task),
                "newest": rollout.id in newest,
                "solved": rollout.solved,
                "scorable": rollout.outcome.scorable,
                "rewards": _json(rollout.rewards) if rollout.rewards else None,
                **tokens(rollout.usage),
                "seconds": rollout.recorded_time,
                "drift_step": rollout.drift.step if rollout.drift else None,
                "drift_command": rollout.drift.command if rollout.drift else None,
                "chain": rollout.chain_digest,
                "requests": rollout.requests_digest,
            }


_SAME = {column.name for column in ROLLOUTS.columns} & set(Rollout.model_fields) - {"rewards"}


def certificates(reading: Reading) -> Iterator[Row]:
    """Rows of CERTIFICATES, oldest first."""
    for one, at in reading.dated(Certificate):
        same = one.model_dump(include={column.name for column in CERTIFICATES.columns} - {"detail"})
        yield {**same, "certificate": one.id, "detail": _json(one.detail) if one.detail else None, "recorded_at": at}


def panels(reading: Reading) -> Iterator[Row]:
    """Rows of PANELS, oldest panel first."""
    for panel, _ in reading.dated(Panel):
        digest = panel.digest
        for position, task in enumerate(panel.tasks):
            yield {
                "panel": panel.name,
                "panel_digest": digest,
                "position": position,
                "task": task.name,
                "task_digest": task.digest,
                "split": task.split,
            }


def caches(reading: Reading) -> Iterator[Row]:
    """Rows of CACHES.  None where there is no cache.db."""
    if reading.store.places.cache.is_file():
        for one in reading.store.cache_stats():
            yield {"cache": one.name, **one.model_dump(exclude={"name"})}


def tokens(usage: Usage, side: str = "") -> Row:
    """Token counts as columns."""
    return {f"{side}{name}_tokens": count for name, count in usage.model_dump().items()}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
