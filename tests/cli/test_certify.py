"""`ht certify`: which parts, what is printed, what a certificate changes for the next run."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.project import Project

pytestmark = pytest.mark.local

SHAKY = (
    '{"settings": {"latency": 0.05, "context_length": 4096, "unstable_above": 2}}\n{"reply": "ok", "duration": 1.0}\n'
)
RANDOM = '{"settings": {"context_length": 4096}}\n{"times": 3, "reply": "other"}\n{"reply": "ok", "duration": 1.0}\n'

Make = Callable[..., Project]


def test_a_model_certificate_limits_the_next_run(project: Make) -> None:
    made: Project = project()
    made.rules(SHAKY)
    planned = made.ht("certify", "model", "--max-running", "8", "--quick", "-n")
    assert planned.lines == ["model scripted: would ask 6 probes alone, then at 1, 2, 4, 8 at once"]
    ran = made.ht("certify", "model", "--max-running", "8", "--quick")
    assert ran.code == 0
    assert len(ran.lines) == 1 and len(ran.lines[0]) == 64
    said = ran.err.splitlines()
    assert [line.split(":")[0].strip() for line in said[:5]] == ["reference", "at 1", "at 2", "at 4", "at 3"]
    assert "model scripted: deterministic up to 2 at once" in said
    assert any(line.startswith("  concurrency: at 3, '") for line in said)
    again = made.ht("certify", "model")
    assert again.lines == ran.lines
    assert "certified before" in again.err
    shown = json.loads(made.ht("show", ran.lines[0], "--json").out)
    assert shown["record"]["detail"]["largest"] == 2
    measured = made.ht("evaluate", "@", "--jobs", "5")
    assert measured.code == 0
    assert measured.err.count("2 of 5 rollouts at once: the model is certified for 2") == 1


def test_every_part_that_applies(project: Make) -> None:
    made: Project = project()
    ran = made.ht("certify", "--quick")
    assert ran.code == 0, ran.err
    assert len(ran.lines) == 1
    assert "environments: " in ran.err and "was not measured yet; `ht evaluate @` measures it" in ran.err
    assert made.ht("evaluate").code == 0
    ran = made.ht("certify", "--quick")
    assert ran.code == 0
    assert len(ran.lines) == 1 + 3
    assert "certified before" in ran.err and "3 chains re-executed now" in ran.err
    found = json.loads(made.ht("certify", "--quick", "--json").out)
    assert [item["kind"] for item in found["items"]] == ["model", "env", "env", "env"]
    assert made.ht("certify", "env").lines == ran.lines[1:]


def test_a_forked_model_is_an_answer(project: Make) -> None:
    made: Project = project()
    made.rules(RANDOM)
    assert made.ht("evaluate").code == 0
    ran = made.ht("certify", "--quick", "--exit-code")
    assert ran.code == 3
    assert "model scripted: not deterministic" in ran.err
    assert "is of another regime; `ht evaluate` measures under this one" in ran.err
    assert made.ht("evaluate").code == 0
    with made.store() as store:
        before, after = (store.regime(run.regime) for run in store.runs())
    assert before.deterministic and not after.deterministic


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("certify", "model", "@"), "a model is certified without a run"),
        (("certify", "harness", "@"), "'harness' is nothing that can be certified here"),
        (("certify", "model", "--quick", "--thorough"), "--quick and --thorough exclude each other"),
        (("certify", "env"), "was not measured yet"),
    ],
)
def test_bad_input(project: Make, arguments: tuple[str, ...], why: str) -> None:
    ran = project().ht(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err and "hint: " in ran.err


def test_a_swapped_model_ends_the_run(project: Make) -> None:
    """The certificate is of a fingerprint; what is recorded for it here is what another model would say."""
    made: Project = project()
    ran = made.ht("certify", "model", "--quick")
    with made.store() as store:
        (certificate,) = store.certificates(kind="model")
        detail = certificate.detail
        detail["sentinels"][0]["reply"] |= {"content": "I am another one", "token_ids": None}
        store.put_certificate(certificate.model_copy(update={"detail": detail}))
    assert ran.code == 0
    ran = made.ht("evaluate")
    assert ran.code == 6
    assert "the model 'scripted' is not the one that was certified: to 'short' it answers 'ok'" in ran.err
    with made.store() as store:
        assert store.rollouts(store.runs()[-1].id) == []
    assert made.ht("certify", "model", "--quick", "--again").code == 0
    assert made.ht("evaluate").code == 0
