"""What the steps of the window under way take, from one batch handed out to the next one asked for.

Standard library only.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from stoker.probe.legs import Measured

# Of the usual step: who takes less has not waited for the device, who takes as much more has waited
# for another step too.
_AHEAD = 0.5


class StepLog:
    """The open step, and those of the window that have ended."""

    def __init__(self) -> None:
        self.measured = Measured()
        self.run = 0  # steps of the window so far, skipped ones included
        self.own_s = 0.0  # spent in our own code
        self._returned: float | None = None
        self._wait = 0.0
        self._beside_s = 0.0  # waited for other loaders since the step began

    def begin(self) -> None:
        """Another window."""
        self.measured = Measured()
        self.run = 0
        self.own_s = 0.0

    def opens(self, returned: float, wait_s: float = 0.0) -> None:
        """A step begins with the batch that was just handed out."""
        self._returned, self._wait = returned, wait_s

    def edge(self, wait_s: float) -> None:
        """An epoch began with a batch that was waited for so long; its step is not measured."""
        self.measured.boundaries += 1
        self.measured.edges.append(wait_s)
        self.forget()

    def forget(self) -> None:
        """The open step has no end that we know."""
        self._returned = None

    def waited_beside(self, seconds: float) -> None:
        """A loader that goes along was waited for within the step."""
        self._beside_s += seconds

    def ends(self) -> bool:
        """True when a step is open, which now ends."""
        if self._returned is None:
            self._beside_s = 0.0
            return False
        self.run += 1
        return True

    def close(self, called: float, *, skip: int) -> tuple[float, float] | None:
        """The step ended with that call of next(); from when to when, if it is measured."""
        returned, self._returned = self._returned, None
        beside, self._beside_s = self._beside_s, 0.0
        if returned is None or self.run <= skip:
            return None
        self.measured.wait.append(self._wait + beside)
        self.measured.compute.append(called - returned - beside)
        return returned, called

    def device_ended(self, seconds: float) -> None:
        """The device ended the measured steps so long after the last call of next().

        The host was ahead by as much. It had got ahead in steps that did not wait for the device,
        the shortest: they are made longer, until all is accounted for. First those before a step
        in which the script itself asked for a result, and waited for all that was ahead.
        """
        compute = _paid_back(self.measured.compute)
        level = _filled(compute, seconds)
        self.measured.compute = [max(value, level) for value in compute]

    def leave_out_lead(self) -> None:
        """Leave out the first steps, as far as they are no steps of the loop.

        Where a thread of the script's own asks ahead, a window begins with a queue that is empty by
        now: filling it takes no time, and tells nothing of a step.
        """
        middle = statistics.median(self.measured.periods or [0.0])
        for place, period in enumerate(self.measured.periods):
            if period >= middle / 2 or place >= self.run // 3:
                del self.measured.wait[:place], self.measured.compute[:place]
                return

    def fields(self) -> dict[str, Any]:
        """What is written down of the window."""
        return {
            "wait": [round(value, 7) for value in self.measured.wait],
            "compute": [round(value, 7) for value in self.measured.compute],
            "edges": [round(value, 7) for value in self.measured.edges],
            "drained": [round(value, 7) for value in self.measured.drained],
            "own_s": round(self.own_s, 6),
        }


def _paid_back(values: Sequence[float]) -> list[float]:
    """The same seconds, with what a step waited for the ones before it given to them.

    A step in which the host only got ahead takes less than half of the usual; one in which it fell
    back takes the device's time of both. Steps that differ by their work are left as they are.
    """
    paid = list(values)
    usual = statistics.median(paid or [0.0])
    ahead: list[int] = []
    for place, value in enumerate(values):
        if value < _AHEAD * usual:
            ahead.append(place)
        elif ahead and value > (1 + _AHEAD) * usual:
            owed = min(value - usual, sum(usual - paid[one] for one in ahead))
            level = _filled([paid[one] for one in ahead], owed)
            for one in ahead:
                paid[one] = max(paid[one], level)
            paid[place] -= owed
            ahead = []
    return paid


def _filled(values: Sequence[float], amount: float) -> float:
    """The level to which the lowest values rise when so much is poured over them."""
    level, total = 0.0, amount
    for count, value in enumerate(sorted(values), 1):
        if count > 1 and value >= level:
            break
        total += value
        level = total / count
    return level
