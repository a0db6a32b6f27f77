"""What a report says of single samples: the dearest ones, and what the cost of one goes with."""

from __future__ import annotations

from stoker.records.profile import CostTrend, Profile, SampleCost
from stoker.report import numbers
from stoker.report.plain import line
from stoker.report.shape import SampleLine

# The JSON has ten; a report names those that cost this many times what is usual.
_SHOWN = 5
_DEAR = 2.0
# And this much more: less is what another process on the same core takes from any sample.
_SLICE_S = 0.010
# More at the last indices than at the first, over the usual cost: less is hardly worth a word.
_WORTH_A_WORD = 0.25
_MILLION = 1e6  # bytes, or pixels


def dearest(profile: Profile) -> tuple[SampleLine, ...]:
    """The samples that cost far more than usual, the dearest first; often there are none."""
    usual = profile.trend.median_s if profile.trend is not None else None
    if not usual:
        return ()
    least = max(_DEAR * usual, usual + _SLICE_S)
    dear = [sample for sample in profile.slowest if sample.wall_s >= least]
    return tuple(_sample(sample, usual) for sample in dear[:_SHOWN])


def remarks(profile: Profile) -> tuple[str, ...]:
    """What the cost of a sample goes with; nothing where no sample stands out and it is alike."""
    trend = profile.trend
    if trend is None or not trend.median_s:
        return ()
    told = _along(trend)
    if not told and not dearest(profile):
        return ()
    usual = (
        f"Usual: {numbers.amount(trend.median_s, 's')}; one sample in ten takes "
        f"{numbers.amount(trend.spread, 'x')} of that or more."
    )
    return (usual, *told)


def _along(trend: CostTrend) -> tuple[str, ...]:
    told = [text for text in (_with_size(trend),) if text]
    if trend.index_share is not None and abs(trend.index_share) >= _WORTH_A_WORD:
        more = "more" if trend.index_share > 0 else "less"
        share = numbers.percent(abs(trend.index_share))
        told.append(
            f"It goes with the place in the data set: the last samples cost {share} of the usual "
            f"{more} than the first."
        )
    return tuple(told)


def _with_size(trend: CostTrend) -> str:
    """The size that explains the cost best, and what a file costs whatever its size."""
    file_s, usual = trend.per_file_s or 0.0, trend.median_s or 0.0
    if trend.per_byte_s is not None and trend.per_byte_s > 0:
        each = numbers.amount(trend.per_byte_s * _MILLION, "s")
        told = f"It goes with the size of the file: {each} for each MB"
    elif trend.per_pixel_s is not None and trend.per_pixel_s > 0:
        each = numbers.amount(trend.per_pixel_s * _MILLION, "s")
        told = f"It goes with the pixels that are decoded: {each} for each megapixel"
    elif file_s > 0 and trend.per_byte_s is None and trend.per_pixel_s is None:
        return "It is a cost per file: small and large ones cost the same."
    else:
        return ""
    if file_s >= _WORTH_A_WORD * usual:
        return f"{told}, and {numbers.amount(file_s, 's')} whatever its size."
    return f"{told}."


def _sample(sample: SampleCost, usual: float) -> SampleLine:
    return SampleLine(
        sample="" if sample.index is None else line(str(sample.index)),
        time=numbers.amount(sample.wall_s, "s"),
        times=numbers.amount(sample.wall_s / usual, "x"),
        stage=line(sample.stage or ""),
        file=line(sample.path or ""),
        size="" if sample.size is None else numbers.amount(float(sample.size), "bytes"),
    )
