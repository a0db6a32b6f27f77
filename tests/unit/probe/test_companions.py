from __future__ import annotations

from stoker.probe.companions import Companions
from stoker.probe.tracks import Track


def track(name: str) -> Track:
    return Track(None, {"dataset": name, "batches": 10, "workers": 0})


def test_a_loader_asked_in_three_steps_in_a_row_goes_along() -> None:
    companions, other = Companions(), track("other")
    found = [companions.of(other, step=step) is not None for step in (4, 5, 6, 7)]
    assert found == [False, False, True, True]
    assert companions.tracks == [other]


def test_two_batches_a_step_are_one_step() -> None:
    companions, other = Companions(), track("other")
    assert [companions.of(other, step=step) is not None for step in (1, 1, 2, 2, 3)] == [
        *[False] * 4,
        True,
    ]


def test_a_loader_asked_now_and_then_does_not_go_along() -> None:
    companions, other = Companions(), track("validation")
    for step in (10, 10, 10, 20, 20, 30, 31):
        assert companions.of(other, step=step) is None
    assert companions.tracks == []
