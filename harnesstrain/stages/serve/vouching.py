"""What the project's certificates say of the endpoint that is served.

An engine's flag is no proof: `deterministic` is published as true only for a fingerprint that passed the gate, and the
requests at once are capped at what it found.  Read again while serving, so that a certificate counts as soon as it is
there.
"""

from __future__ import annotations

from pathlib import Path

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Endpoint, Sampling
from harnesstrain.judge.gate import trust


class Voucher(Record):
    """Where certificates are, and for which sampling."""

    location: str
    """Of the store: its directory or database URL."""
    directory: Path | None = None
    """Its files, for a database on a server."""
    sampling: Sampling

    def __call__(self, endpoint: Endpoint) -> Endpoint:
        """`endpoint` as certified; as it is where nothing is known of it.  Raises what opening the store raises."""
        from harnesstrain.store import Store

        if "://" not in self.location and not (Path(self.location) / "store.db").exists():
            return endpoint
        with Store.open(self.location, directory=self.directory) as store:
            found = trust(endpoint, self.sampling, store.certificates(kind="model"))
        if found.certificate is None:
            return endpoint
        width = endpoint.max_running
        certified = width if found.limit is None else min(width, found.limit)
        failed = found.finding is not None and found.finding.failed_at is not None
        return endpoint.model_copy(
            update={
                "deterministic": found.deterministic,
                "max_running": certified,
                "capacity": certified if failed else width,
            }
        )
