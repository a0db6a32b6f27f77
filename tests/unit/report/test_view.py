"""What a view says about a diagnosis, and what it never does with odd numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from stoker.records.diagnosis import (
    Capacity,
    Diagnosis,
    FixCode,
    LedgerRow,
    Outlook,
    Part,
    RankedFix,
    VerdictCode,
)
from stoker.records.profile import End, LegCode
from stoker.report import wording
from stoker.report.canvas import Canvas
from stoker.report.terminal import render
from stoker.report.view import view
from stoker.stats import Spread
from tests.golden import diagnoses
from tests.unit.records.strategies import records


def _fix(speedup: Spread | None, **changes: object) -> RankedFix:
    plain = RankedFix(
        code=FixCode.OVERLAP, title="Overlap", speedup=speedup, how="workers", costs="RAM"
    )
    return replace(plain, **changes)


def _with_ledger(*rows: LedgerRow, real_s: float | None = 0.1) -> Diagnosis:
    seen = diagnoses.serial_loader()
    return replace(seen, ledger=rows, step=replace(seen.step, real_s=real_s))


def _row(part: Part, seconds: float) -> LedgerRow:
    return LedgerRow(part=part, seconds=seconds, low=seconds, high=seconds, leg="R")


# One random diagnosis has some 500 values and is rendered twice.
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(records(Diagnosis, lawful=False))
def test_no_diagnosis_however_odd_keeps_the_report_from_being_shown(odd: Diagnosis) -> None:
    shown = view(odd)

    for canvas in (Canvas(colors=None), Canvas(is_unicode=False), Canvas(colors="standard")):
        assert render(shown, canvas)
    assert "\x1b" not in render(shown, Canvas(colors=None))


def test_the_symptom_is_told_with_the_caution_that_neither_number_is_proof() -> None:
    shown = view(diagnoses.cpu_saturated())

    assert shown.symptom == "CPU busy: 99% of the 2 cores owned  ·  accelerator busy: 61%"
    assert shown.symptom_caution.startswith("Neither number is proof")


def test_what_the_diagnosis_says_of_the_symptom_stands_beside_the_caution() -> None:
    shown = view(diagnoses.device_bound())

    assert shown.symptom_sentence.startswith("The device reports 97%")
    assert shown.symptom_caution.startswith("Neither number is proof")


def test_the_host_line_holds_what_is_owned_against_what_is_needed() -> None:
    seen = diagnoses.cpu_saturated()
    host = replace(seen.host, affinity=2, quota=None)

    assert view(replace(seen, host=host)).host == (
        "cores owned 2 (affinity 2, quota none), needed 7.5"
    )


def test_what_is_out_of_the_ordinary_about_the_host_is_said() -> None:
    seen = diagnoses.cpu_saturated()
    host = replace(seen.host, worker_affinity=1, scheduler="SLURM 2", ranks=4)

    shown = view(replace(seen, host=host))

    assert "SLURM 2, shared by 4 ranks" in shown.host
    assert shown.host_remarks == (
        "workers may run on 1 of them, the training process on 12",
        "throttled by the quota for 4.20 s (11% of the time)",
        "shared memory: 96.0 MB needed for the batches in flight, 64.0 MB free",
    )


def test_an_unknown_need_of_cores_is_not_shown_as_a_number() -> None:
    assert view(diagnoses.inconclusive()).host.endswith(", needed: unknown")


def test_all_rows_of_the_ledger_share_the_unit_and_the_precision_of_the_step() -> None:
    ledger = view(diagnoses.cpu_saturated()).ledger

    assert ledger.unit == "ms"
    assert [row.time for row in ledger.lines] == ["80.0", "3.2", "−2.2", "230.0", "0.0", "1.0"]
    assert ledger.total == "312.0"


def test_a_negative_part_is_shown_as_it_is_and_said_not_to_be_drawn() -> None:
    ledger = view(diagnoses.cpu_saturated()).ledger
    contention = next(row for row in ledger.lines if row.part is Part.CONTENTION)

    assert (contention.time, contention.interval, contention.share) == (
        "−2.2",
        "−4.1 to −0.3",
        "−0.7%",
    )
    assert contention.fraction == 0.0
    assert ledger.remarks[0].startswith("Below zero: contention.")


def test_the_lengths_of_the_bar_add_up_to_one() -> None:
    lines = view(diagnoses.cpu_saturated()).ledger.lines

    assert math.fsum(row.fraction for row in lines) == pytest.approx(1.0)


def test_rows_that_do_not_add_up_to_the_step_are_called_an_incomplete_account() -> None:
    complete = _with_ledger(_row(Part.DEVICE, 0.06), _row(Part.SERIAL, 0.04))
    incomplete = _with_ledger(_row(Part.DEVICE, 0.06), _row(Part.SERIAL, 0.03))

    assert view(complete).ledger.remarks == ()
    assert view(incomplete).ledger.remarks == (
        "The rows add up to 90.0 ms, the step took 100 ms: this account is incomplete.",
    )


def test_a_ledger_without_a_step_time_is_taken_as_its_own_whole() -> None:
    ledger = view(_with_ledger(_row(Part.DEVICE, 0.06), real_s=None)).ledger

    assert (ledger.total, ledger.lines[0].share) == ("60.00", "100%")


def test_a_promised_gain_is_shown_with_its_interval() -> None:
    card = view(diagnoses.serial_loader()).fixes[0]

    assert card.is_promised
    assert card.promise == "2.31x (2.24–2.38) forecast"


@pytest.mark.parametrize(
    ("speedup", "promise"),
    [
        (None, "no promise: interval too wide, measure longer"),
        (Spread(1.9, 1.1, 2.4), "no promise: interval too wide (1.10–2.40), measure longer"),
        (Spread(1.9, -math.inf, math.inf), "no promise: interval too wide (no interval)"),
        (Spread(math.nan, 1.0, 2.0), "no promise: interval too wide, measure longer"),
    ],
)
def test_a_gain_without_a_narrow_interval_is_no_promise(
    speedup: Spread | None, promise: str
) -> None:
    card = view(replace(diagnoses.serial_loader(), fixes=(_fix(speedup),))).fixes[0]

    assert not card.is_promised
    assert card.promise.startswith(promise)


def test_a_tried_fix_shows_what_was_measured_beside_the_forecast() -> None:
    tried = _fix(Spread(1.7, 1.66, 1.77), measured=Spread(1.69, 1.67, 1.72))

    card = view(replace(diagnoses.serial_loader(), fixes=(tried,))).fixes[0]

    assert card.tried == "tried here: 1.69x (1.67–1.72)"


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        (Spread(2.95, 0.0, 5.9), "tried here: too few steps to tell"),
        (
            Spread(9.0, 3.8, 14.8),
            "tried here: faster, too few steps to tell how much (at least 3.80x)",
        ),
        (Spread(2.95, -math.inf, math.inf), "tried here: too few steps to tell"),
    ],
)
def test_a_trial_of_too_few_steps_gives_no_number(measured: Spread, told: str) -> None:
    tried = _fix(Spread(1.7, 1.66, 1.77), measured=measured)

    assert view(replace(diagnoses.serial_loader(), fixes=(tried,))).fixes[0].tried == told


def test_a_trial_of_too_few_steps_has_no_number_in_the_table_either() -> None:
    seen = diagnoses.tried()
    assert seen.tryout is not None
    first, *others = seen.tryout.rows
    wide = (Spread(4.38, 3.21, 5.58), Spread(2.95, 0.0, 5.9))
    rows = (*(replace(first, speedup=gain) for gain in wide), *others)

    table = view(replace(seen, tryout=replace(seen.tryout, rows=rows))).trials

    assert table is not None
    assert [row.gain for row in table.lines[1:3]] == ["at least 3.21x", "too few steps"]


def test_a_ladder_to_a_device_that_takes_no_time_has_no_gain_at_its_end() -> None:
    empty = Outlook(ladder=(), ceiling_s=Spread.exact(0.0), together=(), sentence="")
    seen = diagnoses.serial_loader()
    profile = replace(seen.profile, real=Spread.exact(0.1))
    assert view(replace(seen, outlook=empty, profile=profile)).ladder[-1].gain == ""


@pytest.mark.parametrize(
    ("charged", "costs"),
    [
        ({}, "RAM"),
        ({"memory_bytes": 319_267_584}, "RAM (about 319 MB of memory)"),
        (
            {"disk_bytes": 38 * 10**9, "minutes": 22.4},
            "RAM (about 38.0 GB of disk, 22 minutes)",
        ),
        ({"minutes": 0.2}, "RAM (about a minute)"),
        ({"minutes": 712.0}, "RAM (about 12 hours)"),
        ({"minutes": math.nan}, "RAM"),
    ],
)
def test_what_a_fix_costs_is_told_in_bytes_and_minutes_where_they_are_known(
    charged: dict[str, object], costs: str
) -> None:
    shown = view(replace(diagnoses.serial_loader(), fixes=(_fix(None, **charged),)))
    assert shown.fixes[0].costs == costs


def test_leaving_everything_as_it_is_promises_nothing() -> None:
    leave = _fix(None, code=FixCode.NONE)

    assert view(replace(diagnoses.serial_loader(), fixes=(leave,))).fixes[0].promise == ""


@pytest.mark.parametrize(
    ("diagnosis", "text"),
    [
        (diagnoses.device_bound(), "a perfect one would win at most 0.8%"),
        (diagnoses.inconclusive(), "None before the cause is known"),
        (diagnoses.serial_loader(), ""),
    ],
)
def test_it_is_said_why_there_is_no_fix(diagnosis: Diagnosis, text: str) -> None:
    assert text in view(diagnosis).no_fix
    assert bool(view(diagnosis).no_fix) == bool(text)


def test_capacity_falls_back_to_the_bare_number_and_is_left_out_without_one() -> None:
    seen = diagnoses.serial_loader()
    bare = Capacity(cores_per_accelerator=7.46, sentence="")

    assert view(replace(seen, capacity=bare)).capacity == (
        "One accelerator of this workload needs 7.5 cores."
    )
    assert view(diagnoses.inconclusive()).capacity == ""


@pytest.mark.parametrize(
    ("diagnosis", "alert"),
    [
        (diagnoses.interrupted(), "Interrupted by Ctrl-C"),
        (diagnoses.crashed(), "The script failed (exit code 7)"),
        (diagnoses.emulated(), "The accelerator is emulated"),
    ],
)
def test_what_must_be_known_before_any_number_is_an_alert(diagnosis: Diagnosis, alert: str) -> None:
    alerts = view(diagnosis).alerts

    assert len(alerts) == 1
    assert alerts[0].startswith(alert)


def test_an_ordinary_run_has_no_alert() -> None:
    assert view(diagnoses.serial_loader()).alerts == ()


def test_legs_are_told_in_the_order_of_the_schedule_with_other_worker_counts_below() -> None:
    legs = view(diagnoses.cpu_saturated()).legs

    assert [row.leg for row in legs] == ["R", "D", "H", "C", "L", "L", "L", "N"]
    assert legs[5].gets == "the loader alone, 1 worker"
    assert legs[0].period == "312 ms (305–320)"


def test_the_facts_tell_warm_up_cost_of_watching_writes_and_surroundings() -> None:
    facts = dict(view(diagnoses.serial_loader()).facts)

    assert facts["warm-up"] == "12 steps thrown away"
    assert facts["watching"] == "cost 0.4% of a step"
    assert facts["writes"].endswith("would have written runs/last.pt, runs/log.csv")
    assert "torch 2.13.0" in facts["machine"]


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "less than 0.1%"), (0.0004, "less than 0.1%"), (-0.002, "−0.2%")]
)
def test_a_cost_of_watching_too_small_to_tell_is_not_told_as_nothing(
    share: float, text: str
) -> None:
    seen = diagnoses.serial_loader()
    environment = replace(seen.environment, overhead_share=share)

    assert text in dict(view(replace(seen, environment=environment)).facts)["watching"]


def test_the_title_of_a_fix_begins_as_a_heading_does() -> None:
    seen = replace(diagnoses.serial_loader(), fixes=(_fix(None, title="load in workers"),))

    assert view(seen).fixes[0].title == "Load in workers"


def test_a_long_list_of_files_is_cut_and_counted() -> None:
    seen = diagnoses.serial_loader()
    names = tuple(f"f{number}" for number in range(9))
    environment = replace(seen.environment, would_write=names)

    facts = dict(view(replace(seen, environment=environment)).facts)

    assert facts["writes"].endswith("f0, f1, f2, f3 and 5 more")


def test_a_script_name_with_escape_codes_is_shown_harmless() -> None:
    seen = diagnoses.serial_loader()
    script = replace(seen.script, argv=("\x1b[2Jtrain.py",))

    assert view(replace(seen, script=script)).script == "\\x1b[2Jtrain.py"


def test_every_code_has_its_words() -> None:
    assert set(wording.PARTS) == set(Part)
    assert set(wording.ENDS) == set(End)
    assert set(wording.LEGS) == set(LegCode)
    assert all(wording.action(code) for code in FixCode)
    assert {wording.tone(code) for code in VerdictCode} == {"good", "unsure", "finding"}
