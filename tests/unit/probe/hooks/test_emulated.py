"""An emulated device tells how long it had nothing to do before each step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker import emulate
from stoker.emulate import EmulatedAccelerator, accelerator
from stoker.probe.device_reading import read_device
from stoker.probe.hooks.emulated import Account, EmulatedWatch
from stoker.probe.hooks.torch import TorchView


class Idle:
    """An accelerator that takes no time for its steps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.steps = 0
        self.written: list[dict[str, Any]] = []
        self.watch = EmulatedWatch(lambda: Account(self.steps, self.seconds), self.write)

    def write(self, kind: str, **fields: Any) -> None:
        self.written.append({"kind": kind, **fields})

    def train(self, leg: str | None, idle: list[float]) -> None:
        """A step for each, before which the device has nothing to do for so long."""
        for seconds in idle:
            self.watch.batch_given(leg)
            self.seconds += seconds
            self.steps += 1


def test_each_step_but_the_one_behind_a_pause_counts_in_the_leg_that_it_belongs_to() -> None:
    idle = Idle()
    idle.train(None, [9.0, 9.0, 9.0])
    idle.train("R", [5.0, 0.03, 0.03, 0.03])
    idle.train("D", [5.0, 0.01, 0.01, 0.01])
    idle.train("C", [5.0, 0.02, 0.02])
    idle.watch.tell()

    assert [line["leg"] for line in idle.written] == ["R", "D"]
    # The last step of a leg is not known to have begun within it.
    assert [line["idle"] for line in idle.written] == [[0.03] * 2, [0.01] * 2]


def test_an_accelerator_that_only_takes_copies_says_nothing() -> None:
    idle = Idle()
    for _ in range(9):
        idle.watch.batch_given("D")
    idle.watch.tell()
    assert idle.written == []


def test_what_is_told_by_batch_is_put_together_to_steps() -> None:
    idle = Idle()
    idle.train("R", [5.0, *[0.03] * 9])
    idle.train("D", [5.0, *[0.01] * 9])
    idle.watch.tell()
    facts = read_device(idle.written, per_step=4)

    assert facts is not None
    assert facts.idle_s is not None
    assert facts.idle_alone_s is not None
    assert facts.idle_s.median == pytest.approx(0.12)
    assert facts.idle_alone_s.median == pytest.approx(0.04)
    assert facts.behind_s is None


def test_the_view_of_torch_asks_the_accelerators_that_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accelerator, "_calibrate_once", lambda *_: 1.0)
    written: list[dict[str, Any]] = []

    def write(kind: str, **fields: Any) -> None:
        written.append({"kind": kind, **fields})

    monkeypatch.setattr(emulate, "live", lambda: [device])
    device = EmulatedAccelerator(0.0)
    view = TorchView(SimpleNamespace(write=write))  # type: ignore[arg-type]
    for _ in range(4):
        view.gave_batch("D")
        device.step(None)
    view.finish()

    (line,) = written
    assert (line["kind"], line["leg"], len(line["idle"])) == ("device", "D", 2)
    assert sum(line["idle"]) <= device.idle_s
