"""What is decoded or unpacked and thrown away, how much of loading that is, and what ends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from stoker.diagnose.facts import Facts
from stoker.diagnose.judgement import row
from stoker.diagnose.wording import count, percent
from stoker.records.diagnosis import Evidence
from stoker.records.profile import Decoded, Unit

# So many times what is used, in bytes read or in units decoded. Below it much is ordinary: every
# fourth frame of a clip, audio brought from 48 kHz to 8.
AMPLIFIED = 8.0
# The share of a sample's time from which on what is thrown away is why loading is slow.
_MOST = 0.5
_NOUNS = {
    Unit.FRAME: "video frames",
    Unit.AUDIO_FRAME: "audio frames",
    Unit.ROW: "rows",
    Unit.PIXEL: "pixels",
}


@dataclass(frozen=True)
class Waste:
    """Units of which few are used. `share`: of a sample's time, what the others take."""

    found: Decoded
    times: float
    share: float

    @property
    def kind(self) -> str:
        """As the kind of the verdict."""
        return {Unit.AUDIO_FRAME: "audio"}.get(self.found.unit, f"{self.found.unit}s")

    @property
    def sentence(self) -> str:
        """What the verdict says."""
        seen, used = count(self.found.decoded), count(self.found.used or 0.0)
        return (
            f"For each sample {seen} {_NOUNS[self.found.unit]} are decoded and {used} used, "
            f"{self.times:.1f} times as many: {percent(self.share)} of a sample's time goes into "
            "what is thrown away."
        )

    def rows(self) -> list[Evidence]:
        """What was seen of it."""
        noun, used = _NOUNS[self.found.unit], count(self.found.used or 0.0)
        return [
            row(
                f"{noun} decoded for each that is used",
                self.times,
                f"{count(self.found.decoded)} for {used} a sample",
                "S",
                "x",
            ),
            row(
                "share of a sample's time for those thrown away",
                self.share,
                f"in {', '.join(self.found.stages)}",
                "S",
                "share",
            ),
        ]


def find_waste(facts: Facts) -> Waste | None:
    """The units that loading spends most of its time on for nothing; None where it does not.

    Pixels are none: making a picture smaller is what resizing is for.
    """
    found = []
    for one in facts.profile.decoded:
        times = one.times
        if one.unit is Unit.PIXEL or times is None or times < AMPLIFIED:
            continue
        found.append(Waste(one, times, _spent(facts, one) * (1 - 1 / times)))
    largest = max(found, key=lambda waste: waste.share, default=None)
    return largest if largest is not None and largest.share >= _MOST else None


def _spent(facts: Facts, found: Decoded) -> float:
    """Share of a sample's time in the stages that decode it."""
    return facts.share_of(lambda stage: stage.stage in found.stages)


def pictures(facts: Facts) -> Decoded | None:
    """Pixels decoded and delivered; None where either is not known."""
    return next((one for one in facts.profile.decoded if one.unit is Unit.PIXEL and one.used), None)


class Way(NamedTuple):
    """A fix in the words of what is wasted."""

    title: str
    how: str
    costs: str


_BY_GROUPS = Way(
    "take all that is needed from a group while it is unpacked",
    "shuffle groups, and samples within a few groups kept in memory",
    "memory for a few groups; samples of a batch are more alike",
)
_ACCESS = {
    Unit.FRAME: Way(
        "decode only the frames that are used",
        "seek before reading: capture.set(cv2.CAP_PROP_POS_FRAMES, first), container.seek(…) of "
        "PyAV, get_batch(indices) of decord",
        "nothing; between the key frame before it and the first frame all are decoded",
    ),
    Unit.AUDIO_FRAME: Way(
        "decode only the stretch that is used",
        "soundfile.read(path, start=first, frames=count), torchaudio.load(path, frame_offset=…, "
        "num_frames=…), librosa.load(path, offset=…, duration=…)",
        "nothing",
    ),
    Unit.ROW: _BY_GROUPS._replace(
        how=f"{_BY_GROUPS.how}; read_table(…, columns=[…]) where few columns are used",
    ),
}
_RECHUNK = {
    Unit.FRAME: Way(
        "store videos as clips, or with more key frames",
        "ffmpeg -i VIDEO -g 16 COPY puts a key frame every 16; or a file for each clip that is cut",
        "disk space, and one pass over the data",
    ),
    Unit.AUDIO_FRAME: Way(
        "store pieces about as long as what is used",
        "cut each recording into files of a few times the length of a sample",
        "disk space, and one pass over the data",
    ),
}
_IN_GROUPS = Way(
    "store in units of what is read at once",
    "write the data anew in groups of about a batch",
    "disk space, and one pass over the data",
)


def access(facts: Facts) -> Way:
    """How to read less of what is stored as it is."""
    waste = find_waste(facts)
    return _BY_GROUPS if waste is None else _ACCESS.get(waste.found.unit, _BY_GROUPS)


def rechunk(facts: Facts) -> Way:
    """How to store it so that less is read."""
    waste = find_waste(facts)
    return _IN_GROUPS if waste is None else _RECHUNK.get(waste.found.unit, _IN_GROUPS)
