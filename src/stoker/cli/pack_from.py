"""`stoker pack --from DIAGNOSIS DST`: what the diagnosed script loads, up to what is random."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.pack_options import transform_of
from stoker.errors import InputError, UsageError

if TYPE_CHECKING:
    from stoker.pack.build import Progress
    from stoker.pack.errand import Errand, Summary
    from stoker.probe.captured import Wanted
    from stoker.records.diagnosis import Diagnosis

# What a pack of a script's own data set has no way for, and why.
_WITHOUT = {
    "append": "its samples are known by their numbers alone",
    "repack": "whether a sample has changed shows only when it is made",
    "shard": "each machine would have to run the script",
    "finalize": "each machine would have to run the script",
    "plan": "the diagnosis says already what a pack gives",
    "diagnosis": "--from names the diagnosis already",
}


def refuse_contradictions(args: argparse.Namespace) -> None:
    """Raise UsageError for options that --from has no way for."""
    for name, why in _WITHOUT.items():
        if getattr(args, name) not in (None, False):
            raise UsageError(
                f"--{name} with --from: {why}",
                looked_at=f"--from {args.from_diagnosis} --{name}",
                run_next=_anew(args)
                if name == "repack"
                else f"leave out --{name}, or name the data as SRC",
            )
    if args.target is not None:
        raise UsageError(
            "SRC and --from name two sources",
            looked_at=f"{args.source} beside --from {args.from_diagnosis}",
            run_next=f"stoker pack --from {args.from_diagnosis} {shlex.quote(args.target)}",
        )


def _anew(args: argparse.Namespace) -> str:
    """How a pack that is out of date or damaged is made again."""
    folder = shlex.quote(args.source or "DST")
    return (
        f"remove {folder} and make it anew: "
        f"stoker pack --from {shlex.quote(args.from_diagnosis)} {folder}; or name the data as SRC"
    )


def pack_from(
    args: argparse.Namespace, diagnosis: Diagnosis, *, on_step: Callable[[Progress], None]
) -> Summary:
    """Refuse what no pack helps or can be made of; else run the script and have it packed."""
    from stoker.pack.target import make_folder
    from stoker.probe.capture import command_again, packed_there

    given = args.from_diagnosis
    wanted = _wanted_of(diagnosis, given)
    if not args.force:
        _require_need(diagnosis, given)
    command = command_again(diagnosis.script, given)
    folder = Path(args.target).absolute()
    was_there = folder.exists()
    make_folder(folder)
    try:
        return packed_there(
            diagnosis.script, command, wanted, _errand(args, diagnosis, folder), on_step=on_step
        )
    finally:
        if not was_there and not any(folder.iterdir()):
            folder.rmdir()


def next_steps(args: argparse.Namespace, diagnosis: Diagnosis, summary: Summary) -> list[str]:
    """Whether the pack stands in for the script's data set, and how it is used."""
    from stoker.remedy.code import change_of
    from stoker.remedy.request import Request

    script = diagnosis.script
    if not summary.is_servable:
        return ["", f"It can't stand in for the script's data set: {summary.served}"]
    words = shlex.join(["stoker", "run", "--apply", f"pack={args.target}", *script.argv])
    path = None if script.argv[0] == "-m" else str(Path(script.cwd, script.argv[0]))
    change = change_of(path, [Request("pack", folder=str(Path(args.target).absolute()))])
    return [
        f"  {summary.served}",
        "",
        "The training with it, without a change of the code:",
        f"  {words}",
        "",
        "The same as a change of the code:",
        "",
        change.rstrip("\n"),
    ]


def _wanted_of(diagnosis: Diagnosis, given: str) -> Wanted:
    """The training loader that was found. Raises InputError where none can be packed."""
    from stoker.probe.captured import Wanted

    loader = diagnosis.profile.loader
    if loader is None or not loader.dataset or loader.watched is not None:
        raise InputError(
            f"{given} names no data set: the loop is not one over a DataLoader",
            looked_at="profile.loader",
            run_next="name the data as SRC: stoker pack --help",
        )
    if loader.iterable:
        raise InputError(
            f"{loader.dataset} is an iterable data set: it has no samples by number to pack",
            looked_at="profile.loader.iterable",
            run_next="pack the files that it reads: stoker pack FOLDER_OR_TAR DST",
        )
    return Wanted(loader.dataset, loader.samples, loader.batch_size)


def _require_need(diagnosis: Diagnosis, given: str) -> None:
    """Raise InputError where the diagnosis found no gain in storing samples."""
    from stoker.records.diagnosis import FixCode, VerdictCode

    if any(fix.code is FixCode.PACK for fix in diagnosis.fixes):
        return
    step, verdict = diagnosis.step, diagnosis.verdict
    numbers = "the step was not measured"
    if step.real_s is not None and step.device_s is not None:
        numbers = (
            f"a step takes {step.real_s * 1e3:,.1f} ms, the device alone {step.device_s * 1e3:,.1f}"
        )
    if verdict.code is VerdictCode.INCONCLUSIVE:
        raise InputError(
            f"it is not known yet whether a pack would help: {verdict.sentence}",
            looked_at=f"{given}: {numbers}",
            run_next=f"stoker doctor --budget 90 --json {shlex.quote(given)} "
            f"{shlex.join(diagnosis.script.argv)}; or pack with --force",
        )
    first = diagnosis.fixes[0].how if diagnosis.fixes else "nothing: the loader keeps up"
    raise InputError(
        f"do not pack: {verdict.code}: {verdict.sentence}",
        looked_at=f"{given}: {numbers}; making samples is not what it waits for",
        run_next=f"{first}; or pack all the same with --force",
    )


def _errand(args: argparse.Namespace, diagnosis: Diagnosis, folder: Path) -> Errand:
    import os

    from stoker.pack import layout
    from stoker.pack.errand import Errand
    from stoker.probe.cgroup import control_group
    from stoker.probe.host import available_memory

    name = diagnosis.script.argv[1 if diagnosis.script.argv[0] == "-m" else 0]
    loader, step = diagnosis.profile.loader, diagnosis.step
    assert loader is not None, "its data set was asked for"
    rate = step.batch_size / step.real_s if step.batch_size and step.real_s else None
    return Errand(
        folder=str(folder),
        spec=f"{Path(name).name}:{loader.dataset.rpartition('.')[2]}".replace("#", ""),
        transform=transform_of(args, "raw" if args.tier == "auto" else args.tier),
        order_seed=args.order.seed if hasattr(args.order, "seed") else None,
        shard_bytes=args.shard_size or layout.SHARD_BYTES,
        hashes=args.hash,
        workers=args.workers or len(os.sched_getaffinity(0)),
        resume=args.resume,
        max_bad=args.max_bad,
        samples_per_s=None if args.force else rate,
        memory_bytes=available_memory(control_group()) or 0,
    )
