"""Equivalence, shown on the first batches: what the remedies give against the script's own way.

The script's data set is asked for the same samples in the training process, with the random
generators put back after; compared are the bytes of every part of the batch, and the order.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field
from typing import Any

from stoker.containers import Place, parts
from stoker.random_state import undisturbed

# Two draws of the script's own differ in mean and spread as chance has it; three times as much is
# no chance any more.
_CHANCE = 3.0
# A part whose two own draws agree this closely (as a share of its spread) is let be that far off.
_FLOOR = 0.02


# Two flips of a small batch agree now and then; where they do and the batch differs, the script's
# own way is asked so many more times before that is called no chance.
_MORE_DRAWS = 6


Parts = dict[Place, Any]


@dataclass
class Certificate:
    """Compares the first `wanted` batches; says what was found."""

    loader: Any
    wanted: int
    compared: int = 0
    differing: set[Place] = field(default_factory=set)
    odd: set[Place] = field(default_factory=set)  # no random draw explains the difference
    _order: Any = field(default_factory=hashlib.sha256)

    @property
    def is_complete(self) -> bool:
        """True when enough was compared."""
        return self.compared >= self.wanted

    def check(self, entry: Any, batch: Any) -> None:
        """Compare a batch that was loaded for this entry of the sampler."""
        self._order.update(repr(entry).encode())
        given = dict(parts(batch))
        put_back = undisturbed()
        try:
            own, again = dict(parts(self._made(entry))), dict(parts(self._made(entry)))
            for _ in range(_MORE_DRAWS):
                if not _agree_by_chance(own, again, given):
                    break
                further = dict(parts(self._made(entry)))
                again = {
                    place: further.get(place) if _same(own.get(place), part) else part
                    for place, part in again.items()
                }
        finally:
            put_back()
        for place in own.keys() | given.keys():
            if place not in own or place not in given:
                self.differing.add(place)
                self.odd.add(place)
            elif not _same(own[place], given[place]):
                self.differing.add(place)
                if _same(own[place], again[place]) or not _alike(
                    given[place], own[place], again[place]
                ):
                    self.odd.add(place)
        self.compared += 1

    @property
    def sentence(self) -> str:
        """The finding."""
        order = f"order {self._order.hexdigest()[:12]}"
        what = f"{self.compared} batches compared with the script's own way, {order}"
        if not self.differing:
            return f"{what}: the same bytes"
        places = ", ".join(map(_text, sorted(self.differing, key=repr)))
        if self.odd:
            odd = ", ".join(map(_text, sorted(self.odd, key=repr)))
            return f"{what}: OTHER DATA in {odd}"
        return f"{what}: the same, but {places} draws random numbers: same distribution"

    def _made(self, entry: Any) -> Any:
        loader = self.loader
        if not loader._auto_collation:
            return loader.collate_fn(loader.dataset[entry])
        fetch = getattr(loader.dataset, "__getitems__", None)
        if fetch is not None:
            return loader.collate_fn(fetch(entry))
        return loader.collate_fn([loader.dataset[index] for index in entry])


def _agree_by_chance(own: Parts, again: Parts, given: Parts) -> bool:
    """True where a part was drawn alike twice, and the batch has another."""
    return any(
        place in given and not _same(part, given[place]) and _same(part, again.get(place))
        for place, part in own.items()
    )


def _text(place: Place) -> str:
    return "batch" + "".join(f"[{key!r}]" for key in place)


def _same(one: Any, other: Any) -> bool:
    torch = sys.modules["torch"]
    if torch.is_tensor(one) and torch.is_tensor(other):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        return _bytes(one) == _bytes(other)
    if type(one) is not type(other):
        return False
    result = one == other
    return bool(result.all()) if hasattr(result, "all") else bool(result)


def _bytes(tensor: Any) -> bytes:
    torch = sys.modules["torch"]
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()  # type: ignore[no-any-return]


def _alike(given: Any, own: Any, again: Any) -> bool:
    """Whether a random part may be another draw: its mean and spread are within chance."""
    torch = sys.modules["torch"]
    if not (torch.is_tensor(given) and torch.is_tensor(own)):
        return type(given) is type(own)
    if given.dtype != own.dtype or given.shape != own.shape:
        return False
    values = [part.detach().cpu().double() for part in (given, own, again)]
    means = [float(part.mean()) for part in values]
    spreads = [float(part.std(correction=0)) for part in values]
    scale = max(spreads[1], abs(means[1]), 1e-12)
    for given_one, own_one, again_one in (means, spreads):
        allowed = _CHANCE * abs(own_one - again_one) + _FLOOR * scale
        if abs(given_one - own_one) > allowed:
            return False
    return True
