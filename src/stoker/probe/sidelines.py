"""The side loaders of the training loader, asked so that nothing they do reaches the script.

A data set may raise anything when asked from elsewhere: it is noted, and that leg is left out.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.probe.legs import Window
from stoker.probe.offers import Offers, Unsuitable
from stoker.probe.roles import Drainer, Rehearsal
from stoker.probe.session import Session


class Sidelines:
    """Side loaders made on demand, and what became of them."""

    def __init__(self, session: Session, make: Callable[[], Rehearsal]) -> None:
        self._session = session
        self._make = make
        self._rehearsal: Rehearsal | None = None
        self._drainer: Drainer | None = None
        self.is_spoilt = False  # a side loader died: the leg that asked for it means nothing

    @property
    def threads(self) -> int:
        """Threads of all workers of leg L together, as last seen."""
        return self._rehearsal.threads if self._rehearsal is not None else 0

    def start_s(self, workers: int) -> float | None:
        """Seconds that starting so many workers takes; None before any were started here."""
        seen = self._rehearsal.start_each_s if self._rehearsal is not None else None
        return seen * workers if seen is not None else None

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        """Periods of batches taken from a side loader of that many workers."""
        try:
            return self._opened().drain(what, workers, batches=batches, limit_s=limit_s)
        except Exception as error:  # noqa: BLE001 - a data set may raise anything
            self._spoil(f"a loader of {workers} workers", error)
            return []

    def begin_beside(self) -> None:
        """Begin to take a batch for every ticket, beside the step."""
        try:
            self._drainer = self._opened().start_drainer()
        except Exception as error:  # noqa: BLE001 - as above
            self._spoil("the loader beside the step", error)

    def ticket(self) -> None:
        """One more batch may be taken beside the step."""
        if self._drainer is not None:
            self._drainer.ticket()

    def end_beside(self) -> list[float]:
        """The periods between batches taken beside the step; nothing where none were."""
        drainer, self._drainer = self._drainer, None
        if drainer is None:
            return []
        try:
            return drainer.stop()
        except Exception as error:  # noqa: BLE001 - as above
            self._spoil("the loader beside the step", error)
            return []

    def offers(self) -> Offers | None:
        """What may be tried in place of the script's loader; None where nothing was handed down."""
        try:
            return self._opened().offers()
        except Exception as error:  # noqa: BLE001 - as above
            self._session.write_failure("choosing what to try", error)
            return None

    def begin_trial(self, window: Window) -> None:
        """Start the loader on trial, unless it is there from the window before."""
        try:
            self._opened().begin_trial(window.workers, window.variant)
        except Exception as error:  # noqa: BLE001 - as above
            self._spoil_trial(window, error)

    def on_trial(self, window: Window, *, anew: int | None) -> tuple[Any] | None:
        """The next batch of the loader on trial, for the script itself; None when it has failed.

        `anew`: it begins an epoch of so many batches with that.
        """
        if self.is_spoilt:
            return None
        try:
            return (self._opened().on_trial(anew),)
        except Unsuitable as error:
            self._session.write("untried", name=window.variant, why=str(error))
            self.is_spoilt = True
            return None
        except Exception as error:  # noqa: BLE001 - as above
            self._spoil_trial(window, error)
            return None

    @property
    def on_trial_now(self) -> Any:
        """The iterator of the loader on trial; None without."""
        return self._rehearsal.on_trial_now if self._rehearsal is not None else None

    def end_trial(self) -> None:
        """The loader on trial is needed no longer."""
        try:
            self._opened().end_trial()
        except Exception as error:  # noqa: BLE001 - as above
            self._session.write_failure("ending a trial", error)

    def once(self, limit_s: float) -> None:
        """The examinations that need no loop."""
        try:
            self._opened().once(limit_s)
        except Exception as error:  # noqa: BLE001 - as above
            self._session.write_failure("looking at single samples", error)

    def close(self) -> None:
        """End all workers; the next one asked for is made anew."""
        if self._rehearsal is not None:
            self._rehearsal.close()
            self._rehearsal = None

    def _opened(self) -> Rehearsal:
        if self._rehearsal is None:
            self._rehearsal = self._make()
        return self._rehearsal

    def _spoil_trial(self, window: Window, error: Exception) -> None:
        why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        self._session.write("untried", name=window.variant, why=f"it failed: {why}")
        self._spoil(f"a trial of {window.variant or f'{window.workers} workers'}", error)

    def _spoil(self, what: str, error: Exception) -> None:
        self._session.write_failure(what, error)
        self.is_spoilt = True
        if self._rehearsal is not None:
            self._rehearsal.close()
