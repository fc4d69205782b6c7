"""Removes sandboxes that nobody can be using any more: at the start, and on a timer."""

import logging
import threading
import time

from sandbox_core.engines.base import Engine
from sandbox_core.errors import EngineError
from sandbox_core.leases import Lease, is_dead

__all__ = ["Reaper", "reap"]

_reaper_log = logging.getLogger("run_code.reaper")


def reap(engine: Engine, now: float) -> list[Lease]:
    """Remove every sandbox that is provably dead; returns the leases of those removed.

    ``now`` is in seconds since the epoch. Raises EngineError when the engine cannot be asked,
    or, after all have been tried, when one could not be removed.
    """
    removed: list[Lease] = []
    problem: EngineError | None = None
    for lease in engine.leftovers():
        if not is_dead(lease, now):
            continue
        try:
            engine.remove(lease)
        except EngineError as error:
            problem = error
        else:
            removed.append(lease)
    if problem is not None:
        raise problem
    return removed


class Reaper:
    """Reaps in a thread of its own until stop() or the end of the process."""

    def __init__(self, engine: Engine, interval_seconds: float = 30.0) -> None:
        self._engine = engine
        self._interval_seconds = interval_seconds
        self._stopped = threading.Event()
        self._last_problem = ""

    def start(self) -> None:
        """The first pass begins at once."""
        threading.Thread(target=self._work, name="run-code-reaper", daemon=True).start()

    def stop(self) -> None:
        """No further pass begins."""
        self._stopped.set()

    def _work(self) -> None:
        while not self._stopped.is_set():
            self._pass()
            self._stopped.wait(self._interval_seconds)

    def _pass(self) -> None:
        try:
            removed = reap(self._engine, time.time())
        except Exception as error:  # whatever it is, the next pass may do better
            if str(error) != self._last_problem:  # a daemon that is down is told once
                self._last_problem = str(error)
                _reaper_log.warning("left-over sandboxes cannot be removed: %r", error)
            return
        self._last_problem = ""
        for lease in removed:
            kind = "network" if lease.is_network else "sandbox"
            _reaper_log.info("removed the left-over %s of run %s", kind, lease.run_id)
