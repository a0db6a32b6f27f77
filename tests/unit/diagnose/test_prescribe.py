"""Which remedies a diagnosis asks for, and what it says when there is none."""

from __future__ import annotations

import msgspec

from stoker.diagnose.diagnosis import diagnose
from stoker.diagnose.prescribe import prescribe
from stoker.records.profile import EpochFacts, LegCode
from stoker.remedy.request import Request
from tests.golden import diagnoses
from tests.unit.diagnose.profiles import about, leg, profile


def test_a_serial_loader_gets_workers() -> None:
    given = profile(real=0.18, device=0.08, wait=0.1, loader=0.1, cpu=0.1, workers=0)
    chosen = prescribe(diagnose(given))
    assert chosen.requests[0].name == "overlap"
    assert chosen.requests[0].count is not None
    assert "serial-loader: overlap=" in chosen.reasons[0]


def test_epochs_that_start_slowly_keep_their_workers() -> None:
    given = profile(real=0.102, device=0.1, contended=0.1, drain=0.1, loader=0.03, cpu=0.05)
    edges = EpochFacts(batches=10, boundaries=5, edge_s=about(3.0), start_s=3.0)
    slow = msgspec.structs.replace(given, epochs=edges, real=about(0.4))
    chosen = prescribe(diagnose(slow))
    assert chosen.requests == (Request("persistent-workers"),)


def test_what_is_yours_to_make_is_told_and_not_applied() -> None:
    given = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.49, wait=0.17
    )
    loader = msgspec.structs.replace(
        given.loader, sample_s=0.49 / 16, random_share=0.9, random_op="crop", samples=10**8
    )
    chosen = prescribe(diagnose(msgspec.structs.replace(given, loader=loader)))
    assert chosen.requests == ()
    (line,) = [text for text in chosen.reasons if text.startswith("device-augment")]
    assert "is yours to make" in line
    assert "forecast" in line


def test_where_only_data_would_mend_it_a_setting_helps_meanwhile() -> None:
    # Two workers that are blocked most of their time by a store that serves more at once.
    given = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.05, wait=0.17
    )
    scaling = tuple(leg(LegCode.LOADER, seconds, workers=w) for w, seconds in ((1, 0.5), (4, 0.13)))
    chosen = prescribe(diagnose(msgspec.structs.replace(given, scaling=scaling)))
    (request,) = chosen.requests
    assert request.name == "workers"
    assert (request.count or 0) >= 4


def test_a_set_that_fits_into_memory_is_kept_there_with_room_to_spare() -> None:
    given = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.49, wait=0.17
    )
    loader = msgspec.structs.replace(
        given.loader, sample_s=0.49 / 16, random_share=0.0, samples=160, deterministic=True
    )
    chosen = prescribe(diagnose(msgspec.structs.replace(given, loader=loader)))
    (request,) = chosen.requests
    assert request.name == "cache-ram"
    assert 160 * 1_000_000 / 16 < (request.count or 0) < 1.3 * 160 * 1_000_000 / 16


def test_a_healthy_run_and_an_unseen_one_get_nothing() -> None:
    for diagnosis in (diagnoses.device_bound(), *(make() for make in diagnoses.ALL.values())):
        chosen = prescribe(diagnosis)
        assert chosen.reasons
        if not diagnosis.fixes:
            assert chosen.requests == ()
