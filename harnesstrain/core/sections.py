"""Every setting there is: one frozen section per table of `ht.toml`, each field with its default, its environment
variable (named one by one; there is no prefix rule), and whether it changes what is measured.

`measured` settings determine results.  Those with `via` do so through what they select: the endpoint's fingerprint,
the sandbox's identity, the panel's digest.  The others enter the regime by value.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Sampling
from harnesstrain.core.records.run import Budgets
from harnesstrain.core.records.sandbox import Limits

_KEY_PREFIXES = re.compile(r"(sk|pk|hf|gsk|ghp|gho|ghs|github_pat|xai)[-_]|glpat|AIza|AKIA")


def looks_like_key(text: str) -> bool:
    """Whether `text` looks like a secret rather than like the name of an environment variable."""
    if _KEY_PREFIXES.match(text) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        return True
    if text.isupper() and "_" in text:
        return False
    return len(text) >= 16 and any(c.isdigit() for c in text)


def _variable_name(text: str) -> str:
    if looks_like_key(text):
        raise ValueError("takes the name of an environment variable, not the key itself")
    return text


def _without_password(text: str) -> str:
    try:
        password = urlsplit(text).password
    except ValueError as error:
        raise ValueError(f"is not a URL: {error}") from error
    if password is not None:
        raise ValueError("must not contain a password; keep it in the environment")
    return text


def _database(text: str) -> str:
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        raise ValueError("must be a database URL, such as postgresql://HOST/NAME; a directory is store.path")
    return _without_password(text)


VariableName = Annotated[str, AfterValidator(_variable_name)]
"""The name of an environment variable that holds a secret; a value that looks like the secret is refused."""

Url = Annotated[str, AfterValidator(_without_password)]
"""A URL without a password."""

DatabaseUrl = Annotated[str, AfterValidator(_database)]
"""The URL of a database, without a password."""

LARGEST = 2**53
"""A whole number that every reader of JSON keeps exactly and every column of the store holds."""


def setting(default: Any, *, measured: bool, env: str | None = None, via: str | None = None, **constraints: Any) -> Any:
    """Declare one setting.  `constraints` are pydantic's: ge, gt, le, min_length …"""
    extra: dict[str, Any] = {"measured": measured, "env": env, "via": via}
    return Field(default=default, json_schema_extra=extra, **constraints)


class Section(Record):
    """One table of `ht.toml`."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class HarnessSection(Section):
    """[harness]: what is trained."""

    branch: str | None = setting(None, measured=False, env="HT_BRANCH", min_length=1)
    """The branch that promotions move.  Unset: the one that is checked out."""


class StoreSection(Section):
    """[store]: where records, caches and traces are kept."""

    path: Path = setting(Path(".ht"), measured=False, env="HT_STORE")
    """Directory of the store."""
    url: DatabaseUrl | None = setting(None, measured=False, env="HT_STORE_URL")
    """Database URL for the records when several machines share them.  Unset: SQLite inside `path`."""


class SamplingSection(Section):
    """[llm.sampling]: how the next token is chosen."""

    temperature: float = setting(0.0, measured=True, env="HT_TEMPERATURE", ge=0, allow_inf_nan=False)
    """0 is greedy."""
    top_p: float = setting(1.0, measured=True, gt=0, le=1)
    """Nucleus: the smallest set of tokens that holds this much probability."""
    top_k: int | None = setting(None, measured=True, ge=1, le=LARGEST)
    """Only the k likeliest tokens.  Unset: all."""
    seed: int = setting(12345, measured=True, env="HT_SEED", ge=0, le=LARGEST)
    """Added to the rollout's seed."""
    max_tokens: int = setting(192, measured=True, ge=1, le=LARGEST)
    """Completion tokens per call, at most."""
    stop: tuple[str, ...] = setting((), measured=True)
    """Texts that end a completion."""
    reasoning_effort: str | None = setting(None, measured=True)
    """Passed through to endpoints that know it."""

    def record(self) -> Sampling:
        """The regime's sampling."""
        return Sampling(**self.model_dump())


class LlmSection(Section):
    """[llm]: the frozen model."""

    engine: str = setting("auto", measured=True, via="endpoint", env="HT_LLM_ENGINE", min_length=1)
    """`auto`, `embedded`, `external`, `scripted`, a registered engine, or module:Class."""
    url: Url | None = setting(None, measured=False, env="HT_LLM_URL")
    """OpenAI-compatible base URL, for `external`."""
    model: str | None = setting(None, measured=True, via="endpoint", env="HT_LLM_MODEL")
    """Model name or file.  Unset: the engine's own."""
    api_key_env: VariableName | None = setting(None, measured=False, env="HT_LLM_API_KEY_ENV")
    """Name of the environment variable that holds the API key."""
    context_length: int = setting(4096, measured=True, env="HT_CONTEXT_LENGTH", ge=256, le=LARGEST)
    """Tokens, prompt and completion together."""
    max_running: int | None = setting(None, measured=False, env="HT_MAX_RUNNING", ge=1, le=LARGEST)
    """Requests at once, at most.  Unset: what the endpoint allows."""
    script: Path | None = setting(None, measured=True, via="endpoint", env="HT_LLM_SCRIPT")
    """Replies of the `scripted` engine (a file)."""
    deadline: float = setting(600.0, measured=False, env="HT_LLM_DEADLINE", gt=0, allow_inf_nan=False)
    """Seconds for one call, retries included."""
    sampling: SamplingSection = Field(default_factory=SamplingSection)


class EndpointSection(Section):
    """[endpoints.NAME]: another frozen model, for `ht evaluate --endpoint NAME`.

    Which model it is, it says alone.  What it does not say of `context_length` and `deadline` is as in [llm]; sampling
    is always that of [llm].
    """

    engine: str | None = setting(None, measured=True, via="endpoint", min_length=1)
    """As in [llm].  Unset: `external` with a `url`, `scripted` with a `script`, else `embedded`."""
    url: Url | None = setting(None, measured=False)
    """OpenAI-compatible base URL."""
    model: str | None = setting(None, measured=True, via="endpoint")
    """Model name or file.  Unset: the engine's own."""
    api_key_env: VariableName | None = setting(None, measured=False)
    """Name of the environment variable that holds the API key."""
    context_length: int | None = setting(None, measured=True, via="endpoint", ge=256, le=LARGEST)
    """Tokens, prompt and completion together.  Unset: as in [llm]."""
    max_running: int | None = setting(None, measured=False, ge=1, le=LARGEST)
    """Requests at once, at most.  Unset: what the endpoint allows."""
    script: Path | None = setting(None, measured=True, via="endpoint")
    """Replies of the `scripted` engine (a file)."""
    deadline: float | None = setting(None, measured=False, gt=0, allow_inf_nan=False)
    """Seconds for one call, retries included.  Unset: as in [llm]."""


class SandboxSection(Section):
    """[sandbox]: where commands run."""

    kind: str = setting("auto", measured=True, via="sandbox", env="HT_SANDBOX", min_length=1)
    """`auto`, `local`, `docker`, `process`, a registered sandbox, or module:Class."""
    network: Literal["none", "host"] = setting("none", measured=True, via="sandbox", env="HT_SANDBOX_NETWORK")
    """What commands can reach: `none` or `host`."""
    scrub: Path | None = setting(None, measured=False, env="HT_SCRUB")
    """A file with scrub rules of your own (TOML).  They join in comparisons after the shipped ones."""
    archives: Path | None = setting(None, measured=False, env="HT_SANDBOX_ARCHIVES")
    """A directory of images as files, loaded instead of pulled: `debian_12-slim.tar` for `debian:12-slim`."""
    verifier_env: tuple[str, ...] = setting((), measured=False, env="HT_VERIFIER_ENV")
    """Names of variables of this machine that verifiers may be given, where task.toml asks for them."""
    allow_unisolated: bool = setting(False, measured=False, env="HT_ALLOW_UNISOLATED")
    """Accept a sandbox or a jail that cannot isolate.  Every record and report says so."""
    memory_mb: int | None = setting(None, measured=True, env="HT_MEMORY_MB", ge=16, le=2**40)
    """Memory of one sandbox when its task names none."""
    cpus: float | None = setting(None, measured=True, env="HT_CPUS", gt=0, allow_inf_nan=False)
    """Processors of one sandbox when its task names none."""

    def limits(self) -> Limits:
        """The regime's limits."""
        return Limits(memory_mb=self.memory_mb, cpus=self.cpus)


class BudgetsSection(Section):
    """[budgets]: what one rollout may spend."""

    steps: int = setting(30, measured=True, env="HT_STEPS", ge=1, le=LARGEST)
    """Model calls."""
    actions: int = setting(200, measured=True, ge=1, le=LARGEST)
    """Environment actions."""
    tokens: int = setting(200_000, measured=True, ge=1, le=LARGEST)
    """Prompt and completion tokens, over the rollout."""
    time: float = setting(900.0, measured=True, gt=0, allow_inf_nan=False)
    """Recorded seconds.  A task's own timeout replaces it."""
    time_multiplier: float = setting(1.0, measured=True, env="HT_TIME_MULTIPLIER", gt=0, allow_inf_nan=False)
    """Stretches every time budget."""

    def record(self) -> Budgets:
        """The regime's budgets."""
        return Budgets(**self.model_dump())


class MeasureSection(Section):
    """[measure]: how cells are measured."""

    jobs: int = setting(2, measured=False, env="HT_JOBS", ge=1, le=LARGEST)
    """Rollouts at once."""
    retries: int = setting(1, measured=False, env="HT_RETRIES", ge=0, le=LARGEST)
    """Further attempts after an infrastructure failure."""
    cache: Literal["on", "read", "write", "off"] = setting("on", measured=False, env="HT_CACHE")
    """Use of the caches: `on`, `read` only, `write` only, `off`."""
    grading: Literal["submitted", "final_state"] = setting("submitted", measured=True)
    """`submitted`: only a submitted state can be solved.  `final_state`: grade whatever is there at the end."""


class PanelSection(Section):
    """[panel]: what is measured when a command names nothing else."""

    name: str = setting("quick", measured=True, via="panel", env="HT_PANEL", min_length=1)
    """A panel by name, or a path."""
    path: Path | None = setting(None, measured=True, via="panel", env="HT_PANEL_PATH")
    """A panel file or a task directory of your own, relative to the file that says so."""
    split: str = setting("train", measured=True, via="panel", min_length=1)
    """The part of the panel that the loop trains on."""

    @property
    def chosen(self) -> str:
        """What to hand to the panel loader: the path when one is set, else the name."""
        return str(self.path) if self.path is not None else self.name


class LoopSection(Section):
    """[loop]: how `ht epoch` decides."""

    criterion: str = setting("strict-pareto", measured=False, env="HT_CRITERION", min_length=1)
    """Judges two runs: a registered criterion or module:Class."""
    estimator: str = setting("patches", measured=False, env="HT_ESTIMATOR", min_length=1)
    """Proposes candidates: a registered estimator or module:Class."""
    optimizer: str = setting("greedy-monotonic", measured=False, env="HT_OPTIMIZER", min_length=1)
    """Turns verdicts into promotions: a registered optimizer or module:Class."""
    certify: bool = setting(True, measured=False, env="HT_CERTIFY")
    """Re-execute recorded action chains, grade again, and play rollouts back to their harness; leave out what forks."""
    gradings: int = setting(2, measured=False, env="HT_GRADINGS", ge=0, le=LARGEST)
    """How often both sides of a gain are graded again before it counts.  0: nothing is graded again."""
    early_stop: bool = setting(True, measured=False, env="HT_EARLY_STOP")
    """Measure of a candidate only what can still change the verdict.  `--exhaustive` measures everything."""
    stop_after_failures: int = setting(2, measured=False, ge=1, le=LARGEST)
    """Failed or empty proposals in a row that end the loop."""
