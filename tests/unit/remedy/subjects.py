"""Loaders as preconditions see them, on a machine that lacks nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stoker.remedy.settings import Settings, Subject


def subject_of(settings: Settings, dataset: Any, **changes: Any) -> Subject:
    """Four cores, memory that nobody has counted, no device; but for `changes`."""
    plain = Subject(
        settings=settings,
        dataset=dataset,
        is_iterable=False,
        cores=4.0,
        shm_free_bytes=None,
        memory_available_bytes=None,
        worker_bytes=1,
        batch_bytes=None,
        has_device=False,
    )
    return replace(plain, **changes)
