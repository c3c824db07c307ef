"""A directory with a row.json → Task.

    row.json                  one row of a data set, as `ht tasks pull` lays it
    environment/Dockerfile    optional: an image of one's own instead of the published one

The image is the row's `image`, when it names one, else the published image of the instance.  The digest of a task
covers the instruction as it is shown, the environment, and all that decides a grade: the evaluation script, the test
patch, the expected tests.  It does not cover the reference solution, which only `ht tasks oracle` reads.
"""

from __future__ import annotations

from pathlib import Path

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.records.task import Environment, Solution, Task, Verifier
from harnesstrain.taskset.base import Inspected
from harnesstrain.taskset.content import digest_directory
from harnesstrain.taskset.swebench.rows import Row, read_row
from harnesstrain.taskset.swebench.spec import GRADER, WORKDIR, Spec, task_spec
from harnesstrain.taskset.swebench.unfold import Parts, unfold

ROW = "row.json"
CONTEXT = "environment"
PARSER = "swe-bench"
"""Name of the grader, in a verifier."""
VERIFY_TIME = 1800.0
"""Seconds that an evaluation may take: the published limit."""
SOLVE_TIME = 600.0


class SweBenchFormat:
    """SWE-bench instances: one row a directory."""

    name = "swe-bench"

    def sniff(self, directory: Path) -> bool:
        """A row.json."""
        return (directory / ROW).is_file()

    def load(self, directory: Path) -> Inspected:
        """Read the task.  Raises ConfigError when the row lacks what evaluating it takes."""
        directory = directory.resolve()
        row = read_row(directory / ROW)
        spec = task_spec(row)
        parts = unfold(row, spec)
        notes = () if row.patch else ("it has no reference solution (patch)",)
        return Inspected(task=_task(directory, row, spec, parts), notes=notes)


def _task(directory: Path, row: Row, spec: Spec, parts: Parts) -> Task:
    environment = _environment(directory, row, spec)
    verifier = _verifier(spec, parts)
    covered = {
        "instruction": digest_bytes(row.instruction.encode()),
        "environment": environment.digest,
        "verifier": verifier.digest,
    }
    return Task(
        name=directory.name,
        digest=digest(covered),
        instruction=row.instruction,
        environment=environment,
        verifier=verifier,
        solution=Solution(path=parts.solution, timeout=SOLVE_TIME) if parts.solution else None,
        metadata={
            key: value
            for key, value in (("difficulty", row.difficulty), ("repo", row.repo), ("version", row.version))
            if value
        },
    )


def _environment(directory: Path, row: Row, spec: Spec) -> Environment:
    context = directory / CONTEXT
    builds = (context / "Dockerfile").is_file()
    image = None if builds else row.image or spec.image
    content = digest_directory(context) if builds else ""
    return Environment(
        context=context if builds else None,
        image=image,
        workdir=WORKDIR,
        digest=digest({"content": content, "image": image, "workdir": WORKDIR, "network": "none"}),
    )


def _verifier(spec: Spec, parts: Parts) -> Verifier:
    covered = {
        "grader": GRADER,
        "files": {name: digest_bytes(data) for name, data in spec.files.items()},
        "tests": spec.tests,
        "timeout": VERIFY_TIME,
    }
    return Verifier(
        tests=parts.tests, timeout=VERIFY_TIME, parser=PARSER, expected=parts.expected, digest=digest(covered)
    )
