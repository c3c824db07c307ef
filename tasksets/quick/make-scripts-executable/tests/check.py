"""Every file has its permissions."""

import sys
from pathlib import Path

APP = Path("/app")
GIVEN = Path("/tests/given")


def need(condition, why):
    if not condition:
        print("not solved:", why)
        sys.exit(1)


def text(name):
    """The text of a regular file below /app; trailing blank space at its end does not count."""
    path = APP / name
    need(path.is_file() and path.resolve() == path, f"{path} is not a regular file")
    need(path.stat().st_size < 1_000_000, f"{path} is too large")
    return path.read_text(encoding="utf-8").rstrip()


wanted = {
    "bin/backup.sh": 0o755,
    "bin/clean.sh": 0o755,
    "bin/deploy.sh": 0o755,
    "bin/notes.txt": 0o644,
    "bin/hosts.conf": 0o644,
    "secret.txt": 0o600,
}
for name, mode in wanted.items():
    need(text(name), f"{name} is empty")
    need((APP / name).stat().st_mode & 0o7777 == mode, f"{name} has other permissions")
