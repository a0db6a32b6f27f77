"""`stoker zoo`: what each form of the command shows, at 80 columns, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.cli.main import main
from stoker.errors import EXIT_ERROR, EXIT_OK, EXIT_USAGE


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)  # no folder of own entries here


def shown(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["zoo", *words]) == EXIT_OK
    return capfd.readouterr().out


def test_alone_it_counts_what_there_is(capfd: pytest.CaptureFixture[str]) -> None:
    text = shown(capfd)
    for kind in ("machines", "models", "hosts", "storage", "links", "ops", "datasets"):
        assert f"stoker zoo {kind}" in text


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("machines", ("a100-sxm4-80", "312", "2,039 GB/s", "pcie4-x16")),
        ("models", ("resnet50@224", "8.22", "25.56 M", "image")),
        ("hosts", ("p4d.24xlarge", "8 x a100-sxm4-40", "1.15 TB")),
        ("storage", ("gp3", "131 MB/s", "3,000", "87.5 MB/s a request")),
        ("links", ("pcie5-x16", "63.0 GB/s", "55.4 GB/s")),
        ("ops", ("decode-jpeg-pillow@xeon-8581c", "1.73 ms", "577")),
        ("datasets", ("imagenet", "115 kB", "1,281,024")),
    ],
)
def test_a_kind_is_a_table_that_fits_80_columns(
    capfd: pytest.CaptureFixture[str], kind: str, words: tuple[str, ...]
) -> None:
    text = shown(capfd, kind)
    assert [line for line in text.splitlines() if len(line) > 80] == []
    joined = "".join(line.strip() for line in text.splitlines())
    for word in words:
        assert word in text or word in joined, word
    assert "entries." in text


def test_a_name_shows_every_number_with_kind_date_and_source(
    capfd: pytest.CaptureFixture[str],
) -> None:
    text = shown(capfd, "machines", "a100")
    assert "a100-sxm4-80: A100 SXM4 80GB" in text
    assert "312 TFLOP/s  datasheet  2026-11-29  [1]" in text
    assert "[1] stas00/ml-engineering" in text
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_a_model_shows_its_operations_and_published_rates(
    capfd: pytest.CaptureFixture[str],
) -> None:
    text = shown(capfd, "model", "resnet50")
    assert "batch-norm" in text
    assert "published rate" in text
    assert "3,575 img" in text
    assert "more with --json" in text


def test_a_name_alone_is_found_on_any_shelf(capfd: pytest.CaptureFixture[str]) -> None:
    assert "p4d.24xlarge" in shown(capfd, "p4d")
    assert "NVMe" in shown(capfd, "nvme-gen5")


def test_own_entries_of_the_working_folder_are_shown(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "stoker-zoo" / "storage"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(
        '[attic]\ntitle = "Disk in the attic"\nsource = "our own fio run"\nkind = "measured"\n'
        'checked = "2026-11-29"\nbytes_per_s = 90e6\n'
    )
    assert "90.0 MB/s" in shown(capfd, "storage", "attic")


def test_json_is_the_records_with_their_provenance(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = json.loads(shown(capfd, "machines", "h100", "--json", "-"))
    assert found["schema"] == "stoker.zoo/1"
    (machine,) = found["machines"]
    assert machine["peak_flops"]["bf16"]["value"] == 989e12
    assert set(machine["memory_bytes"]) == {"value", "kind", "source", "checked"}
    shown(capfd, "models", "resnet50", "--json", str(tmp_path / "out.json"))
    models = json.loads((tmp_path / "out.json").read_text())
    assert len(models["rates"]) > 20


def test_an_unknown_name_offers_near_ones_and_fails(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "resnet5O"]) == EXIT_ERROR
    error = capfd.readouterr().err
    assert "resnet50" in error
    assert main(["zoo", "machines", "a1000"]) == EXIT_ERROR
    assert "nearest" in capfd.readouterr().err


@pytest.mark.parametrize("words", [("gpus", "a100"), ("machines", "rtx", "3090")])
def test_words_that_make_no_sense_are_a_usage_error(
    capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert main(["zoo", *words]) == EXIT_USAGE
    assert "next:" in capfd.readouterr().err
