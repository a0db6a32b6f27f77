"""Reading libraries that the project itself does not need: their stages, through the doctor."""

from __future__ import annotations

from typing import Any

import pytest

# What a sample of the script's data set goes through.
STAGES = {
    "albumentations": ("Resize", "RandomCrop"),
    "h5py": ("read (h5py)",),
    "opencv": ("decode (OpenCV)", "resize (OpenCV)"),
    "pandas": ("read (pandas)",),
    "pyarrow": ("read (pyarrow)",),
    "soundfile": ("decode (soundfile)",),
    "zarr": ("read (zarr)",),
}
# What is decoded for a sample and used of it, of those that can tell; None is used as it happens.
DECODED = {
    "h5py": ("row", 12, 1),
    "opencv": ("pixel", 192 * 192, 64 * 64),
    "pandas": ("row", 64, None),
    "pyarrow": ("row", 192, None),
    "soundfile": ("audio-frame", 96_000, 16_000),
    "zarr": ("row", 12, 1),
}

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("environment")]


@pytest.mark.parametrize("library", STAGES)
def test_what_a_library_reads_is_a_stage_of_its_own(library: str, examine: Any) -> None:
    diagnosis = examine("libraries", library, "data")
    calls = {stage["stage"]: stage for stage in diagnosis["stages"]}
    for name in STAGES[library]:
        assert name in calls, sorted(calls)
        assert calls[name]["wall_s"] > 0
    # The stage, not the code around it, has the time that the library takes.
    own = calls["Read.__getitem__"]["wall_s"]
    assert sum(calls[name]["wall_s"] for name in STAGES[library]) > own
    wanted = DECODED.get(library)
    told = [(one["unit"], one["decoded"], one["used"]) for one in diagnosis["profile"]["decoded"]]
    if wanted is None:
        assert told == []
    else:
        ((unit, decoded, used),) = told
        assert (unit, decoded) == wanted[:2]
        assert wanted[2] in (None, used)
