"""The models that a harness can be measured on besides the configured one, by the names people give them.

A name is, in this order: a table [endpoints.NAME] of `ht.toml`; `llm`, the configured model; a URL, with `#MODEL` where
the server has several; `ENGINE` or `ENGINE:MODEL`; a model of the catalogue; a rules file or a GGUF file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from harnesstrain.core.errors import ConfigError, NotFound, UsageError
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.run import CONFIGURED
from harnesstrain.core.registry import names as registered
from harnesstrain.core.sections import EndpointSection, LlmSection
from harnesstrain.core.settings import Settings
from harnesstrain.measure.context import Context
from harnesstrain.measure.endpoint import AUTO, EXTERNAL

SCRIPTED, EMBEDDED = "scripted", "embedded"
SCHEMES = ("http", "https")
RULES, WEIGHTS = (".jsonl", ".py"), (".gguf",)
FORMS = "a URL, ENGINE:MODEL, a rules file, or [endpoints.NAME] in ht.toml"


class NamedModel(Record):
    """A model under the name that it was asked for."""

    name: str
    """For records and people: of a URL, without user and query."""
    llm: LlmSection
    """[llm] as it would have to be for this model."""


def named_model(settings: Settings, text: str, here: Path) -> NamedModel:
    """The model that `text` names.  `here`: what a relative file name belongs to.

    Raises NotFound (with what may have been meant), ConfigError (a table that names no model), UsageError (a bad URL).
    """
    if CONFIGURED in settings.endpoints:
        msg = f"[endpoints.{CONFIGURED}] has the name of the configured model"
        raise ConfigError(msg, hint="give the table another name")
    if text in settings.endpoints:
        return NamedModel(name=text, llm=_of_table(settings, text))
    if text == CONFIGURED:
        return NamedModel(name=text, llm=settings.llm)
    if urlsplit(text).scheme in SCHEMES:
        return _of_url(settings, text)
    return NamedModel(name=text, llm=_of_text(settings, text, here))


@contextmanager
def on_model(context: Context, model: NamedModel) -> Iterator[Context]:
    """The same project with another model, whose devices close with the block.  Store and repo are shared."""
    settings = context.settings.model_copy(update={"llm": model.llm})
    with replace(context, settings=settings, _devices=None) as other:
        yield other


def _of_table(settings: Settings, name: str) -> LlmSection:
    table = settings.endpoints[name]
    if table.engine is None and table.url is None and table.script is None and table.model is None:
        msg = f"[endpoints.{name}] names no model"
        raise ConfigError(msg, hint="say url, script, model or engine in it")
    engine = table.engine or (EXTERNAL if table.url else SCRIPTED if table.script else EMBEDDED)
    if table.url is not None and engine not in (EXTERNAL, AUTO):
        msg = f"[endpoints.{name}] has a url, which engine '{engine}' does not use"
        raise ConfigError(msg, hint="leave one of them out")
    return _llm(settings, table, engine)


def _llm(settings: Settings, said: EndpointSection, engine: str) -> LlmSection:
    """[llm] with another model: what says which model it is comes from `said` alone."""
    common = settings.llm
    return common.model_copy(
        update={
            "engine": engine,
            "url": said.url,
            "model": said.model,
            "api_key_env": said.api_key_env,
            "max_running": said.max_running,
            "script": said.script,
            "context_length": said.context_length or common.context_length,
            "deadline": said.deadline or common.deadline,
        }
    )


def shown_url(text: str) -> str:
    """A URL as records and people get it: without user and query.  Raises UsageError."""
    parts = urlsplit(text)
    try:
        host = parts.hostname
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError as error:
        raise UsageError(f"'{text}' is not a URL: {error}", hint="http://HOST:PORT/v1") from None
    if not host:
        raise UsageError(f"'{text}' names no host", hint="http://HOST:PORT/v1")
    shown = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, shown + port, parts.path, "", parts.fragment))


def _of_url(settings: Settings, text: str) -> NamedModel:
    """`http://HOST:PORT/v1`, with `#MODEL`.  The configured key goes to the configured server, and to no other."""
    name = shown_url(text)
    parts, configured = urlsplit(text), urlsplit(settings.llm.url or "")
    if parts.password is not None:
        raise UsageError("a URL must not contain a password", hint="[endpoints.NAME] in ht.toml has api_key_env")
    own = (parts.scheme, parts.netloc) == (configured.scheme, configured.netloc)
    said = EndpointSection(
        url=urlunsplit(parts._replace(fragment="")),
        model=parts.fragment or None,
        api_key_env=settings.llm.api_key_env if own else None,
    )
    return NamedModel(name=name, llm=_llm(settings, said, EXTERNAL))


def _of_text(settings: Settings, text: str, here: Path) -> LlmSection:
    from harnesstrain.llm.models.catalogue import ENTRIES

    engine, _, model = text.partition(":")
    engines = [one for one in registered("engines") if one != EXTERNAL]
    if engine in engines:
        file = here / Path(model).expanduser()
        if engine == SCRIPTED and not file.is_file():
            raise NotFound(
                f"no rules file '{model}'" if model else "engine 'scripted' needs a rules file",
                hint="--endpoint scripted:FILE",
            )
        is_file = model and file.is_file()
        script = file if engine == SCRIPTED else None
        said = EndpointSection(
            model=(str(file) if is_file else model or None) if script is None else None, script=script
        )
        return _llm(settings, said, engine)
    if text in {one.name for one in ENTRIES}:
        return _llm(settings, EndpointSection(model=text), EMBEDDED)
    file = here / Path(text).expanduser()
    if file.suffix in RULES and file.is_file():
        return _llm(settings, EndpointSection(script=file), SCRIPTED)
    if file.suffix in WEIGHTS and file.is_file():
        return _llm(settings, EndpointSection(model=str(file)), EMBEDDED)
    known = [*settings.endpoints, CONFIGURED, *engines, *(one.name for one in ENTRIES)]
    known += [f"{EMBEDDED}:{one.name}" for one in ENTRIES]
    close = get_close_matches(text, known, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"an endpoint is {FORMS}"
    raise NotFound(f"no endpoint '{text}'", hint=hint)
