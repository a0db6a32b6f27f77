"""Which remedies a diagnosis asks for, and what it says when there is none."""

from __future__ import annotations

import msgspec

from stoker.diagnose.diagnosis import diagnose
from stoker.diagnose.prescribe import prescribe
from stoker.records.diagnosis import Diagnosis, FixCode
from stoker.records.profile import EpochFacts, LegCode, Trial
from stoker.remedy.request import Request
from stoker.remedy.snippets import by_hand
from stoker.stats import Spread
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
    assert by_hand(FixCode.DEVICE_AUGMENT) in chosen.by_hand


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


def serial(*notes: str) -> Diagnosis:
    given = profile(real=0.18, device=0.08, wait=0.1, loader=0.1, cpu=0.1, workers=0)
    environment = msgspec.structs.replace(given.environment, notes=notes)
    return diagnose(msgspec.structs.replace(given, environment=environment))


def test_workers_that_failed_when_they_were_tried_are_not_applied() -> None:
    chosen = prescribe(serial("a loader of 2 workers failed: BadZipFile (zipfile.py:1582)"))
    assert chosen.requests == ()
    (line,) = [text for text in chosen.reasons if text.startswith("overlap")]
    assert "not worth it, no number promised (workers failed on this data set here)" in line


def test_what_other_processes_keep_from_a_number_the_run_itself_may_show() -> None:
    crowded = msgspec.structs.replace(serial().profile.host, foreign_cores=0.9)
    diagnosis = diagnose(msgspec.structs.replace(serial().profile, host=crowded))
    assert diagnosis.fixes[0].withheld
    assert [request.name for request in prescribe(diagnosis).requests] == ["overlap"]


def test_a_number_is_said_to_be_measured_where_it_was() -> None:
    assert "forecast" in prescribe(serial()).reasons[0]
    tried = Trial(
        what="workers", value=2, baseline=about(0.18), variant=about(0.09), speedup=about(2.0)
    )
    seen = diagnose(msgspec.structs.replace(serial().profile, trials=(tried,)))
    (line,) = prescribe(seen).reasons
    assert line == "serial-loader: overlap=2, 2.00x (1.98 to 2.02) measured"
    vague = msgspec.structs.replace(tried, speedup=Spread(4.38, 3.21, 5.58))
    seen = diagnose(msgspec.structs.replace(serial().profile, trials=(vague,)))
    (line,) = prescribe(seen).reasons
    assert "too few steps to tell how much (at least 3.21x)" in line
    assert "4.38" not in line


def test_a_deeper_queue_is_asked_for_before_another_order() -> None:
    given = profile(
        real=0.14, device=0.1, contended=0.1, drain=0.1, loader=0.03, cpu=0.05, wait=0.04
    )
    diagnosis = diagnose(msgspec.structs.replace(given, longest_wait_s=0.5))
    assert [fix.code for fix in diagnosis.fixes] == [FixCode.PREFETCH_DEPTH, FixCode.UNORDERED]
    assert prescribe(diagnosis).requests == (Request("prefetch-depth", 8),)
    only = msgspec.structs.replace(diagnosis, fixes=diagnosis.fixes[1:])
    assert prescribe(only).requests == (Request("unordered"),)
    alone = msgspec.structs.replace(given.loader, workers=1)
    one = msgspec.structs.replace(only, profile=msgspec.structs.replace(given, loader=alone))
    assert prescribe(one).requests == ()


def test_workers_that_decode_large_pictures_keep_their_memory_while_a_pack_is_yours() -> None:
    given = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.49, wait=0.17
    )
    loader = msgspec.structs.replace(
        given.loader, batch_bytes=16 * 602_112, sample_s=0.49 / 16, random_share=0.0, samples=10**8
    )
    chosen = prescribe(diagnose(msgspec.structs.replace(given, loader=loader)))
    assert chosen.requests == (Request("allocator"),)
    assert chosen.by_hand == (by_hand(FixCode.PACK),)


def test_a_healthy_run_and_an_unseen_one_get_nothing() -> None:
    for diagnosis in (diagnoses.device_bound(), *(make() for make in diagnoses.ALL.values())):
        chosen = prescribe(diagnosis)
        assert chosen.reasons
        if not diagnosis.fixes:
            assert chosen.requests == ()
