"""A data set that is read with one library, by name: what the doctor tells of its stages."""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

SAMPLES = 24
SIDE = 192


def pixels(index):
    return np.random.default_rng(index).integers(0, 256, (SIDE, SIDE, 3), np.uint8)


class Read(Dataset):
    """Samples that `one` makes of their index, and `transform` changes."""

    def __init__(self, one, transform=None):
        self.one, self.transform = one, transform

    def __len__(self):
        return 400

    def __getitem__(self, index):
        sample = self.one(index % SAMPLES)
        if self.transform is not None:
            sample = self.transform(image=sample)["image"]
        return torch.from_numpy(np.ascontiguousarray(sample)).float()


def opencv(folder):
    import cv2

    cv2.setNumThreads(1)
    for index in range(SAMPLES):
        cv2.imwrite(str(folder / f"{index}.png"), pixels(index))
    return Read(lambda index: cv2.resize(cv2.imread(str(folder / f"{index}.png")), (64, 64)))


def albumentations(folder):
    import albumentations as album

    change = album.Compose([album.Resize(96, 96), album.RandomCrop(64, 64)])
    stored = [pixels(index) for index in range(SAMPLES)]
    return Read(stored.__getitem__, change)


def h5py(folder):
    import h5py as h5

    with h5.File(folder / "all.h5", "w") as file:
        stored = np.stack([pixels(index) for index in range(SAMPLES)])
        chunks = (SAMPLES // 2, SIDE, SIDE, 3)  # larger than what is kept of them
        file.create_dataset("x", data=stored, chunks=chunks, compression="gzip")
    opened = h5.File(folder / "all.h5", rdcc_nbytes=0)["x"]
    return Read(lambda index: opened[index][:64, :64])


def zarr(folder):
    import zarr as z

    stored = z.open_array(
        str(folder / "all.zarr"),
        mode="w",
        shape=(SAMPLES, SIDE, SIDE, 3),
        chunks=(SAMPLES // 2, SIDE, SIDE, 3),
        dtype="uint8",
    )
    for index in range(SAMPLES):
        stored[index] = pixels(index)
    return Read(lambda index: stored[index][:64, :64])


def soundfile(folder):
    import soundfile as sound

    for index in range(SAMPLES):
        wave = pixels(index).reshape(-1)[:96_000].astype(np.float32) / 128 - 1
        sound.write(folder / f"{index}.flac", wave, 16_000)
    return Read(lambda index: sound.read(folder / f"{index}.flac", dtype="float32")[0][:16_000])


def pandas(folder):
    import pandas as pd

    for index in range(SAMPLES):
        pd.DataFrame(pixels(index)[:, :, 0][:64]).to_csv(folder / f"{index}.csv", index=False)
    return Read(lambda index: pd.read_csv(folder / f"{index}.csv").to_numpy())


def pyarrow(folder):
    import pyarrow as arrow
    from pyarrow import parquet

    for index in range(SAMPLES):
        table = arrow.table({f"c{at}": pixels(index)[at, :, 0] for at in range(64)})
        parquet.write_table(table, folder / f"{index}.parquet")

    def one(index):
        table = parquet.read_table(folder / f"{index}.parquet")
        return np.stack([column.to_numpy() for column in table.columns])

    return Read(one)


LIBRARIES = {
    each.__name__: each for each in (albumentations, h5py, opencv, pandas, pyarrow, soundfile, zarr)
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(exist_ok=True)
    loader = DataLoader(LIBRARIES[args.library](args.folder), batch_size=8, shuffle=True)
    model = torch.nn.LazyLinear(2)
    model(next(iter(loader)).flatten(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for _ in range(400):
        for batch in loader:
            loss = model(batch.flatten(1)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
