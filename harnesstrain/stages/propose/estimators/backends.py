"""Agents that are known: how Claude Code and Codex are called without a terminal, and any command by its template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from harnesstrain.core.errors import ConfigError
from harnesstrain.stages.propose.estimators.meters import ClaudeMeter, CodexMeter, Meter
from harnesstrain.stages.propose.estimators.places import Places


@dataclass(frozen=True)
class Call:
    """One call of an agent."""

    argv: tuple[str, ...]
    """After the program itself."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Text files of its home, by relative path."""


@dataclass(frozen=True)
class Ask:
    """What an agent is asked, and with what."""

    prompt: str
    places: Places
    keys: tuple[str, ...]
    """The variables of `pass_env` that are set; their values are not known here."""
    model: str | None = None
    base_url: str | None = None
    max_cost_usd: float | None = None


class Backend(Protocol):
    """How one agent is called.  What it was constructed with wins over ht.toml."""

    name: str
    """Also the program's, when nothing else is said."""
    program: str | None
    """A name on PATH, or a path."""
    model: str | None
    """The agent's model, when this object decides it."""
    keys: tuple[str, ...]
    """Variables that may hold its credential, passed on when nothing else is said."""
    reports: frozenset[str]
    """What it says about itself: tokens, turns, cost."""
    logs: str | None
    """Directory of its session logs, below its home."""

    def call(self, ask: Ask) -> Call:
        """How it is called."""

    def meter(self) -> Meter:
        """A meter for one call."""


class ClaudeBackend:
    """Claude Code (`npm install -g @anthropic-ai/claude-code`)."""

    name = "claude"
    keys: tuple[str, ...] = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
    reports = frozenset({"tokens", "turns", "cost"})
    logs: str | None = ".claude/projects"

    def __init__(self, *, program: str | None = None, model: str | None = None, base_url: str | None = None) -> None:
        """`base_url`: of an Anthropic-compatible server, with or without /v1."""
        self.program: str | None = program
        self.model: str | None = model
        self._base_url = base_url

    def call(self, ask: Ask) -> Call:
        """One prompt, every tool allowed (the jail bounds it), events as JSON lines."""
        model, base_url = self.model or ask.model, self._base_url or ask.base_url
        argv = [
            "-p",
            ask.prompt,
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-mode",
            "bypassPermissions",
        ]
        argv += ["--model", model] if model else []
        argv += ["--max-budget-usd", str(ask.max_cost_usd)] if ask.max_cost_usd is not None else []
        env = {
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }
        if base_url is not None:
            env["ANTHROPIC_BASE_URL"] = base_url.rstrip("/").removesuffix("/v1")
            if not ask.keys:
                env["ANTHROPIC_AUTH_TOKEN"] = "none"
        return Call(tuple(argv), env)

    def meter(self) -> Meter:
        """Reads stream-json and the session log."""
        return ClaudeMeter()


class CodexBackend:
    """Codex (`npm install -g @openai/codex`)."""

    name = "codex"
    keys: tuple[str, ...] = ("OPENAI_API_KEY", "CODEX_API_KEY")
    reports = frozenset({"tokens", "turns"})
    logs: str | None = ".codex/sessions"

    def __init__(self, *, program: str | None = None, model: str | None = None, base_url: str | None = None) -> None:
        """`base_url`: of a server that speaks OpenAI's responses API, with or without /v1."""
        self.program: str | None = program
        self.model: str | None = model
        self._base_url = base_url

    def call(self, ask: Ask) -> Call:
        """One prompt, its own sandbox off (the jail bounds it), events as JSON lines."""
        model, base_url = self.model or ask.model, self._base_url or ask.base_url
        argv = ("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", ask.prompt)
        lines = [f"model = {json.dumps(model)}"] if model else []
        provider = []
        if base_url is not None or ask.keys:
            lines.append('model_provider = "estimator"')
            provider = ["[model_providers.estimator]", 'name = "estimator"', 'wire_api = "responses"']
            provider.append(f"base_url = {json.dumps(_with_version(base_url or 'https://api.openai.com/v1'))}")
            provider += [f"env_key = {json.dumps(ask.keys[0])}"] if ask.keys else []
        text = "\n".join([*lines, *provider, "[analytics]", "enabled = false", ""])
        return Call(argv, {"CODEX_HOME": f"{ask.places.home}/.codex"}, {".codex/config.toml": text})

    def meter(self) -> Meter:
        """Reads exec's events and the session log."""
        return CodexMeter()


class CommandBackend:
    """Any program, called by a template with {prompt}, {prompt_file}, {harness}, {evidence} and {out}."""

    name = "command"
    model: str | None = None
    keys: tuple[str, ...] = ()
    reports: frozenset[str] = frozenset()
    logs: str | None = None

    def __init__(self, *command: str) -> None:
        """`command`: the program and its arguments."""
        if not command or "{" in command[0]:
            raise ConfigError("an agent's command starts with a program", hint='command = ["my-agent", "{prompt}"]')
        self.program: str | None = command[0]
        self._arguments = command[1:]

    def call(self, ask: Ask) -> Call:
        """The template with its placeholders filled; other braces stay as they are."""
        values = {
            "{prompt_file}": ask.places.prompt,
            "{prompt}": ask.prompt,
            "{harness}": ask.places.harness,
            "{evidence}": ask.places.evidence,
            "{out}": ask.places.out,
        }
        return Call(tuple(_filled(argument, values) for argument in self._arguments))

    def meter(self) -> Meter:
        """Nothing is known about its output."""
        return Meter()


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Placeholders replaced once, from left to right: what a value holds is not looked at again."""
    filled = ""
    while text:
        hits = [(at, name) for name in values if (at := text.find(name)) >= 0]
        if not hits:
            return filled + text
        at, name = min(hits)
        filled += text[:at] + values[name]
        text = text[at + len(name) :]
    return filled


def _with_version(url: str) -> str:
    """The URL with /v1 when it has no path of its own."""
    return url.rstrip("/") if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v1"
