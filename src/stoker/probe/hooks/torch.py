"""Torch's DataLoader and optimizers, watched: the only file that assigns to torch's attributes.

One class patch each of `DataLoader.__iter__`, `DataLoader._get_iterator` and
`_BaseDataLoaderIter.__next__`, and the official optimizer hook. What torch lacks of the internals
that are read here (queues, cached batches) is done without, and said.
"""

from __future__ import annotations

import atexit
import copy
import gc
import multiprocessing.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stoker import clocks
from stoker.probe.conductor import Conductor
from stoker.probe.fetch import Fetch
from stoker.probe.pipeline import Pipeline, PipelineRehearsal
from stoker.probe.rehearsal import Rehearsal
from stoker.probe.session import Session
from stoker.probe.side_loader import start_method_of, worker_count
from stoker.probe.tracks import Track, Tracks
from stoker.probe.worker import WorkerStart

if TYPE_CHECKING:
    from stoker.probe.hooks.cuda import CudaWatch
    from stoker.probe.hooks.emulated import EmulatedWatch

_QUIESCE_STEP_S = 0.002


_installed: TorchHooks | None = None


def installed() -> TorchHooks | None:
    """The hooks of this process; None until torch is imported."""
    return _installed


def install(session: Session, dataloader: ModuleType) -> None:
    """Patch the just imported `torch.utils.data.dataloader` and begin to watch."""
    global _installed
    _installed = hooks = TorchHooks(session, dataloader)
    hooks.patch()
    atexit.register(hooks.finish)
    os.register_at_fork(after_in_child=hooks.begin_anew)


class TorchHooks:
    """The patches, and what they know about the loaders of this process."""

    def __init__(self, session: Session, dataloader: ModuleType) -> None:
        self._session = session
        self._module = dataloader
        self._is_forked = False
        self._begin()

    def _begin(self) -> None:
        self._tracks = Tracks(loader_facts, _copy)
        self._view = TorchView(self._session)
        self._conductor = Conductor(self._session, self._view)

    def begin_anew(self) -> None:
        """In a forked child: it may train, too, and has nothing to do with what its parent saw."""
        self._is_forked = True
        self._begin()

    @property
    def conductor(self) -> Conductor:
        """The one of this process: a forked child has its own."""
        return self._conductor

    def grad_enabled(self) -> bool:
        """False inside no_grad and inference_mode."""
        return self._view.grad_enabled()

    def gave_batch(self, track: Track) -> None:
        """A loader's loop goes on with a batch that it was just handed."""
        if track.learns:
            self._view.gave_batch(self._conductor.leg)

    def device(self) -> str | None:
        """Where the model lives when that is not the host."""
        return self._view.device()

    def versions(self) -> dict[str, str]:
        """Versions of the libraries that matter for the result."""
        return self._view.versions()

    def is_loader(self, batches: Any) -> bool:
        """True for a DataLoader, which needs no mark to be followed."""
        return isinstance(batches, self._module.DataLoader)

    def finish(self) -> None:
        """Write down what is still open."""
        self._conductor.finish()
        self._view.finish()

    def patch(self) -> None:
        """Put our methods in front of torch's."""
        self.follow_class(self._module.DataLoader)
        iterator_class = self._module._BaseDataLoaderIter
        iterator_class.__next__ = self._next(iterator_class.__next__)
        from stoker.probe.bootstrap import watch

        watch().after("torch.optim.optimizer", self._watch_optimizers)

    def follow_class(self, loader_class: Any) -> None:
        """Follow loaders of a class that brings its own ways to iterate."""
        loader_class.__iter__ = self._iter(loader_class.__iter__)
        loader_class._get_iterator = self._get_iterator(loader_class._get_iterator)

    def follow_iterators(self, loader_class: Any, *kinds: Any) -> None:
        """Follow a class that gives iterators of these kinds, beside those of torch's kind."""
        loader_class.__iter__ = self._iter(loader_class.__iter__, kinds)
        for kind in kinds:
            kind.__next__ = self._next(kind.__next__)

    def _watch_optimizers(self, module: ModuleType) -> None:
        def after_step(optimizer: Any, *_: Any) -> None:
            try:
                self._view.saw_optimizer(optimizer)
                self._conductor.on_optimizer_step()
            except Exception as error:  # noqa: BLE001 - the script's own step was made already
                self._conductor.give_up(error)

        module.register_optimizer_step_post_hook(after_step)
        from stoker.probe.hooks import gap

        gap.install(self._session, self, module)

    def _iter(
        self, original: Callable[[Any], Any], kinds: tuple[Any, ...] = ()
    ) -> Callable[[Any], Any]:
        """`kinds`: of iterators that are followed here; none: all, others are followed already."""

        def __iter__(loader: Any) -> Any:  # noqa: N807 - takes the place of the method
            if self._conductor.is_inert or self.is_in_worker():
                return original(loader)
            began = clocks.wall_s()
            iterator = original(loader)
            if kinds and not isinstance(iterator, kinds):
                return iterator
            try:
                track = self._tracks.follow(loader, iterator, learns=self._view.grad_enabled())
                self._conductor.on_epoch(track, began)
            except Exception as error:  # noqa: BLE001 - what can't be followed runs on unwatched
                self._session.write_failure("following a loader", error)
            self._end_with_process()
            return iterator

        return __iter__

    def is_in_worker(self) -> bool:
        """True in a loader's worker, whose data set may have loaders of its own."""
        return self._module._utils.worker._worker_info is not None

    def _end_with_process(self) -> None:
        """Forked children of multiprocessing run no exit hooks but its own."""
        if self._is_forked:
            self._is_forked = False
            multiprocessing.util.Finalize(None, self.finish, exitpriority=0)

    def _get_iterator(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        session = self._session

        def _get_iterator(loader: Any) -> Any:
            if not loader.num_workers or isinstance(loader.worker_init_fn, WorkerStart):
                return original(loader)
            # The script's own function stays on the loader; workers get the stand-in.
            own = loader.worker_init_fn
            loader.worker_init_fn = WorkerStart(own, session.folder)
            try:
                return original(loader)
            finally:
                loader.worker_init_fn = own

        return _get_iterator

    def _next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def __next__(iterator: Any) -> Any:  # noqa: N807 - takes the place of the method
            conductor = self._conductor
            track = self._tracks.of_iterator(iterator)
            if track is None or conductor.is_inert:
                return original(iterator)
            fetch = Fetch(partial(original, iterator))
            try:
                batch = conductor.on_next(track, iterator, fetch)
                self.gave_batch(track)
                return batch
            except BaseException as error:
                if fetch.has_raised(error):
                    raise
                if not isinstance(error, Exception) or isinstance(error, StopIteration):
                    raise  # our stop, an epoch that we end, Ctrl-C
                conductor.give_up(error)
                return fetch.once()

        return __next__


def _copy(loader: Any) -> Any:
    """A loader that stands in for the script's when that is gone, without its iterator."""
    twin = copy.copy(loader)
    object.__setattr__(twin, "_iterator", None)
    return twin


def loader_facts(loader: Any) -> dict[str, Any]:
    """What a DataLoader says of itself, as plain values."""
    is_iterable = loader._dataset_kind == 1
    batches = None
    if not is_iterable:
        try:
            batches = len(loader)
        except TypeError:
            batches = None  # a sampler without a length
    dataset = type(loader.dataset)
    return {
        "workers": worker_count(loader),
        "batch_size": batch_size_of(loader),
        "batches": batches,
        "samples": samples_of(loader),
        "prefetch_factor": loader.prefetch_factor if loader.num_workers else None,
        "persistent_workers": bool(loader.persistent_workers),
        "pin_memory": bool(loader.pin_memory),
        "in_order": bool(getattr(loader, "in_order", True)),
        "ends_partial": ends_partial(loader),
        "start_method": start_method_of(loader),
        "dataset": f"{dataset.__module__}.{dataset.__qualname__}",
        "iterable": is_iterable,
    }


def ends_partial(loader: Any) -> bool:
    """The last batch of an epoch is smaller than the others: its script takes other sizes."""
    if loader._dataset_kind == 1 or not loader.batch_size or loader.drop_last:
        return False
    try:
        return bool(len(loader.sampler) % loader.batch_size)
    except TypeError:
        return False  # a sampler without a length


def samples_of(loader: Any) -> int | None:
    """Those of a map-style data set; None for an iterable one, or one without a length."""
    try:
        return None if loader._dataset_kind == 1 else len(loader.dataset)
    except TypeError:
        return None


def batch_size_of(loader: Any) -> int | None:
    """What the loader or its batch sampler says; None where neither does."""
    size: int | None = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
    return size


class TorchView:
    """What the conductor asks about torch. A `roles.Hooked`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._torch = sys.modules["torch"]
        self._parameter_device: Any = None
        self._device_watch: CudaWatch | EmulatedWatch | None = None

    def saw_optimizer(self, optimizer: Any) -> None:
        """Remember where the parameters live; called after each optimizer step."""
        if self._parameter_device is None:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    self._parameter_device = parameter.device
                    self._watch_device(parameter.device)
                    return
        elif self._device_watch is not None:
            self._device_watch.step_ended()

    def _watch_device(self, device: Any) -> None:
        if device.type == "cuda" and self._device_watch is None:
            from stoker.probe.hooks.cuda import CudaWatch, Nvml

            cuda = self._torch.cuda
            nvml = Nvml.open(cuda, device)
            self._device_watch = CudaWatch(cuda, device, self._session.write, nvml=nvml)

    def gave_batch(self, leg: str | None) -> None:
        """The training loop goes on with a batch, in that leg."""
        if self._device_watch is None:
            self._watch_emulated()
        if self._device_watch is not None:
            self._device_watch.batch_given(leg)

    def _watch_emulated(self) -> None:
        emulator = self._emulator()
        if emulator is None:
            return
        from stoker.probe.hooks.emulated import Account, EmulatedWatch

        def account() -> Account:
            live = emulator.live()
            return Account(sum(each.steps for each in live), sum(each.idle_s for each in live))

        self._device_watch = EmulatedWatch(account, self._session.write)

    def finish(self) -> None:
        """Write down what the device told last."""
        if self._device_watch is not None:
            self._device_watch.tell()

    def grad_enabled(self) -> bool:
        """False inside no_grad and inference_mode."""
        torch = self._torch
        return bool(torch.is_grad_enabled()) and not torch.is_inference_mode_enabled()

    def has_optimizer(self) -> bool:
        """True where an optimizer lives; goes through all objects: 30 ms with torch alone."""
        module = sys.modules.get("torch.optim.optimizer")
        # By type alone: asking an object for its class can run code of lazy proxies.
        return module is not None and any(
            issubclass(type(each), module.Optimizer) for each in gc.get_objects()
        )

    def has_compiled(self) -> bool:
        """As torch.compile counts what it has traced; its module is imported by optimizers, too."""
        counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
        return any(counters.get("frames", {}).values())

    def _emulator(self) -> Any:
        module = sys.modules.get("stoker.emulate")
        return module if module is not None and list(module.live()) else None

    def _cuda(self) -> Any:
        if self._parameter_device is not None:
            return self._parameter_device if self._parameter_device.type != "cpu" else None
        cuda = self._torch.cuda
        return self._torch.device("cuda", cuda.current_device()) if cuda.is_initialized() else None

    def synchronize(self) -> None:
        """Wait for the device, if there is one."""
        emulator = self._emulator()
        if emulator is not None:
            emulator.synchronize_all()
        device = self._cuda()
        if device is not None and device.type == "cuda":
            self._torch.cuda.synchronize(device)

    def device(self) -> str | None:
        """Where the model lives when that is not the host."""
        if self._emulator() is not None:
            return "emulated"
        device = self._cuda()
        if device is None:
            return None
        try:
            return f"{device} {self._torch.cuda.get_device_name(device)}"
        except Exception:  # noqa: BLE001 - no CUDA device: its number says enough
            return str(device)

    def place(self, leaf: Any) -> Any:
        """The leaf on the model's device."""
        device = self._cuda()
        return leaf.to(device) if device is not None and self._torch.is_tensor(leaf) else leaf

    def mark_resident(self, batch: Any) -> None:
        """Tell an emulated device that it has the batch already."""
        emulator = self._emulator()
        if emulator is not None:
            emulator.mark_resident(batch)

    def worker_pids(self, iterator: Any) -> list[int]:
        """The worker processes of an iterator."""
        return [worker.pid for worker in getattr(iterator, "_workers", ()) if worker.pid]

    def versions(self) -> dict[str, str]:
        """Versions of torch and of what samples are usually made with, where imported."""
        names = ("torch", "torchvision", "numpy", "PIL", "cv2", "albumentations", "lightning")
        found = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
        return {name: str(version) for name, version in found.items() if version is not None}

    def quiesce(self, iterator: Any, limit_s: float) -> None:
        """Wait until every batch that was asked for has arrived, so that no worker works."""
        if isinstance(iterator, Pipeline):
            iterator.quiesce(limit_s)
            return
        end = clocks.wall_s() + limit_s
        if not (hasattr(iterator, "_worker_result_queue") or hasattr(iterator, "is_at_rest")):
            return
        while clocks.wall_s() < end:
            try:
                if _is_at_rest(iterator):
                    return
            except (AttributeError, NotImplementedError, OSError) as error:
                self._session.write("note", text=f"cannot see the loader's queues: {error!r}")
                return
            time.sleep(_QUIESCE_STEP_S)
        self._session.write("note", text=f"workers still busy after {limit_s:.1f} s")

    def rehearsal(
        self, track: Track, sample: Any, beside: Sequence[Track]
    ) -> Rehearsal | PipelineRehearsal:
        """Side loaders for a track and those that go along; `sample` is a batch of it."""
        if isinstance(track.loader, Pipeline):
            return track.loader.rehearsal(self._session)
        loaders = [each.loader for each in beside if not isinstance(each.loader, Pipeline)]
        return Rehearsal(track.loader, self._session, sample, served=track.batches, beside=loaders)


def _is_at_rest(iterator: Any) -> bool:
    """True when every batch that was asked for is there."""
    if hasattr(iterator, "is_at_rest"):  # of a stoker.DataLoader
        return bool(iterator.is_at_rest)
    return _arrived(iterator) >= int(iterator._tasks_outstanding)


def _arrived(iterator: Any) -> int:
    """Batches that workers have finished and that were not taken yet."""
    arrived = int(iterator._worker_result_queue.qsize())
    if iterator._pin_memory and hasattr(iterator._data_queue, "qsize"):
        arrived += int(iterator._data_queue.qsize())
    return arrived
