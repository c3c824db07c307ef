"""Where an agent works, and what it can see: the worktree, the evidence, a place for its answer, a home of its own.

In a jail these are /harness, /evidence, /out and /home/agent.  Beside them there are the system's read-only
directories, the agent's own installation, the Python of the harness, and what the user adds.  Nothing else.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core import confinement
from harnesstrain.core.confinement import Bind, Confinement
from harnesstrain.core.errors import ConfigError
from harnesstrain.harness.environment import interpreter
from harnesstrain.stages.propose.base import Evidence, Workshop
from harnesstrain.stages.propose.estimators.programs import Program, in_system
from harnesstrain.stages.propose.estimators.watch import MARK, Start

HARNESS, EVIDENCE, OUT, HOME = "/harness", "/evidence", "/out", "/home/agent"
TAKEN = ("/", HARNESS, EVIDENCE, OUT, HOME, "/proc", "/dev", "/tmp")
"""Where nothing of the user's can be shown."""
ANSWER = 256 * 1024
"""Bytes of an answer file that are read."""


@dataclass(frozen=True)
class Places:
    """The directories of one call, under the names the agent knows them by."""

    harness: str
    evidence: str
    out: str
    home: str
    prompt: str
    """A file with the prompt."""


class Cell:
    """The directories of one call on the host, and how a program is started among them."""

    def __init__(self, workshop: Workshop, evidence: Evidence) -> None:
        self._workshop = workshop
        self._evidence = evidence.directory.resolve()
        self.jailed = confinement.unavailable() is None
        self.worktree = workshop.worktree.resolve()
        self._root = workshop.scratch.resolve() / secrets.token_hex(4)
        self.out, self.home = self._root / "out", self._root / "home"
        for folder in (self.out, self.home):
            folder.mkdir(parents=True)
        real = (str(self.worktree), str(self._evidence), str(self.out), str(self.home))
        names = (HARNESS, EVIDENCE, OUT, HOME) if self.jailed else real
        self.prompt = "prompt.md"
        """The prompt's file, below the home."""
        self.places = Places(*names, prompt=f"{names[3]}/{self.prompt}")

    def fill_home(self, files: Mapping[str, str]) -> None:
        """Write text files below the agent's home."""
        for name, text in files.items():
            target = self.home / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")

    def start(
        self, program: Program, argv: tuple[str, ...], env: Mapping[str, str], keys: tuple[str, ...], given: Given
    ) -> Start:
        """How to start the program.  `keys`: variables whose values come from the caller's environment.

        Raises ConfigError (a bind that cannot be shown, the harness's virtual environment is none).
        """
        manifest = self._workshop.manifest
        python = interpreter(Path(manifest.environment) if manifest.environment else None)
        binds = _binds(self._workshop, given.binds, self.jailed)
        folders = [*program.folders, str(python.python.parent)]
        rest = confinement.PROGRAMS if self.jailed else self._workshop.environ.get("PATH", os.defpath)
        whole = {
            "PATH": ":".join([*dict.fromkeys(folders), rest]),
            "HOME": self.places.home,
            "USER": "user",
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HT_HARNESS": self.places.harness,
            "HT_EVIDENCE": self.places.evidence,
            "HT_OUT": self.places.out,
            **env,
        }
        if not self.jailed:
            mark = secrets.token_hex(8)
            values = {name: self._workshop.environ[name] for name in keys}
            return Start((*program.argv, *argv), {**whole, **values, MARK: mark}, self.worktree, False, mark)
        self._hand_over()
        own = [*program.trees, *(tree for tree in python.trees if not in_system(tree))]
        spec = Confinement(
            command=(*program.argv, *argv),
            binds=(
                Bind(self.worktree, HARNESS, writable=True),
                Bind(self._evidence, EVIDENCE),
                Bind(self.out, OUT, writable=True),
                Bind(self.home, HOME, writable=True),
                *(Bind(tree, str(tree)) for tree in dict.fromkeys(own)),
                *binds,
            ),
            env=whole,
            inherit=keys,
            cwd=HARNESS,
            network=given.network,
            tmpfs_mb=1024,
            hostname="agent",
            memory_mb=given.memory_mb if confinement.bounds_memory() else None,
            pids=given.pids,
            file_mb=1024,
            open_files=8192,
        )
        return Start(confinement.launch_argv(spec), self._workshop.environ, None, True, "")

    def _hand_over(self) -> None:
        """Where the file system maps no owners, what the confined user reads and writes becomes its own."""
        maps: dict[int, bool] = {}
        for place in (self.worktree, self._evidence, self.out, self.home):
            device = place.stat().st_dev
            if device not in maps:
                maps[device] = confinement.maps_owners(place)
            if not maps[device]:
                for path in (place, *place.rglob("*")):
                    os.chown(path, confinement.JAIL_UID, confinement.JAIL_UID, follow_symlinks=False)

    def answer(self, name: str) -> str:
        """The text of an answer file; empty when there is none.  Only the head of a long one is read."""
        try:
            fd = os.open(self.out / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(fd, "rb") as file:
                return file.read(ANSWER).decode("utf-8", "replace").strip()
        except OSError:
            return ""


@dataclass(frozen=True)
class Given:
    """What the user allows besides."""

    network: bool
    memory_mb: int
    pids: int
    binds: tuple[str, ...]
    """`SOURCE` or `SOURCE:TARGET`."""


def _binds(workshop: Workshop, given: tuple[str, ...], jailed: bool) -> list[Bind]:
    binds = []
    for text in given:
        source, _, target = text.partition(":")
        place = workshop.resolve(source).resolve()
        target = target or str(place)
        if not place.exists():
            raise ConfigError(f"[estimator.agent] binds: {place} is not there", hint="name a file or a directory")
        if not Path(target).is_absolute() or ".." in Path(target).parts or os.path.normpath(target) in TAKEN:
            raise ConfigError(f"[estimator.agent] binds: nothing can be shown at {target}", hint="choose another place")
        if not jailed and target != str(place):
            hint = "without a jail, files are where they are"
            raise ConfigError(f"[estimator.agent] binds: '{text}' needs a jail", hint=hint)
        binds.append(Bind(place, target))
    return binds
