"""Loops without any loader: the gap from an optimizer's step to the model's next forward.

The official hooks of torch.optim and torch.nn, nothing else. Steps aside as soon as a batch comes
from a loader that is followed.
"""

from __future__ import annotations

import atexit
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stoker import clocks
from stoker.probe.host import host_facts
from stoker.probe.outside import OutsideSampler
from stoker.probe.ranks import group_of_process
from stoker.probe.session import Session

if TYPE_CHECKING:
    from stoker.probe.hooks.torch import TorchHooks

# The first steps allocate, tune and compile.
_WARMUP_STEPS = 5
_WARMUP_S = 1.0
_FEWEST_STEPS = 20
_LONGEST_SHARE = 0.5  # of the budget, once there are enough steps


class GapWatch:
    """Times the steps of one optimizer, and the gaps between them."""

    def __init__(self, session: Session, hooks: TorchHooks) -> None:
        self._session = session
        self._hooks = hooks
        self._budget_s = float(session.options["budget_s"])
        self._is_off = False
        self._leader: int | None = None  # id of the optimizer whose steps are counted
        self._steps = 0
        self._began: float | None = None
        self._handle: Any = None
        self._stepped: float | None = None  # when the last optimizer had stepped
        self._led: float | None = None  # when the leader had
        self._gap: float | None = None
        self._is_spoilt = False  # a validation lies in this step
        self._periods: list[float] = []
        self._gaps: list[float] = []
        self._sampler: OutsideSampler | None = None
        self._device: str | None = None

    def after_step(self, optimizer: Any, *_: Any) -> None:
        """An optimizer has stepped; closes a step of the loop, and stops the script in the end."""
        conductor = self._hooks.conductor
        if self._is_off or conductor.is_inert:
            return
        if conductor.has_seen_batches:
            self._step_aside()
            return
        now = clocks.wall_s()
        if self._leader is None:
            self._leader = id(optimizer)
        if id(optimizer) == self._leader:
            self._close_step(now)
        self._stepped = now
        if self._handle is None:
            self._handle = _on_forward(self._before_forward)
        if self._is_enough(now):
            self._write()
            self._session.write("host", **host_facts())
            elapsed = now - (self._began or now)
            self._session.write("end", reason="budget", elapsed_s=round(elapsed, 3))
            conductor.leave()

    def _close_step(self, now: float) -> None:
        self._steps += 1
        if self._began is None:
            self._began = now
        is_warm = self._steps > _WARMUP_STEPS and now - self._began >= _WARMUP_S
        if is_warm and self._sampler is None:
            ident = threading.get_ident()
            self._sampler = OutsideSampler(ident)
            self._device = self._hooks.device()
        elif is_warm and self._led is not None and self._gap is not None and not self._is_spoilt:
            self._periods.append(now - self._led)
            self._gaps.append(self._gap)
        self._led, self._gap, self._is_spoilt = now, None, False

    def _before_forward(self, *_: Any) -> None:
        """The first forward after a step: what came in between made the batch, if anything did."""
        if not self._hooks.grad_enabled():
            self._is_spoilt = True
            return
        if self._stepped is not None and self._gap is None:
            self._gap = clocks.wall_s() - self._stepped
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _is_enough(self, now: float) -> bool:
        if self._began is None:
            return False
        elapsed = now - self._began
        enough = len(self._periods) >= _FEWEST_STEPS and elapsed >= _LONGEST_SHARE * self._budget_s
        return enough or (elapsed >= self._budget_s and len(self._periods) > 0)

    def _step_aside(self) -> None:
        self._is_off = True
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler = None

    def _write(self) -> None:
        sampler, self._sampler = self._sampler, None
        outside = sampler.stop() if sampler is not None else {"samples": 0}
        self._step_aside()
        self._session.write(
            "gap",
            periods=[round(value, 7) for value in self._periods],
            gaps=[round(value, 7) for value in self._gaps],
            device=self._device,
            world=group_of_process().world,
            versions=self._hooks.versions(),
            outside=outside,
            warmup=self._steps - len(self._periods),
        )

    def finish(self) -> None:
        """At exit: a script that ended by itself has told what it had."""
        if not self._is_off and self._periods and not self._hooks.conductor.is_inert:
            self._write()


def install(session: Session, hooks: TorchHooks, optimizers: ModuleType) -> None:
    """Begin to watch the just imported `torch.optim.optimizer`."""
    watch = GapWatch(session, hooks)

    def after_step(optimizer: Any, *_: Any) -> None:
        try:
            watch.after_step(optimizer)
        except Exception as error:  # noqa: BLE001 - the script's own step was made already
            session.write_failure("timing steps without a loader", error)

    optimizers.register_optimizer_step_post_hook(after_step)
    atexit.register(watch.finish)


def _on_forward(hook: Any) -> Any:
    """Have the hook called before the forward of every module; the handle ends that."""
    from torch.nn.modules.module import register_module_forward_pre_hook

    return register_module_forward_pre_hook(hook)
