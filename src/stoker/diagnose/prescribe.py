"""Which remedies a diagnosis asks for: what `stoker run --apply auto` applies, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.diagnose.case import Case
from stoker.diagnose.diagnosis import scenario_of
from stoker.diagnose.facts import facts_of
from stoker.diagnose.fixes import BY_CODE
from stoker.diagnose.queueing import deeper
from stoker.diagnose.ranking import WITH_WORKERS
from stoker.diagnose.waste import find_waste
from stoker.diagnose.wording import told
from stoker.diagnose.worker_counts import best_workers, fewest
from stoker.records.diagnosis import Diagnosis, FixCode, RankedFix, Tryout, VerdictCode
from stoker.records.profile import OWN_LOADER
from stoker.remedy.cache_ram import room_for
from stoker.remedy.request import Request, parse
from stoker.remedy.snippets import by_hand
from stoker.report.numbers import withheld
from stoker.stats import Spread
from stoker.theory.pipeline import gain

# A remedy has its own small risks: below this promised gain the script is left as it is. The cases
# without a fault lie below 1.05.
_WORTH = 1.05


@dataclass(frozen=True)
class Prescription:
    """The remedies to apply, a line for everything that was decided, and code for the user."""

    requests: tuple[Request, ...]
    reasons: tuple[str, ...]
    by_hand: tuple[str, ...] = ()  # of fixes that no remedy makes, as code to adapt


def prescribe(diagnosis: Diagnosis) -> Prescription:
    """What trials found, where some were made; else the best fix that is a remedy, and what adds to
    it. Nothing for a run that is well.
    """
    tried = diagnosis.tryout
    if tried is None or tried.baseline_s is None:
        return _from_forecasts(diagnosis)
    if tried.pick:
        return Prescription(parse(tried.pick), (f"tried: {tried.sentence}",))
    forecast = _from_forecasts(diagnosis)
    useless = _useless(tried)
    left = tuple(request for request in forecast.requests if request.name not in useless)
    reasons = (f"tried: {tried.sentence}", *forecast.reasons)
    return Prescription(left, reasons if left else reasons[:1], forecast.by_hand)


def _useless(tried: Tryout) -> set[str]:
    """The remedies that a trial has shown to be no better than the loop as it is."""
    seen = {row.name for row in tried.rows if row.speedup is not None}
    return _remedies(seen.difference(tried.unsure)) - _remedies(tried.unsure)


def _remedies(names: Iterable[str]) -> set[str]:
    """ "overlap" and "unordered", of "overlap=2,unordered"."""
    return {part.partition("=")[0] for name in names for part in name.split(",")}


def _from_forecasts(diagnosis: Diagnosis) -> Prescription:
    facts = facts_of(diagnosis.profile)
    code = diagnosis.verdict.code
    if facts is None:
        return Prescription((), (f"{code}: {diagnosis.verdict.sentence}",))
    if not diagnosis.fixes and code is VerdictCode.INCONCLUSIVE:
        return Prescription((), (f"{code}: {diagnosis.verdict.sentence}",))
    if not diagnosis.fixes:
        return Prescription((), (f"{code}: nothing that a remedy could help",))
    scenario = scenario_of(diagnosis.profile, facts, code)
    if scenario is None:
        return Prescription((), (f"{code}: too little was measured to choose a remedy",))
    return _chosen(Case(facts, scenario), code, diagnosis.fixes)


def _chosen(case: Case, code: VerdictCode, fixes: Sequence[RankedFix]) -> Prescription:
    """The first fix that is a remedy worth applying; of those before it what the user can do."""
    reasons: list[str] = []
    snippets: list[str] = []
    for fix in fixes:
        request = request_for(case, fix.code)
        if request is None:
            reasons.append(_by_hand(fix))
            snippets.append(_snippet(case, fix.code))
        elif _is_worth_it(case, fix):
            more = _further(case, fix.code)
            reasons.append(f"{code}: {request}{_told(fix)}")
            reasons += [f"with it: {one}" for one in more]
            return Prescription((request, *more), tuple(reasons), tuple(filter(None, snippets)))
        else:
            reasons.append(f"{request}: not worth it{_told(fix)}")
    instead = _setting_instead(case)
    requests: tuple[Request, ...] = ()
    if instead is not None:
        requests = (instead[0],)
        reasons.append(f"meanwhile {instead[0]}, {told(instead[1])} forecast")
    else:
        reasons.insert(0, f"{code}")
    return Prescription(requests, tuple(reasons), tuple(filter(None, snippets)))


def _setting_instead(case: Case) -> tuple[Request, Spread] | None:
    """What a mere setting gives where the cause itself is not mended by one."""
    for code in (FixCode.OVERLAP, FixCode.WORKERS, FixCode.PERSISTENT_WORKERS):
        after = BY_CODE[code].after(case)
        request = request_for(case, code)
        if after is None or request is None or _failed_here(case, code):
            continue
        promise = gain(case.scenario, after)
        if promise.is_promise and promise.low >= _WORTH:
            return request, promise
    return None


def request_for(case: Case, code: FixCode) -> Request | None:
    """The remedy that makes a fix; None where it takes the user's code, data or machine."""
    loader = case.facts.loader
    if loader.dataset == OWN_LOADER:
        return None  # remedies are for loaders of torch's kind
    match code:
        case FixCode.OVERLAP:
            return Request("overlap", best_workers(case))
        case FixCode.WORKERS:
            return Request("workers", best_workers(case))
        case FixCode.FEWER_WORKERS:
            return Request("workers", fewest(case))
        case FixCode.PERSISTENT_WORKERS:
            return Request("persistent-workers")
        case FixCode.NATIVE_THREADS:
            return Request("native-threads", 1)
        case FixCode.RESTORE_AFFINITY:
            return Request("restore-affinity")
        case FixCode.PREFETCH_DEPTH:
            return Request("prefetch-depth", deeper(case.facts))
        case FixCode.UNORDERED:
            # One worker finishes its batches in their order.
            return Request("unordered") if case.facts.workers > 1 else None
        case FixCode.ALLOCATOR:
            return Request("allocator")
        case FixCode.PINNED_ASYNC:
            return Request("pinned-async")
        case FixCode.CACHE_RAM:
            if loader.samples is None or not loader.batch_bytes or loader.deterministic is False:
                return None
            each = loader.batch_bytes / loader.batch_size
            return Request("cache-ram", room_for(loader.samples, each))
        case _:
            return None


def _is_worth_it(case: Case, fix: RankedFix) -> bool:
    """By its number; without one the run itself shows what it gives, unless it has failed here."""
    promise = fix.measured or fix.speedup
    if promise is not None:
        return promise.median >= _WORTH
    return not _failed_here(case, fix.code)


def _failed_here(case: Case, code: FixCode) -> bool:
    """Every loader with workers that the doctor tried ended in an error."""
    return code in WITH_WORKERS and case.facts.workers_failed is not None


def _further(case: Case, first: FixCode) -> tuple[Request, ...]:
    """Remedies that add to the first one by the same forecast."""
    change = BY_CODE[first].after(case)
    if change is None:
        return ()
    found: list[Request] = []
    now = change
    for code in (FixCode.PERSISTENT_WORKERS, FixCode.PINNED_ASYNC):
        if code is first:
            continue
        then = BY_CODE[code].after(Case(case.facts, now))
        request = request_for(case, code)
        if then is not None and request is not None and gain(now, then).median >= _WORTH:
            found.append(request)
            now = then
    return tuple(found)


def _snippet(case: Case, code: FixCode) -> str:
    """The code of a fix, in the terms of what is wasted where that is known."""
    waste = find_waste(case.facts) if code is FixCode.ACCESS_PATTERN else None
    return by_hand(code, of=waste.kind if waste is not None else "")


def _by_hand(fix: RankedFix) -> str:
    line = f"{fix.code} is yours to make{_told(fix)}: {fix.how}"
    if fix.code is FixCode.CACHE_LOCAL:
        line += "; --apply cache-local=DIR:SIZE does so for files that Python's open reads"
    return line


def _told(fix: RankedFix) -> str:
    """Its number, measured in a trial or forecast, or why it has none."""
    if fix.measured is not None:
        unknown = withheld(fix.measured)
        return f", tried: {unknown}" if unknown else f", {told(fix.measured)} measured"
    if fix.speedup is not None:
        return f", {told(fix.speedup)} forecast"
    return ", no number promised" + (f" ({fix.withheld})" if fix.withheld else "")
