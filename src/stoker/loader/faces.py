"""A pack, or a Loader, as what others expect: a map-style data set, and a torch DataLoader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stoker.loader.jpeg import decoded
from stoker.pack import Codec, Pack, open_pack

if TYPE_CHECKING:
    from stoker.loader.loader import Loader


class PackDataset:
    """The usable samples of a pack by number: a data set for torch's and other loaders.

        dataset = stoker.loader.faces.PackDataset("packed/")
        image, label = dataset[0]

    A sample is a tuple of the pack's data and labels in their order: arrays as they are stored,
    encoded pictures decoded to (height, width, 3), numbers, texts. `transform` is given the tuple's
    first part. Can be pickled and forked. Slower than `stoker.Loader`: a call for each sample.
    """

    def __init__(
        self, pack: str | os.PathLike[str] | Pack, *, transform: Callable[[Any], Any] | None = None
    ) -> None:
        self.pack = pack if isinstance(pack, Pack) else open_pack(pack)
        self._transform = transform

    @property
    def indices(self) -> NDArray[np.int64]:
        """The index in the pack of each number: quarantined samples have none."""
        return self.pack.usable

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, number: int) -> tuple[Any, ...]:
        index = int(self.indices[number])
        parts = [self._part(field.name, field.codec, index) for field in self.pack.batch_fields]
        if self._transform is not None:
            parts[0] = self._transform(parts[0])
        return tuple(parts)

    def _part(self, name: str, codec: Codec, index: int) -> Any:
        value = self.pack.value(name, index)
        if codec in (Codec.JPEG, Codec.CROP_JPEG, Codec.SOURCE):
            return decoded(value, f"{self.pack.path}, field {name!r}, sample {index}")
        return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


def torch_loader(loader: Loader) -> Any:
    """The loader's batches behind a plain torch DataLoader, for libraries that want a real one.

    It has no workers and makes no batches: it passes on what the loader's threads have made. Needs
    torch.
    """
    from torch.utils.data import DataLoader, IterableDataset

    class Batches(IterableDataset):  # type: ignore[misc, unused-ignore]
        """Batches that are complete."""

        def __iter__(self) -> Iterator[Any]:
            return loader._begun()  # the loop's loader is the one of torch

        def __len__(self) -> int:
            return len(loader)

        def set_epoch(self, epoch: int) -> None:
            """Choose the epoch of the next pass."""
            loader.set_epoch(epoch)

    return DataLoader(Batches(), batch_size=None)
