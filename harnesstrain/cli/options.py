"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Say what would be done; write nothing.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Errors only.")]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Exit 3 when the answer is no.")]
Panel = Annotated[str | None, typer.Option("--panel", "-p", help="Panel name, panel file or task directory.")]
PanelName = Annotated[str | None, typer.Argument(metavar="[PANEL]", help="Panel name, panel file or task directory.")]
Split = Annotated[str | None, typer.Option("--split", help="train, holdout, sealed, or all (all but sealed).")]
Include = Annotated[list[str] | None, typer.Option("--include", help="Glob of task names.")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", help="Glob of task names to leave out.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Rollouts at once.")]
Endpoints = Annotated[
    list[str] | None,
    typer.Option(
        "--endpoint",
        metavar="NAME|URL",
        help="A model: [endpoints.NAME], llm, a URL, ENGINE:MODEL, a rules file.  Repeatable.",
    ),
]
Endpoint = Annotated[
    str | None, typer.Option("--endpoint", metavar="NAME", help="Only runs on this model: its name or fingerprint.")
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, max=10_000, help="Rollouts per task.")]
NoPager = Annotated[bool, typer.Option("--no-pager", help="On a terminal: no pager.")]
Config = Annotated[Path | None, typer.Option("--config", help="Use this ht.toml instead of the nearest one.")]
Set = Annotated[list[str] | None, typer.Option("--set", "-s", help="KEY=VALUE: override one setting.")]
Progress = Annotated[str, typer.Option("--progress", envvar="HT_PROGRESS", help="auto, bar, plain or none.")]
Cache = Annotated[str | None, typer.Option("--cache", help="on, read, write or off.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Same as --cache off.")]
Unisolated = Annotated[
    bool, typer.Option("--allow-unisolated", help="Accept a sandbox that does not isolate.", show_default=False)
]
