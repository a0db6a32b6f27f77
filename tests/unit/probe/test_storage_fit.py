import numpy as np
import pytest

from stoker.probe.storage.fit import fit_reads

SIZES = np.array([4096, 65536, 1_048_576])


def reads(
    seed: int, *, latency_s: float, bytes_per_s: float, count: int = 300, stalls: float = 0.0
) -> tuple[list[float], list[float]]:
    """Reads with 10 % of noise; a share of them stalls for 20 ms."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice(SIZES, count)
    seconds = (latency_s + sizes / bytes_per_s) * rng.lognormal(0, 0.1, count)
    seconds += np.where(rng.random(count) < stalls, 0.020, 0.0)
    return sizes.tolist(), seconds.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_latency_and_bandwidth_are_found_again(seed: int) -> None:
    fit = fit_reads(*reads(seed, latency_s=2e-3, bytes_per_s=100e6))
    assert fit is not None
    assert fit.latency is not None
    assert fit.bytes_per_s is not None
    assert fit.latency.median == pytest.approx(2e-3, rel=0.05)
    assert fit.bytes_per_s.median == pytest.approx(100e6, rel=0.05)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    hits = 0
    for seed in range(60):
        fit = fit_reads(*reads(seed, latency_s=1e-3, bytes_per_s=500e6, count=60))
        assert fit is not None
        assert fit.latency is not None
        hits += fit.latency.low <= 1e-3 * np.exp(0.1**2 / 2) <= fit.latency.high
    assert hits >= 50  # 57 expected of 60


def test_reads_that_stall_do_not_bend_the_rule() -> None:
    fit = fit_reads(*reads(1, latency_s=1e-3, bytes_per_s=200e6, stalls=0.05))
    assert fit is not None
    assert fit.latency is not None
    assert fit.bytes_per_s is not None
    assert fit.latency.median == pytest.approx(1e-3, rel=0.1)
    assert fit.bytes_per_s.median == pytest.approx(200e6, rel=0.1)


def test_where_bytes_cost_nothing_there_is_no_bandwidth() -> None:
    fit = fit_reads(*reads(2, latency_s=5e-3, bytes_per_s=1e15))
    assert fit is not None
    assert fit.latency is not None
    assert fit.latency.median == pytest.approx(5e-3, rel=0.05)
    assert fit.bytes_per_s is None or fit.bytes_per_s.median > 1e9
    assert fit.fixed_share(1_048_576) == pytest.approx(1.0, abs=0.05)


def test_where_only_bytes_cost_the_latency_is_nothing() -> None:
    fit = fit_reads(*reads(3, latency_s=0.0, bytes_per_s=50e6))
    assert fit is not None
    assert fit.latency is not None
    assert fit.latency.median < 2e-6
    assert fit.latency.low >= 0.0
    assert fit.fixed_share(1_048_576) == pytest.approx(0.0, abs=0.01)


def test_reads_of_one_size_do_not_tell_the_terms_apart() -> None:
    fit = fit_reads([50_000.0] * 100, [0.003] * 100)
    assert fit is not None
    assert fit.latency is None
    assert fit.bytes_per_s is None
    assert fit.seconds(50_000) is None


def test_a_handful_of_reads_is_no_fit() -> None:
    assert fit_reads([1.0, 2.0, 4.0], [0.1, 0.2, 0.4]) is None
    assert fit_reads([], []) is None


def test_the_fit_gives_back_the_time_of_a_read() -> None:
    fit = fit_reads(*reads(4, latency_s=2e-3, bytes_per_s=100e6))
    assert fit is not None
    assert fit.seconds(1_000_000) == pytest.approx(0.012, rel=0.05)
    assert fit.fixed_share(200_000) == pytest.approx(0.5, rel=0.1)
