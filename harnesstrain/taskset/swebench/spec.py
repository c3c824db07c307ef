"""A row → everything that evaluating it takes: image, commands, the files of its verifier.

Nothing here asks a network: the facts are data of this package, and the images hold the installed checkout.
"""

from __future__ import annotations

from shlex import quote

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.base import Record
from harnesstrain.taskset.swebench.diffs import touched_files
from harnesstrain.taskset.swebench.facts import era_of
from harnesstrain.taskset.swebench.patches import Patch
from harnesstrain.taskset.swebench.rows import Row
from harnesstrain.taskset.swebench.script import SCRIPT, TEST_PATCH, EvalScript, write_script

WORKDIR = "/testbed"
"""The checkout in every image."""
CONDA = "testbed"
"""The conda environment in every image."""
GRADER = 1
"""Raised when the same log could get another verdict; part of every verify key."""

_HUB = "swebench/sweb.eval.x86_64.{}:latest"
_LOCAL = "sweb.eval.x86_64.{}:latest"
_NO_TESTS = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
"""Ends of names of files that a test patch brings along and no runner is given."""


class Spec(Record):
    """How one instance is evaluated."""

    instance_id: str
    image: str
    """Published image, x86-64."""
    local_image: str
    """What the same image is called when it was built on the machine."""
    python: str
    test_command: str
    """Whole, with what is to be tested."""
    files: dict[str, bytes]
    """The verifier's own files by name: the script and the test patch."""
    tests: tuple[tuple[str, ...], tuple[str, ...]]
    """The tests that must pass now, and those that must go on passing."""

    def verify_key(self, patch: Patch) -> str:
        """Digest of all that decides the grade of a change: image, verifier, expected tests, the patch's bytes."""
        return digest(
            {
                "grader": GRADER,
                "image": self.image,
                "files": {name: digest_bytes(data) for name, data in self.files.items()},
                "tests": self.tests,
                "patch": patch.digest,
            }
        )


def task_spec(row: Row) -> Spec:
    """The spec of a row that is to be a task.  Raises ConfigError as `spec_of`, and without a problem statement."""
    if not row.instruction.strip():
        raise ConfigError(f"{row.instance_id} has no problem_statement", hint="take the published rows")
    return spec_of(row)


def spec_of(row: Row) -> Spec:
    """The spec of a row.  Raises ConfigError: unknown repository or version, columns that are missing."""
    era = era_of(row.repo, row.version)
    for name in ("base_commit", "test_patch"):
        if not getattr(row, name):
            raise ConfigError(f"{row.instance_id} has no {name}", hint="take the rows of the published data set")
    if "\0" in row.test_patch:
        raise ConfigError(f"the test_patch of {row.instance_id} has a NUL", hint="binary files come in git's own form")
    command = " ".join((era.test, *directives(row)))
    evaluation = EvalScript(
        instance_id=row.instance_id,
        workdir=WORKDIR,
        conda=CONDA,
        base_commit=row.base_commit,
        setup=era.setup,
        install=era.install,
        test=command,
        touched=touched_files(row.test_patch),
    )
    name = row.instance_id.lower()
    return Spec(
        instance_id=row.instance_id,
        image=_HUB.format(name.replace("__", "_1776_")),
        local_image=_LOCAL.format(name),
        python=era.python,
        test_command=command,
        files={SCRIPT: write_script(evaluation), TEST_PATCH: row.test_patch.encode("utf-8")},
        tests=(row.fail_to_pass, row.pass_to_pass),
    )


def directives(row: Row) -> tuple[str, ...]:
    """What the test command is given: the files of the test patch, for Django as modules.  Quoted for a shell."""
    paths = [path for file in touched_files(row.test_patch) if (path := file.new or file.old)]
    chosen = [path for path in paths if not path.endswith(_NO_TESTS)]
    if row.repo == "django/django":
        chosen = [path.removesuffix(".py").removeprefix("tests/").replace("/", ".") for path in chosen]
    return tuple(quote(path) for path in chosen)
