"""attributed-pareto: what the change does not explain must repeat on another seed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core import registry
from harnesstrain.core.digests import digest
from harnesstrain.core.records.verdict import Decision, Verdict
from harnesstrain.judge import AttributedPareto, Comparison, StrictPareto, compare
from harnesstrain.judge.attribution import Attribution
from harnesstrain.judge.early import undecided
from harnesstrain.judge.rederive import rederive
from tests.judge.making import BASE, CAND, rollout

WORDS = {"s": "solved", "f": "failed_verification", "?": "infra_llm"}
WHY = {"a": "attributed", "c": "collateral", "-": None}


def compared(text: str, *, early: bool = False) -> Comparison:
    """Cells `task#seed:XYW`: baseline X, candidate Y (s, f, ?, or . for missing), and why it flipped (a, c, -)."""
    cells = [(cell.split("#")[0], *cell.split("#")[1].split(":")) for cell in text.split()]
    seeds = tuple(sorted({int(seed) for _, seed, _ in cells}))
    base = BASE.model_copy(update={"seeds": seeds})
    cand = CAND.model_copy(update={"seeds": seeds, "early_stop_against": BASE.id if early else None})
    sides = []
    for place, of in ((0, base), (1, cand)):
        sides.append([rollout(of, t, WORDS[w[place]], seed=int(s)) for t, s, w in cells if w[place] != "."])
    found = compare(base, cand, *sides, tasks=list(dict.fromkeys(task for task, _, _ in cells)))
    known = [Attribution(task=t, seed=int(s), verdict=WHY[w[2]], evidence="so") for t, s, w in cells if len(w) > 2]
    return found.model_copy(update={"attributions": tuple(known)})


def judged(text: str) -> Verdict:
    return AttributedPareto().judge(compared(text))


@pytest.mark.parametrize(
    ("cells", "decision", "loss", "sentence"),
    [
        ("x#1:fsa y#1:ss", "selected", -1.0, "gained x, lost nothing"),
        ("x#1:sfa y#1:fsa", "rejected", math.inf, "lost x, though it gained 1"),
        (
            "x#1:fsc y#1:fsa",
            "selected",
            -1.0,
            "gained y, lost nothing; not counted: x, which the change does not explain",
        ),
        ("x#1:fsc y#1:ff", "rejected", 0.0, "no change: no gain that the change explains; not counted: x"),
        ("x#1:fs- y#1:ff", "rejected", 0.0, "no change: no gain that the change explains; not counted: x"),
        ("x#1:sfc y#1:fsa", "unmeasurable", 0.0, "lost x, which the change does not explain; `--seeds 2` tells"),
        ("x#1:sfc y#1:sfa", "rejected", math.inf, "lost y; not counted: x, which"),
        ("x#1:fsc x#2:fsc", "selected", -2.0, "gained x#1, x#2, lost nothing"),
        ("x#1:fsc x#2:ff y#1:ss y#2:ss", "rejected", 0.0, "no change: no gain that the change explains"),
        ("x#1:sfc x#2:sfc y#1:fsa y#2:fsa", "rejected", math.inf, "lost x#1, x#2, though it gained 2"),
        ("x#1:sfc x#2:ss y#1:fsa y#2:fsa", "selected", -2.0, "gained y#1, y#2, lost nothing; not counted: x"),
        (
            "x#1:sfc x#2:s? y#1:fsa y#2:fsa",
            "unmeasurable",
            0.0,
            "lost x, which the change does not explain; `--seeds 3`",
        ),
        (
            "x#1:fsc x#2:f? y#1:ss y#2:ss",
            "unmeasurable",
            0.0,
            "cells that were not measured could change the verdict: x",
        ),
    ],
)
def test_what_counts(cells: str, decision: str, loss: float, sentence: str) -> None:
    verdict = judged(cells)
    assert (verdict.decision, verdict.loss) == (decision, loss), verdict.sentence
    assert verdict.sentence.startswith(sentence)


def test_flips_carry_their_attribution_and_it_is_part_of_the_verdicts_identity() -> None:
    verdict = judged("x#1:fsa y#1:ss")
    assert [(flip.attribution, flip.evidence) for flip in verdict.gained] == [("attributed", "so")]
    assert verdict.id != judged("x#1:fsc y#1:ss").id
    assert StrictPareto().judge(compared("x#1:fs- y#1:ss")).id == StrictPareto().judge(compared("x#1:fs y#1:ss")).id


def test_it_is_registered() -> None:
    assert registry.load("criteria", "attributed-pareto") is AttributedPareto


def test_no_change_is_said_where_all_is_proven_unchanged() -> None:
    same: dict[str, Any] = {"chain_digest": digest("c"), "requests_digest": digest("r")}
    pairs = [(rollout(BASE, t, **same), rollout(CAND, t, **same)) for t in ("a", "b")]
    found = compare(BASE, CAND, [one for one, _ in pairs], [other for _, other in pairs])
    for criterion in (AttributedPareto(), StrictPareto()):
        verdict = criterion.judge(found)
        assert (verdict.loss, verdict.decision) == (0, Decision.REJECTED)
        assert verdict.sentence == "no change: all 2 tasks proven unchanged"
    apart = compare(BASE, CAND, [one for one, _ in pairs], [pairs[0][1]])
    assert "proven" not in StrictPareto().judge(apart).sentence


outcome = st.sampled_from("sf")
cause = st.sampled_from("ac-")
cells = st.lists(st.tuples(outcome, outcome, cause), min_size=1, max_size=6)


def spelt(drawn: list[tuple[str, str, str]]) -> list[str]:
    """The cells, two seeds a task."""
    return [f"t{index // 2}#{index % 2 + 1}:{''.join(one)}" for index, one in enumerate(drawn)]


@given(cells, st.data())
def test_making_a_cell_unknown_only_ever_adds_doubt(drawn: list[tuple[str, str, str]], data: st.DataObject) -> None:
    words = spelt(drawn)
    before = judged(" ".join(words)).decision
    place = data.draw(st.integers(0, len(words) - 1))
    side = data.draw(st.integers(0, 1))
    head, _, flip = words[place].rpartition(":")
    words[place] = f"{head}:{flip[:side]}?{flip[side + 1 :]}"
    assert judged(" ".join(words)).decision in (before, Decision.UNMEASURABLE)


@given(cells)
def test_stopping_early_gives_the_whole_runs_decision(drawn: list[tuple[str, str, str]]) -> None:
    words = spelt(drawn)
    whole = judged(" ".join(words))
    for done in range(len(words)):
        part = [*words[:done], *(f"{word.rpartition(':')[0]}:{word.rpartition(':')[2][0]}." for word in words[done:])]
        comparison = compared(" ".join(part), early=True)
        if not undecided(AttributedPareto(), comparison):
            assert AttributedPareto().judge(comparison).decision == whole.decision
            return


@given(cells)
def test_a_verdict_is_derived_again_from_the_same_evidence(drawn: list[tuple[str, str, str]]) -> None:
    text = " ".join(spelt(drawn))
    assert rederive(AttributedPareto(), compared(text), judged(text)) == ()
