"""`python -m agent`: serve one episode on stdin and stdout."""

from agent.loop import solve
from ht_sdk import serve

if __name__ == "__main__":
    serve(solve)
