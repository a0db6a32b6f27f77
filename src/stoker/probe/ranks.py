"""Where the ranks of one session tell each other how far they are and what they do next.

A slot file for each rank holds its counters, in memory that all map; the schedule is a file of
lines that the leader appends and the others read. Nothing here waits for a rank that has ended, or
for ever for one that has not. Standard library only.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from stoker import clocks
from stoker.lifetime import is_alive
from stoker.probe.host import ranks_on_node
from stoker.probe.session import LineFile, read_lines

Order = dict[str, Any]

# Ranks that meet in a collective each step are one step apart at the most; as many again for the
# counter that is read while it moves.
LEAD_STEPS = 2
# For the others to reach the loop. Where they meet in collectives that is a step; the limit is met
# where they train on other machines, whose ranks are not in the session.
JOIN_S = 10.0
# For a rank that does something else: a validation, a checkpoint. Patience grows with the steps.
PATIENCE_S = 5.0
# For workers of a side loader that start on one rank later than on another.
DRAIN_PATIENCE_S = 15.0
# For the others to write down their end before the launcher or the script ends them.
_LEAVE_S = 5.0
_POLL_S = 0.002
# How often a rank in its loop looks whether the leader still lives: it costs a system call.
_LOOK_S = 0.5

_COUNT, _DONE, _LEFT, _PID = range(4)  # the fields of a slot, each a 64-bit number
_SLOT_BYTES = 4 * 8
_LEADER_FILE = "leader"
_SCHEDULE_FILE = "schedule.jsonl"


@dataclass(frozen=True)
class Group:
    """This process among those that train together; `here` is how many may join the session."""

    rank: int
    world: int
    here: int


def group_of_process(
    environ: Mapping[str, str] = os.environ, modules: Mapping[str, ModuleType] = sys.modules
) -> Group:
    """What torch.distributed says, or where that was not begun, what the launcher says."""
    rank, world = _number(environ, "RANK", 0), _number(environ, "WORLD_SIZE", 1)
    distributed = modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank, world = int(distributed.get_rank()), int(distributed.get_world_size())
    here = ranks_on_node(environ)
    return Group(rank, world, min(world, here) if here > 1 else world)


def meeting_place(session: Path, change: int, environ: Mapping[str, str] = os.environ) -> Path:
    """The ranks' folder, anew for each training loader and each restart by an elastic launcher."""
    return session / f"ranks-{change}-{_number(environ, 'TORCHELASTIC_RESTART_COUNT', 0)}"


def _number(environ: Mapping[str, str], name: str, otherwise: int) -> int:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() else otherwise


class Slot:
    """The counters of one rank, which it writes and all others read.

    Each is one machine word in shared memory, so no reader sees half of a number.
    """

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._words = memoryview(mmap.mmap(file.fileno(), _SLOT_BYTES)).cast("q")

    @classmethod
    def make(cls, path: Path) -> Slot:
        """A slot of this process; others find it once it is whole."""
        unfinished = path.with_suffix(".new")
        unfinished.write_bytes(bytes(_SLOT_BYTES))
        slot = cls(unfinished)
        slot._words[_PID] = os.getpid()
        slot._words[_DONE] = -1
        unfinished.rename(path)
        return slot

    @property
    def count(self) -> int:
        """Batches of the training loader so far."""
        return self._words[_COUNT]

    @count.setter
    def count(self, value: int) -> None:
        self._words[_COUNT] = value

    @property
    def done(self) -> int:
        """Number of the last order that was carried out; -1 before the first."""
        return self._words[_DONE]

    @done.setter
    def done(self, number: int) -> None:
        self._words[_DONE] = number

    def leave(self) -> None:
        """This rank takes no more part."""
        self._words[_LEFT] = 1

    @property
    def is_there(self) -> bool:
        """False once the rank has left, or its process has ended."""
        return not self._words[_LEFT] and is_alive(self._words[_PID])


class Ranks:
    """One rank's view of all: who leads, how far the others are, what comes next."""

    def __init__(
        self,
        folder: Path,
        group: Group,
        *,
        silence_s: float,
        note: Callable[[str], None],
        clock: Callable[[], float] = clocks.wall_s,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`folder` is the ranks' own, made by the first; a leader that says nothing for
        `silence_s` is not followed any longer. `note` is told what went amiss.
        """
        self._group = group
        self._folder = folder
        self._silence_s = silence_s
        self._note = note
        self._now = clock
        self._sleep = sleep
        folder.mkdir(exist_ok=True)
        if self._slot_path(group.rank).exists():
            # A process that inherited its rank from another one and trains on its own.
            self._folder = folder / f"again-{os.getpid()}"
            self._folder.mkdir(exist_ok=True)
        self._own = Slot.make(self._slot_path(group.rank))
        self._others: dict[int, Slot] = {}
        self._lost: set[int] = set()  # not waited for until they catch up
        self.leads = False
        self._leader = group.rank
        self._schedule = self._folder / _SCHEDULE_FILE
        self._lines: LineFile | None = None
        self._number = -1  # of the last order given or read
        self._offset = 0
        self._pending: list[Order] = []
        self._meet_at: int | None = None
        self._has_stopped = False
        self._looked = self._heard = clock()

    # -- coming together ---------------------------------------------------------------------------

    def join(self) -> None:
        """Wait for the ranks that may come, and agree on the lowest as the leader."""
        self._wait(lambda: len(self._look_around()) + 1 >= self._group.here, JOIN_S)
        missing = self._group.here - len(self._others) - 1
        if missing > 0:
            self._note(f"{missing} of {self._group.here} ranks were not seen in their loop")
        lowest = min([self._group.rank, *self._others])
        if lowest != self._group.rank:
            self._wait((self._folder / _LEADER_FILE).exists, PATIENCE_S)
        self._leader = self._claim()
        self.leads = self._leader == self._group.rank
        if self.leads:
            self._lines = LineFile(self._schedule)
        self._heard = self._now()

    def _claim(self) -> int:
        """Take the lead, unless somebody has it: the leader's rank."""
        claim = self._folder / f"claim-{self._group.rank}"
        claim.write_text(str(self._group.rank))
        try:
            os.link(claim, self._folder / _LEADER_FILE)  # whole at once, and only for the first
        except FileExistsError:
            return int((self._folder / _LEADER_FILE).read_text())
        return self._group.rank

    def _look_around(self) -> dict[int, Slot]:
        """The slots of all other ranks that have come so far."""
        for path in self._folder.glob("slot-*.words"):
            rank = int(path.stem.partition("-")[2])
            if rank != self._group.rank and rank not in self._others:
                self._others[rank] = Slot(path)
        return self._others

    def _slot_path(self, rank: int) -> Path:
        return self._folder / f"slot-{rank}.words"

    # -- in the loop -------------------------------------------------------------------------------

    def is_due(self, count: int, *, left: int) -> bool:
        """True when the window ends at this step, the `count`-th of the training loader.

        `left` are the steps until it should end, by this rank's own plan: the leader announces the
        step, the others end where it was announced.
        """
        self._own.count = count
        if not self.leads:
            return self._is_called(count)
        if self._meet_at is None and left <= LEAD_STEPS:
            furthest = max(
                [count, *(s.count for rank, s in self._others.items() if rank not in self._lost)]
            )
            self._meet_at = max(furthest + LEAD_STEPS, count + left)
            self.give("meet", at=self._meet_at)
        return self._meet_at is not None and count >= self._meet_at

    def _is_called(self, count: int) -> bool:
        now = self._now()
        if self._read():
            self._heard = now
        if self._pending:
            # More than the call: the others are further already.
            at = self._pending[0]["at"] if self._pending[0]["do"] == "meet" else count
            return len(self._pending) > 1 or count >= at
        if now - self._looked < _LOOK_S:
            return False
        self._looked = now
        return self._is_leaderless(now)

    def _is_leaderless(self, now: float) -> bool:
        """True, with an order to stop, when no leader will say anything any more."""
        slot = self._look_around().get(self._leader)
        if slot is not None and slot.is_there and now - self._heard <= self._silence_s:
            return False
        if not self._read():  # its last word may have come in between
            self._note(f"rank {self._leader}, which led, is gone")
            self._pending.append({"n": self._number, "do": "stop", "reason": "script-ended"})
        return True

    # -- the schedule ------------------------------------------------------------------------------

    def give(self, what: str, /, **fields: Any) -> int:
        """Append an order; its number."""
        assert self._lines is not None
        self._number += 1
        self._has_stopped |= what == "stop"
        self._own.done = self._number
        self._lines.write({"n": self._number, "do": what, **fields})
        return self._number

    def gather(self, limit_s: float) -> None:
        """Wait until all others have carried out the last order; longer ones are left behind."""
        self._meet_at = None
        awaited = self._awaited()
        self._wait(lambda: not self._behind(awaited), limit_s)
        for rank in self._behind(awaited):
            self._lost.add(rank)
            self._note(f"rank {rank} did not come within {limit_s:.0f} s: its legs differ")

    def _awaited(self) -> list[int]:
        """The ranks to wait for; a lost one that has caught up is one of them again."""
        self._look_around()
        self._lost = {rank for rank in self._lost if self._others[rank].done < self._number - 1}
        return [rank for rank in self._others if rank not in self._lost]

    def _behind(self, ranks: Iterable[int]) -> list[int]:
        return [
            rank
            for rank in ranks
            if self._others[rank].done < self._number and self._others[rank].is_there
        ]

    def orders(self) -> list[Order]:
        """What the leader has said since; waits for it. All but the last are over already."""
        while not self._pending:
            now = self._now()
            if self._read():
                self._heard = now
            elif now - self._looked >= _LOOK_S:
                self._looked = now
                self._is_leaderless(now)
            else:
                self._sleep(_POLL_S)
        orders, self._pending = self._pending, []
        return orders

    def carried_out(self, order: Order) -> None:
        """Tell the leader that this was done."""
        self._own.done = order["n"]

    def _read(self) -> bool:
        """Fetch what is new in the schedule; True when there was something."""
        try:
            if self._schedule.stat().st_size <= self._offset:
                return False
            new, self._offset = read_lines(self._schedule, self._offset)
        except OSError:
            return False  # not begun yet, or the session is over
        self._pending += new
        if new:
            self._number = new[-1]["n"]
        return bool(new)

    # -- the end -----------------------------------------------------------------------------------

    def leave(self) -> None:
        """Take no more part. A leader sends the others away and lets them write their end."""
        if self.leads and not self._has_stopped:
            # The script ended, in the middle of something: nobody can be waited for.
            self.give("stop", reason="script-ended")
        elif self.leads:
            self._wait(
                lambda: (
                    not any(
                        slot.is_there
                        for rank, slot in self._others.items()
                        if rank not in self._lost
                    )
                ),
                _LEAVE_S,
            )
        self._own.leave()

    def _wait(self, is_done: Callable[[], bool], limit_s: float) -> None:
        end = self._now() + limit_s
        while not is_done() and self._now() < end:
            self._sleep(_POLL_S)
