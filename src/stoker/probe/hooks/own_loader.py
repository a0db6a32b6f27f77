"""stoker.DataLoader and stoker.Loader: loaders with iterators and threads of their own.

The only file that assigns to attributes of Stoker's own loaders.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from stoker import clocks
from stoker.probe.hooks.torch import installed
from stoker.probe.hooks.watch import Iteration, Watch, shared
from stoker.probe.own_loader import OwnLoader, facts_of
from stoker.probe.session import Session
from stoker.probe.tracks import Tracks


def install(module: ModuleType) -> None:
    """Follow the just imported DataLoader by the iterators that torch does not have."""
    hooks = installed()
    if hooks is not None:
        hooks.follow_iterators(module.DataLoader, module._Threaded, module._FindingOut)


def install_loader(session: Session, module: ModuleType) -> None:
    """Follow the just imported Loader, in scripts with torch or without."""
    loaders = _Loaders(shared(session))

    def __iter__(loader: Any) -> Any:  # noqa: N807 - takes the place of the method
        return loaders.iterate(loader)

    module.Loader.__iter__ = __iter__


class _Loaders:
    """The Loaders of this process."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._tracks = Tracks(facts_of, partial(OwnLoader, timed=timed_stages))

    def iterate(self, loader: Any) -> Any:
        """A pass of it, that the conductor sees where something may be measured now."""
        conductor = self._watch.conductor
        if conductor is None:
            return loader._begun()
        began = clocks.wall_s()
        running = loader._begun()
        try:
            hooks = installed()
            learns = hooks is None or hooks.grad_enabled()
            track = self._tracks.follow(loader, running, learns=learns)
            pipeline: OwnLoader = track.loader
            pipeline.follow(running)
            conductor.on_epoch(track, began)
        except Exception as error:  # noqa: BLE001 - what can't be followed runs on unwatched
            self._watch.session.write_failure("following a stoker.Loader", error)
            return running
        return _Pass(self._watch, running, track, pipeline)


class _Pass(Iteration):
    """One pass of a Loader; how far it works ahead is known, so nothing has to be caught up."""

    def _fetch(self, conductor: Any) -> Any:
        self._has_fetched = True
        with conductor.looking_away():
            return next(self._inner)


@contextmanager
def timed_stages(totals: dict[str, list[int]]) -> Iterator[None]:
    """Sum up the stages of all loading threads meanwhile: calls, wall and CPU nanoseconds.

    What a thread is at when this begins or ends is left out.
    """
    activity: Any = sys.modules["stoker.loader.activity"]
    own: Callable[..., None] = activity.Activity.enter
    here, lock = threading.local(), threading.Lock()

    def enter(one: Any, stage: str, sample: int = -1, where: str = "") -> None:
        now = clocks.wall_ns(), clocks.cpu_ns()
        before = getattr(here, "before", None)
        if before is not None and before[0] != activity.IDLE:
            with lock:
                sums = totals.setdefault(before[0], [0, 0, 0])
                sums[0] += 1
                sums[1] += now[0] - before[1]
                sums[2] += now[1] - before[2]
        here.before = (stage, *now)
        own(one, stage, sample, where)

    activity.Activity.enter = enter
    try:
        yield
    finally:
        activity.Activity.enter = own
