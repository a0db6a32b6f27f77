"""The doctor's side of `stoker.watch`: a stand-in for the iterable, whose batches are conducted.

The only file that assigns to `stoker.watched`. Standard library only.
"""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

from stoker import clocks
from stoker.probe.conductor import Conductor
from stoker.probe.fetch import Fetch
from stoker.probe.hooks import torch as torch_hooks
from stoker.probe.pipeline import Pipeline
from stoker.probe.plain_view import PlainView
from stoker.probe.session import Session
from stoker.probe.tracks import Track

# Beginnings of the names of loops that do not train.
_NO_TRAINING = ("val", "eval", "test")
# Handing over what lies ready takes less than this; what usually waits no longer needs no catching
# up, as it always lies ready.
_READY_S = 0.001
_READY_SHARE = 0.5  # of the usual wait
_USUAL_OF = 16  # waits
_MOST_DISCARDED = 1000  # a queue that is longer than that is no queue but a data set in memory


_shared: Watch | None = None


def install(session: Session, module: ModuleType) -> None:
    """Let the just imported `stoker.watched` hand out what the doctor sees."""
    module.observer = shared(session).observe  # type: ignore[attr-defined]


def shared(session: Session) -> Watch:
    """That of this process: all that is watched in it has one conductor."""
    global _shared
    if _shared is None or _shared.session is not session:
        _shared = Watch(session)
    return _shared


class Watch:
    """All that is watched in this process."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._tracks: dict[str, Track] = {}
        self._own: Conductor | None = None

    def observe(self, batches: Any, name: str) -> Any:
        """What the script gets for its iterable."""
        kind = type(batches)
        is_async = hasattr(kind, "__aiter__")
        if _is_loader(batches) or (is_async and not hasattr(kind, "__iter__")):
            return batches  # a loop of `async for` alone is not followed
        return (_AsyncToo if is_async else Watched)(self, batches, name)

    @property
    def conductor(self) -> Conductor | None:
        """That of torch's loaders, where torch is; None where nothing may be measured now."""
        hooks = torch_hooks.installed()
        if hooks is not None:
            self._leave_own()
            conductor = None if hooks.is_in_worker() else hooks.conductor
        else:
            if self._own is None:
                self._own = Conductor(self.session, PlainView(self.session))
                atexit.register(self._own.finish)
            conductor = self._own
        return None if conductor is None or conductor.is_inert else conductor

    def _leave_own(self) -> None:
        """Torch came after the first batches: one conductor sees them and the optimizer."""
        if self._own is not None:
            atexit.unregister(self._own.finish)
            self._own = None

    def follow(self, name: str, pipeline: Pipeline, facts: dict[str, Any]) -> Track:
        """The track of that name, which goes on with what is watched under it now."""
        track = self._tracks.get(name)
        if track is None or track.facts != facts:
            track = self._tracks[name] = Track(pipeline, facts)
            track.learns = not name.lower().startswith(_NO_TRAINING)
        track.loader = pipeline
        return track


def _is_loader(batches: Any) -> bool:
    """True for a torch DataLoader, which is followed already, and seen better."""
    hooks = torch_hooks.installed()
    return hooks is not None and hooks.is_loader(batches)


class Watched:
    """Stands for an iterable: its length, attributes and items are the iterable's own."""

    def __init__(self, watch: Watch, batches: Any, name: str) -> None:
        self._watch = watch
        self._batches = batches
        self._name = name
        self._iterator: Iteration | None = None  # where the iterable is its own

    def __iter__(self) -> Iterator[Any]:
        conductor = self._watch.conductor
        if conductor is None:
            return iter(self._batches)
        began = clocks.wall_s()
        with conductor.looking_away():
            inner = iter(self._batches)
        is_own = inner is self._batches
        pipeline = Pipeline(None if is_own else self._batches)
        track = self._watch.follow(self._name, pipeline, self._facts())
        conductor.on_epoch(track, began)
        return Iteration(self._watch, inner, track, pipeline)

    def __next__(self) -> Any:
        if not hasattr(type(self._batches), "__next__"):
            raise TypeError(f"{type(self._batches).__name__!r} object is not an iterator")
        if self._iterator is None:
            iterator = iter(self)
            if not isinstance(iterator, Iteration):
                return next(iterator)
            self._iterator = iterator
        return next(self._iterator)

    def __len__(self) -> int:
        return len(self._batches)

    def __bool__(self) -> bool:
        return bool(self._batches)

    def __getitem__(self, key: Any) -> Any:
        return self._batches[key]

    def __getattr__(self, name: str) -> Any:
        if name == "_batches":  # not made yet: copying or unpickling
            raise AttributeError(name)
        return getattr(self._batches, name)

    def _facts(self) -> dict[str, Any]:
        """What a DataLoader would say of itself; what cannot be known is None."""
        try:
            length = len(self._batches)
        except TypeError:
            length = None
        kind = type(self._batches)
        return {
            "workers": 0,
            "batch_size": None,
            "batches": length,
            "samples": None,
            "prefetch_factor": None,
            "persistent_workers": False,
            "pin_memory": False,
            "start_method": None,
            "dataset": f"{kind.__module__}.{kind.__qualname__}",
            "iterable": True,
            "watched": self._name,
        }


class _AsyncToo(Watched):
    """Of an iterable that `async for` goes over, too: there it gives its own batches."""

    def __aiter__(self) -> AsyncIterator[Any]:
        batches: AsyncIterator[Any] = aiter(self._batches)
        return batches


class Iteration:
    """One iteration, each batch of which the conductor may put another in place of."""

    def __init__(
        self, watch: Watch, inner: Iterator[Any], track: Track, pipeline: Pipeline
    ) -> None:
        self._watch = watch
        self._inner = inner
        self._track = track
        self._pipeline = pipeline
        self._waits: deque[float] = deque(maxlen=_USUAL_OF)
        self._has_fetched = False
        self._was_paused = False  # kept batches were handed out in place of its own

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        conductor = self._watch.conductor
        if conductor is None:
            return next(self._inner)
        fetch = Fetch(lambda: self._fetch(conductor))
        self._has_fetched = False
        try:
            batch = conductor.on_next(self._track, self._pipeline, fetch)
            hooks = torch_hooks.installed()
            if hooks is not None:
                hooks.gave_batch(self._track)
        except BaseException as error:
            if fetch.has_raised(error):
                raise
            if not isinstance(error, Exception) or isinstance(error, StopIteration):
                raise  # our stop, an epoch that we end, Ctrl-C
            conductor.give_up(error)
            return fetch.once()
        self._was_paused = self._was_paused or not self._has_fetched
        return batch

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":
            raise AttributeError(name)
        return getattr(self._inner, name)  # a generator's close(), a data set's reset()

    def _fetch(self, conductor: Conductor) -> Any:
        """The iterable's own next batch; loaders inside of it are its own affair."""
        self._has_fetched = True
        with conductor.looking_away():
            if self._was_paused:
                self._was_paused = False
                return self._catch_up()
            began = clocks.wall_s()
            batch = next(self._inner)
            self._waits.append(clocks.wall_s() - began)
            return batch

    def _catch_up(self) -> Any:
        """The first batch after a pause that is not just taken from a queue.

        An iterable that works ahead has filled its queue meanwhile. Where it sets the pace, that
        queue is empty in the loop as it is, and is emptied again. One that works only when asked
        has nothing ready: this is how the two are told apart.
        """
        usual = sorted(self._waits)[len(self._waits) // 2] if self._waits else 0.0
        discarded = 0
        while True:
            began = clocks.wall_s()
            batch = next(self._inner)
            is_ready = clocks.wall_s() - began < max(_READY_S, _READY_SHARE * usual)
            if usual < _READY_S or not is_ready or discarded >= _MOST_DISCARDED:
                break
            discarded += 1
        if usual >= _READY_S:
            self._watch.session.write("lay-ready", batches=discarded, usual_s=round(usual, 6))
        return batch
