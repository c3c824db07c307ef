"""Opening an environment: started, the task's files laid into it, healthy."""

from __future__ import annotations

import time
from collections.abc import Callable

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Environment, Healthcheck
from harnesstrain.sandbox.base import FileFault, Sandbox, Session

SAID = 300
"""Characters of what an unhealthy environment said."""


def opened(sandbox: Sandbox, environment: Environment, limits: Limits | None = None) -> Session:
    """A fresh environment in which work can begin.  Raises SandboxFailure, Unsupported."""
    session = sandbox.open(environment, limits=limits)
    try:
        _make_ready(session, environment)
    except BaseException:
        session.close()
        raise
    return session


def _make_ready(session: Session, environment: Environment) -> None:
    if environment.files is not None:
        try:
            session.lay(environment.files, session.workdir)
        except FileFault as fault:
            raise SandboxFailure(f"the task's files cannot be laid into {session.workdir}: {fault.message}") from fault
    if environment.healthcheck is not None:
        reason = unhealthy(session, environment.healthcheck)
        if reason is not None:
            raise SandboxFailure(f"the environment is not healthy: {reason}", hint="see [environment.healthcheck]")


def unhealthy(
    session: Session,
    check: Healthcheck,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> str | None:
    """Wait until `check` succeeds; why it does not, when it failed too often.  Raises SandboxFailure."""
    began = clock()
    failures = 0
    while True:
        result = session.run(check.command, timeout=check.timeout)
        if result.exit_code == 0 and not result.timed_out:
            return None
        starting = clock() - began < check.start_period
        failures += not starting
        if failures >= check.retries:
            said = (result.stdout + result.stderr).decode("utf-8", "replace").strip().splitlines()
            how = f"ran past {check.timeout:g} s" if result.timed_out else f"exit {result.exit_code}"
            return f"`{check.command}` failed {failures} times ({how}){': ' + said[-1][:SAID] if said else ''}"
        sleep(check.start_interval if starting else check.interval)
