"""What an agent is told.  The user's own policy stands in program.md; this text says where things are."""

from __future__ import annotations

from harnesstrain.core.records.harness import Manifest
from harnesstrain.stages.propose.base import Evidence
from harnesstrain.stages.propose.estimators.places import Places
from harnesstrain.stages.propose.evidence import POLICY

SHOWN = 12_000
"""Characters of the policy that are quoted; the rest is read from the file."""
PROPOSAL, MEMO = "proposal.md", "memo.md"
"""Where the answers are written, below /out."""


def propose(places: Places, manifest: Manifest, policy: str) -> str:
    """The prompt for one change."""
    surface = "\n".join(f"  {glob}" for glob in manifest.surface)
    check = f"\nRun its tests before you end: `{' '.join(manifest.check)}`.\n" if manifest.check else ""
    return f"""\
You improve the harness of a language model: the program around it.  The model itself stays as it is.
Your change will be measured on many tasks.  It is kept only if it solves more of them and loses none.

The harness lies in {places.harness}.  You may change, add and delete files that match:
{surface}
Every other file is frozen.  One change outside these globs, and the whole proposal is refused.
{check}
Evidence lies in {places.evidence}; read it before you decide:
  memo.md      what was learnt so far
  ledger.md    what was tried so far, and what came of it; do not try the same again
  tried/       the newest of these changes as patches; candidate.md: how the last one did
  summary.md   how the current harness did, task by task
  tasks/       what happened, step by step, one file for each task

Make ONE change: one mechanism, as small as its idea allows.  It must help on tasks that nobody has seen, so write
nothing that knows a task.  Then write {places.out}/{PROPOSAL}:
  first line: the hypothesis, in one sentence: what changes, and why it helps
  optional line: `Predicted: name, name` with the tasks that should become solved
If there is nothing worth trying, change nothing and say why in that file.
{_policy(places, policy)}"""


def diagnose(places: Places, outcome: str, policy: str) -> str:
    """The prompt for the memo."""
    return f"""\
You keep the memo of a training run that improves a language model's harness: the program around the model.
The next proposal is made by somebody who reads the memo first.

What just happened: {outcome[:2000]}

Evidence lies in {places.evidence}: memo.md (the memo so far), ledger.md (what was tried, and what came of it), tried/
(the newest changes as patches), candidate.md (how the last one did), summary.md and tasks/ (how the current harness
did).  The harness lies in {places.harness}; change nothing in it.

Write the new memo to {places.out}/{MEMO}: at most 60 lines of Markdown.  Say what is known to help, what is known to
hurt, why tasks still fail, and what to try next.  Claim nothing that the evidence does not show.
{_policy(places, policy)}"""


def policy(evidence: Evidence) -> str:
    """The user's policy at the base commit; empty when there is none."""
    file = evidence.directory / POLICY
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _policy(places: Places, policy: str) -> str:
    if not policy.strip():
        return ""
    more = f"\n[… the rest stands in {places.evidence}/{POLICY}]" if len(policy) > SHOWN else ""
    return f"\nThe owner's rules, which go before everything above:\n\n{policy.strip()[:SHOWN]}{more}\n"
