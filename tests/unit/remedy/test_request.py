"""What `--apply` takes, and what it refuses before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.errors import UsageError
from stoker.remedy.apply import REMEDIES
from stoker.remedy.orders import Orders
from stoker.remedy.request import VALUES, Request, parse


def test_a_list_of_remedies_is_read_in_its_order() -> None:
    assert parse("workers=4, persistent-workers,cache-ram=1.5GB,native-threads") == (
        Request("workers", 4),
        Request("persistent-workers"),
        Request("cache-ram", 1_500_000_000),
        Request("native-threads"),
    )


def test_auto_leaves_the_choice_to_the_diagnosis() -> None:
    assert parse("auto") == ()


def test_a_folder_with_a_colon_in_its_name_keeps_it() -> None:
    (request,) = parse("cache-local=/mnt/a:b:20GiB")
    assert (request.folder, request.count) == ("/mnt/a:b", 20 * 2**30)


def test_a_relative_folder_means_the_one_of_the_command() -> None:
    (request,) = parse("cache-local=copies:1GB")
    assert request.folder == str(Path.cwd() / "copies")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "names no remedy"),
        ("magic", "'magic' is no remedy"),
        ("wrokers=2", "did you mean 'workers'?"),
        ("workers", "workers needs a value: workers=N"),
        ("workers=two", "'two' is not a count"),
        ("overlap=0", "'0' is not a count"),
        ("allocator=1", "allocator takes no value"),
        ("cache-ram=lots", "is not a size such as 4GB"),
        ("cache-ram=0GB", "is not a size"),
        ("cache-local=10GB", "has no size: cache-local=DIR:SIZE"),
        ("cache-local=:10GB", "has no folder: cache-local=DIR:SIZE"),
        ("cache-local=/a:", "'' is not a size"),
        ("cache-ram=4XB", "'4XB' is not a size"),
        ("cache-ram=-4GB", "'-4GB' is not a size"),
        ("cache-ram=0.1", "'0.1' is not a size"),
        (f"cache-ram={'9' * 400}GB", "is not a size"),
        ("workers=-1", "'-1' is not a count"),
        ("workers=1e9", "'1e9' is not a count"),
        ("workers=1000000000", "is more than any machine has: at most 9999"),
        (f"workers={'9' * 5000}", "is more than any machine has"),
        ("prefetch-depth=00", "'00' is not a count"),
        ("workers=2,workers=3", "workers is named twice"),
        ("prefetch=2,prefetch-depth=3", "prefetch-depth is named twice"),
        ("workers=0,persistent-workers", "persistent-workers needs workers"),
        ("overlap,workers=0", "overlap needs workers"),
        ("overlap=2,workers=3", "are two numbers of workers"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_is_allowed(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match="--apply") as refused:
        parse(text)
    assert problem in refused.value.happened
    assert "cache-local=DIR:SIZE" in refused.value.run_next
    assert refused.value.exit_code == 2


def test_every_name_that_may_be_asked_for_is_a_remedy() -> None:
    assert set(VALUES) == set(REMEDIES)


def test_the_largest_counts_are_taken() -> None:
    assert parse("workers=0009999") == (Request("workers", 9999),)
    assert parse("cache-ram=1000000TB") == (Request("cache-ram", 10**18),)


@pytest.mark.parametrize(
    "text", ["workers=0", "cache-ram=1500MB", "cache-local=/a:1GB", "pinned-async", "overlap=3"]
)
def test_a_request_is_written_as_it_is_read(text: str) -> None:
    (request,) = parse(text)
    assert str(request) == text


def test_orders_arrive_as_they_were_given() -> None:
    orders = Orders(
        requests=parse("overlap=2,cache-local=/a:1GB"),
        baseline_s=0.1,
        dataset="__main__.Photos",
        batch_bytes=1000,
        baseline_half_s=0.01,
        baseline_steps=40,
        pid=17,
        worker_bytes=2000,
        json="/a/report.json",
    )
    assert Orders.from_environment(orders.to_environment()) == orders
    assert Orders.from_environment({}) is None
