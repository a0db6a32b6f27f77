"""Packs a data set: decoded and resized once, then read in sequence at the speed of the disk.

SRC is a folder of pictures (class folders or not), a CSV, TSV or JSONL file that names them, a
WebDataset tar or a folder of them, a zip archive, or a Dataset as module:object; in its place
--from DIAGNOSIS takes what the script of a diagnosis loads. The pack appears
in DST whole or not at all; killed at any point, --resume goes on and ends with the same bytes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.cli.pack_from import next_steps, pack_from, refuse_contradictions
from stoker.cli.pack_options import add_making, add_stored, source_of, transform_of
from stoker.cli.pack_plan import plan_pack
from stoker.cli.pack_summary import snippet_of, tell
from stoker.cli.streams import told_on_stderr
from stoker.errors import EXIT_ERROR, EXIT_OK, InputError, UsageError

if TYPE_CHECKING:
    from stoker.pack.build import Progress as Step
    from stoker.pack.errand import Summary
    from stoker.pack.job import Job

_EPILOG = """examples:
  stoker pack photos/ packed/ --size 256
  stoker pack train.csv packed/ --size 512 --tier crop-jpeg --quality 92
  stoker pack photos/ packed/ --size 256 --resume
  stoker pack photos/ packed/ --size 256 --repack
  stoker pack photos/ --plan
  stoker pack --from diagnosis.json packed/
"""
_USAGE = """stoker pack SRC DST [OPTIONS]
       stoker pack SRC [DST] --plan [OPTIONS]
       stoker pack --from DIAGNOSIS DST [OPTIONS]"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare source, target, what is stored and how it is made."""
    parser.epilog = _EPILOG
    parser.usage = _USAGE
    parser.add_argument("source", metavar="SRC", nargs="?", help="what to pack")
    parser.add_argument("target", metavar="DST", nargs="?", help="a new folder; --plan needs none")
    parser.add_argument(
        "--from",
        dest="from_diagnosis",
        metavar="DIAGNOSIS",
        help="in place of SRC: what the script of stoker doctor --json FILE loads, as far as it is "
        "the same in every epoch",
    )
    add_stored(parser.add_argument_group("what is stored"))
    add_making(parser.add_argument_group("how it is made (changes no byte of the pack)"))


def run(args: argparse.Namespace) -> int:
    """List, pack, tell."""
    if args.from_diagnosis is not None:
        refuse_contradictions(args)
        args.source, args.target = None, args.source
    elif args.source is None:
        raise UsageError(
            "SRC is missing: what is to be packed",
            looked_at="stoker pack",
            run_next="stoker pack SRC DST, or stoker pack --from DIAGNOSIS DST",
        )
    elif args.force:
        raise _useless("--force", "--from", "it packs where a diagnosis sees no gain", args)
    if args.plan:
        return plan_pack(args)
    if args.diagnosis is not None:
        raise _useless("--diagnosis", "--plan", "it says what a forecast is set against", args)
    if args.target is None:
        raise UsageError(
            "DST is missing: the new folder that the pack is to be made in",
            looked_at=f"stoker pack {source_of(args)}",
            run_next=f"stoker pack {source_of(args)} packed/; with --plan it is only "
            "measured and forecast",
        )
    if args.shard is not None and args.finalize:
        raise UsageError(
            "--shard packs a part and --finalize joins the parts",
            looked_at="--shard with --finalize",
            run_next="run one after the other",
        )
    if args.from_diagnosis is not None:
        return _from(args)
    with told_on_stderr():
        summary = _pack(args)
        behind = snippet_of(summary, args)
    tell(args, summary, behind)
    return _exit_code(args, summary)


def _pack(args: argparse.Namespace) -> Summary:
    """List and pack."""
    from stoker.cli.progress import watched
    from stoker.pack.build import How, build
    from stoker.pack.errand import Summary
    from stoker.pack.revise import appended, finalize, repacked

    folder = Path(args.target)
    job = _job(args)
    if args.append:
        job = appended(job, folder)
    elif args.repack:
        job = repacked(job, folder)
    with watched(quiet=args.quiet, stream=sys.stderr) as listener:
        part, parts = args.shard or (0, 1)
        how = How(
            workers=args.workers or len(os.sched_getaffinity(0)),
            resume=args.resume,
            max_bad=args.max_bad,
            part=part,
            parts=parts,
            on_step=_teller(listener),
        )
        done = finalize(job, folder) if args.finalize else build(job, folder, how)
    return Summary.of(job, done)


def _useless(option: str, beside: str, what: str, args: argparse.Namespace) -> UsageError:
    return UsageError(
        f"{option} without {beside}: {what}",
        looked_at=f"stoker pack {source_of(args)} {option}",
        run_next=f"leave out {option}, or give {beside}: stoker pack --help",
    )


def _from(args: argparse.Namespace) -> int:
    """Pack what a diagnosed script loads."""
    from stoker.cli.files import read_diagnosis
    from stoker.cli.progress import watched

    diagnosis = read_diagnosis(args.from_diagnosis)
    with watched(quiet=args.quiet, stream=sys.stderr) as listener:
        summary = pack_from(args, diagnosis, on_step=_teller(listener))
    tell(args, summary, next_steps(args, diagnosis, summary))
    return _exit_code(args, summary)


def _teller(listener: Callable[[Any], None] | None) -> Callable[[Step], None]:
    """Tells a packer's progress to who shows it."""
    from stoker.probe.attach import Progress

    def tell(step: Step) -> None:
        if listener is not None:
            text = f"{step.done:,} of {step.samples:,} samples, {step.samples_per_s:,.0f} a second"
            share = step.done / step.samples
            listener(Progress(leg="", text=text, fraction=share, left_s=step.left_s))

    return tell


def _exit_code(args: argparse.Namespace, done: Summary) -> int:
    return EXIT_OK if len(done.quarantine) <= (args.max_bad or 0) else EXIT_ERROR


def _job(args: argparse.Namespace) -> Job:
    from stoker.pack import layout, manifest
    from stoker.pack.job import make_job
    from stoker.pack.sources.find import list_source

    listing = list_source(args.source)
    tier = args.tier
    if tier == "auto":
        # A Dataset's pictures are decoded already: it has no bytes of files to keep.
        tier = "raw" if args.size is not None or listing.kind == "dataset" else "keep"
    if args.quality is not None and (tier in ("raw", "keep") or args.quality > 100):
        raise InputError(
            f"--quality {args.quality} with the tier {tier}",
            looked_at="--quality: 1 to 100, with --tier jpeg or crop-jpeg",
            run_next="stoker pack --help",
        )
    # As long as they are: another number of samples, or of bytes, would make all of them again.
    is_revised = args.append or args.repack
    return make_job(
        listing,
        transform_of(args, tier),
        order=args.order,
        shard_bytes=args.shard_size or layout.SHARD_BYTES,
        shard_samples=manifest.read(Path(args.target)).shard_samples if is_revised else None,
        hashes=args.hash,
    )
