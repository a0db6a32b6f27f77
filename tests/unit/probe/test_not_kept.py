"""A loop over batches that can't be served a second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.probe.leaving import StokerStop
from tests.unit.probe.test_conductor import (  # noqa: F401 - two of them are fixtures
    LOAD_S,
    Script,
    folder,
    lines,
    mean,
    script,
)


def test_batches_that_cannot_be_kept_reach_the_script_as_they_are(
    script: Script,  # noqa: F811
    folder: Path,  # noqa: F811
) -> None:
    train = script.loader(batches=10_000)
    script.made = lambda number: iter([number])
    seen: list[list[int]] = []
    with pytest.raises(StokerStop):
        for batch in script.epoch(train):
            seen.append(list(batch))
            script.step()

    assert seen == [[number] for number in range(len(seen))]
    assert {line["leg"] for line in lines(folder, "window")} == {"W", "R"}
    assert mean(folder, "R", "wait") == pytest.approx(LOAD_S)
    (end,) = lines(folder, "end")
    assert end["reason"] == "not-kept"
    assert "list_iterator" in lines(folder, "note")[0]["text"]
