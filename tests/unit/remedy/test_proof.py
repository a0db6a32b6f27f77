"""What is kept of several remedies, and what is watched behind the verdict."""

from __future__ import annotations

from stoker.remedy.apply import plan
from stoker.remedy.orders import Orders
from stoker.remedy.proof import Doubted, Dropped, Kept, Proof, Useless, Verdict, Watch
from stoker.remedy.request import Request, parse
from stoker.remedy.settings import Settings
from stoker.remedy.trial import Trial, Way
from tests.unit.remedy.subjects import subject_of

THREADS, QUEUE = Request("native-threads", 1), Request("prefetch-depth", 8)


def run(
    proof: Proof,
    times: dict[object, float],
    steps: int = 3000,
    remedies: tuple[Request, ...] = (THREADS, QUEUE),
) -> list[Verdict]:
    """Steps as long as the way makes them; a pared way by which of the remedies it does without."""
    told: list[Verdict] = []
    for _ in range(steps):
        way = proof.way
        key = proof.left_out if way is Way.PARED else way
        verdict = proof.step(way, times[key])
        if isinstance(verdict, Kept | Dropped):
            dropped = {one.request for one in told if isinstance(one, Dropped)}
            proof.doubt(one for one in remedies if one not in dropped)
        if verdict is not None:
            told.append(verdict)
    return told


def test_what_harms_is_not_hidden_by_what_helps() -> None:
    proof = Proof(Trial())
    told = run(proof, {Way.OWN: 0.2, Way.REMEDIED: 0.1, THREADS: 0.08, QUEUE: 0.15})
    assert [type(one) for one in told] == [Kept, Dropped]
    assert proof.dropped == {THREADS}
    assert proof.way is Way.REMEDIED


def test_what_gives_nothing_is_dropped_as_well() -> None:
    proof = Proof(Trial())
    run(proof, {Way.OWN: 0.2, Way.REMEDIED: 0.1, THREADS: 0.1, QUEUE: 0.15})
    assert proof.dropped == {THREADS}


def test_what_helps_is_tried_once_and_kept() -> None:
    proof = Proof(Trial())
    told = run(proof, {Way.OWN: 0.2, Way.REMEDIED: 0.1, THREADS: 0.12, QUEUE: 0.15})
    assert [type(one) for one in told] == [Kept]
    assert proof.is_at_rest


def test_windows_that_would_be_dear_are_left_out() -> None:
    proof = Proof(Trial(depth=8))
    told = run(proof, {Way.OWN: 4.0, Way.REMEDIED: 2.0})
    assert [type(one) for one in told] == [Kept]


def test_steps_that_become_slower_are_tried_again_and_rolled_back_where_remedies_lose() -> None:
    proof = Proof(Trial())
    run(proof, {Way.OWN: 0.2, Way.REMEDIED: 0.1, THREADS: 0.2, QUEUE: 0.2})
    told = run(proof, {Way.OWN: 0.2, Way.REMEDIED: 0.25})
    assert [type(one) for one in told] == [Doubted, Useless]


def test_steps_that_become_slower_by_themselves_keep_the_remedies() -> None:
    proof = Proof(Trial())
    run(proof, {Way.OWN: 0.2, Way.REMEDIED: 0.1, THREADS: 0.2, QUEUE: 0.2})
    told = run(proof, {Way.OWN: 0.5, Way.REMEDIED: 0.25}, steps=5000)
    assert [type(one) for one in told] == [Doubted, Kept]
    assert proof.way is Way.REMEDIED


def test_weights_that_are_saved_now_and_then_raise_no_doubt() -> None:
    watch = Watch(own_s=0.2, stretch_s=20.0)
    assert not any(watch.step(60.0 if number % 100 == 0 else 0.1) for number in range(5000))


def proof_of(remedies: str, *, own: Settings, baseline_s: float, edge_s: float) -> Proof:
    requests = parse(remedies)
    orders = Orders(requests=requests, baseline_s=baseline_s, edge_s=edge_s)
    return Proof.of(plan(subject_of(own, [0] * 8), requests), orders, samples=8, batches=2)


def test_the_boundaries_of_epochs_are_no_part_of_the_step_that_a_trial_begins_with() -> None:
    proof = proof_of("overlap=2", own=Settings(workers=0), baseline_s=0.35, edge_s=0.25)
    (told,) = run(proof, {Way.OWN: 0.1, Way.REMEDIED: 0.1}, steps=300)
    assert isinstance(told, Useless)


def test_a_cache_is_judged_when_it_has_filled() -> None:
    proof = proof_of("cache-ram=1MB", own=Settings(workers=0), baseline_s=0.1, edge_s=0.0)
    assert run(proof, {Way.OWN: 0.1, Way.REMEDIED: 0.12}, steps=300) == []
    while proof.is_filling:
        proof.filled(4, 8)
    (told,) = run(proof, {Way.OWN: 0.1, Way.REMEDIED: 0.05}, steps=300, remedies=())
    assert isinstance(told, Kept)


def test_a_cache_that_has_ended_by_itself_is_not_waited_for() -> None:
    proof = proof_of("cache-ram=1MB", own=Settings(workers=0), baseline_s=0.1, edge_s=0.0)
    proof.filled(4, None)
    assert not proof.is_filling
