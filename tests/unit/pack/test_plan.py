"""The plan: sizes that come true, the limit named, none recommended when none would help."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from stoker.errors import InputError, PackError
from stoker.pack import speed
from stoker.pack.candidates import candidates_for, own_size, too_large
from stoker.pack.manifest import Transform
from stoker.pack.plan import (
    Need,
    PackCandidate,
    PackPlan,
    _choice,
    _first,
    _with_step,
    plan,
    subset,
)
from stoker.pack.sources.find import list_source
from stoker.pack.sources.reading import SampleReader
from stoker.records.diagnosis import VerdictCode
from stoker.report.pack import render_plan
from stoker.stats import Spread
from tests.unit.pack.conftest import packed, photo


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "DISK_BYTES", 4 * 2**20)
    monkeypatch.setattr(speed, "_STRETCH_S", 0.01)


ASKED = Transform(tier="raw", size=64, fit="pad", quality=30)


def planned(photos: Path, folder: Path, memory_bytes: int = 10**9) -> PackPlan:
    listing = list_source(str(photos))
    ways = candidates_for(ASKED, None)
    return plan(listing, ways, folder, workers=1, memory_bytes=memory_bytes)


def test_where_nothing_can_be_written_it_says_where(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Path) -> speed.Disk:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(speed, "disk", full)
    with pytest.raises(InputError, match=r"can be tried in .*: No space left on device"):
        planned(photos, tmp_path / "p")


@pytest.mark.usefixtures("small_disk")
def test_the_forecast_size_is_what_the_pack_then_has(photos: Path, tmp_path: Path) -> None:
    found = planned(photos, tmp_path / "p")
    assert [(one.tier, one.size) for one in found.candidates] == [
        *(("raw", 32), ("raw", 64), ("crop-jpeg", 32), ("crop-jpeg", 64)),
        *(("jpeg", 32), ("jpeg", 64), ("keep", None)),
    ]
    for one in found.candidates:
        given = {} if one.size is None else {"fit": "pad", "quality": 30}
        done = packed(
            photos,
            tmp_path / f"{one.tier}{one.size}",
            tier=one.tier,
            size=one.size,
            shard_bytes=10**8,
            **given,
        )
        assert done.pack is not None
        size = sum(file.size for shard in done.pack.shards for file in shard.files)
        assert one.bytes == pytest.approx(size, rel=0.05)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.usefixtures("small_disk")
def test_a_pack_is_cached_where_the_memory_that_may_be_used_holds_it(
    photos: Path, tmp_path: Path
) -> None:
    found = planned(photos, tmp_path / "p", memory_bytes=100_000)
    by_name = {(one.tier, one.size): one.is_cached for one in found.candidates}
    assert by_name["crop-jpeg", 32]
    assert not by_name["raw", 64]
    assert found.cache_bytes == 100_000


@pytest.mark.usefixtures("small_disk")
@pytest.mark.parametrize("fit", ["bucket", "shorter"])
@pytest.mark.parametrize("tier", ["raw", "jpeg", "crop-jpeg", "keep"])
def test_a_pack_of_any_tier_is_read_for_its_rate(
    photos: Path, tmp_path: Path, tier: str, fit: str
) -> None:
    photo(3, (40, 30)).convert("CMYK").save(photos / "a" / "cmyk.jpg")
    given = {"size": None} if tier == "keep" else {"fit": fit}
    pack = packed(photos, tmp_path / "p", tier=tier, **given).pack
    assert pack is not None
    assert speed.reads(pack, 2, fit=Transform(tier="raw", size=24, fit=fit)).median > 0


def test_files_and_packs_that_keep_them_are_counted_by_the_same_work(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoded alike, brought to the size that was asked for, put where a batch lies."""
    fit = Transform(tier="raw", size=20, fit="exact")
    decoded, put = [], []

    def noted(data: bytes, buffer: bytearray) -> object:
        decoded.append(len(data))
        return decode(data, buffer)

    decode = speed._decode_whole
    monkeypatch.setattr(speed, "_decode_whole", noted)
    monkeypatch.setattr(speed._Batches, "put", lambda _, pixels: put.append(pixels.shape))
    listing = list_source(str(photos))
    keep = packed(photos, tmp_path / "keep", tier="keep", size=None).pack
    assert keep is not None
    files = speed._file_taker(listing, SampleReader(listing.kind, "", listing.columns), fit)
    kept = speed._taker(keep, fit)
    chosen = np.arange(len(keep))
    for take in (files.take, kept.take):
        assert take(chosen, np.random.default_rng(0)) == len(keep)
    half = len(decoded) // 2
    assert decoded[:half] == decoded[half:]
    assert set(put) == {(20, 20, 3)}
    assert len(put) == 2 * len(keep)


@pytest.mark.usefixtures("small_disk")
def test_what_a_folder_gives_now_is_not_the_rate_of_packing_it(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "sources", lambda *_: Spread.exact(123.0))
    found = planned(photos, tmp_path / "p")
    assert found.now_samples_per_s.median == 123.0
    assert found.now_counted == "read, decoded, resized to 64"
    told = render_plan(found)
    assert "none: as it is" in told
    counted = {one.tier: one.counted for one in found.candidates if one.size in (None, 64)}
    assert counted == {
        "raw": "copied",
        "crop-jpeg": "a random crop decoded, 54% of the area",
        "jpeg": "decoded",
        "keep": "decoded, resized to 64",
    }
    assert all(text in told for text in counted.values())


def test_a_rate_is_over_the_time_that_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the samples of one round take longer than a stretch: large photos do."""
    now = 0.0
    monkeypatch.setattr("stoker.pack.speed.time.perf_counter", lambda: now)

    def take(indices: np.ndarray[Any, Any], _: np.random.Generator) -> int:
        nonlocal now
        now += 0.5 * len(indices)
        return len(indices)

    taker = speed._Taker(take, 4)
    assert speed._read_for(np.arange(9), taker, 0) == pytest.approx(2.0)


@pytest.mark.usefixtures("small_disk")
def test_sources_that_cannot_be_read_have_no_rate(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jpg").write_bytes(b"nothing")
    listing = list_source(str(tmp_path / "a"))
    with pytest.raises(PackError, match=r"none of the samples of .* could be read"):
        speed.sources(listing, ASKED, 1)


def test_batches_are_turned_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_TURNED_OVER", 100)
    batches = speed._Batches(10)
    first, *others = (batches.room(40) for _ in range(3))
    assert not np.shares_memory(first, others[0])
    assert np.shares_memory(first, others[1])
    assert len(speed._Batches(80).room(80)) == 80


def candidate(tier: str, rate: float, size: float = 1e6, **more: object) -> PackCandidate:
    given: dict[str, object] = {"is_cached": True, "storage_samples_per_s": 1e6, **more}
    return PackCandidate(
        tier=tier,
        size=64,
        bytes=size,
        pack_s=Spread.exact(10.0),
        read_samples_per_s=Spread.exact(rate),
        limit="processor",
        **given,  # type: ignore[arg-type]
    )


NOW = Spread.exact(1000.0)


def test_none_is_recommended_when_the_device_is_the_limit() -> None:
    need = Need(device_s=0.1, real_s=0.11, batch=64, verdict=VerdictCode.DEVICE_BOUND)
    best, why = _choice([candidate("raw", 50_000)], NOW, need, 10**9)
    assert best is None
    assert why.startswith("device-bound: the device takes 640 samples a second")


def test_none_is_recommended_when_the_disk_gives_no_more_than_decoding() -> None:
    slow = candidate("raw", 50_000, is_cached=False, storage_samples_per_s=1100.0)
    best, why = _choice([slow], NOW, None, 10**9)
    assert best is None
    assert why.startswith("no gain")


def test_the_smallest_that_feeds_the_device_is_recommended() -> None:
    need = Need(device_s=0.032, real_s=0.064, batch=64, verdict=VerdictCode.CPU_SATURATED)
    ways = [candidate("raw", 50_000, 1e8), candidate("crop-jpeg", 2500, 1e7)]
    best, why = _choice(ways, NOW, need, 10**9)
    assert best is ways[1]
    assert why == "crop-jpeg at 64 gives 2.5 times what decoding the sources gives"
    best, _ = _choice(ways, NOW, msgspec.structs.replace(need, device_s=0.016), 10**9)
    assert best is ways[0]


def test_a_serial_loader_is_to_run_beside_the_step_first() -> None:
    need = Need(device_s=0.1, real_s=0.164, batch=64, verdict=VerdictCode.SERIAL_LOADER)
    best, why = _choice([candidate("raw", 50_000)], NOW, need, 10**9)
    assert best is None
    assert why.startswith("after that a pack gives 1.00x: the device takes 640 samples a second")
    (told,) = _first(NOW, need)
    assert told.startswith("first: let loading run beside the step")
    assert told.endswith("a step of 164.0 ms becomes 100.0 ms")


def test_after_loading_runs_beside_the_step_a_pack_gives_what_is_left() -> None:
    need = Need(device_s=0.032, real_s=0.096, batch=64, verdict=VerdictCode.SERIAL_LOADER)
    best, why = _choice([candidate("raw", 50_000)], NOW, need, 10**9)
    assert best is not None
    assert why.endswith("a step of 64.0 ms becomes 32.0 ms with it (2.00x)")
    assert _first(NOW, need)[0].endswith("a step of 96.0 ms becomes 64.0 ms")


def test_where_the_diagnosis_promises_nothing_no_step_is_forecast() -> None:
    why = "other processes kept 3 of the 8 cores busy: measure on an idle machine"
    need = Need(device_s=0.032, real_s=0.096, batch=64, verdict=VerdictCode.SERIAL_LOADER)
    crowded = msgspec.structs.replace(need, withheld=why)
    way = candidate("raw", 50_000)
    assert _with_step(way, need).step_s is not None
    assert _with_step(way, crowded) == way
    best, told = _choice([way], NOW, crowded, 10**9)
    assert best is way
    assert told == "raw at 64 gives 50.0 times what decoding the sources gives"
    said, first = _first(NOW, crowded)
    assert said == f"no step is forecast, as the diagnosis promises no gain: {why}"
    assert first.endswith("decoding takes turns with it now")
    fast = msgspec.structs.replace(crowded, device_s=0.1)
    assert "1.00x" not in _choice([way], NOW, fast, 10**9)[1]
    assert "1.00x" in _choice([way], NOW, msgspec.structs.replace(fast, withheld=""), 10**9)[1]


def test_other_verdicts_are_not_called_device_bound() -> None:
    need = Need(device_s=0.1, real_s=0.2, batch=64, verdict=VerdictCode.HOST_SYNC)
    _, why = _choice([candidate("raw", 50_000)], NOW, need, 10**9)
    assert why.endswith("the diagnosis says host-sync, which a pack doesn't mend")
    assert _first(NOW, need) == ()


def test_an_inconclusive_diagnosis_is_warned_of_first() -> None:
    need = Need(device_s=0.1, real_s=0.2, batch=64, verdict=VerdictCode.INCONCLUSIVE)
    assert _first(NOW, need)[0].startswith("warning: the diagnosis is inconclusive")
    assert _first(NOW, None) == ()


def test_smaller_pictures_than_were_asked_for_are_never_recommended() -> None:
    small = msgspec.structs.replace(candidate("raw", 90_000), size=32)
    ways = [small, candidate("raw", 50_000)]
    assert _choice(ways, NOW, None, 10**9)[0] is ways[1]


def test_what_does_not_fit_on_the_disk_is_not_recommended() -> None:
    ways = [candidate("raw", 50_000, 1e12), candidate("crop-jpeg", 2500, 1e7)]
    assert _choice(ways, NOW, None, 10**9)[0] is ways[1]
    assert _choice(ways[:1], NOW, None, 10**9) == (None, "no candidate fits on the disk")


def test_a_subset_is_spread_over_the_whole(photos: Path) -> None:
    listing = list_source(str(photos))
    some = subset(listing, 3)
    assert [some.names[n] for n in range(3)] == [listing.names[n] for n in (0, 10, 20)]
    assert some.sample(1).values == listing.sample(10).values


def sizes_of(asked: Transform, own: int | None, *, has_files: bool = True) -> set[int | None]:
    ways = candidates_for(asked, own, has_files=has_files)
    return {one.size for one in ways if one.tier != "keep"}


def test_a_size_too_small_to_be_halved_is_not() -> None:
    assert sizes_of(Transform(tier="raw", size=48), None) == {48}


def test_all_settings_that_were_asked_for_are_measured() -> None:
    asked = Transform(tier="raw", size=96, fit="pad", resampler="box", quality=70, exif="apply")
    *sized, keep = candidates_for(asked, None)
    assert {msgspec.structs.replace(one, tier="raw", size=96) for one in sized} == {asked}
    assert keep == Transform(tier="keep")
    assert candidates_for(asked, None, has_files=False) == tuple(sized)


@pytest.mark.parametrize(
    ("size", "own", "has_files", "expected"),
    [
        (None, 1000, True, {128, 256}),
        (None, 224, True, {112, 224}),
        (None, 40, True, {40}),
        (512, 300, True, {150, 300}),
        (512, 300, False, {150, 300}),
        (200, 300, True, {100, 200}),
        # A Dataset's pictures keep the size that its script gives them, unless one is asked for.
        (None, 224, False, {112, None}),
        (None, 1000, False, {256, None}),
        (None, 48, False, {None}),
        (None, None, False, {None}),
    ],
)
def test_no_candidate_is_larger_than_the_pictures(
    size: int | None, own: int | None, has_files: bool, expected: set[int | None]
) -> None:
    assert sizes_of(Transform(tier="raw", size=size), own, has_files=has_files) == expected


def test_arrays_are_packed_in_one_way() -> None:
    asked = Transform(tier="raw", fit="pad")
    assert candidates_for(asked, None, has_files=False) == (Transform(tier="raw"),)


def test_a_size_that_would_enlarge_is_told() -> None:
    asked = Transform(tier="raw", size=512)
    (told,) = too_large(asked, 300)
    assert told.startswith("--size 512 would only enlarge pictures")
    assert told.endswith("300 is compared in its place")
    assert (
        too_large(asked, 512) == too_large(asked, None) == too_large(Transform(tier="raw"), 9) == ()
    )


@pytest.mark.parametrize(("fit", "own"), [("shorter", 30), ("exact", 30), ("pad", 40)])
def test_the_size_of_the_pictures_is_that_which_enlarges_few(
    photos: Path, fit: str, own: int
) -> None:
    """They are 40 × 30, 30 × 40, 36 × 36 and 52 × 34; an unreadable one says nothing."""
    (photos / "b" / "04.jpg").write_bytes(b"")
    listing = list_source(str(photos))
    assert own_size(listing, Transform(tier="raw", fit=fit)) == own


def test_of_a_dataset_the_size_is_that_where_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / f"cut_{abs(hash(str(tmp_path)))}.py"
    path.write_text(
        "import random\nimport numpy as np\nfrom PIL import Image\n"
        "def small(image): return image.resize((50, 48))\n"
        "def flip(image): return image.transpose(0) if random.random() < 0.5 else image\n"
        "def large(image): return np.asarray(image.resize((400, 400)), np.float32)\n"
        "class Own:\n"
        "    transforms = [small, flip, large]\n"
        "    def __len__(self): return 40\n"
        "    def __getitem__(self, n):\n"
        "        value = Image.new('RGB', (640, 480), (n, 0, 0))\n"
        "        for step in self.transforms: value = step(value)\n"
        "        return value, n\n"
    )
    listing = list_source(f"{path}:Own")
    assert own_size(listing, Transform(tier="raw")) == 48


def test_pictures_of_their_own_size_are_what_was_asked_for() -> None:
    """A smaller size beside them is shown, and never chosen."""
    ways = [msgspec.structs.replace(candidate("raw", 90_000), size=32)]
    ways.append(msgspec.structs.replace(candidate("raw", 50_000), size=None))
    best, told = _choice(ways, NOW, None, 10**9)
    assert best is ways[1]
    assert told == "raw gives 50.0 times what decoding the sources gives"
    kept = msgspec.structs.replace(candidate("keep", 60_000), size=None)
    assert _choice([candidate("raw", 50_000), kept], NOW, None, 10**9)[0] is kept
