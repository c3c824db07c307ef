"""What each repository needs, by version: interpreter, install command, test command.  Facts, no code.

They are what the published images were made with.  The images hold an installed checkout; the install command is run
once more over a change, because some changes touch what is compiled or generated.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harnesstrain.core.errors import ConfigError


@dataclass(frozen=True)
class Era:
    """Versions of a repository that are evaluated alike."""

    versions: tuple[str, ...]
    python: str
    """major.minor, in the image's conda environment."""
    install: str
    """Shell command, run in the checkout."""
    test: str
    """Shell command; what is to be tested follows."""
    setup: tuple[str, ...] = field(default=())
    """Shell commands before it all."""


def _v(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_EDITABLE = "python -m pip install -e ."
_PYTEST = "pytest -rA"
_DJANGO = "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1"
_SYMPY = "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose"
_TOX = "tox --current-env -epy39 -v --"
_SKLEARN = "python -m pip install -v --no-use-pep517 --no-build-isolation -e ."
_LOCALE = ("export LANG=en_US.UTF-8", "export LC_ALL=en_US.UTF-8", "export LANGUAGE=en_US:en")
_MADE_LOCALE = ("sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen", *_LOCALE)

ERAS: dict[str, tuple[Era, ...]] = {
    "astropy/astropy": (
        Era(
            _v("0.1 0.2 0.3 0.4 1.1 1.2 1.3"),
            "3.6",
            "python -m pip install -e .[test] --verbose",
            "pytest -rA -vv -o console_output_style=classic --tb=no",
        ),
        Era(_v("3.0 3.1 3.2 4.1 4.2 4.3 5.0 5.1 5.2"), "3.9", "python -m pip install -e .[test] --verbose", _PYTEST),
        Era(_v("v5.3"), "3.10", "python -m pip install -e .[test] --verbose", _PYTEST),
    ),
    "django/django": (
        Era(_v("1.4 1.5 1.6"), "3.5", "python setup.py install", _DJANGO),
        Era(
            _v("1.7 1.8 1.10 1.11 2.0 2.1 2.2"),
            "3.5",
            "python setup.py install",
            _DJANGO,
            (*_LOCALE, "export PYTHONIOENCODING=utf8"),
        ),
        Era(
            _v("1.9"),
            "3.5",
            "python setup.py install",
            "./tests/runtests.py --verbosity 2",
            (*_LOCALE, "export PYTHONIOENCODING=utf8"),
        ),
        Era(_v("3.0 3.1 3.2"), "3.6", _EDITABLE, _DJANGO, _MADE_LOCALE),
        Era(_v("4.0"), "3.8", _EDITABLE, _DJANGO),
        Era(_v("4.1 4.2"), "3.9", _EDITABLE, _DJANGO),
        Era(_v("5.0 5.1 5.2"), "3.11", _EDITABLE, _DJANGO),
    ),
    "matplotlib/matplotlib": (
        Era(
            _v("1.0 1.1 1.2 1.3 1.4 1.5 2.0 2.1 2.2"),
            "3.5",
            "python setup.py build; python setup.py install",
            _PYTEST,
        ),
        Era(_v("3.0"), "3.7", _EDITABLE, _PYTEST),
        Era(_v("3.1 3.2 3.3 3.4"), "3.8", _EDITABLE, _PYTEST),
        Era(_v("3.5 3.6 3.7"), "3.11", _EDITABLE, _PYTEST),
        Era(_v("3.8 3.9"), "3.11", 'python -m pip install --no-build-isolation -e ".[dev]"', _PYTEST),
    ),
    "mwaskom/seaborn": (
        Era(_v("0.11"), "3.9", _EDITABLE, "pytest --no-header -rA"),
        Era(_v("0.12 0.13 0.14"), "3.9", "python -m pip install -e .[dev]", "pytest --no-header -rA"),
    ),
    "pallets/flask": (
        Era(_v("2.0"), "3.9", _EDITABLE, _PYTEST),
        Era(_v("2.1"), "3.10", _EDITABLE, _PYTEST),
        Era(_v("2.2 2.3 3.0 3.1"), "3.11", _EDITABLE, _PYTEST),
    ),
    "psf/requests": (
        Era(
            _v(
                "0.7 0.8 0.9 0.11 0.13 0.14 1.1 1.2 2.0 2.2 2.3 2.4 2.5 2.7 2.8 2.9 2.10 2.11 2.12 2.17 2.18 2.19 2.22 "
                "2.25 2.26 2.27 2.31 3.0"
            ),
            "3.9",
            "python -m pip install .",
            _PYTEST,
        ),
    ),
    "pydata/xarray": (
        Era(_v("0.12 0.18 0.19 0.20 2022.03 2022.06 2022.09 2023.07 2024.05"), "3.10", _EDITABLE, _PYTEST),
    ),
    "pylint-dev/pylint": (
        Era(_v("2.8 2.9 2.10 2.11 2.13 2.14 2.15 2.16 2.17 3.0 3.1 3.2 3.3 4.0"), "3.9", _EDITABLE, _PYTEST),
    ),
    "pytest-dev/pytest": (
        Era(
            _v("4.4 4.5 4.6 5.0 5.1 5.2 5.3 5.4 6.0 6.2 6.3 7.0 7.1 7.2 7.4 8.0 8.1 8.2 8.3 8.4"),
            "3.9",
            _EDITABLE,
            _PYTEST,
        ),
    ),
    "scikit-learn/scikit-learn": (
        Era(_v("0.20 0.21 0.22"), "3.6", _SKLEARN, _PYTEST),
        Era(_v("1.3 1.4 1.5 1.6"), "3.9", _SKLEARN, _PYTEST),
    ),
    "sphinx-doc/sphinx": (
        Era(
            _v(
                "1.5 1.6 1.7 1.8 2.0 2.1 2.2 2.3 2.4 3.0 3.1 3.2 3.3 3.4 3.5 4.0 4.1 4.2 4.3 4.4 4.5 5.0 5.1 5.2 5.3 "
                "6.0 6.2 7.0 7.1 7.2 7.3 7.4"
            ),
            "3.9",
            "python -m pip install -e .[test]",
            _TOX,
        ),
        Era(_v("8.0 8.1"), "3.10", "python -m pip install -e .[test]", _TOX),
    ),
    "sympy/sympy": (
        Era(_v("0.7 1.0 1.1 1.2 1.4 1.5 1.6 1.7 1.8 1.9 1.10 1.11 1.12 1.13 1.14"), "3.9", _EDITABLE, _SYMPY),
    ),
}
"""By repository, oldest first."""


def era_of(repo: str, version: str) -> Era:
    """How a version is evaluated.  Raises ConfigError for an unknown repository or version."""
    if repo not in ERAS:
        known = ", ".join(ERAS)
        raise ConfigError(f"nothing is known of the repository '{repo}'", hint=f"known: {known}")
    for era in ERAS[repo]:
        if version in era.versions:
            return era
    known = " ".join(one for era in ERAS[repo] for one in era.versions)
    raise ConfigError(f"nothing is known of {repo} {version or 'without a version'}", hint=f"known: {known}")
