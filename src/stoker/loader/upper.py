"""The upper part of an ordinary JPEG: decoded down to the last row that is needed, and no further.

A baseline JPEG codes its rows from the top, so a decoder that believes the picture to end earlier
stops there, Huffman decoding included. Only what it says of the rest tells that from a damaged
file.
"""

from __future__ import annotations

import re

from stoker.pack.jpeg_head import JpegHead

# libjpeg's word for bytes after the last row; of what goes wrong in a picture its first word stays,
# so nothing was wrong before.
_REST = re.compile(r"Corrupt JPEG data: \d+ extraneous bytes before marker 0xd9")


def rows_for(head: JpegHead, bottom: int, *, scale: int) -> int | None:
    """Rows to decode for those above `bottom`; None where all have to be.

    `scale` is the DCT scale 1/`scale` that will be decoded at.
    """
    can_end = (
        head.is_sequential
        and head.is_one_scan
        # After a restart marker the rest can't be told from a damaged segment.
        and not head.interval
        and len(head.sampling) in (1, 3)
    )
    # Coarser chroma is interpolated between rows: the last one would be wrong.
    unit = head.mcu[1]
    rows = bottom + (scale if unit > 8 else 0)
    rows += -rows % scale
    # Slivers have one size at several scales; and less than a row of units is not worth it.
    if not can_end or rows <= 8 * scale or rows + unit > head.height:
        return None
    return rows


def ended_at(jpeg: bytes | bytearray | memoryview, head: JpegHead, rows: int) -> bytearray:
    """The same JPEG with a head that says it has only so many rows."""
    shorter = bytearray(jpeg)
    shorter[head.size_at : head.size_at + 2] = rows.to_bytes(2, "big")
    return shorter


def is_only_rest(error: ValueError) -> bool:
    """True where a decoder has decoded all rows, and complains of the bytes after them."""
    return _REST.fullmatch(str(error)) is not None
