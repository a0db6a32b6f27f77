"""What the zoo holds: enough of it, every number sourced, finite and plausible, no name twice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from stoker.records.zoo import FLOPS_PER_MAC, Kind, Layers, Precision, Sourced, Work
from stoker.zoo.load import PACKAGED, Zoo, key_of

ZOO = Zoo((PACKAGED,))
SHELVES = ("machines", "models", "hosts", "stores", "links", "ops", "datasets")
# Accelerators of hosts that the zoo doesn't describe yet.
UNDESCRIBED = {"b300"}


def entries() -> Iterator[tuple[str, Any]]:
    for shelf in SHELVES:
        for entry in getattr(ZOO, shelf).values():
            yield f"{shelf}/{entry.name}", entry


def numbers() -> Iterator[tuple[str, Sourced]]:
    for place, entry in entries():
        for field in msgspec.structs.fields(entry):
            value = getattr(entry, field.name)
            if isinstance(value, Sourced):
                yield f"{place}.{field.name}", value
            elif isinstance(value, Mapping):
                for key, one in value.items():
                    if isinstance(one, Sourced):
                        yield f"{place}.{field.name}.{key}", one


def test_there_is_enough_of_everything() -> None:
    complete = [
        model.name
        for model in ZOO.models.values()
        if model.parameters and model.forward_macs and model.activations
    ]
    rated = {rate.model for rate in ZOO.rates}
    assert len(ZOO.machines) >= 40
    assert len(complete) >= 120
    assert len(rated & set(complete)) >= 60
    assert len(ZOO.hosts) >= 80
    assert sum(host.cores is not None for host in ZOO.hosts.values()) >= 80
    assert sum(host.disk_bytes is not None for host in ZOO.hosts.values()) >= 80


@pytest.mark.parametrize("shelf", SHELVES)
def test_no_name_or_alias_means_two_entries(shelf: str) -> None:
    keys = Counter(
        key
        for entry in getattr(ZOO, shelf).values()
        for key in {key_of(entry.name), *(key_of(alias) for alias in entry.aliases)}
    )
    assert [key for key, count in keys.items() if count > 1] == []


def test_no_table_stands_in_two_files() -> None:
    for shelf in ("machines", "models", "hosts", "storage", "links", "ops", "datasets", "rates"):
        names = [
            line.strip()
            for path in (PACKAGED / shelf).glob("*.toml")
            for line in path.read_text().splitlines()
            if line.startswith("[") and line.strip() != "[sources]"
        ]
        assert [name for name, count in Counter(names).items() if count > 1] == []


def test_every_number_says_where_it_is_from_and_when_it_was_checked() -> None:
    bare = [p for p, n in numbers() if not n.source or len(n.checked) != len("2026-11-29")]
    assert bare == []


def test_a_datasheet_number_has_a_source_that_can_be_looked_up() -> None:
    doubtful = ("unsourced", "no source", "memory", "guess")
    bad = [
        place
        for place, number in numbers()
        if number.kind is Kind.DATASHEET
        and (len(number.source) < 12 or any(word in number.source.lower() for word in doubtful))
    ]
    assert bad == []


def test_every_number_is_finite_and_positive() -> None:
    assert [p for p, n in numbers() if not (0 < n.value < math.inf)] == []
    assert all(0 < rate.per_accelerator.value < math.inf for rate in ZOO.rates)


def test_peaks_are_dense_and_rise_as_formats_shrink() -> None:
    for machine in ZOO.machines.values():
        order = (Precision.FP32, Precision.TF32, Precision.BF16, Precision.FP8)
        rates = [rate for rate in map(machine.peak, order) if rate is not None]
        assert rates == sorted(rates), machine.name
    # The traps: GeForce parts accumulate at half rate, and sheets print sparse rates first.
    assert ZOO.accelerator("rtx3090").peak(Precision.FP16) == 71e12
    assert ZOO.accelerator("rtx4090").peak(Precision.FP16) == 165.2e12
    assert ZOO.accelerator("h100").peak(Precision.BF16) == 989e12


def test_links_are_per_direction() -> None:
    assert ZOO.link("pcie4-x16").bytes_per_s.value == 31.5e9
    for link in ZOO.links.values():
        if link.pinned_bytes_per_s is not None:
            assert link.pinned_bytes_per_s.value < link.bytes_per_s.value


def test_every_reference_leads_somewhere() -> None:
    for machine in ZOO.machines.values():
        assert machine.link is None or machine.link in ZOO.links
    for host in ZOO.hosts.values():
        assert host.accelerator in UNDESCRIBED or ZOO.accelerator(host.accelerator or ""), host.name
        assert host.link is None or host.link in ZOO.links
    for dataset in ZOO.datasets.values():
        assert all(ZOO.op(name) for name in dataset.ops)
    for rate in ZOO.rates:
        assert rate.model in ZOO.models
        assert rate.accelerator in ZOO.machines


def test_flops_are_twice_the_macs_and_training_three_forwards() -> None:
    resnet = ZOO.model("resnet50")
    assert resnet.forward_macs is not None
    assert resnet.forward_flops == 2 * resnet.forward_macs.value
    assert resnet.training_flops == 6 * resnet.forward_macs.value
    assert FLOPS_PER_MAC == 2


def test_counted_operations_agree_with_the_published_totals() -> None:
    matrix = tuple(Work)[:6]
    counted = [model for model in ZOO.models.values() if model.operations]
    assert len(counted) >= 60
    for model in counted:
        assert model.operations_source
        assert model.forward_macs is not None
        assert model.activations is not None
        macs = sum(one.macs for one in model.operations.values())
        written = sum(model.operations[w].written for w in matrix if w in model.operations)
        assert macs / model.forward_macs.value == pytest.approx(1, abs=0.09), model.name
        assert written / model.activations.value == pytest.approx(1, abs=0.30), model.name


def test_a_vcpu_is_not_a_core() -> None:
    for host in ZOO.hosts.values():
        if host.cores is not None and host.vcpus is not None:
            assert host.cores.value <= host.vcpus.value


def test_core_counts_are_those_of_the_processors_named() -> None:
    # 2 x EPYC 7502 has 64 cores; the submission's field was read as being for each socket.
    fixed = next(h for h in ZOO.hosts.values() if "7502" in h.processor)
    assert fixed.cores is not None
    assert (fixed.cores.value, fixed.cores.kind) == (64.0, Kind.ESTIMATE)


def test_language_models_are_counted_by_the_token() -> None:
    for model in ZOO.models.values():
        if model.layers is Layers.LLM:
            assert model.unit == "token"
            assert model.tokens is not None


def test_rates_are_no_input_of_a_forecast() -> None:
    theory = PACKAGED.parent / "theory"
    readers = [path.name for path in theory.glob("*.py") if ".rates" in path.read_text()]
    assert readers == []
