"""`ht harness`: does a harness keep to the protocol?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harnesstrain.cli import options as opt

app = typer.Typer(help="Harnesses: check.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Harnesses."""


@app.command("check")
def check(
    rev: Annotated[str | None, typer.Argument(help="A version; default: the files in the current directory.")] = None,
    directory: Annotated[Path, typer.Option("--dir", help="Directory with harness.toml.")] = Path(),
    tests: Annotated[bool, typer.Option("--tests/--no-tests", help="Run the manifest's check too.")] = True,
    unisolated: opt.Unisolated = False,
    exit_code: opt.ExitCode = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Run a harness against a scripted model and environment.  Prints what it violates, one a line."""
    from harnesstrain.cli import output, revisions
    from harnesstrain.cli.session import opened
    from harnesstrain.core.errors import AnswerNo
    from harnesstrain.harness import manifest
    from harnesstrain.harness.check import conformance
    from harnesstrain.harness.trial import run_check

    def examine(tree: Path) -> None:
        violations = conformance(tree, isolated=not unisolated)
        result = run_check(tree, manifest.load(tree), isolated=not unisolated) if tests else None
        failed = result is not None and not result.ok
        if json:
            output.emit_list("violations", violations, tests=result.model_dump(mode="json") if result else None)
        else:
            for violation in violations:
                output.data(f"{violation.scenario}: {violation.rule}: {violation.detail}")
        if failed and result is not None:
            output.say(f"its own tests fail:\n{result.output.strip()[-2000:]}")
        if not violations and not failed:
            output.say("keeps to the protocol" + ("; its tests pass" if result is not None else ""))
        elif exit_code:
            msg = f"{len(violations)} violations" + (", failing tests" if failed else "")
            raise AnswerNo(msg)

    if rev is None:
        examine(directory.resolve())
        return
    with opened(config=config) as context, context.repo.worktree(revisions.commit_of(context, rev)) as tree:
        examine(tree)
