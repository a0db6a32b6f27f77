"""Several causes at once: the heaviest is the verdict, the others are told in their order."""

from __future__ import annotations

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import End, EpochFacts, LegCode, Profile, RankFacts, StepInside
from tests.unit.diagnose.profiles import about, leg, profile

COMPUTING = StepInside(samples=100, python=0.6, blocked=0.4)


def serial(**changes: object) -> Profile:
    """Without workers: 100 ms of loading, then a step of 80 ms."""
    known = {"real": 0.18, "device": 0.08, "wait": 0.1, "loader": 0.1, "cpu": 0.1, "workers": 0}
    return profile(**(known | changes))  # type: ignore[arg-type]


def told(given: Profile) -> tuple[VerdictCode, tuple[VerdictCode, ...]]:
    verdict = diagnose(given).verdict
    return verdict.code, verdict.secondary


def test_loading_that_costs_more_than_work_in_the_step_goes_first() -> None:
    # 60 % of the step of 80 ms are 48 ms, less than the 100 that are waited for.
    assert told(serial(inside=COMPUTING)) == (VerdictCode.SERIAL_LOADER, (VerdictCode.HOST_WORK,))


def test_work_in_the_step_that_costs_more_than_loading_goes_first() -> None:
    given = serial(real=0.12, wait=0.04, loader=0.04, cpu=0.04, inside=COMPUTING)
    assert told(given) == (VerdictCode.HOST_WORK, (VerdictCode.SERIAL_LOADER,))


def test_a_cause_of_less_than_a_tenth_of_the_step_is_not_worth_a_word() -> None:
    given = serial(real=0.09, wait=0.008, loader=0.008, cpu=0.008, inside=COMPUTING)
    assert told(given) == (VerdictCode.HOST_WORK, ())


def test_every_large_part_of_the_loss_is_told() -> None:
    epochs = EpochFacts(batches=10, boundaries=5, edge_s=about(0.7), start_s=0.7)
    given = msgspec.structs.replace(serial(epochs=epochs), real=about(0.25))
    assert told(given) == (VerdictCode.SERIAL_LOADER, (VerdictCode.EPOCH_BOUNDARY,))
    longer = msgspec.structs.replace(given, real=about(0.30))
    assert told(longer) == (VerdictCode.EPOCH_BOUNDARY, (VerdictCode.SERIAL_LOADER,))


def test_inside_the_step_the_heaviest_cause_goes_first_whichever_is_asked_first() -> None:
    given = profile(real=0.102, device=0.1, loader=0.03, cpu=0.02, inside=COMPUTING)
    slower = leg(LegCode.DEVICE, 0.1, drift=1.2, windows=4)
    legs = {"D": slower, "R": leg(LegCode.REAL, 0.102, drift=1.2)}
    drifting = msgspec.structs.replace(given, legs=given.legs | legs)
    assert told(drifting) == (VerdictCode.HOST_WORK, (VerdictCode.DEVICE_DRIFT,))
    alone = msgspec.structs.replace(drifting, inside=None)
    assert told(alone) == (VerdictCode.DEVICE_DRIFT, ())


def test_what_ends_a_run_goes_first_and_hides_nothing() -> None:
    starved = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.49, wait=0.17
    )
    host = msgspec.structs.replace(starved.host, shm_bytes=64_000_000, shm_needed_bytes=400_000_000)
    short = msgspec.structs.replace(starved, host=host)
    assert told(short) == (VerdictCode.MEMORY_RISK, (VerdictCode.CPU_SATURATED,))
    assert diagnose(short).fixes[0].code is FixCode.SHM_SIZE

    ranks = (
        RankFacts(rank=0, real_s=0.25, device_s=0.08, loader_s=0.1, wait_s=0.01),
        RankFacts(rank=1, real_s=0.25, device_s=0.08, loader_s=0.25, wait_s=0.17),
    )
    code, others = told(msgspec.structs.replace(short, ranks=ranks))
    assert code is VerdictCode.MEMORY_RISK
    assert others == (VerdictCode.PEER_RANK, VerdictCode.CPU_SATURATED)


def test_pythons_own_time_is_not_told_a_second_time_as_launches() -> None:
    given = profile(real=0.102, device=0.1, loader=0.03, cpu=0.02)
    environment = msgspec.structs.replace(given.environment, device="emulated", emulated=True)
    inside = StepInside(samples=100, python=0.5, library=0.4)
    given = msgspec.structs.replace(given, environment=environment, inside=inside)
    assert told(given) == (VerdictCode.HOST_WORK, ())


@pytest.mark.parametrize(("steps", "missing"), [(3, "3 more steps of leg R"), (1, "5 more steps")])
def test_too_few_steps_say_how_many_more_would_tell(steps: int, missing: str) -> None:
    given = serial()
    short = leg(LegCode.REAL, 0.18, steps=steps, workers=0)
    verdict = diagnose(msgspec.structs.replace(given, legs=given.legs | {"R": short})).verdict
    assert verdict.code is VerdictCode.INCONCLUSIVE
    assert missing in verdict.sentence
    assert "leg D" not in verdict.sentence


def test_a_run_that_ended_before_the_model_was_seen_alone_says_what_is_missing() -> None:
    given = serial()
    legs = {"R": leg(LegCode.REAL, 0.18, steps=4, workers=0)}
    verdict = diagnose(msgspec.structs.replace(given, legs=legs)).verdict
    assert verdict.code is VerdictCode.INCONCLUSIVE
    assert "2 more steps of leg R and 3 more steps of leg D would tell" in verdict.sentence


def test_batches_that_cannot_be_kept_are_no_matter_of_more_time() -> None:
    given = serial()
    legs = {"R": given.legs["R"]}
    verdict = diagnose(msgspec.structs.replace(given, legs=legs, end=End.NOT_KEPT)).verdict
    assert verdict.code is VerdictCode.INCONCLUSIVE
    assert "can't be served a second time" in verdict.sentence
    assert "--budget" not in verdict.sentence


def test_a_loss_that_no_leg_explains_says_for_how_much_longer_to_look() -> None:
    given = profile(real=0.15, device=0.1, contended=0.14, drain=0.05, loader=0.05, cpu=0.01)
    verdict = diagnose(given).verdict
    assert verdict.code is VerdictCode.INCONCLUSIVE
    assert "about 80 more steps of leg R" in verdict.sentence
