"""Records survive JSON; a file that can't be read is refused by name, key and allowed values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from stoker.errors import InputError
from stoker.records import diagnosis as diagnoses
from stoker.records import profile as profiles
from stoker.records.codec import from_json, to_json
from stoker.records.diagnosis import Diagnosis
from stoker.records.profile import Profile
from stoker.stats import Spread
from tests.golden.diagnoses import ALL, cpu_saturated, inconclusive, serial_loader
from tests.unit.records.strategies import records


def _read(text: str | bytes) -> Diagnosis:
    return from_json(text, Diagnosis, source="d.json", schema=diagnoses.SCHEMA)


def _refusal(text: str | bytes) -> InputError:
    with pytest.raises(InputError) as refusal:
        _read(text)
    return refusal.value


def _edited(edit: Callable[[dict[str, Any]], None]) -> str:
    data = json.loads(to_json(serial_loader()))
    edit(data)
    return json.dumps(data)


@pytest.mark.parametrize("name", ALL)
def test_a_diagnosis_comes_back_as_it_was_written(name: str) -> None:
    written = ALL[name]()

    assert _read(to_json(written)) == written


# Whole diagnoses are large: a few dozen random ones are a second, and each has some 500 values.
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(records(Diagnosis))
def test_any_lawful_diagnosis_comes_back_as_it_was_written(written: Diagnosis) -> None:
    # By repr, because NaN differs from itself.
    assert repr(_read(to_json(written))) == repr(written)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(records(Profile))
def test_any_lawful_profile_comes_back_as_it_was_written(written: Profile) -> None:
    read = from_json(to_json(written), Profile, source="p.json", schema=profiles.SCHEMA)

    assert repr(read) == repr(written)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(records(Diagnosis, lawful=False))
def test_what_was_written_is_json_and_is_read_again_without_a_change(written: Diagnosis) -> None:
    text = to_json(written)

    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert to_json(_read(text)) == text


def test_open_ends_of_intervals_come_back_open_also_in_the_ledger() -> None:
    row = _read(to_json(inconclusive())).ledger[0]

    assert (row.low, row.high) == (-math.inf, math.inf)


def test_an_optional_number_that_is_not_finite_comes_back_as_unknown() -> None:
    written = serial_loader()
    endless = replace(written, host=replace(written.host, cores_needed=math.inf))

    assert _read(to_json(endless)).host.cores_needed is None


def test_a_spread_without_any_number_stays_without_one() -> None:
    verdict = replace(serial_loader().verdict, lost_share=Spread(math.nan, math.nan, math.nan))

    lost = _read(to_json(replace(serial_loader(), verdict=verdict))).verdict.lost_share

    assert math.isnan(lost.median)
    assert not lost.is_promise


def test_a_file_name_that_is_not_utf8_is_spelled_out() -> None:
    script = replace(serial_loader().script, argv=("caf\udce9.py",))

    text = to_json(replace(serial_loader(), script=script))

    assert _read(text).script.argv == ("caf\\udce9.py",)


@pytest.mark.parametrize(
    "text",
    ["", "{", "verdict: serial-loader", "[1, 2", '{"schema": NaN}', b"\xff\xfe\x00", "[" * 100_000],
    ids=["empty", "cut", "yaml", "cut list", "nan", "binary", "deep"],
)
def test_text_that_is_not_json_is_refused_with_the_name_of_the_file(text: str | bytes) -> None:
    refusal = _refusal(text)

    assert refusal.happened.startswith("d.json is not JSON")
    assert "stoker doctor --json" in refusal.run_next


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused(cut: float) -> None:
    text = to_json(cpu_saturated())

    assert "is not JSON" in _refusal(text[: int(len(text) * cut)]).happened


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("[]", "a list"),
        ("3", "a number"),
        ("null", "null"),
        ("{}", "an empty object"),
        ('{"b": 1, "a": 2}', "an object with the keys a, b"),
    ],
)
def test_json_of_another_shape_is_refused_and_its_shape_told(text: str, shape: str) -> None:
    refusal = _refusal(text)

    assert "key 'schema' is None, allowed is 'stoker.diagnosis/1'" in refusal.happened
    assert shape in refusal.looked_at


def test_another_schema_is_refused_with_what_was_found_and_what_is_allowed() -> None:
    text = to_json(serial_loader().profile)

    assert _refusal(text).happened == (
        "d.json: key 'schema' is 'stoker.profile/1', allowed is 'stoker.diagnosis/1'"
    )


def test_an_unknown_key_is_refused_with_its_path_and_the_nearest_known_one() -> None:
    def edit(data: dict[str, Any]) -> None:
        data["ledger"][2]["second"] = data["ledger"][2].pop("seconds")

    assert _refusal(_edited(edit)).happened == (
        "d.json: key 'ledger[2].second' is unknown, the nearest known key is 'seconds'"
    )


def test_an_unknown_code_is_refused_with_all_that_are_allowed() -> None:
    refusal = _refusal(_edited(lambda data: data["verdict"].update(code="slow")))

    assert "key 'verdict.code' is 'slow', allowed are serial-loader, " in refusal.happened
    assert refusal.happened.endswith("inconclusive")


def test_a_missing_key_is_named() -> None:
    refusal = _refusal(_edited(lambda data: data["verdict"].pop("lost_share")))

    assert "lost_share" in refusal.happened
    assert "key 'verdict'" in refusal.happened


def test_a_value_of_the_wrong_type_is_named_with_its_path() -> None:
    refusal = _refusal(_edited(lambda data: data["step"].update(real_s="fast")))

    assert refusal.happened.startswith("d.json: key 'step.real_s': Expected `float | null`")


def test_a_refusal_says_what_was_looked_at_and_what_to_do_next() -> None:
    refusal = _refusal(_edited(lambda data: data.update(extra=1)))

    assert refusal.looked_at == "d.json as stoker.diagnosis/1"
    assert "another version of stoker" in refusal.run_next
