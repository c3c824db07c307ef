"""What does not repeat itself is never a candidate's doing: environment, harness and model, each made to vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from harnesstrain.core.events import Bus, Event
from harnesstrain.core.records.certificate import Certified
from harnesstrain.core.records.verdict import Decision
from harnesstrain.trainer import Trainer
from tests.project import Project
from tests.trainer.test_loop import train, training

pytestmark = pytest.mark.local
Make = Callable[..., Project]

CLOCK = """
from pathlib import Path
import os
import time

from ht_sdk import Episode, serve

HERE = Path(__file__).parent


class Thing:
    def __hash__(self) -> int:
        return id(self) * 2654435761 >> 8


def vary(kind: str) -> str:
    if kind == "clock":
        return str(time.time_ns())
    if kind == "entropy":
        return os.urandom(8).hex()
    things = [Thing() for _ in range(300)]
    return str([things.index(one) for one in set(things)])


def solve(ep: Episode) -> None:
    name = ep.task.instruction.split()[-1]
    kinds = [one.name for one in (HERE / "vary").iterdir()] if (HERE / "vary").exists() else []
    extra = " ".join(vary(kind) for kind in kinds)
    reply = ep.complete([{"role": "user", "content": ep.task.instruction + extra}])
    if (HERE / "skills" / name).exists():
        ep.run("touch " + name)
    ep.submit()


serve(solve)
"""


class Heard:
    """Keeps what was warned about."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def on(self, event: Event) -> None:
        if event.kind == "warning":
            self.warnings.append(event.message)


def varied(made: Project, *kinds: str) -> Project:
    """The project with a harness that varies its first request in these ways."""
    (made.root / "agent" / "main.py").write_text(CLOCK)
    for kind in kinds:
        (made.root / "agent" / "vary").mkdir(exist_ok=True)
        (made.root / "agent" / "vary" / kind).write_text("yes\n")
    made.git("add", "agent")
    made.git("commit", "-qm", "Vary")
    return made


def forks(trainer: Trainer, kind: str) -> dict[str, str]:
    """What forked, by task, and where."""
    found = trainer.context.store.certificates(kind=kind)
    return {one.task or "": one.command or "" for one in found if one.result is Certified.FORKED}


@pytest.mark.parametrize("kind", ["clock", "entropy", "set"])
def test_a_candidate_whose_harness_does_not_repeat_itself_gains_nothing(project: Make, kind: str) -> None:
    made = varied(project())
    patch = made.patch("01", "agent/skills/one", "Learn one")
    also = made.patch("02", f"agent/vary/{kind}").read_text().partition("\n\n")[2]
    patch.write_text(patch.read_text() + also)
    head = made.git("rev-parse", "main")
    heard = Heard()
    with training(made, bus=Bus(heard)) as trainer:
        (verdict,) = train(trainer)
        assert forks(trainer, "harness") == {"one": "request: message 1"}
        assert forks(trainer, "env") == {}
    assert not verdict.selected and verdict.gained == ()
    ((task, reason, detail),) = [(one.task, one.reason, one.detail) for one in verdict.excluded]
    assert (task, reason) == ("one", "forked")
    assert "the harness parts from its record" in detail
    assert verdict.proven_unchanged == 0
    assert len(heard.warnings) == 1 and "does not repeat itself: on 1 of 1 rollouts" in heard.warnings[0]
    assert made.git("rev-parse", "main") == head


def test_a_loss_of_a_harness_that_does_not_repeat_itself_is_called_chance(project: Make) -> None:
    """The candidate cannot hide its loss, and nobody says that a changed line explains it."""
    made = varied(project())
    patch = made.patch("01", "agent/vary/clock", "Tell the time")
    text = patch.read_text()
    patch.write_text(
        text + "diff --git a/agent/skills/two b/agent/skills/two\ndeleted file mode 100644\n"
        "--- a/agent/skills/two\n+++ /dev/null\n@@ -1 +0,0 @@\n-yes\n"
    )
    with training(made) as trainer:
        (verdict,) = train(trainer)
    ((task, attribution, evidence),) = [(one.task, one.attribution, one.evidence) for one in verdict.lost]
    assert (task, attribution) == ("two", None)
    assert evidence.startswith("not deterministic")
    assert not verdict.selected


def test_a_baseline_whose_harness_does_not_repeat_itself_is_warned_about_and_compared_with_nothing(
    project: Make,
) -> None:
    made = varied(project(patches={"01": "agent/skills/one"}), "clock")
    heard = Heard()
    with training(made, bus=Bus(heard)) as trainer:
        (verdict,) = train(trainer)
        assert sorted(forks(trainer, "harness")) == ["one", "three", "two"]
        assert [epoch.state for epoch in trainer.context.store.epochs()] == ["unmeasurable"]
    assert verdict.decision is Decision.UNMEASURABLE
    assert (verdict.gained, verdict.lost) == ((), ())
    assert {one.reason for one in verdict.excluded} == {"forked"}
    assert all("the harness does not repeat itself" in one.detail for one in verdict.excluded)
    assert any("does not repeat itself: on 3 of 3 rollouts" in warning for warning in heard.warnings)


def test_the_baseline_is_played_back_once_per_version(project: Make) -> None:
    with training(project(patches={"01": "agent/note.txt", "02": "agent/skills/one"})) as trainer:
        train(trainer, 2)
        store = trainer.context.store
        made = store.certificates(kind="harness")
        base, learned = store.epochs()[0].base, trainer.context.repo.head()
        count = [(one.commit == base, one.task) for one in made if one.commit in (base, learned)]
        assert sorted(count) == [(False, "one"), (True, "one"), (True, "three"), (True, "two")]
        assert {one.result for one in made} == {Certified.EXACT}


ZOO = (
    "echo $RANDOM",
    "mktemp; tar --format=posix -cf - . | sha256sum",
    "python3 -c 'import random; print(random.random())'",
)


@pytest.mark.parametrize("command", ZOO)
def test_an_environment_that_does_not_repeat_itself_gains_nothing(project: Make, command: str) -> None:
    made = project(patches={"01": "agent/skills/one"})
    main = made.root / "agent" / "main.py"
    main.write_text(
        main.read_text().replace('ep.run("touch " + name)', f'ep.run("touch " + name)\n        ep.run({command!r})')
    )
    made.git("commit", "-qam", "Vary")
    with training(made) as trainer:
        (verdict,) = train(trainer)
        assert forks(trainer, "env") == {"one": command, "two": command}
        assert forks(trainer, "harness") == {}
    assert not verdict.selected and verdict.gained == ()
    assert sorted((one.task, one.reason) for one in verdict.excluded) == [("one", "forked"), ("two", "forked")]
    assert all(command in one.detail for one in verdict.excluded)


class Fickle:
    """Has a verifier say something else once the candidate was measured."""

    def __init__(self, reward: str) -> None:
        self.reward = reward
        self.runs = 0
        self.environ: dict[str, str] = {}

    def on(self, event: Event) -> None:
        if event.kind == "run.finished":
            self.runs += 1
            self.environ |= {"HT_SAYS": self.reward} if self.runs == 2 else {}


def moody(made: Project, test: str) -> Project:
    """The project with a verifier of task `one` that hears from this machine what to say."""
    folder = made.root / "tasks/one"
    (folder / "tests/test.sh").write_text(f"mkdir -p /logs/verifier\n{test}echo $R > /logs/verifier/reward.txt\n")
    toml = folder / "task.toml"
    toml.write_text(toml.read_text() + '\n[verifier.env]\nSAYS = "${HT_SAYS}"\n')
    file = made.root / "ht.toml"
    file.write_text(file.read_text().replace('kind = "local"', 'kind = "local"\nverifier_env = ["HT_SAYS"]'))
    made.git("commit", "-qam", "Another verifier")
    return made


@pytest.mark.parametrize(
    ("test", "first", "then", "detail"),
    [
        ("[ -e /app/one ] && R=$SAYS || R=0\n", "1", "0", "the gain did not repeat, the verifier gave 1, then 0"),
        ("[ -e /app/one ] && R=1 || R=$SAYS\n", "0", "1", "the verifier gave 0, then 1"),
    ],
    ids=["of the candidate", "of the baseline"],
)
def test_a_gain_that_is_graded_otherwise_the_second_time_is_not_promoted(
    project: Make, test: str, first: str, then: str, detail: str
) -> None:
    """The same commands give the same outputs on both sides.  Only the verifier changes its mind."""
    made = moody(project(patches={"01": "agent/skills/one"}), test)
    head = made.git("rev-parse", "main")
    fickle = Fickle(then)
    with training(made, bus=Bus(fickle)) as trainer:
        fickle.environ = cast("dict[str, str]", trainer.context.environ)
        fickle.environ["HT_SAYS"] = first
        (verdict,) = train(trainer)
        assert forks(trainer, "env") == {"one": ""}
        assert [epoch.state for epoch in trainer.context.store.epochs()] == ["rejected"]
    assert not verdict.selected and (verdict.gained, verdict.lost) == ((), ())
    assert [(one.task, one.reason, one.detail) for one in verdict.excluded] == [("one", "forked", detail)]
    assert made.git("rev-parse", "main") == head
    ran = made.ht("report")
    row = next(line for line in ran.lines if "Does the grading repeat itself?" in line)
    assert "no" in row and "one" in row


def test_both_sides_of_a_gain_are_graded_as_often_as_is_set(project: Make) -> None:
    made = project(patches={"01": "agent/skills/one"})
    file = made.root / "ht.toml"
    file.write_text(file.read_text().replace("[loop]\n", "[loop]\ngradings = 3\n"))
    with training(made) as trainer:
        (verdict,) = train(trainer)
        found = trainer.context.store.certificates(kind="env")
    assert verdict.selected
    assert sorted((one.task, one.run == verdict.base_run, one.gradings) for one in found) == [
        ("one", False, 3),
        ("one", True, 1),
        ("one", True, 3),
        ("three", True, 1),
        ("two", True, 1),
    ]


SHAKY = (
    '{"settings": {"latency": 0.05, "max_running": 8, "context_length": 4096, "unstable_above": 3}}\n'
    '{"reply": "ok", "duration": 1.0}\n'
)
RESTLESS = """
import itertools
settings = {"deterministic": False, "context_length": 4096}
numbers = itertools.count()
def reply(request):
    return f"answer {next(numbers)}"
"""
MANY = ("one", "two", "three", "four", "five", "six", "seven", "eight")


def test_a_model_that_varies_in_large_batches_is_kept_within_its_certificate(project: Make) -> None:
    """Replies change above three at once.  Certified, it is never asked more, and nothing differs."""
    made = project(tasks=MANY, patches={"01": "agent/note.txt"}, settings='\n[measure]\njobs = 8\ncache = "off"\n')
    made.rules(SHAKY)
    ran = made.ht("certify", "model", "--max-running", "8", "--quick")
    assert "deterministic up to 3 at once" in ran.err
    heard = Heard()
    with training(made, bus=Bus(heard)) as trainer:
        (verdict,) = train(trainer)
        digests = [
            {(one.task, one.requests_digest, one.chain_digest) for one in trainer.context.store.rollouts(run)}
            for run in (verdict.base_run, verdict.cand_run)
        ]
    assert digests[0] == digests[1] and len(digests[0]) == len(MANY)
    assert (verdict.gained, verdict.lost, verdict.excluded) == ((), (), ())
    assert "no change" in verdict.sentence
    assert any("the model is certified for 3" in warning for warning in heard.warnings)


def test_a_model_that_never_repeats_itself_proves_nothing(project: Make) -> None:
    made = project(patches={"01": "agent/note.txt"})
    (made.root / "rules.py").write_text(RESTLESS)
    file = made.root / "ht.toml"
    file.write_text(file.read_text().replace("rules.jsonl", "rules.py"))
    ran = made.ht("certify", "model", "--quick", "--exit-code")
    assert ran.code == 3 and "not deterministic" in ran.err
    with training(made) as trainer:
        (verdict,) = train(trainer)
        assert not trainer.context.store.regime(verdict.regime).deterministic
    assert verdict.proven_unchanged == 0
    assert not verdict.selected
    assert "does not repeat itself, so no tie-break" in verdict.sentence
