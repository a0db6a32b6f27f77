"""The plan: sizes that come true, the limit named, none recommended when none would help."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from stoker.errors import InputError
from stoker.pack import speed
from stoker.pack.manifest import Transform
from stoker.pack.plan import (
    Need,
    PackCandidate,
    PackPlan,
    _choice,
    _first,
    candidates_for,
    plan,
    subset,
)
from stoker.pack.sources.find import list_source
from stoker.records.diagnosis import VerdictCode
from stoker.stats import Spread
from tests.unit.pack.conftest import packed, photo


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "DISK_BYTES", 4 * 2**20)
    monkeypatch.setattr(speed, "_STRETCH_S", 0.01)


ASKED = Transform(tier="raw", size=64, fit="pad", quality=30)


def planned(photos: Path, folder: Path, memory_bytes: int = 10**9) -> PackPlan:
    listing = list_source(str(photos))
    return plan(listing, candidates_for(ASKED), folder, workers=1, memory_bytes=memory_bytes)


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
    assert speed.reads(pack, 2).median > 0


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


def test_a_size_too_small_to_be_halved_is_not(photos: Path) -> None:
    sizes = {one.size for one in candidates_for(Transform(tier="raw", size=48))}
    assert sizes == {48, None}


def test_all_settings_that_were_asked_for_are_measured() -> None:
    asked = Transform(tier="raw", size=96, fit="pad", resampler="box", quality=70, exif="apply")
    *sized, keep = candidates_for(asked)
    assert {msgspec.structs.replace(one, tier="raw", size=96) for one in sized} == {asked}
    assert keep == Transform(tier="keep")
    assert candidates_for(asked, has_files=False) == tuple(sized)
