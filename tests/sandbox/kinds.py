"""Where the tests find their sandboxes; what cannot be had is skipped aloud."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.confinement import unavailable
from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.resources import shipped
from harnesstrain.sandbox.docker import DockerSandbox
from harnesstrain.sandbox.engine import reason_against
from harnesstrain.sandbox.local import LocalSandbox
from harnesstrain.sandbox.process import ProcessSandbox

SMALL, TINY = "harnesstrain-test:small", "harnesstrain-test:tiny"
"""Images of the test engine: Debian with python3 and git; busybox alone."""


def local(cache: Path, **options: str) -> LocalSandbox:
    """The local sandbox, or a skip that says why not."""
    reason = unavailable()
    if reason:
        pytest.skip(f"no local sandbox: {reason}")
    return LocalSandbox(cache_dir=cache, **options)


def process() -> ProcessSandbox:
    """The process sandbox: always there."""
    return ProcessSandbox()


@cache
def docker_host() -> str | None:
    """The engine of the tests: HT_TEST_DOCKER, else DOCKER_HOST, else the default socket; None when none answers."""
    for host in (os.environ.get("HT_TEST_DOCKER"), os.environ.get("DOCKER_HOST"), "unix:///var/run/docker.sock"):
        if host and reason_against(host) is None:
            return host
    return None


@cache
def _why_no_image(kind: str, tag: str, host: str) -> str | None:
    folder = Path(os.environ.get("HT_CI_CACHE", Path.home() / ".cache/harnesstrain-ci"))
    script = shipped("bootstrap") / "docker" / "base_image.sh"
    made = subprocess.run(
        [script, kind, folder, tag],
        env={**os.environ, "DOCKER_HOST": host},
        capture_output=True,
        text=True,
        check=False,
    )
    return made.stderr.strip() or f"exit {made.returncode}" if made.returncode else None


def docker(cache: Path, *, image: str = SMALL, **options: Any) -> DockerSandbox:
    """The docker sandbox with a test image, or a skip that says why not."""
    host = docker_host()
    if host is None:
        pytest.skip("no Docker engine answers with limits; `bootstrap/docker/engine.sh start DIR` starts one")
    reason = _why_no_image(image.rpartition(":")[2], image, host)
    if reason:
        pytest.skip(f"no test image: {reason}")
    try:
        return DockerSandbox(docker_host=host, cache_dir=cache, build_network="none", **options)
    except Prerequisite as error:
        pytest.skip(error.message)
