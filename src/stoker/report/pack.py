"""What `stoker pack`, `info` and `verify` tell: finished lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stoker.pack.fidelity import ALLOWED_MEAN, Certificate
from stoker.pack.manifest import BadSample, Role
from stoker.pack.plan import PackCandidate, PackPlan
from stoker.pack.summary import PackSummary
from stoker.pack.verify import Verified
from stoker.report.numbers import amount, counted, percent
from stoker.report.plain import line

# More of a list than this is in the JSON.
_MOST_LISTED = 10
_BAR = 24
_NOTES = {
    "cut": "were cut at the sides to the stored shape (--fit pad keeps all of them)",
    "cmyk": "were CMYK, turned to RGB",
    "gray": "were gray, turned to RGB",
    "16-bit": "had 16 bits a channel, cut to the upper 8",
    "first-frame": "are animations: their first frame was taken",
    "exif-ignored": "carry an EXIF rotation, which was not applied, as torchvision doesn't "
    "(--exif apply turns them)",
    "exif-applied": "were turned as their EXIF data say",
    "exif-unreadable": "have EXIF data that can't be read, and were not turned",
}


def notes(found: Mapping[str, int]) -> list[str]:
    """What was noted about the pictures, one line each."""
    return [f"  {count:,} {_NOTES.get(name, name)}" for name, count in sorted(found.items())]


def quarantined(bad: tuple[BadSample, ...]) -> list[str]:
    """The samples that could not be read."""
    if not bad:
        return []
    lines = [f"{len(bad):,} could not be read (their places stay empty, no index moves):"]
    lines += [
        f"  {one.index}  {line(one.source)}: {line(one.reason)}" for one in bad[:_MOST_LISTED]
    ]
    if len(bad) > _MOST_LISTED:
        lines.append(f"  … and {len(bad) - _MOST_LISTED:,} more in manifest.json")
    return lines


def render_info(found: PackSummary) -> str:
    """A pack on a page."""
    transform, origin = found.transform, found.origin
    how = [f"tier {transform.tier}"]
    if transform.size is not None:
        how.append(f"size {transform.size}, fit {transform.fit}, {transform.resampler}")
    if transform.quality is not None:
        how.append(f"quality {transform.quality}")
    rows = [
        f"{line(found.path)}",
        f"  {counted(found.samples, 'sample')} in {counted(found.shards, 'shard')}, "
        f"{amount(found.bytes, 'bytes')}, generation {found.generation}",
        f"  {', '.join(how)}; {transform.libraries}".rstrip("; "),
        f"  from {origin.kind} {line(origin.location)}, order {origin.order}".rstrip(),
        "",
        "Fields",
        *_fields(found),
    ]
    if found.mean:
        rows += ["", "Pixels (every 16th sample, 0 to 255)"]
        rows.append("  mean      " + "  ".join(f"{value:6.2f}" for value in found.mean))
        rows.append("  deviation " + "  ".join(f"{value:6.2f}" for value in found.deviation))
    if found.classes:
        rows += ["", f"Classes: {len(found.classes):,}", *_histogram(found.classes)]
    if found.is_class_ordered:
        assert found.same_class_neighbours is not None
        rows += [
            "",
            f"Stored in the order of the classes: {percent(found.same_class_neighbours)} of the "
            f"neighbours are of one class, {percent(found.by_chance)} by chance.",
            "Read it with a global shuffle, or pack it with --order shuffled:SEED.",
        ]
    told = notes(found.notes)
    if told:
        rows += ["", "Pictures that", *told]
    if found.quarantine:
        rows += ["", *quarantined(found.quarantine)]
    return "\n".join(rows) + "\n"


def _fields(found: PackSummary) -> Iterable[str]:
    shown = [field for field in found.fields if field.role is not Role.PROVENANCE]
    width = max(len(field.name) for field in shown) if shown else 0
    for field in shown:
        codec = "" if field.codec == "none" else f", {field.codec}"
        yield (
            f"  {field.name:<{width}}  {field.dtype} {field.shape}{codec}  "
            f"{amount(field.bytes, 'bytes')}"
        )


def _histogram(classes: Mapping[str, int]) -> Iterable[str]:
    largest = max(classes.values()) or 1
    shown = list(classes.items())[:_MOST_LISTED]
    width = max(len(line(name)) for name, _ in shown)
    for name, count in shown:
        bar = "█" * round(_BAR * count / largest)
        yield f"  {line(name):<{width}}  {count:>9,}  {bar}"
    if len(classes) > _MOST_LISTED:
        counts = classes.values()
        yield f"  … and {len(classes) - _MOST_LISTED:,} more; {min(counts):,} to {max(counts):,}"


def render_verified(found: Verified) -> str:
    """What was compared, and what had changed."""
    share = found.blocks / found.all_blocks if found.all_blocks else 1.0
    compared = (
        f"{found.blocks:,} of {found.all_blocks:,} blocks ({percent(share)}), "
        f"{amount(found.bytes_read, 'bytes')}"
    )
    if not found.damage:
        return f"{line(found.pack)}: as it was written ({compared} compared)\n"
    told = [f"  {line(str(one))}" for one in found.damage[:_MOST_LISTED]]
    if len(found.damage) > _MOST_LISTED:
        told.append(f"  … and {len(found.damage) - _MOST_LISTED:,} more; --json lists them all")
    return (
        "\n".join(
            [
                f"{line(found.pack)}: changed after it was written ({compared} compared)",
                *told,
                f"next: {line(found.repair)}",
            ]
        )
        + "\n"
    )


def render_plan(found: PackPlan) -> str:
    """The candidates as a table, and what to do."""
    rows = [
        f"{counted(found.samples, 'sample')}, {amount(found.source_bytes, 'bytes')} now",
        f"  samples a second are those of {counted(found.workers, 'worker')} until they lie in a "
        "batch: of the source in memory, of a pack in memory where it fits",
        f"  the disk reads {amount(found.read_bytes_per_s, 'bytes/s')} and writes "
        f"{amount(found.write_bytes_per_s, 'bytes/s')}, {amount(found.free_bytes, 'bytes')} free; "
        f"{amount(found.cache_bytes, 'bytes')} of memory can hold a pack",
    ]
    if found.needed_samples_per_s is not None and found.step_s is not None:
        rows.append(
            f"  the device takes {found.needed_samples_per_s:,.0f} samples a second; a step is "
            f"{amount(found.step_s, 's')} now"
        )
    rows += ["", _candidate("pack", "size", "packing", "samples/s", "counted", "limited by")]
    now = f"{found.now_samples_per_s.median:,.0f}"
    rows.append(_candidate("none: as it is", "", "", now, found.now_counted, "processor"))
    for one in found.candidates:
        step = "" if one.step_s is None else f", step {amount(one.step_s, 's')}"
        rows.append(
            _candidate(
                _named(one),
                amount(one.bytes, "bytes"),
                amount(one.pack_s.median, "s"),
                f"{one.samples_per_s:,.0f}",
                one.counted,
                f"{one.limit}{step}",
            )
        )
    advice = found.reason if found.recommended is not None else f"do not pack: {found.reason}"
    return "\n".join([*rows, "", *found.first, advice]) + "\n"


def _candidate(pack: str, size: str, packing: str, rate: str, done: str, limit: str) -> str:
    """A row of the table."""
    return f"  {pack:<19} {size:>9} {packing:>9} {rate:>10}  {done:<38}  {limit}".rstrip()


def _named(one: PackCandidate) -> str:
    if one.size is not None:
        return f"{one.tier} {one.size}"
    return one.tier if one.tier == "keep" else f"{one.tier}, own size"


def render_certificate(found: Certificate) -> str:
    """Whether pack and Dataset give the same, and by how much they differ."""
    told = "equivalent" if found.is_equivalent else "NOT equivalent"
    compared = f"{found.compared:,} of {counted(found.samples, 'sample')} compared, by their index"
    rows = [f"{line(found.pack)} and {line(found.dataset)}: {told} ({compared})"]
    if found.mean_difference is not None:
        mean = f"{found.mean_difference:.3g}"
        if found.is_picture:
            mean = f"{found.mean_difference:.3f} grey levels (up to {ALLOWED_MEAN:g} is allowed)"
        rows.append(
            f"  {'pixels' if found.is_picture else line(found.field)}: mean difference {mean}, "
            f"largest {found.largest_difference:g}; {found.equal_pictures} equal to the last bit"
        )
    if found.other_sizes:
        kind = "picture" if found.is_picture else "array"
        rows.append(f"  of another size: {counted(found.other_sizes, kind)}")
    labels = f"{found.labels_equal} of {found.labels_compared} equal"
    rows.append(f"  labels: {labels if found.labels_compared else 'none to compare'}")
    rows.append(
        f"  hash of the sources' names in the pack's order, to compare packs by: {found.order_hash}"
    )
    return "\n".join(rows) + "\n"
