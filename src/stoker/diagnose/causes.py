"""Why a starved run starves: each cause is a short rule that reads the legs which isolate it.

Rules are asked in order, the first that holds gives the verdict; each says what it saw.
"""

from __future__ import annotations

from stoker.diagnose import deficit, handover, stalls
from stoker.diagnose.facts import Facts
from stoker.diagnose.judgement import Finding, Judgement, Rule, Weighed, row
from stoker.diagnose.wording import cores, ms, percent
from stoker.records.diagnosis import Part, VerdictCode
from stoker.records.profile import THREADS

# Workers this busy hold all the cores they may use; the rest is what the training process and the
# kernel take from a core that is said to be full.
_FULL = 0.80


def find_starvation(facts: Facts, findings: list[Finding]) -> list[Weighed]:
    """The cause of each part of the loss, in the order of the parts."""
    return [Weighed(_cause_of(facts, finding), finding.seconds) for finding in findings]


def _cause_of(facts: Facts, finding: Finding) -> Judgement:
    for rule in _RULES[finding.part]:
        judgement = rule(facts)
        if judgement is not None:
            return judgement
    return _unexplained(facts, finding)


# -- W = 0 -----------------------------------------------------------------------------------------


def _serial(facts: Facts) -> Judgement | None:
    evidence = [
        row("waiting inside next()", facts.waits, f"R {ms(facts.real)}", "R"),
    ]
    if facts.alone is not None:
        evidence.append(
            row("a batch from the loader alone", facts.alone.period, "waits as long", "L")
        )
    return Judgement(
        code=VerdictCode.SERIAL_LOADER,
        sentence=(
            f"Loading runs inside the training process: each step waits {ms(facts.waits)} for its "
            f"batch and then computes for {ms(facts.on_host)}. "
            f"{percent(facts.lost_share.median)} of the time the device has nothing to do, "
            "while loading and computing could go on side by side."
        ),
        evidence=tuple(evidence),
    )


def _crowded(facts: Facts) -> Judgement | None:
    """Workers and the step need more cores together than the job owns."""
    main = facts.profile.legs["C"].main_cpu_s if "C" in facts.profile.legs else None
    if facts.load_cpu_s is None or main is None:
        return None
    # Threads have spent their time in the training process.
    apart_s = 0.0 if facts.loader.start_method == THREADS else facts.load_cpu_s
    wanted = (apart_s + main.median) / facts.contended.median
    if wanted < _FULL * facts.cores_usable:
        return None
    # At the device's pace, not at that of the step that workers slow.
    needed = wanted * facts.contended.median / facts.device.median
    judgement = deficit.allocation(facts, together=needed) or deficit.saturated(facts)
    if judgement is None:
        return None
    against = f"{cores(facts.cores_usable)} owned"
    return Judgement(
        code=judgement.code,
        kind=judgement.kind,
        sentence=(
            f"Busy workers slow the step itself from {ms(facts.on_host)} to {ms(facts.contended)}: "
            f"at the pace of the device they want {cores(needed)} cores together, and "
            f"{cores(facts.cores_usable)} {'are' if facts.cores_usable > 1 else 'is'} owned"
            f"{f' ({judgement.kind})' if judgement.code is VerdictCode.CPU_ALLOCATION else ''}."
        ),
        evidence=(*judgement.evidence, row("cores wanted together", needed, against, "C", "cores")),
    )


# -- the other parts -------------------------------------------------------------------------------


def _delivery(facts: Facts) -> Judgement | None:
    if facts.on_host is facts.device:
        return None
    return Judgement(
        code=VerdictCode.DELIVERY_BOUND,
        sentence=(
            f"The step takes {ms(facts.on_host)} on batches that lie on the host and "
            f"{ms(facts.device)} on batches that are on the device already: the copy is not "
            "overlapped with the step."
        ),
        evidence=(row("the step on batches on the host", facts.on_host, "D", "H"),),
    )


def _boundary(facts: Facts) -> Judgement | None:
    epochs = facts.profile.epochs
    if epochs is None or epochs.edge_s is None:
        return None
    return Judgement(
        code=VerdictCode.EPOCH_BOUNDARY,
        sentence=(
            f"Inside an epoch a step takes {ms(facts.inside)}, but each epoch boundary costs "
            f"{ms(epochs.edge_s)}: over {epochs.batches} batches that is {ms(facts.edge)} a step. "
            "The workers are started anew each time."
        ),
        evidence=(
            row("an epoch boundary", epochs.edge_s, f"a step {ms(facts.inside)}", "R"),
            row("a step, boundaries included", facts.real, f"inside {ms(facts.inside)}", "R"),
        ),
    )


def _unexplained(facts: Facts, finding: Finding) -> Judgement:
    # Three times the usual budget is three times the steps.
    more = 2 * facts.profile.legs["R"].steps
    return Judgement(
        code=VerdictCode.INCONCLUSIVE,
        sentence=(
            f"{percent(finding.share)} of the step is lost to {finding.part} "
            f"({ms(finding.seconds)}), and no leg that was run tells why. A longer run may, of "
            f"about {more} more steps of leg R: --budget 90."
        ),
        evidence=(
            row(f"{finding.part} in the ledger", finding.seconds, f"R {ms(facts.real)}", "R"),
        ),
    )


_RULES: dict[Part, tuple[Rule, ...]] = {
    Part.SERIAL: (deficit.amplified, deficit.reopened, handover.per_item, _serial),
    Part.RATE_DEFICIT: deficit.RULES,
    Part.TRANSFER: (_delivery,),
    Part.CONTENTION: (deficit.oversubscribed, _crowded),
    Part.EPOCH_EDGE: (_boundary,),
    Part.JITTER: (stalls.unevenly,),
}
