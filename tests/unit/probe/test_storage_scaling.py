"""Kinds of stores, told by rates that event-driven models of them give: no thread, no clock."""

import heapq
import random
from collections.abc import Callable, Sequence

import pytest
from msgspec import structs

from stoker.probe.storage.evaluate import rate_points
from stoker.probe.storage.phase import COLD, Phase
from stoker.probe.storage.reading import Access, Burst
from stoker.probe.storage.scaling import classify_scaling
from stoker.records.storage import RatePoint, StoreKind, StoreScaling
from stoker.stats import Spread

KB = 1024
READERS = (1, 2, 4, 8)
# When a request of some bytes that starts at some time ends.
Model = Callable[[float, int], float]


def latency(read_s: float, bytes_per_s: float = 1e12, *, slots: int = 10**6) -> Callable[[], Model]:
    """Every read takes the same time; at most `slots` run at a time."""

    def make() -> Model:
        free = [0.0] * min(slots, 64)

        def end(start: float, size: int) -> float:
            began = max(start, heapq.heappop(free))
            heapq.heappush(free, began + read_s + size / bytes_per_s)
            return began + read_s + size / bytes_per_s

        return end

    return make


def pipe(bytes_per_s: float, read_s: float = 0.0) -> Callable[[], Model]:
    """Bytes of all readers go through one pipe; the latency before it overlaps."""

    def make() -> Model:
        free = 0.0

        def end(start: float, size: int) -> float:
            nonlocal free
            free = max(start + read_s, free) + size / bytes_per_s
            return free

        return end

    return make


def throttled(per_s: float, allowance: int, read_s: float) -> Callable[[], Model]:
    """`allowance` reads at `read_s` each, then at most `per_s` reads a second for all."""

    def make() -> Model:
        used, turn = 0, 0.0

        def end(start: float, size: int) -> float:
            nonlocal used, turn
            used += 1
            if used <= allowance:
                return start + read_s
            turn = max(start, turn) + 1 / per_s
            return max(turn, start + read_s)

        return end

    return make


def warm_then(cached: int, model: Callable[[], Model]) -> Callable[[], Model]:
    """The first reads come from a cache, the others from the store."""

    def make() -> Model:
        inner, seen = model(), 0

        def end(start: float, size: int) -> float:
            nonlocal seen
            seen += 1
            return start + 0.0002 if seen <= cached else inner(start, size)

        return end

    return make


def measured(
    model: Callable[[], Model],
    *,
    seed: int = 0,
    size: int = 100 * KB,
    other_size: int | None = None,
    cpu_s: float = 0.0,
    phase_s: float = 0.4,
    order: Sequence[int] = READERS + READERS,
) -> tuple[RatePoint, ...]:
    """Points as leg Q would measure them: readers in a closed loop, with 10 % of noise."""
    noise = random.Random(seed)
    end_of = model()
    now = 0.0
    phases = []
    plan = [(readers, size) for readers in order]
    if other_size is not None:
        plan.append((max(order), other_size))
    for readers, length in plan:
        ready = [(now, reader) for reader in range(readers)]
        accesses = []
        while ready[0][0] < now + phase_s and len(accesses) < 600:
            start, reader = heapq.heappop(ready)
            ended = end_of(start + cpu_s, round(length * noise.uniform(0.9, 1.1)))
            ended += (ended - start) * noise.uniform(0.0, 0.1)
            accesses.append(Access(length, 0.0, ended - start, ended - now))
            heapq.heappush(ready, (ended, reader))
        accesses.sort(key=lambda access: access.ended_s)
        wall = accesses[-1].ended_s
        burst = Burst(readers, tuple(accesses), wall, cpu_s * len(accesses), 0.0, ())
        phases.append(Phase("together", COLD, readers, (burst,), 0.0))
        now += wall
    return rate_points(phases)


def kind_of(model: Callable[[], Model], **settings: object) -> StoreScaling:
    return classify_scaling(measured(model, **settings))  # type: ignore[arg-type]


KINDS: dict[str, tuple[Callable[[], Model], StoreKind]] = {
    "an object store": (latency(0.010), StoreKind.LATENCY),
    "a file server with four slots": (latency(0.010, slots=4), StoreKind.SLOTS),
    "a file server with two slots": (latency(0.010, slots=2), StoreKind.SLOTS),
    "one head": (latency(0.005, slots=1), StoreKind.ONE_HEAD),
    "a narrow link": (pipe(20e6), StoreKind.BANDWIDTH),
    "a narrow link far away": (pipe(40e6, read_s=0.005), StoreKind.BANDWIDTH),
    "a drive with an allowance": (throttled(100, 200, 0.002), StoreKind.THROTTLED),
    "a drive with an allowance, used up later": (
        throttled(300, 700, 0.004),
        StoreKind.THROTTLED,
    ),
}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_store_is_told_by_how_its_rate_moves(name: str, seed: int) -> None:
    model, kind = KINDS[name]
    found = kind_of(model, seed=seed, other_size=25 * KB)
    assert found.kind is kind, found


@pytest.mark.parametrize("seed", range(10))
def test_slots_are_counted(seed: int) -> None:
    found = kind_of(latency(0.010, slots=4), seed=seed)
    assert found.slots is not None
    assert found.slots.median == pytest.approx(4, rel=0.15)
    assert found.most_per_s == pytest.approx(400, rel=0.15)
    assert found.one_reader_per_s == pytest.approx(100, rel=0.15)


def test_slots_of_a_store_that_is_still_rising_have_no_upper_end() -> None:
    found = kind_of(latency(0.010))
    assert found.slots is not None
    assert found.slots.high == float("inf")
    assert found.verdict_kind == "latency"


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("slots", "kind"), [(10**6, StoreKind.LATENCY), (4, StoreKind.SLOTS)])
def test_a_cache_that_is_used_up_in_front_of_a_far_store_is_no_throttling(
    slots: int, kind: StoreKind, seed: int
) -> None:
    # 300 reads are near, as in the first steps of a run whose files were partly read before.
    found = kind_of(warm_then(300, latency(0.010, slots=slots)), seed=seed, phase_s=1.5)
    assert found.kind is kind, found


def test_readers_that_are_busy_themselves_say_nothing_about_the_store() -> None:
    found = kind_of(latency(0.0001), cpu_s=0.002)
    assert found.kind is StoreKind.FAST
    assert found.verdict_kind is None


def test_work_of_its_own_does_not_make_one_head_look_like_slots() -> None:
    # 3 ms of work beside 5 ms at the head: two readers overlap the two and give 1.6 times more.
    found = kind_of(latency(0.005, slots=1), cpu_s=0.003)
    assert found.kind is StoreKind.ONE_HEAD, found
    assert found.slots is not None
    assert found.slots.median == pytest.approx(1.0, abs=0.2)


def test_a_store_that_gives_one_reader_twice_the_demand_is_fast() -> None:
    points = measured(latency(0.010, slots=1))
    assert classify_scaling(points, needed_per_s=40).kind is StoreKind.FAST
    assert classify_scaling(points, needed_per_s=90).kind is StoreKind.ONE_HEAD


def test_without_sizes_the_fit_tells_one_head_from_bandwidth() -> None:
    points = measured(latency(0.005, slots=1))
    assert classify_scaling(points, fixed_share=0.9).kind is StoreKind.ONE_HEAD
    assert classify_scaling(points, fixed_share=0.1).kind is StoreKind.BANDWIDTH
    unsure = classify_scaling(points)
    assert unsure.kind is StoreKind.ONE_HEAD
    assert "not varied" in unsure.reason


def workers(rate: float, readers: int, *, share: float | None = None) -> RatePoint:
    """Production of a DataLoader, as a number of workers reached it."""
    return RatePoint(
        readers=readers,
        requests_per_s=Spread(rate, rate * 0.97, rate * 1.03, 40),
        cpu_share=share,
    )


def test_production_rates_of_a_loader_need_no_bytes() -> None:
    flat = [workers(83, 2, share=0.06), workers(74, 1, share=0.11), workers(84, 4, share=0.03)]
    rising = [workers(186, 2, share=0.07), workers(93, 1, share=0.07), workers(372, 4, share=0.07)]
    full = [workers(300, 2, share=0.9), workers(160, 1, share=0.9), workers(305, 4, share=0.95)]
    assert classify_scaling(flat).kind is StoreKind.ONE_HEAD
    assert classify_scaling(rising).kind is StoreKind.LATENCY
    assert classify_scaling(full).kind is StoreKind.FAST


def test_a_loader_that_began_on_near_files_is_not_called_throttled() -> None:
    began = (*[1500.0, 1450.0, 1520.0, 1480.0] * 3, *[170.0, 168.0, 172.0, 169.0] * 3)
    real = RatePoint(
        readers=2, requests_per_s=Spread(300.0, 200.0, 600.0, 24), series=began, cpu_share=0.2
    )
    others = [workers(84, 1), workers(324, 4), workers(354, 8)]
    found = classify_scaling([real, *others])
    assert found.kind is StoreKind.SLOTS, found
    assert "cache" in found.reason
    assert found.fall == pytest.approx(0.114, rel=0.05)


def test_more_readers_that_get_less_are_still_one_head() -> None:
    found = classify_scaling([workers(100, 1), workers(95, 2), workers(60, 4)])
    assert found.kind is StoreKind.ONE_HEAD


def test_one_number_of_readers_tells_no_kind() -> None:
    assert classify_scaling([workers(100, 2)]).kind is StoreKind.UNKNOWN
    assert classify_scaling([]).kind is StoreKind.UNKNOWN


def test_a_fall_with_one_number_of_readers_is_told_but_not_explained() -> None:
    series = (*[200.0, 210.0, 195.0, 205.0] * 3, *[50.0, 52.0, 49.0, 51.0] * 3)
    point = RatePoint(readers=2, requests_per_s=Spread(80.0, 60.0, 120.0, 24), series=series)
    found = classify_scaling([point])
    assert found.kind is StoreKind.UNKNOWN
    assert found.fall == pytest.approx(0.25, rel=0.05)


@pytest.mark.parametrize(
    "again", [(100, 100, 400), (50, 200, 400), (100, 200, 200)], ids=["between", "first", "last"]
)
def test_a_pause_of_the_machine_is_no_throttling(again: tuple[float, ...]) -> None:
    points = [workers(100, 1), workers(200, 2), workers(400, 4)]
    paused = [workers(rate, point.readers) for rate, point in zip(again, points, strict=True)]
    assert classify_scaling([*points, *paused]).fall is None


def test_rates_that_vary_too_much_are_not_told_apart() -> None:
    def wild(rate: float, readers: int) -> RatePoint:
        return RatePoint(readers=readers, requests_per_s=Spread(rate, rate * 0.4, rate * 2.2, 6))

    assert classify_scaling([wild(100, 1), wild(150, 2), wild(160, 4)]).kind is StoreKind.UNKNOWN


def busy(rates: Sequence[float], **seen: Sequence[float]) -> list[RatePoint]:
    """As readers of a disk were seen to get them, 110 kB each; the most of them 27 kB too."""
    points = []
    for number, rate in enumerate(rates):
        also = {name: values[number] for name, values in seen.items()}
        point = workers(rate, 2**number, share=0.33 + 0.03 * number)
        points.append(structs.replace(point, bytes_per_request=110e3, **also))
    smaller = Spread(rates[-1] * 2.3, rates[-1] * 2.2, rates[-1] * 2.4, 40)
    return [
        *points,
        structs.replace(points[-1], requests_per_s=smaller, bytes_per_request=27.5e3),
        *points,
    ]


RISING = (310.0, 540.0, 820.0, 960.0, 1010.0)
QUEUED = (0.1, 0.2, 0.7, 1.6, 3.4)


def test_rates_that_stop_where_readers_wait_for_cores_say_nothing_of_the_store() -> None:
    found = classify_scaling(busy(RISING, queued=QUEUED, foreign_cores=(1.6, 1.4, 1.2, 1.1, 1.1)))
    assert (found.kind, found.verdict_kind) == (StoreKind.UNKNOWN, None)
    assert "3.4 of them at a time with 16, as other processes kept 1.1 cores busy" in found.reason
    assert "at rest" in found.reason
    alone = classify_scaling(busy(RISING, queued=QUEUED))
    assert alone.kind is StoreKind.UNKNOWN and "other processes" not in alone.reason


def test_rates_that_stop_while_cores_are_free_tell_the_store() -> None:
    for queued in ((0.0,) * 5, (0.0, 0.1, 0.1, 0.2, 0.25)):
        found = classify_scaling(busy(RISING, queued=queued, foreign_cores=(0.1,) * 5))
        assert found.kind is StoreKind.BANDWIDTH
        assert found.reason.startswith("more readers stop raising the rate (310/s with 1, 540/s")


def test_rates_that_never_rose_tell_the_store_beside_others_too() -> None:
    flat = (310.0, 300.0, 320.0, 310.0, 300.0)
    found = classify_scaling(busy(flat, queued=QUEUED))
    assert found.kind is StoreKind.BANDWIDTH
    assert found.reason.startswith("more readers don't raise the rate")


def test_smaller_requests_whose_rate_varies_tell_neither_requests_nor_bytes() -> None:
    points = busy(RISING)
    vague = Spread(2300.0, 900.0, 4000.0, 12)
    points[5] = structs.replace(points[5], requests_per_s=vague)
    found = classify_scaling(points)
    assert found.kind is StoreKind.UNKNOWN and "vary too much to tell" in found.reason
    flat = busy((310.0,) * 5)
    flat[5] = structs.replace(flat[5], requests_per_s=Spread(700.0, 300.0, 1300.0, 12))
    assert classify_scaling(flat).kind is StoreKind.UNKNOWN
    assert classify_scaling(flat, fixed_share=0.1).kind is StoreKind.BANDWIDTH
    assert classify_scaling(flat, fixed_share=0.9).kind is StoreKind.ONE_HEAD


def test_readers_that_waited_for_cores_and_cores_of_others_are_counted() -> None:
    served = tuple(Access(100, 0.0, 0.01, 0.01 * number) for number in range(1, 101))
    bursts = tuple(Burst(4, served, 1.0, 0.2, wait_s, (), 1.5) for wait_s in (0.6, 0.2))
    (point,) = rate_points([Phase("together", COLD, 4, bursts, 0.0)])
    assert point.queued == pytest.approx(0.4)
    assert point.foreign_cores == pytest.approx(1.3)
    unseen = bursts[0]._replace(machine_s=None)
    (point,) = rate_points([Phase("together", COLD, 4, (bursts[1], unseen), 0.0)])
    assert point.foreign_cores is None
