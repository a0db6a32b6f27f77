"""The child's side of packing what a script loads: runs up to its training loader, then packs.

The script's own process has the data set as its training would: the same objects, arguments and
working directory. It is packed where `iter(loader)` was called, and the script ends there.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from stoker import clocks, lifetime
from stoker.probe.hooks.torch import batch_size_of, samples_of
from stoker.probe.session import Session

# What the parent is told by lines in the session.
PACKING, PACKED, REFUSED, BROKE = "packing", "packed", "refused", "broke"
PASSED, OTHERS = "passed", "others"
# A script that has taken so many batches from other loaders, and for so long, trains on them: as
# many as the doctor lets pass before it takes a loader for the one that trains, and twice the time
# that it then watches. A first stage or a pass that counts is over by then, or was what it found.
MOST_BATCHES, PATIENCE_S = 64, 60.0


class Wanted(NamedTuple):
    """The training loader: the class of its data set, and how many samples and how large batches.

    Training and validation are often of one class. None: not known.
    """

    dataset: str
    samples: int | None
    batch_size: int | None

    @classmethod
    def of(cls, loader: Any) -> Wanted:
        """What a loader of the script has."""
        kind = type(loader.dataset)
        name = f"{kind.__module__}.{kind.__qualname__}"
        return cls(name, samples_of(loader), batch_size_of(loader))

    def is_met_by(self, other: Wanted) -> bool:
        """Whether nothing that is known of both differs."""
        return all(a == b for a, b in zip(self, other, strict=True) if None not in (a, b))

    def __str__(self) -> str:
        samples = "" if self.samples is None else f", {self.samples:,} samples"
        batches = "" if self.batch_size is None else f", batches of {self.batch_size:,}"
        return f"{self.dataset}{samples}{batches}"


class _Others:
    """What other loaders than the wanted one have given so far, with gradients on."""

    def __init__(self, most_batches: int, patience_s: float) -> None:
        self._most_batches = most_batches
        self._patience_s = patience_s
        self._passes: weakref.WeakKeyDictionary[Any, Wanted] = weakref.WeakKeyDictionary()
        self._latest: dict[Wanted, float] = {}
        self.batches: dict[Wanted, int] = {}
        self.seconds = 0.0  # from batch to batch of one loader

    def begins(self, iterator: Any, loader: Wanted) -> None:
        """A pass over another loader."""
        self._passes[iterator] = loader

    def gave_batch(self, iterator: Any, now: float) -> None:
        """Note a batch, where it is one of them."""
        loader = self._passes.get(iterator)
        if loader is None:
            return
        self.batches[loader] = self.batches.get(loader, 0) + 1
        # An evaluation between two batches is no time of this loader's.
        self.seconds += min(now - self._latest.get(loader, now), self._patience_s / 4)
        self._latest[loader] = now

    @property
    def are_enough(self) -> bool:
        """True when the training is theirs."""
        total = sum(self.batches.values())
        return total >= self._most_batches and self.seconds >= self._patience_s


class Capture:
    """Waits in front of `iter(loader)` for the loader over the data set that is asked for."""

    def __init__(self, session: Session, module: ModuleType) -> None:
        self._session = session
        self._module = module
        self._pid = os.getpid()
        self._wanted = Wanted(**session.options["wanted"])
        self._passed: set[Wanted] = set()
        self._others = _Others(*session.options["patience"])

    def stand_before(self, loader_class: Any, *kinds: Any) -> None:
        """In front of a class of loaders, and of the iterators that it gives."""
        loader_class.__iter__ = self._iter(loader_class.__iter__)
        for kind in kinds:
            kind.__next__ = self._next(kind.__next__)

    def _is_training(self) -> bool:
        is_here = os.getpid() == self._pid and self._module._utils.worker._worker_info is None
        return is_here and bool(sys.modules["torch"].is_grad_enabled())

    def _iter(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def __iter__(loader: Any) -> Any:  # noqa: N807 - takes the place of the method
            if not self._is_training():
                return original(loader)
            found = Wanted.of(loader)
            if self._wanted.is_met_by(found):
                _pack(self._session, loader.dataset, found)
            if found.dataset == self._wanted.dataset and found not in self._passed:
                self._passed.add(found)
                self._session.write(PASSED, loader=str(found))
            iterator = original(loader)
            self._others.begins(iterator, found)
            return iterator

        return __iter__

    def _next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def __next__(iterator: Any) -> Any:  # noqa: N807 - takes the place of the method
            batch = original(iterator)
            if self._is_training():
                self._others.gave_batch(iterator, clocks.wall_s())
                if self._others.are_enough:
                    self._leave()
            return batch

        return __next__

    def _leave(self) -> NoReturn:
        """It trains on other loaders, and may do so for hours."""
        others = [f"{loader} ({n:,} seen)" for loader, n in self._others.batches.items()]
        self._session.write(OTHERS, loaders=others, seconds=self._others.seconds)
        _exit(1)


_capture: Capture | None = None


def install(session: Session, module: ModuleType) -> None:
    """Stand before the loaders of the just imported `torch.utils.data.dataloader`."""
    global _capture
    # Whoever asked may be killed: nobody would wait for the pack.
    if session.options["asked_by"] is not None:
        lifetime.end_with(*session.options["asked_by"])
    _capture = Capture(session, module)
    _capture.stand_before(module.DataLoader, module._BaseDataLoaderIter)


def install_own(module: ModuleType) -> None:
    """And before those of the just imported `stoker.loader.dataloader`, by threads."""
    if _capture is not None:
        _capture.stand_before(module.DataLoader, module._Threaded, module._FindingOut)


def _pack(session: Session, dataset: Any, loader: Wanted) -> NoReturn:
    """Do what was asked for, tell it, and end without the script's own way out."""
    import msgspec

    from stoker.errors import StokerError
    from stoker.pack.build import Progress
    from stoker.pack.errand import Errand, perform

    def tell(step: Progress) -> None:
        session.write(PACKING, **step._asdict())

    code = 0
    try:
        errand = msgspec.convert(session.options["errand"], Errand)
        summary = perform(errand, dataset, tell)
        remarks = (f"of the loader over {loader}", *summary.remarks)
        summary = msgspec.structs.replace(summary, remarks=remarks)
        session.write(PACKED, summary=msgspec.to_builtins(summary))
    except StokerError as error:
        said = (error.happened, error.looked_at, error.run_next)
        session.write(REFUSED, error=type(error).__name__, said=said)
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:  # noqa: BLE001 - told, and raised again by whoever asked
        import traceback

        session.write(BROKE, text=f"{type(error).__name__}: {error}")
        traceback.print_exc()
        code = 1
    _exit(code)


def _exit(code: int) -> NoReturn:
    """End without the script's own way out."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
