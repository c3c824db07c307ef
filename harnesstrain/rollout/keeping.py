"""When a state is kept: when executing the actions since the last one again would cost more.

Starting from a kept state costs about a tenth of a second, keeping a small one a few milliseconds.  Both grow with
what the actions wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.rollout.chain import Link

KEEP_SECONDS = 0.25
"""Recorded seconds of work that are worth a kept state."""
KEEP_ACTIONS = 8
"""Actions that are worth one, however short: each has its own cost."""
CHEAP = 0.1
"""Seconds that keeping may take at any rate.  Where it takes longer, it waits for as much more work."""
TIMES = 5
"""By how much the work must outweigh a keeping that is not cheap."""


class Keeping:
    """The work since the last kept state."""

    def __init__(self) -> None:
        self._cost = 0.0
        self.start(fresh=True)

    def start(self, *, fresh: bool) -> None:
        """The state reached is the environment's own (`fresh`), or a kept one."""
        self._seconds, self._actions = 0.0, 0
        self._fresh = fresh

    def count(self, link: Link) -> None:
        """One more action was executed."""
        self._seconds += link.entry.result.duration
        self._actions += 1

    @property
    def due(self) -> bool:
        """Whether the work since then is worth it.  The first action always is: then nothing is all executed again."""
        if self._fresh:
            return True
        if self._cost > CHEAP:
            return self._seconds >= TIMES * self._cost
        return self._seconds >= KEEP_SECONDS or self._actions >= KEEP_ACTIONS

    def tried(self, cost: float) -> None:
        """The state reached was to be kept, which took `cost` seconds.  Refused or not, that is due again later."""
        self._cost = cost
        self.start(fresh=False)


def worth(links: Sequence[Link]) -> bool:
    """Whether executing these costs more than starting from a kept state."""
    return len(links) >= KEEP_ACTIONS or sum(link.entry.result.duration for link in links) >= KEEP_SECONDS
