"""The generated files are what the tables in benchmarks/data give today."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import zoo_from_published, zoo_hosts
from stoker.zoo.load import PACKAGED


def test_the_generated_files_are_what_the_tables_give(tmp_path: Path) -> None:
    zoo_from_published.main(tmp_path)
    written = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.toml"))
    assert len(written) > 15
    stale = [
        str(path)
        for path in written
        if (tmp_path / path).read_text() != (PACKAGED / path).read_text()
    ]
    assert stale == [], "run python -m benchmarks.zoo_from_published"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2x 1TB NVMe + 2x 3.84TB NVMe", 9.68e12),
        ("960GB+1920GB", 2.88e12),
        ("1.5TiB", 1.5 * 2**40),
        ("8000", 8e12),
        ("N/A", None),
        ("Node1: 6.1 TB, Node2: 4.3 TB", None),
        ("", None),
    ],
)
def test_sizes_in_words_are_summed(text: str, size: float | None) -> None:
    found = zoo_hosts.sum_of_sizes(text)
    assert found == pytest.approx(size) if size else found is None
