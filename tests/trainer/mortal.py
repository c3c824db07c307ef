"""A training loop that is killed after every single thing it makes durable, until there is nothing left to do.

Run as a program: `python -m tests.trainer.mortal ROOT EPOCHS`.  One process imports everything, then forks a child
that trains and kills itself with SIGKILL right after its first durable step: a row that changed, a file that was
renamed into place, a git ref that moved, a commit that was written.  Then the next child is forked, and so on.
Only a row is progress: a file, commit or ref that no row names yet is made again, so each kills once between two rows.
Prints one JSON object: where each child died.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harnesstrain.core.events import Bus, Event
from harnesstrain.harness.git import Git
from harnesstrain.store import engine, files, leases
from harnesstrain.trainer import GreedyMonotonic, Trainer

MOVES_GIT = ("update-ref", "commit-tree")
MOST = 400
"""Children, at most: a loop that makes no progress is a failure."""


class Death:
    """Kills this process after its first durable step, and says where."""

    def __init__(self, note: Path, survived: set[str]) -> None:
        """`survived`: what killed since the last row did."""
        self._note = note
        self._survived = survived
        self._spared = 0

    def strike(self, where: str) -> None:
        """The end."""
        if self._spared or where in self._survived:
            return
        self._note.write_text(where)
        os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def spared(self) -> Iterator[None]:
        """Steps in here do not count: leases come and go with every child."""
        self._spared += 1
        try:
            yield
        finally:
            self._spared -= 1


def arm(death: Death) -> None:
    """Put `death` behind every durable step."""
    write, draft, ask = engine.Database.write, files.draft, Git.ask
    take, beat, tell, release = leases._take, leases.Lease.beat, leases.Lease.tell, leases.Lease.release

    @contextmanager
    def deadly_write(self: engine.Database) -> Iterator[Any]:
        with write(self) as connection:
            raw = connection.connection.driver_connection
            before = raw.total_changes
            yield connection
            changed = raw.total_changes > before
        if changed:
            death.strike(f"row in {Path(self.label).name}")

    @contextmanager
    def deadly_draft(target: Path) -> Iterator[Any]:
        with draft(target) as found:
            yield found
        death.strike(f"file {found.target.suffix}")

    def deadly_ask(self: Git, *args: str, **more: Any) -> Any:
        ref = next((arg for arg in args if arg.startswith("refs/")), "")
        before = ask(self, "rev-parse", "--verify", "--quiet", ref).stdout if "update-ref" in args else b""
        answer = ask(self, *args, **more)
        moved = set(args) & set(MOVES_GIT)
        if answer.code == 0 and moved and not (ref and args[args.index(ref) + 1].encode() in before):
            death.strike(f"git {moved.pop()} {ref.rpartition('/')[0]}".rstrip())
        return answer

    def spare(function: Callable[..., Any]) -> Callable[..., Any]:
        def spared(*args: Any, **more: Any) -> Any:
            with death.spared():
                return function(*args, **more)

        return spared

    engine.Database.write = deadly_write  # type: ignore[method-assign]
    files.draft = deadly_draft  # type: ignore[assignment]
    Git.ask = deadly_ask  # type: ignore[method-assign]
    leases._take = spare(take)
    leases.Lease.beat, leases.Lease.tell = spare(beat), spare(tell)  # type: ignore[method-assign]
    leases.Lease.release = spare(release)  # type: ignore[method-assign]


class Executed:
    """Writes down every rollout that was committed."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def on(self, event: Event) -> None:
        if event.kind in ("rollout.finished", "propose.started", "judged", "promoted"):
            with self._file.open("a") as file:
                file.write(json.dumps({"kind": event.kind, **event.data}) + "\n")


def live(root: Path, epochs: int, death: Death | None) -> None:
    """One life: train until the epochs are done."""
    optimizer = GreedyMonotonic()
    watching = Bus(Executed(root.parent / "executed.jsonl"))
    with Trainer(root / "ht.toml", optimizer=optimizer, bus=watching) as trainer:
        if death is not None:
            arm(death)
        done = sum(epoch.state != "started" for epoch in trainer.context.store.epochs())
        if done >= epochs:
            return
        for loss in trainer.epochs(epochs - done):
            loss.backward()
            optimizer.step()


def main(root: Path, epochs: int, *, mortal: bool = True) -> None:
    """Fork until a child survives."""
    note = root.parent / "died"
    deaths: list[str] = []
    survived: set[str] = set()
    for _ in range(MOST):
        note.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                live(root, epochs, Death(note, survived) if mortal else None)
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        if status == 0:
            print(json.dumps({"deaths": deaths}))
            return
        if not os.WIFSIGNALED(status):
            sys.exit(f"a child failed after {len(deaths)} deaths, the last after {deaths[-1:]}")
        deaths.append(note.read_text())
        survived = set() if deaths[-1].startswith("row") else survived | {deaths[-1]}
    sys.exit(f"no end after {MOST} deaths: {deaths[-10:]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), mortal="--immortal" not in sys.argv)
