"""Raw lines become a Profile: what is counted in, what is left out, and in what unit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.records.profile import End
from tests.unit.probe.sessions import (
    Line,
    boundary,
    drained,
    end,
    loader,
    read,
    real,
    seconds,
    window,
)


def test_a_step_is_waiting_and_computing_and_a_kept_batch_costs_the_loop_nothing(
    tmp_path: Path,
) -> None:
    kept = window("D", [0.004] * 20, [0.02] * 20)
    profile = read(tmp_path, loader(), real(), kept, drained(0, 0.01), end())

    assert seconds(profile, "R") == pytest.approx(0.03)
    assert seconds(profile, "D") == pytest.approx(0.02)
    assert seconds(profile, "L") == pytest.approx(0.01)
    assert profile.waits is not None
    assert profile.waits.median == pytest.approx(0.01)


def test_a_thread_that_loads_is_paced_by_what_it_waits_for_too(tmp_path: Path) -> None:
    kept = window("D", [0.001] * 20, [0.02] * 20, background=True)
    profile = read(tmp_path, loader(), real(background=True), kept, end())

    assert seconds(profile, "D") == pytest.approx(0.021)


@pytest.mark.parametrize(
    ("found", "shm"), [("threads", None), ("fork", 2 * 2 * 1000), (None, None)]
)
def test_who_makes_the_samples_is_told_by_leg_l(
    tmp_path: Path, found: str | None, shm: int | None
) -> None:
    known_later = loader(workers=2, start_method=None)
    batch = {"kind": "batch", "bytes": 1000, "objects": 1, "samples": 8}
    own = drained(2, 0.01) | {"start_method": found}
    other = drained(4, 0.01) | {"start_method": "spawn"}
    profile = read(tmp_path, known_later, batch, real(), own, other, end())

    assert profile.loader is not None
    assert profile.loader.start_method == found
    assert profile.host.shm_needed_bytes == shm


def test_a_step_of_three_batches_takes_three_periods(tmp_path: Path) -> None:
    micro = real(per_step=[3, 3, 2, 3, 3])
    profile = read(tmp_path, loader(), micro, drained(0, 0.01), end())

    assert profile.loader is not None
    assert profile.loader.batches_per_step == 3
    assert seconds(profile, "R") == pytest.approx(0.09)
    assert seconds(profile, "L") == pytest.approx(0.03)
    assert profile.legs["R"].steps == 16


def test_the_ready_share_is_of_the_batches_that_were_there_when_asked_for(tmp_path: Path) -> None:
    mixed = window("R", [0.0001, 0.0001, 0.0001, 0.01] * 12, [0.02] * 48)
    profile = read(tmp_path, loader(), mixed, end())

    assert profile.ready_share == pytest.approx(0.75)
    assert profile.longest_wait_s == pytest.approx(0.01)


def test_steps_of_another_level_at_the_start_are_warm_up(tmp_path: Path) -> None:
    warming = window("R", [0.0] * 72, [0.06] * 24 + [0.02] * 48)
    profile = read(tmp_path, loader(), window("W", [0.0] * 8, [0.1] * 8), warming, end())

    assert seconds(profile, "R") == pytest.approx(0.02)
    assert profile.legs["R"].discarded == 24
    assert profile.environment.warmup_discarded == 24 + 8


def test_first_steps_stand_in_where_nothing_else_was_seen_and_it_is_said(tmp_path: Path) -> None:
    profile = read(tmp_path, loader(), window("W", [0.01] * 3, [0.02] * 3), end("script-ended"))

    assert seconds(profile, "R") == pytest.approx(0.03)
    assert profile.end is End.SCRIPT_ENDED
    assert any("first steps" in note for note in profile.environment.notes)


def test_boundaries_are_spread_over_the_batches_of_an_epoch(tmp_path: Path) -> None:
    edges = [boundary(1.01, validation_s=0.5), boundary(1.01, validation_s=0.5)]
    profile = read(tmp_path, loader(), real(), *edges, end())

    # half a second beyond validation and the wait that every step has, over a hundred batches
    assert profile.epochs is not None
    assert profile.epochs.boundaries == 2
    assert profile.epochs.validation_s == pytest.approx(0.5)
    assert profile.real is not None
    assert profile.real.median == pytest.approx(0.03 + 0.5 / 100, rel=0.05)


def test_whole_epochs_that_nothing_disturbed_tell_the_step_with_boundaries(tmp_path: Path) -> None:
    edges = [boundary(0.6, validation_s=0.5, epoch_s=4.5) for _ in range(3)]
    profile = read(tmp_path, loader(), real(), *edges, end())

    assert profile.real is not None
    assert profile.real.median == pytest.approx((4.5 - 0.5) / 100)


def test_validation_within_whole_epochs_is_no_part_of_the_step(tmp_path: Path) -> None:
    edges = [boundary(0.1, epoch_s=7.1, mid_validation_s=4.0) for _ in range(3)]
    profile = read(tmp_path, loader(), real(), *edges, end())

    assert profile.real is not None
    assert profile.real.median == pytest.approx((7.1 - 4.0) / 100)


@pytest.mark.parametrize(
    ("seen", "seconds_a_batch"),
    [
        pytest.param([[50, 2.0], [100, 2.5], [150, 1.5]], 4.0 / 100, id="every 50 batches"),
        pytest.param([[20, 9.0]], 0.0, id="once: nobody knows how often"),
        pytest.param([], 0.0, id="never"),
    ],
)
def test_validation_in_mid_epoch_is_spread_over_the_batches_from_one_to_the_next(
    tmp_path: Path, seen: list[list[float]], seconds_a_batch: float
) -> None:
    closing = end() | {"mid_validation": seen}
    profile = read(tmp_path, loader(batches=None), real(), closing)

    assert profile.epochs is not None
    assert profile.epochs.mid_validation_s == pytest.approx(seconds_a_batch)


def test_loaders_of_other_worker_counts_are_told_apart(tmp_path: Path) -> None:
    lines = [drained(0, 0.01), drained(2, 0.005), drained(4, 0.004), drained(0, 0.01)]
    profile = read(tmp_path, loader(), real(), *lines, end())

    assert seconds(profile, "L") == pytest.approx(0.01)
    assert profile.legs["L"].windows == 2
    assert {leg.workers: leg.period.median for leg in profile.scaling} == pytest.approx(
        {2: 0.005, 4: 0.004}
    )


def test_what_was_measured_before_another_loader_trained_is_left_out(tmp_path: Path) -> None:
    first = [loader(dataset="train.Counted"), real(compute=5.0), {"kind": "note", "text": "a note"}]
    profile = read(tmp_path, *first, loader(), real(), end())

    assert seconds(profile, "R") == pytest.approx(0.03)
    assert profile.loader is not None
    assert profile.loader.dataset == "train.Photos"
    assert profile.environment.notes == ("a note",)


def test_the_end_is_the_probes_own_or_what_the_doctor_saw(tmp_path: Path) -> None:
    assert read(tmp_path, loader(), real(), end("converged")).end is End.CONVERGED
    assert read(tmp_path, loader(), real()).end is End.CRASHED
    crashed = read(tmp_path, loader(), real(), end("budget"), code=7, reason=End.CRASHED)
    assert (crashed.end, crashed.exit_code) == (End.CRASHED, 7)


def test_a_process_killed_while_it_wrote_leaves_what_it_had_written(tmp_path: Path) -> None:
    read(tmp_path, loader(), real())
    with (tmp_path / "trainer-11.jsonl").open("a") as file:
        file.write('{"kind":"window","leg":"D","wa')

    again = tmp_path / "trainer-11.jsonl"
    lines = [json.loads(line) for line in again.read_text().splitlines()[:2]]
    profile = read(tmp_path, *lines)
    assert list(profile.legs) == ["R"]


def test_of_several_processes_the_one_that_was_watched_longest_is_told(tmp_path: Path) -> None:
    short = [loader(dataset="train.Short"), real()]
    (tmp_path / "trainer-10.jsonl").write_text("".join(json.dumps(line) + "\n" for line in short))

    profile = read(tmp_path, loader(), real(), window("D", [0.0] * 9, [0.02] * 9), end())

    assert profile.loader is not None
    assert profile.loader.dataset == "train.Photos"


def test_a_session_without_a_loop_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no training loop"):
        read(tmp_path, {"kind": "note", "text": "nothing"}, end("script-ended"))


def offered(name: str, **changes: Any) -> Line:
    line = {"kind": "candidate", "name": name, "workers": 0, "depth": 0, "data": "", "unfit": ""}
    return line | {"kept_bytes": 0, "refused": ""} | changes


def test_a_candidate_is_compared_with_the_windows_beside_it(tmp_path: Path) -> None:
    def own(seconds: float) -> Line:
        return window("B", [seconds - 0.02] * 12, [0.02] * 12)

    def variant(name: str) -> Line:
        return window("V", [0.0] * 12, [0.02] * 12, variant=name)

    slowing = [own(0.04), variant("allocator"), own(0.04), variant("unordered"), own(0.08)]
    lines = [offered("allocator"), offered("unordered"), offered("pinned-async", refused="no GPU")]
    left = offered("prefetch-depth=8")
    profile = read(tmp_path, loader(), real(), *lines, left, *slowing, end())

    found = {one.name: one for one in profile.candidates}
    assert list(found) == ["allocator", "unordered", "pinned-async", "prefetch-depth=8"]
    first, second = found["allocator"].speedup, found["unordered"].speedup
    assert first is not None and second is not None
    assert first.median == pytest.approx(2.0)
    assert second.median == pytest.approx(3.0)
    assert found["pinned-async"].skipped == "no GPU"
    assert "ended before" in found["prefetch-depth=8"].skipped


def test_the_beginnings_of_epochs_count_where_both_sides_saw_some(tmp_path: Path) -> None:
    own = window("B", [0.0] * 20, [0.02] * 20, edges=[2.0, 2.0])
    kept = window("V", [0.0] * 20, [0.02] * 20, variant="persistent-workers", edges=[0.1, 0.1])
    lines = [offered("persistent-workers"), own, kept, own]
    (found,) = read(tmp_path, loader(), real(), *lines, end()).candidates

    assert found.baseline is not None and found.step is not None
    assert found.baseline.median == pytest.approx(0.02 + 2.0 / 100)
    assert found.step.median == pytest.approx(0.02 + 0.1 / 100)
    # An epoch that happens to begin beside a variant that has seen none tells nothing of it.
    blind = window("V", [0.0] * 20, [0.02] * 20, variant="allocator")
    lines = [offered("allocator"), own, blind, own]
    (found,) = read(tmp_path, loader(), real(), *lines, end()).candidates
    assert found.speedup is not None
    assert found.speedup.median == pytest.approx(1.0)


def test_a_cache_that_kept_nothing_was_not_tried(tmp_path: Path) -> None:
    why = "making a sample draws random numbers"
    told = {"kind": "untried", "name": "cache-ram=5MB", "why": why}
    own = window("B", [0.0] * 12, [0.02] * 12)
    variant = window("V", [0.0] * 12, [0.01] * 12, variant="cache-ram=5MB")
    lines = [offered("cache-ram=5MB"), own, variant, own, told]
    (found,) = read(tmp_path, loader(), real(), *lines, end()).candidates

    assert found.speedup is None
    assert found.skipped == why


def test_of_several_numbers_of_workers_on_trial_the_fastest_comes_first(tmp_path: Path) -> None:
    own = window("B", [0.08] * 24, [0.02] * 24)
    two = window("V", [0.03] * 24, [0.02] * 24, workers=2, variant="overlap=2")
    four = window("V", [0.0] * 24, [0.02] * 24, workers=4, variant="overlap=4")
    profile = read(tmp_path, loader(), real(), own, two, own, four, own, end())

    assert [trial.value for trial in profile.trials] == [4, 2]


def test_the_memory_of_a_candidate_is_what_its_workers_hold_more(tmp_path: Path) -> None:
    own = window("B", [0.0] * 12, [0.02] * 12)
    variant = window("V", [0.0] * 12, [0.01] * 12, workers=4, variant="workers=4")
    memory = {
        "kind": "memory",
        "ended": False,
        "workers": 2,
        "unique_bytes": 70,
        "main_bytes": 9,
        "pids": [1, 2],
    }
    held = {"kind": "tried", "name": "workers=4", "unique_bytes": 150}
    lines = [offered("workers=4", workers=4), own, variant, own, memory | {"batches": 3}, held]
    facts = loader(workers=2, start_method="fork", prefetch_factor=2)
    (found,) = read(tmp_path, facts, real(), *lines, end()).candidates
    assert found.more_bytes == 80
    (found,) = read(tmp_path, loader(), real(), *lines, end()).candidates
    assert found.more_bytes == 150


def test_kept_batches_of_unequal_sizes_vary_from_round_to_round(tmp_path: Path) -> None:
    unequal = [0.02 + 0.005 * number for number in range(8)] * 4
    lines = [window("D", [0.0] * 32, unequal, round=round_) for round_ in (1, 8)]
    wide, narrow = (read(tmp_path, loader(), real(), line, end()).legs["D"] for line in lines)
    assert wide.period.median == pytest.approx(narrow.period.median)
    assert narrow.period.half_width_share < 0.01 < wide.period.half_width_share


@pytest.mark.parametrize(("persistent", "edge_s"), [(False, 0.05), (True, None)])
def test_workers_that_live_on_are_not_started_at_each_epoch(
    tmp_path: Path, *, persistent: bool, edge_s: float | None
) -> None:
    lines = loader(workers=1, persistent_workers=persistent), real(wait=0.0), end()
    epochs = read(tmp_path, *lines).epochs
    assert epochs is not None and epochs.extrapolated is not persistent
    assert (epochs.edge_s and epochs.edge_s.median) == (edge_s and pytest.approx(edge_s))
