"""Memory of batches: never written to while somebody can see it, used again when nobody can."""

from __future__ import annotations

import gc
import os
import weakref

import numpy as np
import pytest
import torch

from stoker.errors import InputError
from stoker.loader.slots import Field, Slots, depth_within, slot_bytes

LAYOUT = (Field.of("image", (4, 4, 3), np.uint8), Field.of("label", (), np.int64))


def test_a_lent_block_comes_back_when_the_last_view_of_it_is_gone() -> None:
    slots = Slots(LAYOUT, 8, limit=1)
    slot = slots.acquire(8)
    assert slot is not None and slots.acquire(8) is None
    fields = slots.lend(slot, 8)
    view = fields["image"][2:, 1].reshape(-1)[3:]  # a view of a view of a view
    tensor = torch.from_numpy(fields["label"])[1:]
    del fields
    gc.collect()
    other = slots.acquire(8)
    assert other is not None and other is not slot
    slots.release(other)
    del view
    assert slots.acquire(8) is other and slots.acquire(8) is None
    slots.release(other)
    del tensor
    assert slots.acquire(8) is not None


KEEP = {
    "array": lambda image: image,
    "tensor": lambda image: torch.from_numpy(image).permute(0, 3, 1, 2),
    "row": lambda image: image[3, 2],
    "transposed": lambda image: image.T[1:],
    "memoryview": memoryview,
}


@pytest.mark.parametrize("keep", KEEP)
def test_whatever_is_kept_of_a_batch_stays_as_it_was(keep: str) -> None:
    slots = Slots(LAYOUT, 8, limit=2)
    slot = slots.acquire(8)
    assert slot is not None
    slot.fields["image"][:] = 7
    image = slots.lend(slot, 8)["image"]
    kept = KEEP[keep](image)
    del image, slot
    for _ in range(6):
        again = slots.acquire(8)
        assert again is not None
        again.fields["image"][:] = 9
        slots.lend(again, 8)
    assert np.all(np.asarray(kept) == 7)


def test_a_block_is_used_again_and_not_made_anew() -> None:
    made = []

    def allocate(size: int):
        made.append(size)
        block = bytearray(size)
        return lambda: np.frombuffer(block, np.uint8)

    slots = Slots(LAYOUT, 8, limit=2, allocate=allocate)
    for _ in range(100):
        slot = slots.acquire(8)
        assert slot is not None
        batch = slots.lend(slot, 8)
        assert set(batch) == {"image", "label"}
    assert len(made) <= 2


def test_more_is_held_than_allowed_never() -> None:
    slots = Slots(LAYOUT, 8, limit=3)
    kept = []
    for _ in range(10):
        slot = slots.acquire(8)
        assert slot is not None
        kept.append(slots.lend(slot, 8))
    kept.clear()
    free = [slots.acquire(8) for _ in range(5)]
    assert sum(slot is not None for slot in free) == 3
    assert slots.held_bytes == 3 * slot_bytes(LAYOUT, 8)


def test_a_short_batch_is_the_first_rows() -> None:
    slots = Slots(LAYOUT, 8, limit=1)
    slot = slots.acquire(8)
    assert slot is not None
    slot.fields["label"][:] = np.arange(8)
    assert slots.lend(slot, 3)["label"].tolist() == [0, 1, 2]


def test_fields_lie_apart_and_aligned() -> None:
    layout = (Field.of("a", (3,), np.uint8), Field.of("b", (), np.float64))
    slots = Slots(layout, 5, limit=1)
    slot = slots.acquire(5)
    assert slot is not None
    slot.fields["a"][:] = 255
    slot.fields["b"][:] = 1.0
    assert np.all(slot.fields["a"] == 255) and slot.fields["b"].flags.aligned


def test_more_samples_than_a_block_holds_are_refused() -> None:
    with pytest.raises(ValueError, match="9 samples, and a block holds 8"):
        Slots(LAYOUT, 8, limit=1).acquire(9)


def test_a_budget_for_less_than_three_batches_is_refused_with_what_is_needed() -> None:
    assert depth_within(1000, {"host": 100}, wanted=4) == 4
    assert depth_within(500, {"host": 100}, wanted=4) == 3
    with pytest.raises(InputError, match="memory_bytes=300 or more"):
        depth_within(299, {"host": 100}, wanted=4)


def test_what_the_caller_lets_go_of_is_kept_up_to_the_limit_and_no_more() -> None:
    freed = []

    class Block(bytearray):
        def __del__(self) -> None:
            freed.append(self)

    def allocate(size: int):
        block = Block(size)
        return lambda: np.frombuffer(block, np.uint8)

    slots = Slots(LAYOUT, 8, limit=3, allocate=allocate)
    kept = []
    for _ in range(10):
        slot = slots.acquire(8)
        assert slot is not None
        kept.append(slots.lend(slot, 8))
    del slot
    waiting = slots.acquire(8)  # one is held meanwhile
    kept.clear()
    assert len(freed) == 8, "two come back beside the one that is held"
    assert slots.held_bytes == 3 * slot_bytes(LAYOUT, 8)
    assert waiting is not None


def test_a_block_comes_back_also_after_a_garbage_collection() -> None:
    slots = Slots(LAYOUT, 8, limit=1)
    slot = slots.acquire(8)
    assert slot is not None
    fields, number = slots.lend(slot, 8), id(slot)
    del slot
    gc.collect()
    del fields
    again = slots.acquire(8)
    assert id(again) == number


def test_blocks_of_slots_that_are_gone_go_with_the_batch() -> None:
    slots = Slots(LAYOUT, 8, limit=1)
    slot = slots.acquire(8)
    assert slot is not None
    gone = weakref.ref(slots)
    label = slots.lend(slot, 8)["label"]
    del slots, slot
    assert gone() is None
    label[:] = 5
    del label


def test_what_a_forked_child_writes_stays_its_own() -> None:
    slots = Slots(LAYOUT, 8, limit=1)
    slot = slots.acquire(8)
    assert slot is not None
    slot.fields["label"][:] = 7
    lent = slots.lend(slot, 8)
    child = os.fork()
    if child == 0:
        lent["label"][:] = 9
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lent["label"].tolist() == [7] * 8
