"""Samples that are not like the first: left out or stored as they are, never bent into another."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stoker.errors import InputError
from stoker.pack import open_pack, write_arrays
from stoker.pack.build import How
from stoker.pack.worker import _attempted
from tests.unit.pack.conftest import job_of, packed, photo

COUNT = 40


class OddError(Exception):
    """Of a library, as cv2.error: derived from Exception alone."""


class Samples:
    """(a picture of 8 × 8, a number), and something else at some places."""

    def __init__(self, *, first: Any = 1, **odd: Any) -> None:
        self.first = first
        self.odd = {int(place.removeprefix("at")): value for place, value in odd.items()}

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        value = self.odd.get(index, self.first)
        if isinstance(value, Exception):
            raise value
        return photo(index, (8, 8)), value


def reasons(folder: Path) -> dict[int, str]:
    return {bad.index: bad.reason for bad in open_pack(folder).manifest.quarantine}


def test_whatever_a_sample_raises_is_kept_as_the_reason(in_hand: Callable[..., Path]) -> None:
    broken = Samples(at9=OddError("its own"), at20=struct.error("short"), at21=MemoryError())
    assert reasons(in_hand(broken)) == {
        9: "OddError: its own",
        20: "error: short",
        21: "MemoryError:",
    }


def test_numbers_that_a_field_does_not_hold_are_left_out(in_hand: Callable[..., Path]) -> None:
    given = {"at9": 2**63, "at10": None, "at11": 0.5, "at12": "7", "at13": float("nan")}
    folder = in_hand(Samples(**given, at14=2.0, at15=-(2**63)))
    assert reasons(folder) == {
        9: "ValueError: 9223372036854775808 is no signed number of 64 bits",
        10: "ValueError: NoneType where the first samples have a whole number",
        11: "ValueError: 0.5 where the first samples have a whole number",
        12: "ValueError: str where the first samples have a whole number",
        13: "ValueError: cannot convert float NaN to integer",
    }
    pack = open_pack(folder)
    assert [int(pack.value("label", n)) for n in (8, 9, 14, 15)] == [1, -1, 2, -(2**63)]


def test_arrays_of_another_type_or_shape_are_left_out(in_hand: Callable[..., Path]) -> None:
    first = np.zeros(3, np.float32)
    given = {"at9": np.zeros(3), "at10": np.zeros(4, np.float32), "at35": 5}
    assert reasons(in_hand(Samples(first=first, **given))) == {
        9: "ValueError: an array of float64, the first is of float32",
        10: "ValueError: an array of shape (4,), the first of (3,)",
        35: "ValueError: an array of int: only arrays of numbers can be stored",
    }


def test_fractions_behind_whole_numbers_are_kept(in_hand: Callable[..., Path]) -> None:
    pack = open_pack(in_hand(Samples(at5=0.5, at30=0.25)))
    assert [float(pack.value("label", n)) for n in (0, 5, 30)] == [1.0, 0.5, 0.25]


@pytest.mark.parametrize(("first", "odd", "what"), [("a", 5, "text"), (b"a", 5, "bytes")])
def test_another_kind_is_no_text_and_no_bytes(
    in_hand: Callable[..., Path], first: Any, odd: Any, what: str
) -> None:
    found = reasons(in_hand(Samples(first=first, at9=odd)))
    assert found == {9: f"ValueError: int where the first samples have {what}"}


@pytest.mark.parametrize("broken", [OddError("no"), RuntimeError("no")])
@pytest.mark.parametrize("first", [1, [1.5], "ragged"])
def test_a_broken_sample_among_the_first_stops_nothing(
    in_hand: Callable[..., Path], broken: Exception, first: Any
) -> None:
    class Arrays(Samples):
        def __getitem__(self, index: int) -> Any:
            image, value = super().__getitem__(index)
            return image, np.arange(index % 3) if first == "ragged" else np.array(value)

    assert reasons(in_hand(Arrays(first=first, at0=broken))).keys() == {0}
    assert reasons(in_hand(Arrays(first=first, at0=broken), size=6, fit="bucket")).keys() == {0}


@pytest.mark.parametrize("suffix", ["npy", "png"])
@pytest.mark.parametrize("data", [None, b"", b"\x93NUMPY\x01\x00 cut"])
def test_a_broken_file_in_the_first_row_stops_nothing(
    tmp_path: Path, suffix: str, data: bytes | None
) -> None:
    rows = ["image,data"]
    for number in range(5):
        photo(number, (8, 8)).save(tmp_path / f"{number}.png")
        np.save(tmp_path / f"{number}.npy", np.arange(3))
        rows.append(f"{number}.png,{number}.npy")
    (tmp_path / "t.csv").write_text("\n".join(rows))
    path = tmp_path / f"0.{suffix}"
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    done = packed(tmp_path / "t.csv", tmp_path / "p", size=None)
    assert [bad.index for bad in done.quarantine] == [0]
    assert done.pack is not None
    assert done.pack.value("data", 4).tolist() == [0, 1, 2]


def test_when_none_of_the_first_can_be_read_what_they_raise_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("data\n0.npy\n1.npy\n")
    np.save(tmp_path / "1.npy", np.array(["text"]))
    with pytest.raises(InputError, match=r"none of the first samples can be read: FileNotFound"):
        job_of(tmp_path / "t.csv")
    np.save(tmp_path / "0.npy", np.array(["text"]))
    with pytest.raises(InputError, match="an array of <U4: only arrays of numbers can be stored"):
        job_of(tmp_path / "t.csv")


def swapped(index: int) -> Any:
    """An array of the other byte order, of another length each time."""
    return np.arange(index % 5 + 1, dtype=np.dtype(np.float32).newbyteorder())


class Waves(Samples):
    def __getitem__(self, index: int) -> Any:
        return swapped(index)


def test_arrays_of_the_other_byte_order_are_the_same_numbers(
    in_hand: Callable[..., Path], tmp_path: Path
) -> None:
    written = write_arrays(tmp_path / "w", {"data": [swapped(index) for index in range(COUNT)]})
    for pack in (open_pack(in_hand(Waves())), written):
        for index in range(COUNT):
            np.testing.assert_array_equal(pack.value("data", index), swapped(index))


@pytest.mark.parametrize("array", [np.array(["a", "bc"]), np.array([b"a"]), np.array([{}, None])])
def test_arrays_of_anything_but_numbers_are_refused(
    in_hand: Callable[..., Path], tmp_path: Path, array: Any
) -> None:
    with pytest.raises(InputError, match=r"part 'label' .* is an array of .*, which cannot be"):
        in_hand(Samples(first=array))
    for column in (array, [array]):
        with pytest.raises(InputError, match=r"column 'x' is an array of .*, which cannot be"):
            write_arrays(tmp_path / "w", {"x": column})


MODULE = """
import os
from PIL import Image

class Own:
    def __init__(self):
        if {condition}:
            raise {error}
    def __len__(self):
        return 20
    def __getitem__(self, index):
        return Image.new("RGB", (8, 8)), index
"""


@pytest.mark.parametrize("error", ["ValueError('why')", "OSError('why')", "KeyError('why')"])
def test_a_dataset_that_cannot_be_made_is_told_in_three_parts(tmp_path: Path, error: str) -> None:
    path = tmp_path / "odd_own.py"
    path.write_text(MODULE.format(condition="True", error=error))
    with pytest.raises(InputError, match=r"odd_own.py:Own\(\) cannot be loaded: .*why") as told:
        job_of(f"{path}:Own")
    assert told.value.looked_at
    assert told.value.run_next


def test_what_fails_in_a_worker_alone_is_told_as_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "odd_elsewhere.py"
    elsewhere = f"os.getpid() != {os.getpid()}"
    path.write_text(MODULE.format(condition=elsewhere, error="ValueError('why')"))
    with pytest.raises(InputError, match=r"Own\(\) cannot be loaded: ValueError: why"):
        packed(f"{path}:Own", tmp_path / "p", How(workers=1), size=None)


def test_what_nobody_thought_of_names_its_place() -> None:
    def fails() -> None:
        raise ZeroDivisionError("why")

    found = _attempted(fails)
    assert found is not None
    assert found.happened == "a worker process failed: ZeroDivisionError: why"
    assert found.looked_at.endswith("in fails")
    assert not found.is_input
