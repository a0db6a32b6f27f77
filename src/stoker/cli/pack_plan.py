"""`stoker pack SRC --plan`: measures and forecasts packs of a source, and makes none."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.files import answer
from stoker.cli.pack_options import transform_of
from stoker.cli.streams import told_on_stderr, write_stdout
from stoker.errors import EXIT_OK, InputError

if TYPE_CHECKING:
    from stoker.pack.plan import Need, PackCandidate
    from stoker.records.diagnosis import Diagnosis, FixCode


def plan_pack(args: argparse.Namespace) -> int:
    """Forecast and tell; the exit code. Raises InputError for a source that can't be listed."""
    from stoker.pack.candidates import candidates_for, own_size, too_large
    from stoker.pack.plan import plan
    from stoker.pack.sources.find import list_source
    from stoker.probe.cgroup import control_group
    from stoker.probe.host import available_memory
    from stoker.records.codec import to_json
    from stoker.report.pack import render_plan

    need = None if args.diagnosis is None else _need(args.diagnosis)
    with told_on_stderr():
        listing = list_source(args.source)
        asked = transform_of(args, "raw")
        own = own_size(listing, asked)
        found = plan(
            listing,
            # A Dataset's pictures are decoded already: it has no bytes of files to keep.
            candidates_for(asked, own, has_files=listing.kind != "dataset"),
            Path(args.target or "."),
            workers=args.workers or len(os.sched_getaffinity(0)),
            memory_bytes=available_memory(control_group()) or 0,
            hashes=args.hash,
            need=need,
            told=too_large(asked, own),
        )
    text = render_plan(found)
    if found.recommended is not None:
        text += f"\n  {command_of(args, found.recommended)}\n"
    answer(args.json, lambda: to_json(found), lambda: write_stdout(text))
    return EXIT_OK


def command_of(args: argparse.Namespace, chosen: PackCandidate) -> str:
    """The command that makes the recommended pack, with what was asked for beside --plan."""
    words = ["stoker", "pack", args.source, args.target or "packed/"]
    if chosen.size is not None:
        words += ["--size", str(chosen.size)]
    words += ["--tier", chosen.tier]
    if chosen.size is not None:
        words += _given(args, {"fit": "shorter", "resampler": "bilinear", "exif": "ignore"})
    if chosen.tier in ("jpeg", "crop-jpeg"):
        words += _given(args, {"quality": None})
    words += _given(args, {"order": "source", "shard_size": None, "workers": None, "max_bad": None})
    return shlex.join([*words, *(["--hash"] if args.hash else [])])


def _given(args: argparse.Namespace, usual: dict[str, str | None]) -> list[str]:
    """Those of these options that are not as usual, as they are typed."""
    words = []
    for name, value in usual.items():
        given = getattr(args, name)
        if given is not None and str(given) != value:
            words += [f"--{name.replace('_', '-')}", str(given)]
    return words


def _need(given: str) -> Need:
    from stoker.cli.files import read_diagnosis
    from stoker.pack.plan import Need
    from stoker.records.diagnosis import FixCode, VerdictCode

    diagnosis = read_diagnosis(given)
    step = diagnosis.step
    if step.device_s is None or step.real_s is None or step.batch_size is None:
        raise InputError(
            f"{given} doesn't say what the device alone takes",
            looked_at="step: device_s, real_s and batch_size",
            run_next="stoker doctor --json FILE SCRIPT, on a run that is not cut short",
        )
    # What the plan's first step is: loading beside the step, or the pack itself.
    is_serial = diagnosis.verdict.code is VerdictCode.SERIAL_LOADER
    return Need(
        device_s=step.device_s,
        real_s=step.real_s,
        batch=step.batch_size,
        verdict=diagnosis.verdict.code,
        withheld=_withheld(diagnosis, FixCode.OVERLAP if is_serial else FixCode.PACK),
    )


def _withheld(diagnosis: Diagnosis, code: FixCode) -> str:
    """Why the doctor would promise nothing of such a fix in that run; empty where it would."""
    from stoker.diagnose.facts import facts_of
    from stoker.diagnose.ranking import why_withheld

    facts = facts_of(diagnosis.profile)
    return "" if facts is None else why_withheld(facts, code)
