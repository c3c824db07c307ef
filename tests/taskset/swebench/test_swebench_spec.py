"""A row → image, commands, files; and the script in a real checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError
from harnesstrain.taskset.swebench import grade_log, patch_of, read_rows, spec_of
from harnesstrain.taskset.swebench.diffs import Touched, touched_files
from harnesstrain.taskset.swebench.facts import ERAS, era_of
from harnesstrain.taskset.swebench.parsers import PARSERS
from harnesstrain.taskset.swebench.script import EvalScript, write_script
from tests.taskset.swebench.conftest import make_row

DIFF = """\
diff --git a/tests/a/test_x.py b/tests/a/test_x.py
index 111..222 100644
--- a/tests/a/test_x.py
+++ b/tests/a/test_x.py
@@ -1 +1 @@
-old
+new file mode
diff --git a/tests/new dir/data.json b/tests/new dir/data.json
new file mode 100644
--- /dev/null
+++ b/tests/new dir/data.json
@@ -0,0 +1 @@
+{}
diff --git a/tests/gone.py b/tests/gone.py
deleted file mode 100644
--- a/tests/gone.py
+++ /dev/null
diff --git a/tests/from.py b/tests/to.py
similarity index 90%
rename from tests/from.py
rename to tests/to.py
diff --git "a/tests/\\303\\251.py" "b/tests/\\303\\251.py"
new file mode 100644
diff --git a/tests/pic.png b/tests/pic.png
new file mode 100644
GIT binary patch
"""


def test_touched_files() -> None:
    assert touched_files(DIFF) == (
        Touched("tests/a/test_x.py", "tests/a/test_x.py"),
        Touched(None, "tests/new dir/data.json"),
        Touched("tests/gone.py", None),
        Touched("tests/from.py", "tests/to.py"),
        Touched(None, "tests/é.py"),
        Touched(None, "tests/pic.png"),
    )
    assert touched_files("no diff\n") == ()
    assert touched_files(DIFF.replace("\n", "\r\n"))[:2] == touched_files(DIFF)[:2]


def test_spec() -> None:
    row = make_row("pallets/flask", version="2.3", base_commit="c" * 40, test_patch=DIFF)
    spec = spec_of(row)
    assert spec.image == "swebench/sweb.eval.x86_64.pallets_1776_flask-1:latest"
    assert spec.local_image == "sweb.eval.x86_64.pallets__flask-1:latest"
    assert spec.python == "3.11"
    assert spec.test_command == "pytest -rA tests/a/test_x.py tests/gone.py tests/to.py 'tests/é.py'"
    assert spec.files["test.patch"] == DIFF.encode()
    script = spec.files["eval.sh"].decode()
    assert f"git checkout -q {'c' * 40} -- tests/a/test_x.py tests/gone.py tests/from.py || return 1" in script
    assert "rm -rf -- 'tests/new dir/data.json' tests/to.py 'tests/é.py' tests/pic.png" in script
    django = spec_of(make_row("django/django", version="3.0", base_commit="c", test_patch=DIFF))
    assert django.test_command.endswith("--parallel 1 a.test_x gone to 'é'")
    assert "export LANG=en_US.UTF-8" in django.files["eval.sh"].decode()


def test_the_script_has_unix_line_ends_and_the_patch_keeps_its_own() -> None:
    spec = spec_of(make_row(version="2.3", base_commit="c", test_patch=DIFF.replace("\n", "\r\n")))
    assert b"\r" not in spec.files["eval.sh"]
    assert spec.files["test.patch"].count(b"\r\n") == DIFF.count("\n")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"version": "9.9"}, "nothing is known of pallets/flask 9.9"),
        ({}, "nothing is known of pallets/flask without a version"),
        ({"repo": "x/y", "version": "1"}, "nothing is known of the repository 'x/y'"),
        ({"version": "2.3"}, "pallets__flask-1 has no base_commit"),
        ({"version": "2.3", "base_commit": "c"}, "pallets__flask-1 has no test_patch"),
        ({"version": "2.3", "base_commit": "c", "test_patch": "\0"}, "has a NUL"),
    ],
)
def test_rows_that_have_no_spec(more: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        spec_of(make_row(**more))
    assert why in caught.value.message
    assert caught.value.hint


def test_the_verify_key_covers_what_decides_a_grade() -> None:
    def key(change: bytes = b"x\n", **more: str) -> str:
        row = make_row(**{"version": "2.3", "base_commit": "c", "test_patch": DIFF, **more})
        return spec_of(row).verify_key(patch_of(change))

    assert key() == key(b"x") == key(problem_statement="other", difficulty="hard", patch="other")
    different = {
        key(),
        key(b"x \n"),
        key(b""),
        key(base_commit="d"),
        key(test_patch=DIFF + " "),
        key(PASS_TO_PASS="[]"),
        key(version="2.0"),
        key(instance_id="pallets__flask-2"),
    }
    assert len(different) == 7, "two versions with the same commands are evaluated alike"


def test_every_repository_with_a_parser_has_facts() -> None:
    assert set(ERAS) == set(PARSERS)
    for repo, eras in ERAS.items():
        versions = [version for era in eras for version in era.versions]
        assert len(versions) == len(set(versions)), repo
    assert era_of("sympy/sympy", "1.12").test.endswith("bin/test -C --verbose")


def test_real_rows_have_specs(real: Path) -> None:
    for row in read_rows(real / "verified-10.jsonl").values():
        spec = spec_of(row)
        assert spec.test_command
        parsed = subprocess.run(["bash", "-n"], input=spec.files["eval.sh"], capture_output=True, check=False)
        assert (parsed.returncode, parsed.stderr) == (0, b""), row.instance_id


TESTS = "from calc import add\n\ndef test_old():\n    assert add(0, 0) == 0\n"
NEW = """\
diff --git a/test_calc.py b/test_calc.py
--- a/test_calc.py
+++ b/test_calc.py
@@ -2,3 +2,6 @@

 def test_old():
     assert add(0, 0) == 0
+
+def test_new():
+    assert add(1, 2) == 3
diff --git a/test_more.py b/test_more.py
new file mode 100644
--- /dev/null
+++ b/test_more.py
@@ -0,0 +1,2 @@
+def test_more():
+    pass
"""


@pytest.mark.parametrize(
    ("calc", "status"),
    [("return a + b", "resolved"), ("return a - b", "unresolved"), ("return (", "unresolved")],
)
def test_the_script_in_a_real_checkout(tmp_path: Path, calc: str, status: str) -> None:
    checkout = tmp_path / "testbed"
    checkout.mkdir()
    git = ["git", "-c", "user.name=u", "-c", "user.email=u@example.org", "-C", str(checkout)]
    (checkout / "calc.py").write_text("def add(a, b):\n    return 0\n")
    (checkout / "test_calc.py").write_text(TESTS)
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "base"]):
        subprocess.run([*git, *arguments], check=True)
    base = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    (checkout / "calc.py").write_text(f"def add(a, b):\n    {calc}\n")
    (checkout / "test_calc.py").write_text("def test_new(): pass\ndef test_old(): pass\n")
    (checkout / "test_more.py").write_text("print('PASSED test_calc.py::test_new')\n")
    made_of = EvalScript(
        instance_id="x__y-1",
        workdir=str(checkout),
        conda="testbed",
        base_commit=base,
        setup=("export PYTHONDONTWRITEBYTECODE=1",),
        install="echo '>>>>> End Test Output'; exit 3",
        test=f"{sys.executable} -m pytest -rA -p no:cacheprovider test_calc.py test_more.py",
        touched=touched_files(NEW),
    )
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "eval.sh").write_bytes(write_script(made_of))
    (tests / "test.patch").write_text(NEW)
    done = subprocess.run(
        ["bash", str(tests / "eval.sh")],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    row = make_row(fail=("test_calc.py::test_new",), keep=("test_calc.py::test_old", "test_more.py::test_more"))
    verdict = grade_log(row, done.stdout)
    assert verdict.status == status, done.stdout
    assert "the install command exited 3" in done.stdout
    assert (checkout / "test_calc.py").read_text() == TESTS
    assert not (checkout / "test_more.py").exists()
