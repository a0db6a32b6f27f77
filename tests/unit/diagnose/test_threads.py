"""Verdicts and fixes where a loader's workers are threads of the training process."""

from __future__ import annotations

import msgspec

from stoker.diagnose.diagnosis import diagnose
from stoker.diagnose.prescribe import prescribe
from stoker.diagnose.ranking import rank
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import OWN_LOADER, THREADS, EpochFacts, LegCode, Profile
from tests.unit.diagnose.profiles import about, case_of, leg
from tests.unit.diagnose.test_verdicts import healthy, starved, with_loader


def by_threads(given: Profile) -> Profile:
    return with_loader(given, start_method=THREADS)


def test_more_of_them_are_called_threads() -> None:
    more = leg(LegCode.LOADER, 0.125, workers=2, cpu_s=about(0.13))
    given = starved(cpu=0.13, workers=1, scaling=(more,))
    assert diagnose(given).fixes[0].title == "more worker processes"
    found = diagnose(by_threads(given))
    assert found.verdict.code is VerdictCode.TOO_FEW_WORKERS
    assert found.fixes[0].title == "more threads"


def test_a_stoker_loader_is_told_its_own_arguments_and_no_remedy() -> None:
    more = leg(LegCode.LOADER, 0.125, workers=2, cpu_s=about(0.13))
    given = starved(cpu=0.13, workers=1, scaling=(more,))
    assert prescribe(diagnose(given)).requests
    found = diagnose(with_loader(by_threads(given), dataset=OWN_LOADER, iterable=True))
    assert found.fixes[0].title == "more threads"
    assert found.fixes[0].how == "stoker.Loader(…, threads=4)"
    assert prescribe(found).requests == ()


def test_no_fix_of_a_stoker_loader_asks_for_a_dataset_of_the_users() -> None:
    found = case_of(with_loader(by_threads(starved(cpu=0.13, workers=1)), dataset=OWN_LOADER))
    for verdict in VerdictCode:
        for fix in rank(found, verdict):
            assert "DataLoader" not in fix.how.replace("stoker.DataLoader", ""), fix.code
            assert "__getitem" not in fix.how, fix.code


def test_no_setting_keeps_them_between_epochs() -> None:
    epochs = EpochFacts(batches=10, boundaries=5, edge_s=about(3.0), start_s=3.0)
    given = msgspec.structs.replace(healthy(), real=about(0.4), epochs=epochs)
    assert diagnose(given).fixes[0].code is FixCode.PERSISTENT_WORKERS
    found = diagnose(by_threads(given))
    assert found.verdict.code is VerdictCode.EPOCH_BOUNDARY
    assert FixCode.PERSISTENT_WORKERS not in [fix.code for fix in found.fixes]


def test_their_time_is_counted_once_beside_a_step_that_they_slow() -> None:
    given = healthy(real=0.142, contended=0.14, drain=0.07, loader=0.07, cpu=0.12)
    crowded = msgspec.structs.replace(given.legs["C"], main_cpu_s=about(0.14))
    given = msgspec.structs.replace(given, legs=given.legs | {"C": crowded})
    assert "they want 2.6 cores together, and 2 are owned" in diagnose(given).verdict.sentence
    # 0.12 of the 0.14 is their own.
    assert "together they want" not in diagnose(by_threads(given)).verdict.sentence
