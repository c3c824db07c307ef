"""The Typer application and `main()`.  Command files import their rooms when they run, so that help is fast."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from importlib import import_module
from keyword import iskeyword
from pathlib import Path

import typer

from harnesstrain.cli import exits, output
from harnesstrain.core.errors import HtError, Prerequisite, UsageError

_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)

COMMANDS = {
    "init": "Set up",
    "quickstart": "Set up",
    "doctor": "Set up",
    "serve-llm": "Set up",
    "model": "Set up",
    "tasks": "Set up",
    "harness": "Set up",
    "config": "Set up",
    "evaluate": "Train",
    "certify": "Train",
    "propose": "Train",
    "judge": "Train",
    "promote": "Train",
    "epoch": "Train",
    "report": "Look",
    "log": "Look",
    "show": "Look",
    "diff": "Look",
    "status": "Look",
    "watch": "Look",
    "rev-parse": "Plumbing",
    "cat-trace": "Plumbing",
    "cache": "Plumbing",
    "verify": "Plumbing",
    "fsck": "Plumbing",
    "gc": "Plumbing",
    "db": "Plumbing",
    "export": "Plumbing",
    "import": "Plumbing",
}
"""Every command and the panel of `ht --help` it stands in."""

app = typer.Typer(
    name="ht",
    help="Train the program around a frozen LLM.  `ht COMMAND --help` tells more.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _register() -> None:
    for name, panel in COMMANDS.items():
        file = f"{name}_" if iskeyword(name) else name.replace("-", "_")
        module = import_module(f"harnesstrain.cli.commands.{file}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(module.command)


def _version(value: bool) -> None:
    if value:
        from harnesstrain import __version__

        output.data(f"ht {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Train the program around a frozen LLM."""


def main() -> None:
    """Entry point of `ht`.  Never returns."""
    arguments = sys.argv[1:]
    _plugin(arguments)
    output.guard()
    exits.install_signals()
    _register()
    try:
        code = _run(as_json="--json" in arguments)
        sys.stdout.flush()
    except HtError as error:  # what was still buffered cannot be written
        code = exits.report(error, as_json=False)
    except BrokenPipeError:  # whoever read our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = exits.SIGPIPE
    sys.exit(code)


def _run(*, as_json: bool) -> int:
    """Run the command; returns the exit code.  Raises BrokenPipeError."""
    try:
        _placed()
        _filled(sys.argv[1:])
        left = app(prog_name="ht", standalone_mode=False)
        output.finish()
        return left if isinstance(left, int) else 0
    except HtError as error:
        return exits.report(error, as_json=as_json)
    except BrokenPipeError:
        raise
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # the parser's own reading of it
            raise leaving.__context__ from None
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except Exception as error:
        wrong = _misused(error) or _unusable(error, sys.argv[1:])
        return exits.report(wrong, as_json=as_json) if wrong is not None else exits.bug(error, as_json=as_json)


def _placed() -> None:
    """Raises UsageError where the working directory is gone: no path could be told."""
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError(f"the working directory is gone: {error.strerror}", hint="`cd` to one that is there") from None


def _filled(words: list[str]) -> None:
    """Raises UsageError where a word is empty: the shell variable that it was made of is not set.

    What stands behind `--` is for another program.
    """
    for place, word in enumerate(words):
        if word == "--":
            return
        if word and not (word.startswith("--") and word.endswith("=") and word.count("=") == 1):
            continue
        before = words[place - 1] if place and not word else word.rstrip("=")
        what = f"{before} is given an empty value" if before.startswith("-") else "an argument is empty"
        raise UsageError(what, hint="leave it out, or set the shell variable that it comes from")


def _misused(error: Exception) -> UsageError | None:
    """What the command line parser complains about, in this program's own form; None for any other error."""
    if not hasattr(error, "format_message"):
        return None
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "ht"
    text = str(error.format_message()).strip().rstrip(".")
    if context is not None and text.startswith("Usage:"):
        output.say(text)
        text = f"`{command}` needs a command"
    return UsageError(text[:1].lower() + text[1:], hint=f"`{command} --help` shows what there is")


def _unusable(error: Exception, words: list[str]) -> HtError | None:
    """What the system says of a path that the command line names; None for any other error."""
    if not isinstance(error, OSError) or not isinstance(error.filename, str):
        return None
    named = [word.partition("=")[2] if word.startswith("--") else word for word in words]
    if Path(error.filename).absolute() not in {Path(name).absolute() for name in named if name}:
        return None
    kind = Prerequisite if error.errno in _FORBIDDEN else UsageError
    return kind(f"cannot use {error.filename}: {error.strerror}", hint="check the path and its permissions")


def _plugin(arguments: list[str]) -> None:
    """`ht foo …` becomes `ht-foo …` when foo is no command of ours and `ht-foo` is on PATH."""
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        program = shutil.which(f"ht-{arguments[0]}")
        if program is not None:
            os.execv(program, [program, *arguments[1:]])


if __name__ == "__main__":
    main()
