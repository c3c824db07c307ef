"""Every file of the given archive is there, and one is protected."""

import sys
import tarfile
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


with tarfile.open(GIVEN / "backup.tar") as archive:
    members = {member.name: archive.extractfile(member).read().decode() for member in archive if member.isfile()}
need(len(members) == 4, "the verifier's archive is damaged")
for name, content in members.items():
    need(text(f"restored/{name}") == content.rstrip(), f"restored/{name} has other text")
need((APP / "restored/keys/id.key").stat().st_mode & 0o7777 == 0o600, "id.key has other permissions")
