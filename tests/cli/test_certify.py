"""`ht certify`: which parts, what is printed, what a certificate changes for the next run."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.project import Project
from tests.stages.test_grading_again import told_by_host

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
    assert "environments and harness: " in ran.err and "was not measured yet; `ht evaluate @` measures it" in ran.err
    assert made.ht("evaluate").code == 0
    ran = made.ht("certify", "--quick")
    assert ran.code == 0
    assert len(ran.lines) == 1 + 3 + 3
    assert "certified before" in ran.err and "3 chains re-executed now" in ran.err
    assert "3 exact; 3 rollouts played back now" in ran.err
    found = json.loads(made.ht("certify", "--quick", "--json").out)
    assert [item["kind"] for item in found["items"]] == ["model", *["env"] * 3, *["harness"] * 3]
    assert (found["executed"], found["played"]) == (0, 0)
    assert made.ht("certify", "env").lines == ran.lines[1:4]
    assert made.ht("certify", "harness").lines == ran.lines[4:]
    planned = made.ht("certify", "-n")
    assert planned.code == 0
    assert [line.split(" ")[0:2] for line in planned.lines] == [
        ["model", "scripted:"],
        ["would", "re-execute"],
        ["would", "play"],
    ]
    again = made.ht("certify", "harness", "--again")
    assert again.code == 0 and "3 rollouts played back now" in again.err
    assert not set(again.lines) & set(ran.lines)


def test_without_a_model_the_harness_can_still_be_certified(project: Make) -> None:
    made: Project = project()
    assert made.ht("evaluate").code == 0
    gone = {"HT_LLM_ENGINE": "external", "HT_LLM_URL": "http://127.0.0.1:9/v1"}
    ran = made.ht("certify", "@", "--exit-code", **gone)
    assert ran.code == 0, ran.err
    assert "model: not certified: " in ran.err and "environments: not certified: " in ran.err
    assert len(ran.lines) == 3 and "3 rollouts played back now" in ran.err
    assert made.ht("certify", "env", "@", **gone).code == 6


UNSTEADY = """
from pathlib import Path
import time

from ht_sdk import Episode, serve


def solve(ep: Episode) -> None:
    ep.complete([{"role": "user", "content": f"it is {time.time_ns()}, {ep.task.instruction}"}])
    ep.run("touch one")
    ep.submit()


serve(solve)
"""


def test_a_harness_that_does_not_repeat_itself_is_named(project: Make) -> None:
    made: Project = project()
    (made.root / "agent" / "main.py").write_text(UNSTEADY)
    made.git("commit", "-qam", "Tell the time")
    assert made.ht("evaluate").code == 0
    ran = made.ht("certify", "harness", "@", "--exit-code")
    assert ran.code == 3
    commit = made.git("rev-parse", "HEAD")[:8]
    assert f"harness {commit} does not repeat itself: on 3 of 3 rollouts" in ran.err
    assert "  one: step 0: request: message 1" in ran.err
    assert "    -user: it is " in ran.err and "    +user: it is " in ran.err
    assert f"harness {commit} forked" in ran.err
    shown = made.ht("show", ran.lines[0])
    assert "--- recorded" in shown.out and "+++ issued" in shown.out
    record = json.loads(made.ht("show", ran.lines[0], "--json").out)["record"]
    assert (record["kind"], record["result"], record["commit"][:8]) == ("harness", "forked", commit)


def test_a_fork_comes_with_a_diff_and_a_rule_that_can_be_pasted(project: Make) -> None:
    made: Project = project(files={"agent/random/two": "yes\n"})
    main = made.root / "agent" / "main.py"
    main.write_text(main.read_text().replace("head -c 9 /dev/urandom | sha256sum", "echo open on port $RANDOM"))
    made.git("commit", "-qam", "Open a port")
    assert made.ht("evaluate").code == 0
    ran = made.ht("certify", "env", "--exit-code")
    assert ran.code == 3
    assert "  two: step 6: echo open on port $RANDOM" in ran.err
    assert "    -open on port " in ran.err and "a scrub rule for it (number after 'open on port')" in ran.err
    found = json.loads(made.ht("certify", "env", "--json").out)
    (fork,) = [one for one in found["items"] if one["result"] == "forked"]
    assert fork["recorded_raw"] != fork["observed_raw"]
    (made.root / "scrub.toml").write_text(fork["proposal"])
    (made.root / "ht.toml").write_text(
        (made.root / "ht.toml").read_text().replace('kind = "local"', 'kind = "local"\nscrub = "scrub.toml"')
    )
    assert made.ht("config", "sandbox.scrub").code == 0
    mended = made.ht("certify", "env", "--exit-code")
    assert mended.code == 0, mended.err
    assert "2 exact, 1 equivalent; 1 chains re-executed now" in mended.err
    assert made.ht("certify", "env", "--exit-code").lines == mended.lines
    (made.root / "scrub.toml").write_text("[[rule]]\nname = 1\n")
    broken = made.ht("certify", "env")
    assert broken.code == 2 and "scrub.toml: rule 1: name" in broken.err and len(broken.err.splitlines()) == 2


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
        (("certify", "harness", "@"), "was not measured yet"),
        (("certify", "weather", "@"), "'weather' is nothing that can be certified here"),
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


def test_a_verifier_that_does_not_repeat_itself_is_named(project: Make) -> None:
    made = project(tasks=("two",), patches={"01": "agent/note.txt"})
    told_by_host(made, "two")
    assert made.ht("evaluate", HT_SAYS="1").code == 0
    planned = made.ht("certify", "env", "-n", HT_SAYS="0")
    assert planned.lines == ["would re-execute 3 commands of 1 rollouts and grade 1 again"]
    ran = made.ht("certify", "env", "--exit-code", HT_SAYS="0")
    assert ran.code == 3 and "answer: no, 1 task forked" in ran.err
    said = ran.err.splitlines()
    assert "graded again: 1 another outcome" in said
    assert "  two: the verifier gave 1, then 0" in said
    assert "    -the reward is 1" in said and "    +the reward is 0" in said
    assert not [line for line in said if "scrub rule" in line]
    page = made.ht("show", ran.lines[0]).out
    assert "another outcome (the verifier gave 1, then 0)" in page
    assert "ht tasks oracle --twice" in page
    made.ht("epoch", HT_SAYS="1")
    with made.store() as store:
        (verdict,) = store.verdicts()
    judged = made.ht("judge", f"{verdict.base_commit}..{verdict.cand_commit}", HT_SAYS="1")
    assert "the verifiers do not repeat themselves" in judged.err
    assert made.ht("verify", HT_SAYS="1").code == 0


def test_what_cannot_be_graded_again_is_said(project: Make) -> None:
    made = project(tasks=("two",))
    told_by_host(made, "two")
    made.ht("evaluate", HT_SAYS="1")
    ran = made.ht("certify", "env")
    assert ran.code == 0 and "graded again: 1 could not be" in ran.err
    assert "two is not graded again: its verifier needs variables of the host: HT_SAYS" in ran.err
    page = made.ht("show", ran.lines[0]).out
    assert "no (its verifier needs variables of the host: HT_SAYS)" in page
