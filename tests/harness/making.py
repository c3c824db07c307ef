"""What the harness tests make things with."""

from __future__ import annotations

import subprocess
from pathlib import Path

MANIFEST = """[harness]
name = "tiny"
command = ["python", "-m", "agent"]
surface = ["agent/**", "prompts/*.md"]
"""


def git(root: Path, *args: str, **more: str) -> str:
    """Run the user's git."""
    run = subprocess.run(
        ["git", *args], cwd=root, check=True, capture_output=True, input=more.get("stdin", "").encode()
    )
    return run.stdout.decode().strip()


def commit_all(root: Path, message: str) -> str:
    """Commit everything, as a user would."""
    git(root, "add", "-A")
    git(root, "commit", "-q", "--no-verify", "-m", message)
    return git(root, "rev-parse", "HEAD")
