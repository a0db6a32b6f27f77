"""Raw lines become a Profile: what is counted in, what is left out, and in what unit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.probe.host import host_facts
from stoker.probe.reading import read_profile
from stoker.records.profile import End, Environment, Profile, Script

Line = dict[str, Any]


def loader(**changes: Any) -> Line:
    facts = {
        "kind": "training-loader",
        "workers": 0,
        "batch_size": 8,
        "batches": 100,
        "samples": 800,
        "prefetch_factor": None,
        "persistent_workers": False,
        "pin_memory": False,
        "start_method": None,
        "dataset": "train.Photos",
        "iterable": False,
        "device": None,
        "rank": 0,
        "world": 1,
        "versions": {"torch": "2.5"},
    }
    return facts | changes


def window(leg: str, wait: list[float], compute: list[float], **changes: Any) -> Line:
    line = {
        "kind": "window",
        "leg": leg,
        "workers": 0,
        "skip": 0,
        "complete": True,
        "background": False,
        "wait": wait,
        "compute": compute,
        "drained": [],
        "own_s": 0.0,
        "per_step": [1] * 10,
        "job_cores": None,
        "main_cores": None,
    }
    return line | changes


def boundary(
    seconds: float,
    *,
    validation_s: float = 0.0,
    epoch_s: float | None = None,
    mid_validation_s: float = 0.0,
) -> Line:
    line = {"kind": "boundary", "seconds": seconds, "validation_s": validation_s}
    return line | {"batches": 100, "epoch_s": epoch_s, "mid_validation_s": mid_validation_s}


def drained(workers: int, period: float, what: str = "L") -> Line:
    return {
        "kind": "drain",
        "what": what,
        "workers": workers,
        "ramp_s": 0.2,
        "skipped": 1,
        "periods": [period] * 24,
        "cpu_s": 24 * period,
        "runqueue_s": None,
        "main_cpu_s": 0.0,
        "threads": 1,
        "foreign_cores": None,
    }


def end(reason: str = "budget") -> Line:
    return {"kind": "end", "reason": reason, "start_s": [0.05], "batches": 9, "elapsed_s": 3.0}


def real(count: int = 48, wait: float = 0.01, compute: float = 0.02, **changes: Any) -> Line:
    return window("R", [wait] * count, [compute] * count, **changes)


def read(folder: Path, *lines: Line, code: int = 0, reason: End | None = None) -> Profile:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "trainer-11.jsonl").write_text(text)
    return read_profile(
        folder,
        script=Script(argv=("train.py",), cwd="/"),
        end=reason,
        exit_code=code,
        host_facts=host_facts(),
        environment=Environment(stoker="0", python="", machine=""),
    )


def seconds(profile: Profile, leg: str) -> float:
    return profile.legs[leg].period.median


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
    memory = {"kind": "memory", "workers": 2, "unique_bytes": 70, "main_bytes": 9, "pids": [1, 2]}
    held = {"kind": "tried", "name": "workers=4", "unique_bytes": 150}
    lines = [offered("workers=4", workers=4), own, variant, own, memory | {"batches": 3}, held]
    facts = loader(workers=2, start_method="fork", prefetch_factor=2)
    (found,) = read(tmp_path, facts, real(), *lines, end()).candidates
    assert found.more_bytes == 80
    (found,) = read(tmp_path, loader(), real(), *lines, end()).candidates
    assert found.more_bytes == 150


def of_workers(folder: Path, trainer: int, *masks: list[int], lines: tuple[Line, ...] = ()) -> None:
    """What the workers of a training process have written, each bound to those CPUs."""
    for number, cpus in enumerate(masks):
        begun = {"kind": "worker", "worker": number, "trainer": trainer, "cpus": cpus}
        text = "".join(json.dumps(line) + "\n" for line in (begun, *lines))
        (folder / f"worker-{trainer}{number}.jsonl").write_text(text)


def timed(**stages: list[int]) -> Line:
    """A batch of one sample as leg S has it, with two workers."""
    times = {
        "workers": 2,
        "samples": 1,
        "runqueue_ns": 0,
        "read_bytes": 0,
        "gap_ns": 0,
        "records": [],
    }
    return {"kind": "stages", "where": "worker", "stages": stages} | times


def test_workers_bound_to_a_core_each_have_all_of_these_cores(tmp_path: Path) -> None:
    of_workers(tmp_path, 11, [0], [1], [2], [3])
    profile = read(tmp_path, loader(workers=4), real(), end())
    assert profile.host.worker_affinity == 4
    assert "workers are bound to cores of their own: 1 of 4" in profile.environment.notes[0]


def test_workers_bound_to_the_same_core_have_one(tmp_path: Path) -> None:
    of_workers(tmp_path, 11, [2], [2])
    profile = read(tmp_path, loader(workers=2), real(), end())
    assert profile.host.worker_affinity == 1
    assert profile.environment.notes == ()


def test_the_workers_of_another_rank_say_nothing_of_this_one(tmp_path: Path) -> None:
    of_workers(tmp_path, 11, [0, 1], lines=(timed(decode=[1, 3_000, 3_000]),))
    of_workers(tmp_path, 12, [0], lines=(timed(wait=[1, 9_000, 0]),))
    second = [loader(rank=1), real(), timed(wait=[1, 9_000, 0])]
    (tmp_path / "trainer-12.jsonl").write_text("".join(json.dumps(one) + "\n" for one in second))
    profile = read(tmp_path, loader(workers=2), real(), end())
    assert profile.host.worker_affinity == 2
    assert [stage.stage for stage in profile.stages] == ["decode"]


def test_what_workers_said_and_which_stages_repeat_is_told(tmp_path: Path) -> None:
    said = timed(decode=[1, 3_000, 3_000], flip=[1, 2_000, 2_000]) | {"notes": ["pixel: too often"]}
    of_workers(tmp_path, 11, [0], [0], lines=(said, said))
    repeats = {"kind": "repeats", "stages": {"decode": True, "flip": False}}
    profile = read(tmp_path, loader(workers=2), real(), repeats, end())
    assert profile.environment.notes == ("pixel: too often",)
    assert {stage.stage: stage.deterministic for stage in profile.stages} == repeats["stages"]


def grown(batches: int, unique_bytes: int, **changes: Any) -> Line:
    line = {"kind": "memory", "workers": 2, "main_bytes": 10**9, "pids": [21, 22]}
    return line | {"batches": batches, "unique_bytes": unique_bytes} | changes


def test_memory_grows_by_the_batches_that_the_workers_made(tmp_path: Path) -> None:
    seen = [grown(10, 10_000_000), grown(110, 14_000_000), grown(210, 20_000_000)]
    growth = read(tmp_path, loader(), real(), *seen, end()).memory
    assert growth is not None
    assert growth.bytes_per_batch == 60_000
    assert (growth.batches, growth.unique_bytes, growth.main_bytes) == (210, 20_000_000, 10**9)


@pytest.mark.parametrize(
    "seen",
    [
        [grown(10, 5)],
        [grown(10, 5), grown(10, 9)],
        [grown(10, 5), grown(90, 9, pids=[23, 24])],
        [grown(10, 5, workers=0), grown(90, 9, workers=0)],
    ],
    ids=["once", "no batch between", "other workers", "no workers"],
)
def test_of_workers_that_were_not_seen_at_work_no_growth_is_told(
    tmp_path: Path, seen: list[Line]
) -> None:
    assert read(tmp_path, loader(), real(), *seen, end()).memory is None


def test_single_batches_of_the_loaders_workers_are_kept_in_their_order(tmp_path: Path) -> None:
    for worker in (0, 1):
        lines = (
            {"kind": "worker", "trainer": 11, "cpus": [0, 1]},
            {
                "kind": "batches",
                "worker": worker,
                "workers": 2,
                "seconds": [9.0, 0.1, 0.3 + worker],
            },
        )
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"worker-{20 + worker}.jsonl").write_text(text)
    profile = read(tmp_path, loader(workers=2, in_order=False), real(), end())

    assert profile.batches is not None
    assert profile.batches.seconds == (0.1, 0.1, 0.3, 1.3)
    assert profile.loader is not None
    assert not profile.loader.in_order
    assert read(tmp_path, loader(workers=4), real(), end()).batches is None
