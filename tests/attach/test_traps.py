"""What deceives a measurement of a loader, set up for real: docs/doctor.md lists all traps."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest
from torch.utils.data import DataLoader, Dataset

from stoker.probe.process import anonymous_memory, unique_memory
from stoker.records.profile import LegCode
from tests.attach.examined import LOAD_S, STEP_S, about, seconds, watch

# In the script deep.py: four samples of 10 ms by each of two workers.
DEEP_LOAD_S = 4 * 0.010 / 2
WORDS = 400_000


@pytest.mark.full
@pytest.mark.usefixtures("in_folder")
def test_a_deep_queue_that_is_used_up_later_is_not_taken_for_speed() -> None:
    """Prefetch debt: 48 batches lie ready at the start and after every leg on kept batches."""
    profile = watch("deep.py", budget_s=6)

    assert seconds(profile, LegCode.DEVICE) == about(STEP_S)
    loader = seconds(profile, LegCode.LOADER)
    assert loader == about(DEEP_LOAD_S)
    # With what lay ready counted in, half of the real window would go at the pace of the step.
    assert seconds(profile, LegCode.REAL) == about(loader, within=0.2)


@pytest.mark.full
@pytest.mark.usefixtures("in_folder")
def test_an_archive_held_open_over_a_fork_costs_its_leg_and_not_the_script() -> None:
    """A handle shared by forked workers has one position: their reads are corrupt, not slow."""
    profile = watch("archive.py", budget_s=6)

    assert (profile.exit_code, profile.scaling) == (0, ())
    assert any("workers failed: BadZipFile" in note for note in profile.environment.notes)
    assert seconds(profile, LegCode.LOADER) == about(LOAD_S)
    assert seconds(profile, LegCode.REAL) == about(LOAD_S + STEP_S)


def _reading(words: list[str], told: Connection) -> None:
    told.send((unique_memory(), anonymous_memory()))
    gc.disable()
    for _ in words:  # nothing is written but the count of references of each word
        pass
    told.send((unique_memory(), anonymous_memory()))


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_only_unique_memory_shows_that_reading_copies_what_a_fork_shared() -> None:
    words = [f"word {number}" for number in range(WORDS)]
    ours, theirs = multiprocessing.Pipe(duplex=False)
    worker = multiprocessing.get_context("fork").Process(target=_reading, args=(words, theirs))
    worker.start()
    (unique, resident), (unique_after, resident_after) = ours.recv(), ours.recv()
    worker.join()
    size = 50 * WORDS  # bytes of the words alone, without the list
    assert unique_after - unique > 0.8 * size
    assert resident_after - resident < 0.2 * size
    assert resident > size, "resident memory held the parent's words from the start"


class Resampled(Dataset[int]):
    """Its samples change with the epoch that its owner sets."""

    epoch = 0

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return 100 * self.epoch + index


def _epochs(persistent: bool) -> Iterator[list[int]]:
    samples = Resampled()
    loader = DataLoader(samples, num_workers=1, persistent_workers=persistent)
    for samples.epoch in range(3):
        yield [int(batch) for batch in loader]


def test_workers_that_are_kept_do_not_see_the_epoch_that_the_script_sets() -> None:
    assert list(_epochs(persistent=False))[2] == [200, 201, 202, 203]
    assert list(_epochs(persistent=True))[2] == [0, 1, 2, 3]
