"""The text of the evaluation script.

It is run once, in a fresh container with the change applied, with the verifier's files beside it.  It prints the
markers that verdict.py looks for.  What the install prints is kept in a file: with no network it is noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote

from harnesstrain.taskset.swebench.diffs import Touched
from harnesstrain.taskset.swebench.verdict import END, EXIT_CODE, START

SCRIPT = "eval.sh"
TEST_PATCH = "test.patch"
RESET_FAILED = ">>>>> Reset Failed"

_TEXT = """\
#!/bin/bash
# Evaluates {instance_id}.  The test patch lies beside this script.
exec </dev/null 2>&1
here=$(cd "$(dirname "$0")" && pwd)
source /opt/miniconda3/bin/activate {conda}
cd {workdir} || exit 1
git config --global --add safe.directory {workdir}
{setup}
( {install} ) >"${{TMPDIR:-/tmp}}/ht-install.log" 2>&1 || echo "the install command exited $?"
reset() {{
  {checkout}
  {remove}
}}
if ! reset || ! git apply --whitespace=nowarn "$here/{patch}"; then
  echo '{reset_failed}'
  exit 1
fi
echo '{start}'
{test}
code=$?
echo
echo '{end}'
echo "{exit_code}: $code"
reset
"""


@dataclass(frozen=True)
class EvalScript:
    """What an evaluation script is made of."""

    instance_id: str
    workdir: str
    conda: str
    base_commit: str
    setup: tuple[str, ...]
    install: str
    test: str
    touched: tuple[Touched, ...]
    """Files of the test patch."""


def write_script(made_of: EvalScript) -> bytes:
    """The script, in bash, with \\n line ends whatever the row had."""
    old = [quote(file.old) for file in made_of.touched if file.old]
    fresh = [quote(file.new) for file in made_of.touched if file.new and file.new != file.old]
    text = _TEXT.format(
        instance_id=made_of.instance_id,
        conda=made_of.conda,
        workdir=made_of.workdir,
        setup="\n".join(made_of.setup) or ":",
        install=made_of.install,
        checkout=f"git checkout -q {quote(made_of.base_commit)} -- {' '.join(old)} || return 1" if old else ":",
        remove=f"rm -rf -- {' '.join(fresh)}" if fresh else ":",
        patch=TEST_PATCH,
        reset_failed=RESET_FAILED,
        start=START,
        test=made_of.test,
        end=END,
        exit_code=EXIT_CODE,
    )
    return text.encode("utf-8")
