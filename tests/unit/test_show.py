"""What `info` and `table` print."""

from __future__ import annotations

import pytest

from stoker.show import info, table
from stoker.units import Q_


def test_a_block_has_a_heading_and_aligned_names(capsys: pytest.CaptureFixture[str]) -> None:
    info("Baseline", Model="ResNet-50", Step_latency=Q_(13.97141, "ms"), Batch=256, Share=0.21834)
    assert capsys.readouterr().out == (
        "── Baseline ────────────────────────────────\n"
        "Model:         ResNet-50\n"
        "Step latency:  14.0 ms\n"
        "Batch:         256\n"
        "Share:         0.218\n"
    )


def test_a_table_sets_its_first_column_left(capsys: pytest.CaptureFixture[str]) -> None:
    table(["Batch", "Step"], [[32, Q_("5 ms")], [1024, "12.25 ms"]])
    assert capsys.readouterr().out == (
        "Batch      Step\n───────────────\n32         5 ms\n1024   12.25 ms\n"
    )


def test_alignments_are_given_by_column(capsys: pytest.CaptureFixture[str]) -> None:
    table(["a", "b"], [["x", "long"]], alignments="><")
    assert capsys.readouterr().out.splitlines()[0] == "a  b"


def test_no_rows_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    table(["a"], [])
    assert capsys.readouterr().out == ""
