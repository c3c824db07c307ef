"""Killed after every durable step of a loop, and at random instants: nothing is lost, repeated, or left behind."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from harnesstrain.core import cgroups
from tests.project import Project

pytestmark = pytest.mark.local
Make = Callable[..., Project]
REPO = Path(__file__).parents[2]
KILLS = int(os.environ.get("HT_SOAK") or 30)
"""Random kills.  HT_SOAK=200 is the long test."""


def mortal(project: Project, epochs: int, *more: str) -> dict[str, Any]:
    """Run the mortal loop to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.trainer.mortal", str(project.root), str(epochs), *more],
        cwd=REPO,
        env=project.environment(HT_JOBS="1", HT_PROGRESS="none"),
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def copied(project: Project, place: Path) -> Project:
    """The same repo, files and commits, elsewhere."""
    place.mkdir()
    shutil.copytree(project.root, place / "repo", symlinks=True)
    return Project(place / "repo", project.cache, project.env)


def facts(project: Project) -> dict[str, Any]:
    """What must not depend on how often the loop was killed."""
    with project.store() as store:
        verdicts = {verdict.id: verdict for verdict in store.verdicts()}
        epochs = store.epochs()
        return {
            "states": [(epoch.number, epoch.state, epoch.reason) for epoch in epochs],
            "losses": [verdicts[epoch.verdict].loss if epoch.verdict else None for epoch in epochs],
            "inputs": [verdicts[epoch.verdict].inputs if epoch.verdict else None for epoch in epochs],
            "measured": [sorted(rollout.measurement for rollout in store.rollouts(run.id)) for run in store.runs()],
            "certified": sorted((str(c.task), c.result) for c in store.certificates()),
            "memos": [row["record"]["epoch"] for row in store.export("memo")],
            "promotions": [promotion.state for promotion in store.promotions()],
            "candidates": [candidate.source for candidate in store.candidates()],
        }


def check_clean(project: Project) -> None:
    """A command has run since the last kill: nothing is left that nobody uses, and the records hold."""
    assert project.git("status", "--porcelain") == ""
    with project.store() as store:
        assert store.holders() == []
        store.gc(grace=0)  # files written just before a kill, which no row names
        assert store.fsck() == []
    assert project.ht("verify", "--exit-code").code == 0
    own = project.temporary / f"harnesstrain-{os.getuid()}"
    for place in (project.root / ".ht" / "worktrees", project.temporary, *([own] if own.exists() else [])):
        assert [path for path in place.iterdir() if path != own] == []


@pytest.mark.timeout(900)
def test_killed_after_every_durable_step(project: Make) -> None:
    made = project(patches={"01": "agent/skills/one", "02": "agent/broken/two"}, tasks=("one", "two"))
    calm = copied(made, made.root.parent / "calm")
    assert mortal(calm, 1, "--immortal")["deaths"] == []
    deaths = Counter(mortal(made, 1)["deaths"])
    assert deaths["row in store.db"] >= 20, deaths
    assert deaths["file .parquet"] >= 4, deaths
    assert deaths["git commit-tree"] == 1, deaths
    assert {f"git update-ref refs/{name}" for name in ("ht/runs", "ht/candidates", "heads")} <= set(deaths), deaths
    for one in (made, calm):  # the last thing to be killed before is the memo: the next epoch writes it
        assert one.ht("epoch").code == 0
    assert facts(made) == facts(calm)
    assert facts(made)["states"] == [(1, "promoted", "gained one, lost nothing"), (2, "rejected", "lost two")]
    check_clean(made)


class Life:
    """One `ht epoch`, killed at some instant, with everything it had started."""

    def __init__(self, project: Project) -> None:
        self.process = project.start("epoch", "--n", "99", "--progress", "plain", HT_JOBS="2")

    def end(self, after: float) -> str:
        """Kill it; returns what it said.  Everything it started must be gone soon."""
        try:
            _, said = self.process.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            children = psutil.Process(self.process.pid).children(recursive=True)
            self.process.send_signal(signal.SIGKILL)
            _, said = self.process.communicate()
            _, alive = psutil.wait_procs(children, timeout=20)
            assert alive == [], [(one.pid, one.cmdline()) for one in alive if one.is_running()]
        return said


def finished(said: str) -> list[tuple[str, str]]:
    """Version and task of every rollout that was committed, as told on stderr."""
    found, version = [], ""
    for line in said.splitlines():
        if match := re.match(r"measuring (\w+) on ", line):
            version = match.group(1)
        elif match := re.match(r"  \d+/\d+ (\w+) \w+", line):
            found.append((version, match.group(1)))
    return found


@pytest.mark.timeout(300 + 20 * KILLS)
def test_killed_at_random_instants(project: Make) -> None:
    """R1: `kill -9` of `ht epoch` again and again, then compared with a loop that was left alone."""
    patches = {f"{n:03}": f"agent/notes/{n}" for n in range(4, 4 + 8 * KILLS)}
    patches |= {"001": "agent/skills/one", "002": "agent/broken/two", "003": "agent/skills/three"}
    made = project(patches=patches)
    calm = copied(made, made.root.parent / "calm")
    began = time.monotonic()
    assert made.ht("evaluate", "--dry-run").code == 0
    startup = time.monotonic() - began
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    said, pids = [], []
    for _ in range(KILLS):
        life = Life(made)
        pids.append(life.process.pid)
        said.append(life.end(startup * dice.uniform(0.2, 3.0)))
    last = made.ht("epoch", "--n", "3")
    assert last.code == 0, last.err
    said.append(last.err)
    with made.store() as store:
        epochs = len(store.epochs())
    counted = Counter(cell for one in said for cell in finished(one))
    repeated = {cell: times for cell, times in counted.items() if times > 1}
    assert repeated == {}, f"seed {seed}"
    left_alone = calm.ht("epoch", "--n", str(epochs), HT_JOBS="2", timeout=280 + 10 * KILLS)
    assert left_alone.code == 0, left_alone.err
    assert facts(made) == facts(calm), f"seed {seed}"
    check_clean(made)
    groups = [path.name for place, _ in cgroups.controllers().values() for path in Path(place).iterdir()]
    owners = {int(name.split("-")[1]) for name in groups if name.startswith(cgroups.PREFIX)}
    assert owners.isdisjoint(pids)
