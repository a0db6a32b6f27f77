"""The files that a pack's samples were made of: changed, gone, or copied to another folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from stoker.pack.served import in_place_of
from tests.unit.pack.conftest import photo

pytest.importorskip("torch")
from tests.unit.pack.test_served import COUNT, USUAL, Photos, all_of, refused


def test_a_file_that_changed_is_seen_whatever_it_gives(
    in_hand: Callable[[Any], Path], tmp_path: Path
) -> None:
    class Files(Photos):
        def image(self, index: int) -> Any:
            return Image.open(tmp_path / f"{index}.png")

    for index in range(COUNT):
        photo(index, (40, 32)).save(tmp_path / f"{index}.png")
    folder = in_hand(Files(USUAL))
    assert in_place_of(Files(USUAL), folder).pack.source(5) == str(tmp_path / "5.png")
    os.utime(tmp_path / "5.png", (1, 1))
    assert "5.png, of which sample 5 was made, changed" in refused(Files(USUAL), folder)
    (tmp_path / "5.png").unlink()  # the data may have moved: what it gives decides
    photo(5, (40, 32)).save(tmp_path / "other.png")

    class Moved(Files):
        def image(self, index: int) -> Any:
            return Image.open(tmp_path / (f"{index}.png" if index != 5 else "other.png"))

    assert all_of(in_place_of(Moved(USUAL), folder)) == all_of(Moved(USUAL))


def test_data_that_lies_elsewhere_is_compared_by_size(
    in_hand: Callable[[Any], Path], tmp_path: Path
) -> None:
    class Files(Photos):
        folder = tmp_path / "here" / "a"

        def image(self, index: int) -> Any:
            return Image.open(self.folder / f"{index}.png")

    class Moved(Files):
        folder = tmp_path / "there" / "a"

    Files.folder.mkdir(parents=True)
    for index in range(COUNT):
        photo(index, (40, 32)).save(Files.folder / f"{index}.png")
    folder = in_hand(Files(USUAL))
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    assert all_of(in_place_of(Moved(USUAL), folder)) == all_of(Moved(USUAL))
    own = open
    # A sample that is none of those that are compared: 16 of 24, from all over them.
    changed = next(i for i in range(COUNT) if i not in np.linspace(0, COUNT - 1, 16).astype(int))
    photo(99, (41, 33)).save(Moved.folder / f"{changed}.png")
    reason = refused(Moved(USUAL), folder)
    assert f"sample {changed} was made of {Files.folder / f'{changed}.png'}" in reason
    assert f"{tmp_path / 'there'} now" in reason
    assert open is own


def test_a_folder_whose_name_goes_on_is_another_folder(
    in_hand: Callable[[Any], Path], tmp_path: Path
) -> None:
    class Files(Photos):
        first = tmp_path / "photos"

        def image(self, index: int) -> Any:
            folder = self.first if index % 2 == 0 else tmp_path / "photos2"
            return Image.open(folder / f"{index}.png")

    class Moved(Files):
        first = tmp_path / "elsewhere"

    for index in range(COUNT):
        folder = tmp_path / ("photos" if index % 2 == 0 else "photos2")
        folder.mkdir(exist_ok=True)
        photo(index, (40, 32)).save(folder / f"{index}.png")
    packed = in_hand(Files(USUAL))
    (tmp_path / "photos").rename(Moved.first)
    assert all_of(in_place_of(Moved(USUAL), packed)) == all_of(Moved(USUAL))
