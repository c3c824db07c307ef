"""`python -m agent`: serve one episode on stdin and stdout.

The SDK comes first, so that it sees which files the other modules read.
"""

import ht_sdk
from agent.loop import solve

if __name__ == "__main__":
    ht_sdk.serve(solve)
