"""How the promises of all measured cases are judged together."""

from __future__ import annotations

import pytest

from benchmarks.remedies import Kept, _promise

FIXES = [
    {"code": "cache-local", "speedup": {"median": 3.0}},
    {"code": "workers", "speedup": {"median": 2.0}},
    {"code": "fewer-workers", "speedup": {"median": 1.4}},
]


@pytest.mark.parametrize(
    ("applied", "promised"),
    [("workers=8", 2.0), ("cache-local=/a:1GB", 3.0), ("overlap=2", None)],
)
def test_the_promise_is_of_what_is_applied(applied: str, promised: float | None) -> None:
    found = _promise(FIXES, applied)
    assert (found and found["median"]) == promised


def test_nothing_was_promised_of_several_together() -> None:
    assert _promise(FIXES, "workers=8, native-threads=1") is None


@pytest.mark.parametrize(
    ("kept", "holds"),
    [
        (Kept(inside=4, off=(0.01, 0.02, 0.05, 0.2, 0.3), without=0), True),
        (Kept(inside=3, off=(0.01, 0.02, 0.05, 0.2, 0.3), without=0), False),
        (Kept(inside=3, off=(0.11, 0.12, 0.05), without=2), False),
        (Kept(inside=0, off=(), without=5), False),
    ],
)
def test_most_promises_have_to_hold_and_the_middle_one_to_be_close(kept: Kept, holds: bool) -> None:
    assert kept.holds is holds
