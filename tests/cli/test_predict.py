"""`stoker predict`: questions, answers, files, and what it refuses.

Run in this process, because each start would take a quarter of a second; the tests that are about
starting, or need torch, start one of their own.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from stoker.cli.main import main
from stoker.diagnose.diagnosis import diagnose
from stoker.records.codec import to_json
from stoker.records.profile import EpochFacts, LegCode
from stoker.stats import Spread
from tests.golden.diagnoses import cpu_saturated
from tests.unit.diagnose.profiles import about, leg, profile

P4D = ("predict", "resnet50", "--on", "a100", "--host", "p4d", "--batch", "256", "--workers", "8")


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def stoker(*argv: str, cwd: Path | None = None) -> Done:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with (
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(argv)
    return Done(code, *(_written(stream) for stream in (out, err)))


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def answered(*argv: str, cwd: Path | None = None) -> str:
    done = stoker(*argv, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_json(*argv: str) -> dict:  # type: ignore[type-arg]
    return json.loads(answered(*argv, "--json", "-"))  # type: ignore[no-any-return]


@pytest.fixture
def diagnosis_file(tmp_path: Path) -> Path:
    path = tmp_path / "diagnosis.json"
    path.write_text(to_json(cpu_saturated()), encoding="utf-8")
    return path


def test_a_run_is_answered_with_its_limit_its_band_and_what_it_rests_on() -> None:
    told = answered(*P4D, "--stack", "nhwc-amp", "--dataset", "imagenet")
    for expected in (
        "limit: CPU cores",
        "75% band",
        "workers for 95%: never",
        "a step can't be shorter than",
        "decode-jpeg-pillow",
        "what it rests on",
        "unknown: storage: none was named",
        "nhwc-amp",
    ):
        assert expected in told


def test_what_was_chosen_for_the_user_is_said() -> None:
    told = answered("predict", "resnet50", "--host", "p4d")
    assert "chosen for you: data set imagenet; batch 256; 6 workers" in told
    assert "stack nhwc-amp" in told


def test_no_line_is_longer_than_the_terminal_is_wide_but_tables_of_names() -> None:
    told = answered(*P4D)
    assert max(map(len, told.splitlines())) <= 100


def test_without_a_host_the_step_and_what_it_asks_for() -> None:
    told = answered("predict", "resnet50", "--on", "a100")
    assert "to be fed" in told
    assert "memory-bound" in told
    assert "no host was named" in told


def test_the_first_epoch_is_told_apart_when_the_cache_serves_the_later_ones() -> None:
    told = answered(*P4D, "--storage", "gp3")
    assert "the first epoch, nothing cached:" in told
    assert "limit: storage" in told


def test_what_ifs_are_rows_and_commas_join_them() -> None:
    found = as_json(*P4D, "--what-if", "pack", "--what-if", "pack,workers=2")
    assert [row["what"] for row in found["what_if"]] == ["pack", "pack,workers=2"]
    pack, fewer = (row["gain"]["median"] for row in found["what_if"])
    assert pack > 1.2
    assert fewer < pack


@pytest.mark.parametrize(
    "change",
    ["dali", "device-augment", "workers=16", "storage=nvme", "link=gen5", "host=p5.48xlarge"],
)
def test_every_what_if_has_an_answer(change: str) -> None:
    (row,) = as_json(*P4D, "--what-if", change)["what_if"]
    assert row["gain"]["low"] <= row["gain"]["median"] <= row["gain"]["high"]


def test_the_json_holds_the_forecast_the_scenario_and_every_basis() -> None:
    found = as_json(*P4D)
    assert found["schema"] == "stoker.forecast/1"
    assert 0 < found["forecast"]["au"]["median"] < 1
    assert found["workers"] is None
    assert {"what", "value", "kind", "source"} == set(found["bases"][0])
    assert found["scenario"]["machine"]["accelerators"] == 8


def test_a_sweep_of_batch_sizes_solves_the_crossover_and_the_plateau(tmp_path: Path) -> None:
    svg = tmp_path / "batch.svg"
    told = answered(*P4D, "--sweep", "batch=1..512", "--svg", str(svg))
    assert "crossover B* = " in told
    assert "approach an AU of" in told
    assert ET.parse(svg).getroot().tag.endswith("svg")


def test_a_sweep_that_never_turns_says_never() -> None:
    told = answered(*P4D[:-4], "--cpu", "1us", "--workers", "8", "--sweep", "batch=1..512")
    assert "crossover B*: never" in told
    assert "no crossover between" in told


@pytest.mark.parametrize(
    "axis", ["workers=1..64", "cores=8..96", "cpu-ms=0.1..10", "storage-mb=10..1000", "cached=0..1"]
)
def test_any_axis_can_be_swept(axis: str) -> None:
    found = as_json(*P4D, "--storage", "gp3", "--sweep", axis)
    assert len(found["points"]) >= 2
    assert found["axis"]["name"] == axis.partition("=")[0]


def test_a_sweep_ends_where_the_batch_no_longer_fits() -> None:
    found = as_json(*P4D, "--sweep", "batch=1..100000")
    assert found["points"][-1]["value"] == found["largest_batch"]


def test_measured_costs_are_taken_to_another_machine(diagnosis_file: Path) -> None:
    here = as_json("predict", "--from", str(diagnosis_file))
    there = as_json("predict", "--from", str(diagnosis_file), "--host", "p4d")
    assert there["scenario"]["machine"]["cores"] == 48
    assert here["scenario"]["workload"]["stages"] == there["scenario"]["workload"]["stages"]
    assert there["forecast"]["step_s"]["median"] <= here["forecast"]["step_s"]["median"]
    told = answered("predict", "--from", str(diagnosis_file), "--what-if", "workers=8")
    assert "as measured on" in told


def test_what_stands_in_the_way_of_a_measured_run_is_what_was_measured(tmp_path: Path) -> None:
    given = profile(real=0.3, device=0.1, loader=0.1, cpu=0.1, wait=0.1, workers=0)
    edge = EpochFacts(batches=25, boundaries=1, edge_s=Spread.exact(2.5), start_s=0.1)
    path = tmp_path / "diagnosis.json"
    path.write_text(to_json(diagnose(msgspec.structs.replace(given, epochs=edge))))
    for told in (
        answered("predict", "--from", str(path)),
        answered("plan", "--from", str(path), "--au", "0.9"),
    ):
        assert "for epoch boundaries" in told
        assert "persistent-workers, or longer epochs" in told
        assert "--overlap-transfer" not in told
    # 0.1 s of loading and 0.1 s of the step leave a third of it to the boundaries.
    told = " ".join(answered("predict", "--from", str(path)).split())
    assert "epoch boundaries, on top 100 ms" in told


def starts_of_workers(tmp_path: Path) -> Path:
    """A diagnosis of a run without workers, beside which two were seen to start for half a second
    at each of its short epochs.
    """
    given = profile(real=0.2, device=0.1, loader=0.1, cpu=0.1, workers=0)
    two = leg(LegCode.LOADER, 0.05, cpu_s=about(0.1), main_cpu_s=about(0.0005), start_s=0.5)
    epochs = EpochFacts(batches=25, boundaries=0, edge_s=None, start_s=0.0)
    path = tmp_path / "starts.json"
    path.write_text(
        to_json(diagnose(msgspec.structs.replace(given, scaling=(two,), epochs=epochs)))
    )
    return path


def test_what_workers_would_bring_is_named_where_none_of_them_reach_the_target(
    tmp_path: Path,
) -> None:
    told = answered("predict", "--from", str(starts_of_workers(tmp_path)))
    assert "workers for 95%: never; at most it is 82" in told
    assert "for epoch boundaries (now 0)" in told
    assert "beyond that: persistent-workers, or longer epochs" in told
    # A count that is given is no part of what other counts are tried on.
    one, two = (
        as_json("predict", "--from", str(starts_of_workers(tmp_path)), "--workers", count)[
            "most_use"
        ]
        for count in ("1", "4")
    )
    assert one == two


def test_a_diagnosis_that_does_not_add_up_is_doubted_before_the_answer(tmp_path: Path) -> None:
    given = profile(real=0.15, device=0.13, loader=0.7, cpu=0.16, wait=0.02, workers=0)
    vague = msgspec.structs.replace(given, real=Spread(0.15, 0.07, 0.24, 7))
    path = tmp_path / "diagnosis.json"
    path.write_text(to_json(diagnose(vague)))
    for told in (
        answered("predict", "--from", str(path)),
        answered("plan", "--from", str(path), "--au", "0.5"),
    ):
        plain = " ".join(told.split())
        assert "doubtful: the diagnosis was inconclusive: " in plain
        assert "misses what leg R measured: 150 ms (70.0 ms to 240 ms)" in plain
        assert plain.index("doubtful") < plain.index("limit")


def test_a_diagnosis_that_adds_up_is_not_doubted(diagnosis_file: Path) -> None:
    assert "doubtful" not in answered("predict", "--from", str(diagnosis_file))


def test_a_step_on_another_accelerator_needs_a_model_or_its_time(diagnosis_file: Path) -> None:
    refused = stoker("predict", "--from", str(diagnosis_file), "--on", "a100")
    assert refused.returncode == 2
    assert "the diagnosis does not say which model ran" in refused.stderr
    given = as_json("predict", "--from", str(diagnosis_file), "--step", "5ms")
    assert given["scenario"]["workload"]["device_s"]["median"] == pytest.approx(0.005)
    modelled = as_json("predict", "resnet50", "--from", str(diagnosis_file), "--on", "a100")
    assert modelled["scenario"]["machine"]["link_bytes_per_s"] == pytest.approx(25e9)


ROWS = """row_id,model,accel_id,stack,layout,precision,batch_per_accel,throughput_per_accel,unit
a,resnet50,A100-SXM4-80,mlperf,NHWC fused,fp16 mixed,408,3393.8,img/s
b,resnet50,A100-SXM4-80,mlperf,NHWC fused,fp16 mixed,408,,img/s
c,no-such-net,A100-SXM4-80,mlperf,NHWC fused,fp16 mixed,408,100,img/s
"""


def test_rows_are_forecast_whether_or_not_their_rate_is_known(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text(ROWS)
    found = as_json("predict", "--validate", str(table))
    known, unknown, unresolved = found["rows"]
    assert [row["row_id"] for row in found["rows"]] == ["a", "b", "c"]
    assert known["samples_per_s"] == unknown["samples_per_s"]
    assert set(known["samples_per_s"]) == {"median", "low", "high"}
    assert unresolved["samples_per_s"] is None
    assert "no-such-net" in unresolved["reason"]
    assert 1.0 <= found["factor"] < 1.5
    told = answered("predict", "--validate", str(table))
    assert "error factor (geometric mean)" in told
    assert "not forecast: 1 rows" in told


def test_the_throughput_of_a_row_is_no_input_of_its_forecast(tmp_path: Path) -> None:
    honest, wrong = tmp_path / "honest.csv", tmp_path / "wrong.csv"
    honest.write_text(ROWS)
    wrong.write_text(ROWS.replace("3393.8", "1.0"))
    rows = [as_json("predict", "--validate", str(path))["rows"] for path in (honest, wrong)]
    assert rows[0] == rows[1]


MODULE = """from torch import nn

def small():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(64, 10),
    )
"""


def test_a_torch_module_is_told_layer_by_layer(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(MODULE)
    # In a process of its own: importing torch leaves its mark on the environment.
    argv = ("predict", "nets:small", "--input", "3x64x64", "--on", "a100")
    done = subprocess.run(
        [sys.executable, "-m", "stoker", *argv],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    assert "layer by layer" in done.stdout
    assert "Conv2d" in done.stdout


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("predict", "resnet5", "--on", "a100"), 1, "nearest: resnet50"),
        (("predict", "resnet50", "--on", "a1000"), 1, "nearest: a100"),
        (("predict", "resnet50", "--host", "p44"), 1, "no host 'p44'"),
        (("predict", "resnet50"), 2, "no accelerator was named"),
        (("predict",), 2, "no model was named"),
        ((*P4D, "--cpu", "850 img/s"), 1, "CPU time of a sample has the wrong dimension"),
        ((*P4D, "--stored", "2 GB/s"), 1, "stored bytes of a sample has the wrong dimension"),
        ((*P4D, "--step=-3ms"), 1, "time of a step is negative"),
        ((*P4D, "--step", "0 s"), 1, "give a positive, finite number for the time of a step"),
        ((*P4D, "--step", "nan s"), 1, "time of a step is not a number"),
        ((*P4D, "--step", "inf s"), 1, "time of a step is infinite"),
        ((*P4D, "--cpu", "-3ms"), 1, "CPU time of a sample is negative: -3ms"),
        ((*P4D, "--stored", "-5KB"), 1, "stored bytes of a sample is negative: -5KB"),
        ((*P4D, "--cores", "-4"), 1, "there can't be -4 cores"),
        ((*P4D, "--cores", "0"), 1, "there can't be 0 cores"),
        ((*P4D, "--cores", "nan"), 1, "there can't be nan cores"),
        (("pack", "a", "b", "--shard", "-1/2"), 2, "'-1/2' is not I/N"),
        ((*P4D, "--cached", "2"), 1, "the cached share is 2"),
        (("predict", "resnet50", "--host", "p4d", "--batch", "0"), 1, "batch size is 0"),
        (("predict", "resnet50", "--host", "p4d", "--batch", "9999"), 1, "of memory, a100-sxm4-40"),
        ((*P4D, "--what-if", "magic"), 2, "can't change 'magic'"),
        ((*P4D, "--what-if", "workers=many"), 2, "workers=many is no whole number"),
        ((*P4D, "--sweep", "batch"), 2, "no axis with a range"),
        ((*P4D, "--sweep", "colour=1..2"), 1, "no axis 'colour'"),
        ((*P4D, "--sweep", "batch=9..3"), 1, "is no range"),
        (("predict", "resnet50", "--on", "a100", "--sweep", "batch=1..9"), 2, "needs a host"),
        ((*P4D, "--svg", "x.svg"), 2, "none was asked for"),
        (("predict", "--from", "nowhere.json"), 1, "nowhere.json cannot be read"),
        (("predict", "--validate", "nowhere.csv"), 1, "nowhere.csv cannot be read"),
        (("predict", "m:f", "--on", "a100"), 2, "the shape of an input"),
        ((*P4D, "--au", "1.5"), 2, "'1.5' is no utilisation"),
        ((*P4D, "--au", "95%%"), 2, "'95%%' is no utilisation"),
        (("predict", "gpt2", "--on", "a100", "--dataset", "imagenet"), 2, "is a token"),
    ],
)
def test_a_bad_question_is_refused_in_three_parts(
    argv: tuple[str, ...], code: int, message: str, tmp_path: Path
) -> None:
    done = stoker(*argv, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "looked at:" in done.stderr
    assert "next:" in done.stderr


@pytest.mark.parametrize(
    "option",
    ["--batch=0", "--workers=-1", "--accelerators=0", "--cores=nan", "--cores=0", "--cached=2"],
)
def test_nonsense_about_a_measured_run_is_refused(option: str, diagnosis_file: Path) -> None:
    done = stoker("predict", "--from", str(diagnosis_file), option)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{option.strip('-').partition('=')[0]} is " in done.stderr


def test_a_utilisation_may_be_given_in_percent() -> None:
    assert answered(*P4D, "--au", "90%") == answered(*P4D, "--au", "0.9")


def test_a_table_that_is_a_folder_is_refused_without_a_number_of_the_system(tmp_path: Path) -> None:
    done = stoker("predict", "--validate", str(tmp_path))
    assert done.returncode == 1
    assert "Errno" not in done.stderr


def test_a_table_without_its_columns_names_them(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("name,rate\nx,1\n")
    done = stoker("predict", "--validate", str(table))
    assert done.returncode == 1
    assert "no column model or model_id and no column accel_id or accelerator" in done.stderr


def test_a_language_model_shares_its_state_among_the_accelerators_of_its_host() -> None:
    alone = stoker("predict", "llama2_7b", "--on", "h100")
    assert alone.returncode == 1
    assert "--accelerators 8" in alone.stderr
    assert "to be fed" in answered("predict", "llama2_7b", "--on", "h100", "--accelerators", "8")


def test_a_forecast_from_the_zoo_imports_neither_torch_nor_pint() -> None:
    code = (
        "import sys; from stoker.cli.main import main; "
        f"assert main({list(P4D)!r}) == 0; "
        "assert not {'torch', 'pint', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_forecast_takes_no_longer_than_a_few_starts_of_numpy() -> None:
    """Half a second where it was written, in which importing numpy takes 0.13 s."""

    def seconds(*argv: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, *argv], check=True, capture_output=True)
        return time.perf_counter() - started

    numpy = min(seconds("-c", "import numpy") for _ in range(3))
    forecast = min(seconds("-m", "stoker", *P4D) for _ in range(3))
    assert forecast < 5 * numpy


def test_changes_are_made_along_the_whole_sweep() -> None:
    plain, packed = (
        as_json(*P4D, *more, "--sweep", "workers=1..8")["points"]
        for more in ((), ("--what-if", "pack", "--what-if", "device-augment"))
    )
    for before, after in zip(plain, packed, strict=True):
        assert after["forecast"]["produce_s"]["median"] < before["forecast"]["produce_s"]["median"]


def test_variance_is_simulated_for_several_depths_of_the_queue() -> None:
    found = as_json(*P4D, "--variation", "1.5")
    assert [one["prefetch_factor"] for one in found["stalls"]] == [2, 4, 8, 2]
    assert all(0 < one["au"] <= 1 for one in found["stalls"])
    assert "out of order" in answered(*P4D, "--variation", "1.5")


def test_a_bound_that_is_unknown_is_told_with_the_limit() -> None:
    told = answered("predict", "dlrm_v1", "--host", "p4d")
    assert "limit among what is known: " in told
    assert "is unknown and left out: --cpu" in told
    assert "limit: " in answered("predict", "dlrm_v1", "--host", "p4d", "--cpu", "1ms")
