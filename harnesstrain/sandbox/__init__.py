"""Sandboxes: where a task's commands run, and the agent that runs them.

Read this to learn how a command is started, bounded, made repeatable and compared.  May import: core only; the only
room that imports docker and dockerfile_parse.

base.py        Sandbox and Session protocols, FileFault
kinds.py       `open_sandbox(kind)`: local, docker, process, or one of your own
local.py       overlay layers and bubblewrap on the host's system directories; local_session.py: one of its sessions
states.py      states that sessions were sealed in, on disk
difference.py  what a session changed, as one digest; git_index.py: what a git index says
rootfs.py      the root filesystem of local
layers.py      sealed layers on disk, locks
docker.py      containers of a Docker engine
container.py   their limits, privileges, variables; leftovers.py: removing them
compose.py     a task's compose file, vetted; project.py: its containers; guard.py: their end when the driver is killed
engine.py      finding the engine, its limits, the stream to a container
images.py      a task's Dockerfile built once per content; pulling.py: images that are fetched
process.py     a temporary directory, not isolated
session.py     what their sessions have in common
wire.py        the driver's side of the agent's protocol
bundle.py      sending the agent into a sandbox
agent/         the agent itself; runs inside
tree.py        a host directory as what a sandbox takes; landing.py: a sandbox's tree on the host
dockerfile.py  the subset of Dockerfile that local and process build
vetting.py     what no engine takes: an unknown instruction, an image's impossible name
build.py       COPY and .dockerignore
pins.py        determinism at the source
scrub.py       normalising what is left, for comparison; scrub_rules.py: the rules
scrub_file.py  a user's own scrub rules
scrub_proof.py   user rules run on their examples, in a process of their own
scrub_proposal.py  a rule proposed for two outputs that differ
contract.py    what every sandbox must do, as tests to import; contract_states.py: about states
"""

from __future__ import annotations

from harnesstrain.sandbox.base import FileFault, Sandbox, Session
from harnesstrain.sandbox.kinds import open_sandbox

__all__ = ["FileFault", "Sandbox", "Session", "open_sandbox"]
