"""[endpoints.NAME]: every table has the same settings, checked like the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError, UsageError
from harnesstrain.core.settings import declared_of_endpoints, load

TABLES = """\
[endpoints.big]
url = "http://example.org:8000/v1"
api_key_env = "BIG_KEY"
[endpoints."qwen2.5"]
script = "rules.jsonl"
[endpoints.empty]
"""


def test_tables_are_read_with_their_origins(tmp_path: Path) -> None:
    (tmp_path / "ht.toml").write_text(TABLES)
    user = tmp_path / "user.toml"
    user.write_text("[endpoints.big]\ndeadline = 7\nurl = 'http://hidden.example.org'\n")
    settings = load(tmp_path, {}, {"endpoints.big.context_length": "8192"}, user)
    assert list(settings.endpoints) == ["big", "qwen2.5", "empty"]
    big = settings.endpoints["big"]
    assert (big.url, big.deadline, big.context_length) == ("http://example.org:8000/v1", 7.0, 8192)
    assert settings.endpoints["qwen2.5"].script == tmp_path / "rules.jsonl"
    assert settings.value("endpoints.qwen2.5.script") == tmp_path / "rules.jsonl"
    assert str(settings.origin("endpoints.big.url")) == f"project {tmp_path}/ht.toml:2"
    assert settings.origin("endpoints.big.context_length").layer == "flag"
    rows = {one.key: one for one in settings.explain() if one.key.startswith("endpoints.")}
    assert rows["endpoints.qwen2.5.script"].measured
    assert not rows["endpoints.big.url"].measured
    assert len(rows) == 5
    assert not [key for key in settings.measured() if key.startswith("endpoints")]
    with pytest.raises(UsageError, match="no setting 'endpoints.big.model'"):
        settings.value("endpoints.big.model")


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("[endpoints.a]\nurll = 'x'\n", "unknown setting 'endpoints.a.urll'", "did you mean 'endpoints.a.url'?"),
        ("[endpoints.a]\napi_key = 'sk-1'\n", "unknown setting", "did you mean 'endpoints.a.api_key_env'?"),
        ("[endpoints.a]\napi_key_env = 'sk-secret-value'\n", "not the key itself", "`ht config` explains"),
        ("[endpoints.a]\nurl = 'http://u:secret@h/v1'\n", "must not contain a password", "`ht config` explains"),
        ("[endpoints.a]\ncontext_length = 7\n", "greater than or equal to 256", "`ht config` explains"),
        ("[endpoints.a.sampling]\ntemperature = 1.0\n", "unknown setting 'endpoints.a.sampling.temperature'", ""),
        ("[endpoints]\na = 'http://h/v1'\n", "'endpoints.a' is a table", "write [endpoints.a]"),
    ],
)
def test_a_bad_table_is_one_line_with_a_hint(tmp_path: Path, text: str, says: str, hint: str) -> None:
    (tmp_path / "ht.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {}, {})
    assert says in caught.value.message
    assert hint in (caught.value.hint or "")
    assert "secret" not in caught.value.message
    assert "sk-1" not in caught.value.message


def test_every_setting_of_a_table_says_what_it_means() -> None:
    assert [one.key for one in declared_of_endpoints()][:3] == ["engine", "url", "model"]
    assert all(one.help and one.env is None and one.default is None for one in declared_of_endpoints())
