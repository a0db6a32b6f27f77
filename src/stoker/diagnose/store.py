"""What kind of store stands behind a loader: from raw reads of its files, or from its own rates.

Raw reads (leg Q) vary size, readers and time, and nothing but the store is in them; but a sample
may wait for something that is in no file. So they speak only where they explain the waits.
"""

from __future__ import annotations

from stoker.diagnose.facts import Facts
from stoker.diagnose.judgement import row
from stoker.diagnose.wording import ms
from stoker.probe.storage.scaling import classify_scaling
from stoker.records.diagnosis import Evidence
from stoker.records.profile import Leg, ReadCost
from stoker.records.storage import RatePoint, StoreKind, StoreScaling
from stoker.stats import Spread

_NO_LIMIT = (StoreKind.FAST, StoreKind.UNKNOWN)
# Stores that give more to more readers; a fast one does until the cores are full.
_GIVES_MORE = (StoreKind.LATENCY, StoreKind.SLOTS, StoreKind.FAST)
# Of a sample's waits this much must be its file's reads: half, on a scale of factors, less what
# one reader alone waits less than several do.
_EXPLAINED = 0.3


def store_of(facts: Facts) -> StoreScaling | None:
    """The kind of store, or None when neither reads nor worker counts tell it."""
    reads = _reads_waited_for(facts)
    if reads is not None and reads.store is not None and reads.store.kind not in _NO_LIMIT:
        return reads.store
    return _by_workers(facts, reads)


def gives_more(facts: Facts) -> bool:
    """Whether more workers get more from what they wait for."""
    store = store_of(facts)
    return store is not None and store.kind in _GIVES_MORE


def is_elsewhere(facts: Facts) -> bool:
    """Whether samples wait for something that is in none of the files which were read again."""
    reads = facts.profile.reads
    if reads is None or reads.cold_s is None or facts.waits_a_sample_s is None:
        return False
    return _reads_waited_for(facts) is None


def most_reads_per_s(facts: Facts) -> float | None:
    """Samples a second that the store gives at the most, where it was seen to have an end.

    A rate, not a number of slots: with more workers than slots their waits contain the queue.
    Taken from the loader's own rates: a sample may be more than one read.
    """
    store = _by_workers(facts, _reads_waited_for(facts))
    if store is None or store.kind in _NO_LIMIT or store.kind is StoreKind.LATENCY:
        return None
    return store.most_per_s


def read_rows(facts: Facts) -> list[Evidence]:
    """What reading the loader's own files costs."""
    reads = facts.profile.reads
    if reads is None:
        return []
    rows = []
    if reads.cold_s is not None:
        warm = f"from memory {ms(reads.warm_s)}" if reads.warm_s is not None else ""
        rows.append(row("reading a file that it opens, from its store", reads.cold_s, warm, "Q"))
    if reads.cold_s is not None and reads.latency_s is not None:
        size = f"{reads.bytes_per_read / 1e3:.0f} kB"
        rows.append(
            row(
                f"of it, whatever the size of the file ({size})",
                min(reads.latency_s, reads.cold_s.median),
                f"the whole {ms(reads.cold_s)}",
                "Q",
            )
        )
    if reads.resident_share is not None:
        rows.append(
            row(
                "share of its files' bytes in memory before",
                reads.resident_share,
                "1 when all are",
                "Q",
                "share",
            )
        )
    return rows


def reads_told(facts: Facts) -> str:
    """A sentence where the files that were read again can't be what the workers wait for."""
    reads, waits = facts.profile.reads, facts.waits_a_sample_s
    if reads is None or waits is None:
        return ""
    if reads.cold_s is None and reads.never_cold is not None:
        return f" What its files' store costs could not be measured: {reads.never_cold}."
    if reads.cold_s is None or not is_elsewhere(facts):
        return ""
    return (
        f" The files that it opens are not it: one is read from its store in {ms(reads.cold_s)} of "
        f"the {ms(waits)} that a sample waits. A service, a lock or a pause takes the rest."
    )


def _reads_waited_for(facts: Facts) -> ReadCost | None:
    """Leg Q where its reads, by as many readers as there are workers, explain the waits."""
    reads, waits = facts.profile.reads, facts.waits_a_sample_s
    if reads is None or reads.cold_s is None or waits is None:
        return None
    most = reads.cold_s.median * max(1, facts.workers)
    return reads if most >= _EXPLAINED * waits else None


def _by_workers(facts: Facts, reads: ReadCost | None) -> StoreScaling | None:
    """From the loader's rates at several worker counts; None when only one was measured."""
    legs = [facts.alone, *facts.profile.scaling] if facts.alone else []
    points = [_point(facts, leg) for leg in legs if leg.workers >= 1]
    if len(points) < 2:
        return None
    fixed = None
    if reads is not None and reads.cold_s is not None and reads.latency_s is not None:
        fixed = min(1.0, reads.latency_s / reads.cold_s.median)
    return classify_scaling(sorted(points, key=lambda point: point.readers), fixed_share=fixed)


def _point(facts: Facts, leg: Leg) -> RatePoint:
    """Samples a second that the workers of a leg got together."""
    batch, period = facts.batch_size, leg.period
    low = batch / period.high if period.high > 0 else 0.0
    high = batch / period.low if period.low > 0 else float("inf")
    cpu = leg.cpu_s.median if leg.cpu_s is not None else None
    queued = leg.runqueue_s.median if leg.runqueue_s is not None else 0.0
    return RatePoint(
        readers=leg.workers,
        requests_per_s=Spread(batch / period.median, low, high, leg.steps),
        cpu_share=None if cpu is None else (cpu + queued) / (leg.workers * period.median),
    )
