"""How a sample is made of what a pack holds: learned from a few samples of the Dataset.

Where the arguments of its transforms lie in a sample shows by identity: the same object.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from stoker import split
from stoker.containers import Place, parts
from stoker.errors import InputError
from stoker.pack.manifest import Codec
from stoker.pack.reader import Pack
from stoker.pack.shape import Shape
from stoker.pack.sources.dataset import named_places
from stoker.pack.stored import Part
from stoker.split import Recorder, Row, find_row, with_steps
from stoker.stand_in import sample_of

_LOSSY = (Codec.JPEG, Codec.CROP_JPEG, Codec.SOURCE)


class Way(Enum):
    """How transforms hand on what they work on."""

    BY_NAME = "by name"
    SEVERAL = "several"
    ONE = "one"

    @classmethod
    def of(cls, args: tuple[Any, ...], parts: dict[str, Any]) -> Way:
        """That of a call with these arguments."""
        if parts:
            return cls.BY_NAME
        return cls.ONE if len(args) == 1 else cls.SEVERAL


class Call(NamedTuple):
    """One use of the transforms for a sample: how it is called, and where its arguments lie."""

    way: Way
    shape: Shape
    # Of each argument, the place in the sample at which the data set puts it.
    sources: dict[Place, Place]


class Recipe(NamedTuple):
    """How a sample is made of what the pack holds. `once` is None where all of it is stored."""

    once: int | None
    shape: Shape
    parts: dict[Place, Part]
    calls: tuple[Call, ...] = ()
    rest: str = ""  # the names of what every epoch does


def learned(dataset: Any, pack: Pack, once: int | None, indices: list[int]) -> Recipe:
    """Learned from a few samples. Raises InputError where that can't be."""
    row = find_row(dataset) if once is not None else None
    sample, recorder = cut_sample(dataset, row, once, indices[0])
    fields = named_places(sample)
    for name in fields.values():
        if name not in pack.fields:
            raise refused(pack, f"it has no part {name!r} of a sample")
        if pack.fields[name].codec in _LOSSY:
            raise refused(pack, f"its {name!r} is stored as JPEG, which changes pixels; --tier raw")
    own = dict(parts(sample))
    stored = {place: Part.of(own[place], name) for place, name in fields.items()}
    if row is None:
        return Recipe(None, Shape.of(sample), stored)
    calls = _calls(sample, recorder)
    for index in indices[1:]:
        calls = _agreed(calls, _calls(*cut_sample(dataset, row, once, index)))
    made = []
    taken: set[Place] = set()
    for call, places in zip(recorder.calls, calls, strict=True):
        sources = _sources(pack, places, taken)
        taken |= set(sources.values())
        made.append(Call(Way.of(*call), Shape.of(_handed(*call)), sources))
    rest = ", ".join(map(split.name_of, row.steps[once or 0 :]))
    return Recipe(once, Shape.of(sample), stored, tuple(made), rest)


def _sources(pack: Pack, places: dict[Place, list[Place]], taken: set[Place]) -> dict[Place, Place]:
    """One place for each argument; two calls on one picture each give a part of their own."""
    found: dict[Place, Place] = {}
    for inner, there in places.items():
        free = [place for place in there if place not in taken | set(found.values())]
        if not free:
            raise refused(
                pack,
                "the data set goes on with the result of its transforms, so that samples can't be "
                "made by applying the rest of them",
            )
        found[inner] = free[0]
    return found


def cut_sample(dataset: Any, row: Row | None, once: int | None, index: Any) -> tuple[Any, Recorder]:
    """The sample as it is packed, and what the transforms would have been called with."""
    recorder = Recorder()
    if row is None:
        return sample_of(dataset, index), recorder
    cut = with_steps(dataset, row, (*row.steps[: once or 0], recorder))
    return sample_of(cut, index), recorder


_Sources = list[dict[Place, list[Place]]]


def _calls(sample: Any, recorder: Recorder) -> _Sources:
    """For each call, where in the sample each argument went: the same object."""
    there = list(parts(sample))
    return [
        {
            inner: [place for place, value in there if value is part]
            for inner, part in parts(_handed(*call))
        }
        for call in recorder.calls
    ]


def _agreed(one: _Sources, other: _Sources) -> _Sources:
    """What holds for both samples: a small number may be in two places by chance."""
    if [call.keys() for call in one] != [call.keys() for call in other]:
        return [{inner: [] for inner in call} for call in one]
    return [
        {inner: [p for p in places if p in b[inner]] for inner, places in a.items()}
        for a, b in zip(one, other, strict=True)
    ]


def _handed(args: tuple[Any, ...], parts: dict[str, Any]) -> Any:
    """What goes from step to step: parts by name, several values, or one."""
    return parts or (args[0] if len(args) == 1 else args)


def called(rest: Any, handed: Any, way: Way) -> Any:
    """The result of the remaining transforms, called as the Dataset calls them."""
    match way:
        case Way.BY_NAME:
            return rest(**handed)
        case Way.SEVERAL:
            return rest(*handed)
        case Way.ONE:
            return rest(handed)


def refused(pack: Pack, why: str) -> InputError:
    """The error to raise where pack and Dataset don't belong together."""
    return InputError(
        f"{pack.path} doesn't belong to this data set: {why}",
        looked_at=f"{len(pack):,} samples packed from {pack.manifest.origin.location}",
        run_next="pack anew what the script loads: stoker pack --from DIAGNOSIS DST",
    )
