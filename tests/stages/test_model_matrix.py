"""Harness × model out of a store: what enters, what is left out and why, and how it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.digests import digest
from harnesstrain.core.records.candidate import Candidate, CandidateStatus
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.core.records.llm import Endpoint, Sampling, Usage
from harnesstrain.core.records.rollout import Outcome, Rollout
from harnesstrain.core.records.run import Budgets, Regime, Run
from harnesstrain.core.records.sandbox import SandboxIdentity
from harnesstrain.core.records.task import Panel, PanelTask
from harnesstrain.stages.report.models import ModelMatrix, model_matrix
from harnesstrain.stages.report.models_part import limits_part, models_part, models_parts
from harnesstrain.store import Store

TASKS = ("a", "b", "c")
MAIN, NEXT, OLD = ("1" * 40, "2" * 40, "3" * 40)


class Shelf:
    """A store with runs of a few models."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.panel = Panel(name="p", tasks=tuple(PanelTask(name=n, digest=digest(n), split="train") for n in TASKS))
        store.put_panel(self.panel)

    def endpoint(self, name: str, engine: str = "embedded") -> Endpoint:
        made = Endpoint(engine=engine, model=name, context_length=4096)
        self.store.put_endpoint(made)
        return made

    def run(
        self,
        commit: str,
        model: str,
        outcomes: Mapping[str, str],
        *,
        seeds: tuple[int, ...] = (1,),
        complete: bool = True,
        engine: str = "embedded",
        salt: str = "",
        against: str | None = None,
        **changes: Any,
    ) -> Run:
        """`outcomes`: of each task a letter per seed: s(olved), f(ailed), i(nfrastructure), - (not measured)."""
        values: dict[str, Any] = {
            "endpoint": self.endpoint(model, engine).fingerprint,
            "deterministic": True,
            "sampling": Sampling(),
            "context_length": 4096,
            "sandbox": SandboxIdentity(kind="local", image=digest("host"), pins="1"),
        }
        regime = Regime(**values | changes)
        self.store.put_regime(regime)
        run = Run(
            id=Run.identify(commit, self.panel.digest, regime.digest, seeds, salt),
            commit=commit,
            panel=self.panel.digest,
            panel_name="p",
            split="train",
            regime=regime.digest,
            seeds=seeds,
            salt=salt,
            early_stop_against=against,
        )
        self.store.put_run(run)
        kinds = {"s": Outcome.SOLVED, "f": Outcome.FAILED_VERIFICATION, "i": Outcome.INFRA_LLM}
        for task, letters in outcomes.items():
            for seed, letter in zip(seeds, letters, strict=True):
                if letter != "-":
                    self.store.commit_rollout(rollout(run, task, seed, kinds[letter]), None)
        if complete:
            self.store.complete_run(run.id)
        return run

    def matrix(self, base: Run) -> ModelMatrix | None:
        found = model_matrix(self.store, base, self.store.certificates())
        return found and ModelMatrix.model_validate(found.model_dump(mode="json"))


def rollout(run: Run, task: str, seed: int, outcome: Outcome) -> Rollout:
    return Rollout(
        id=run.rollout_id(task, seed),
        run=run.id,
        task=task,
        task_digest=digest(task),
        seed=seed,
        outcome=outcome,
        llm_calls=3,
        usage=Usage(prompt=90, completion=10),
        chain_digest=digest([run.commit, task]),
        requests_digest=digest([run.id, task]),
    )


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    store = Store.open(tmp_path / "store", create=True)
    yield Shelf(store)
    store.close()


def labels(matrix: ModelMatrix | None) -> dict[str, list[str]]:
    assert matrix is not None
    return {one.task: [limit.label.value for limit in one.limits] for one in matrix.tasks}


def four(shelf: Shelf, **changes: Any) -> Run:
    """MAIN and NEXT on small and large."""
    base = shelf.run(MAIN, "small", {"a": "s", "b": "f", "c": "f"}, **changes)
    shelf.run(NEXT, "small", {"a": "s", "b": "s", "c": "f"}, **changes)
    shelf.run(MAIN, "large", {"a": "s", "b": "f", "c": "s"}, **changes)
    shelf.run(NEXT, "large", {"a": "s", "b": "f", "c": "s"}, **changes)
    return base


def test_one_model_has_no_matrix(shelf: Shelf) -> None:
    base = shelf.run(MAIN, "small", {"a": "s", "b": "f", "c": "f"})
    shelf.run(NEXT, "small", {"a": "s", "b": "s", "c": "f"})
    assert shelf.matrix(base) is None
    assert models_parts(None) == ()


def test_cells_count_what_was_measured(shelf: Shelf) -> None:
    base = four(shelf)
    shelf.store.put_candidate(
        Candidate(
            id=digest("c"),
            status=CandidateStatus.CANDIDATE,
            base=MAIN,
            commit=NEXT,
            estimator="patches",
            hypothesis="Retry\nonce",
        )
    )
    found = shelf.matrix(base)
    assert found is not None
    assert [one.name for one in found.columns] == ["small", "large"]
    assert [(one.commit, one.title) for one in found.rows] == [(MAIN, ""), (NEXT, "Retry once")]
    cell = found.rows[1].cells[0]
    assert cell is not None
    assert (cell.solved, cell.cells, cell.unmeasurable, cell.not_needed, cell.missing) == (2, 3, 0, 0, 0)
    assert (cell.tokens_per_solve, cell.calls_per_solve) == (150.0, 4.5)
    assert cell.interval.low == pytest.approx(0.2077, abs=1e-4)
    assert labels(found) == {
        "a": ["solved", "solved"],
        "b": ["harness-limited", "model-limited"],
        "c": ["model-limited", "solved"],
    }
    assert found.columns[0].labels == {"solved": 1, "harness-limited": 1, "model-limited": 1}
    assert found.tasks[0].everywhere == "solved"
    assert found.left_out == ()


def test_regimes_that_differ_in_more_than_the_model_are_left_out_by_name(shelf: Shelf) -> None:
    base = shelf.run(MAIN, "small", {"a": "s", "b": "f", "c": "f"})
    shelf.run(MAIN, "large", {"a": "s", "b": "f", "c": "s"}, budgets=Budgets(steps=7))
    shelf.run(MAIN, "third", {"a": "sf", "b": "ff", "c": "ss"}, seeds=(1, 2))
    found = shelf.matrix(base)
    assert found is not None
    assert [(one.model, one.fields, len(one.runs)) for one in found.left_out] == [
        ("large", ("budgets.steps",), 1),
        ("third", ("seeds",), 1),
    ]
    assert (found.columns, found.rows, found.tasks) == ((), (), ())
    assert "Left out: 1 run on large; besides the model, budgets.steps differs." in models_part(found).sentences
    assert limits_part(found).sentences == ("No labels: the other models' runs are not comparable.",)

    shelf.run(MAIN, "large", {"a": "s", "b": "f", "c": "s"}, context_length=8192, deterministic=False)
    found = shelf.matrix(base)
    assert found is not None
    assert len(found.columns) == 2
    assert found.unlabelled == "one version was measured on two models; to tell harness from model takes two versions"
    assert "large does not repeat itself: a difference may be chance." in models_part(found).sentences
    assert "Context differs, as part of the model: small 4096, large 8192 tokens." in models_part(found).sentences


def test_the_newest_whole_run_stands_for_a_version(shelf: Shelf) -> None:
    base = four(shelf)
    shelf.run(NEXT, "small", {"a": "f", "b": "f", "c": "-"}, salt="early", against=base.id)
    shelf.run(NEXT, "small", {"a": "f", "b": "-", "c": "-"}, salt="begun", complete=False)
    assert labels(shelf.matrix(base))["b"] == ["harness-limited", "model-limited"]
    shelf.run(NEXT, "small", {"a": "s", "b": "f", "c": "f"}, salt="again")
    assert labels(shelf.matrix(base))["b"] == ["unsolved", "unsolved"]


def test_what_is_not_known_is_no_failure(shelf: Shelf) -> None:
    base = shelf.run(MAIN, "small", {"a": "s", "b": "f", "c": "i"})
    shelf.run(NEXT, "small", {"a": "s", "b": "-", "c": "f"}, against=base.id)
    shelf.run(MAIN, "large", {"a": "s", "b": "s", "c": "s"})
    shelf.run(NEXT, "large", {"a": "-", "b": "s", "c": "f"}, complete=False)
    found = shelf.matrix(base)
    assert labels(found) == {"a": ["solved", "open"], "b": ["open", "solved"], "c": ["open", "harness-limited"]}
    assert found is not None
    cells = [cell for row in found.rows for cell in row.cells if cell is not None]
    counts = [(one.cells, one.unmeasurable, one.not_needed, one.missing, one.complete) for one in cells]
    assert counts == [(2, 1, 0, 0, True), (3, 0, 0, 0, True), (2, 0, 1, 0, True), (2, 0, 0, 1, False)]
    rows = models_part(found).table
    assert rows is not None
    assert "1/2 (9%–91%), 1 unmeasurable; 200 tok, 6.0 calls" in rows.rows[0]
    assert "1/2 (9%–91%), 1 missing; 200 tok, 6.0 calls" in rows.rows[1]


def test_a_cell_whose_environment_forked_is_not_known(shelf: Shelf) -> None:
    base = four(shelf)
    forked = Certificate(
        id=digest("fork"),
        kind="env",
        run=base.id,
        regime=base.regime,
        task="b",
        task_digest=digest("b"),
        seed=1,
        chain=digest([MAIN, "b"]),
        result=Certified.FORKED,
    )
    shelf.store.put_certificate(forked)
    found = shelf.matrix(base)
    assert labels(found)["b"] == ["open", "model-limited"]
    assert found is not None
    assert found.rows[0].cells[0] is not None
    assert found.rows[0].cells[0].unmeasurable == 1


def test_a_harness_that_does_not_repeat_itself_needs_seeds(shelf: Shelf) -> None:
    base = four(shelf)
    parted = Certificate(
        id=digest("parted"),
        kind="harness",
        run=base.id,
        commit=MAIN,
        task="a",
        task_digest=digest("a"),
        seed=1,
        chain=digest("another chain"),
        requests=digest("other requests"),
        result=Certified.FORKED,
    )
    shelf.store.put_certificate(parted)
    assert labels(shelf.matrix(base))["b"] == ["mixed", "model-limited"]
    assert labels(shelf.matrix(base))["c"] == ["model-limited", "solved"]


def test_a_model_that_varies_shows_its_p(shelf: Shelf) -> None:
    varies: dict[str, Any] = {"seeds": (1, 2, 3, 4), "deterministic": False}
    base = shelf.run(MAIN, "small", {"a": "ssfs", "b": "ffff", "c": "ffff"}, **varies)
    shelf.run(NEXT, "small", {"a": "ssss", "b": "ssss", "c": "ffff"}, **varies)
    shelf.run(MAIN, "large", {"a": "ssss", "b": "ssss", "c": "ffsf"}, **varies)
    shelf.run(NEXT, "large", {"a": "ssss", "b": "ssss", "c": "ssss"}, **varies)
    found = shelf.matrix(base)
    assert labels(found) == {
        "a": ["mixed", "solved"],
        "b": ["harness-limited", "solved"],
        "c": ["model-limited", "mixed"],
    }
    assert found is not None
    part = limits_part(found)
    assert part.table is not None
    assert part.table.rows[1][1] == f"harness-limited: {MAIN[:8]}; solved by {NEXT[:8]}, p 0.014"
    assert part.table.rows[2][1] == f"model-limited: {NEXT[:8]} solves it elsewhere, p 0.029"
    assert any("Fisher" in one for one in part.sentences)


def test_a_version_on_one_model_is_counted_and_not_shown(shelf: Shelf) -> None:
    base = four(shelf)
    shelf.run(OLD, "large", {"a": "f", "b": "s", "c": "f"})
    found = shelf.matrix(base)
    assert found is not None
    assert (found.others, len(found.rows)) == (1, 2)
    assert labels(found)["b"] == ["harness-limited", "harness-limited"]
    assert "Not shown: 1 version measured on one model only." in models_part(found).sentences


def test_models_of_one_name_are_told_apart_and_hostile_names_are_plain(shelf: Shelf) -> None:
    base = shelf.run(MAIN, "m\x1b[31m", {"a": "s", "b": "f", "c": "f"})
    shelf.run(MAIN, "m\x1b[31m", {"a": "s", "b": "f", "c": "f"}, engine="vllm")
    found = shelf.matrix(base)
    assert found is not None
    first, second = (one.name for one in found.columns)
    assert first != second
    assert all(one.startswith("m ") and "\x1b" not in one for one in (first, second))
    assert [one.engine for one in found.columns] == ["embedded", "vllm"]


def test_the_same_records_give_the_same_bytes(shelf: Shelf) -> None:
    base = four(shelf)
    first, second = shelf.matrix(base), shelf.matrix(base)
    assert first is not None
    assert second is not None
    assert first.model_dump_json() == second.model_dump_json()
