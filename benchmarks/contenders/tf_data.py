"""TensorFlow's tf.data: TFRecords of pixels, and JPEG files of which only the crop is decoded."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import jpegs, packed
from benchmarks.contenders.one import Contender

_RECORDS = "images.tfrecord"


def write(folder: Path) -> None:
    """One TFRecord of raw pixels."""
    tf: Any = importlib.import_module("tensorflow")
    with tf.io.TFRecordWriter(str(folder / _RECORDS)) as writer:
        for image in np.load(folder / "images.npy", mmap_mode="r"):
            writer.write(image.tobytes())


def _batches(data: Any, work: Any, batch: int) -> Any:
    """Two threads of its own, as many as there are cores."""
    tf: Any = importlib.import_module("tensorflow")
    data = data.repeat().map(work, num_parallel_calls=2, deterministic=False)
    data = data.batch(batch, drop_remainder=True).prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 2
    return data.with_options(options).as_numpy_iterator()


def records(folder: Path) -> Any:
    """Random crops of the TFRecord's pixels."""
    tf: Any = importlib.import_module("tensorflow")

    def work(record: Any) -> Any:
        image = tf.reshape(tf.io.decode_raw(record, tf.uint8), [packed.SIDE, packed.SIDE, 3])
        return tf.image.random_crop(image, [packed.CROP, packed.CROP, 3])

    data = tf.data.TFRecordDataset(str(folder / _RECORDS), buffer_size=8 << 20).shuffle(512)
    return _batches(data, work, packed.BATCH)


def _files(folder: Path) -> Any:
    tf: Any = importlib.import_module("tensorflow")
    paths = [str(path) for path in sorted(folder.rglob("*.jpg"))]
    return tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths))


def resized(folder: Path) -> Any:
    """decode_and_crop_jpeg of RandomResizedCrop's box, and tf.image.resize (no antialiasing)."""
    tf: Any = importlib.import_module("tensorflow")

    def work(path: Any) -> Any:
        data = tf.io.read_file(path)
        start, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(data),
            tf.zeros([1, 0, 4]),
            area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.concat([start[:2], size[:2]], 0)
        image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
        return tf.cast(tf.image.resize(image, [224, 224]), tf.uint8)

    return _batches(_files(folder / "files"), work, jpegs.BATCH)


def cropped(name: str, side: int, folder: Path) -> Any:
    """decode_and_crop_jpeg of a random square."""
    tf: Any = importlib.import_module("tensorflow")

    def work(path: Any) -> Any:
        data = tf.io.read_file(path)
        free = tf.io.extract_jpeg_shape(data)[:2] - side + 1
        start = tf.cast(tf.random.uniform([2]) * tf.cast(free, tf.float32), tf.int32)
        window = tf.concat([start, [side, side]], 0)
        return tf.ensure_shape(
            tf.image.decode_and_crop_jpeg(data, window, channels=3), [side, side, 3]
        )

    return _batches(_files(folder / name), work, jpegs.BATCH)


_NEEDED = ("tensorflow",)

CONTENDERS = {
    "tf.data, TFRecord": Contender(records, packed.BATCH, _NEEDED, _RECORDS),
    "tf.data, decode_and_crop": Contender(resized, jpegs.BATCH, _NEEDED, "files"),
}
for _name, (_folder, _side) in jpegs.CROPS.items():
    CONTENDERS[f"tf.data, decode_and_crop, {_name}"] = Contender(
        partial(cropped, _folder, _side), jpegs.BATCH, _NEEDED, _folder
    )
