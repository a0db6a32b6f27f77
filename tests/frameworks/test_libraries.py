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
