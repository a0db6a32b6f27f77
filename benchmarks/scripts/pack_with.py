"""Packs JPEGs as 256² raw pixels with somebody else's writer; prints the seconds that it took.

    python pack_with.py litdata|mds|webdataset|ffcv|limit LIST FOLDER WORKERS

LIST names one file a line. The work is the same for all: Pillow decodes, Pillow's bilinear filter
resizes, the pixels and the label are written. `limit` is no format: simplejpeg decodes and the
pixels go to one file a process, the least that this work can cost with these libraries.
Runs in the environment of the package that is named, so it imports nothing of Stoker.
"""

import io
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from PIL import Image

SIZE = (256, 256)


def pixels(path):
    with Image.open(path) as image:
        small = image.convert("RGB").resize(SIZE, Image.Resampling.BILINEAR)
    return np.asarray(small)


def label(path):
    return sum(Path(path).parent.name.encode()) % 1000


def litdata_sample(path):
    return {"image": pixels(path).tobytes(), "label": label(path)}


def run_litdata(paths, folder, workers):
    from litdata import optimize

    start = time.perf_counter()
    optimize(
        fn=litdata_sample,
        inputs=paths,
        output_dir=folder,
        num_workers=workers,
        chunk_bytes="256MB",
        start_method="fork",
    )
    return time.perf_counter() - start


def mds_part(job):
    paths, folder = job
    from streaming import MDSWriter

    columns = {"image": "bytes", "label": "int"}
    with MDSWriter(out=folder, columns=columns, size_limit="256mb") as writer:
        for path in paths:
            writer.write({"image": pixels(path).tobytes(), "label": label(path)})


def webdataset_part(job):
    paths, folder = job
    import webdataset

    Path(folder).mkdir(parents=True)
    pattern = f"{folder}/%05d.tar"
    with webdataset.ShardWriter(pattern, maxsize=256e6, verbose=0) as writer:
        for number, path in enumerate(paths):
            data = pixels(path).tobytes()
            writer.write({"__key__": f"{number:08}", "bin": data, "cls": label(path)})


class FfcvSamples:
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, number):
        return pixels(self.paths[number]), label(self.paths[number])


def run_ffcv(paths, folder, workers):
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    Path(folder).mkdir(parents=True)
    fields = {"image": RGBImageField(write_mode="raw"), "label": IntField()}
    start = time.perf_counter()
    writer = DatasetWriter(f"{folder}/pixels.beton", fields, num_workers=workers)
    writer.from_indexed_dataset(FfcvSamples(paths))
    return time.perf_counter() - start


def limit_part(job):
    paths, folder = job
    import simplejpeg

    Path(folder).mkdir(parents=True)
    buffer = bytearray(512 * 512 * 3)
    with Path(folder, "pixels.bin").open("wb", buffering=0) as file:
        for path in paths:
            decoded = simplejpeg.decode_jpeg(Path(path).read_bytes(), buffer=buffer)
            size = decoded.shape[1], decoded.shape[0]
            image = Image.frombuffer("RGB", size, decoded, "raw", "RGB", 0, 1)
            file.write(np.asarray(image.resize(SIZE, Image.Resampling.BILINEAR)).data)


def run_parts(part, paths, folder, workers):
    with get_context("fork").Pool(workers) as pool:
        start = time.perf_counter()
        jobs = [(paths[n::workers], f"{folder}/{n}") for n in range(workers)]
        pool.map(part, jobs, chunksize=1)
        return time.perf_counter() - start


def main():
    kind, listed, folder, workers = sys.argv[1:]
    paths, workers = Path(listed).read_text().splitlines(), int(workers)
    parts = {"mds": mds_part, "webdataset": webdataset_part, "limit": limit_part}
    pixels(io.BytesIO(Path(paths[0]).read_bytes()))  # imports and plugins, for everybody
    whole = {"litdata": run_litdata, "ffcv": run_ffcv}
    if kind in whole:
        seconds = whole[kind](paths, folder, workers)
    else:
        if kind == "mds":
            import streaming  # noqa: F401
        if kind == "webdataset":
            import webdataset  # noqa: F401
        seconds = run_parts(parts[kind], paths, folder, workers)
    print(f"seconds {seconds}")


if __name__ == "__main__":
    main()
