"""Fixes of single operations: decode less, replace the dearest, keep memory, capture the step.

As in `changes`: None where a fix does not apply, or where nothing lets us say what it would give.
"""

from __future__ import annotations

from pathlib import PurePath
from statistics import median

from stoker.diagnose.case import Case, scaled, with_stage_costs, with_work
from stoker.diagnose.waste import pictures
from stoker.records.profile import THREADS
from stoker.records.scenario import Resource, Scenario
from stoker.stats import Spread

# What is left of decoding a JPEG at 1/2, 1/4 and 1/8 of its sides: its bits are read whatever is
# made of them. Median and range of six photos of 1.2 to 7.8 megapixels, each at quality 75 and 90
# and with grain, by Pillow's draft(); grain is the upper end.
_DECODE_LEFT = {
    2: Spread(0.71, 0.53, 0.79),
    4: Spread(0.53, 0.45, 0.74),
    8: Spread(0.47, 0.39, 0.65),
}
# Where each library decodes at a reduced scale.
_REDUCED = {
    "decode (Pillow)": 'image.draft("RGB", (side, side)) between Image.open and the first pixel',
    "decode (OpenCV)": "cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_{scale})",
    "decode (simplejpeg)": "simplejpeg.decode_jpeg(data, min_height=side, min_width=side)",
}
_JPEG = (".jpg", ".jpeg")
_JPEG_ONLY = ("decode (simplejpeg)",)
# A photo has at most four bits a pixel but at the highest qualities (those above 0.5 to 2.4), so a
# byte is two pixels or more; a finished sample has one byte a colour or more.
_PIXELS_A_BYTE = 2.0
_BYTES_A_PIXEL = 3.0

# An operation below this share of the work is not worth another library.
_DEAREST_WORTH = 0.30
_REPLACED_LEFT = 0.5
# What others take for the same; every other operation is looked at with a profiler.
_FASTER = {
    "decode (Pillow)": "simplejpeg.decode_jpeg, or torchvision.io.decode_jpeg",
    "resize (Pillow)": "Image.reduce before it, or cv2.resize(…, interpolation=cv2.INTER_AREA)",
    "parse (json)": "msgspec.json or orjson",
    "parse (csv)": "pyarrow.csv, once, into arrays",
    "tokenize (transformers)": "a fast tokenizer (use_fast=True), a whole batch in one call",
    "decompress (gzip)": "zstd or lz4 in place of gzip",
    "decompress (lzma)": "zstd or lz4 in place of lzma",
}
# What has fixes of its own, or is no single operation.
_NO_OPERATION = ("collate", "fetch", "hand-off", "loading")

# Of the CPU time of workers that decode with Pillow 77 % was left (interleaved median); with other
# libraries it may be all.
_KEPT_MEMORY_LEFT = 0.77
# glibc gives blocks from this size on back to the kernel, and faults them in anew.
_MMAP_THRESHOLD = 128 * 1024

# A captured step is one launch; a twentieth of what single launches took is a cautious reading.
_CAPTURED_LEFT = 0.05


# -- decoding --------------------------------------------------------------------------------------


def reduced_decode(case: Case) -> Scenario | None:
    """JPEGs decoded at 1/2, 1/4 or 1/8 of their sides, where what is used of them is so small."""
    found = _decoder(case), decode_scale(case)
    if found[0] is None or found[1] is None:
        return None
    return with_stage_costs(case.scenario, {found[0]}, _DECODE_LEFT[found[1]])


def how_to_reduce(case: Case) -> str:
    """In the words of the library that decodes, and what is decoded now."""
    stage, scale = _decoder(case), decode_scale(case)
    how = _REDUCED[stage or "decode (Pillow)"].format(scale=scale or 2)
    seen = pictures(case.facts)
    if seen is None or not seen.used:
        return how
    pixels, used = seen.decoded / 1e6, seen.used / 1e6
    return f"{how}; now {pixels:.3g} megapixels are decoded for {used:.3g} of a sample"


def decode_scale(case: Case) -> int | None:
    """By how much the sides of the pictures may shrink; None where files are no JPEGs, or small.

    From the pixels that are decoded and delivered, where they were counted. Else from bytes: a file
    has two pixels a byte or more, a sample no more than one for three bytes, so the true ratio is
    larger than the one compared here.
    """
    size, used = _jpeg_bytes(case), case.facts.sample_bytes
    is_jpeg = size is not None or _decoder(case) in _JPEG_ONLY
    seen = pictures(case.facts)
    if seen is not None and seen.times is not None and is_jpeg:
        ratio = seen.times
    elif size is not None and used is not None:
        ratio = size * _PIXELS_A_BYTE / (used / _BYTES_A_PIXEL)
    else:
        return None
    return next((scale for scale in (8, 4, 2) if ratio >= scale * scale), None)


def _decoder(case: Case) -> str | None:
    """The stage that decodes pictures with a library that can decode less."""
    return max(
        (name for name in _by_stage(case) if name in _REDUCED),
        key=lambda name: _by_stage(case)[name],
        default=None,
    )


def _jpeg_bytes(case: Case) -> float | None:
    """Bytes of a usual file, where the loader's files are JPEGs."""
    profile = case.facts.profile
    sizes = [
        one.size
        for one in profile.slowest
        if one.path and one.size and PurePath(one.path).suffix.lower() in _JPEG
    ]
    if not sizes:
        return None
    usual = float(median(sizes))
    return usual if profile.reads is None else min(usual, profile.reads.bytes_per_read)


# -- any operation ---------------------------------------------------------------------------------


def replace_op(case: Case) -> Scenario | None:
    """The dearest operation at half of what it costs: what a faster one gives nobody knows."""
    found = dearest(case)
    if found is None:
        return None
    return with_stage_costs(case.scenario, {found[0]}, Spread.exact(_REPLACED_LEFT))


def dearest(case: Case) -> tuple[str, float] | None:
    """The operation that takes most of the CPU time of a sample, and its share of it."""
    costs = _by_stage(case)
    whole = sum(costs.values())
    single = {
        name: seconds
        for name, seconds in costs.items()
        if name not in _NO_OPERATION and "__getitem" not in name
    }
    name = max(single, key=lambda one: single[one], default=None)
    if name is None or single[name] < _DEAREST_WORTH * whole:
        return None
    return name, single[name] / whole


def how_to_replace(case: Case) -> str:
    """Which operation, and what others take for it."""
    name, share = dearest(case) or ("the dearest operation", 0.0)
    other = _FASTER.get(name, "a compiled library for it, or the same on whole arrays")
    return f"{name} takes {share:.0%} of the work on a sample: {other}"


# -- memory of the workers -------------------------------------------------------------------------


def kept_memory(case: Case) -> Scenario | None:
    """Workers that keep freed memory, where samples are large enough to be given back each time."""
    facts = case.facts
    is_large = (facts.sample_bytes or 0.0) >= _MMAP_THRESHOLD or _decoder(case) is not None
    if not facts.workers or facts.loader.start_method == THREADS or not is_large:
        return None
    return with_work(case.scenario, stages=scaled(case.scenario, _KEPT_MEMORY_LEFT))


# -- the step --------------------------------------------------------------------------------------


def captured(case: Case) -> Scenario | None:
    """The step recorded once and launched as a whole: its single launches go."""
    launch, device = case.facts.launch_s, case.scenario.workload.device_s
    if launch is None or not case.facts.has_device or device.median <= 0:
        return None
    fixed = min(launch, case.facts.device_waits_s) / device.median
    saved = min(1.0, fixed) * (1 - _CAPTURED_LEFT)
    return with_work(case.scenario, device_s=device.scaled(1 - saved))


def _by_stage(case: Case) -> dict[str, float]:
    """CPU-seconds of a sample by stage; a stage may stand there in parts."""
    costs: dict[str, float] = {}
    for cost in case.scenario.workload.stages:
        if cost.resource is Resource.CORES:
            costs[cost.stage] = costs.get(cost.stage, 0.0) + cost.per_sample.median
    return costs
