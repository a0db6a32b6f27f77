"""The random generators of the script: whether something drew from them, and what torch draws.

Standard library only; NumPy and torch are asked where the script has loaded them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any


def states() -> tuple[Any, ...]:
    """The states of Python's, NumPy's and torch's global generators, to be compared."""
    found: list[Any] = [random.getstate()]
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        name, keys, position, has_gauss, gauss = numpy_random.get_state()
        found.append((name, keys.tobytes(), position, has_gauss, gauss))
    torch = sys.modules.get("torch")
    if torch is not None:
        found.append(torch.get_rng_state().numpy().tobytes())
    return tuple(found)


def drawn_base(own: Any | None) -> Any:
    """Draw a base seed from the loader's generator (None: torch's), as torch does in iter().

    Returns a generator that gives the same seed once more, to the iterator that is made later.
    """
    torch = sys.modules["torch"]
    source = torch.default_generator if own is None else own
    again = torch.Generator().set_state(source.get_state())
    torch.empty((), dtype=torch.int64).random_(generator=own)
    return again


def undisturbed() -> Callable[[], None]:
    """A function that puts the global generators back to where they are now."""
    python = random.getstate()
    numpy_random, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    of_numpy = numpy_random.get_state() if numpy_random is not None else None
    of_torch = torch.get_rng_state() if torch is not None else None

    def put_back() -> None:
        random.setstate(python)
        if numpy_random is not None:
            numpy_random.set_state(of_numpy)
        if torch is not None:
            torch.set_rng_state(of_torch)

    return put_back
