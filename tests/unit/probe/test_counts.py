"""What a call has decoded, from results in the forms that libraries give."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stoker.probe.hooks import counts
from stoker.probe.hooks.calls import Decodes


def array(*shape: int) -> Any:
    return np.empty(shape, np.uint8)


def holding(*shape: int) -> Any:
    """As torchcodec gives frames and sound."""
    return SimpleNamespace(data=array(*shape))


@pytest.mark.parametrize(
    ("decodes", "made", "found"),
    [
        (counts.ARRAY, array(48, 64), 48 * 64),
        (counts.ARRAY, array(48, 64, 3), 48 * 64),
        (counts.ARRAY, None, 0),
        (counts.TENSOR, array(3, 48, 64), 48 * 64),
        (counts.TENSOR, [array(3, 48, 64), array(1, 8, 8)], 48 * 64 + 64),
        (counts.ONE_FRAME, (True, array(48, 64, 3)), 1),
        (counts.ONE_FRAME, (False, None), 0),
        (counts.ONE_FRAME, True, 1),
        (counts.FRAMES, array(16, 48, 64, 3), 16),
        (counts.FRAMES_OR_ONE, array(16, 48, 64, 3), 16),
        (counts.FRAMES_OR_ONE, array(48, 64, 3), 1),
        (counts.FRAME_DATA, holding(16, 3, 48, 64), 16),
        (counts.FRAME_DATA, holding(2, 8, 3, 48, 64), 16),
        (counts.FRAME_DATA, holding(3, 48, 64), 1),
        (counts.FRAMES_WITH_SOUND, (array(16, 48, 64, 3), array(2, 99), {}), 16),
        (counts.SOUND, array(16_000), 16_000),
        (counts.SOUND, array(16_000, 2), 16_000),
        (counts.SOUND_DATA, holding(2, 16_000), 16_000),
        (counts.SOUND_WITH_RATE, (array(2, 16_000), 16_000), 16_000),
        (counts.SOUND_WITH_RATE, (array(16_000, 2), 16_000), 16_000),
    ],
)
def test_each_form_has_its_count(decodes: Decodes, made: Any, found: int) -> None:
    assert decodes.counting((), made) == (found, 0)


def test_rows_of_a_table_are_told_with_their_bytes() -> None:
    arrow = SimpleNamespace(num_rows=500, nbytes=64_000)
    assert counts.ARROW_ROWS.counting((), arrow) == (500, 64_000)
    assert counts.PANDAS_ROWS.counting((), array(500, 16)) == (500, 64_000)


def test_a_picture_of_pillow_counts_in_its_size_while_it_has_tiles_to_decode() -> None:
    image = SimpleNamespace(size=(64, 48), tile=["jpeg"])
    assert counts.IMAGE.is_due is not None
    assert counts.IMAGE.is_due((image,))
    assert counts.IMAGE.counting((image,), None) == (64 * 48, 0)
    assert not counts.IMAGE.is_due((SimpleNamespace(size=(64, 48), tile=[]),))
