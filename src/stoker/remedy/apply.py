"""REMEDIES: what each name of `--apply` does to a loader's settings, in the order of building."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

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

    subject: Subject
    settings: Settings
    applied: tuple[tuple[Request, Change], ...]
    refused: tuple[tuple[Request, Refusal], ...]

    @property
    def needs_bytes(self) -> int:
        """Memory that all of them take together."""
        return sum(change.needs_bytes for _, change in self.applied)

    def without(self, request: Request) -> Plan | None:
        """All that was applied but this one; None where that is nothing, or the others need it."""
        others = tuple(each for each in self.applied if each[0] != request)
        made = plan(self.subject, [one for one, _ in others], known=dict(others))
        return None if made.refused or not others else made


def plan(
    subject: Subject, requests: Sequence[Request], *, known: Mapping[Request, Change] | None = None
) -> Plan:
    """Apply in order; a refused remedy leaves the settings as they are.

    `known`: changes of an earlier plan for this subject, whose layers are taken as they are, with
    what they hold.
    """
    settings, judged_by = subject.settings, subject
    applied: list[tuple[Request, Change]] = []
    refused: list[tuple[Request, Refusal]] = []
    order = list(REMEDIES)
    asked = {request.name for request in requests}
    for request in sorted(requests, key=lambda one: order.index(one.name)):
        if request.name == "overlap" and "workers" in asked:
            continue  # the number says it all
        earlier = known.get(request) if known is not None else None
        if earlier is not None and earlier.layer is not None:
            result: Change | Refusal = replace(earlier, settings=settings)
        else:
            result = REMEDIES[request.name](judged_by, settings, request)
        if isinstance(result, Refusal):
            refused.append((request, result))
            continue
        settings = result.settings
        if result.layer is not None:
            settings = replace(settings, layers=(*settings.layers, result.layer))
        taken = judged_by.memory_taken_bytes + result.needs_bytes
        judged_by = replace(judged_by, memory_taken_bytes=taken)
        applied.append((request, result))
    return Plan(subject, settings, tuple(applied), tuple(refused))
