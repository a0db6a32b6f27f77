"""What a view is made of: frozen records of finished strings, in reading order."""

from __future__ import annotations

import msgspec

from stoker.records.diagnosis import Part


class LedgerLine(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the step. `fraction` is its length in the bar; 0 when it can't be drawn."""

    part: Part
    name: str
    meaning: str
    time: str
    interval: str
    share: str
    leg: str
    fraction: float


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The account of one step: lines in one unit, and whether they add up."""

    heading: str
    unit: str
    lines: tuple[LedgerLine, ...]
    total: str
    total_note: str
    remarks: tuple[str, ...]


class EvidenceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One reason for the verdict."""

    claim: str
    measured: str
    compared_with: str
    leg: str


class StageLine(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of loading, per sample."""

    stage: str
    where: str
    wall: str
    cpu: str
    blocked: str
    runqueue: str
    calls: str
    repeats: str


class SampleLine(msgspec.Struct, frozen=True, kw_only=True):
    """One sample that costs more than usual; what isn't known is empty."""

    sample: str
    time: str
    times: str  # the usual cost
    stage: str  # that took the most of it
    file: str
    size: str


class LegLine(msgspec.Struct, frozen=True, kw_only=True):
    """One leg as it was measured."""

    leg: str
    gets: str
    period: str
    steps: str
    windows: str


class FixCard(msgspec.Struct, frozen=True, kw_only=True):
    """One fix: what it promises, how it is made, what it costs and needs."""

    rank: str
    title: str
    code: str
    promise: str
    is_promised: bool
    tried: str
    effort: str
    how: str
    costs: str
    preconditions: tuple[str, ...]


class DontLine(msgspec.Struct, frozen=True, kw_only=True):
    """What people try first, and what it would give here."""

    what: str
    gain: str
    then: str  # the step and the use of the device; empty where nothing was forecast
    why: str


class RungLine(msgspec.Struct, frozen=True, kw_only=True):
    """One rung of the ladder: the fix on top of those above it."""

    code: str
    step: str
    gain: str
    cores: str


class CapacityTable(msgspec.Struct, frozen=True, kw_only=True):
    """Cores for each accelerator: one column an accelerator, one row a rung. Empty: not known."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()  # the label first
    remarks: tuple[str, ...] = ()


class TriedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration on trial beside the loop as it is."""

    name: str
    step: str
    gain: str
    tied: str
    memory: str
    note: str


class Trials(msgspec.Struct, frozen=True, kw_only=True):
    """All that were tried, what was left out and why, and the command for the choice."""

    lines: tuple[TriedLine, ...]
    skipped: tuple[tuple[str, str], ...]
    sentence: str
    command: str


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A whole report in the order in which it is read; empty texts are left out."""

    script: str
    alerts: tuple[str, ...]
    symptom: str
    symptom_sentence: str
    symptom_caution: str
    tone: str
    verdict: str
    sentence: str
    step: tuple[str, ...]
    ledger: Ledger
    evidence: tuple[EvidenceLine, ...]
    host: str
    host_remarks: tuple[str, ...]
    stages: tuple[StageLine, ...]
    samples: tuple[SampleLine, ...]
    sample_remarks: tuple[str, ...]
    fixes: tuple[FixCard, ...]
    no_fix: str
    donts: tuple[DontLine, ...]
    capacity: str
    capacity_table: CapacityTable
    together: tuple[str, ...]
    ladder: tuple[RungLine, ...]
    trials: Trials | None
    also: str
    legs: tuple[LegLine, ...]
    facts: tuple[tuple[str, str], ...]
