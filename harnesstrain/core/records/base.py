"""The base of every record."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from harnesstrain.core.digests import digest


class Record(BaseModel):
    """Frozen, strict about unknown keys.  `digest_of(*fields)` digests a chosen part."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    def digest_of(self, *fields: str) -> str:
        """Digest of the named fields, or of all of them when none is named."""
        dumped = self.model_dump(mode="json", include=set(fields) if fields else None)
        return digest(dumped)
