"""Text as UTF-8 can hold it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator


def whole(text: str) -> str:
    """`text` with U+FFFD for every half of a surrogate pair that stands alone; two halves that meet are one."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


WholeText = Annotated[str, AfterValidator(whole)]
"""Text from outside that is stored: valid Unicode, whatever was given."""
