"""Raw lines of a session, as the probe writes them, and the Profile that they become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stoker.probe.host import host_facts
from stoker.probe.reading import read_profile
from stoker.records.profile import End, Environment, Profile, Script

Line = dict[str, Any]


def loader(**changes: Any) -> Line:
    facts = {
        "kind": "training-loader",
        "workers": 0,
        "batch_size": 8,
        "batches": 100,
        "samples": 800,
        "prefetch_factor": None,
        "persistent_workers": False,
        "pin_memory": False,
        "start_method": None,
        "dataset": "train.Photos",
        "iterable": False,
        "device": None,
        "rank": 0,
        "world": 1,
        "versions": {"torch": "2.5"},
    }
    return facts | changes


def window(leg: str, wait: list[float], compute: list[float], **changes: Any) -> Line:
    line = {
        "kind": "window",
        "leg": leg,
        "workers": 0,
        "skip": 0,
        "complete": True,
        "background": False,
        "round": 1,
        "wait": wait,
        "compute": compute,
        "drained": [],
        "own_s": 0.0,
        "per_step": [1] * 10,
        "job_cores": None,
        "main_cores": None,
    }
    return line | changes


def boundary(
    seconds: float,
    *,
    validation_s: float = 0.0,
    epoch_s: float | None = None,
    mid_validation_s: float = 0.0,
) -> Line:
    line = {"kind": "boundary", "seconds": seconds, "validation_s": validation_s}
    return line | {"batches": 100, "epoch_s": epoch_s, "mid_validation_s": mid_validation_s}


def drained(workers: int, period: float, what: str = "L") -> Line:
    return {
        "kind": "drain",
        "what": what,
        "workers": workers,
        "ramp_s": 0.2,
        "skipped": 1,
        "periods": [period] * 24,
        "cpu_s": 24 * period,
        "runqueue_s": None,
        "main_cpu_s": 0.0,
        "threads": 1,
        "foreign_cores": None,
    }


def end(reason: str = "budget") -> Line:
    return {"kind": "end", "reason": reason, "start_s": [0.05], "batches": 9, "elapsed_s": 3.0}


def real(count: int = 48, wait: float = 0.01, compute: float = 0.02, **changes: Any) -> Line:
    return window("R", [wait] * count, [compute] * count, **changes)


def read(folder: Path, *lines: Line, code: int = 0, reason: End | None = None) -> Profile:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "trainer-11.jsonl").write_text(text)
    return read_profile(
        folder,
        script=Script(argv=("train.py",), cwd="/"),
        end=reason,
        exit_code=code,
        host_facts=host_facts(),
        environment=Environment(stoker="0", python="", machine=""),
    )


def seconds(profile: Profile, leg: str) -> float:
    return profile.legs[leg].period.median
