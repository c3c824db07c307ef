"""`ht import harbor`: two jobs of Harbor in a project's store, shown, compared, reported, handed on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harnesstrain.stages.export import read_trajectory
from tests.cli.conftest import parsed
from tests.project import Project, make_project
from tests.stages.harborjobs import TRAJECTORY, job, raised, trial

TASKS = ("one", "two", "three", "four")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Project:
    """A project with nothing measured, and two jobs beside it: `nop` solves nothing, `mine` all but one."""
    made = make_project(tmp_path_factory.mktemp("imported"), cache_folder)
    jobs = made.root.parent / "jobs"
    job(jobs / "nop", [trial(name, {"reward": 0}) for name in TASKS], agent="nop")
    broken = trial("four", None, exception_info=raised("HealthcheckError", "no answer"), agent_execution=None)
    solved = [trial(name, {"reward": 1}, trajectory=TRAJECTORY) for name in TASKS[:3]]
    job(jobs / "mine", [*solved, broken])
    return made


@pytest.fixture(scope="module")
def runs(project: Project) -> tuple[str, str]:
    """The two runs: `nop`, `mine`."""
    jobs = project.root.parent / "jobs"
    dry = project.ht("import", "harbor", str(jobs / "nop"), str(jobs / "mine"), "-n")
    assert (dry.code, len(dry.lines)) == (0, 2) and "would be recorded" in dry.err
    ran = project.ht("import", "harbor", str(jobs / "nop"), str(jobs / "mine"))
    assert (ran.code, ran.lines) == (0, dry.lines)
    assert ran.err.splitlines() == [
        f"nop: nop 1.0: 0 of 4 solved, 0 not measured; 4 rollouts recorded as run {ran.lines[0][:8]}",
        f"mine: mine 1.0: 3 of 4 solved, 1 not measured; 4 rollouts recorded as run {ran.lines[1][:8]}",
    ]
    return ran.lines[0], ran.lines[1]


def test_again_as_json(project: Project, runs: tuple[str, str]) -> None:
    jobs = project.root.parent / "jobs"
    found = parsed(project.ht("import", "harbor", str(jobs / "nop"), str(jobs / "mine"), "--json"))
    assert [(one["run"], one["recorded"]) for one in found["items"]] == [(runs[0], 0), (runs[1], 0)]
    assert found["dry_run"] is False


def test_they_are_shown_as_imported(project: Project, runs: tuple[str, str]) -> None:
    shown = parsed(project.ht("show", runs[1][:8], "--json"))
    assert shown["record"]["imported"] == {
        "program": "harbor",
        "job": "id-mine",
        "name": "mine",
        "agent": "mine",
        "version": "1.0",
        "model": None,
    }
    assert [one["outcome"] for one in shown["rollouts"]].count("infra_sandbox") == 1
    assert "bash" in project.ht("show", f"{runs[1][:8]}:one").out
    assert "imported:tasks/all" in project.ht("log").out
    assert parsed(project.ht("status", "--json"))["baseline_score"] is None
    assert project.ht("fsck").code == 0


def test_they_are_judged(project: Project, runs: tuple[str, str]) -> None:
    ran = project.ht("judge", f"{runs[0][:8]}..{runs[1][:8]}")
    assert ran.code == 0, ran.err
    assert ran.err.startswith("selected: gained one, three, two, lost nothing")
    back = project.ht("judge", f"{runs[1][:8]}..{runs[0][:8]}")
    assert back.err.startswith("rejected: ")


def test_no_version_here_stands_for_them(project: Project, runs: tuple[str, str]) -> None:
    verdict = project.ht("judge", f"{runs[0]}..{runs[1]}").lines[0]
    commands = (
        ("promote", verdict),
        ("promote", runs[1]),
        ("certify", "env", runs[1]),
        ("evaluate", runs[1], "--dry-run"),
        ("rev-parse", runs[1]),
        ("judge", f"..{runs[1]}"),
    )
    for command in commands:
        ran = project.ht(*command)
        assert (ran.code, ran.out) == (2, ""), command
        assert ran.err.startswith(f"error: run {runs[1][:8]} was imported from harbor: no version here"), command


def test_they_are_reported(project: Project, runs: tuple[str, str]) -> None:
    ran = project.ht("report", "--compare", f"{runs[0][:8]}..{runs[1][:8]}")
    assert ran.code == 0, ran.err
    assert "Imported from harbor, measured by it and not here: nop 1.0 in job nop and mine 1.0 in job mine." in ran.out
    assert "Certified: 0 of 4 cells." in ran.out and "Sampling" not in ran.out
    assert parsed(project.ht("report", "--compare", f"{runs[0][:8]}..{runs[1][:8]}", "--json"))["kind"] == "report"


def test_a_trace_goes_out_as_it_came_in(project: Project, runs: tuple[str, str]) -> None:
    ran = project.ht("export", "--atif", f"{runs[1][:8]}:one")
    made = read_trajectory(ran.out.encode(), "stdout")
    assert (made.agent.name, made.agent.version) == ("mine", "1.0")
    assert [step.message for step in made.steps if step.source == "system"] == ["be brief"]
    assert json.loads(ran.out)["final_metrics"]["total_prompt_tokens"] == 30


def test_what_cannot_be_imported(project: Project) -> None:
    gone = project.ht("import", "harbor", "gone")
    assert (gone.code, gone.out) == (2, "")
    assert gone.err.startswith("error: no such folder: ") and len(gone.err.splitlines()) == 2
    assert parsed(project.ht("import", "harbor", "gone", "--json"))["error"]["kind"] == "config"
    none = project.ht("import", "harbor", str(project.root.parent / "jobs/nop"), "--exclude", "zero")
    assert none.err.startswith("error: 'zero' matches no task of the job\nhint: tasks: four, one, three, two")
