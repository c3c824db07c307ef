"""`ht evaluate --endpoint`: one run a model; what one lacks, the others keep; comparisons mix no models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.errors import HtError
from tests.cli.conftest import parsed
from tests.cli.test_which_run import changed
from tests.project import Project, Ran

pytestmark = pytest.mark.local
Make = Callable[..., Project]

ENDPOINTS = """
[endpoints.other]
script = "other.jsonl"

[endpoints.third]
script = "third.jsonl"
context_length = 8192

[endpoints.down]
url = "http://127.0.0.1:9/v1"
deadline = 0.5
"""


def made_with_models(project: Make) -> Project:
    files = {
        "other.jsonl": '{"settings": {"name": "other"}}\n{"reply": "no", "duration": 1.0}\n',
        "third.jsonl": '{"settings": {"name": "third-model"}}\n{"reply": "no", "duration": 2.0}\n',
    }
    made: Project = project(settings=ENDPOINTS, files=files)
    return made


def commands(ran: Ran) -> list[str]:
    return [line for line in ran.err.splitlines() if line.startswith("measuring")]


def test_each_model_has_its_run_and_a_second_time_nothing_is_done(project: Make) -> None:
    made = made_with_models(project)
    both = ("evaluate", "--endpoint", "other", "--endpoint", "llm")
    planned = made.ht(*both, "--dry-run")
    assert planned.code == 0, planned.err
    assert [line.split(":")[1] for line in planned.lines] == [" 3 cells, 0 done, 3 to run"] * 2
    assert [line.split()[3].rstrip(":") for line in planned.lines] == ["other", "llm"]
    first = made.ht(*both)
    assert first.code == 0, first.err
    assert len(set(first.lines)) == 2
    assert [line[:8] for line in first.lines] == [line.split()[1] for line in planned.lines]
    assert "regime" not in first.err
    assert "endpoint other: other on scripted\n" in first.err
    again = made.ht(*both)
    assert (again.code, again.lines) == (0, first.lines)
    assert all("0 of 3 to run" in line for line in commands(again))
    plain = made.ht("evaluate")
    assert plain.lines == first.lines[1:]
    assert "regime" not in plain.err
    with made.store() as store:
        runs = [store.run(one) for one in first.lines]
        regimes = [store.regime(one.regime) for one in runs]
        assert [run.asked_as for run in runs] == [("other",), ()]
        assert set(regimes[0].differing(regimes[1])) == {"endpoint"}
        assert [store.endpoint(one.endpoint).model for one in regimes] == ["other", "scripted"]
        assert all(store.is_complete(run.id) for run in runs)


def test_a_model_that_is_down_does_not_lose_the_others(project: Make) -> None:
    made = made_with_models(project)
    ran = made.ht("evaluate", "--endpoint", "other", "--endpoint", "down", "--endpoint", "llm")
    assert ran.code == 6
    assert len(ran.lines) == 2
    assert "endpoint down: the endpoint at http://127.0.0.1:9/v1 cannot be reached" in ran.err
    assert "error: 1 of 3 endpoints is not measured in full: down\n" in ran.err
    assert "hint: start it, or correct [endpoints.down]" in ran.err
    with made.store() as store:
        assert all(store.is_complete(one) for one in ran.lines)
    told = parsed(made.ht("evaluate", "--endpoint", "down", "--endpoint", "other", "--json"))
    assert (told["kind"], told["run"], told["endpoint"]) == ("run", ran.lines[0], "other")
    (failed,) = told["error"]["failed"]
    assert (failed["endpoint"], failed["kind"]) == ("down", "prerequisite")
    alone = made.ht("evaluate", "--endpoint", "down")
    assert (alone.code, alone.out) == (6, "")
    assert alone.err.startswith("error: the endpoint at http://127.0.0.1:9/v1 cannot be reached")


def test_a_budget_on_one_model_leaves_the_rest_to_resume(project: Make) -> None:
    made = made_with_models(project)
    both = ("evaluate", "--endpoint", "other", "--endpoint", "third", "--jobs", "1")
    begun = made.ht(*both, "--max-tokens", "1")
    assert begun.code == 5
    assert len(begun.lines) == 2
    assert "error: 2 of 2 endpoints are not measured in full: other, third\n" in begun.err
    assert "hint: the same command resumes" in begun.err
    done = made.ht(*both)
    assert (done.code, done.lines) == (0, begun.lines)


def test_names_that_are_none_are_said_before_any_work(project: Make) -> None:
    made = made_with_models(project)
    for name, hint in {
        "otter": "did you mean 'other'?",
        "embeded:smollm2-135m": "did you mean 'embedded:smollm2-135m'?",
        "rules.json": "an endpoint is a URL, ENGINE:MODEL, a rules file, or [endpoints.NAME] in ht.toml",
    }.items():
        ran = made.ht("evaluate", "--endpoint", "other", "--endpoint", name)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == f"error: no endpoint '{name}'\nhint: {hint}\n"
    ran = made.ht("evaluate", "--endpoint", "http://user:secret@127.0.0.1:9/v1")
    assert ran.code == 2
    assert "secret" not in ran.err
    with made.store() as store:
        assert not list(store.runs())


def test_verdicts_are_made_model_by_model(project: Make) -> None:
    made = made_with_models(project)
    cand = changed(made)
    pair = f"main..{cand}"
    measured = made.ht(
        "evaluate", pair, "--endpoint", "other", "--endpoint", "third", "--endpoint", "scripted:other.jsonl"
    )
    assert measured.code == 0, measured.err
    other, third, again = measured.lines[:2], measured.lines[2:4], measured.lines[4:]
    assert again == other
    assert "endpoint scripted:other.jsonl: other on scripted, the same as other\n" in measured.err
    for command in (("judge", pair), ("report", "--compare", pair), ("diff", pair)):
        unclear = made.ht(*command)
        assert (unclear.code, unclear.out) == (2, ""), command
        assert "was measured on several models: third, other" in unclear.err
        assert "hint: --endpoint third chooses one" in unclear.err
        assert made.ht(*command, "--endpoint", "other").code == 0, command
    for name, runs in {
        "other": other,
        "scripted:other.jsonl": other,
        "third": third,
        "third-model": third,
    }.items():
        verdict = parsed(made.ht("judge", pair, "--endpoint", name, "--json"))
        assert [verdict["base_run"], verdict["cand_run"]] == runs, name
    nowhere = made.ht("judge", pair, "--endpoint", "llm")
    assert nowhere.code == 2
    assert "were not measured alike on 'llm'; there are runs on other, third\n" in nowhere.err
    assert "--endpoint llm` measures both" in nowhere.err
    unclear = made.ht("promote", cand)
    assert unclear.code == 2
    assert "hint: name the verdict or the run" in unclear.err
    named = made.ht("promote", verdict["id"], "--dry-run")
    assert named.code == 0
    assert f"note: verdict {verdict['id'][:8]} is of runs on third, not on the configured model\n" in named.err

    configured = made.ht("evaluate", pair)
    assert configured.code == 0
    assert made.ht("evaluate", cand, "--endpoint", "third", "--fresh", "newer").code == 0
    verdict = parsed(made.ht("judge", pair, "--json"))
    assert [verdict["base_run"], verdict["cand_run"]] == configured.lines
    crossed = made.ht("judge", f"{configured.lines[0]}..{third[1]}")
    assert crossed.code == 2
    assert "are not comparable: regimes" in crossed.err


def test_a_model_that_was_named_becomes_the_configured_one(project: Make) -> None:
    made = made_with_models(project)
    (run,) = made.ht("evaluate", "--endpoint", "other").lines
    configured = made.ht("evaluate", "--set", "llm.script=other.jsonl")
    assert configured.lines == [run]
    with made.store() as store:
        assert store.run(run).asked_as == ("other", "llm")
        assert store.run(run).configured
        assert store.is_complete(run)


def test_a_server_is_named_by_its_url(project: Make) -> None:
    made = project(tasks=("one",))
    try:
        assert made.ht("serve-llm", "--detach").code == 0
        url = json.loads(made.ht("serve-llm", "--status", "--json").out)["url"]
        asked = ("--endpoint", "llm", "--endpoint", url, "--endpoint", f"{url}#scripted", "--endpoint", f"{url}#other")
        ran = made.ht("evaluate", *asked)
        assert ran.code == 2
        assert len(ran.lines) == 3
        assert len(set(ran.lines)) == 1
        assert f"endpoint {url}: scripted on scripted, the same as llm\n" in ran.err
        assert f"error: 1 of 4 endpoints is not measured in full: {url}#other\nhint: it serves scripted\n" in ran.err
        itself = made.ht("judge", "@..@", "--endpoint", url)
        assert itself.code == 2 and "would be compared with itself" in itself.err
        assert made.ht("diff", "@..@", "--endpoint", url).code == 0
    finally:
        assert made.ht("serve-llm", "--stop").code == 0
    gone = made.ht("evaluate", "--endpoint", url, "--endpoint", "llm")
    assert (gone.code, gone.lines) == (6, ran.lines[:1])
    assert "hint: start it, or correct --endpoint" in gone.err


@pytest.mark.model
def test_a_model_of_the_catalogue_is_named_alone(project: Make) -> None:
    from harnesstrain.llm.embedded import library
    from harnesstrain.llm.models.pull import model_file

    try:
        library.check_machine()
        model_file("smollm2-135m")
    except HtError as error:
        pytest.skip(f"the embedded engine or its small model is not available: {error}")
    made = project(tasks=("one",))
    few = ("--set", "llm.sampling.max_tokens=4", "--set", "llm.context_length=1024")
    models = ("--endpoint", "llm", "--endpoint", "smollm2-135m", "--endpoint", "embedded:smollm2-135m")
    ran = made.ht("evaluate", *models, *few, XDG_CACHE_HOME=str(Path.home() / ".cache"))
    assert ran.code == 0, ran.err
    first, second, third = ran.lines
    assert first != second
    assert second == third
    with made.store() as store:
        (rollout,) = store.rollouts(second)
        regime = store.regime(store.run(second).regime)
        assert set(store.regime(store.run(first).regime).differing(regime)) == {"endpoint"}
        assert rollout.usage.completion in range(1, 9)


def test_each_model_keeps_within_its_own_certificate(project: Make) -> None:
    script = '{"settings": {"name": "wobbly", "deterministic": false, "unstable_above": 2, "latency": 0.05}}\n'
    made: Project = project(
        settings='\n[endpoints.wobbly]\nscript = "wobbly.jsonl"\n',
        files={"wobbly.jsonl": script + '{"reply": "ok", "duration": 1.0}\n'},
    )
    certified = made.ht("certify", "model", "--endpoint", "wobbly", "--max-running", "3", "--quick")
    assert certified.code == 0, certified.err
    assert "model wobbly: deterministic up to 2 at once" in certified.err
    ran = made.ht("evaluate", "--endpoint", "wobbly", "--endpoint", "llm", "--jobs", "3")
    assert ran.code == 0, ran.err
    lowered = "2 of 3 rollouts at once: the model is certified for 2"
    assert ran.err.count(lowered) == 1
    assert ran.err.index("endpoint wobbly:") < ran.err.index(lowered) < ran.err.index("endpoint llm:")
    with made.store() as store:
        assert all(store.regime(store.run(one).regime).deterministic for one in ran.lines)
