"""Causes that lie inside the step, or beside the loop.

Each rule says how much of a step its fix could win, so that the judge can weigh it against the
others and against what loading costs.
"""

from __future__ import annotations

import math

from stoker.diagnose.facts import Facts
from stoker.diagnose.judgement import Judgement, Weighed, row
from stoker.diagnose.peers import find_peer
from stoker.diagnose.wording import ms, percent
from stoker.records.diagnosis import Evidence, VerdictCode
from stoker.records.profile import MemoryGrowth, StepInside

# Below these shares of the step nothing is said: a run differs by as much from the next.
_READ_BACK = 0.15
_SAVED = 0.08
_PYTHON = 0.20
# On a core for most of the step, the host is what the device waits for.
_LAUNCHING = 0.60
# Less than half of a step that stays whatever its batch holds is not what the step is made of.
_FIXED = 0.50
_DRIFT = 1.10
_AS_MUCH = 0.5  # of it, in every other leg that makes steps
_FOREIGN = 0.10  # other processes on this share of the cores explain a drift as well
_VALIDATION = 0.40
# Workers touch some pages of the interpreter's own all the time: 4 to 10 kB a batch on the cases.
_GROWTH_BYTES = 32_000


def find_inside(facts: Facts) -> list[Weighed]:
    """All that hold, the heaviest first; of equal ones what ends a run before what slows it."""
    found = [weighed for rule in _RULES if (weighed := rule(facts)) is not None]
    return sorted(found, key=lambda weighed: -weighed.seconds)


def _where(inside: StepInside, state: str) -> str:
    """The line of the script that was met most often in a state."""
    place = next((place for place in inside.places if place.state == state), None)
    if place is None:
        return ""
    return f" ({place.file.rpartition('/')[2]}:{place.line}, {place.function})"


def _host_work(facts: Facts) -> Weighed | None:
    """What the script itself does on the host keeps the training thread on a core in the step."""
    inside, seconds = facts.profile.inside, facts.host_work_s
    if inside is None or seconds is None or seconds < _PYTHON * facts.device.median:
        return None
    return Weighed(
        Judgement(
            code=VerdictCode.HOST_WORK,
            sentence=(
                f"For {ms(seconds)} of the {ms(facts.device)} that a step takes on batches that "
                f"are there already, the script itself works on the host"
                f"{_where(inside, 'python')}: the device waits for it, not for data."
            ),
            evidence=(
                row("work of the script itself in the step", seconds, f"D {ms(facts.device)}", "P"),
            ),
        ),
        seconds,
    )


def _host_sync(facts: Facts) -> Weighed | None:
    """The host launches, then waits for the result: what could run side by side adds up."""
    inside, launch, saved = facts.profile.inside, facts.launch_s, facts.in_turns_s
    if inside is None or launch is None or saved is None or not facts.has_device:
        return None
    if inside.read_back < _READ_BACK or saved < _SAVED * facts.device.median:
        return None
    waited = inside.read_back * facts.device.median
    return Weighed(
        Judgement(
            code=VerdictCode.HOST_SYNC,
            sentence=(
                f"In each step the host works for {ms(launch)}, then waits {ms(waited)} for a "
                f"result of the device{_where(inside, 'read-back')}: host and device take turns "
                "instead of working side by side."
            ),
            evidence=(
                row("waiting for a result of the device", waited, f"D {ms(facts.device)}", "P"),
                row("the training thread on a core", launch, f"D {ms(facts.device)}", "P"),
            ),
        ),
        saved,
    )


def _launching(facts: Facts) -> Weighed | None:
    """The host is busy launching for most of the step; the device has little to do."""
    launch = facts.launch_s
    # The script's own Python, where it is much, is work of the host and no launch.
    if launch is None or not facts.has_device or _host_work(facts) is not None:
        return None
    # Launches that a busy device covers cost nothing.
    seconds = min(launch, facts.device_waits_s)
    share = seconds / facts.device.median
    fixed = facts.fixed_share
    if share < _LAUNCHING or (fixed is not None and fixed.high < _FIXED):
        return None  # the host works on each sample, or for a smaller part of the step
    return Weighed(
        Judgement(
            code=VerdictCode.OVERHEAD_BOUND,
            sentence=(
                f"The training thread is on a core for {percent(share)} of a step of "
                f"{ms(facts.device)}, launching work: a fixed cost of the step, "
                f"{_as_far_as_known(facts)}."
            ),
            evidence=(
                row("the training thread on a core", launch, f"D {ms(facts.device)}", "P"),
                *_fixed_row(facts),
            ),
        ),
        # A larger batch wins most of what is fixed, but not in time a step: half of it counts.
        seconds / 2,
    )


def _as_far_as_known(facts: Facts) -> str:
    """Whether a smaller batch has shown that the cost is fixed."""
    sizes, fixed = facts.profile.by_size, facts.fixed_share
    if sizes is None or fixed is None:
        return "as far as one size of its batches tells"
    if fixed.low < _FIXED:
        return "as far as two sizes of its batches tell"
    return (
        f"whatever its batch holds: with {sizes.half_samples} samples in place of {sizes.samples} "
        f"it takes {ms(sizes.half)} in place of {ms(sizes.whole)}"
    )


def _fixed_row(facts: Facts) -> tuple[Evidence, ...]:
    """The line through two batch sizes, where they were measured."""
    sizes, fixed = facts.profile.by_size, facts.fixed_share
    if sizes is None or fixed is None:
        return ()
    against = f"{sizes.half_samples} samples {ms(sizes.half)}, {sizes.samples} {ms(sizes.whole)}"
    return (row("share of a step that no smaller batch takes away", fixed, against, "F", "share"),)


def _drift(facts: Facts) -> Weighed | None:
    """The model alone gets slower while it is watched."""
    leg = facts.profile.legs["D"]
    if leg.drift is None or leg.drift < _DRIFT or leg.windows < 3:
        return None
    # A device that slows down slows every step; a passing disturbance strikes some windows.
    beside = [facts.profile.legs[code].drift for code in "RHC" if code in facts.profile.legs]
    as_much = 1 + _AS_MUCH * (leg.drift - 1)
    if any(drift is not None and drift < as_much for drift in beside) or beside[0] is None:
        return None
    computing = leg.main_cpu_s.median if leg.main_cpu_s is not None else facts.device.median
    is_of_host = computing >= _PYTHON * facts.device.median  # others can slow that
    if is_of_host and facts.foreign_cores >= _FOREIGN * facts.host.cores_owned:
        return None
    return Weighed(
        Judgement(
            code=VerdictCode.DEVICE_DRIFT,
            sentence=(
                f"On the same batches the step took {percent(leg.drift - 1)} longer at the end "
                f"than at the beginning: {_slowed_by(facts)}."
            ),
            evidence=(row("the last D window over the first", leg.drift, "1", "D", "x"),),
        ),
        facts.device.median * (1 - 1 / leg.drift),
    )


def _shared_memory(facts: Facts) -> Weighed | None:
    """The batches that lie ready do not fit into /dev/shm: the next one ends in a bus error."""
    if not facts.is_short_of_shm:
        return None
    size, needed = facts.host.shm_bytes or 0, facts.host.shm_needed_bytes or 0
    return Weighed(
        Judgement(
            code=VerdictCode.MEMORY_RISK,
            kind="shm",
            sentence=(
                f"{facts.workers} workers hold up to {needed / 1e6:.0f} MB of batches ready in "
                f"shared memory, which has {size / 1e6:.0f} MB: a full one ends in a bus error or "
                "a hang, not in slowness."
            ),
            evidence=(
                row("shared memory for batches that lie ready", float(needed), "", "host", "bytes"),
                row("size of /dev/shm", float(size), f"{needed / 1e6:.0f} MB", "host", "bytes"),
            ),
        ),
        math.inf,
    )


def _slowed_by(facts: Facts) -> str:
    device = facts.profile.device
    if device is None or not device.slowed_by:
        return "clocks, temperature or something else on the machine"
    return f"the device says what held its clock down: {', '.join(device.slowed_by)}"


def _memory(facts: Facts) -> Weighed | None:
    """The workers' own memory grows, and their copies will not fit."""
    growth, room = facts.profile.memory, facts.host.memory_available_bytes
    if growth is None or room is None or growth.bytes_per_batch < _GROWTH_BYTES:
        return None
    whole = facts.workers * growth.main_bytes  # each worker ends with a copy of its own
    left = room + growth.unique_bytes
    if whole <= left:
        return None
    why = (
        f": reading Python objects copies their pages. {facts.workers} copies of "
        f"{growth.main_bytes / 1e6:.0f} MB do not fit into the {left / 1e6:.0f} MB that are left"
    )
    return _memory_ends(growth, room, whole, why)


def _kept(facts: Facts) -> Weighed | None:
    """The workers keep what they have made, and all of it will not fit."""
    growth, room, whole = facts.profile.memory, facts.host.memory_available_bytes, facts.kept_bytes
    if growth is None or room is None or whole is None or whole <= room:
        return None
    why = (
        " and does not stop: they keep what they have made. All of it would be "
        f"{whole / 1e6:.0f} MB, and {room / 1e6:.0f} MB are left"
    )
    return _memory_ends(growth, room, whole, why, kind="kept")


def _memory_ends(
    growth: MemoryGrowth, room: int, whole: float, why: str, *, kind: str | None = None
) -> Weighed:
    """The workers' own memory grows towards `whole` bytes, and `room` is left."""
    step = growth.batches + round(room / growth.bytes_per_batch)
    return Weighed(
        Judgement(
            code=VerdictCode.MEMORY_RISK,
            kind=kind,
            sentence=(
                f"The workers' own memory grows by {growth.bytes_per_batch / 1e3:.0f} kB a batch"
                f"{why}; at this pace memory ends about batch {step}."
            ),
            evidence=(
                row("growth a batch", growth.bytes_per_batch, "0", "R", "bytes"),
                row("memory available", float(room), f"{whole / 1e6:.0f} MB", "host", "bytes"),
            ),
        ),
        math.inf,
    )


def _peer(facts: Facts) -> Weighed | None:
    """Another rank waits for its batches, and all wait for it."""
    judgement = find_peer(facts)
    return Weighed(judgement, math.inf) if judgement is not None else None


def _validation(facts: Facts) -> Weighed | None:
    """Validation takes much of the time that training and validation take together."""
    seconds = facts.validation_s
    share = seconds / (seconds + facts.real.median)
    if share < _VALIDATION:
        return None
    return Weighed(
        Judgement(
            code=VerdictCode.VALIDATION_PHASE,
            sentence=(
                f"Validation takes {percent(share)} of the time: {ms(seconds)} for each training "
                f"step of {ms(facts.real)}{_of_an_epoch(facts)}. The training steps are not what "
                "to mend first."
            ),
            evidence=(row("validation for each step", seconds, f"R {ms(facts.real)}", "R"),),
        ),
        # Every second validation can be left out, or half of its samples: half of it counts.
        seconds / 2,
    )


def _of_an_epoch(facts: Facts) -> str:
    """The same for a whole epoch, where its length is known."""
    epochs = facts.profile.epochs
    if epochs is None or not epochs.batches:
        return ""
    return f", {ms(facts.validation_s * epochs.batches / facts.loader.batches_per_step)} an epoch"


_RULES = (
    _shared_memory,
    _memory,
    _kept,
    _peer,
    _drift,
    _host_work,
    _host_sync,
    _launching,
    _validation,
)
