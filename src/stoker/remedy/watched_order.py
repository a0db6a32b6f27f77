"""The sampler's entries, watched: remedies take them earlier than the script's own loader would.

That changes nothing as long as a pull draws no random numbers and heeds nothing that the training
does meanwhile. The first pull may draw: it is made when the script's own would be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stoker.random_state import states
from stoker.remedy.fingerprint import fingerprint

# So many pulls show whether entries may be taken early; until then none is.
_ENOUGH = 4


class WatchedOrder(Iterator[Any]):
    """Entries of a loader's sampler in one epoch."""

    def __init__(self, loader: Any) -> None:
        self.problem: str | None = None  # why entries depend on when they are taken
        self._sampler = loader._index_sampler
        self._dataset = loader.dataset
        self._generators = [loader.generator, getattr(loader.sampler, "generator", None)]
        self._source = iter(self._sampler)
        self._pulls = 0
        self._has_ended = False
        self._looked: Any = None

    @property
    def is_known(self) -> bool:
        """True when enough was seen of it, and nothing odd."""
        return self.problem is None and (self._has_ended or self._pulls >= _ENOUGH)

    def __next__(self) -> Any:
        if self._has_ended:  # workers ask on; what a sampler makes of its own end is its affair
            raise StopIteration
        is_watched = self._pulls > 0 and self.problem is None
        if is_watched and self._look() != self._looked:
            self._found("the script changes its sampler within the epoch")
        before = self._states() if is_watched else None
        try:
            entry = next(self._source)
        except StopIteration:
            self._has_ended = True
            raise
        finally:
            if before is not None and self._states() != before:
                self._found("the sampler draws random numbers for each of its entries")
        self._pulls += 1
        if self.problem is None:
            self._looked = self._look()
        return entry

    def _found(self, what: str) -> None:
        if self.problem is None:
            self.problem = f"{what}: taken ahead they would be others"

    def _look(self) -> Any:
        return fingerprint(self._sampler, skipped=self._dataset)

    def _states(self) -> Any:
        own = [one.get_state().numpy().tobytes() for one in self._generators if one is not None]
        return states(), own
