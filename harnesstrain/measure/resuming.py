"""The command that goes on with a run, and whether it does: as far as records, settings and panel tell.

No device is opened for it.  Where it cannot be told, or something changed since, nothing is claimed.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harnesstrain.core.digests import digest_bytes
from harnesstrain.core.errors import HtError, NotFound
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.core.records.rollout import latest_attempts
from harnesstrain.core.records.run import Regime, Run
from harnesstrain.core.sections import LlmSection
from harnesstrain.judge.gate import trust
from harnesstrain.measure.context import Context
from harnesstrain.measure.endpoint import AUTO, script_of
from harnesstrain.measure.endpoints import SCRIPTED, named_model, shown_url
from harnesstrain.taskset import LoadedPanel, load_panel, panel_names

SETTINGS = {
    "sampling.": "llm.sampling.",
    "limits.": "sandbox.",
    "budgets.": "budgets.",
    "context_length": "llm.context_length",
    "grading": "measure.grading",
    "sandbox.kind": "sandbox.kind",
    "sandbox.network": "sandbox.network",
}
"""The settings that fields of a regime come from; a dot at the end stands for a whole table."""
OF_MODEL = ("llm.engine", "llm.url", "llm.model", "llm.script", "llm.context_length")
"""The settings that say which model it is."""
KIND = "sandbox.kind"


class Resumption(NamedTuple):
    """How to go on with a run."""

    command: str
    why: str | None
    """Why it may be another run that the command measures; None: it is this one, as far as can be told."""


def resume(context: Context, run: Run) -> str:
    """The command that goes on with a run, as far as that can be told."""
    return resumption(context, run).command


def retries(context: Context, runs: Collection[str]) -> str:
    """The commands that measure once more what the infrastructure failed, of the runs of which it failed any cell."""
    found = []
    for run in [one for one in context.store.runs() if one.id in runs and one.imported is None]:
        if not all(one.outcome.scorable for one in latest_attempts(context.store.rollouts(run.id))):
            command, why = resumption(context, run)
            found.append(f"`{command} --retry-infra`" + (f" (it may be another run: {why})" if why else ""))
    return f"{' and '.join(found)} measure{'' if found[1:] else 's'} the missing cells again" if found else ""


def resumption(context: Context, run: Run) -> Resumption:
    """The command that goes on with a run, and what stands against it."""
    panel = run.panel_name.partition(":")[0] in panel_names(context.settings.root)
    globs, why = _globs(context, run, panel=panel)
    said = tuple(_placed(context, one) for one in run.given)
    try:
        regime = context.store.regime(run.regime)
    except NotFound:
        command = run.model_copy(update={**globs, "given": said}).command(panel=panel)
        return Resumption(command, why or "how it was measured is not on record")
    fields = regime.differing(_as_set(context, regime))
    if KIND in fields:
        said = tuple(one for one in said if not one.startswith(f"{KIND}="))
    command = run.model_copy(update={**globs, "given": said}).command(panel=panel)
    settings = as_settings(fields)
    untold = [field for field in fields if not as_settings({field: fields[field]})]
    why = why or (f"{untold[0]} differs" if untold else None)
    why = why or _invalid(context, run) or _other_model(context, run, regime) or _other_sandbox(context, regime)
    return Resumption(f"{command} {settings}".rstrip(), why)


def as_settings(fields: Mapping[str, tuple[Any, Any]]) -> str:
    """The options that bring the run's values back, where fields come from settings; else empty."""
    found = []
    for field, (then, _) in fields.items():
        key = _setting(field)
        if key is not None and then is not None and not isinstance(then, list):
            found.append(f"--set {shlex.quote(f'{key}={then}')}")
    return " ".join(found)


def given(context: Context, *, model: bool) -> tuple[str, ...]:
    """What --set says of the kind of sandbox and, with `model`, of the configured model, as `KEY=VALUE`.

    A URL that holds more than a place is not among it.
    """
    settings, found = context.settings, []
    for key in (*(OF_MODEL if model else ()), KIND):
        value = settings.value(key)
        if settings.origin(key).layer != "flag" or value is None:
            continue
        if isinstance(value, Path):
            value = value.relative_to(settings.root) if value.is_relative_to(settings.root) else value
        if key == "llm.url" and shown_url(str(value)) != str(value):
            continue
        found.append(f"{key}={value}")
    return tuple(found)


def _invalid(context: Context, run: Run) -> str | None:
    try:
        context.repo.version(run.commit)
    except HtError:
        return "its version is no harness that can run"
    return None


def _placed(context: Context, pair: str) -> str:
    """A setting as it has to be said where the command is run: a path of the project from everywhere."""
    key, _, value = pair.partition("=")
    root = context.settings.root
    here = key != "llm.script" or root == Path.cwd()
    return pair if here else f"{key}={root / value}"


def _globs(context: Context, run: Run, *, panel: bool) -> tuple[dict[str, tuple[str, ...]], str | None]:
    """What --include and --exclude have to say for the tasks of the run; and why they cannot."""
    root, chosen = context.settings.root, context.settings.panel
    try:
        loaded = load_panel(run.panel_name if panel else chosen.chosen, root)
        if loaded.name != run.panel_name:
            return {}, f"panel '{run.panel_name}' has no name here"
        for include, exclude in ((run.include, run.exclude), ((), ()), (_names(context, run), ())):
            if _digest(loaded, run.split, include, exclude) == run.panel:
                return {"include": include, "exclude": exclude}, None
    except HtError:
        return {}, f"panel '{run.panel_name}' cannot be read here"
    return {}, "its tasks changed since"


def _digest(loaded: LoadedPanel, split: str | None, include: tuple[str, ...], exclude: tuple[str, ...]) -> str | None:
    try:
        return loaded.select(split=split, include=include, exclude=exclude).panel.digest
    except HtError:
        return None


def _names(context: Context, run: Run) -> tuple[str, ...]:
    """The tasks of a run, each as a glob that matches it alone."""
    try:
        return tuple(task.name.replace("[", "[[]") for task in context.store.panel(run.panel).tasks)
    except NotFound:
        return ()


def _as_set(context: Context, regime: Regime) -> Regime:
    """A regime with all that the settings in use say of it without a device."""
    settings = context.settings
    sandbox: dict[str, Any] = {"network": settings.sandbox.network}
    if settings.sandbox.kind != AUTO:
        sandbox["kind"] = settings.sandbox.kind
    changes = {
        "sampling": settings.llm.sampling.record(),
        "limits": settings.sandbox.limits(),
        "budgets": settings.budgets.record(),
        "grading": settings.measure.grading,
        "sandbox": regime.sandbox.model_copy(update=sandbox),
    }
    return regime.model_copy(update=changes)


def _other_model(context: Context, run: Run, regime: Regime) -> str | None:
    """Why the model that the command names is not the run's."""
    try:
        endpoint = context.store.endpoint(regime.endpoint)
    except NotFound:
        return "its model is not on record"
    named, trusted = _named(context, run), trust(endpoint, regime.sampling, context.store.certificates(kind="model"))
    if named is None:
        return f"no endpoint '{run.asked_as[0]}' here"
    if trusted.deterministic != regime.deterministic:
        return "its model was certified since"
    script = script_of(named)
    if endpoint.engine == SCRIPTED or named.engine == SCRIPTED or script is not None:
        same = _same_script(endpoint, script)
    else:
        alike = [one for one in context.store.runs() if _way(one) == _way(run) and one.imported is None]
        same = context.store.regime(alike[-1].regime).endpoint == regime.endpoint if alike else True
    return None if same else "its model is another one now"


def _named(context: Context, run: Run) -> LlmSection | None:
    """[llm] as it would be for the run's command, as far as it says which model it is."""
    settings = context.settings
    if not run.configured:
        try:
            return named_model(settings, run.asked_as[0], settings.root).llm
        except HtError:
            return None
    said = dict(one.split("=", 1) for one in run.given)
    names = [key.removeprefix("llm.") for key in ("llm.engine", "llm.url", "llm.model") if key in said]
    changes: dict[str, Any] = {name: said[f"llm.{name}"] for name in names}
    if "llm.script" in said:
        changes["script"] = settings.root / said["llm.script"]
    return settings.llm.model_copy(update=changes)


def _same_script(endpoint: Endpoint, script: Path | None) -> bool:
    try:
        return script is not None and endpoint.identity.get("script") == digest_bytes(script.read_bytes())
    except OSError:
        return False


def _way(run: Run) -> tuple[str, ...]:
    """How a run's command names its model."""
    return tuple(one for one in run.given if one.startswith("llm.")) if run.configured else run.asked_as[:1]


def _other_sandbox(context: Context, regime: Regime) -> str | None:
    """Why the sandbox is not the run's: a newer run of the same kind had another one."""
    for run in reversed(list(context.store.runs())):
        if run.imported is None:
            newest = context.store.regime(run.regime).sandbox
            if (newest.kind, newest.network) == (regime.sandbox.kind, regime.sandbox.network):
                return None if newest == regime.sandbox else "its sandbox is another one now"
    return None


def _setting(field: str) -> str | None:
    for known, key in SETTINGS.items():
        if field == known:
            return key
        if known.endswith(".") and field.startswith(known):
            return key + field.removeprefix(known)
    return None
