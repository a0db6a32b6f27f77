"""Claim: emulated accelerators under the Loader are in use 99 % of the time where it can feed them.

MLPerf Storage's ResNet-50 scaled to this machine: its batches of 400 samples and its measure (AU:
time of the steps alone over the time they took), its H100 (0.224 s a batch) as the unit of what is
asked for. The accelerator is a clock. Beside it, in turn: torch's DataLoader with two workers, and
the fastest of the loaders that have an environment (benchmarks/contenders/setup), in a process of
its own, asked for as many samples a second in batches of its own size.

`python -m benchmarks.accelerators [--data FOLDER] [--peers FOLDER]`
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import stoker
from benchmarks import fed, record
from benchmarks.contenders import data, environments, stepping
from benchmarks.contenders.environments import PATIENCE_S, Peers
from benchmarks.contenders.groups import GROUPS, Rival
from stoker.stats import bootstrap

CLAIM = (
    "AU of emulated accelerators under the Loader: at least 0.99 up to 90 % of what the Loader "
    "gives when nothing else goes on, and in no row below torch's DataLoader with two workers or "
    "the best other loader by more than the 95 % interval of their differences."
)
BATCH = 400  # samples, as the benchmark prescribes for ResNet-50
H100_BATCH_S = 0.224  # mlcommons/storage v1.0, configs/dlio/workload/resnet50_h100.yaml
SHARES = (0.5, 0.8, 0.9)
LEAST_AU = 0.99
LIMIT_S = 4.0
RUN_S = 6.0
# What a loader gives is found out in so long, to choose among them.
CHOICE_S = 2.0
# The group of contenders on each kind of data.
GROUP_OF = {"files": "2-files", "packed": "1-packed"}


def best_peer(peers: Peers, source: str) -> tuple[Rival | None, dict[str, Any]]:
    """The fastest loader with an environment of its own; the rate of each, or why it has none."""
    (group,) = (group for group in GROUPS if group.key == GROUP_OF[source])
    rates: dict[Rival, float] = {}
    told: dict[str, Any] = {}
    for rival in (rival for rival in group.rivals if rival.environment):
        why, answer = peers.why_not(rival), ""
        if why is None:
            answer, why = peers.told(rival, CHOICE_S, limit_s=CHOICE_S + PATIENCE_S)
        if why is None:
            rates[rival] = json.loads(answer.splitlines()[-1])["images_per_s"]
        told[rival.name] = why or rates[rival]
        print(f"{source}: {rival.name}: {told[rival.name]}", file=sys.stderr, flush=True)
    return max(rates, key=rates.__getitem__, default=None), told


def measure(source: str, folder: Path, peers: Peers, peer: Rival | None, rounds: int) -> Any:
    """AU of each loader at each share of what the Loader can give."""
    make = fed.SOURCES[source]
    plain = stepping.endless(make.ours(folder, BATCH, None))
    limit_s = statistics.median(stepping.limit_s(plain, LIMIT_S) for _ in range(3))
    found: dict[float, dict[str, Any]] = {}
    for share in SHARES:
        step_s = limit_s / share
        steps = max(stepping.LEAST_STEPS, round(RUN_S / step_s))
        accelerator = stoker.EmulatedAccelerator(step_s, link_bytes_per_s=stepping.LINK_BYTES_PER_S)
        loaders = {
            "loader_au": make.ours(folder, BATCH, accelerator),
            "torch_au": stoker.feed(make.torchs(folder, BATCH), accelerator),
        }
        taken: dict[str, list[float]] = {"loader_au": [], "torch_au": [], "peer_au": []}
        for _ in range(rounds):
            for name, loader in loaders.items():
                taken_s = stepping.step_s(stepping.endless(loader), accelerator, steps)
                taken[name].append(step_s / taken_s)
            if peer is not None:
                taken["peer_au"].append(_peer_au(peers, peer, step_s / BATCH))
        found[share] = {"limit_s": limit_s, "step_s": step_s, **taken}
    return found


def _peer_au(peers: Peers, peer: Rival, sample_s: float) -> float:
    answer, why = peers.told(
        peer, sample_s, RUN_S, limit_s=10 * RUN_S + PATIENCE_S, program="under"
    )
    if why is not None:
        raise RuntimeError(f"{peer.name} ran alone, but not under an accelerator: {why}")
    au: float = json.loads(answer.splitlines()[-1])["au"]
    return au


def is_below(ours: Sequence[float], others: Sequence[float]) -> bool:
    """True where the Loader's AU is lower for sure, by the rounds' differences."""
    if not others:
        return False
    return bootstrap([mine - other for mine, other in zip(ours, others, strict=True)]).high < 0


def _cells(title: str, share: float, one: dict[str, Any], peer: Rival | None) -> list[str]:
    asked = share * BATCH / one["limit_s"]
    peers = "none is installed"
    if peer is not None:
        peers = f"{statistics.median(one['peer_au']):.3f} ({peer.name})"
    return [
        title,
        f"{asked:,.0f}/s, {share:.0%} of the limit",
        f"{asked * H100_BATCH_S / BATCH:.2f}",
        f"{statistics.median(one['loader_au']):.3f}",
        f"{statistics.median(one['torch_au']):.3f}",
        peers,
    ]


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=Path, default=environments.FOLDER)
    parser.add_argument("--data", type=Path, help="kept there for the next run")
    args = parser.parse_args()
    rows, numbers, passed = {}, {}, {}
    with data.folder(args.data) as folder:
        peers = Peers(args.peers, folder)
        for name, source in sorted(fed.SOURCES.items()):
            peer, rates = best_peer(peers, name)
            by_share = measure(name, folder, peers, peer, args.rounds)
            for share, one in by_share.items():
                key = f"{name} at {share:.0%}"
                rows[key] = _cells(source.title, share, one, peer)
                numbers[key] = {**one, "peers_images_per_s": rates}
                reaches = statistics.median(one["loader_au"]) >= LEAST_AU
                others = (one["torch_au"], one["peer_au"])
                passed[key] = reaches and not any(is_below(one["loader_au"], au) for au in others)
    held = record.write(
        "accelerators",
        claim=CLAIM,
        columns=[
            "data",
            "asked for",
            "emulated H100s",
            "AU, Loader",
            "AU, torch",
            "AU, best other",
        ],
        rows=rows,
        numbers=numbers,
        passed=passed,
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
