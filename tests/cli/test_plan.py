"""`stoker plan` as a user has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.records.codec import to_json
from tests.cli.test_predict import answered, starts_of_workers, stoker
from tests.golden.diagnoses import cpu_saturated

HOSTS = ("plan", "resnet50", "--hosts", "p4d,p5.48xlarge", "--au", "0.9")


def as_json(*argv: str) -> dict:  # type: ignore[type-arg]
    return json.loads(answered(*argv, "--json", "-"))  # type: ignore[no-any-return]


def test_a_plan_tells_what_each_host_lacks_and_the_least_that_is_needed() -> None:
    told = answered(*HOSTS, "--storage", "gp3")
    assert "p4d.24xlarge lacks cores:" in told
    assert "the least that one" in told
    assert "where to invest on" in told


def test_the_needs_are_in_the_json_for_every_host() -> None:
    found = as_json(*HOSTS)
    assert found["schema"] == "stoker.plan/1"
    by_name = {host["host"]: host for host in found["hosts"]}
    p4d = by_name["p4d.24xlarge"]
    assert p4d["needs"]["au"] == pytest.approx(0.9)
    (cores,) = [lack for lack in p4d["lacks"] if lack["what"] == "cores"]
    assert cores["has"] == 6
    assert cores["needs"] > 6


def test_all_hosts_with_an_accelerator_are_compared_the_best_first() -> None:
    hosts = as_json("plan", "resnet50", "--on", "a100", "--au", "0.9")["hosts"]
    assert len(hosts) > 3
    shares = [
        host["scenario"]["machine"]["cores"] / host["scenario"]["machine"]["accelerators"]
        for host in hosts
    ]
    assert shares[0] > shares[-1]


def test_a_price_tells_what_idling_costs_a_day() -> None:
    found = as_json(*HOSTS, "--usd-per-hour", "p4d=32.77")
    by_name = {host["host"]: host for host in found["hosts"]}
    p4d = by_name["p4d.24xlarge"]
    idle = 1 - p4d["forecast"]["au"]["median"]
    assert p4d["idle_usd_a_day"] == pytest.approx(32.77 * 24 * idle)
    assert by_name["p5.48xlarge"]["idle_usd_a_day"] is None


def test_the_cheapest_host_that_has_enough_is_named() -> None:
    prices = ("--usd-per-hour", "p4d=32.77", "--usd-per-hour", "p5.48xlarge=98.32")
    told = answered(*HOSTS[:-1], "0.3", *prices)
    assert "cheapest that has enough: p4d.24xlarge" in told


def test_a_target_in_samples_per_second_is_another_way_to_say_it() -> None:
    found = as_json("plan", "resnet50", "--host", "p4d", "--samples-per-s", "1000")
    (host,) = found["hosts"]
    assert host["needs"]["samples_per_s"] == pytest.approx(1000)


def test_a_target_that_loading_cannot_reach_is_told_as_never() -> None:
    told = answered("plan", "resnet50", "--host", "p4d", "--au", "0.999")
    assert "never reaches it" in told
    assert "--overlap-transfer" in told


def test_what_only_workers_bring_is_planned_for_though_none_ran(tmp_path: Path) -> None:
    told = answered("plan", "--from", str(starts_of_workers(tmp_path)), "--cores", "8")
    assert "never reaches it: with loading that costs nothing its AU is 82" in told
    assert "for epoch boundaries (persistent-workers, or longer epochs)" in told
    assert "has enough" not in told


def test_workers_that_were_given_and_are_too_few_are_lacked() -> None:
    told = answered("plan", "resnet50", "--host", "p4d", "--au", "0.3", "--workers", "1")
    assert "p4d.24xlarge lacks workers: " in told
    assert " an accelerator are needed, 1 are there" in told
    assert "has enough" not in told


def test_measured_costs_are_planned_for_too(tmp_path: Path) -> None:
    path = tmp_path / "diagnosis.json"
    path.write_text(to_json(cpu_saturated()), encoding="utf-8")
    (host,) = as_json("plan", "--from", str(path), "--au", "0.8")["hosts"]
    assert host["needs"]["cores"] > 2


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("plan", "resnet50"), 2, "no host and no accelerator was named"),
        ((*HOSTS[:-1], "1.5"), 2, "'1.5' is no utilisation"),
        ((*HOSTS[:-2], "--samples-per-s", "-1"), 1, "-1.0 is not positive"),
        ((*HOSTS, "--usd-per-hour", "p4d"), 2, "is no HOST=PRICE"),
        ((*HOSTS, "--usd-per-hour", "p4d=-1"), 1, "it must be positive"),
        (("plan", "resnet50", "--hosts", "p44"), 1, "no host 'p44'"),
        ((*HOSTS, "--samples-per-s", "5"), 1, "one target is needed"),
    ],
)
def test_a_bad_target_is_refused_in_three_parts(
    argv: tuple[str, ...], code: int, message: str
) -> None:
    done = stoker(*argv)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "looked at:" in done.stderr
    assert "next:" in done.stderr
