"""What a detached server runs.  Its plan comes on standard input, its word goes to the descriptor it is given."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from typing import Any

from harnesstrain.core.errors import HtError
from harnesstrain.llm.server import Served, ServerPlan, serve
from harnesstrain.stages.serve.vouching import Voucher


class _Word:
    """Says one line to whoever started us, once."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor: int | None = descriptor

    def say(self, word: dict[str, Any]) -> None:
        """Send `word`; nobody listening is no error."""
        if self._descriptor is None:
            return
        with contextlib.suppress(BrokenPipeError):
            os.write(self._descriptor, json.dumps(word).encode("utf-8") + b"\n")
        os.close(self._descriptor)
        self._descriptor = None


def main(descriptor: int) -> int:
    """Serve until a signal.  0 after a clean end."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    word = _Word(descriptor)
    package = json.load(sys.stdin)
    plan = ServerPlan.model_validate(package["plan"])
    engine = plan.engine.model_copy(update={"api_key": package["api_key"], "log": plan.engine.log})
    plan = plan.model_copy(update={"engine": engine})

    voucher = Voucher.model_validate(package["voucher"]) if package["voucher"] else None

    def announce(served: Served) -> None:
        assert served.state is not None
        word.say({"state": served.state.model_dump(mode="json"), "already": served.already})

    try:
        serve(plan, announce=announce, vouch=voucher)
    except HtError as error:
        logging.getLogger(__name__).error("%s", error.message)
        word.say({"error": error.payload()})
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
