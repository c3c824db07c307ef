"""Every name has its new ending, every content is kept."""

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


wanted = {}
for path in (GIVEN / "notes").iterdir():
    name = path.stem + ".md" if path.suffix == ".txt" else path.name
    wanted[name] = path.read_text().rstrip()
need({path.name for path in (APP / "notes").iterdir()} == set(wanted), "notes has other names")
for name, content in wanted.items():
    need(text(f"notes/{name}") == content, f"notes/{name} has other text")
