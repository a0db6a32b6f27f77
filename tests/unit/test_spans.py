from __future__ import annotations

import pytest

from stoker.spans import FakeClock, Recorder


def test_a_span_is_as_long_as_the_clock_says() -> None:
    clock = FakeClock()
    recorder = Recorder(clock)
    with recorder.span("decode"):
        clock.advance(0.002, cpu_s=0.0015)
    (span,) = recorder.spans
    assert (span.name, span.wall_ns, span.cpu_ns) == ("decode", 2_000_000, 1_500_000)


def test_a_span_that_raises_is_kept() -> None:
    clock = FakeClock()
    recorder = Recorder(clock)
    with pytest.raises(KeyError), recorder.span("read"):
        clock.advance(0.001)
        raise KeyError("gone")
    assert recorder.spans[0].wall_ns == 1_000_000


def test_inner_spans_end_first() -> None:
    clock = FakeClock()
    recorder = Recorder(clock)
    with recorder.span("sample"):
        clock.advance(0.001)
        with recorder.span("decode"):
            clock.advance(0.003)
    assert [(span.name, span.wall_ns) for span in recorder.spans] == [
        ("decode", 3_000_000),
        ("sample", 4_000_000),
    ]
