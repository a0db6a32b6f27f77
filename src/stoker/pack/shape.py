"""How the parts of a sample lie in it, and a sample of that shape anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stoker.containers import Place, inner


class Shape(NamedTuple):
    """Kinds of containers and their keys, with places in place of the parts."""

    place: Place
    kind: type | None = None  # of the container; None for a part
    keys: tuple[Any, ...] = ()
    inner: tuple[Shape, ...] = ()

    @classmethod
    def of(cls, value: Any, place: Place = ()) -> Shape:
        """The shape of a value, by the containers that `parts` goes down into."""
        held = inner(value)
        if held is None:
            return cls(place)
        below = tuple(cls.of(item, (*place, key)) for key, item in held.items())
        return cls(place, type(value), tuple(held), below)

    def filled(self, parts: Mapping[Place, Any]) -> Any:
        """A value of this shape with the parts at its places. Raises KeyError for a missing one."""
        if self.kind is None:
            return parts[self.place]
        found = [one.filled(parts) for one in self.inner]
        kind: Any = self.kind
        if issubclass(kind, Mapping):
            return kind(zip(self.keys, found, strict=True))
        if hasattr(kind, "_fields"):
            return kind(*found)
        if hasattr(kind, "__dataclass_fields__"):
            return kind(**dict(zip(self.keys, found, strict=True)))
        return kind(found)


def at(value: Any, place: Place) -> Any:
    """The part at a place. Raises KeyError or TypeError where there is none."""
    for key in place:
        held = inner(value)
        if held is None:
            raise TypeError(f"{type(value).__qualname__} holds nothing")
        value = held[key]
    return value
