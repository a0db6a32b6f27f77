"""Random numbers of a worker: seeded as torch seeds its own, and watched for being drawn.

Where nothing is drawn, and nobody asks which worker he is in, it can't be seen which worker made
a sample; otherwise batches have to go to workers as torch sends them.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import worker as torchs

_asked = False


class _Told(torchs.WorkerInfo):  # type: ignore[misc, unused-ignore]
    """torch's WorkerInfo, and whether somebody has looked."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__"):
            global _asked
            _asked = True
        return super().__getattribute__(name)


class Streams:
    """The global generators of a worker process."""

    def __init__(self, number: int, workers: int, base_seed: int, dataset: Any) -> None:
        seed = base_seed + number
        random.seed(seed)
        torch.manual_seed(seed)
        np.random.seed(torchs._generate_state(base_seed, number))
        torchs._worker_info = _Told(id=number, num_workers=workers, seed=seed, dataset=dataset)
        global _asked
        _asked = False  # older torch reads the object while it makes it
        self._seen = self._state()

    def were_drawn(self) -> bool:
        """True when somebody drew, or asked for this worker's identity, since the last call."""
        global _asked
        before, self._seen = self._seen, self._state()
        asked, _asked = _asked, False
        return asked or before != self._seen

    def _state(self) -> tuple[Any, ...]:
        generator: Any = np.random.get_state()
        return (
            random.getstate(),
            np.asarray(generator[1]).tobytes(),
            generator[2],
            torch.random.get_rng_state().numpy().tobytes(),
        )
