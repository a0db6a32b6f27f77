"""A script whose loop and loaders only pretend to take time, around a conductor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from stoker.probe import offers
from stoker.probe.conductor import Conductor
from stoker.probe.session import Session
from stoker.probe.tracks import Track

STEP_S, LOAD_S = 0.02, 0.03


class Clock:
    """Seconds that pass only when somebody spends them."""

    def __init__(self) -> None:
        self.now = 100.0

    def spend(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self) -> float:
        return self.now


class Sides:
    """Side loaders that take the time of the script's own."""

    threads = 1
    start_each_s = None

    def __init__(self, clock: Clock, failing: bool) -> None:
        self._clock = clock
        self._is_failing = failing

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        if self._is_failing:
            raise RuntimeError("the data set wants a worker")
        periods = [LOAD_S] * min(batches, int(limit_s / LOAD_S))
        self._clock.spend(sum(periods))
        return periods

    def start_drainer(self) -> Any:
        return SimpleNamespace(ticket=lambda: None, stop=lambda: [LOAD_S] * 4)

    on_trial_now = None

    def offers(self) -> Any:
        return None

    def begin_trial(self, workers: int, variant: str) -> None:
        pass

    def on_trial(self, anew: int | None) -> Any:
        return ["on trial"]

    def end_trial(self) -> None:
        pass

    def once(self, limit_s: float) -> None:
        if self._is_failing:
            raise RuntimeError("no single samples")

    def close(self) -> None:
        pass


class Offering(Sides):
    """Side loaders that a candidate can take the place of; one breaks at its third batch."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, failing=False)
        self.begun: list[str] = []
        self._taken = 0

    def offers(self) -> Any:
        names = ("allocator", "unordered")
        found = [offers.Candidate(name) for name in names]
        return SimpleNamespace(counts=lambda *_: [], further=lambda _: found, together=lambda _: [])

    def begin_trial(self, workers: int, variant: str) -> None:
        self.begun.append(variant)
        self._taken = 0

    def on_trial(self, anew: int | None) -> Any:
        self._taken += 1
        if self.begun[-1] == "unordered" and self._taken == 3:
            raise RuntimeError("a worker died")
        self._clock.spend(LOAD_S / 3)
        return ["on trial"]


class Library:
    """A view of a library without a device."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.gradients = True
        self.optimizer = True
        self.sides_fail = False
        self.sides: Any = None

    def grad_enabled(self) -> bool:
        return self.gradients

    def has_optimizer(self) -> bool:
        return self.optimizer

    def has_compiled(self) -> bool:
        return False

    def synchronize(self) -> None:
        pass

    def device(self) -> str | None:
        return None

    def place(self, leaf: Any) -> Any:
        return leaf

    def mark_resident(self, batch: Any) -> None:
        pass

    def quiesce(self, iterator: Any, limit_s: float) -> None:
        pass

    def worker_pids(self, iterator: Any) -> list[int]:
        return []

    def versions(self) -> dict[str, str]:
        return {}

    def rehearsal(self, track: Track, *_: Any) -> Any:
        return self.sides or Sides(self._clock, self.sides_fail)


class Script:
    """A script's loaders, its step, and the conductor inside its loop."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self.clock = clock
        self.library = Library(clock)
        self.conductor = Conductor(session, self.library)
        self.fetched: list[str] = []
        self.made: Callable[[int], Any] = lambda number: [number]

    def loader(self, name: str = "train", *, batches: int = 40, learns: bool = True) -> Track:
        facts = {"batches": batches, "samples": batches, "workers": 0, "prefetch_factor": None}
        track = Track(None, facts | {"dataset": name, "batch_size": 1})
        track.learns = learns
        return track

    def epoch(self, track: Track, load_s: float = LOAD_S) -> Iterator[Any]:
        """What the loop gets out of one `iter()` of a loader."""
        self.conductor.on_epoch(track, self.clock.now)
        left = iter(range(track.length or 0))

        def fetch() -> Any:
            number = next(left)
            self.clock.spend(load_s)
            self.fetched.append(track.facts["dataset"])
            return self.made(number)

        while True:
            try:
                batch = self.conductor.on_next(track, left, fetch)
            except StopIteration:
                return
            yield batch

    def step(self, seconds: float = STEP_S) -> None:
        """Compute, and let the optimizer make its step."""
        self.clock.spend(seconds)
        self.conductor.on_optimizer_step()
