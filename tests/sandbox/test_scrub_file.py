"""A user's own scrub rules: read strictly, proven on their examples, in force after the shipped ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError
from harnesstrain.sandbox import scrub, scrub_proof
from harnesstrain.sandbox.scrub_file import read_rules
from harnesstrain.sandbox.scrub_proposal import propose

GOOD = r"""
[[rule]]
name = "build-id"
pattern = '(build id: )[0-9a-f]{8,}'
replacement = '\1<ID>'
reason = "the build numbers itself"
matches = [{ text = "build id: 0a1b2c3d", scrubbed = "build id: <ID>" }]
ignores = ["0a1b2c3d"]
"""


@pytest.fixture
def shipped() -> Iterator[str]:
    """The version of the shipped rules; they alone are in force again afterwards."""
    yield scrub.version()
    scrub.use(())


def written(place: Path, text: str) -> Path:
    path = place / "scrub.toml"
    path.write_text(text)
    return path


def test_rules_of_ones_own_join_in_and_change_the_version(tmp_path: Path, shipped: str) -> None:
    text = b"at 2026-11-30T09:27:46Z build id: 0a1b2c3d4e"
    assert scrub.scrub(text) == b"at <STAMP> build id: 0a1b2c3d4e"
    scrub.use(read_rules(written(tmp_path, GOOD)))
    assert scrub.scrub(text) == b"at <STAMP> build id: <ID>"
    assert scrub.version() != shipped
    assert [rule.name for rule in scrub.rules_in_force()][-1] == "build-id"
    scrub.use(())
    assert scrub.version() == shipped


def test_a_rule_may_be_of_one_command(tmp_path: Path, shipped: str) -> None:
    text = GOOD.replace('scrubbed = "build id: <ID>" }', 'scrubbed = "build id: <ID>", command = "make all" }')
    scrub.use(read_rules(written(tmp_path, text + "command = '^make\\b'\nneeds = ['build']\n")))
    assert scrub.scrub(b"build id: 0a1b2c3d", "make all") == b"build id: <ID>"
    assert scrub.scrub(b"build id: 0a1b2c3d", "cat x") == b"build id: 0a1b2c3d"


def test_what_is_proposed_can_be_pasted_and_mends_the_fork(tmp_path: Path, shipped: str) -> None:
    one, other = "made 'it' on port 43121, pid 7\n", "made 'it' on port 50112, pid 9\n"
    found = propose(one, other)
    assert found.rule is not None
    scrub.use(read_rules(written(tmp_path, found.rule)))
    assert scrub.scrub(one.encode()) == scrub.scrub(other.encode())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("[[rule]]", "[[rules]]"), "unknown key 'rules'"),
        (("[[rule]]", "[rule]"), "'rule' is no list of tables"),
        (("{8,}", "{8,"), "must become"),
        (("(build", "((build"), "rule 'build-id': pattern is no regular expression"),
        (("\\1<ID>", "\\2<ID>"), "the replacement does not fit the pattern"),
        (('ignores = ["0a', 'ignores = ["build id: 0a'), "it changes 'build id: 0a1b2c3d'"),
        (('ignores = ["0a1b2c3d"]', ""), "rule 'build-id': ignores: Field required"),
        (("reason", "raison"), "rule 'build-id'"),
        (("build id: <ID>", "build id: <IT>"), "must become 'build id: <IT>', is 'build id: <ID>'"),
        (('name = "build-id"', "name = 3"), "rule 1: name"),
        (("'(build", "(build"), "not TOML"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    text = GOOD.replace(*change)
    with pytest.raises(ConfigError) as raised:
        read_rules(written(tmp_path, text))
    assert why in raised.value.message
    assert "\n" not in raised.value.message and raised.value.hint


def test_two_rules_of_one_name_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two rules are named 'build-id'"):
        read_rules(written(tmp_path, GOOD + GOOD))
    with pytest.raises(ConfigError, match="cannot read the scrub file"):
        read_rules(tmp_path / "none.toml")


def test_a_rule_must_leave_alone_what_it_wrote(tmp_path: Path) -> None:
    text = """
[[rule]]
name = "longer"
pattern = 'x'
replacement = 'xx'
reason = "none"
matches = [{ text = "x", scrubbed = "xx" }]
ignores = ["y"]
"""
    with pytest.raises(ConfigError, match="it changes what it wrote: 'xx'"):
        read_rules(written(tmp_path, text))


def test_a_pattern_that_takes_for_ever_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub_proof, "LIMIT", 4.0)
    endless = GOOD.replace("build-id", "endless").replace("(build id: )[0-9a-f]{8,}", "(build id: )?(a+)+b(x?)")
    endless = endless.replace('"build id: 0a1b2c3d"', '"build id: aab"').replace("0a1b2c3d", "a" * 60)
    with pytest.raises(ConfigError) as caught:
        read_rules(written(tmp_path, GOOD + endless))
    assert "rule 'endless'" in caught.value.message and "did not come to an end" in caught.value.message
    assert "\n" not in caught.value.message
