"""Random runs of the Loader with real threads: one sequence of samples, crops and flips, and what
the caller keeps stays as it was. tests/unit/loader/test_order.py has 10,000 of the sequence alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stoker
from stoker.loader import draws, order
from stoker.loader.boxes import fixed
from stoker.pack import Pack, write_arrays
from tests.unit.loader.test_loader import COUNT, SIDE, pictures

CROP = (7, 8)
FLIP = stoker.augment.Recipe(stoker.augment.HorizontalFlip())
Batch = tuple[np.ndarray, np.ndarray]  # indices, and images as the loop was given them


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    path = tmp_path_factory.mktemp("runs") / "pack"
    return write_arrays(path, {"image": pictures()}, shard_samples=40)


def wanted(samples: np.ndarray, seed: int, epoch: int) -> np.ndarray:
    """The images of an epoch, (N, C, H, W), from the draws alone."""
    keys = draws.sample_keys(seed, epoch, samples)
    cut = fixed(draws.Chance(keys, draws.CROP_STEP), (SIDE, SIDE), CROP)
    is_flipped = draws.Chance(keys, draws.CROP_STEP + 1).uniform(0) < 0.5
    made = np.empty((len(samples), 3, *CROP), np.uint8)
    for number, image in enumerate(pictures()[samples]):
        top, left = cut.top[number], cut.left[number]
        part = image[top : top + CROP[0], left : left + CROP[1]]
        made[number] = (part[:, ::-1] if is_flipped[number] else part).transpose(2, 0, 1)
    return made


class Run:
    """All ranks of a run over the pack, with settings of chance."""

    def __init__(self, pack: Pack, rng: np.random.Generator, **order_of: Any) -> None:
        self.world = int(rng.integers(1, 4))
        size = int(rng.integers(1, 20))
        self.loaders = [
            stoker.Loader(
                pack,
                size,
                rank=rank,
                world_size=self.world,
                threads=[None, 1, 2, 4][int(rng.integers(4))],
                reading=["mmap", "preadv"][int(rng.integers(2))],  # type: ignore[arg-type]
                memory_bytes=[2**30, 3 * size * (SIDE * SIDE * 3 + 200)][int(rng.integers(2))],
                crop=CROP,
                augment=FLIP,
                **order_of,
            )
            for rank in range(self.world)
        ]
        self.running = [iter(loader) for loader in self.loaders]

    def go_on_from(self, state: dict[str, Any]) -> None:
        for loader in self.loaders:
            loader.load_state_dict(state)
        self.running = [iter(loader) for loader in self.loaders]

    def take(self, most: int) -> list[Batch]:
        """That many global batches, ranks in a row; fewer where the epoch ends."""
        taken: list[Batch] = []
        for _ in range(most):
            parts = [next(running, None) for running in self.running]
            assert len({part is None for part in parts}) == 1, "ranks end together"
            # The batches themselves are kept: nothing may write to them later.
            taken += [(p["index"].numpy(), p["image"].numpy()) for p in parts if p is not None]
        return taken

    def close(self) -> None:
        for running in self.running:
            running.close()


def is_seen_as_it_was(pack: Pack, case: int) -> None:
    rng = np.random.default_rng(case)
    seed, epoch = int(rng.integers(2**63)), int(rng.integers(50))
    mode = order.MODES[int(rng.integers(3))]
    order_of = {"seed": seed, "shuffle": False if mode == "sequential" else mode}
    start = {"epoch": epoch, "position": 0}

    first = Run(pack, rng, **order_of)
    first.go_on_from(first.loaders[0].state_dict() | start)
    kept = first.take(min(int(rng.integers(0, 6)), len(first.loaders[0])))  # not past the end
    states = [loader.state_dict() for loader in first.loaders]
    assert all(state == states[0] for state in states)
    first.close()

    then = Run(pack, rng, **order_of)
    then.go_on_from(states[0])
    kept += then.take(COUNT + 1)

    samples = np.concatenate([index for index, _ in kept])
    whole = order.sequence(COUNT, seed, epoch, mode=mode)
    assert np.array_equal(samples, whole[: len(samples)]), f"case {case}"
    assert COUNT - len(samples) < first.world + then.world
    images = np.concatenate([image for _, image in kept])
    assert np.array_equal(images, wanted(samples, seed, epoch)), f"case {case}"


@pytest.mark.parametrize("case", range(10))
def test_a_run_is_the_same_for_any_ranks_threads_and_interruptions(pack: Pack, case: int) -> None:
    is_seen_as_it_was(pack, case)


@pytest.mark.full
def test_four_hundred_runs_are_the_same(pack: Pack) -> None:
    for case in range(10, 410):
        is_seen_as_it_was(pack, case)
