"""A loop without a loader becomes a Profile of leg R and its gap. Runs in the parent."""

from __future__ import annotations

import platform
import statistics
from pathlib import Path

import msgspec

from stoker.probe.leg_reading import in_rounds
from stoker.probe.session import read_lines
from stoker.probe.trainer_lines import Line
from stoker.records.profile import (
    End,
    Environment,
    Gap,
    HostTruth,
    Leg,
    LegCode,
    Outside,
    Profile,
    Script,
)

_NOTE = "no loader was found in the loop: its steps were timed, the model alone was not"


def read_gap_profile(
    folder: Path,
    *,
    script: Script,
    end: End | None,
    exit_code: int,
    host_facts: Line,
    environment: Environment,
) -> Profile | None:
    """The process with the most steps; None where no optimizer stepped again and again."""
    files = [read_lines(file)[0] for file in folder.glob("trainer-*.jsonl")]
    found = [(line, lines) for lines in files for line in lines if line["kind"] == "gap"]
    if not found:
        return None
    gap, lines = max(found, key=lambda pair: len(pair[0]["periods"]))
    host = next((line for line in lines if line["kind"] == "host"), host_facts)
    host = {key: value for key, value in host.items() if key != "kind"}
    closing = next((line for line in lines if line["kind"] == "end"), None)
    period = in_rounds(gap["periods"], 1)
    leg = Leg(
        code=LegCode.REAL,
        period=period,
        middle=statistics.median(gap["periods"]),
        steps=len(gap["periods"]),
        windows=1,
        workers=0,
    )
    outside = gap["outside"]
    return Profile(
        script=script,
        end=end or (End(closing["reason"]) if closing else End.SCRIPT_ENDED),
        exit_code=exit_code,
        legs={str(LegCode.REAL): leg},
        real=period,
        gap=Gap(
            seconds=in_rounds(gap["gaps"], 1),
            samples=outside["samples"],
            outside=outside.get("share", 0.0),
            places=tuple(msgspec.convert(place, Outside) for place in outside.get("places", ())),
        ),
        host=msgspec.convert(host, HostTruth),
        environment=msgspec.structs.replace(
            environment,
            python=platform.python_version(),
            versions=gap["versions"],
            device=gap["device"] or "cpu",
            world=int(gap["world"]),
            emulated=gap["device"] == "emulated",
            warmup_discarded=gap["warmup"],
            notes=(
                *environment.notes,
                *(line["text"] for line in lines if line["kind"] == "note"),
                _NOTE,
            ),
        ),
    )
