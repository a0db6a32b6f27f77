"""The Loader over packs: exact, resumable, bounded, and never writing to what somebody holds."""

from __future__ import annotations

import gc
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import stoker
from stoker.errors import CorruptShardError, InputError, LoaderError, PackError
from stoker.loader import order, residency
from stoker.pack import Pack, write_arrays

COUNT = 90
SIDE = 12


def pictures(count: int = COUNT) -> np.ndarray:
    """Each pixel says which sample, row and column it is of."""
    made = np.empty((count, SIDE, SIDE, 3), np.uint8)
    made[..., 0] = np.arange(count)[:, None, None]
    made[..., 1] = np.arange(SIDE)[:, None]
    made[..., 2] = np.arange(SIDE)
    return made


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    labels = np.arange(COUNT) % 7
    return write_arrays(tmp_path / "pack", {"image": pictures(), "label": labels}, shard_samples=40)


def numpy_loader(pack: Pack, size: int = 8, **settings: Any) -> stoker.Loader:
    return stoker.Loader(pack, size, array="numpy", **settings)


def indices(loader: stoker.Loader) -> list[int]:
    return [index for batch in loader for index in batch["index"].tolist()]


@pytest.mark.parametrize("reading", ["mmap", "preadv"])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_sample_comes_once_with_its_own_pixels_and_label(
    pack: Pack, reading: Any, threads: int
) -> None:
    loader = numpy_loader(pack, shuffle=True, reading=reading, threads=threads)
    seen = []
    for batch in loader:
        assert np.array_equal(batch.image, pictures()[batch.index])
        assert np.array_equal(batch.label, batch.index % 7)
        seen += batch.index.tolist()
    assert sorted(seen) == list(range(COUNT)) and seen != sorted(seen)
    assert loader.stats().reading == reading


def test_torch_sees_channels_first_in_channels_last_memory(pack: Pack) -> None:
    batch = next(iter(stoker.Loader(pack, 4, crop=8)))
    assert batch.image.shape == (4, 3, 8, 8) and batch.image.dtype is torch.uint8
    assert batch.image.is_contiguous(memory_format=torch.channels_last)
    assert batch["label"].tolist() == [0, 1, 2, 3]


def test_epochs_follow_each_other_and_differ(pack: Pack) -> None:
    loader = numpy_loader(pack, shuffle=True)
    first, second = indices(loader), indices(loader)
    assert first != second and loader.epoch == 2
    loader.set_epoch(0)
    assert indices(loader) == first
    assert indices(numpy_loader(pack, shuffle=True, seed=1)) != first


def test_a_loop_that_counts_its_batches_goes_on_with_the_next_epoch(pack: Pack) -> None:
    """As Lightning's does: it takes len(loader) batches and never hears of the end."""
    whole = numpy_loader(pack, shuffle=True)
    wanted = [indices(whole), indices(whole)]
    loader = numpy_loader(pack, shuffle=True)

    def counted(count: int) -> list[int]:
        batches = iter(loader)
        return [number for _ in range(count) for number in next(batches).index.tolist()]

    assert [counted(len(loader)), counted(len(loader))] == wanted
    loader.set_epoch(1)  # once more, when it is asked for
    assert counted(len(loader)) == wanted[1]
    assert counted(1) == counted(1) != wanted[1][:1]  # one that is left is begun anew


def test_an_epoch_that_is_chosen_in_the_loop_is_the_next_one(pack: Pack) -> None:
    loader = numpy_loader(pack, shuffle=True)
    seen = []
    for batch in loader:
        seen += batch.index.tolist()
        loader.set_epoch(5)
    assert sorted(seen) == list(range(COUNT)) and loader.epoch == 5
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (5, 0)
    assert indices(loader) == order.sequence(COUNT, 0, 5).tolist() and loader.epoch == 6
    for _ in loader:
        loader.set_epoch(6)  # the one that is running
    assert loader.epoch == 7


@pytest.mark.parametrize("shuffle", [True, False, "window"])
def test_a_loader_goes_on_exactly_where_the_loop_was_not_where_it_had_prefetched(
    pack: Pack, shuffle: Any
) -> None:
    settings = {"shuffle": shuffle, "seed": 3, "crop": 8, "threads": 2}
    whole = list(numpy_loader(pack, **settings))
    for stop in range(len(whole) + 1):
        loader = numpy_loader(pack, **settings)
        running = iter(loader)
        for _ in range(stop):
            next(running)
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        running.close()
        again = numpy_loader(pack, **settings)
        again.load_state_dict(state)
        again.set_epoch(0)  # as training loops do
        rest = list(again)
        assert [b.index.tolist() for b in rest] == [b.index.tolist() for b in whole[stop:]]
        assert all(
            np.array_equal(a.image, b.image) for a, b in zip(rest, whole[stop:], strict=True)
        )
        assert again.epoch == 1


def test_a_run_may_go_on_with_other_ranks_and_another_batch_size(pack: Pack) -> None:
    whole = indices(numpy_loader(pack, shuffle=True))
    first = [numpy_loader(pack, 5, shuffle=True, rank=rank, world_size=2) for rank in range(2)]
    running = [iter(loader) for loader in first]
    seen = [next(ranks).index.tolist() for _ in range(3) for ranks in running]
    state = first[0].state_dict()
    assert state == first[1].state_dict()
    for iterator in running:
        iterator.close()
    later = [numpy_loader(pack, 4, shuffle=True, rank=rank, world_size=3) for rank in range(3)]
    for loader in later:
        loader.load_state_dict(state)
    for batches in zip(*later, strict=True):
        seen += [batch.index.tolist() for batch in batches]
    assert [index for part in seen for index in part] == whole


def test_a_state_of_other_data_or_another_seed_is_refused_and_says_why(pack: Pack) -> None:
    state = numpy_loader(pack, shuffle=True).state_dict()
    with pytest.raises(InputError, match="seed 0, here 1"):
        numpy_loader(pack, shuffle=True, seed=1).load_state_dict(state)
    with pytest.raises(InputError, match="generation 7, here 1"):
        numpy_loader(pack, shuffle=True).load_state_dict({**state, "generation": 7})


def test_a_state_that_is_loaded_in_the_loop_is_kept_by_it(pack: Pack) -> None:
    loader = numpy_loader(pack, shuffle=True)
    running = iter(loader)
    next(running)
    state = loader.state_dict()
    next(running)
    loader.load_state_dict(state)
    assert len(list(running)) == 10 and loader.state_dict() == state
    assert next(iter(loader)).index.tolist() == order.sequence(COUNT, 0, 0)[8:16].tolist()


def test_a_loop_that_is_left_and_begun_again_begins_at_the_start(pack: Pack) -> None:
    loader = numpy_loader(pack, shuffle=True)
    for batch in loader:
        first = batch.index.tolist()
        break
    assert next(iter(loader)).index.tolist() == first
    assert loader.epoch == 0


def test_batches_that_are_kept_stay_as_they_were(pack: Pack) -> None:
    loader = numpy_loader(pack, 4, shuffle=True, threads=2)
    kept = [batch for _ in range(3) for batch in loader]
    tensors = list(stoker.Loader(pack, 4))
    for batch in kept:
        assert np.array_equal(batch.image, pictures()[batch.index])
    for batch in tensors:
        assert np.array_equal(batch.image.permute(0, 2, 3, 1), pictures()[batch.index])


def test_with_reuse_a_batch_lasts_until_the_next_one_and_memory_stays(pack: Pack) -> None:
    addresses = set()
    for batch in numpy_loader(pack, 4, reuse=True):
        assert np.array_equal(batch.image, pictures()[batch.index])
        addresses.add(batch.image.ctypes.data)
    assert len(addresses) < 23


def test_memory_is_held_within_the_budget_and_a_smaller_one_is_refused(pack: Pack) -> None:
    size = 4 * (SIDE * SIDE * 3 + 8 + 8)
    loader = numpy_loader(pack, 4, memory_bytes=5 * size + 1000, threads=2)
    for _ in loader:
        assert loader.stats().held_bytes <= 5 * size + 1000
        assert loader.stats().depth <= 3
    with pytest.raises(InputError, match="are needed"):
        numpy_loader(pack, 4, memory_bytes=2 * size)


def test_drop_last_and_the_length(pack: Pack) -> None:
    assert len(numpy_loader(pack)) == 12 and len(list(numpy_loader(pack))) == 12
    dropped = numpy_loader(pack, drop_last=True)
    assert len(dropped) == 11 and {len(batch.index) for batch in dropped} == {8}
    assert len(numpy_loader(pack, rank=1, world_size=2)) == 6


def test_threads_end_with_the_loop_however_it_ends(pack: Pack) -> None:
    loader = numpy_loader(pack, 2, shuffle=True)
    for _ in loader:
        break
    list(loader)
    abandoned = iter(loader)
    next(abandoned)
    del abandoned
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("stoker"):
            thread.join(5.0)
            assert not thread.is_alive()


def test_augment_runs_in_the_background_and_is_given_seed_and_epoch(pack: Pack) -> None:
    asked = []

    def augment(batch: Any, *, seed: int, epoch: int) -> Any:
        asked.append((seed, epoch, threading.current_thread().name))
        return {**batch, "image": batch["image"].float() / 255}

    loader = stoker.Loader(pack, 8, seed=4, augment=augment)
    images = torch.cat([batch["image"] for batch in loader])
    assert torch.equal(images, torch.from_numpy(pictures()).permute(0, 3, 1, 2) / 255)
    assert set(asked) == {(4, 0, "stoker-feed")}
    assert loader.stats().batches == 12


def test_a_failing_augment_is_raised_in_its_place(pack: Pack) -> None:
    def augment(batch: Any, *, seed: int, epoch: int) -> Any:
        if 20 in batch["index"]:
            raise ArithmeticError("no")
        return batch

    running = iter(stoker.Loader(pack, 10, augment=augment))
    assert [next(running)["index"][0].item() for _ in range(2)] == [0, 10]
    with pytest.raises(ArithmeticError, match="no") as raised:
        next(running)
    assert raised.value.__notes__ == [
        "stage 'augment', epoch 0, samples 20, 21, 22, 23, 24, 25, 26, 27 and 2 more"
    ]


def test_an_augment_that_forgets_to_return_is_told_so(pack: Pack) -> None:
    with pytest.raises(LoaderError, match="augment gave None") as raised:
        next(iter(stoker.Loader(pack, 8, augment=lambda batch, **_: batch.clear())))
    assert "samples 0, 1, 2, 3, 4, 5, 6, 7" in raised.value.__notes__[0]


def test_a_stop_iteration_of_augment_is_an_error_and_no_end(pack: Pack) -> None:
    def augment(batch: Any, *, seed: int, epoch: int) -> Any:
        return next(iter(()))

    with pytest.raises(LoaderError, match="augment raised StopIteration"):
        list(stoker.Loader(pack, 8, augment=augment))


def test_an_emulated_device_gets_every_batch_and_the_state_counts_what_the_loop_got(
    pack: Pack,
) -> None:
    device = stoker.EmulatedAccelerator(0.0, link_bytes_per_s=1e9)
    loader = stoker.Loader(pack, 8, shuffle=True, crop=8, device=device)
    running = iter(loader)
    seen = []
    for number in range(1, 4):
        batch = next(running)
        device.step(batch).item()
        seen += batch["index"].tolist()
        assert loader.state_dict()["position"] == 8 * number
    running.close()
    assert seen == order.sequence(COUNT, 0, 0)[:24].tolist()


def test_quarantined_samples_do_not_come(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pack, "usable", np.delete(np.arange(COUNT), [3, 50]))
    seen = indices(numpy_loader(pack, shuffle=True))
    assert sorted(seen) == sorted(set(range(COUNT)) - {3, 50})


def test_fields_can_be_chosen_and_ragged_ones_are_refused_with_the_way_round(
    tmp_path: Path,
) -> None:
    columns = {
        "image": pictures(10),
        "text": [f"sample {number}" for number in range(10)],
        "label": np.arange(10),
    }
    pack = write_arrays(tmp_path / "p", columns)
    with pytest.raises(InputError, match="'text' has samples of any length"):
        stoker.Loader(pack, 2)
    batch = next(iter(stoker.Loader(pack, 2, fields=("label",))))
    assert list(batch) == ["label", "index"]
    with pytest.raises(AttributeError, match="no field 'image'"):
        batch.image  # noqa: B018


def test_a_shard_that_lost_its_end_is_named(pack: Pack) -> None:
    loader = numpy_loader(pack, reading="preadv")
    file = pack.path / "shard-00001.image.npy"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CorruptShardError, match=r"shard-00001\.image\.npy ends at byte") as error:
        list(loader)
    assert "sample 79" in "".join(error.value.__notes__)


def test_a_loader_shows_its_source_and_settings(pack: Pack) -> None:
    assert repr(numpy_loader(pack, shuffle=True)) == (
        f"stoker.Loader({str(pack.path)!r}, 90 samples of image, label; "
        "8 a batch, global order, epoch 0)"
    )


def test_what_is_no_pack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        stoker.Loader(tmp_path / "missing", 4)
    (tmp_path / "shard-00000.image.npy").write_bytes(b"half")
    with pytest.raises(PackError):
        stoker.Loader(tmp_path, 4)


@pytest.mark.parametrize(
    "settings",
    [
        *({"batch_size": size} for size in (0, 1.5, "4", True)),
        {"world_size": 0},
        {"world_size": 2.0},
        {"rank": 0.5},
        *({"seed": seed} for seed in (None, "a", 1.5)),
        {"augment": 5},
        *({"crop": crop} for crop in (0, -3, (4, 0), (4, 4, 4), (4.5, 4), True)),
        {"rank": 2, "world_size": 2},
        {"shuffle": "often"},
        {"shuffle": ["window"]},
        {"shuffle": None},
        *({"fields": names} for names in ("image", (1,), 5)),
        *({"memory_bytes": size} for size in ("2GB", -1, 0, float("inf"), float("nan"), None)),
        *({"watchdog_s": wait_s} for wait_s in (0, -1.0, float("nan"), None, "60", True)),
        {"crop": 13},
        {"crop": "large"},
        {"threads": 0},
        {"reading": "guess"},
        {"array": "jax"},
        {"shuffle": True, "sampler": [1, 2]},
        {"sampler": 5},
        {"reuse": True, "augment": print},
        {"crop": stoker.augment.RandomResizedCrop(8)},
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(pack: Pack, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        stoker.Loader(pack, **settings)


def test_how_mixed_the_classes_of_the_batches_are_can_be_asked(tmp_path: Path) -> None:
    pack = write_arrays(tmp_path / "p", {"label": np.arange(4000) // 400})
    assert numpy_loader(pack, 40, shuffle=True).mixing() == pytest.approx(1.0, abs=0.05)
    assert numpy_loader(pack, 40).mixing() < 0.1


def test_ranks_are_disjoint_and_equal(pack: Pack) -> None:
    loaders = [numpy_loader(pack, shuffle=True, rank=rank, world_size=4) for rank in range(4)]
    parts = [indices(loader) for loader in loaders]
    assert [len(part) for part in parts] == [22] * 4
    assert len({index for part in parts for index in part}) == 88


def test_stats_tell_stages_waits_and_memory(pack: Pack) -> None:
    loader = numpy_loader(pack, crop=8)
    assert loader.stats().batches == 0
    list(loader)
    stats = loader.stats()
    assert (stats.batches, stats.samples) == (12, COUNT)
    assert stats.stage_s["gather"] > 0 and stats.take_wait_s >= 0
    assert 0 <= stats.ready_share <= 1


def test_whether_a_pack_is_cached_is_asked_anew_at_each_epoch(
    pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([0.0, 0.0, 1.0, 0.5])  # when it is made, and before each epoch
    monkeypatch.setattr(residency, "cached_share", lambda _: next(shares))
    loader = numpy_loader(pack, shuffle=True)
    assert loader.stats().reading == "preadv"
    seen = []
    for _ in range(3):
        batches = iter(loader)
        seen.append((loader.stats().reading, loader.stats().threads))
        for batch in batches:
            assert np.array_equal(batch.image, pictures()[batch.index])
    assert [reading for reading, _ in seen] == ["preadv", "mmap", "preadv"]
    assert seen[0][1] == seen[2][1] == 4 and seen[1][1] == 1
    by_hand = numpy_loader(pack, reading="mmap")
    assert len(list(by_hand)) == 12 and by_hand.stats().reading == "mmap"


def test_passes_that_fail_cost_the_loader_no_memory(tmp_path: Path) -> None:
    for number in range(6):
        Image.new("RGB", (9, 9), (number, 0, 0)).save(tmp_path / f"{number}.jpg")
    good = (tmp_path / "3.jpg").read_bytes()
    (tmp_path / "3.jpg").write_bytes(b"\xff\xd8 and nothing more")
    loader = stoker.Loader(tmp_path, 2, crop=8, array="numpy", watchdog_s=2.0)
    for _ in range(30):
        with pytest.raises(LoaderError, match=r"3\.jpg cannot be decoded"):
            list(loader)
    (tmp_path / "3.jpg").write_bytes(good)
    assert indices(loader) == list(range(6))


def test_a_picture_that_is_no_jpeg_is_named_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "broken.jpg").write_bytes(b"\xff\xd8 and nothing more")
    with pytest.raises(LoaderError, match=r"broken\.jpg cannot be decoded"):
        list(stoker.Loader(tmp_path, 2, crop=8))
