"""A question about one run: assumed from the zoo or measured, with changes, along any axis.

Both kinds answer alike: `scenario()` is what to forecast, `at` the same run with one thing other.
"""

from __future__ import annotations

import math
from typing import Protocol

import msgspec

from stoker.errors import InputError
from stoker.records.diagnosis import Diagnosis, VerdictCode
from stoker.records.profile import Profile
from stoker.records.scenario import Resource, Scenario
from stoker.records.zoo import Kind, Link, Sourced, Storage
from stoker.stats import Spread
from stoker.theory import measured, whatif
from stoker.theory.assume import CACHE_OF_MEMORY, Assumed, Basis, assumed
from stoker.theory.cache import cached_share
from stoker.theory.calibrate import at_workers, scenario_from
from stoker.theory.draws import MODEL_SHARE
from stoker.theory.pipeline import forecast
from stoker.theory.setting import Setting, finished_bytes, pixels_of
from stoker.units import Dimension, text

# Packed images keep a margin for the random crop, the usual 256 pixels for a crop of 224.
_CROP_MARGIN = 256 / 224
# Nobody runs more workers than this many for each core, and no curve was measured there.
_WORKERS_A_CORE = 4


class Axis(msgspec.Struct, frozen=True):
    """Something that can be varied: its values are whole numbers or in `unit`.

    Values lie above 0 and are finite, unless `least` and `most` say otherwise.
    """

    name: str
    is_whole: bool
    unit: str
    meaning: str
    least: float | None = None
    most: float = math.inf

    def check(self, value: float) -> None:
        """Raises InputError for a value that this axis can't have."""
        low_enough = value <= self.most and value < math.inf
        if low_enough and (value > 0 if self.least is None else value >= self.least):
            return
        ends = "positive and finite"
        if self.least is not None:
            ends = f"{self.least:g} or more"
            ends += f" and at most {self.most:g}" if self.most < math.inf else ""
        raise InputError(
            f"{self.name} is {value:g}: it must be {ends}",
            looked_at=self.meaning,
            run_next=f"give a {self.name} that is {ends}",
        )


AXES = (
    Axis("batch", True, "samples", "samples a step"),
    Axis("workers", True, "workers", "worker processes of one accelerator", least=0),
    Axis("cores", False, "cores", "cores of the whole host"),
    Axis("accelerators", True, "accelerators", "accelerators that share the host"),
    Axis("cpu-ms", False, "ms", "CPU milliseconds a sample"),
    Axis("step-ms", False, "ms", "milliseconds of the accelerator a step"),
    Axis("cached", False, "share", "share of samples in the page cache", least=0, most=1),
    Axis("storage-mb", False, "MB/s", "storage bandwidth of the host"),
    Axis("link-gb", False, "GB/s", "link from host to accelerator"),
)
# Work of an assumed run moved from the host to the accelerator; `pack` besides needs the bytes.
_MOVED = {"dali": whatif.dali, "device-augment": whatif.device_augment}
CHANGES = ("pack", *_MOVED)
# What a measured run rests on, and the legs that it is read from.
_SOURCES = (
    ("step", "leg D"),
    ("loading a sample, CPU", "leg L"),
    ("loading a sample, blocked", "leg L"),
    ("transfer", "H − D"),
    ("contention", "C − H"),
    ("cores", "what the job owns"),
)


def doubts(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Why forecasts from a diagnosis deserve less trust; empty where nothing is wrong with it.

    Raises InputError where there is nothing to forecast from.
    """
    found = []
    if diagnosis.verdict.code is VerdictCode.INCONCLUSIVE:
        found.append(f"the diagnosis was inconclusive: {diagnosis.verdict.sentence}")
    real = diagnosis.profile.real
    if real is not None:
        found += _missed(forecast(scenario_from(diagnosis.profile)).step_s, real)
    return tuple(found)


def _missed(again: Spread, real: Spread) -> list[str]:
    """What to say where the forecast of the run as it was is not what was measured.

    It may be off by its own interval, by that of what was measured, and by what the equations
    leave out; one that is off by more shows that the intervals of all other forecasts are too
    narrow as well.
    """
    is_longer = again.median > real.median
    own, other = (again, real) if is_longer else (real, again)
    halves = own.median - own.low, other.high - other.median, MODEL_SHARE * real.median
    explained, apart = math.hypot(*halves), own.median - other.median
    if not apart > explained:
        return []
    shown, low, high = (text(v, Dimension.TIME) for v in (real.median, real.low, real.high))
    why = (
        "its parts add up to more than the step, as where the pace of the machine changed between "
        "the legs"
        if is_longer
        else "the rest is in none of its parts, as where batches come irregularly"
    )
    return [
        f"the forecast of the run as it was, {text(again.median, Dimension.TIME)} a step, "
        f"misses what leg R measured: {shown} ({low} to {high}). That is {apart / real.median:.0%} "
        f"of it, and their intervals and what the equations leave out explain "
        f"{explained / real.median:.0%}: {why}. Measure longer, with nothing beside it: stoker "
        "doctor --budget 90"
    ]


def axis_named(name: str) -> Axis:
    """The axis. Raises InputError with the names there are."""
    for axis in AXES:
        if axis.name == name:
            return axis
    raise InputError(
        f"there is no axis {name!r}",
        looked_at="axes " + ", ".join(axis.name for axis in AXES),
        run_next="--sweep batch=1..1024",
    )


class NotKnownError(InputError):
    """What was asked can't be answered from what is known of this run."""


class Question(Protocol):
    """What predict and plan ask questions of."""

    def scenario(self) -> Scenario:
        """What is to be forecast. Raises InputError for a setting that makes no sense."""
        ...

    def at(self, axis: str, value: float) -> Question:
        """The same run with another value on one axis. Raises InputError for an unknown axis."""
        ...

    def changed(self, change: str) -> Question:
        """The same run with one of CHANGES made."""
        ...

    def workers_for(self, au: float) -> int | None:
        """The fewest workers that reach a utilisation, or None where no number does."""
        ...


class AboutAssumed(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose numbers are assumed."""

    setting: Setting
    changes: tuple[str, ...] = ()
    step_s: float | None = None  # given, over the forecast

    def scenario(self) -> Scenario:
        """The setting's scenario with the changes made in their order."""
        scenario = assumed(self.setting).scenario
        if self.step_s is not None:
            scenario = whatif.device(scenario, self.step_s)
        for change in self.changes:
            if change == "pack":
                scenario = whatif.pack(
                    scenario, stored_bytes=self._packed_bytes(), cached_share=self._packed_share()
                )
            else:
                scenario = _MOVED[change](scenario)
        return scenario

    def at(self, axis: str, value: float) -> AboutAssumed:
        """The run with another setting."""
        axis_named(axis).check(value)
        if axis == "step-ms":
            return msgspec.structs.replace(self, step_s=value / 1e3)
        setting = msgspec.structs.replace(self.setting, **_setting_field(self.setting, axis, value))
        return msgspec.structs.replace(self, setting=setting)

    def changed(self, change: str) -> AboutAssumed:
        """The run with one more change."""
        return msgspec.structs.replace(self, changes=(*self.changes, _known(change)))

    def workers_for(self, au: float) -> int | None:
        """By counting up, because a change of workers changes the copying too."""
        return _first_worker_count(self, au)

    def worked_out(self) -> Assumed:
        """The setting before any change, with its bases; a step that was given is said to be."""
        made = assumed(self.setting)
        if self.step_s is None:
            return made
        given = Basis("step", text(self.step_s, Dimension.TIME), "given", "you")
        return made._replace(
            bases=(given, *(basis for basis in made.bases if basis.what != "step"))
        )

    def _packed_bytes(self) -> float:
        pixels = pixels_of(self.setting.model)
        if self.setting.model.unit == "image" and pixels is not None:
            return pixels * _CROP_MARGIN**2 * 3
        finished = finished_bytes(self.setting)
        if finished is None:
            raise _no_packed_size()
        return finished

    def _packed_share(self) -> float | None:
        """What the page cache serves of the packed data, as far as memory and samples are known."""
        setting = self.setting
        if setting.cached is not None or setting.is_first_epoch:
            return None
        if setting.host is None or setting.host.memory_bytes is None:
            return None
        if setting.dataset is None or setting.dataset.samples is None:
            return None
        packed = setting.dataset.samples.value * self._packed_bytes()
        return cached_share(CACHE_OF_MEMORY * setting.host.memory_bytes.value, packed)


class AboutMeasured(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose costs were measured; `profile` knows what other worker counts gave."""

    profile: Profile
    base: Scenario
    changes: tuple[str, ...] = ()

    def scenario(self) -> Scenario:
        """The measured scenario with the changes made in their order."""
        if not self.changes:
            return self.base
        base = scenario = measured.marked(self.profile, self.base)
        for change in self.changes:
            self._check_known(base, change)
            if change == "dali":
                scenario = whatif.dali(scenario)
            elif change == "device-augment":
                scenario = measured.on_device(scenario)
            else:
                packed = measured.packed(self.profile, scenario)
                if packed is None:
                    raise _no_packed_size()
                scenario = packed
        return scenario

    def at(self, axis: str, value: float) -> AboutMeasured:
        """The run with one cost or capacity replaced."""
        axis_named(axis).check(value)
        return msgspec.structs.replace(self, base=self._varied(axis, value))

    def changed(self, change: str) -> AboutMeasured:
        """The run with one more change."""
        return msgspec.structs.replace(self, changes=(*self.changes, _known(change)))

    def workers_for(self, au: float) -> int | None:
        """By counting up, each worker count at the efficiency measured nearest to it."""
        return _first_worker_count(self, au)

    def _varied(self, axis: str, value: float) -> Scenario:
        base = self.base
        machine = base.machine
        if axis == "batch":
            return whatif.batch(base, int(value))
        if axis == "workers":
            return self._with_workers(int(value))
        if axis == "cores":
            return whatif.cores(base, value)
        if axis == "step-ms":
            return whatif.device(base, value / 1e3)
        if axis == "link-gb":
            return whatif.link(base, value * 1e9)
        if axis == "cpu-ms":
            return whatif.cpu(base, value / 1e3)
        if axis == "accelerators":
            shared = msgspec.structs.replace(machine, accelerators=int(value))
            return msgspec.structs.replace(base, machine=shared)
        if axis == "storage-mb":
            other = msgspec.structs.replace(machine, storage_bytes_per_s=value * 1e6)
            return msgspec.structs.replace(base, machine=other)
        work = msgspec.structs.replace(base.workload, cached_share=value)
        return msgspec.structs.replace(base, workload=work)

    def bases(self) -> tuple[Basis, ...]:
        """Where each number is from: the leg that measured it, or what replaced it."""
        measured, now = _shown(scenario_from(self.profile)), _shown(self.base)
        rows = [
            Basis(what, value, "measured", source)
            if value == measured[what]
            else Basis(what, value, "replaced", f"measured: {measured[what]}, {source}")
            for (what, source), value in zip(_SOURCES, now.values(), strict=True)
        ]
        if not (self.profile.loader and self.profile.loader.workers) and self.base.loader.workers:
            usual = Basis("contention", now["contention"], "assumed", "usual: no worker ran yet")
            rows = [usual if row.what == "contention" else row for row in rows]
        return tuple(rows)

    def _check_known(self, marked: Scenario, change: str) -> None:
        """Raises NotKnownError where nothing says what repeats, or what is random."""
        if change == "dali":
            return
        wanted = change == "pack"
        if any(cost.deterministic is wanted for cost in marked.workload.stages):
            return
        what = "to give the same every epoch" if wanted else "to be random"
        loader = self.profile.loader
        drawn = loader.random_op if loader is not None else None
        raise NotKnownError(
            f"{change}: nothing of the work on a sample is known {what}",
            looked_at="samples that the doctor made twice, under equal and under other seeds"
            + (f"; {drawn} draws" if drawn else ""),
            run_next="stoker doctor --json FILE SCRIPT again, with random operations in transforms "
            "and samples taken by their index",
        )

    def _with_workers(self, count: int) -> Scenario:
        """What was measured with the nearest worker counts, where any others were."""
        return at_workers(self.profile, self.base, count)


def _setting_field(setting: Setting, axis: str, value: float) -> dict[str, object]:
    """The field of a setting that an axis stands for."""
    if axis in ("batch", "workers", "accelerators"):
        return {axis: int(value)}
    if axis in ("cores", "cached"):
        return {axis: value}
    if axis == "cpu-ms":
        return {"cpu_s": value / 1e3}
    given = Sourced(value, Kind.ESTIMATE, "given", "")
    if axis == "storage-mb":
        rate = msgspec.structs.replace(given, value=value * 1e6)
        store = setting.storage or Storage(name="storage", title="storage as given")
        return {"storage": msgspec.structs.replace(store, bytes_per_s=rate)}
    rate = msgspec.structs.replace(given, value=value * 1e9)
    return {"link": Link(name="link", title="link as given", bytes_per_s=rate)}


def _known(change: str) -> str:
    if change not in CHANGES:
        raise InputError(
            f"there is no change {change!r}",
            looked_at="changes " + ", ".join(CHANGES),
            run_next="--what-if pack, or KEY=VALUE: workers=16, storage=nvme, link=gen5",
        )
    return change


def _no_packed_size() -> NotKnownError:
    return NotKnownError(
        "how large a packed sample is can't be told: the bytes of a finished sample are unknown",
        looked_at="the model's input, the data set, the measured batch",
        run_next="name a data set with --dataset",
    )


# No host keeps more worker processes for one accelerator; counting on would only take long.
_MOST_COUNTED = 512


def most_use(question: Question) -> Scenario:
    """The run with the fewest workers of those counts with which its accelerator is used most."""
    made = (question.at("workers", count).scenario() for count in _worker_counts(question))
    return max(made, key=lambda scenario: forecast(scenario).au.median)


def _first_worker_count(question: Question, au: float) -> int | None:
    for count in _worker_counts(question):
        if forecast(question.at("workers", count).scenario()).au.median >= au * (1 - 1e-9):
            return count
    return None


def _worker_counts(question: Question) -> range:
    machine = question.scenario().machine
    blocked_share = _blocked_share(question.scenario())
    # Blocked workers leave their core to others, so as many more of them can be of use.
    cores = machine.cores / machine.accelerators / max(1e-3, 1 - blocked_share)
    return range(1, min(_MOST_COUNTED, math.ceil(_WORKERS_A_CORE * cores)) + 1)


def _blocked_share(scenario: Scenario) -> float:
    cpu, blocked = (_seconds(scenario, kind) for kind in (Resource.CORES, Resource.STORAGE))
    return blocked / (cpu + blocked) if blocked > 0 else 0.0


def _shown(scenario: Scenario) -> dict[str, str]:
    """The numbers of _SOURCES as text, in its order."""
    work = scenario.workload
    seconds = (
        work.device_s.median,
        _seconds(scenario, Resource.CORES),
        _seconds(scenario, Resource.STORAGE),
        work.transfer_s.median,
        work.contention_s.median,
    )
    shown = [text(value, Dimension.TIME) for value in seconds]
    names = [what for what, _ in _SOURCES]
    return dict(zip(names, [*shown, f"{scenario.machine.cores:g}"], strict=True))


def _seconds(scenario: Scenario, resource: Resource) -> float:
    """Seconds of one sample's loading on a resource."""
    return sum(
        cost.per_sample.median for cost in scenario.workload.stages if cost.resource is resource
    )
