"""Which bytes of a file are in this machine's page cache, and out of it again without root.

Standard library only. Reads and advises; changes no file.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import lru_cache
from typing import Any

_PAGE = mmap.PAGESIZE
# Pages are cached in folios of up to 2 MiB, and only whole folios inside the advised range go.
_LARGEST_FOLIO = 2 * 1024 * 1024
_MAP_FAILED = ctypes.c_void_p(-1).value


def cached_share(path: str, offset: int = 0, length: int | None = None) -> float | None:
    """Share of the file's pages in that range that are in the page cache; None when unseen.

    Unseen: not a plain file, no pages in the range, or somebody else's file that this process may
    not write: for those the kernel claims that every page is cached (mincore(2), since Linux 5.2).
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not _may_see(handle, path):
            return None
        start = offset - offset % _PAGE
        end = os.fstat(handle).st_size
        if length is not None:
            end = min(end, offset + length)
        return _resident(handle, start, end - start) if end > start else None
    except OSError:
        return None
    finally:
        os.close(handle)


def evict(path: str, offset: int = 0, length: int | None = None, *, flush: bool = False) -> bool:
    """Ask the kernel to drop that range from the page cache; False when the file can't be opened.

    Without `length` the whole file, otherwise the range with room for whole folios at its ends.
    `flush` waits for the file's dirty pages to be written first: only clean ones can be dropped.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if flush:
            os.fdatasync(handle)
        if length is None:
            start, count = 0, 0  # zero bytes mean: to the end of the file
        else:
            start = offset - offset % _LARGEST_FOLIO
            count = offset + length - start
            count += -count % _LARGEST_FOLIO
        os.posix_fadvise(handle, start, count, os.POSIX_FADV_DONTNEED)
    except OSError:  # a file system without the call
        return False
    finally:
        os.close(handle)
    return True


def _may_see(handle: int, path: str) -> bool:
    facts = os.fstat(handle)
    return os.geteuid() in (0, facts.st_uid) or os.access(path, os.W_OK, effective_ids=True)


def _resident(handle: int, start: int, length: int) -> float:
    """Share of the mapped pages that mincore calls resident. Raises OSError when it refuses."""
    libc = _libc()
    pages = (length + _PAGE - 1) // _PAGE
    flags = (mmap.PROT_READ, mmap.MAP_SHARED, handle, start)
    address = libc.mmap(None, length, *flags)
    if address in (None, _MAP_FAILED):
        raise OSError(ctypes.get_errno(), "mmap")
    try:
        states = ctypes.create_string_buffer(pages)
        if libc.mincore(address, length, states) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
    finally:
        libc.munmap(address, length)
    # Only the lowest bit of each byte is defined.
    return sum(state & 1 for state in states.raw) / pages


@lru_cache(maxsize=1)
def _libc() -> Any:
    """The C library with the three calls declared: Python's own mmap gives no address away."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc
