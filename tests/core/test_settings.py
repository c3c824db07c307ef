"""Layers, origins, did-you-mean and the refusal of secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError, UsageError
from harnesstrain.core.records.run import Budgets
from harnesstrain.core.sections import BudgetsSection
from harnesstrain.core.settings import Settings, declared, load


def project(folder: Path, text: str) -> Path:
    (folder / "ht.toml").write_text(text, encoding="utf-8")
    return folder


def test_defaults_hold_without_any_file(tmp_path: Path) -> None:
    settings = load(tmp_path, {}, {})
    assert settings.root == tmp_path.resolve()
    assert settings.file is None
    assert settings.measure.jobs == 2
    assert settings.llm.sampling.seed == 12345
    assert settings.llm.sampling.max_tokens == 192
    assert settings.store_location == tmp_path.resolve() / ".ht"
    assert settings.origin("measure.jobs").layer == "default"


def test_each_layer_beats_the_one_below_and_keeps_its_origin(tmp_path: Path) -> None:
    user = tmp_path / "user.toml"
    user.write_text("[measure]\njobs = 3\nretries = 4\n[loop]\ncriterion = 'total-solves'\n", encoding="utf-8")
    project(tmp_path, "[measure]\n# how many\njobs = 5\ncache = 'read'\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    env = {"HT_JOBS": "6", "HT_CACHE": "off", "UNRELATED": "1"}
    settings = load(below, env, {"measure.jobs": 7, "measure.cache": None}, user)
    assert settings.measure.jobs == 7
    assert settings.measure.cache == "off"
    assert settings.measure.retries == 4
    assert settings.loop.criterion == "total-solves"
    assert str(settings.origin("measure.jobs")) == "flag"
    assert str(settings.origin("measure.cache")) == "env HT_CACHE"
    assert str(settings.origin("measure.retries")) == f"user {user}:3"
    assert load(below, {}, {}).origin("measure.jobs").place == f"{tmp_path.resolve() / 'ht.toml'}:3"


def test_the_nearest_parent_wins(tmp_path: Path) -> None:
    project(tmp_path, "[measure]\njobs = 5\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    project(inner, "[measure]\nretries = 0\n")
    settings = load(inner, {}, {})
    assert settings.measure.jobs == 2
    assert settings.measure.retries == 0
    chosen = load(inner, {}, {}, file=tmp_path / "ht.toml")
    assert chosen.measure.jobs == 5
    assert chosen.root == tmp_path.resolve()


@pytest.mark.parametrize(
    ("text", "line", "says", "hint"),
    [
        ("[measure]\njob = 5\n", 2, "unknown setting 'measure.job'", "did you mean 'measure.jobs'?"),
        ("[mesure]\njobs = 5\n", 2, "unknown setting 'mesure.jobs'", "did you mean 'measure.jobs'?"),
        ("[llm.samplings]\n\nseed = 5\n", 3, "unknown setting", "did you mean 'llm.sampling.seed'?"),
        ("[wholly.other]\nx = 1\n", 2, "unknown setting 'wholly.other.x'", "`ht config` lists every setting"),
        ("[nothing]\n", 1, "unknown setting 'nothing'", "`ht config` lists every setting"),
        ("measure = 3\n", 1, "'measure' is a table", "write [measure] and its settings below"),
        ("estimator.patches = 'x'\n", 1, "'estimator.patches' is a table", "write [estimator.patches]"),
        ("[measure]\njobs = 'two'\n", 2, "measure.jobs should be a valid integer, got 'two'", "`ht config`"),
        ("[measure]\njobs = 0\n", 2, "measure.jobs should be greater than or equal to 1, got 0", "`ht config`"),
        ("[measure]\njobs = 2.5\n", 2, "measure.jobs should be a valid integer", "`ht config`"),
        ("[measure]\njobs = true\n", 2, "measure.jobs should be a valid integer, got True", "`ht config`"),
        ("[measure]\njobs = 1979-05-27\n", 2, "measure.jobs cannot be a date or time", "`ht config`"),
        ("[measure]\ncache = 'yes'\n", 2, "measure.cache should be 'on', 'read', 'write' or 'off'", "`ht config`"),
        ("[loop]\ncertify = 'yes'\n", 2, "loop.certify should be a valid boolean", "`ht config`"),
        ("[budgets]\ntime = nan\n", 2, "budgets.time should be", "`ht config`"),
        ("[llm]\nurl = 'http://me:hunter2@host/v1'\n", 2, "llm.url must not contain a password", "`ht config`"),
        ("[store]\nurl = 'postgresql://u:hunter2@h/db'\n", 2, "store.url must not contain a password", "`ht config`"),
        ("[store]\nurl = 'shared'\n", 2, "store.url must be a database URL", "`ht config`"),
        ("[store]\nurl = '/srv/ht'\n", 2, "a directory is store.path", "`ht config`"),
        ("[measure]\njobs = \n", 2, "Invalid value", "correct the TOML"),
    ],
)
def test_a_bad_file_is_one_line_with_place_and_hint(tmp_path: Path, text: str, line: int, says: str, hint: str) -> None:
    project(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {}, {})
    message = caught.value.message
    assert message.startswith(f"{tmp_path.resolve() / 'ht.toml'}:{line}: ")
    assert says in message
    assert hint in (caught.value.hint or "")
    assert "\n" not in message
    assert "hunter2" not in message
    assert caught.value.exit_code == 2


def test_a_file_that_is_not_utf8_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "ht.toml").write_bytes(b"[measure]\njobs = 2\n# \xff\n")
    with pytest.raises(ConfigError, match=r"ht\.toml:3: not UTF-8"):
        load(tmp_path, {}, {})


def test_a_missing_explicit_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path, {}, {}, file=tmp_path / "other.toml")


@pytest.mark.parametrize(
    "value",
    [
        "sk-proj-abcdef123456",
        "hf_AbCdEf",
        "ghp_16C7e42F292c6912E7",
        "Q9x8w7v6u5t4s3r2q1p0",
        "AKIAIOSFODNN7EXAMPLE",
        "a b",
        "",
    ],
)
def test_a_value_that_looks_like_a_key_is_refused_and_not_echoed(tmp_path: Path, value: str) -> None:
    project(tmp_path, f"[llm]\napi_key_env = '{value}'\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {}, {})
    assert "name of an environment variable" in caught.value.message
    assert not value or value not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("value", ["OPENAI_API_KEY", "HF_TOKEN_2", "my_key", "KEY", "AZURE_OPENAI_API_KEY_V2"])
def test_the_name_of_a_variable_is_accepted(tmp_path: Path, value: str) -> None:
    project(tmp_path, f"[llm]\napi_key_env = '{value}'\n")
    assert load(tmp_path, {}, {}).llm.api_key_env == value


def test_environment_text_is_parsed_and_its_faults_name_the_variable(tmp_path: Path) -> None:
    env = {"HT_CERTIFY": "false", "HT_TEMPERATURE": "0.5", "HT_JOBS": ""}
    settings = load(tmp_path, env, {})
    assert settings.loop.certify is False
    assert settings.llm.sampling.temperature == 0.5
    assert settings.origin("measure.jobs").layer == "default"
    with pytest.raises(ConfigError, match="HT_JOBS: measure.jobs should be a valid integer"):
        load(tmp_path, {"HT_JOBS": "many"}, {})


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ('["a", "b"]', ("a", "b")),
        ("['a,b', \"c\"]", ("a,b", "c")),
        ('[\n  "a",\n]', ("a",)),
        ("[INST]", ("[INST]",)),
        ("[INST], [/INST]", ("[INST]", "[/INST]")),
    ],
)
def test_a_list_may_be_written_as_in_the_file(tmp_path: Path, text: str, stop: tuple[str, ...]) -> None:
    assert load(tmp_path, {}, {"llm.sampling.stop": text}).llm.sampling.stop == stop
    assert load(tmp_path, {"HT_VERIFIER_ENV": text}, {}).sandbox.verifier_env == stop


@pytest.mark.parametrize("text", ['["a"', '["a"] more', '["a"]\nx = "b"', '["a", 1]'])
def test_what_is_no_list_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        load(tmp_path, {}, {"llm.sampling.stop": text})


def test_flags_may_be_text_and_their_faults_are_usage(tmp_path: Path) -> None:
    settings = load(tmp_path, {}, {"llm.sampling.stop": "a, b", "budgets.steps": "4", "sandbox.cpus": 2})
    assert settings.llm.sampling.stop == ("a", "b")
    assert settings.budgets.steps == 4
    assert settings.sandbox.limits().cpus == 2.0
    with pytest.raises(UsageError, match="budgets.steps should be"):
        load(tmp_path, {}, {"budgets.steps": 0})
    with pytest.raises(UsageError, match="unknown setting 'budgets.step'"):
        load(tmp_path, {}, {"budgets.step": 1})


def test_paths_belong_to_the_place_that_wrote_them(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    home.mkdir()
    user = home / "user.toml"
    user.write_text("[llm]\nscript = 'replies.json'\n", encoding="utf-8")
    project(work, "[store]\npath = 'records'\n[panel]\npath = '../mine.toml'\n[estimator.patches]\ndir = 'p'\n")
    settings = load(work / "sub", {}, {}, user)
    assert settings.llm.script == home.resolve() / "replies.json"
    assert settings.store_location == work.resolve() / "records"
    assert settings.panel.chosen == str(work.resolve() / ".." / "mine.toml")
    assert settings.resolve(settings.estimator["patches"]["dir"]) == work.resolve() / "p"
    flagged = load(work / "sub", {"HT_PANEL": "quick"}, {"store.path": "here"}, user)
    assert flagged.store_location == work.resolve() / "sub" / "here"
    assert flagged.panel.chosen == "quick"


def test_a_layer_that_names_a_directory_hides_a_database_below_it(tmp_path: Path) -> None:
    project(tmp_path, "[store]\nurl = 'postgresql://host/ht'\n")
    assert load(tmp_path, {}, {}).store_location == "postgresql://host/ht"
    assert load(tmp_path, {"HT_STORE": "x"}, {}).store_location == tmp_path.resolve() / "x"


def test_estimator_tables_are_free_form_and_merge_by_key(tmp_path: Path) -> None:
    user = tmp_path / "user.toml"
    user.write_text("[estimator.agent]\ncommand = ['a']\nmodel = 'small'\n", encoding="utf-8")
    project(tmp_path, "[estimator.agent]\nmodel = 'large'\nenv = {'a.b' = 'c'}\n[estimator.'mine:Own']\n")
    settings = load(tmp_path, {}, {"estimator.agent.time_limit": 60}, user)
    assert settings.estimator == {
        "agent": {"command": ["a"], "model": "large", "env": {"a.b": "c"}, "time_limit": 60},
        "mine:Own": {},
    }
    assert settings.origin("estimator.agent.model").layer == "project"
    assert settings.origin("estimator.agent.command").layer == "user"
    assert settings.origin("estimator.agent.time_limit").layer == "flag"


@pytest.mark.parametrize("line", ["api_key = 'x'", "auth = {token = 'x'}", "api_key_env = 'sk-live-12345678'"])
def test_estimator_tables_keep_no_secret(tmp_path: Path, line: str) -> None:
    project(tmp_path, f"[estimator.llm]\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {}, {})
    assert "12345678" not in caught.value.message


def test_explain_lists_every_setting_once_with_json_values(tmp_path: Path) -> None:
    project(tmp_path, "[estimator.llm]\nmodel = 'm'\n")
    rows = load(tmp_path, {}, {}).explain()
    keys = [row.key for row in rows]
    assert len(keys) == len(set(keys))
    assert keys[:-1] == [one.key for one in declared()]
    assert keys[-1] == "estimator.llm.model"
    for row in rows:
        row.model_dump_json()
    assert all(row.help for row in rows[:-1])
    (tmp_path / "ht.toml").write_text("[estimator.llm]\n", encoding="utf-8")
    for plain in (load(tmp_path, {}, {}), load(tmp_path, {}, {}, file=tmp_path / "ht.toml")):
        assert [row.key for row in plain.explain()] == keys[:-1]
    (tmp_path / "ht.toml").unlink()
    assert [row.key for row in load(tmp_path, {}, {}).explain()] == keys[:-1]


def test_environment_variables_are_named_once_and_all_start_alike() -> None:
    named = [one.env for one in declared() if one.env]
    assert len(named) == len(set(named))
    assert all(name.startswith("HT_") for name in named)


def test_only_measured_settings_enter_the_digest_input(tmp_path: Path) -> None:
    plain = load(tmp_path, {}, {}).measured()
    assert load(tmp_path, {"HT_JOBS": "9", "HT_CACHE": "off", "HT_LLM_URL": "http://h/v1"}, {}).measured() == plain
    assert load(tmp_path, {"HT_STEPS": "9"}, {}).measured() != plain
    assert load(tmp_path, {}, {"llm.sampling.seed": 1}).measured() != plain
    assert not any(isinstance(value, Path) for value in plain.values())


def test_sections_give_the_records_of_a_regime() -> None:
    assert BudgetsSection().record() == Budgets()


def test_settings_are_frozen(tmp_path: Path) -> None:
    settings: Settings = load(tmp_path, {}, {})
    with pytest.raises(ValueError, match="frozen"):
        settings.measure.jobs = 3  # type: ignore[misc]
    with pytest.raises(UsageError, match="no setting 'measure.job'"):
        settings.origin("measure.job")


@pytest.mark.parametrize("key", [one.key for one in declared() if type(one.default) is int] + ["llm.sampling.top_k"])
def test_a_whole_number_can_be_stored_with_something_added(tmp_path: Path, key: str) -> None:
    with pytest.raises(UsageError, match=f"{key} should be less than or equal to"):
        load(tmp_path, {}, {key: "99999999999999999999999"})
    assert load(tmp_path, {}, {key: str(2**40)}).value(key) == 2**40


@pytest.mark.parametrize("url", ["postgresql://h/db", "postgresql+psycopg://me@h/db", "sqlite:////srv/.ht/store.db"])
def test_urls_of_databases_are_taken(tmp_path: Path, url: str) -> None:
    assert load(tmp_path, {"HT_STORE_URL": url}, {}).store_location == url
