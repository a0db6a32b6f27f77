"""REMEDIES: what each name of `--apply` does to a loader's settings, in the order of building."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stoker.remedy.allocator import allocator
from stoker.remedy.cache_local import cache_local
from stoker.remedy.cache_ram import cache_ram
from stoker.remedy.native_threads import native_threads
from stoker.remedy.packed import pack
from stoker.remedy.persistent_workers import persistent_workers
from stoker.remedy.pinned_async import pinned_async
from stoker.remedy.queueing import prefetch_depth, unordered
from stoker.remedy.request import Request
from stoker.remedy.restore_affinity import restore_affinity
from stoker.remedy.settings import Change, Refusal, Settings, Subject
from stoker.remedy.workers import overlap, workers

Remedy = Callable[[Subject, Settings, Request], Change | Refusal]

# Workers first: the others ask whether there are any. The pack below files and
# those below samples, so that the cache of samples is asked first and the pack last.
REMEDIES: dict[str, Remedy] = {
    "overlap": overlap,
    "workers": workers,
    "persistent-workers": persistent_workers,
    "prefetch-depth": prefetch_depth,
    "unordered": unordered,
    "native-threads": native_threads,
    "restore-affinity": restore_affinity,
    "allocator": allocator,
    "pack": pack,
    "cache-local": cache_local,
    "cache-ram": cache_ram,
    "pinned-async": pinned_async,
}


@dataclass(frozen=True)
class Plan:
    """The settings with all that was not refused, and what was said of each."""

    settings: Settings
    applied: tuple[tuple[Request, Change], ...]
    refused: tuple[tuple[Request, Refusal], ...]


def plan(subject: Subject, requests: Sequence[Request]) -> Plan:
    """Apply in order; a refused remedy leaves the settings as they are."""
    settings = subject.settings
    applied: list[tuple[Request, Change]] = []
    refused: list[tuple[Request, Refusal]] = []
    order = list(REMEDIES)
    asked = {request.name for request in requests}
    for request in sorted(requests, key=lambda one: order.index(one.name)):
        if request.name == "overlap" and "workers" in asked:
            continue  # the number says it all
        result = REMEDIES[request.name](subject, settings, request)
        if isinstance(result, Refusal):
            refused.append((request, result))
        else:
            settings = result.settings
            applied.append((request, result))
    return Plan(settings, tuple(applied), tuple(refused))
