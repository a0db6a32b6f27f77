"""Why the loader is slower than the step: one rule a cause, asked in the order of `RULES`."""

from __future__ import annotations

from stoker.diagnose import stalls
from stoker.diagnose.deficit_rows import deficit_rows, scaling_row
from stoker.diagnose.facts import Facts
from stoker.diagnose.handover import (
    handoff,
    hinder_each_other,
    per_item,
    slower_than_fewer,
    slower_than_none,
)
from stoker.diagnose.judgement import Judgement, Rule, row
from stoker.diagnose.store import read_rows, reads_told, store_of
from stoker.diagnose.waste import AMPLIFIED, find_waste
from stoker.diagnose.wording import cores, ms, percent, with_workers
from stoker.records.diagnosis import VerdictCode
from stoker.records.profile import Leg, LegCode
from stoker.records.storage import StoreKind
from stoker.stats import ratio

# Workers this busy hold all the cores they may use; the rest is what the training process and the
# kernel take from a core that is said to be full.
_FULL = 0.80
# A worker that is off its core for most of its time waits for something that is no core.
_BLOCKED = 0.60
# Twice the workers give at least this much where workers are what lacks.
_HELPS = 1.25
# A control group stopped in this share of its periods is held back by its quota.
_THROTTLED = 0.10
# A container that is opened for each sample, where this share of a sample's time goes into that.
_REOPENED = 0.3
# One native thread a worker that is this much faster: they stood in each other's way.
_ONE_THREAD_GAIN = 1.15
# How the kinds of stores are called in a verdict; a store with slots is one of latency up to them,
# one that is fast to many workers one of latency to few.
_KINDS = {
    StoreKind.FAST: "latency",
    StoreKind.LATENCY: "latency",
    StoreKind.SLOTS: "latency",
    StoreKind.BANDWIDTH: "bandwidth",
    StoreKind.ONE_HEAD: "one-head",
    StoreKind.THROTTLED: "throttled",
}


def allocation(facts: Facts, *, together: float | None = None) -> Judgement | None:
    """The job may use fewer cores than the machine has, and than the device's pace needs.

    `together`: cores for that pace, where loading and step were seen to fill those that it has.
    """
    host, needed = facts.host, facts.cores_needed if together is None else together
    is_throttled = host.quota is not None and host.throttled_share >= _THROTTLED
    if needed is None:
        return None
    usable = facts.cores_usable
    if usable >= host.cpus_online - 1e-9 and host.quota is None:
        return None
    is_full = together is not None or (facts.cores_wanted or 0.0) >= _FULL * usable
    if not (is_throttled or (is_full and needed > usable)):
        return None
    rows = deficit_rows(facts)
    bound = _bound_by(facts)
    rows.append(row("cores owned", usable, f"{host.cpus_online} on the machine", "host", "cores"))
    if is_throttled:
        rows.append(
            row(
                "periods in which the quota stopped the job",
                host.throttled_share,
                f"harmless below {percent(_THROTTLED)}",
                "host",
                "share",
            )
        )
    return Judgement(
        code=VerdictCode.CPU_ALLOCATION,
        kind=bound,
        sentence=(
            f"The job may use {cores(usable)} of {host.cpus_online} cores ({bound}), and they are "
            f"used up: a batch takes {ms(facts.produce or facts.real)}, the step "
            f"{ms(facts.contended)}."
        ),
        evidence=tuple(rows),
    )


def _bound_by(facts: Facts) -> str:
    """Which limit is the one that binds."""
    host = facts.host
    usable = facts.cores_usable * host.ranks
    if host.worker_affinity is not None and host.worker_affinity < host.affinity:
        return "worker affinity"
    if host.quota is not None and host.quota <= usable + 1e-9:
        return "quota"
    if host.scheduler is not None and host.affinity > usable + 1e-9:
        return "scheduler"
    return "affinity"


def saturated(facts: Facts) -> Judgement | None:
    """The workers hold every core they may use."""
    wanted = facts.cores_wanted
    if wanted is None or facts.cores_needed is None or facts.produce is None:
        return None
    # Waiting for a core counts: other processes may hold some of them. They also keep batches from
    # being taken, so that workers stand idle; it is the same where all cores would not do.
    taken = (facts.cores_busy or 0.0) + facts.foreign_cores
    is_short = facts.cores_needed > facts.cores_usable and taken >= _FULL * facts.cores_usable
    if wanted < _FULL * facts.cores_usable and not is_short:
        return None
    rows = deficit_rows(facts)
    rows.append(
        row(
            "cores needed for the device's pace",
            facts.cores_needed,
            f"{cores(facts.cores_usable)} owned",
            "L",
            "cores",
        )
    )
    rows += [
        scaling_row(facts, leg) for leg in facts.profile.scaling if leg.workers > facts.workers
    ]
    fewer, hindered = facts.fastest_with_fewer, ""
    if fewer is not None and hinder_each_other(facts, fewer):
        rows.append(scaling_row(facts, fewer))
        hindered = (
            f" {with_workers(fewer.workers).capitalize()} a batch takes {ms(fewer.period)}: so "
            "many stand in each other's way, too."
        )
    random = facts.loader.random_share if facts.random_share is None else facts.random_share
    kind, unknown = None, ""
    if random is not None and random > 0.5 and not facts.is_random_apart:
        random = None  # the most that it can be, which tells nothing
        unknown = (
            f" How much of it is random couldn't be told, for {facts.loader.random_op} itself "
            "draws: put the random operation into a transform."
        )
    if random is not None:
        kind = "random" if random > 0.5 else "deterministic"
        rows.append(
            row(
                "share of the work on a sample that other random seeds change",
                random,
                "all the rest can be stored",
                "twin",
                "share",
            )
        )
    what = {
        "random": " Most of it is random and must be done anew each time.",
        "deterministic": " Most of it gives the same result each time.",
        None: unknown,
    }[kind]
    return Judgement(
        code=VerdictCode.CPU_SATURATED,
        kind=kind,
        sentence=(
            f"The workers use all {cores(facts.cores_usable)} cores and make a batch in "
            f"{ms(facts.produce)}; the step takes {ms(facts.contended)}. "
            f"{cores(facts.cores_needed)} cores would keep up.{what}{hindered}"
        ),
        evidence=tuple(rows),
    )


def amplified(facts: Facts) -> Judgement | None:
    """More is decoded than used, or a file that holds many samples is read for each of them."""
    read, waste = facts.loader.read_amplification, find_waste(facts)
    is_read = read is not None and read >= AMPLIFIED
    if waste is None and not is_read:
        return None
    rows = deficit_rows(facts) if facts.produce is not None else []
    if read is not None and is_read:
        rows.append(row("bytes read for one byte of a sample", read, "1 when used whole", "S", "x"))
    if waste is not None:
        return Judgement(
            code=VerdictCode.READ_AMPLIFICATION,
            kind=waste.kind,
            sentence=waste.sentence,
            evidence=(*rows, *waste.rows()),
        )
    return Judgement(
        code=VerdictCode.READ_AMPLIFICATION,
        sentence=(
            f"For each sample {read:.0f} times its own bytes are read, from files that are read "
            "again for other samples: most of what is read and unpacked is thrown away."
        ),
        evidence=tuple(rows),
    )


def reopened(facts: Facts) -> Judgement | None:
    """A file that holds many samples is opened for each of them, and its list of contents read."""
    share = facts.reopened_share
    if share < _REOPENED:
        return None
    rows = deficit_rows(facts) if facts.produce is not None else []
    rows.append(row("share of a sample's time in opening", share, "0 when kept open", "S", "share"))
    return Judgement(
        code=VerdictCode.READ_AMPLIFICATION,
        kind="metadata",
        sentence=(
            f"{percent(share)} of the time of a sample goes into opening a file that was opened "
            "for other samples before: its list of contents is read and unpacked each time."
        ),
        evidence=tuple(rows),
    )


def oversubscribed(facts: Facts) -> Judgement | None:
    """The workers' native threads stand in each other's way: with one each they are faster."""
    single = facts.profile.leg(LegCode.ONE_THREAD)
    threads = facts.loader.native_threads
    if single is None or facts.alone is None or threads is None:
        return None
    speedup = ratio(facts.alone.period, single.period)
    if speedup.low < _ONE_THREAD_GAIN:
        return None
    return Judgement(
        code=VerdictCode.OVERSUBSCRIBED,
        sentence=(
            f"{facts.workers} workers run {threads} threads on {cores(facts.cores_usable)} cores. "
            f"With one native thread each they make a batch in {ms(single.period)} instead of "
            f"{ms(facts.alone.period)}."
        ),
        evidence=(
            row("threads of all workers", float(threads), "cores owned", "L", "threads"),
            row(
                "a batch with one native thread a worker",
                single.period,
                f"L {ms(facts.alone.period)}",
                "T",
            ),
        ),
    )


def storage(facts: Facts) -> Judgement | None:
    """The workers are off their cores for most of the time: they wait for what they read."""
    blocked = facts.blocked_share
    if blocked is None or blocked < _BLOCKED or facts.produce is None:
        return None
    if not facts.is_waiting:
        return None
    rows = deficit_rows(facts)
    against = "0 when computing"
    of_whom = "its time that a worker is blocked"
    if facts.loader.watched is not None:
        of_whom = "the time that this process is on no core"
    rows.append(row(f"share of {of_whom}", blocked, against, "L", "share"))
    rows += [scaling_row(facts, leg) for leg in facts.profile.scaling if leg.workers]
    rows += read_rows(facts)
    store = store_of(facts)
    kind = _KINDS.get(store.kind) if store is not None else None
    why = f" {store.reason[0].upper()}{store.reason[1:]}." if store is not None and kind else ""
    why += reads_told(facts)
    who = (
        "The workers wait for what they read: {} of their time they are on no core and in no queue "
        "for one."
        if facts.loader.watched is None
        else "What makes the batches works ahead, but waits: {} of the time this process is on no "
        "core. For what (files, a service, a pause), and with how many threads, can't be seen."
    )
    return Judgement(
        code=VerdictCode.STORAGE_BOUND,
        kind=kind,
        sentence=(
            f"{who.format(percent(blocked))} A batch takes {ms(facts.produce)}, the step "
            f"{ms(facts.contended)}.{why}"
        ),
        evidence=tuple(rows),
    )


def _gain_of(facts: Facts, leg: Leg) -> float:
    assert facts.alone is not None
    return facts.alone.period.median / leg.period.median


def _was_tried_in_vain(facts: Facts) -> bool:
    """A paired trial of more workers in the loop itself gave nothing."""
    return any(
        trial.value > facts.workers and trial.speedup.high < _HELPS
        for trial in facts.profile.trials
        if trial.what == "workers"
    )


def too_few(facts: Facts) -> Judgement | None:
    """More workers make batches faster, and cores are free for them."""
    more = facts.more_workers
    if more is None or facts.produce is None or facts.alone is None:
        return None
    if _gain_of(facts, more) < _HELPS or _was_tried_in_vain(facts):
        return None
    if (facts.cores_busy or 0.0) + facts.foreign_cores >= _FULL * facts.cores_usable:
        return None  # no core is free, whoever has it
    rows = [*deficit_rows(facts), scaling_row(facts, more)]
    return Judgement(
        code=VerdictCode.TOO_FEW_WORKERS,
        sentence=(
            f"{facts.workers} worker{'s make' if facts.workers > 1 else ' makes'} a batch in "
            f"{ms(facts.produce)}, the step takes {ms(facts.contended)}, and cores are free: with "
            f"{more.workers} workers a batch takes {ms(more.period)}."
        ),
        evidence=tuple(rows),
    )


RULES: tuple[Rule, ...] = (
    amplified,
    reopened,
    oversubscribed,
    handoff,
    per_item,
    slower_than_none,
    allocation,
    saturated,
    stalls.rarely,
    slower_than_fewer,
    storage,
    too_few,
)
