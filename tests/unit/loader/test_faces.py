"""A pack as a map-style data set, and a Loader as a torch DataLoader."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import torch

import stoker
from stoker.loader.faces import PackDataset, torch_loader
from stoker.pack import Codec, write_arrays
from tests.unit.loader.test_jpeg import SIDE, encoded, tiles


def test_a_pack_is_a_data_set_for_torchs_loader(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (10, 4, 4, 3), np.uint8)
    pack = write_arrays(tmp_path / "p", {"image": images, "label": np.arange(10) * 3})
    data = pickle.loads(pickle.dumps(PackDataset(pack.path, transform=torch.from_numpy)))
    image, label = data[4]
    assert np.array_equal(image, images[4]) and label == 12
    batches = list(torch.utils.data.DataLoader(data, batch_size=5, num_workers=1))
    assert torch.equal(batches[1][0], torch.from_numpy(images[5:]))


def test_encoded_pictures_and_texts_come_decoded(tmp_path: Path) -> None:
    columns = {
        "image": [(encoded(tile), (SIDE, SIDE, 3)) for tile in tiles()],
        "text": [f"picture {number}" for number in range(12)],
    }
    pack = write_arrays(tmp_path / "p", columns, codecs={"image": Codec.JPEG})
    image, text = PackDataset(pack)[7]
    assert image.shape == (SIDE, SIDE, 3) and text == "picture 7"


def test_a_loader_behind_a_torch_dataloader_gives_its_own_batches(tmp_path: Path) -> None:
    pack = write_arrays(tmp_path / "p", {"x": np.arange(20.0), "label": np.arange(20)})
    loader = stoker.Loader(pack, 6, shuffle=True)
    face = torch_loader(loader)
    assert isinstance(face, torch.utils.data.DataLoader) and len(face) == 4
    first = [batch["index"].tolist() for batch in face]
    face.dataset.set_epoch(0)
    assert [batch.index.tolist() for batch in face] == first
    assert loader.state_dict()["epoch"] == 1
