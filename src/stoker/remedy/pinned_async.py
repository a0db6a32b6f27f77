"""Pinned memory, an asynchronous copy and the next batch early, as one change."""

from __future__ import annotations

from dataclasses import replace

from stoker.remedy.request import Request
from stoker.remedy.settings import SAME, Change, Refusal, Settings, Subject


def pinned_async(subject: Subject, settings: Settings, _: Request) -> Change | Refusal:
    """The copy of the next batch goes on while this step runs."""
    if not subject.has_device:
        return Refusal("the model lives on the host: nothing is copied")
    if settings.workers == 0:
        return Refusal("samples are made in the training process: overlap first")
    return Change(
        replace(settings, pin_memory=True, is_fed=True, delivers_early=True),
        "the next batch is fetched and copied while a step runs",
        SAME,
    )
