"""What each repository's runner prints → results by test id."""

from __future__ import annotations

import pytest

from harnesstrain.core.errors import ConfigError
from harnesstrain.taskset.swebench.parsers import PARSERS, parser_of


def results(repo: str, *lines: str) -> dict[str, str]:
    return {test: str(result) for test, result in parser_of(repo)("\n".join(lines)).items()}


def test_there_is_one_for_each_python_repository() -> None:
    assert len(PARSERS) == 12
    with pytest.raises(ConfigError, match="no parser for the logs of 'x/y'"):
        parser_of("x/y")


@pytest.mark.parametrize("repo", ["pallets/flask", "pydata/xarray", "pytest-dev/pytest", "matplotlib/matplotlib"])
def test_pytest(repo: str) -> None:
    assert results(
        repo,
        "PASSED t.py::a",
        "PASSED t.py::b[x y]",
        "FAILED t.py::c - AssertionError: assert 1 == 2",
        "ERROR t.py::d - fixture 'e' not found",
        "XFAIL t.py::e - reason",
        "SKIPPED t.py::f",
        "SKIPPED [3] t.py:3: unconditional skip",
        "PASSED",
        "PASSEDx t.py::g",
        "  PASSED t.py::h",
        "t.py::i PASSED",
        "FAILED t.py::a",
    ) == {
        "t.py::a": "FAILED",
        "t.py::b[x": "PASSED",
        "t.py::c": "FAILED",
        "t.py::d": "ERROR",
        "t.py::e": "XFAIL",
        "t.py::f": "SKIPPED",
    }


def test_matplotlib_buttons_are_numbers() -> None:
    assert results("matplotlib/matplotlib", "PASSED t.py::p[MouseButton.LEFT-MouseButton.RIGHT]") == {
        "t.py::p[1-3]": "PASSED"
    }


@pytest.mark.parametrize("repo", ["psf/requests", "pylint-dev/pylint"])
def test_path_parameters_are_shortened(repo: str) -> None:
    assert results(
        repo,
        "PASSED t.py::a[/testbed/tests/data/x.py]",
        "PASSED t.py::b[//host/x]",
        "PASSED t.py::c[/glob/*.py]",
        "PASSED t.py::d[plain]",
        "PASSED t.py::e[/cut",
    ) == {
        "t.py::a[/x.py]": "PASSED",
        "t.py::b[//host/x]": "PASSED",
        "t.py::c[/glob/*.py]": "PASSED",
        "t.py::d[plain]": "PASSED",
        "t.py::e[/cut": "PASSED",
    }


@pytest.mark.parametrize("repo", ["astropy/astropy", "scikit-learn/scikit-learn", "sphinx-doc/sphinx"])
def test_later_pytest_keeps_whole_ids_and_reads_both_orders(repo: str) -> None:
    assert results(
        repo,
        "\x1b[32mPASSED\x1b[0m t.py::\x1b[1ma\x1b[0m",
        "PASSED t.py::b[x - y z]",
        "FAILED t.py::c[x - y] - ValueError: 1 - 2",
        "FAILED t.py::k[( - - - - -",
        "ERROR t.py - ImportError: no",
        "XFAIL t.py::e - some reason",
        "t.py::f[a b] PASSED",
        "t.py::g FAILED",
        "t.py::h PASSED [ 10%]",
        "SKIPPED [1] t.py:3: no",
    ) == {
        "t.py::a": "PASSED",
        "t.py::b[x - y z]": "PASSED",
        "t.py::c[x - y]": "FAILED",
        "t.py::k[(": "FAILED",
        "t.py": "ERROR",
        "t.py::e": "XFAIL",
        "t.py::f[a b]": "PASSED",
        "t.py::g": "FAILED",
    }


def test_seaborn_reads_progress_too() -> None:
    assert results(
        "mwaskom/seaborn",
        "t.py::a PASSED                      [ 10%]",
        "PASSED t.py::b",
        "FAILED t.py::c - boom",
        "SKIPPED t.py::d",
    ) == {"t.py::a": "PASSED", "t.py::b": "PASSED", "t.py::c": "FAILED"}


def test_sympy() -> None:
    assert results(
        "sympy/sympy",
        "sympy/core/tests/test_x.py[5] ",
        "test_a ok",
        "test_b F",
        "test_c E",
        "test_d f",
        "test_e ok                                  [OK]",
        "________________ sympy/core/tests/test_x.py:test_b ________________",
    ) == {"test_a": "PASSED", "test_b": "FAILED", "test_c": "ERROR", "sympy/core/tests/test_x.py:test_b": "FAILED"}


def test_django() -> None:
    assert results(
        "django/django",
        "test_a (m.C) ... ok",
        "test_b (m.C)",
        "The docstring's first line. ... ok",
        "test_c (m.C) ... skipped 'no'",
        "test_d (m.C) ... FAIL",
        "test_e (m.C) ... ERROR",
        "test_f (m.C) ... expected failure",
        "FAIL: test_d (m.C)",
        "ERROR: test_e (m.C)",
        "  Applying sites.0001_initial... OK",
        "  Applying sites.0002_alter_domain_unique...test_no_migrations (m.C) ... ok",
    ) == {
        "test_a (m.C)": "PASSED",
        "The docstring's first line.": "PASSED",
        "test_c (m.C)": "SKIPPED",
        "test_d (m.C)": "FAILED",
        "test_e (m.C)": "ERROR",
        "test_d": "FAILED",
        "test_e": "ERROR",
        "test_no_migrations (m.C)": "PASSED",
    }


def test_django_lines_torn_by_what_tests_print() -> None:
    assert results(
        "django/django",
        "test_a (m.C) ... Internal Server Error: /x/",
        "ok",
        "test_b (m.C) ... Testing against Django installed in '/x' with up to 4 processes",
        "Creating ... something",
        "System check identified no issues (0 silenced).",
        "ok",
        "test_c (m.C) ... noise",
        "test_d (m.C) ... ok",
        "--version is equivalent to version ... 4.0",
    ) == {
        "test_a (m.C)": "PASSED",
        "test_b (m.C)": "PASSED",
        "Creating": "PASSED",
        "test_d (m.C)": "PASSED",
        "--version is equivalent to version": "PASSED",
    }
