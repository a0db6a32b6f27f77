"""Forecast a training run: what limits it, how fed the accelerator is, and what would change it.

stoker predict resnet50 --host p4d --batch 256 --workers 8
stoker predict resnet50 --on a100                      (the step alone, and what it asks for)
stoker predict --from diagnosis.json --what-if workers=16 --what-if pack,workers=4
stoker predict resnet50 --host p4d --sweep workers=1..64 --svg workers.svg
stoker predict mymodule:build_model --input 3x224x224 --on a100       (layer by layer)
stoker predict --validate rows.csv --json -
"""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import TYPE_CHECKING

from stoker.cli.files import JsonOutput, answer
from stoker.cli.streams import write_stdout
from stoker.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    import msgspec

    from stoker.cli.setting import Asked
    from stoker.records.scenario import Forecast, Scenario
    from stoker.report.prediction import MostUse, Prediction, WhatIf
    from stoker.theory.layers import LayerForecast
    from stoker.theory.question import Question
    from stoker.theory.step import StepForecast
    from stoker.zoo.load import Zoo

_TARGET_AU = 0.95
_SWEEP_POINTS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from stoker.cli.setting import add_run_arguments, utilisation

    add_run_arguments(parser)
    ask = parser.add_argument_group("the question")
    ask.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="CHANGES",
        help="pack, dali, device-augment, workers=16, storage=nvme, link=gen5, …; joined by "
        "commas they are made together; repeat the option for several rows",
    )
    ask.add_argument(
        "--sweep", metavar="AXIS=LOW..HIGH", help="batch=1..1024, workers=1..64 or another axis"
    )
    ask.add_argument("--points", type=int, default=_SWEEP_POINTS, help="of the sweep (%(default)s)")
    ask.add_argument("--svg", metavar="FILE", help="write the sweep's picture")
    ask.add_argument(
        "--variation",
        type=float,
        metavar="CV",
        help="of a sample's loading time (deviation over mean): what variance costs, simulated",
    )
    ask.add_argument(
        "--au", type=utilisation, default=_TARGET_AU, help="workers for it (%(default)s)"
    )
    ask.add_argument("--json", metavar="FILE|-", help="write the answer as JSON")
    ask.add_argument("--validate", metavar="ROWS.csv", help="forecast published or own rows")


def run(args: argparse.Namespace) -> int:
    """Answer one question. Raises InputError and UsageError."""
    from stoker.zoo.load import load_zoo

    output = JsonOutput.checked(args.json) if args.json else None
    zoo = load_zoo()
    if args.validate is not None:
        from stoker.cli.validate import validate

        return validate(args.validate, zoo, output)
    if args.sweep is not None:
        from stoker.cli.sweep import sweep

        return sweep(args, zoo, output)
    if args.svg is not None:
        raise UsageError(
            "--svg draws a sweep, and none was asked for",
            looked_at="--svg and --sweep",
            run_next="--sweep batch=1..1024 --svg FILE",
        )
    if args.source is None and args.host is None and args.cores is None:
        return _step_alone(args, zoo, output)
    prediction = predicted(args, zoo)
    from stoker.report.prediction import prediction_text

    deliver(prediction_text(prediction, width=text_width()), prediction, output)
    return EXIT_OK


def predicted(args: argparse.Namespace, zoo: Zoo) -> Prediction:
    """Everything there is to say about the run that the options name."""
    from stoker.cli.setting import asked, asked_of_any_workers
    from stoker.report.prediction import Prediction, Saved
    from stoker.theory.pipeline import cores_needed, forecast
    from stoker.theory.plan import target_step
    from stoker.theory.question import AboutAssumed, AboutMeasured
    from stoker.theory.stalls import stalls
    from stoker.theory.sweep import sensitivity

    found = asked(args, zoo)
    question = found.question
    scenario = question.scenario()
    target_step(scenario, au=args.au)  # refuses a target that is none
    made = question.worked_out() if isinstance(question, AboutAssumed) else None
    bases = question.bases() if isinstance(question, AboutMeasured) else ()
    free = asked_of_any_workers(args, zoo)
    workers = free.workers_for(args.au)
    return Prediction(
        run=_heading(found, args),
        surroundings=_surroundings(found),
        doubts=found.doubts,
        scenario=scenario,
        forecast=forecast(scenario),
        band="75% band" if made else "95% interval",
        target_au=args.au,
        workers=workers,
        most_use=None if workers is not None else _most_use(free),
        cores_per_accelerator=cores_needed(scenario),
        step=made.step if made and args.step is None else None,
        first_epoch=_first_epoch(found),
        what_if=tuple(_tried(args, zoo, scenario, text) for text in args.what_if),
        variation=args.variation,
        stalls=() if args.variation is None else stalls(scenario, args.variation),
        where_to_invest=tuple(
            Saved(what=effect.what, saved=effect.saved) for effect in sensitivity(scenario)
        ),
        bases=made.bases if made else bases,
        unknown=made.unknown if made else (),
    )


def _most_use(question: Question) -> MostUse:
    from stoker.report.prediction import MostUse
    from stoker.theory.pipeline import forecast
    from stoker.theory.plan import most_added
    from stoker.theory.question import most_use

    scenario = most_use(question)
    found = forecast(scenario)
    return MostUse(
        workers=scenario.loader.workers,
        au=found.au.median,
        limit=found.limit,
        in_the_way=most_added(scenario),
    )


def text_width() -> int:
    """Columns of the terminal, 80 for a file; no line is longer than the eye can follow."""
    return max(72, min(100, shutil.get_terminal_size((80, 24)).columns))


def _tried(args: argparse.Namespace, zoo: Zoo, before: Scenario, text: str) -> WhatIf:
    from stoker.cli.setting import asked, varied
    from stoker.report.prediction import WhatIf
    from stoker.theory.pipeline import forecast, gain
    from stoker.theory.question import NotKnownError

    other, changes = varied(args, text)
    question = asked(other, zoo).question
    for change in changes:
        question = question.changed(change)
    try:
        after = question.scenario()
    except NotKnownError as error:
        return WhatIf(what=text, forecast=None, gain=None, reason=error.happened)
    return WhatIf(what=text, forecast=forecast(after), gain=gain(before, after))


def _first_epoch(found: Asked) -> Forecast | None:
    """With nothing cached yet, where a store was named and the cache serves anything later."""
    import msgspec

    from stoker.theory.pipeline import forecast
    from stoker.theory.question import AboutAssumed

    question = found.question
    if not isinstance(question, AboutAssumed) or question.setting.storage is None:
        return None
    if question.setting.cached is not None:
        return None
    setting = msgspec.structs.replace(question.setting, is_first_epoch=True)
    return forecast(msgspec.structs.replace(question, setting=setting).scenario())


def _heading(found: Asked, args: argparse.Namespace) -> str:
    from stoker.theory.assume import assumed
    from stoker.theory.question import AboutAssumed, AboutMeasured

    question = found.question
    if isinstance(question, AboutMeasured):
        script = " ".join(question.profile.script.argv)
        other = f", its step that of {found.model.title} on {args.on}" if found.model else ""
        return f"{script} as measured on {question.profile.environment.machine}{other}"
    assert isinstance(question, AboutAssumed)
    setting = question.setting
    step = assumed(setting).step
    doing = "training" if step.training else "inference"
    return (
        f"{setting.model.title} ({setting.model.input}) on {setting.accelerator.title}: {doing}, "
        f"batch {setting.batch}, stack {step.stack}, {step.precision}"
    )


def _surroundings(found: Asked) -> tuple[str, ...]:
    from stoker.theory.question import AboutAssumed

    scenario = found.question.scenario()
    machine, work = scenario.machine, scenario.workload
    shared = f" for {machine.accelerators} accelerators" if machine.accelerators > 1 else ""
    lines = [
        f"{machine.name}: {machine.cores:g} cores{shared}; {scenario.loader.workers} workers "
        f"each; batch {work.batch_size}"
    ]
    question = found.question
    if isinstance(question, AboutAssumed):
        setting = question.setting
        lines.append(
            f"data set {setting.dataset.title if setting.dataset else 'unknown'}; "
            f"storage {setting.storage.title if setting.storage else 'unknown'}; "
            f"link {setting.link.title if setting.link else 'unknown'}"
        )
    if found.chosen:
        lines.append("chosen for you: " + "; ".join(found.chosen))
    return tuple(lines)


def _step_alone(args: argparse.Namespace, zoo: Zoo, output: JsonOutput | None) -> int:
    """No host: the step, what it asks of one, and for a torch module its layers."""
    import msgspec

    from stoker.cli.setting import asked, setting_of
    from stoker.report.prediction import StepAlone, step_alone_text
    from stoker.theory.assume import assumed
    from stoker.theory.plan import needs

    if args.model is None:
        asked(args, zoo)  # says which word is missing
    setting, chosen = setting_of(args, zoo)
    # The cores of the host that isn't there do not enter the needs.
    made = assumed(msgspec.structs.replace(setting, cores=1.0))
    alone = StepAlone(
        run=_heading_of(made.step, setting.model.title),
        chosen=tuple(text for text in chosen if "workers" not in text),
        step=made.step,
        samples=setting.batch,
        needs=needs(made.scenario, made.step.seconds.median),
        unknown=tuple(text for text in made.unknown if not text.startswith("storage")),
        layers=_layers(args, made.step, zoo),
    )
    deliver(step_alone_text(alone, width=text_width()), alone, output)
    return EXIT_OK


def _layers(args: argparse.Namespace, step: StepForecast, zoo: Zoo) -> tuple[LayerForecast, ...]:
    if ":" not in args.model:
        return ()
    from stoker.theory import layers

    module, example = layers.build(args.model, args.input)
    return layers.on_accelerator(
        layers.layers(module, example),
        zoo.accelerator(step.accelerator),
        batch=round(step.batch),
        precision=step.precision,
    )


def _heading_of(step: StepForecast, title: str) -> str:
    doing = "training" if step.training else "inference"
    return f"{title} on {step.accelerator}: {doing}, stack {step.stack}, {step.precision}"


def deliver(text: str, record: msgspec.Struct, output: JsonOutput | None) -> None:
    """The text on stdout, or the JSON where --json sends it."""
    from stoker.records.codec import to_json
    from stoker.report import plain, plot

    is_unicode = (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf")
    shown = text if is_unicode else plain.in_ascii(plot.in_ascii(text))
    answer(output, lambda: to_json(record), lambda: write_stdout(shown))
