"""What the steps of the window under way take, from one batch handed out to the next one asked for.

Standard library only.
"""

from __future__ import annotations

from typing import Any

from stoker.probe.legs import Measured


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

    def fields(self) -> dict[str, Any]:
        """What is written down of the window."""
        return {
            "wait": [round(value, 7) for value in self.measured.wait],
            "compute": [round(value, 7) for value in self.measured.compute],
            "edges": [round(value, 7) for value in self.measured.edges],
            "drained": [round(value, 7) for value in self.measured.drained],
            "own_s": round(self.own_s, 6),
        }
