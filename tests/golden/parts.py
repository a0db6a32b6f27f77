"""What the hand-made diagnoses share: a script, its surroundings, rows in one line each."""

from __future__ import annotations

from stoker.records.diagnosis import (
    LedgerRow,
    Part,
)
from stoker.records.profile import (
    Environment,
    Leg,
    LegCode,
    Script,
    StageTime,
)
from stoker.stats import Spread

SCRIPT = Script(
    argv=("train_images.py", "--epochs", "3"), cwd="/data/run", sha256="b1946ac92492d2347c62"
)
ENVIRONMENT = Environment(
    stoker="0.1.0",
    python="3.11.7",
    machine="Linux 6.1 x86_64",
    versions={"torch": "2.13.0", "pillow": "11.3.0"},
    device="cpu",
    writes="overlay",
    warmup_discarded=12,
    overhead_share=0.004,
    would_write=("runs/last.pt", "runs/log.csv"),
)


def leg(code: LegCode, period: Spread, *, workers: int = 0, windows: int = 6) -> Leg:
    return Leg(
        code=code,
        period=period,
        middle=period.median,
        steps=period.count,
        windows=windows,
        workers=workers,
    )


def row(part: Part, seconds: float, low: float, high: float, leg: str) -> LedgerRow:
    return LedgerRow(part=part, seconds=seconds, low=low, high=high, leg=leg)


def stage(
    name: str,
    *times_s: float,
    calls: float,
    deterministic: bool | None,
    where: str = "worker",
) -> StageTime:
    wall_s, cpu_s, blocked_s, runqueue_s = times_s
    return StageTime(
        stage=name,
        where=where,
        wall_s=wall_s,
        cpu_s=cpu_s,
        blocked_s=blocked_s,
        runqueue_s=runqueue_s,
        calls=calls,
        deterministic=deterministic,
    )
