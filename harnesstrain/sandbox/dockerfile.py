"""The subset of Dockerfile that `local` builds: FROM, WORKDIR, COPY, ENV, RUN, USER (and LABEL, CMD, EXPOSE, which
change no file).  Everything else is refused, by name, before anything runs.
"""

from __future__ import annotations

import io
import json
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harnesstrain.core.errors import ConfigError, SandboxFailure, Unsupported
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.sandbox import vetting

SILENT = frozenset({"LABEL", "CMD", "EXPOSE", "MAINTAINER", "COMMENT"})
"""Instructions that change nothing a command could see."""
_VARIABLE = re.compile(r"\\(.)|\$(?:\{([A-Za-z_]\w*)(?::([-+])([^}]*))?\}|([A-Za-z_]\w*))")


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction that changes the file system."""

    kind: str
    """RUN or COPY or WORKDIR."""
    text: str
    """As written, for messages."""
    line: int
    command: str = ""
    """RUN: the shell command."""
    sources: tuple[str, ...] = ()
    target: str = ""
    """COPY: the destination; WORKDIR: the directory."""
    workdir: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A parsed Dockerfile."""

    steps: tuple[Step, ...]
    workdir: str
    env: Mapping[str, str]
    user: str


def parse(context: Path, base_env: Mapping[str, str], kind: str = "local") -> Recipe:
    """Read `context`/Dockerfile.  `kind`: the sandbox, for messages.

    Raises ConfigError (no Dockerfile, unreadable, a line that is no instruction), Unsupported (naming the
    instruction and its line).
    """
    return _Reader(context, base_env, kind).read(vetting.read(context / "Dockerfile"))


class _Reader:
    """Instructions in order, and what they set for those that follow."""

    def __init__(self, context: Path, base_env: Mapping[str, str], sandbox: str) -> None:
        self.context = context
        self.sandbox = sandbox
        self.base_env = base_env
        self.env: dict[str, str] = {}
        self.workdir = "/"
        self.user = ""
        self.steps: list[Step] = []
        self.stages = 0

    def read(self, text: str) -> Recipe:
        from dockerfile_parse import DockerfileParser

        readers = {
            "FROM": self._from,
            "WORKDIR": self._workdir,
            "ENV": self._env,
            "USER": self._user,
            "RUN": self._run,
            "COPY": self._copy,
        }
        parser = DockerfileParser(fileobj=io.BytesIO(text.encode()), cache_content=False)
        for item in parser.structure:
            kind, value, line = item["instruction"].upper(), item["value"].strip(), item["startline"] + 1
            if kind in SILENT:
                continue
            if kind not in readers:
                raise self._refused(kind, line)
            readers[kind](value, line)
        return Recipe(tuple(self.steps), self.workdir, dict(self.env), self.user)

    def _from(self, value: str, line: int) -> None:
        self.stages += 1
        if self.stages > 1 or re.search(r"\sAS\s", value, re.IGNORECASE):
            raise self._refused("FROM with several stages", line)

    def _workdir(self, value: str, line: int) -> None:
        self.workdir = posixpath.normpath(posixpath.join(self.workdir, self._expand(value)))
        self._add("WORKDIR", value, line, target=self.workdir)

    def _env(self, value: str, line: int) -> None:
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise ConfigError(f"Dockerfile line {line}: ENV {value}: {error}") from error
        if words and "=" not in words[0]:
            name, _, rest = value.partition(" ")
            words = [f"{name}={rest.strip()}"]
        known = {**self.base_env, **self.env}
        for word in words:
            name, _, given = word.partition("=")
            self.env[name] = _expand(given, known)

    def _user(self, value: str, line: int) -> None:
        self.user = self._expand(value)

    def _run(self, value: str, line: int) -> None:
        if value.startswith("--"):
            raise self._refused(f"RUN {value.split()[0]}", line)
        if value.startswith("<<"):
            raise self._refused("RUN with a here-document", line)
        words = _exec_form(value, line) if value.startswith("[") else ["/bin/sh", "-c", value]
        command = f"exec {shlex.join(words)}"
        self._add("RUN", value, line, command=command)

    def _copy(self, value: str, line: int) -> None:
        words = _exec_form(value, line) if value.startswith("[") else value.split()
        options = [word for word in words if word.startswith("--")]
        if options:
            raise self._refused(f"COPY {options[0]}", line)
        if len(words) < 2:
            raise ConfigError(f"Dockerfile line {line}: COPY needs a source and a destination")
        *sources, target = [self._expand(word) for word in words]
        for source in sources:
            if "<<" in source:
                raise self._refused("COPY with a here-document", line)
            if ".." in Path(source).parts:
                raise ConfigError(f"Dockerfile line {line}: COPY {source} leaves the build context")
        folder = target.endswith("/") or len(sources) > 1
        full = posixpath.normpath(posixpath.join(self.workdir, target)) + ("/" if folder else "")
        self._add("COPY", value, line, sources=tuple(sources), target=full)

    def _add(
        self, kind: str, text: str, line: int, *, command: str = "", sources: tuple[str, ...] = (), target: str = ""
    ) -> None:
        self.steps.append(
            Step(kind, f"{kind} {text}", line, command, sources, target, self.workdir, dict(self.env), self.user)
        )

    def _refused(self, what: str, line: int) -> Unsupported:
        return Unsupported(
            f"the {self.sandbox} sandbox does not build {what} (Dockerfile line {line})",
            hint="use `--set sandbox.kind=docker` for this task",
        )

    def _expand(self, text: str) -> str:
        return _expand(text, {**self.base_env, **self.env})


def only_root(recipe: Recipe, user: str | None, kind: str = "local") -> None:
    """Raises Unsupported when the task or its Dockerfile wants another user than root."""
    for name in (recipe.user, user, *(step.user for step in recipe.steps)):
        if name and name.partition(":")[0] not in ("root", "0"):
            raise Unsupported(
                f"the {kind} sandbox has no user '{name}'", hint="use `--set sandbox.kind=docker` for this task"
            )


def only_writable(recipe: Recipe, shown: Callable[[str], str | None], kind: str = "local") -> None:
    """Raises Unsupported when a COPY or WORKDIR would write where nothing can be written.

    `shown`: the directory of the host that shows read-only what is at a path; None: it is writable.
    """
    for step in recipe.steps:
        host = shown(step.target) if step.kind in ("COPY", "WORKDIR") else None
        if host is not None and (step.kind == "COPY" or not Path(step.target).is_dir()):
            raise Unsupported(
                f"the {kind} sandbox has this machine's {host}, read-only: {step.text} (Dockerfile line {step.line})",
                hint="use `--set sandbox.kind=docker` for this task",
            )


def succeeded(step: Step, result: RunResult) -> None:
    """Raises SandboxFailure with the end of what a RUN printed, unless it succeeded."""
    if result.exit_code:
        said = (result.stderr.strip() or result.stdout.strip()).decode(errors="replace")[-500:]
        how = "took too long" if result.timed_out else f"failed with exit {result.exit_code}"
        raise SandboxFailure(f"{step.text}: {how}: {said}", hint="is a program missing, or the network?")


def _exec_form(value: str, line: int) -> list[str]:
    try:
        words = json.loads(value)
    except json.JSONDecodeError as error:
        raise ConfigError(f"Dockerfile line {line}: {value} is not a JSON list") from error
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ConfigError(f"Dockerfile line {line}: {value} is not a list of strings")
    return words


def _expand(text: str, env: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        escaped, braced, operator, word, plain = match.groups()
        if escaped is not None:
            return escaped
        found = env.get(braced or plain, "")
        if operator == "-":
            return found or word
        if operator == "+":
            return word if found else ""
        return found

    return _VARIABLE.sub(value, text)
