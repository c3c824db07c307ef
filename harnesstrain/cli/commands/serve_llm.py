"""`ht serve-llm`: serve a frozen model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    engine: Annotated[
        str | None, typer.Option("--engine", help="embedded, external, scripted, sglang, vllm, …")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Model name or path.")] = None,
    url: Annotated[str | None, typer.Option("--url", help="external: OpenAI-compatible base URL.")] = None,
    script: Annotated[Path | None, typer.Option("--script", help="scripted: rules file.")] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free port.")] = 0,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    context_length: Annotated[int | None, typer.Option("--context-length", min=256, help="Tokens.")] = None,
    max_running: Annotated[int | None, typer.Option("--max-running", min=1, help="Requests at once.")] = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="Ask for deterministic settings.")] = False,
    engine_options: Annotated[list[str] | None, typer.Option("--engine-option", help="NAME=VALUE.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Serve in the background.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Say whether one serves in the background.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the one in the background.")] = False,
    wait: Annotated[float, typer.Option("--wait", min=1, max=86_400, help="Seconds to wait until it answers.")] = 600.0,
    dry_run: opt.DryRun = False,
    exit_code: opt.ExitCode = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Serve a frozen model over HTTP (OpenAI routes).  Prints its URL."""
    import os

    from harnesstrain.cli import output
    from harnesstrain.cli.serving import Asked, look, plan, serve
    from harnesstrain.core.errors import UsageError
    from harnesstrain.stages.serve import Action

    if status + stop + detach > 1:
        msg = "--detach, --status and --stop exclude each other"
        raise UsageError(msg, hint="give one of them")
    if status or stop:
        look(Action.STOP if stop else Action.STATUS, config=config, as_json=json, exit_code=exit_code)
        return
    asked = Asked(
        engine=engine,
        model=model,
        url=url,
        script=script,
        port=port,
        host=host,
        context_length=context_length,
        max_running=max_running,
        deterministic=deterministic,
        options=tuple(engine_options or ()),
        wait=wait,
    )
    action = Action.DETACH if detach else Action.FOREGROUND
    if dry_run:
        text = plan(asked, action, config, os.environ)
        output.emit("plan", {"text": text}) if json else output.data(text)
        return
    serve(asked, action=action, config=config, as_json=json, environ=os.environ)
