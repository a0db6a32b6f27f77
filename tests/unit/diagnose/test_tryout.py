"""Which of the tried configurations is picked, and what a run makes of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.diagnose.prescribe import prescribe
from stoker.diagnose.tryout import tryout
from stoker.records.codec import from_json, to_json
from stoker.records.diagnosis import SCHEMA, Diagnosis, FixCode, Tryout
from stoker.records.profile import CandidateTrial, Profile
from stoker.remedy.request import Request
from stoker.remedy.settings import REORDERED, SAME
from stoker.report.trials import trials
from tests.unit.diagnose.profiles import about, profile

STEP_S = 0.2


def tried(name: str, gain: float, *, share: float = 0.02, **changes: Any) -> CandidateTrial:
    """A candidate with that gain, known to ± share."""
    known: dict[str, Any] = {"workers": 2, "depth": 4, "more_bytes": 0, "data": SAME}
    return CandidateTrial(
        name=name,
        baseline=about(STEP_S),
        step=about(STEP_S / gain),
        speedup=about(gain, share),
        steps=24,
        **(known | changes),
    )


def given(*candidates: CandidateTrial, workers: int = 2) -> Profile:
    whole = profile(real=STEP_S, device=0.05, wait=0.1, loader=0.15, cpu=0.1, workers=workers)
    return msgspec.structs.replace(whole, candidates=candidates)


def found(*candidates: CandidateTrial, workers: int = 2) -> Tryout:
    result = tryout(given(*candidates, workers=workers))
    assert result is not None
    return result


def test_of_those_that_are_tied_with_the_best_the_cheapest_is_picked() -> None:
    result = found(
        tried("workers=8", 2.02, workers=8, more_bytes=600_000_000),
        tried("workers=4", 2.0, workers=4, more_bytes=200_000_000),
        tried("allocator", 1.2),
    )
    assert result.pick == "workers=4"
    assert [row.is_tied for row in result.rows] == [True, True, False]
    assert [row.memory_bytes for row in result.rows] == [600_000_000, 200_000_000, 0]
    assert "2.00x" in result.sentence
    assert "2 that are tied" in result.sentence


def test_where_the_loop_as_it_is_is_tied_with_the_best_nothing_is_picked() -> None:
    result = found(tried("workers=4", 1.01), tried("workers=1", 0.99), tried("workers=0", 0.7))
    assert result.pick == ""
    assert result.sentence.startswith("Nothing better than the loop as it is: 3 configurations")
    assert [row.is_tied for row in result.rows] == [True, True, False]


def test_a_wide_interval_is_no_pick() -> None:
    wild = tried("allocator", 1.3, share=0.6)
    assert found(wild).pick == ""
    assert "Too few steps to tell whether allocator would help" in found(wild).sentence
    # Not even where all of it lies above one: it could not be promised.
    assert found(tried("workers=8", 1.39, share=0.25)).pick == ""
    # Neither does it hide what is known well, nor is it chosen because it is cheap.
    assert found(wild, tried("workers=4", 1.9, workers=4)).pick == "workers=4"


def test_what_is_far_better_is_picked_though_how_much_better_is_open() -> None:
    result = found(tried("persistent-workers", 5.4, share=0.3), tried("workers=4", 1.2, workers=4))
    assert result.pick == "persistent-workers" and not result.unsure
    assert "persistent-workers is faster, too few steps to tell how much (at least 3.78x)" in (
        result.sentence
    )
    assert "5.40x" not in result.sentence
    assert [row.is_tied for row in result.rows] == [True, False]


def test_what_may_be_worse_than_the_best_that_is_known_is_no_pick() -> None:
    result = found(tried("persistent-workers", 1.5, share=0.3), tried("workers=4", 1.2, workers=4))
    assert result.pick == "workers=4"
    assert result.unsure == ("persistent-workers",)


def test_the_order_of_samples_is_given_up_last() -> None:
    result = found(
        tried("unordered", 1.5, data=REORDERED),
        tried("prefetch-depth=8", 1.49, depth=16, more_bytes=300_000_000),
    )
    assert result.pick == "prefetch-depth=8"
    assert result.rows[0].costs == REORDERED


def test_what_a_run_could_not_apply_is_shown_and_not_picked() -> None:
    result = found(
        tried("cache-ram=900GB", 3.0, unfit="a cache of 900GB does not fit"),
        tried("workers=4", 1.5, workers=4),
    )
    assert result.pick == "workers=4"
    assert "does not fit" in result.rows[0].costs


def test_the_memory_is_that_of_workers_ready_batches_and_what_is_kept() -> None:
    kept = tried("overlap=2,cache-ram=5MB", 2.0, more_bytes=10_000_000, kept_bytes=5_000_000)
    (row,) = found(kept, workers=0).rows
    assert row.memory_bytes == 10_000_000 + 4 * 1_000_000 + 5_000_000


def test_nothing_that_could_be_tried_is_said_with_the_reasons() -> None:
    result = found(CandidateTrial(name="workers=4", skipped="an iterable data set"))
    assert result.pick == ""
    assert result.baseline_s is None
    assert result.rows[0].skipped == "an iterable data set"
    assert "Nothing could be tried" in result.sentence


def test_without_a_trial_there_is_no_word_of_one() -> None:
    assert diagnose(profile(real=STEP_S, device=0.05)).tryout is None


def test_a_run_takes_what_a_trial_has_measured_and_not_the_forecast() -> None:
    serial = {"workers": 0, "wait": 0.1, "loader": 0.1, "cpu": 0.1}
    forecast = diagnose(profile(real=0.18, device=0.08, **serial))
    assert [one.name for one in prescribe(forecast).requests] == ["overlap"]

    both = tried("overlap=3,native-threads=1", 2.0, workers=3)
    profiled = msgspec.structs.replace(forecast.profile, candidates=(both,))
    chosen = prescribe(diagnose(profiled))
    assert chosen.requests == (Request("overlap", 3), Request("native-threads", 1))
    assert "2.00x" in chosen.reasons[0]


def test_a_run_leaves_what_a_trial_has_shown_to_be_of_no_use() -> None:
    serial = {"workers": 0, "wait": 0.1, "loader": 0.1, "cpu": 0.1}
    forecast = diagnose(profile(real=0.18, device=0.08, **serial))
    useless = msgspec.structs.replace(
        forecast.profile, candidates=(tried("overlap=2", 1.0, workers=2),)
    )
    chosen = prescribe(diagnose(useless))
    assert chosen.requests == ()
    assert "Nothing better" in chosen.reasons[0]

    # What was not on trial is still taken by its forecast.
    other = msgspec.structs.replace(forecast.profile, candidates=(tried("allocator", 1.0),))
    assert [one.name for one in prescribe(diagnose(other)).requests] == ["overlap"]


def test_a_trial_that_could_not_tell_leaves_the_forecast_standing() -> None:
    serial = {"workers": 0, "wait": 0.1, "loader": 0.1, "cpu": 0.1}
    forecast = diagnose(profile(real=0.18, device=0.08, **serial)).profile
    wild = tried("overlap=2", 1.3, share=0.6, workers=2)
    unsure = diagnose(msgspec.structs.replace(forecast, candidates=(wild,)))
    assert unsure.tryout is not None and unsure.tryout.unsure == ("overlap=2",)
    assert [one.name for one in prescribe(unsure).requests] == ["overlap"]
    shown = trials(unsure)
    assert shown is not None and [row.tied for row in shown.lines] == ["", "tied"]


def test_memory_that_is_not_known_may_be_much() -> None:
    assert found(
        tried("workers=4", 2.0, workers=4, more_bytes=None),
        tried("workers=8", 2.0, workers=8, more_bytes=600_000_000),
    ).pick == ("workers=8")


def test_what_is_not_to_be_had_counts_for_nothing() -> None:
    unfit = tried("cache-ram=4GB", 2.0, unfit="it needs 40 GB")
    result = found(unfit, tried("workers=4", 2.0, workers=4))
    assert "the best among 2" in result.sentence


@pytest.mark.parametrize(
    ("unfit", "told"), [("", 2.0), ("it needs more memory than there is", None)]
)
def test_a_trial_of_what_is_not_to_be_had_is_not_told_as_its_gain(
    unfit: str, told: float | None
) -> None:
    starved = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.49, wait=0.17
    )
    small = {"random_share": 0.0, "sample_s": 0.49 / 16, "samples": 100}
    seen = msgspec.structs.replace(
        starved,
        loader=msgspec.structs.replace(starved.loader, **small),
        candidates=(tried("cache-ram=4GB", 2.0, unfit=unfit),),
    )
    fix = diagnose(seen).fixes[0]
    assert fix.code is FixCode.CACHE_RAM
    assert (fix.measured.median if fix.measured is not None else None) == told


def test_reports_with_and_without_a_trial_are_read_again() -> None:
    for whole in (given(tried("workers=4", 2.0)), given()):
        text = to_json(diagnose(whole))
        again = from_json(text, Diagnosis, source="x", schema=SCHEMA)
        assert again.tryout == diagnose(whole).tryout
    old = msgspec.json.decode(to_json(diagnose(given())))
    del old["tryout"], old["profile"]["candidates"]
    assert from_json(msgspec.json.encode(old), Diagnosis, source="x", schema=SCHEMA).tryout is None
