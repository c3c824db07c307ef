"""Settings → a sandbox that isolates.

One that does not is taken only when the user accepts it, and every record then says so.
"""

from __future__ import annotations

from harnesstrain.core.errors import Unsupported
from harnesstrain.core.settings import Settings
from harnesstrain.sandbox.base import Sandbox
from harnesstrain.sandbox.kinds import open_sandbox
from harnesstrain.sandbox.states import StatesSize, shared_states


def open_for(settings: Settings) -> Sandbox:
    """The sandbox that the settings name; `auto` is the strongest kind that works here.

    Raises Prerequisite (it cannot be had here), Unsupported (it does not isolate, and that was not accepted).
    """
    sandbox = open_sandbox(settings.sandbox.kind, network=settings.sandbox.network, archives=settings.sandbox.archives)
    can = sandbox.capabilities()
    if can.isolated or settings.sandbox.allow_unisolated:
        return sandbox
    sandbox.close()
    msg = f"sandbox '{can.kind}' does not isolate: {'; '.join(can.notes) or 'commands run on this machine'}"
    raise Unsupported(msg, hint="`ht doctor` says what is missing; --allow-unisolated accepts the risk")


def kept_states() -> StatesSize:
    """What the states take that this user's sandboxes keep to go on from."""
    return shared_states().size()


def shrink_states(all_bytes: int, *, dry_run: bool = False) -> StatesSize:
    """Remove the longest unused until all together take at most `all_bytes`; returns what went, or would go."""
    return shared_states().shrink(all_bytes, dry_run=dry_run)
