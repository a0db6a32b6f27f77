"""A plan as text: what a target asks for, host by host, what each lacks and what idling costs.

Formatting only: every number comes finished.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import msgspec

from stoker.records.scenario import Forecast, Scenario
from stoker.report.numbers import amount, percent, spread
from stoker.report.prediction import Saved, columns, folded, in_the_way, limit_name
from stoker.theory.plan import Added, Lack, Needs

SCHEMA = "stoker.plan/1"
# How the units of what is lacked are shown: workers are no quantity but a count.
_UNITS = {"cores": "cores", "workers": "", "bytes/s": "bytes/s", "reads/s": "reads/s"}
# What two ways to add up the same seconds may differ by.
_SAME = 1e-6


class HostPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One host against the target. `needs` is None where no loading can reach it."""

    host: str
    accelerator: str
    best_au: float  # with loading that costs nothing
    in_the_way: Added | None = None  # the largest part beyond the accelerator's own, if never
    needs: Needs | None
    lacks: tuple[Lack, ...]
    forecast: Forecast  # on this host, with the workers that are needed
    scenario: Scenario
    idle_usd_a_day: float | None = None
    usd_per_hour: float | None = None
    where_to_invest: tuple[Saved, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def is_enough(self) -> bool:
        """True when nothing that is known falls short of the target, nor the forecast does."""
        if self.needs is None or any(lack.is_short for lack in self.lacks):
            return False
        return self.forecast.step_s.median <= self.needs.step_s * (1 + _SAME)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `stoker plan` answers; as JSON it is the same record."""

    schema: str = SCHEMA
    run: str
    target: str
    hosts: tuple[HostPlan, ...]
    doubts: tuple[str, ...] = ()  # about the diagnosis that it starts from


def plan_text(plan: Plan, *, width: int) -> str:
    """The whole plan, ending in a newline."""
    parts = [
        [plan.run, f"target: {plan.target}"],
        folded("doubtful", plan.doubts, width),
        _hosts(plan.hosts),
        _missing(plan.hosts),
    ]
    for host in plan.hosts:
        if host.needs is not None:
            parts.append(_needs(host))
            break  # the first host's needs in full; the others' are in the table and the JSON
    parts += [_invest(plan.hosts), _best(plan.hosts), _unknown(plan.hosts, width)]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _hosts(hosts: Sequence[HostPlan]) -> list[str]:
    rows = []
    for host in hosts:
        machine, needs = host.scenario.machine, host.needs
        has = machine.cores / machine.accelerators
        rows.append(
            (
                host.host,
                f"{machine.accelerators} x {host.accelerator}",
                "never" if needs is None else amount(needs.cores, "cores").removesuffix(" cores"),
                amount(has, "cores").removesuffix(" cores"),
                "" if needs is None else str(needs.workers),
                # A whole percentage would show 94.9% as the 95% that was asked for.
                amount(host.forecast.au.median, "share"),
                "" if host.idle_usd_a_day is None else f"{host.idle_usd_a_day:,.0f}",
                limit_name(host.forecast.limit),
            )
        )
    return columns(
        ("host", "accelerators", "cores needed", "has", "workers", "AU", "idle USD/day", "limit"),
        rows,
        left=2,
    )


def _missing(hosts: Sequence[HostPlan]) -> list[str]:
    lines = []
    for host in hosts:
        if host.needs is None:
            reason, remedy = in_the_way(host.in_the_way)
            lines.append(
                f"{host.host} never reaches it: with loading that costs nothing its AU is "
                f"{percent(host.best_au)}, {reason}" + (f" ({remedy})" if remedy else "")
            )
            continue
        short = [lack for lack in host.lacks if lack.is_short]
        if host.is_enough:
            lines.append(f"{host.host} has enough of all that is known")
        elif not short:
            lines.append(
                f"{host.host} falls short of it, its AU is {percent(host.forecast.au.median)}; "
                f"in the way: {limit_name(host.forecast.limit)}"
            )
        lines += [f"{host.host} lacks {_lack(lack)}" for lack in short]
    return lines


def _lack(lack: Lack) -> str:
    return (
        f"{lack.what}: {amount(lack.needs, _UNITS[lack.unit])} an accelerator are needed, "
        f"{amount(lack.has, _UNITS[lack.unit])} are there"
    )


def _needs(host: HostPlan) -> list[str]:
    needs = host.needs
    assert needs is not None
    rows = [
        ("cores", amount(needs.cores, "cores")),
        ("workers", str(needs.workers)),
        ("storage", _or_unknown(needs.storage_bytes_per_s, "bytes/s")),
        ("storage reads", _or_unknown(needs.storage_reads_per_s, "reads/s")),
        ("in page cache", _or_unknown(needs.cached_share, "share")),
        ("link", _or_unknown(needs.link_bytes_per_s, "bytes/s")),
    ]
    pace = f"{amount(needs.samples_per_s, 'samples/s')}, {amount(needs.step_s, 's')} a step"
    return [
        f"the least that one {host.accelerator} needs for it ({pace})",
        *(f"  {line}" for line in columns(("", ""), rows)[1:]),
    ]


def _or_unknown(value: float | None, kind: str) -> str:
    return "unknown" if value is None else amount(value, kind)


def _invest(hosts: Sequence[HostPlan]) -> list[str]:
    """Where to invest on the first host: the binding resource first."""
    if not hosts or not hosts[0].where_to_invest:
        return []
    felt = [saved for saved in hosts[0].where_to_invest if saved.saved.median > 0]
    if not felt:
        return []
    rows = [(saved.what, spread(saved.saved, "share")) for saved in felt]
    return columns((f"where to invest on {hosts[0].host}", "of the step saved"), rows)


def _best(hosts: Sequence[HostPlan]) -> list[str]:
    """The cheapest host that has enough, by price an accelerator, where prices are known."""
    priced = [host for host in hosts if host.usd_per_hour is not None and host.is_enough]
    if not priced:
        return []

    def price(host: HostPlan) -> float:
        assert host.usd_per_hour is not None
        done = host.forecast.samples_per_s.median * host.scenario.machine.accelerators
        return host.usd_per_hour / (3600 * done) * 1e6

    best = min(priced, key=price)
    return [f"cheapest that has enough: {best.host}, {price(best):,.2f} USD a million samples"]


def _unknown(hosts: Sequence[HostPlan], width: int) -> list[str]:
    texts = dict.fromkeys(text for host in hosts for text in host.unknown)
    lines: list[str] = []
    for text in texts:
        lines += textwrap.wrap(f"unknown: {text}", width, subsequent_indent="  ")
    return lines
