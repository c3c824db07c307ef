"""Processor time of this process and of everything it started, ended or not."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Spent:
    """Seconds."""

    own: float
    """Processor time of this process."""
    others: float
    """Processor time of its children: harnesses, launchers, sandboxes, model workers."""
    wall: float

    @property
    def cpu(self) -> float:
        """Processor time of all together."""
        return self.own + self.others

    def __sub__(self, before: Spent) -> Spent:
        return Spent(self.own - before.own, self.others - before.others, self.wall - before.wall)


def spent() -> Spent:
    """So far."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    others = ended.ru_utime + ended.ru_stime
    for child in psutil.Process().children():
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        others += times.user + times.system + times.children_user + times.children_system
    return Spent(time.process_time(), others, time.monotonic())


def exponent(costs: tuple[float, float, float], sizes: tuple[float, float, float]) -> float:
    """The power with which a cost grows: 1 is linear, 2 is quadratic.  A fixed cost does not count.

    The least power, in hundredths from 0 to 3, for which `fixed + c * size**power` passes all three costs best.
    """
    first, second, third = costs
    if second <= first:
        return 0.0
    wanted = (third - second) / (second - first)
    small, middle, large = (size / sizes[0] for size in sizes)

    def steep(power: float) -> float:
        return float((large**power - middle**power) / (middle**power - small**power))

    powers = [hundredth / 100 for hundredth in range(1, 301)]
    return min(powers, key=lambda power: abs(steep(power) - wanted))
