"""A pack in the place of the Dataset that it was made of: stored parts, and the rest done anew.

Nothing is taken on trust: before a pack serves, samples from all over it are compared with what the
Dataset itself gives, byte by byte and under equal random numbers.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker import split
from stoker.containers import Place, parts
from stoker.errors import InputError
from stoker.pack.files import require_same, require_unchanged
from stoker.pack.reader import Pack, open_pack
from stoker.pack.recipe import Recipe, called, cut_sample, learned, refused
from stoker.pack.shape import at
from stoker.pack.sources.dataset import SAMPLE_ERRORS
from stoker.random_state import states, undisturbed
from stoker.split import Chain, Row, find_row, row_with, with_steps
from stoker.stand_in import StandIn, sample_of

# Samples that are compared before a pack serves, and those of them that show where a call's
# arguments come from.
COMPARED = 16
_LEARNED = 4
_SEED = 20_011


class Served(StandIn):
    """Stands in for the Dataset; what the pack lacks, and all else, is asked of the Dataset."""

    def __init__(self, dataset: Any, pack: Pack, recipe: Recipe) -> None:
        super().__init__(dataset, self.sample, self.samples)
        self.pack = pack
        self.recipe = recipe
        self._missing = frozenset(pack.quarantined.tolist())
        self._row = find_row(dataset) if recipe.once is not None else None
        self._rest = _rest_of(dataset, self._row, recipe.once or 0) if self._row else None

    def __getstate__(self) -> dict[str, Any]:
        return {"dataset": self._dataset, "pack": self.pack, "recipe": self.recipe}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        Served.__init__(self, **kept)

    def sample(self, index: Any) -> Any:
        """The Dataset's sample of that index."""
        number = self._number(index)
        return self._dataset[index] if number is None else self._made(number)

    def samples(self, indices: Sequence[Any]) -> list[Any]:
        """Those of a batch."""
        numbers = [(index, self._number(index)) for index in indices]
        return [
            sample_of(self._dataset, index) if number is None else self._made(number)
            for index, number in numbers
        ]

    def _made(self, number: int) -> Any:
        """A whole sample out of the pack, with the rest of the transforms."""
        values = self._stored(number)
        if self._rest is None:
            return self.recipe.shape.filled(values)
        for call in self.recipe.calls:
            handed = call.shape.filled({q: values[p] for q, p in call.sources.items()})
            given = called(self._rest, handed, call.way)
            for inner, place in call.sources.items():
                values[place] = at(given, inner)
        return self.recipe.shape.filled(values)

    def problem_at(self, index: Any) -> str | None:
        """How what is stored differs from what the Dataset gives now; None where it doesn't."""
        number = self._number(index)
        if number is None:
            return None
        try:
            sample, _ = cut_sample(self._dataset, self._row, self.recipe.once, index)
        except SAMPLE_ERRORS as error:
            return f"sample {index} can't be made: {type(error).__name__}: {error}"
        stored = self._stored(number)
        own = dict(parts(sample))
        if own.keys() != stored.keys():
            return f"sample {index} has other parts"
        for place, value in own.items():
            if split.digest(value) != split.digest(stored[place]):
                name = self.recipe.parts[place].field
                return f"sample {index}: its {name!r} is another than the one that was packed"
        return None

    def other_at(self, index: int) -> str | None:
        """How a whole sample differs from the Dataset's own, both under one seed; None if not."""
        if self._number(index) is None:
            return None
        holders = [split.owner_of(self._dataset, self._row), *self._row.steps] if self._row else []
        own = split.Generators(holders)
        kept = own.kept()
        made = []
        try:
            for source in (self._dataset, self):
                split.seed_all(_SEED + index)
                sample = sample_of(source, index)
                made.append((split.digest(sample), states(), own.states()))
                own.put_back(kept)
        except SAMPLE_ERRORS as error:  # calls may take other arguments than was guessed
            return f"sample {index} can't be made of the pack: {type(error).__name__}: {error}"
        finally:
            own.put_back(kept)
        if made[0] == made[1]:
            return None
        what = "differs from" if made[0][0] != made[1][0] else "draws other random numbers than"
        return f"sample {index}, made of the pack, {what} the Dataset's own"

    def _number(self, index: Any) -> int | None:
        """The place in the pack; None for what it doesn't hold."""
        try:
            number = operator.index(index)
        except TypeError:
            return None
        is_there = 0 <= number < len(self.pack) and number not in self._missing
        return number if is_there else None

    def _stored(self, number: int) -> dict[Place, Any]:
        value = self.pack.value
        return {
            place: part.made(value(part.field, number)) for place, part in self.recipe.parts.items()
        }


def in_place_of(
    dataset: Any, folder: str | os.PathLike[str], *, check_draws: bool = True
) -> Served:
    """The pack in that folder, in the place of the map-style Dataset that it was made of.

    Gives the same samples to the last bit: compared for 16 of them before it returns, with the
    random generators put back behind it. `check_draws=False` leaves out the comparison of the
    random part, which would move on generators of the transforms' own. Raises InputError where pack
    and Dataset don't belong together, and PackError as `open_pack` does.
    """
    pack = open_pack(folder)
    _check_order(dataset, pack)
    require_unchanged(pack)
    put_back = undisturbed()
    try:
        asked = _looked_at(dataset)
        row = find_row(asked)

        def read(index: int) -> None:
            sample, recorder = cut_sample(asked, row, 0, index)
            # A picture reads its file when it is looked at.
            split.digest((sample, recorder.calls))

        require_same(pack, read, spread(pack.usable))
        found = _matched(asked, pack, check_draws=check_draws)
    finally:
        put_back()
    return Served(dataset, pack, found.recipe)


def _looked_at(dataset: Any) -> Any:
    """A copy to be asked, with all that it wraps: files that these open on their first read stay
    closed in the Dataset itself.

    Workers may be forked from this process later on, and must not share an open file.
    """
    row, found = find_row(dataset), split.copied(dataset)
    return found if row is None else with_steps(found, row, row.steps)


def _check_order(dataset: Any, pack: Pack) -> None:
    origin = pack.manifest.origin
    if origin.order != "source" or pack.manifest.transform.fit == "bucket":
        raise refused(pack, f"it is stored in another order, {origin.order}, than its source has")
    try:
        count = len(dataset)
    except TypeError:
        raise refused(pack, "the data set has no length, so no samples by number") from None
    if count != len(pack):
        raise refused(pack, f"it has {len(pack):,} samples, the data set {count:,}")


def spread(usable: NDArray[np.int64]) -> list[int]:
    """COMPARED of these indices, evenly, the first and the last too; all where they are fewer."""
    count = min(COMPARED, len(usable))
    return [int(i) for i in usable[np.linspace(0, len(usable) - 1, count).astype(int)]]


def _matched(dataset: Any, pack: Pack, *, check_draws: bool) -> Served:
    """The first recipe by which the pack gives what the Dataset gives."""
    chosen = spread(pack.usable)
    problem = "it holds no sample"
    for once in _ways(dataset, pack) if chosen else ():
        try:
            served = Served(dataset, pack, learned(dataset, pack, once, chosen[:_LEARNED]))
        except InputError as error:
            problem = error.happened
            continue
        except SAMPLE_ERRORS as error:
            problem = f"{type(error).__name__}: {error}"
            continue
        found = _first_problem(served, chosen, check_draws=check_draws)
        if found is None:
            return served
        problem = found
    raise refused(pack, problem)


def _first_problem(served: Served, chosen: list[int], *, check_draws: bool) -> str | None:
    looks = [served.problem_at, *([served.other_at] if check_draws else [])]
    return next((found for look in looks for i in chosen if (found := look(i))), None)


def _ways(dataset: Any, pack: Pack) -> Iterator[int | None]:
    """How many transforms may be packed: what the pack says, or any number, or all there is."""
    origin = pack.manifest.origin
    count = origin.location.partition("#")[2] if origin.kind == "dataset" else ""
    row = find_row(dataset)
    if count:
        if row is not None and len(row.steps) >= int(count):
            yield int(count)
        return
    yield None
    if row is not None:
        yield from range(len(row.steps), -1, -1)


def _rest_of(dataset: Any, row: Row, once: int) -> Any:
    """The steps that stay, as one callable of the kind that the data set uses."""
    own = split.owner_of(dataset, row)
    steps = row.steps[once:]
    return Chain(steps) if isinstance(own, list | tuple) else row_with(own, steps)
