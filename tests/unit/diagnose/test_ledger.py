from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.diagnose.facts import facts_of
from stoker.diagnose.ledger import account, part
from stoker.records.diagnosis import Part
from tests.unit.diagnose.profiles import profile

SECONDS = st.floats(0.001, 2.0)


@given(real=SECONDS, device=SECONDS, host=SECONDS, contended=SECONDS, drain=SECONDS)
def test_the_rows_add_up_to_the_step_whatever_was_measured(
    real: float, device: float, host: float, contended: float, drain: float
) -> None:
    facts = facts_of(
        profile(real=real, device=device, host=host, contended=contended, drain=drain, loader=drain)
    )
    assert facts is not None
    assert sum(row.seconds for row in account(facts)) == pytest.approx(real)


@given(real=SECONDS, device=SECONDS, wait=SECONDS)
def test_without_workers_the_wait_is_the_serial_part(
    real: float, device: float, wait: float
) -> None:
    facts = facts_of(profile(real=real, device=device, wait=wait, loader=wait, cpu=wait, workers=0))
    assert facts is not None
    rows = account(facts)
    assert part(rows, Part.SERIAL) == wait
    assert part(rows, Part.RATE_DEFICIT) == 0
    assert sum(row.seconds for row in rows) == pytest.approx(real)


def test_a_loader_that_keeps_up_has_no_deficit() -> None:
    facts = facts_of(profile(real=0.1, device=0.1, contended=0.1, drain=0.06, loader=0.06, cpu=0.1))
    assert facts is not None
    assert part(account(facts), Part.RATE_DEFICIT) == 0


def test_a_negative_difference_stays_in_the_account() -> None:
    facts = facts_of(profile(real=0.1, device=0.1, host=0.09, contended=0.095, loader=0.02))
    assert facts is not None
    rows = account(facts)
    assert part(rows, Part.TRANSFER) == pytest.approx(-0.01)
    assert sum(row.seconds for row in rows) == pytest.approx(0.1)


def test_each_row_has_its_interval_and_the_leg_behind_it() -> None:
    facts = facts_of(profile(real=0.2, device=0.1, contended=0.1, drain=0.2, loader=0.2, cpu=0.4))
    assert facts is not None
    for row in account(facts):
        assert row.low <= row.seconds <= row.high
        assert row.leg
