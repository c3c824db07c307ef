"""What `ht evaluate` says of a run, and which exit code follows from it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harnesstrain.cli import output
from harnesstrain.cli.revisions import commits_of
from harnesstrain.core.errors import Incomplete, Unmeasurable, UsageError
from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record
from harnesstrain.measure.endpoints import shown_url
from harnesstrain.stages.evaluate import Estimate, Evaluated

if TYPE_CHECKING:
    from harnesstrain.measure.context import Context


class Version(Record):
    """One version to be measured."""

    commit: str
    against_last: bool = False
    """Only until the verdict against the version before it is decided."""


class Asked(Record):
    """How the command said what else it measures by."""

    panel: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    """`KEY=VALUE` of --set."""
    config: Path | None = None
    unisolated: bool = False

    def words(self) -> Iterator[str]:
        """Its options, but those that say what a run is.  A URL that holds more than a place is not said again."""
        if self.config is not None:
            yield f"--config {shlex.quote(str(self.config))}"
        for one in self.given:
            key, _, value = one.partition("=")
            if key.strip() != "llm.url" or shown_url(value.strip()) == value.strip():
                yield f"--set {shlex.quote(one)}"
        if self.unisolated:
            yield "--allow-unisolated"


def versions_of(context: Context, name: str, *, early_stop: bool) -> list[Version]:
    """What a name asks to measure: a range's baseline and candidate, else one version.

    Raises UsageError for an early stop without a range: there is no verdict to decide.
    """
    if early_stop and ".." not in name:
        msg = f"--early-stop needs a baseline, and '{name}' is no range"
        raise UsageError(msg, hint=f"`ht evaluate ..{name} --early-stop` compares with the promoted baseline")
    commits = commits_of(context, name)
    return [Version(commit=one, against_last=early_stop and index > 0) for index, one in enumerate(commits)]


def left_out(context: Context) -> tuple[str, ...]:
    """Uncommitted files that a measurement of the checked-out version does not see.

    Settings, panels, tasks, rules and patches are read from the checkout itself, so their changes count.
    """
    root, settings = context.repo.root, context.settings
    read = [settings.file, settings.llm.script, settings.sandbox.scrub, settings.panel.path]
    read += [
        settings.resolve(table["dir"]) for table in settings.estimator.values() if isinstance(table.get("dir"), str)
    ]
    places = [path.absolute() for path in read if path is not None]

    def is_read(name: str) -> bool:
        path = (root / name).absolute()
        return any(path == one or one in path.parents for one in places) or _of_tasks(path, root.absolute())

    return tuple(name for name in context.repo.dirty() if not is_read(name))


def _of_tasks(path: Path, root: Path) -> bool:
    """Whether a file is of a task or describes a panel, or a folder holds nothing else."""
    if path.is_dir():
        return all(_of_tasks(one, root) for one in path.rglob("*") if one.is_file())
    if any((folder / "task.toml").is_file() for folder in path.parents if root in folder.parents):
        return True
    try:
        return path.suffix == ".toml" and b"[panel]" in path.read_bytes()
    except OSError:
        return False


def line_of(result: Evaluated | Estimate) -> str:
    """The line on stdout: the run's id, or what would be run."""
    if isinstance(result, Evaluated):
        return result.run
    cost = ""
    if result.tokens is not None:
        cost = f", about {result.tokens} tokens and {result.seconds:g} s"
    most = "at most " if result.early_stop and result.to_run else ""
    on = f" on {result.endpoint}" if result.endpoint else ""
    return f"run {result.run[:8]}{on}: {result.cells} cells, {result.done} done, {most}{result.to_run} to run{cost}"


def check(result: Evaluated | Estimate) -> None:
    """Raise Incomplete when a run has cells left."""
    if isinstance(result, Evaluated) and not result.complete:
        msg = f"{result.cells - result.done} of {result.cells} cells are missing"
        raise Incomplete(msg, hint="the same command resumes", run=result.run)


def check_infra(context: Context, results: Iterable[Evaluated | Estimate], asked: Asked) -> None:
    """Raise Unmeasurable when cells ended in infrastructure failures: of which run, and how to measure them again."""
    lost = [result for result in results if isinstance(result, Evaluated) and result.infra]
    if not lost:
        return
    parts = [f"{output.counted(one.infra, 'cell')} of run {short(one.run)}{_on(one)}" for one in lost]
    again = " and ".join(f"`{_again(context, one, asked)}`" for one in lost)
    tries, run = ("try", "RUN") if lost[1:] else ("tries", short(lost[0].run))
    hint = f"{again} {tries} them again; `ht show {run}` names them"
    raise Unmeasurable(f"{', '.join(parts)} ended in infrastructure failures", hint=hint)


def _on(result: Evaluated) -> str:
    return f" on {result.endpoint}" if result.endpoint is not None else ""


def _again(context: Context, result: Evaluated, asked: Asked) -> str:
    """The command that was given, for one of its runs alone."""
    changes: dict[str, Any] = {
        "panel_name": asked.panel,
        "include": asked.include,
        "exclude": asked.exclude,
        "asked_as": () if result.endpoint is None else (result.endpoint,),
        "given": (),
    }
    run = context.store.run(result.run).model_copy(update=changes)
    return " ".join((run.command(panel=asked.panel is not None), *asked.words(), "--retry-infra"))
