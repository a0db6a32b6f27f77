"""One pass of the script over a loader: batches under its own settings or the remedies.

The way may change between two batches; samples and their order stay the script's. Where the
remedies fail the batches in flight are made again as the script would have made them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from stoker import clocks
from stoker.probe.fetch import of_script
from stoker.remedy.indices import Indices
from stoker.remedy.settings import Settings
from stoker.remedy.supply import Supply
from stoker.remedy.trial import Way


class Course(Protocol):
    """What a feed is told, and tells."""

    @property
    def way(self) -> Way:
        """How the next batches should be loaded."""
        ...

    def supply(self, way: Way) -> Supply:
        """The loader for a way."""
        ...

    def started(self, way: Way, seconds: float) -> None:
        """From iter() to the first batch."""
        ...

    def stepped(self, way: Way, seconds: float) -> None:
        """From batch to batch, within a stretch of one way."""
        ...

    def asked(self) -> bool:
        """The script asks for a batch; True when what is on its way has become another."""
        ...

    def gave(self, way: Way, entry: Any, batch: Any, settings: Settings) -> None:
        """The script gets this batch now, of a loader with these settings."""
        ...

    def left(self) -> None:
        """No batch is on its way: the next loader begins, or the epoch is over."""
        ...

    def failed(self, error: BaseException, settings: Settings) -> bool:
        """A remedied loader with these settings raised; True when the script's own takes over."""
        ...


class Feed(Iterator[Any]):
    """The iterator that the script gets."""

    _inner: Iterator[Any] = iter(())
    _is_over = True  # until it is made

    def __init__(
        self, course: Course, indices: Indices, length: int | None, *, base: Any | None, waits: bool
    ) -> None:
        """`base`: a generator for the first iterator's base seed. `waits`: nothing is taken from
        the sampler before the first batch is asked for.
        """
        self._course = course
        self._indices = indices
        self._length = length
        self._began: float | None = clocks.wall_s()
        self._returned: float | None = None
        self._way = course.way
        self._supply: Supply | None = None  # that what is under way comes from
        self._is_draining = False  # it comes to its end, and another takes over
        self._is_over = False
        self._base = base
        self._is_begun = not waits
        if self._is_begun:
            self._inner = self._begin(base)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("the script's sampler has no length")
        return self._length

    @property
    def is_over(self) -> bool:
        """True when the epoch was taken to its end."""
        return self._is_over

    def __next__(self) -> Any:
        if self._is_over:
            raise StopIteration
        if not self._is_begun:
            self._is_begun = True
            self._way = self._course.way
            self._inner = self._begin(self._base)
        if self._course.asked() and self._is_displaced:
            self._switch()
        try:
            batch = self._fetch()
        except BaseException as error:
            error.__traceback__ = of_script(error.__traceback__)
            raise
        now = clocks.wall_s()
        if self._began is not None:
            self._course.started(self._way, now - self._began)
            self._began = None
        elif self._returned is not None:
            self._course.stepped(self._way, now - self._returned)
        self._returned = now
        flying = self._indices.in_flight
        self._course.gave(self._way, flying[0] if flying else None, batch, self._settings)
        self._indices.delivered()
        if self._is_displaced:
            self._is_draining = True
            self._indices.close()  # what is on its way still arrives; then the other way begins
        elif not self._is_draining:
            self._way = self._course.way  # another name for the same loader
        return batch

    @property
    def _settings(self) -> Settings:
        """Of the loader that is asked: its way may have another by now, while this one drains."""
        assert self._supply is not None, "it was begun"
        return self._supply.settings

    @property
    def _is_displaced(self) -> bool:
        """True when the next batches should come from another loader."""
        return self._course.supply(self._course.way) is not self._supply

    def hand_over(self, course: Course) -> None:
        """Go on under another course; what is under way is made again, if it is asked for."""
        inner, self._inner = self._inner, iter(())
        if _end(inner, "leave", "close") is False and self._supply is not None:
            self._supply.end()  # a thread is stuck in workers that were kept
        self._indices = self._indices.moved()
        self._course = course
        if self._is_begun:
            self._is_begun, self._base = False, None

    def close(self) -> None:
        """The script has let go of the epoch."""
        if self._is_over:
            return
        self._is_over = True
        inner, self._inner = self._inner, iter(())
        _end(inner, "leave", "close")
        del inner  # with it its workers end, but those that are kept
        self._course.left()

    def __del__(self) -> None:
        self.close()

    def _fetch(self) -> Any:
        while True:
            try:
                return next(self._inner)
            except StopIteration:
                if self._indices.is_over or not self._is_draining:
                    self.close()
                    raise
            except Exception as error:
                if self._way is Way.OWN or not self._course.failed(error, self._settings):
                    raise
            self._switch()

    def _switch(self) -> None:
        inner, self._inner = self._inner, iter(())
        if self._supply is not None:
            self._supply.stop(inner)
        del inner
        self._course.left()
        self._indices.reopen()
        self._way = self._course.way
        self._returned = None  # the step across the change belongs to neither
        self._inner = self._begin(None)

    def _begin(self, base: Any | None) -> Iterator[Any]:
        self._is_draining = False
        self._supply = self._course.supply(self._way)
        try:
            return self._supply.begin(self._indices, base)
        except Exception as error:
            if self._way is Way.OWN or not self._course.failed(error, self._settings):
                raise
        self._course.left()
        self._indices.reopen()
        self._way = Way.OWN
        self._supply = self._course.supply(Way.OWN)
        return self._supply.begin(self._indices, None)


class Aside:
    """The course of a pass that a newer one over the same loader has displaced: the script's own
    settings, and nothing told.
    """

    way = Way.OWN

    def __init__(self, supply: Supply) -> None:
        """`supply`: under the script's own settings, and this pass's alone."""
        self._supply = supply

    def supply(self, _: Way) -> Supply:
        """The loader as the script has it."""
        return self._supply

    def started(self, _: Way, __: float) -> None:
        """Not measured."""

    def stepped(self, _: Way, __: float) -> None:
        """Not measured."""

    def asked(self) -> bool:
        """The way stays what it is."""
        return False

    def gave(self, _: Way, __: Any, ___: Any, ____: Settings) -> None:
        """Nothing to do."""

    def left(self) -> None:
        """Its loader goes with it."""

    def failed(self, _: BaseException, __: Settings) -> bool:
        """It is the script's own error."""
        return False


def _end(inner: Iterator[Any], *ways: str) -> Any:
    """By the first of these methods that it has; torch's own iterators end when forgotten."""
    for way in ways:
        end = getattr(inner, way, None)
        if end is not None:
            return end()
    return None
