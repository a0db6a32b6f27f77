"""Packs a data set: decoded and resized once, then read in sequence at the speed of the disk.

SRC is a folder of pictures (class folders or not), a CSV, TSV or JSONL file that names them, a
WebDataset tar or a folder of them, a zip archive, or a Dataset as module:object; in its place
--from DIAGNOSIS takes what the script of a diagnosis loads. The pack appears
in DST whole or not at all; killed at any point, --resume goes on and ends with the same bytes.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.cli.files import JsonOutput
from stoker.cli.pack_from import next_steps, pack_from, refuse_contradictions
from stoker.cli.quantities import byte_count
from stoker.cli.streams import write_stdout
from stoker.errors import EXIT_ERROR, EXIT_OK, InputError, UsageError

if TYPE_CHECKING:
    from stoker.pack.build import Progress as Step
    from stoker.pack.errand import Summary
    from stoker.pack.job import Job, Order
    from stoker.pack.plan import Need, PackCandidate

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
_TIERS = ("raw", "crop-jpeg", "jpeg", "keep", "auto")
_FITS = ("shorter", "exact", "pad", "bucket")
_RESAMPLERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")


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
    _add_stored(parser.add_argument_group("what is stored"))
    _add_making(parser.add_argument_group("how it is made (changes no byte of the pack)"))


def _add_stored(group: Any) -> None:
    group.add_argument("--size", type=_count, metavar="S", help="pixels of the shorter side")
    group.add_argument(
        "--fit",
        choices=_FITS,
        default="shorter",
        help="shorter: shorter side S, then the centre S×S (default); exact: squashed to S×S; "
        "pad: all of it, black beside; bucket: aspect families",
    )
    group.add_argument("--resampler", choices=_RESAMPLERS, default="bilinear", metavar="NAME")
    group.add_argument(
        "--tier",
        choices=_TIERS,
        default="auto",
        help="raw pixels; crop-jpeg, jpeg; keep: the files' own bytes; auto (default): raw with "
        "--size and for a Dataset, else keep",
    )
    group.add_argument("--quality", type=_count, metavar="Q", help="of JPEG tiers (default: 90)")
    group.add_argument(
        "--exif",
        choices=("ignore", "apply"),
        default="ignore",
        help="EXIF rotation: ignored, as torchvision does (default), or applied",
    )
    group.add_argument(
        "--order", type=_order, default="source", metavar="ORDER", help="source, or shuffled:SEED"
    )
    group.add_argument(
        "--shard-size", type=byte_count, metavar="N", help="bytes a shard (default: 256MB)"
    )
    group.add_argument(
        "--hash",
        action="store_true",
        help="keep a hash of every source's bytes, by which --repack tells what changed",
    )


def _add_making(group: Any) -> None:
    group.add_argument("--workers", type=_count, metavar="N", help="processes (default: the cores)")
    group.add_argument(
        "--max-bad",
        type=_natural,
        metavar="N",
        help="accept that many samples that can't be read; more of them stop it. Without it all "
        "others are packed, and the exit code is 1",
    )
    kinds = group.add_mutually_exclusive_group()
    kinds.add_argument("--append", action="store_true", help="add the sources that DST lacks")
    kinds.add_argument("--repack", action="store_true", help="make the changed shards again")
    group.add_argument("--resume", action="store_true", help="go on where a run was stopped")
    group.add_argument("--shard", type=_part, metavar="I/N", help="only this machine's part, 0/N …")
    group.add_argument("--plan", action="store_true", help="measure and forecast, pack nothing")
    group.add_argument(
        "--diagnosis", metavar="FILE", help="with --plan: what the script of this diagnosis needs"
    )
    group.add_argument(
        "--force", action="store_true", help="with --from: also where the diagnosis sees no gain"
    )
    group.add_argument("--finalize", action="store_true", help="join the parts of --shard")
    group.add_argument(
        "--json",
        type=JsonOutput.checked,
        metavar="FILE",
        help="write the summary as JSON as well; - writes it to stdout, in place of the text",
    )
    group.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(args: argparse.Namespace) -> int:
    """List, pack, tell."""
    from stoker.cli.progress import watched
    from stoker.pack.build import How, build
    from stoker.pack.errand import Summary
    from stoker.pack.revise import appended, finalize, repacked

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
        return _plan(args)
    if args.diagnosis is not None:
        raise _useless("--diagnosis", "--plan", "it says what a forecast is set against", args)
    if args.target is None:
        raise UsageError(
            "DST is missing: the new folder that the pack is to be made in",
            looked_at=f"stoker pack {_source(args)}",
            run_next=f"stoker pack {_source(args)} packed/; with --plan it is only "
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
    summary = Summary.of(job, done)
    _tell(args, summary, _snippet(summary, args))
    return _exit_code(args, summary)


def _useless(option: str, beside: str, what: str, args: argparse.Namespace) -> UsageError:
    return UsageError(
        f"{option} without {beside}: {what}",
        looked_at=f"stoker pack {_source(args)} {option}",
        run_next=f"leave out {option}, or give {beside}: stoker pack --help",
    )


def _from(args: argparse.Namespace) -> int:
    """Pack what a diagnosed script loads."""
    from stoker.cli.files import read_diagnosis
    from stoker.cli.progress import watched

    diagnosis = read_diagnosis(args.from_diagnosis)
    with watched(quiet=args.quiet, stream=sys.stderr) as listener:
        summary = pack_from(args, diagnosis, on_step=_teller(listener))
    _tell(args, summary, next_steps(args, diagnosis, summary))
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


def _source(args: argparse.Namespace) -> str:
    """As it was given on the command line."""
    if args.from_diagnosis is not None:
        return f"--from {shlex.quote(args.from_diagnosis)}"
    return shlex.quote(args.source)


def _plan(args: argparse.Namespace) -> int:
    """Forecast, tell."""
    from stoker.pack.plan import candidates_for, plan
    from stoker.pack.sources.find import list_source
    from stoker.records.codec import to_json
    from stoker.report.pack import render_plan

    need = None if args.diagnosis is None else _need(args.diagnosis)
    listing = list_source(args.source)
    ways = candidates_for(args.size)
    found = plan(
        listing,
        # A Dataset's pictures are decoded already: it has no bytes of files to keep.
        ways[:-1] if listing.kind == "dataset" else ways,
        Path(args.target or "."),
        workers=args.workers or len(os.sched_getaffinity(0)),
        need=need,
    )
    if args.json is not None:
        args.json.write(to_json(found))
    if args.json is None or not args.json.is_stdout:
        text = render_plan(found)
        if found.recommended is not None:
            text += f"\n  {_command(args, found.recommended)}\n"
        write_stdout(text)
    return EXIT_OK


def _command(args: argparse.Namespace, chosen: PackCandidate) -> str:
    """The command that makes the recommended pack, with what was asked for beside --plan."""
    words = ["stoker", "pack", args.source, args.target or "packed/"]
    if chosen.size is not None:
        words += ["--size", str(chosen.size)]
    words += ["--tier", chosen.tier]
    if args.quality is not None and chosen.tier == "crop-jpeg":
        words += ["--quality", str(args.quality)]
    usual = {"fit": "shorter", "resampler": "bilinear", "exif": "ignore", "order": "source"}
    for name, value in usual.items():
        given = str(getattr(args, name))
        if given != value:
            words += [f"--{name}", given]
    return shlex.join(words)


def _need(given: str) -> Need:
    from stoker.cli.files import read_diagnosis
    from stoker.pack.plan import Need

    diagnosis = read_diagnosis(given)
    step = diagnosis.step
    if step.device_s is None or step.real_s is None or step.batch_size is None:
        raise InputError(
            f"{given} doesn't say what the device alone takes",
            looked_at="step: device_s, real_s and batch_size",
            run_next="stoker doctor --json FILE SCRIPT, on a run that is not cut short",
        )
    return Need(
        device_s=step.device_s,
        real_s=step.real_s,
        batch=step.batch_size,
        verdict=diagnosis.verdict.code,
    )


def _job(args: argparse.Namespace) -> Job:
    from stoker.pack import layout, manifest
    from stoker.pack.job import make_job
    from stoker.pack.manifest import Transform
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
    transform = Transform(
        tier=tier,
        size=args.size,
        fit=args.fit,
        resampler=args.resampler,
        quality=args.quality,
        exif=args.exif,
    )
    # As long as they are: another number of samples, or of bytes, would make all of them again.
    is_revised = args.append or args.repack
    return make_job(
        listing,
        transform,
        order=args.order,
        shard_bytes=args.shard_size or layout.SHARD_BYTES,
        shard_samples=manifest.read(Path(args.target)).shard_samples if is_revised else None,
        hashes=args.hash,
    )


def _tell(args: argparse.Namespace, done: Summary, behind: list[str]) -> None:
    """The summary, as text and JSON; `behind` follows the text."""
    import msgspec

    from stoker.report.numbers import amount
    from stoker.report.pack import notes, quarantined

    if args.json is not None:
        summary = {
            "schema": "stoker.packed/1",
            "pack": args.target,
            "samples": done.samples,
            "packed": done.packed,
            "seconds": done.seconds,
            "bytes": done.bytes,
            "is_whole": done.bytes is not None,
            "notes": done.notes,
            "quarantine": msgspec.to_builtins(done.quarantine),
            "remarks": list(done.remarks),
            "is_servable": done.is_servable,
        }
        text = msgspec.json.format(msgspec.json.encode(summary), indent=1).decode() + "\n"
        args.json.write(text)
        if args.json.is_stdout:
            return
    rows = [_headline(args, done)]
    if done.bytes is not None:
        each = done.bytes / max(1, done.samples)
        rows.append(f"  {amount(done.bytes, 'bytes')}, {amount(each, 'bytes')} a sample")
    rows += [*notes(done.notes), *(f"  {remark}" for remark in done.remarks)]
    rows += [*quarantined(done.quarantine), *behind]
    write_stdout("\n".join(rows) + "\n")


def _snippet(done: Summary, args: argparse.Namespace) -> list[str]:
    """What applies the rest of the transforms to what the pack gives."""
    from stoker.pack.snippet import snippet
    from stoker.pack.sources.dataset import load_object
    from stoker.split import cut_at

    spec, _, count = done.location.partition("#")
    if done.kind != "dataset" or not count or args.tier not in ("raw", "auto"):
        return []
    cut = cut_at(load_object(spec), int(count))
    if cut is None:
        return []
    return ["", "A Dataset over it, for your script:", "", snippet(spec, cut, args.target)]


def _headline(args: argparse.Namespace, done: Summary) -> str:
    from stoker.pack.served import COMPARED
    from stoker.report.numbers import counted

    samples = counted(done.samples, "sample")
    if done.was_whole:
        told = f"{args.target} is whole and up to date: {samples}"
        # Of files sizes and times tell, of hashes all; what a Dataset gives has neither.
        is_known = done.kind != "dataset" or (args.hash and args.repack)
        return told if is_known else f"{told}, {min(COMPARED, done.samples)} of them compared"
    if done.bytes is None:
        part, parts = args.shard
        return f"part {part} of {parts} is finished: {counted(done.packed, 'sample')}"
    rate = done.packed / done.seconds if done.seconds else 0.0
    took = f" in {done.seconds:.1f} s, {rate:,.0f} a second" if done.packed else ""
    return f"{args.target}: {samples}, {done.packed:,} packed{took}"


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _order(text: str) -> Order:
    from stoker.pack.job import Order

    if text == "source":
        return Order()
    seed = text.removeprefix("shuffled:")
    if seed == text or not seed.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not source or shuffled:SEED")
    return Order(int(seed))


def _part(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 0 to N − 1")
    return int(found[1]), int(found[2])
