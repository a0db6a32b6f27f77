"""The capacity table: cores now, after each rung, on faster accelerators; old files still load."""

from __future__ import annotations

import json

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.codec import from_json, to_json
from stoker.records.diagnosis import SCHEMA, Diagnosis, FixCode
from stoker.records.profile import Profile
from stoker.report.view import view
from stoker.zoo.load import PACKAGED, Zoo
from tests.unit.diagnose.profiles import about, profile
from tests.unit.diagnose.test_ladder import starved

ZOO = Zoo((PACKAGED,))


def on(device: str, given: Profile) -> Diagnosis:
    environment = msgspec.structs.replace(given.environment, device=device)
    return diagnose(msgspec.structs.replace(given, environment=environment), ZOO)


def test_each_rung_and_each_faster_accelerator_of_the_zoo_has_its_cores() -> None:
    diagnosis = on("cuda:0 NVIDIA A100-SXM4-80GB", starved(random_share=0.5))
    this, *faster = diagnosis.capacity.table
    assert [one.accelerator for one in faster] == ["h100-sxm5-80", "b200-sxm-180"]
    assert [row.after for row in this.rows] == [None, FixCode.PACK, FixCode.DEVICE_AUGMENT]
    assert this.rows[0].cores.median == pytest.approx(0.49 / 0.08, rel=0.02)
    assert this.irreducible is not None
    assert this.irreducible.median == pytest.approx(this.rows[0].cores.median / 2)
    for one in faster:
        for mine, theirs in zip(this.rows, one.rows, strict=True):
            times = theirs.cores.median / mine.cores.median
            assert times == pytest.approx(one.times.median)
        assert one.step_s.median == pytest.approx(0.08 / one.times.median)
        assert "a100-sxm4-80" in one.source
        assert one.hosts is not None and one.hosts.count > 3
        assert 4 <= one.hosts.low < one.hosts.median < one.hosts.high <= 64
    # The ladder tells the same cores for the present one.
    assert diagnosis.outlook is not None
    ladder = [rung.cores_per_accelerator for rung in diagnosis.outlook.ladder]
    assert [row.cores.median for row in this.rows[1:]] == pytest.approx(ladder)


@pytest.mark.parametrize("device", ["cpu", "emulated", "cuda:0", "cuda:0 Voodoo 3"])
def test_where_the_zoo_does_not_know_the_device_paces_are_supposed_and_said_to_be(
    device: str,
) -> None:
    diagnosis = on(device, starved(random_share=0.5))
    assert [one.source for one in diagnosis.capacity.table[1:]] == ["supposed", "supposed"]
    shown = view(diagnosis).capacity_table
    (remark,) = shown.remarks
    assert "supposed" in remark
    assert "the zoo's hosts have" not in {row[0] for row in shown.rows}


def test_workers_that_slow_each_other_want_more_cores_and_the_report_says_so_everywhere() -> None:
    # Four workers on two cores need 0.25 s a batch for 0.25 s of computing: half is lost.
    given = starved(random_share=0.5)
    slowed = msgspec.structs.replace(
        given.legs["L"], cpu_s=about(0.25), runqueue_s=about(0.75), workers=4
    )
    loader = msgspec.structs.replace(given.loader, workers=4)
    legs = given.legs | {"L": slowed}
    diagnosis = diagnose(msgspec.structs.replace(given, legs=legs, loader=loader))
    now = diagnosis.capacity.table[0].rows[0].cores.median
    alone = diagnosis.capacity.cores_per_accelerator
    assert alone is not None and now == pytest.approx(2 * alone, rel=0.05)
    assert "where workers keep 50% of their pace" in diagnosis.capacity.sentence
    assert view(diagnosis).ladder[0].cores == f"{now:.1f} cores"


def test_a_healthy_run_is_told_what_a_faster_accelerator_would_ask_for() -> None:
    healthy = profile(real=0.102, device=0.1, contended=0.1, drain=0.1, loader=0.03, cpu=0.05)
    diagnosis = on("cuda:0 NVIDIA H100 80GB HBM3", healthy)
    assert diagnosis.outlook is None
    assert diagnosis.capacity.table[1].accelerator == "b200-sxm-180"


def test_data_that_is_generated_is_said_to_stay() -> None:
    given = starved(random_share=0.9987, random_op="Made.__getitem__")
    told = diagnose(given).capacity.irreducible
    assert "what is generated anew each time can't be stored, and then all 6.1 cores stay" in told


def test_a_table_survives_the_file_and_a_file_without_one_still_loads() -> None:
    diagnosis = on("cuda:0 NVIDIA A100-SXM4-80GB", starved(random_share=0.5))
    text = to_json(diagnosis)
    assert from_json(text, Diagnosis, source="test", schema=SCHEMA).capacity == diagnosis.capacity
    old = json.loads(text)
    del old["capacity"]["table"], old["capacity"]["irreducible"]
    for row in old["dont"]:
        del row["step_s"], row["au"]
    again = from_json(json.dumps(old).encode(), Diagnosis, source="test", schema=SCHEMA)
    assert again.capacity.table == ()
    shown = view(again)
    assert shown.capacity_table.rows == ()
    assert {row.then for row in shown.donts} == {""}
