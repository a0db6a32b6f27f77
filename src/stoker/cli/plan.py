"""From a target to resources: what a host must have to keep its accelerators fed.

stoker plan resnet50 --au 0.95 --hosts p4d,p5.48xlarge,g5.xlarge
stoker plan resnet50 --on a100 --samples-per-s 2400 --storage gp3
stoker plan --from diagnosis.json --au 0.95 --hosts p4d --usd-per-hour p4d=32.77
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from stoker.cli.files import JsonOutput
from stoker.errors import EXIT_OK, InputError, UsageError

if TYPE_CHECKING:
    from stoker.records.zoo import Host
    from stoker.report.planning import HostPlan
    from stoker.zoo.load import Zoo

_TARGET_AU = 0.95


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from stoker.cli.setting import add_run_arguments, utilisation

    add_run_arguments(parser)
    ask = parser.add_argument_group("the target")
    ask.add_argument("--au", type=utilisation, help=f"utilisation (default {_TARGET_AU})")
    ask.add_argument("--samples-per-s", type=float, metavar="N", help="of one accelerator, instead")
    ask.add_argument(
        "--hosts", metavar="A,B,…", help="default: --host, else all of the zoo with --on"
    )
    ask.add_argument(
        "--usd-per-hour",
        action="append",
        default=[],
        metavar="HOST=PRICE",
        help="price of a whole host, for what idling costs a day",
    )
    ask.add_argument("--json", metavar="FILE|-", help="write the plan as JSON")


def run(args: argparse.Namespace) -> int:
    """Plan for each host. Raises InputError and UsageError."""
    from stoker.cli.files import read_diagnosis
    from stoker.cli.predict import deliver, text_width
    from stoker.report.planning import Plan, plan_text
    from stoker.theory.question import doubts
    from stoker.zoo.load import load_zoo

    output = JsonOutput.checked(args.json) if args.json else None
    zoo = load_zoo()
    prices = dict(_price(text, zoo) for text in args.usd_per_hour)
    if args.au is None and args.samples_per_s is None:
        args.au = _TARGET_AU
    hosts = tuple(_host_plan(args, zoo, name, prices) for name in _host_names(args, zoo))
    target = (
        f"an AU of {args.au:g}"
        if args.au is not None
        else f"{args.samples_per_s:,g} samples/s an accelerator"
    )
    # The best first: hosts that have enough, then by utilisation.
    ordered = tuple(sorted(hosts, key=lambda plan: (not plan.is_enough, -plan.forecast.au.median)))
    name = args.model or args.source
    plan = Plan(
        run=f"{name}, {hosts[0].scenario.basis}",
        target=target,
        hosts=ordered,
        doubts=() if args.source is None else doubts(read_diagnosis(args.source)),
    )
    deliver(plan_text(plan, width=text_width()), plan, output)
    return EXIT_OK


def _host_names(args: argparse.Namespace, zoo: Zoo) -> list[str | None]:
    """The hosts to compare; None stands for what --cores or the diagnosis says."""
    if args.hosts is not None:
        return [zoo.host(name.strip()).name for name in args.hosts.split(",")]
    if args.host is not None:
        return [zoo.host(args.host).name]
    if args.cores is not None or (args.source is not None and args.on is None):
        return [None]
    if args.on is None:
        raise UsageError(
            "no host and no accelerator was named",
            looked_at="--hosts, --host and --on",
            run_next="stoker plan resnet50 --hosts p4d,p5.48xlarge",
        )
    wanted = zoo.accelerator(args.on).name
    found = [
        host.name
        for host in zoo.hosts.values()
        if host.cores is not None and _accelerator_of(host, zoo) == wanted
    ]
    if not found:
        raise InputError(
            f"no host of the zoo has {wanted} and says how many cores it has",
            looked_at=f"{len(zoo.hosts)} hosts",
            run_next=f"stoker plan {args.model} --on {args.on} --cores 48 --accelerators 8",
        )
    return list(found)


def _accelerator_of(host: Host, zoo: Zoo) -> str | None:
    """The zoo's name of a host's accelerator; None where the zoo has no such accelerator."""
    if host.accelerator is None:
        return None
    try:
        return zoo.accelerator(host.accelerator).name
    except InputError:
        return None


def _host_plan(
    args: argparse.Namespace, zoo: Zoo, host: str | None, prices: dict[str, float]
) -> HostPlan:
    from stoker.cli.setting import asked, asked_of_any_workers
    from stoker.report.planning import HostPlan
    from stoker.report.prediction import Saved
    from stoker.theory.assume import assumed
    from stoker.theory.pipeline import forecast
    from stoker.theory.plan import fastest_step, idle_usd_a_day, lacks, most_added, needs_of
    from stoker.theory.question import AboutAssumed
    from stoker.theory.sweep import sensitivity

    named = argparse.Namespace(**{**vars(args), "host": host})
    question = asked(named, zoo).question
    free = asked_of_any_workers(named, zoo)
    needed, asked_for = needs_of(free, au=args.au, samples_per_s=args.samples_per_s)
    is_free = needed is not None and args.workers is None  # to have the workers that it takes
    scenario = asked_for if is_free else question.scenario()
    entry = None if host is None else zoo.host(host)
    price = prices.get(host or "")
    if price is None and entry is not None and entry.usd_per_hour is not None:
        price = entry.usd_per_hour.value
    accelerator = args.on or (entry.accelerator if entry else None)
    return HostPlan(
        host=host or scenario.machine.name,
        accelerator=zoo.accelerator(accelerator).name if accelerator else "accelerator",
        best_au=asked_for.workload.device_s.median / fastest_step(asked_for),
        in_the_way=most_added(asked_for) if needed is None else None,
        needs=needed,
        lacks=() if needed is None else lacks(scenario, needed),
        forecast=forecast(scenario),
        scenario=scenario,
        usd_per_hour=price,
        idle_usd_a_day=None if price is None else idle_usd_a_day(scenario, price),
        where_to_invest=tuple(
            Saved(what=effect.what, saved=effect.saved) for effect in sensitivity(scenario)
        ),
        unknown=assumed(question.setting).unknown if isinstance(question, AboutAssumed) else (),
    )


def _price(text: str, zoo: Zoo) -> tuple[str, float]:
    name, _, price = text.partition("=")
    try:
        value = float(price)
    except ValueError as error:
        raise UsageError(
            f"--usd-per-hour {text!r} is no HOST=PRICE",
            looked_at="--usd-per-hour",
            run_next="--usd-per-hour p4d=32.77",
        ) from error
    if not value > 0:
        raise InputError(
            f"the price of {name} is {price}: it must be positive",
            looked_at="--usd-per-hour",
            run_next="--usd-per-hour p4d=32.77",
        )
    return zoo.host(name).name, value
