"""What `stoker pack` tells of a pack that is made: as text, as JSON, with what comes next."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from stoker.cli.files import answer
from stoker.cli.streams import write_stdout

if TYPE_CHECKING:
    from stoker.pack.errand import Summary


def tell(args: argparse.Namespace, done: Summary, behind: list[str]) -> None:
    """The summary, as text and JSON; `behind` follows the text."""
    text = "\n".join([*_rows(args, done), *behind]) + "\n"
    answer(args.json, lambda: _as_json(args, done), lambda: write_stdout(text))


def _as_json(args: argparse.Namespace, done: Summary) -> str:
    import msgspec

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
    return msgspec.json.format(msgspec.json.encode(summary), indent=1).decode() + "\n"


def _rows(args: argparse.Namespace, done: Summary) -> list[str]:
    from stoker.report.numbers import amount
    from stoker.report.pack import notes, quarantined

    rows = [_headline(args, done)]
    if done.bytes is not None:
        each = done.bytes / max(1, done.samples)
        rows.append(f"  {amount(done.bytes, 'bytes')}, {amount(each, 'bytes')} a sample")
    rows += [*notes(done.notes), *(f"  {remark}" for remark in done.remarks)]
    return [*rows, *quarantined(done.quarantine)]


def snippet_of(done: Summary, args: argparse.Namespace) -> list[str]:
    """What applies the rest of the transforms to what the pack gives."""
    from stoker.pack.snippet import snippet

    spec, _, count = done.location.partition("#")
    if done.kind != "dataset" or not count or args.tier not in ("raw", "auto"):
        return []
    text = snippet(spec, int(count), args.target, is_resized=args.size is not None)
    return ["", "A Dataset over it, for your script:", "", text] if text else []


def _headline(args: argparse.Namespace, done: Summary) -> str:
    from stoker.pack.served import COMPARED
    from stoker.report.numbers import counted

    samples = counted(done.samples, "sample")
    if done.was_whole:
        # --repack has compared all checksums; otherwise only sizes were looked at.
        told = f"{args.target} is whole and up to date: {samples}"
        if not args.repack:
            told = (
                f"{args.target} is up to date and has all its files, in full size "
                f"(stoker verify reads every byte): {samples}"
            )
        # Of files sizes and times tell, of hashes all; what a Dataset gives has neither.
        is_known = done.kind != "dataset" or (args.hash and args.repack)
        return told if is_known else f"{told}, {min(COMPARED, done.samples)} of them compared"
    if done.bytes is None:
        part, parts = args.shard
        return f"part {part} of {parts} is finished: {counted(done.packed, 'sample')}"
    rate = done.packed / done.seconds if done.seconds else 0.0
    took = f" in {done.seconds:.1f} s, {rate:,.0f} a second" if done.packed else ""
    return f"{args.target}: {samples}, {done.packed:,} packed{took}"
