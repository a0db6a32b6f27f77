"""The one way anything is timed: a Clock that reads, a Recorder that keeps Spans.

Standard library only: this module also runs inside the examined process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from stoker import clocks


class Clock(Protocol):
    """Reads wall time and this thread's CPU time, both in nanoseconds."""

    def wall_ns(self) -> int:
        """Monotonic wall time in nanoseconds."""
        ...

    def cpu_ns(self) -> int:
        """CPU time of the calling thread in nanoseconds."""
        ...


class SystemClock:
    """The machine's own clocks."""

    wall_ns = staticmethod(clocks.wall_ns)
    cpu_ns = staticmethod(clocks.cpu_ns)


class FakeClock:
    """A clock that moves only when told, for tests that never sleep."""

    def __init__(self) -> None:
        self._wall = 0
        self._cpu = 0

    def wall_ns(self) -> int:
        """Nanoseconds told so far."""
        return self._wall

    def cpu_ns(self) -> int:
        """CPU nanoseconds told so far."""
        return self._cpu

    def advance(self, seconds: float, *, cpu_s: float = 0.0) -> None:
        """Move wall time on by `seconds` and CPU time by `cpu_s`."""
        self._wall += round(seconds * 1e9)
        self._cpu += round(cpu_s * 1e9)


class Span(NamedTuple):
    """One named stretch of time in one thread."""

    name: str
    start_ns: int
    wall_ns: int
    cpu_ns: int


class Recorder:
    """Keeps the spans of one thread, in the order in which they ended."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.spans: list[Span] = []

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Record the block as a span, also when it raises."""
        wall, cpu = self.clock.wall_ns(), self.clock.cpu_ns()
        try:
            yield
        finally:
            self.spans.append(
                Span(name, wall, self.clock.wall_ns() - wall, self.clock.cpu_ns() - cpu)
            )
