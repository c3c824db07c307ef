"""A run of another regime: which fields differ, in words and as settings; how to go on with a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harnesstrain.core.digests import digest
from harnesstrain.core.records.run import Run
from harnesstrain.measure import regimes
from harnesstrain.measure.context import Context
from harnesstrain.measure.resuming import as_settings, resume
from harnesstrain.stages.certify import ModelSpec, certify_model
from tests.project import Project
from tests.stages.test_evaluate import opened

pytestmark = pytest.mark.local
Make = Callable[..., Project]


def begun(context: Context, name: str, **changes: Any) -> Run:
    """A run on record whose regime is the one in use but for `changes`."""
    regime = context.devices.bench.regime.model_copy(update=changes)
    context.store.put_regime(regime)
    run = Run(
        id=digest(name), commit="a" * 40, panel=digest("panel"), panel_name="tiny", regime=regime.digest, seeds=(1,)
    )
    context.store.put_run(run)
    return run


def test_what_differs_is_said_field_by_field(project: Make) -> None:
    with opened(project()) as context:
        now = context.devices.bench.regime
        alike = begun(context, "alike")
        assert regimes.changed(context, alike) == {}
        other = now.sandbox.model_copy(update={"image": digest("another machine")})
        moved = begun(context, "moved", sandbox=other, budgets=now.budgets.model_copy(update={"steps": 7}))
        fields = regimes.changed(context, moved)
        assert set(fields) == {"budgets.steps", "sandbox.image"}
        assert regimes.in_words(context, moved, fields) == (
            "budgets.steps differs (7, now 30); sandbox.image differs: this machine's system files changed"
        )
        assert as_settings(fields) == "--set budgets.steps=7"
        sampling = now.sampling.model_copy(update={"temperature": 0.5})
        warm = begun(context, "warm", sampling=sampling, endpoint="b" * 64, deterministic=False)
        fields = regimes.changed(context, warm)
        assert as_settings(fields) == "--set llm.sampling.temperature=0.5"
        words = regimes.in_words(context, warm, fields)
        assert "endpoint differs: endpoint bbbbbbbb then, scripted now" in words
        assert "deterministic differs: the model repeats itself;" in f"{words};", "no certificate was made"


def test_a_change_of_the_script_or_of_the_kind_is_said_as_one(project: Make) -> None:
    with opened(project()) as context:
        now, endpoint = context.devices.bench.regime, context.devices.endpoint
        before = endpoint.model_copy(update={"identity": {**endpoint.identity, "script": "c" * 64}})
        context.store.put_endpoint(before)
        edited = begun(context, "edited", endpoint=before.fingerprint)
        said = f"scripted with another script ({'c' * 24}…, now {endpoint.identity['script'][:24]}…)"
        assert regimes.in_words(context, edited, regimes.changed(context, edited)) == f"endpoint differs: {said}"
        docker = now.sandbox.model_copy(update={"image": digest("images"), "kind": "docker", "pins": "0"})
        moved = begun(context, "moved", sandbox=docker)
        assert regimes.in_words(context, moved, regimes.changed(context, moved)) == (
            "sandbox.image differs: the kind changed; sandbox.kind differs (docker, now local); "
            f"sandbox.pins differs (0, now {now.sandbox.pins}): the kind changed"
        )


def test_only_a_certificate_of_the_same_model_makes_it_certified_since(project: Make) -> None:
    with opened(project()) as context:
        run = begun(context, "unsure", deterministic=False)
        words = "deterministic differs: the model repeats itself"
        assert regimes.in_words(context, run, regimes.changed(context, run)) == words
        certify_model(context, ModelSpec(depth="quick"))
        assert regimes.in_words(context, run, regimes.changed(context, run)) == f"{words}, as certified since"


def test_only_the_newest_run_of_a_version_counts(project: Make) -> None:
    with opened(project()) as context:
        wanted = Run.model_validate(begun(context, "first").model_dump() | {"id": digest("wanted")})
        assert regimes.earlier(context, wanted) is None
        moved = begun(context, "moved", grading="final_state")
        assert regimes.earlier(context, wanted) == moved
        begun(context, "back")
        assert regimes.earlier(context, wanted) is None


def test_a_panel_is_named_where_its_name_can_be_loaded(project: Make) -> None:
    with opened(project()) as context:
        run = begun(context, "run").model_copy(update={"seeds": (1, 2), "salt": "a b", "split": "holdout"})
        assert resume(context, run) == "ht evaluate aaaaaaaa --split holdout --seeds 2 --fresh 'a b'"
        shipped = run.model_copy(update={"panel_name": "demo", "split": None, "salt": ""})
        assert resume(context, shipped) == "ht evaluate aaaaaaaa --panel demo --split all --seeds 2"
