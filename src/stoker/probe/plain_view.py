"""What the conductor asks about a training library, answered for scripts without torch.

Standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from stoker.probe.pipeline import Pipeline, PipelineRehearsal
from stoker.probe.session import Session
from stoker.probe.tracks import Track


class PlainView:
    """A library of which nothing is known: only watched loops are seen. A `roles.Hooked`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def grad_enabled(self) -> bool:
        """True: the name of a watched loop says whether it trains."""
        return True

    def has_optimizer(self) -> bool:
        """False: none that tells of its steps."""
        return False

    def has_compiled(self) -> bool:
        """True with JAX, which compiles for each shape anew."""
        return "jax" in sys.modules

    def synchronize(self) -> None:
        """Wait for JAX, which works ahead of the script even on the host."""
        jax = sys.modules.get("jax")
        if jax is not None and hasattr(jax, "live_arrays"):
            jax.block_until_ready(jax.live_arrays())

    def device(self) -> str | None:
        """None: batches are handed out where the iterable put them."""
        return None

    def place(self, leaf: Any) -> Any:
        """The leaf as it is."""
        return leaf

    def mark_resident(self, batch: Any) -> None:
        """There is no device to tell."""

    def quiesce(self, iterator: Any, limit_s: float) -> None:
        """Wait until what works ahead has nothing left to do."""
        if isinstance(iterator, Pipeline):
            iterator.quiesce(limit_s)

    def worker_pids(self, _: Any) -> list[int]:
        """None that we know of."""
        return []

    def versions(self) -> dict[str, str]:
        """Versions of what is usually trained with, where imported."""
        names = ("numpy", "jax", "tensorflow", "keras", "mlx")
        found = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
        return {name: str(version) for name, version in found.items() if version is not None}

    def rehearsal(self, track: Track, sample: Any, beside: Sequence[Track]) -> PipelineRehearsal:
        """A second iteration of what is watched, which is asked alone."""
        del sample, beside
        pipeline: Pipeline = track.loader
        return pipeline.rehearsal(self._session)
