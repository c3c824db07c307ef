"""`ht tasks`: what can be measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harnesstrain.cli import options as opt
from harnesstrain.cli.commands.tasks_ready import prebuild, pull

app = typer.Typer(
    help="Tasks and panels: list, check, oracle, pull, prebuild, grade-log.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_tasks(
    panel: opt.PanelName = None, split: opt.Split = None, config: opt.Config = None, json: opt.Json = False
) -> None:
    """The tasks of a panel: name, split, difficulty, digest."""
    from harnesstrain.cli import output
    from harnesstrain.cli.checking import panel_of
    from harnesstrain.cli.session import settings_for
    from harnesstrain.cli.tables import columns
    from harnesstrain.taskset import check_loaded, load_panel

    settings = settings_for(config=config)
    loaded = load_panel(panel_of(panel, settings), settings.root)
    chosen = {place.task for place in loaded.select(None if split == "all" else split).places}
    checked = check_loaded(loaded)
    tasks = [task for task in checked.tasks if task.name in chosen]
    if json:
        output.emit_list("tasks", tasks, panel=checked.name, digest=checked.digest)
        return
    rows = [(t.name, t.split, t.metadata.get("difficulty", ""), (t.digest or t.status)[:11]) for t in tasks]
    for line in columns(rows):
        output.data(line)


@app.command("check")
def check(
    panel: opt.PanelName = None,
    exit_code: opt.ExitCode = False,
    config: opt.Config = None,
    given: opt.Set = None,
    json: opt.Json = False,
) -> None:
    """Load every task, ask the sandboxes, and say what will run where, what will not, and why.  Starts nothing."""
    from harnesstrain.cli.checking import run_check

    run_check(panel, config=config, given=given, as_json=json, exit_code=exit_code)


@app.command("oracle")
def oracle(
    panel: opt.PanelName = None,
    split: opt.Split = None,
    include: opt.Include = None,
    exclude: opt.Exclude = None,
    noop: Annotated[bool, typer.Option("--noop", help="Do nothing instead: no task may be solved.")] = False,
    twice: Annotated[bool, typer.Option("--twice", help="Do it twice, and say what differs.")] = False,
    jobs: opt.Jobs = None,
    exit_code: opt.ExitCode = False,
    config: opt.Config = None,
    given: opt.Set = None,
    json: opt.Json = False,
) -> None:
    """Run reference solutions and grade them; with --noop grade untouched environments."""
    from harnesstrain.cli.tasks import OracleSpec, run_oracle

    run_oracle(
        OracleSpec(
            panel=panel,
            split=split,
            include=tuple(include or ()),
            exclude=tuple(exclude or ()),
            noop=noop,
            twice=twice,
            jobs=jobs,
            config=config,
            given=tuple(given or ()),
        ),
        as_json=json,
        exit_code=exit_code,
    )


app.command("pull")(pull)
app.command("prebuild")(prebuild)


@app.command("grade-log")
def grade_log(
    rows: Annotated[Path, typer.Option("--rows", metavar="FILE", help="SWE-bench rows: JSON lines or Parquet.")],
    json: opt.Json = False,
) -> None:
    """Grade SWE-bench logs: JSON lines {case, instance_id, log} on stdin, one verdict a line on stdout."""
    from harnesstrain.cli.grading import grade_lines

    grade_lines(rows, as_json=json)
