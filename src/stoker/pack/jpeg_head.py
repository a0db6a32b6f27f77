"""What the bytes of a JPEG say of it before its entropy-coded data (ITU-T T.81, annex B)."""

from __future__ import annotations

from typing import NamedTuple

Buffer = bytes | bytearray | memoryview

# Start of frame: baseline and extended sequential, both decoded block after block.
_SEQUENTIAL = (0xC0, 0xC1)
# All others, but for the tables that have their numbers: DHT, JPG and DAC.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class JpegHead(NamedTuple):
    """A picture's frame, and where it stands."""

    length: int  # bytes up to the entropy-coded data
    size_at: int  # where height and width stand, two bytes each
    width: int
    height: int
    sampling: tuple[tuple[int, int], ...]  # of each component, across and down
    interval: int  # MCUs between restart markers; 0 without
    is_sequential: bool  # not progressive, lossless or arithmetic
    is_one_scan: bool  # all components in one scan, MCU after MCU

    @property
    def mcu(self) -> tuple[int, int]:
        """Width and height of the unit of coding, in pixels."""
        # With one component the unit is one block, whatever its factors say (T.81, A.2.2).
        if len(self.sampling) == 1:
            return 8, 8
        return 8 * max(h for h, _ in self.sampling), 8 * max(v for _, v in self.sampling)


def read(jpeg: Buffer) -> JpegHead:
    """The head. Raises ValueError where there is none."""
    view = memoryview(jpeg)
    at, interval, marker_of_frame, frame, frame_at = 2, 0, 0, b"", 0
    if bytes(view[:2]) != b"\xff\xd8":
        raise ValueError("no JPEG: it doesn't begin with FF D8")
    while at + 4 <= len(view):
        marker, length = view[at + 1], view[at + 2] << 8 | view[at + 3]
        if marker in _FRAMES:
            marker_of_frame, frame, frame_at = marker, bytes(view[at + 4 : at + 2 + length]), at + 4
        elif marker == 0xDD:
            interval = view[at + 4] << 8 | view[at + 5]
        elif marker == 0xDA:
            if len(frame) < 6 or len(frame) < 6 + 3 * frame[5] or at + 5 > len(view):
                break
            return JpegHead(
                length=at + 2 + length,
                size_at=frame_at + 1,
                width=frame[3] << 8 | frame[4],
                height=frame[1] << 8 | frame[2],
                sampling=tuple(
                    (frame[7 + 3 * i] >> 4, frame[7 + 3 * i] & 15) for i in range(frame[5])
                ),
                interval=interval,
                is_sequential=marker_of_frame in _SEQUENTIAL,
                is_one_scan=view[at + 4] == frame[5],
            )
        at += 2 + length
    raise ValueError("a JPEG that ends before its picture")
