"""What `ht serve-llm` says and does around the stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harnesstrain.cli import output
from harnesstrain.cli.session import settings_for
from harnesstrain.core.errors import AnswerNo, UsageError
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.llm.choice import chosen
from harnesstrain.measure.endpoint import EXTERNAL, connect_spec
from harnesstrain.stages.serve import Action, ServeSpec, Serving, check, run
from harnesstrain.stages.serve.vouching import Voucher


class Asked(Record):
    """The command's options."""

    engine: str | None
    model: str | None
    url: str | None
    script: Path | None
    port: int
    host: str
    context_length: int | None
    max_running: int | None
    deterministic: bool
    options: tuple[str, ...]
    wait: float


def spec_for(asked: Asked, action: Action, config: Path | None, environ: Mapping[str, str]) -> ServeSpec:
    """The stage's spec: options over settings.  Raises UsageError, ConfigError."""
    flags: dict[str, Any] = {
        "llm.engine": asked.engine or (EXTERNAL if asked.url else None),
        "llm.model": asked.model,
        "llm.url": asked.url,
        "llm.script": str(asked.script.absolute()) if asked.script else None,
        "llm.context_length": asked.context_length,
    }
    settings = settings_for(config=config, flags=flags)
    known = connect_spec(settings, settings.store.path, environ)
    engine = known.engine_spec().model_copy(
        update={
            "engine": EXTERNAL if known.url else known.engine,
            "url": known.url,
            "api_key": known.api_key,
            "script": asked.script.absolute() if asked.script else known.script,
            "max_running": asked.max_running or settings.llm.max_running,
            "deterministic": asked.deterministic,
            "options": dict(_option(text) for text in asked.options),
        }
    )
    return ServeSpec(
        directory=settings.store.path,
        action=action,
        engine=engine,
        host=asked.host,
        port=asked.port,
        start_timeout=asked.wait,
        voucher=Voucher(
            location=str(settings.store_location),
            directory=settings.store.path if settings.store.url else None,
            sampling=settings.llm.sampling.record(),
        ),
    )


def plan(asked: Asked, action: Action, config: Path | None, environ: Mapping[str, str]) -> str:
    """What would be done, in one sentence.  Raises what the start would refuse."""
    spec = spec_for(asked, action, config, environ)
    running = check(spec)
    if running is not None:
        return f"already running: {running.url}"
    engine = chosen(spec.engine)
    return f"would serve with engine {engine.engine}, model {engine.model or 'its default'}"


def serve(asked: Asked, *, action: Action, config: Path | None, as_json: bool, environ: Mapping[str, str]) -> None:
    """Do it.  stdout gets the URL (or the record with --json) as soon as the server answers."""

    def announce(serving: Serving) -> None:
        if as_json:
            output.emit("server", serving, now=True)
        else:
            output.data(serving.url or "")
        what = "already running" if serving.already else "serving"
        model = serving.endpoint.model if serving.endpoint else "?"
        output.say(
            f"{what} {model} ({serving.engine}) as pid {serving.pid}, fingerprint {(serving.fingerprint or '')[:8]}"
        )
        if serving.endpoint is not None:
            output.say(certainty(serving.endpoint, asked))
        if action is Action.FOREGROUND and not serving.already:
            output.say("stop it with Ctrl-C")

    done = run(spec_for(asked, action, config, environ), announce=announce)
    if action is Action.FOREGROUND and done.signal:
        output.say("stopped")
        raise SystemExit(128 + done.signal)


def certainty(endpoint: Endpoint, asked: Asked) -> str:
    """What is known of an endpoint's determinism, in one sentence."""
    width = endpoint.max_running
    if not endpoint.deterministic and endpoint.capacity is not None:
        return "not deterministic, says its certificate; `ht certify model --again` asks anew"
    if not endpoint.deterministic:
        wanted = "deterministic settings are on, but " if asked.deterministic else ""
        return f"{wanted}no certificate says that it repeats itself; `ht certify model --max-running {width}` finds out"
    capped = ""
    if asked.max_running is not None and width < asked.max_running:
        capped = f"; {asked.max_running} were asked for, and {width} are certified"
    return f"deterministic, {width} requests at once{capped}"


def look(action: Action, *, config: Path | None, as_json: bool, exit_code: bool) -> None:
    """--status and --stop."""
    settings = settings_for(config=config)
    serving = run(ServeSpec(directory=settings.store.path, action=action))
    if as_json:
        output.emit("server", serving)
    else:
        output.data(f"{serving.condition.value}{' ' + serving.url if serving.url else ''}")
        if serving.log and serving.condition.value in ("stale", "unresponsive"):
            output.say(f"its log: {serving.log}")
    if exit_code and action is Action.STATUS and serving.condition.value != "running":
        msg = "no model server is running here"
        raise AnswerNo(msg, hint="`ht serve-llm --detach` starts one")


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        msg = f"--engine-option takes NAME=VALUE, not '{text}'"
        raise UsageError(msg, hint="`ht serve-llm --help` shows what there is")
    return name, value
