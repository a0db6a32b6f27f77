"""What is served in place of a loader's batches, whole and halved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from stoker.probe.stand_ins import HALF, StandIns
from stoker.probe.tracks import Track

FACTS = {"batch_size": 4, "ends_partial": True}


def stand_ins(*, has_compiled: bool = False) -> tuple[StandIns, list[Any]]:
    """With one batch of four rows kept, and what an emulated device was told it has."""
    resident: list[Any] = []
    hooked = SimpleNamespace(
        has_compiled=lambda: has_compiled,
        place=lambda leaf: leaf,
        mark_resident=resident.append,
    )
    session = SimpleNamespace(write=lambda kind, **fields: None)
    made = StandIns(cast(Any, session), cast(Any, hooked), rest_s=0.0)
    made.has_device = True
    made.keep((torch.arange(4.0), torch.zeros(4, 2)))
    return made, resident


def test_half_a_batch_is_served_on_the_device_in_leg_f_alone() -> None:
    served, resident = stand_ins()
    whole = served.hand_out("F", variant="whole")
    half = served.hand_out("F", variant=HALF)
    assert [len(part) for part in whole] == [4, 4]
    assert [len(part) for part in half] == [2, 2]
    assert half[0].tolist() == [0.0, 1.0]
    assert resident[-1] is half
    assert [len(part) for part in served.hand_out("D")] == [4, 4]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(FACTS | {"ends_partial": False}, id="all batches are of one size"),
        pytest.param({"batch_size": 4}, id="nothing is known of the last one"),
        pytest.param(FACTS | {"batch_size": None}, id="nor of their size"),
        pytest.param(FACTS | {"batch_size": 8}, id="of other batches"),
    ],
)
def test_a_size_that_the_script_may_not_know_is_not_served(facts: dict[str, Any]) -> None:
    served, _ = stand_ins()
    assert served.can_halve(FACTS)
    assert not served.can_halve(facts)


def test_what_was_compiled_for_a_size_is_left_alone() -> None:
    served, _ = stand_ins(has_compiled=True)
    assert not served.can_halve(FACTS)


def test_a_batch_that_goes_with_another_loaders_is_left_whole() -> None:
    served, _ = stand_ins()
    beside = Track(None, {"batches": 9, "workers": 0})
    for step in range(4):
        served.companions.of(beside, step=step)
    assert not served.can_halve(FACTS)
