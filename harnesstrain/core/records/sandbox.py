"""What a sandbox can do and what a command in it did."""

from __future__ import annotations

from pydantic import Field

from harnesstrain.core.digests import digest
from harnesstrain.core.records.base import Record


class RunResult(Record):
    """One command's complete, raw result.  Bytes are never rewritten."""

    exit_code: int
    """As the shell reports it: 128+n for signal n, 124 for a time-out."""
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    truncated: bool = False
    """Output was bounded at the source: head and tail kept, the middle dropped."""
    duration: float = 0.0
    """Seconds, measured inside the sandbox."""
    left: int = 0
    """Processes the command left running."""
    held_open: bool = False
    """A background process kept the command's output open after it ended."""


class Fetched(Record):
    """What came out of a sandbox."""

    files: int
    size: int
    """Bytes of all files."""
    left_out: tuple[str, ...] = ()
    """Paths of what was not taken: devices, pipes, sockets, unreadable files, links that dangle or lead out.  At most a
    hundred are named."""


class Limits(Record):
    """What a sandbox may use.  None: the engine's default."""

    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    pids: int = 512
    output_bytes: int = 262_144
    """Per stream and command; head and tail are kept."""


class Capabilities(Record):
    """What a sandbox kind isolates on this machine.  A regime that needs more is refused with the reason."""

    kind: str
    isolated: bool
    """Own filesystem, processes and network."""
    network_modes: tuple[str, ...] = ("none",)
    builds_dockerfile: bool = False
    forks: bool = False
    """Can grade in a fork of the sealed final state."""
    snapshots: bool = False
    """Can keep the state after a step and start from it again."""
    pins: tuple[str, ...] = ()
    """Names of the determinism pins that hold."""
    notes: tuple[str, ...] = ()
    """What a user should know, e.g. 'not isolated'."""


class SandboxIdentity(Record):
    """The part of a sandbox that determines results; enters the regime."""

    kind: str
    image: str
    """Digest of the root filesystem (image digest, or of the host's read-only system directories)."""
    pins: str
    """Version of the pin set."""
    network: str = "none"

    @property
    def digest(self) -> str:
        """64 hex."""
        return digest(self)


class Grade(Record):
    """What a verifier said."""

    reward: float
    rewards: dict[str, float] = Field(default_factory=dict)
    """Named sub-rewards, when the verifier gives them."""
    output: str = ""
    """What the verifier printed; never shown to a harness or an estimator."""
    duration: float = 0.0
    """Seconds."""
    notes: tuple[str, ...] = ()
    """What the grading found in the submitted state that could bend a verifier, and what does not fit together."""
