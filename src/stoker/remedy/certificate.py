"""Equivalence, shown on the first batches: what the remedies give against the script's own way.

The script's data set is asked for the same samples in the training process, with the random
generators put back after; compared are the bytes of every part of the batch. Hashes of the order
and of the parts that don't change from draw to draw are kept: another run's tell whether it had the
same.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field
from typing import Any

from stoker.containers import Place, parts
from stoker.random_state import states, undisturbed

# Two draws of the script's own differ in mean and spread as chance has it; three times as much is
# no chance any more.
_CHANCE = 3.0
# A part whose two own draws agree this closely (as a share of its spread) is let be that far off.
_FLOOR = 0.02


# Two flips of a small batch agree now and then; where they do and the batch differs, the script's
# own way is asked so many more times before that is called no chance.
_MORE_DRAWS = 6


Parts = dict[Place, Any]
_PLAIN = (str, bytes, int, float, bool, type(None))


@dataclass
class Certificate:
    """Compares the first `wanted` batches; says what was found."""

    loader: Any
    wanted: int
    compared: int = 0
    differing: set[Place] = field(default_factory=set)
    odd: set[Place] = field(default_factory=set)  # no random draw explains the difference
    draws: bool = False  # making a batch drew from a global generator
    _order: Any = field(default_factory=hashlib.sha256)
    _drawn: set[Place] = field(default_factory=set)  # in two draws of the script's own
    _data: dict[Place, Any] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """True when enough was compared."""
        return self.compared >= self.wanted

    def check(self, entry: Any, batch: Any) -> None:
        """Compare a batch that was loaded for this entry of the sampler."""
        self._order.update(repr(entry).encode())
        given = dict(parts(batch))
        put_back, before = undisturbed(), states()
        try:
            own = dict(parts(self._made(entry)))
            self.draws = self.draws or states() != before
            again = dict(parts(self._made(entry)))
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
        self._drawn |= {place for place in own if not _same(own[place], again.get(place))}
        for place, part in given.items():
            self._data.setdefault(place, hashlib.sha256()).update(_content(part))
        self.compared += 1

    @property
    def sentence(self) -> str:
        """The finding."""
        drawn = "" if self.draws else "; no random numbers drawn"
        what = (
            f"{self.compared} batches compared with the script's own way (hashes, to compare with "
            f"another run's: order {self._order.hexdigest()[:12]}, data {self._data_sha256[:12]}"
            f"{drawn})"
        )
        if not self.differing:
            return f"{what}: the same bytes"
        places = ", ".join(map(_text, sorted(self.differing, key=repr)))
        if self.odd:
            odd = ", ".join(map(_text, sorted(self.odd, key=repr)))
            return f"{what}: OTHER DATA in {odd}"
        return (
            f"{what}: the same bytes but for {places}, drawn at random: same distribution, as far "
            "as mean and spread of another draw of the script's own tell"
        )

    def as_record(self) -> dict[str, Any]:
        """The finding for programs."""
        return {
            "batches": self.compared,
            "order_sha256": self._order.hexdigest(),
            "data_sha256": self._data_sha256,
            "draws_random_numbers": self.draws,
            "differing": [_text(place) for place in sorted(self.differing, key=repr)],
            "other_data": [_text(place) for place in sorted(self.odd, key=repr)],
        }

    @property
    def _data_sha256(self) -> str:
        """Of the parts that came out the same each time: which those are is known at the end."""
        whole = hashlib.sha256()
        for place in sorted(self._data.keys() - self.differing - self._drawn, key=repr):
            whole.update(repr(place).encode() + self._data[place].digest())
        return whole.hexdigest()

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


def _content(part: Any) -> bytes:
    """What tells one part from another; of a tensor its type and shape, too."""
    if sys.modules["torch"].is_tensor(part):
        return f"{part.dtype}{tuple(part.shape)}".encode() + _bytes(part)
    if hasattr(part, "tobytes"):  # NumPy's arrays and numbers
        return f"{part.dtype}{part.shape}".encode() + bytes(part.tobytes())
    # What else a batch may hold tells in its text, or of what kind it is: an address would be
    # another one in each run.
    return (repr(part) if isinstance(part, _PLAIN) else type(part).__qualname__).encode()


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
