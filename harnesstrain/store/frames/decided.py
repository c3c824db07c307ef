"""Tables of what was decided: candidates, verdicts, flips, excluded, epochs, promotions, memos."""

from __future__ import annotations

from collections.abc import Iterator

from harnesstrain.core.records.candidate import Candidate
from harnesstrain.core.records.verdict import Epoch, Flip, Levers, Memo, Promotion, Verdict
from harnesstrain.store.frames.measured import tokens
from harnesstrain.store.frames.reading import Reading
from harnesstrain.store.frames.shapes import Row, shape

CANDIDATES = shape(
    "candidates",
    "one proposal: a candidate, or why there is none",
    """
    candidate          text   id of the candidate
    status             text   candidate, no_candidate or invalid_candidate
    epoch              int    epoch that asked for it
    base               text   commit it starts from
    commit             text   its commit; null: there is none
    estimator          text   who proposed it
    source             text   what it came from: a patch's file name, a model, a command
    hypothesis         text   what changes and why it should help
    predicted          texts  tasks expected to flip
    files              texts  paths the change touches
    reason             text   why there is no candidate
    prompt_tokens      int    tokens the estimator sent
    cached_tokens      int    of these, not evaluated again
    completion_tokens  int    tokens it received
    reasoning_tokens   int    of these, reasoning
    cost_usd           float  US dollars, as the estimator says
    transcript         text   digest of the kept transcript
    recorded_at        time   when it was first recorded, UTC
    """,
)

_SIDE = """
    {0}_solved             int    {1}: compared cells that were solved
    {0}_cells              int    {1}: compared cells
    {0}_llm_calls          int    {1}: calls of the model over these cells, as the rest
    {0}_actions            int    {1}: actions in the environment
    {0}_prompt_tokens      int    {1}: tokens sent
    {0}_cached_tokens      int    {1}: of these, not evaluated again
    {0}_completion_tokens  int    {1}: tokens received
    {0}_reasoning_tokens   int    {1}: of these, reasoning
    {0}_seconds            float  {1}: recorded time, s
    {0}_first_try_valid    int    {1}: replies acted on without repair
    {0}_first_try_total    int    {1}: replies of which the harness noted that
"""

VERDICTS = shape(
    "verdicts",
    "one verdict",
    """
    verdict           text   id of the verdict
    epoch             int    first epoch that came to it
    decision          text   selected, rejected or unmeasurable
    criterion         text   who judged
    loss              float  negative selects; infinity: a regression under strict-pareto
    sentence          text   the reason
    candidate         text   id of the newest candidate with the commit
    hypothesis        text   what the candidate says of itself
    base_commit       text   baseline
    cand_commit       text   candidate
    base_run          text   run of the baseline
    cand_run          text   run of the candidate
    regime            text   measurement identity
    gained            int    flips to solved
    lost              int    flips from solved
    hollow            int    moves between unsolved outcomes
    excluded          int    cells left out
    unmeasurable      int    cells without a measurement
    not_needed        int    of `excluded`, cells that could not change the decision
    proven_unchanged  int    cells with the same requests and actions
    p_value           float  exact one-sided McNemar over the flips
    detectable        int    fewest clean gains that reach p <= 0.05; 0: it cannot
    certified         bool   whether cells without a certificate were left out
    certificates      int    certificates it rests on
    recorded_at       time   when it was first recorded, UTC
    """
    + _SIDE.format("base", "baseline")
    + _SIDE.format("cand", "candidate"),
)

FLIPS = shape(
    "flips",
    "one (task, seed) of a verdict whose outcome moved",
    """
    verdict       text   id of the verdict
    epoch         int    first epoch that came to it
    decision      text   what the verdict says
    criterion     text   who judged
    task          text   name of the task
    seed          int    seed of the cell
    flip          text   gained, lost, or hollow (between unsolved outcomes)
    base_outcome  text   outcome, and its reason, of the baseline
    cand_outcome  text   outcome, and its reason, of the candidate
    attribution   text   attributed, collateral; null: not traced
    evidence      text   what that rests on
    p_value       float  of the whole verdict
    candidate     text   id of the newest candidate with the commit
    hypothesis    text   what the candidate says of itself
    base_commit   text   baseline
    cand_commit   text   candidate
    base_run      text   run of the baseline
    cand_run      text   run of the candidate
    """,
)

EXCLUDED = shape(
    "excluded",
    "one (task, seed) that a verdict left out",
    """
    verdict   text  id of the verdict
    epoch     int   first epoch that came to it
    task      text  name of the task
    seed      int   seed of the cell
    how       text  excluded, or unmeasurable
    reason    text  forked, not_certified, missing, not_needed …
    detail    text  one sentence
    base_run  text  run of the baseline
    cand_run  text  run of the candidate
    """,
)

EPOCHS = shape(
    "epochs",
    "one epoch in its newest state",
    """
    epoch        int    number
    state        text   started, skipped, rejected, promoted, unmeasurable, failed, abandoned
    reason       text   why
    base         text   commit of the baseline
    base_run     text   its run
    base_solved  int    cells that it solved
    candidate    text   id of the candidate
    commit       text   its commit
    hypothesis   text   what it says of itself
    cand_run     text   its run
    cand_solved  int    cells that it solved
    cells        int    cells measured of the candidate
    not_needed   int    cells that an early decision left unmeasured
    verdict      text   id of the verdict
    decision     text   what it says
    gained       int    flips to solved
    lost         int    flips from solved
    p_value      float  of the verdict
    promotion    text   id of the promotion
    seconds      float  wall time, s
    recorded_at  time   when it was first recorded, UTC
    """,
)

PROMOTIONS = shape(
    "promotions",
    "one promotion in its newest state",
    """
    promotion    text  id of the promotion
    verdict      text  verdict it rests on
    epoch        int   first epoch that came to that verdict
    branch       text  branch that was moved
    old          text  commit before
    new          text  commit after
    state        text  intended, done or refused
    reason       text  why it was refused
    recorded_at  time  when it was first recorded, UTC
    """,
)

MEMOS = shape(
    "memos",
    "one diagnosis of an estimator",
    """
    memo               text  id of the memo
    epoch              int   epoch it was written in
    verdict            text  verdict it was written after
    author             text  name of the estimator
    text               text  the diagnosis
    prompt_tokens      int   tokens the estimator sent
    cached_tokens      int   of these, not evaluated again
    completion_tokens  int   tokens it received
    reasoning_tokens   int   of these, reasoning
    transcript         text  digest of the kept transcript
    recorded_at        time  when it was first recorded, UTC
    """,
)

_SAME = {column.name for column in CANDIDATES.columns} & set(Candidate.model_fields)
_OF_VERDICT = ("decision", "criterion", "p_value", "base_commit", "cand_commit", "base_run", "cand_run")


def candidates(reading: Reading) -> Iterator[Row]:
    """Rows of CANDIDATES, oldest first."""
    for one, at in reading.dated(Candidate):
        yield {**one.model_dump(include=_SAME), "candidate": one.id, **tokens(one.usage), "recorded_at": at}


def verdicts(reading: Reading) -> Iterator[Row]:
    """Rows of VERDICTS, oldest first."""
    for one, at in reading.dated(Verdict):
        yield {
            **_judged(reading, one),
            "loss": one.loss,
            "sentence": one.sentence,
            "regime": one.regime,
            "gained": len(one.gained),
            "lost": len(one.lost),
            "hollow": len(one.hollow),
            "excluded": len(one.excluded),
            "unmeasurable": len(one.unmeasurable),
            "not_needed": one.not_needed,
            "proven_unchanged": one.proven_unchanged,
            "detectable": one.detectable,
            "certified": one.certified,
            "certificates": len(one.certificates),
            "recorded_at": at,
            **_levers(one.base, "base_"),
            **_levers(one.cand, "cand_"),
        }


def flips(reading: Reading) -> Iterator[Row]:
    """Rows of FLIPS: verdict by verdict, gained before lost before hollow."""
    for one in reading.verdicts.values():
        judged = _judged(reading, one)
        for how, found in (("gained", one.gained), ("lost", one.lost), ("hollow", one.hollow)):
            for flip in found:
                yield {**judged, **_flip(flip), "flip": how}


def excluded(reading: Reading) -> Iterator[Row]:
    """Rows of EXCLUDED, verdict by verdict."""
    for one in reading.verdicts.values():
        whose = {"verdict": one.id, "epoch": reading.epoch_of_verdict.get(one.id)}
        whose |= {"base_run": one.base_run, "cand_run": one.cand_run}
        for how, found in (("excluded", one.excluded), ("unmeasurable", one.unmeasurable)):
            for cell in found:
                yield {**whose, "how": how, **cell.model_dump()}


def epochs(reading: Reading) -> Iterator[Row]:
    """Rows of EPOCHS, by number."""
    summaries = {summary.run: summary for summary in reading.store.summaries()}
    dated = sorted(reading.dated(Epoch), key=lambda found: found[0].number)
    for one, at in dated:
        verdict = reading.verdicts.get(one.verdict or "")
        candidate = reading.candidates.get(one.candidate or "")
        base, cand = summaries.get(one.base_run or ""), summaries.get(one.cand_run or "")
        yield {
            **one.model_dump(exclude={"number"}),
            "epoch": one.number,
            "base_solved": base.solved if base else None,
            "commit": candidate.commit if candidate else None,
            "hypothesis": candidate.hypothesis if candidate else None,
            "cand_solved": cand.solved if cand else None,
            "cells": cand.cells if cand else None,
            "not_needed": cand.not_needed if cand else None,
            "decision": verdict.decision.value if verdict else None,
            "gained": len(verdict.gained) if verdict else None,
            "lost": len(verdict.lost) if verdict else None,
            "p_value": verdict.p_value if verdict else None,
            "recorded_at": at,
        }


def promotions(reading: Reading) -> Iterator[Row]:
    """Rows of PROMOTIONS, oldest first."""
    for one, at in reading.dated(Promotion):
        epoch = reading.epoch_of_verdict.get(one.verdict or "")
        yield {**one.model_dump(exclude={"id"}), "promotion": one.id, "epoch": epoch, "recorded_at": at}


def memos(reading: Reading) -> Iterator[Row]:
    """Rows of MEMOS, oldest first."""
    for one, at in reading.dated(Memo):
        yield {**one.model_dump(exclude={"id", "usage"}), "memo": one.id, **tokens(one.usage), "recorded_at": at}


def _judged(reading: Reading, verdict: Verdict) -> Row:
    candidate = reading.by_commit.get(verdict.cand_commit)
    return {
        **verdict.model_dump(include=set(_OF_VERDICT)),
        "verdict": verdict.id,
        "epoch": reading.epoch_of_verdict.get(verdict.id),
        "candidate": candidate.id if candidate else None,
        "hypothesis": candidate.hypothesis if candidate else None,
    }


def _flip(flip: Flip) -> Row:
    return flip.model_dump(exclude={"gained"})


def _levers(levers: Levers, side: str) -> Row:
    plain = levers.model_dump(exclude={"usage", "recorded_time"})
    counts = {f"{side}{name}": value for name, value in plain.items()}
    return {**counts, **tokens(levers.usage, side), f"{side}seconds": levers.recorded_time}
