"""The output of Django's test runner: `name (module.Class) ... ok`, often torn apart by what tests print.

An id is whatever stands before ` ... `: the test's name and class, or the first line of its docstring.
"""

from __future__ import annotations

_ENDS = (
    (" ... ok", "PASSED"),
    (" ... OK", "PASSED"),
    (" ...  OK", "PASSED"),
    (" ... FAIL", "FAILED"),
    (" ... ERROR", "ERROR"),
)
_HEADINGS = {"FAIL:": "FAILED", "ERROR:": "ERROR"}
_MIGRATION = "Applying sites.0002_alter_domain_unique..."
"""Progress of a migration, on whose line `test_no_migrations` goes on."""
_TORN = "--version is equivalent to version"
"""A docstring whose test always prints before its result."""
_BANNER = " ... Testing against Django installed in "
_BANNER_END = " silenced)."


def django_results(log: str) -> dict[str, str]:
    """Results by test id: PASSED, FAILED, ERROR or SKIPPED.

    A test whose line was torn passes when a later line starts with `ok`, before another test is named.
    """
    found: dict[str, str] = {}
    torn: dict[str, str] = {}
    named = banner = None
    before = ""
    for raw in log.split("\n"):
        line = raw.strip()
        if _TORN in line:
            found[_TORN] = "PASSED"
        if " ... " in line:
            named = line.split(" ... ", 1)[0]
        if _BANNER in line:
            banner = line.split(_BANNER, 1)[0]
        _read(line, found)
        if line.startswith("ok"):
            if named is not None:
                found[named] = "PASSED"
            if banner is not None and line == "ok" and before.endswith(_BANNER_END):
                torn[banner] = "PASSED"
                banner = None
        before = line
    return found | torn


def _read(line: str, found: dict[str, str]) -> None:
    """Add what a line says of one test by itself."""
    for end, result in _ENDS:
        if line.endswith(end):
            found[_name(line, end, result)] = result
            break
    if " ... skipped" in line:
        found[line.split(" ... skipped", 1)[0]] = "SKIPPED"
    for heading, result in _HEADINGS.items():
        words = line.split()
        if line.startswith(heading) and len(words) > 1:
            found[words[1]] = result


def _name(line: str, end: str, result: str) -> str:
    if result != "PASSED":
        return line.split(end, 1)[0]
    test = line[: -len(end)]
    return test.removeprefix(_MIGRATION) if test.startswith(_MIGRATION + "test_no_migrations") else test
