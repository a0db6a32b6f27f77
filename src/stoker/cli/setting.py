"""The options by which predict and plan name a run, and the question that they make of them."""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple

import msgspec

from stoker.cli.files import read_diagnosis
from stoker.errors import InputError, UsageError
from stoker.records.profile import Profile
from stoker.records.zoo import DataSet, Host, Link, Model, Precision, Stack, Storage
from stoker.theory import whatif
from stoker.theory.assume import largest_batch
from stoker.theory.calibrate import scenario_from
from stoker.theory.question import CHANGES, AboutAssumed, AboutMeasured, Question, doubts
from stoker.theory.setting import Setting
from stoker.theory.step import default_stack, step_time
from stoker.units import Dimension, to_si
from stoker.zoo.load import Zoo

# The customary batches of examples and benchmarks, made smaller where they do not fit.
_USUAL_BATCH = {"image": 256}
_OTHER_BATCH = 32
_USUAL_DATASET = {"image": "imagenet", "sequence": "text-2048", "token": "text-2048"}
_WHOLE = ("workers", "batch", "accelerators")
_NAMED = ("storage", "link", "on", "host", "stack", "dataset")


class Asked(NamedTuple):
    """A question, and what of it was chosen for the user."""

    question: Question
    model: Model | None
    chosen: tuple[str, ...]
    doubts: tuple[str, ...] = ()  # about a diagnosis that it starts from


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that name a run."""
    run = parser.add_argument_group("the run")
    run.add_argument(
        "model", nargs="?", metavar="MODEL", help="a model of the zoo, or MODULE:CALLABLE"
    )
    run.add_argument(
        "--from", dest="source", metavar="DIAGNOSIS.json", help="measured costs instead"
    )
    run.add_argument("--on", metavar="ACCELERATOR", help="default: the host's")
    run.add_argument("--host", metavar="HOST", help="a host of the zoo (stoker zoo hosts)")
    run.add_argument("--batch", type=int, metavar="N", help="samples a step of one accelerator")
    run.add_argument("--workers", type=int, metavar="N", help="default: one for each core")
    run.add_argument(
        "--stack", choices=[stack.value for stack in Stack], help="default: the model's"
    )
    run.add_argument("--precision", choices=[one.value for one in Precision])
    run.add_argument("--inference", action="store_true", help="forward passes only")
    run.add_argument("--dataset", metavar="NAME", help="default: imagenet for images, else text")
    run.add_argument("--storage", metavar="KIND", help="default: unknown, bounds nothing")
    run.add_argument("--link", metavar="KIND", help="default: the accelerator's")
    run.add_argument(
        "--cores", type=float, metavar="N", help="of the whole host, over the host's own"
    )
    run.add_argument("--accelerators", type=int, metavar="N", help="that share the host")
    run.add_argument("--cpu", metavar="TIME", help="CPU time of loading a sample, like 3ms")
    run.add_argument("--step", metavar="TIME", help="time of a step, like 20ms, over the forecast")
    run.add_argument("--stored", metavar="BYTES", help="of one sample on storage, like 500KB")
    run.add_argument("--cached", type=float, metavar="SHARE", help="of samples in the page cache")
    run.add_argument("--overlap-transfer", action="store_true", help="copies run beside the step")
    run.add_argument("--input", metavar="SHAPE", help="of MODULE:CALLABLE, like 3x224x224")


def asked(args: argparse.Namespace, zoo: Zoo) -> Asked:
    """The question that the options ask. Raises InputError and UsageError."""
    if args.source is not None:
        return _about_measured(args, zoo)
    if args.model is None:
        raise UsageError(
            "no model was named",
            looked_at="MODEL and --from",
            run_next="stoker predict resnet50 --host p4d, or stoker predict --from DIAGNOSIS.json",
        )
    return _about_assumed(args, zoo)


def asked_of_any_workers(args: argparse.Namespace, zoo: Zoo) -> Question:
    """The same question without a worker count: what other counts are tried on.

    On top of one that was given the start of both would count.
    """
    return asked(argparse.Namespace(**{**vars(args), "workers": None}), zoo).question


def varied(args: argparse.Namespace, text: str) -> tuple[argparse.Namespace, tuple[str, ...]]:
    """`pack,workers=16` as other options and the changes to make; raises UsageError."""
    values = dict(vars(args))
    changes = []
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals and name in CHANGES:
            changes.append(name)
        elif equals and name in _WHOLE:
            values[name] = _whole(name, value)
        elif equals and name == "cores":
            values[name] = _real(name, value)
        elif equals and name in _NAMED:
            values[name] = value
        else:
            raise UsageError(
                f"--what-if can't change {part!r}",
                looked_at=", ".join((*CHANGES, *(f"{n}=…" for n in (*_WHOLE, "cores", *_NAMED)))),
                run_next="--what-if pack,workers=16 makes both changes together",
            )
    return argparse.Namespace(**values), tuple(changes)


def host_of(args: argparse.Namespace, zoo: Zoo) -> Host | None:
    """The host that was named."""
    return None if args.host is None else zoo.host(args.host)


def model_of(args: argparse.Namespace, zoo: Zoo) -> Model:
    """The model of the zoo, or a torch module counted on the meta device."""
    if ":" not in args.model:
        return zoo.model(args.model)
    from stoker.theory import layers

    if args.input is None:
        raise UsageError(
            f"the shape of an input of {args.model} is needed",
            looked_at="--input",
            run_next=f"stoker predict {args.model} --input 3x224x224 --on a100",
        )
    module, example = layers.build(args.model, args.input)
    return layers.model_of(args.model, module, example)


def _accelerators(args: argparse.Namespace, host: Host | None) -> int | None:
    """Those that share the host: as given, 0 included, or the host's own."""
    if args.accelerators is not None:
        return int(args.accelerators)
    return host.accelerators if host else None


def _cores_of(host: Host | None) -> float | None:
    return host.cores.value if host is not None and host.cores is not None else None


def _require_cores(args: argparse.Namespace) -> None:
    if args.cores is None or 0 < args.cores < math.inf:
        return
    raise InputError(
        f"there can't be {args.cores:g} cores",
        looked_at="--cores",
        run_next="give the cores that the accelerators of the host share, for example --cores 48",
    )


def setting_of(args: argparse.Namespace, zoo: Zoo) -> tuple[Setting, tuple[str, ...]]:
    """The zoo's entries behind the options, and what was chosen for the user."""
    model, host = model_of(args, zoo), host_of(args, zoo)
    if args.on is None and (host is None or host.accelerator is None):
        raise UsageError(
            "no accelerator was named",
            looked_at="--on and --host",
            run_next=f"stoker predict {args.model} --on a100",
        )
    accelerator = zoo.accelerator(args.on or (host.accelerator if host else None) or "")
    dataset, chosen = _dataset(args, zoo, model)
    _require_cores(args)
    shared_by = _accelerators(args, host)
    accelerators = 1 if shared_by is None else shared_by
    setting = Setting(
        model=model,
        accelerator=accelerator,
        batch=1 if args.batch is None else args.batch,
        workers=1 if args.workers is None else args.workers,
        stack=None if args.stack is None else Stack(args.stack),
        precision=None if args.precision is None else Precision(args.precision),
        training=not args.inference,
        host=host,
        cores=args.cores,
        accelerators=accelerators,
        dataset=dataset,
        ops=() if dataset is None else tuple(zoo.op(name) for name in dataset.ops),
        cpu_s=_seconds(args.cpu, "CPU time of a sample"),
        stored_bytes=_bytes(args.stored),
        storage=None if args.storage is None else zoo.storage(args.storage),
        cached=args.cached,
        link=_link(args, zoo, accelerator.link or (host.link if host else None)),
        transfer_overlapped=args.overlap_transfer,
        worker_copy=zoo.link("worker-copy"),
        hand_off=zoo.link("hand-off"),
    )
    if args.batch is None:
        usual = _USUAL_BATCH.get(model.unit, _OTHER_BATCH)
        setting = msgspec.structs.replace(setting, batch=max(1, min(usual, largest_batch(setting))))
        chosen.append(f"batch {setting.batch}")
    if args.workers is None:
        cores = args.cores or (host.cores.value if host and host.cores else accelerators)
        setting = msgspec.structs.replace(
            setting, workers=max(1, int(cores / max(1, accelerators)))
        )
        chosen.append(f"{setting.workers} workers, one for each core")
    if args.stack is None:
        chosen.append(f"stack {default_stack(model)}")
    return setting, tuple(chosen)


def _about_assumed(args: argparse.Namespace, zoo: Zoo) -> Asked:
    setting, chosen = setting_of(args, zoo)
    step_s = _seconds(args.step, "time of a step")
    return Asked(AboutAssumed(setting=setting, step_s=step_s), setting.model, chosen)


def _about_measured(args: argparse.Namespace, zoo: Zoo) -> Asked:
    """Measured costs, with the parts replaced that were named."""
    diagnosis = read_diagnosis(args.source)
    profile: Profile = diagnosis.profile
    question = AboutMeasured(profile=profile, base=scenario_from(profile))
    host = host_of(args, zoo)
    model = None if args.model is None else model_of(args, zoo)
    axes: list[tuple[str, float | None]] = [
        ("batch", args.batch),
        ("accelerators", _accelerators(args, host)),
        ("cores", args.cores if args.cores is not None else _cores_of(host)),
        ("workers", args.workers),
        ("cached", args.cached),
    ]
    for axis, value in axes:
        if value is not None:
            question = question.at(axis, value)
    cpu_s = _seconds(args.cpu, "CPU time of a sample")
    if cpu_s is not None:
        question = question.at("cpu-ms", cpu_s * 1e3)
    question = _with_device(question, args, zoo, model, host)
    if args.storage is not None:
        question = _with_storage(question, args, zoo)
    return Asked(question, model, (), doubts(diagnosis))


def _with_device(
    question: AboutMeasured,
    args: argparse.Namespace,
    zoo: Zoo,
    model: Model | None,
    host: Host | None,
) -> AboutMeasured:
    """Another accelerator: its step from --step or the model's forecast, its link by name."""
    name = args.on or (host.accelerator if host and model else None)
    accelerator = None if name is None else zoo.accelerator(name)
    link = _link(args, zoo, accelerator.link if accelerator else None)
    if link is not None:
        rate = link.pinned_bytes_per_s or link.bytes_per_s
        question = question.at("link-gb", rate.value / 1e9)
    given = _seconds(args.step, "time of a step")
    if given is not None:
        return question.at("step-ms", given * 1e3)
    if accelerator is None:
        return question
    if model is None:
        raise UsageError(
            f"a step on {accelerator.name} is unknown: the diagnosis does not say which model ran",
            looked_at="MODEL and --step",
            run_next=f"stoker predict resnet50 --from {args.source} --on {args.on}, or --step 20ms",
        )
    step = step_time(
        model,
        accelerator,
        batch=question.base.workload.batch_size
        * (model.tokens or 1 if model.unit == "token" else 1),
        stack=args.stack,
        precision=args.precision,
        training=not args.inference,
    )
    base = whatif.device(question.base, step.seconds.median)
    work = msgspec.structs.replace(base.workload, device_s=step.seconds)
    return msgspec.structs.replace(question, base=msgspec.structs.replace(base, workload=work))


def _with_storage(question: AboutMeasured, args: argparse.Namespace, zoo: Zoo) -> AboutMeasured:
    entry = zoo.storage(args.storage)
    stored = _bytes(args.stored) or question.base.workload.stored_bytes
    base = whatif.storage(question.base, store_of(entry, stored))
    work = msgspec.structs.replace(base.workload, stored_bytes=stored)
    return msgspec.structs.replace(question, base=msgspec.structs.replace(base, workload=work))


def store_of(entry: Storage, stored_bytes: float | None) -> whatif.Store:
    """A kind of storage as a sample of so many bytes meets it."""
    rate = entry.bytes_per_s_per_request or entry.bytes_per_s
    wait = entry.latency_s.value if entry.latency_s else 0.0
    if rate is not None and stored_bytes is not None:
        wait += stored_bytes / rate.value
    return whatif.Store(
        name=entry.name,
        wait_s=wait,
        bytes_per_s=entry.bytes_per_s.value if entry.bytes_per_s else None,
        reads_per_s=entry.reads_per_s.value if entry.reads_per_s else None,
        slots=int(entry.slots.value) if entry.slots else None,
    )


def _dataset(args: argparse.Namespace, zoo: Zoo, model: Model) -> tuple[DataSet | None, list[str]]:
    if args.dataset is not None:
        dataset = zoo.dataset(args.dataset)
        if dataset.feeds and model.unit not in dataset.feeds:
            raise UsageError(
                f"{model.name} does not train on {dataset.name}: a sample of the model is "
                f"{_one(model.unit)}, one of {dataset.title} is {_one(dataset.feeds[0])}",
                looked_at="--dataset",
                run_next="leave --dataset away for the usual one; stoker zoo lists them all",
            )
        return dataset, []
    usual = _USUAL_DATASET.get(model.unit)
    if usual is None:
        return None, []
    return zoo.dataset(usual), [f"data set {usual}"]


def _one(unit: str) -> str:
    """A model's unit as a word in a sentence."""
    return {"image": "an image", "sample": "a sample of its own kind"}.get(unit, f"a {unit}")


def utilisation(text: str) -> float:
    """`0.95` or `95%` as a share; raises ArgumentTypeError for what is no utilisation."""
    digits, mark, rest = text.strip().partition("%")
    try:
        value = float(digits) / (100 if mark else 1)
    except ValueError:
        value = math.nan
    if rest or not 0 < value <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no utilisation: it lies between 0 and 1; write 0.95 or 95%"
        )
    return value


def _link(args: argparse.Namespace, zoo: Zoo, usual: str | None) -> Link | None:
    name = args.link or usual
    return None if name is None else zoo.link(name)


def _seconds(text: str | None, name: str) -> float | None:
    return None if text is None else to_si(text, Dimension.TIME, name=name)


def _bytes(text: str | None) -> float | None:
    return None if text is None else to_si(text, Dimension.BYTES, name="stored bytes of a sample")


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(
            f"{name}={text} is no whole number",
            looked_at="--what-if",
            run_next=f"--what-if {name}=16",
        ) from error


def _real(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(
            f"{name}={text} is no number", looked_at="--what-if", run_next=f"--what-if {name}=16"
        ) from error
