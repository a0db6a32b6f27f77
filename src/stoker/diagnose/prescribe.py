"""Which remedies a diagnosis asks for: what `stoker run --apply auto` applies, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stoker.diagnose.case import Case
from stoker.diagnose.diagnosis import scenario_of
from stoker.diagnose.facts import facts_of
from stoker.diagnose.fixes import FIXES
from stoker.diagnose.worker_counts import best_workers, fewest
from stoker.records.diagnosis import Diagnosis, FixCode, RankedFix, Tryout, VerdictCode
from stoker.records.profile import OWN_LOADER
from stoker.remedy.cache_ram import room_for
from stoker.remedy.request import Request, parse
from stoker.stats import Spread
from stoker.theory.pipeline import gain

# A remedy has its own small risks: below this promised gain the script is left as it is. The cases
# without a fault lie below 1.05.
_WORTH = 1.05
# Fixes whose gain no closed form knows; the run itself shows whether they help.
_SHOWN_BY_THE_RUN = frozenset({FixCode.PREFETCH_DEPTH})

_BY_CODE = {fix.code: fix for fix in FIXES}


@dataclass(frozen=True)
class Prescription:
    """The remedies to apply, and a line for everything that was decided."""

    requests: tuple[Request, ...]
    reasons: tuple[str, ...]


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
    return Prescription(left, reasons if left else reasons[:1])


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
    case = Case(facts, scenario)
    reasons: list[str] = []
    for fix in diagnosis.fixes:
        request = request_for(case, fix.code)
        promise = _promise(fix)
        if request is None:
            reasons.append(_by_hand(fix, promise))
        elif _is_worth_it(fix, promise):
            reasons.append(f"{code}: {request}{_told(promise)}")
            more = _further(case, fix.code)
            reasons += [f"with it: {one}" for one in more]
            return Prescription((request, *more), tuple(reasons))
        else:
            reasons.append(f"{request}: not worth it{_told(promise)}")
    instead = _setting_instead(case)
    if instead is not None:
        reasons.append(f"meanwhile {instead[0]}{_told(instead[1])}")
        return Prescription((instead[0],), tuple(reasons))
    return Prescription((), (f"{code}", *reasons))


def _setting_instead(case: Case) -> tuple[Request, Spread] | None:
    """What a mere setting gives where the cause itself is not mended by one."""
    for code in (FixCode.OVERLAP, FixCode.WORKERS, FixCode.PERSISTENT_WORKERS):
        after = _BY_CODE[code].after(case)
        request = request_for(case, code)
        if after is None or request is None:
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
            return Request("prefetch-depth", 4 * (loader.prefetch_factor or 2))
        case FixCode.PINNED_ASYNC:
            return Request("pinned-async")
        case FixCode.CACHE_RAM:
            if loader.samples is None or not loader.batch_bytes or loader.deterministic is False:
                return None
            each = loader.batch_bytes / loader.batch_size
            return Request("cache-ram", room_for(loader.samples, each))
        case _:
            return None


def _promise(fix: RankedFix) -> Spread | None:
    return fix.measured if fix.measured is not None else fix.speedup


def _is_worth_it(fix: RankedFix, promise: Spread | None) -> bool:
    if promise is None:
        return fix.code in _SHOWN_BY_THE_RUN or fix.speedup is None
    return promise.median >= _WORTH


def _further(case: Case, first: FixCode) -> tuple[Request, ...]:
    """Remedies that add to the first one by the same forecast."""
    change = _BY_CODE[first].after(case)
    if change is None:
        return ()
    found: list[Request] = []
    now = change
    for code in (FixCode.PERSISTENT_WORKERS, FixCode.PINNED_ASYNC):
        if code is first:
            continue
        then = _BY_CODE[code].after(Case(case.facts, now))
        request = request_for(case, code)
        if then is not None and request is not None and gain(now, then).median >= _WORTH:
            found.append(request)
            now = then
    return tuple(found)


def _by_hand(fix: RankedFix, promise: Spread | None) -> str:
    line = f"{fix.code} is yours to make{_told(promise)}: {fix.how}"
    if fix.code is FixCode.CACHE_LOCAL:
        line += "; --apply cache-local=DIR:SIZE does so for files that Python's open reads"
    return line


def _told(promise: Spread | None) -> str:
    if promise is None:
        return ", no number promised"
    return f", {promise.median:.2f}x ({promise.low:.2f} to {promise.high:.2f}) forecast"
