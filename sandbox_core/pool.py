"""Sandboxes started before they are needed. Each is used once and thrown away.

A pool keeps a few booted sandboxes for every kind that was asked for lately, refills itself
in the background, and never makes a run wait: it has one, or the run starts cold. A kind has
one interpreter that waits for a program.

To make one costs more processor time than to start a run cold. So as long as runs under way can
use all processors, it hardly makes any: more runs would get done without.
"""

import logging
import math
import os
import threading
import time
from collections import deque
from dataclasses import dataclass, replace

from sandbox_core.boot import BootedSandbox, boot_sandbox
from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import CancelToken, Engine, SandboxSpec
from sandbox_core.errors import SandboxError
from sandbox_core.models import new_run_id

__all__ = ["PoolSettings", "PoolStats", "WarmPool"]

_pool_log = logging.getLogger("run_code.pool")

# What an idle sandbox with the default modules costs the host (docs/performance.md).
IDLE_SANDBOX_MIB = 128
_BOOT_SECONDS = 60.0
_TIDY_SECONDS = 5.0
_OLDEST_SECONDS = 1800.0
_LONGEST_RUN_SECONDS = 4000.0
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_POOL_CLOSE_SECONDS = 20.0
# So often one is made all the same, for those whose programs only wait.
_CROWDED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """``size`` sandboxes of each kind; none when 0. ``idle_seconds`` after a kind was last
    asked for, its sandboxes go. All of them together stay within ``memory_budget_mib``.
    """

    size: int = 1
    idle_seconds: float = 900.0
    memory_budget_mib: int = 512
    preload: tuple[str, ...] = ("numpy", "pandas", "matplotlib.pyplot")

    @property
    def most(self) -> int:
        """The largest number of idle sandboxes of all kinds."""
        return self.memory_budget_mib // IDLE_SANDBOX_MIB if self.size else 0


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Counters since the start; ``refill_seconds`` is the time of the last refill."""

    hits: int = 0
    misses: int = 0
    refills: int = 0
    failures: int = 0
    idle: int = 0
    refill_seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Idle:
    sandbox: BootedSandbox
    made_at: float


class _Shelf:
    """The idle sandboxes of one kind."""

    def __init__(self, spec: SandboxSpec) -> None:
        self.spec = spec
        self.wanted_at = 0.0
        self.idle: deque[_Idle] = deque()


class WarmPool:
    """Idle sandboxes of one engine. Thread-safe; its own thread starts at the first take.

    ``processors`` is how many the runs have to share; by default all of this machine's.
    """

    def __init__(
        self, engine: Engine, settings: PoolSettings, processors: int | None = None
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._processors = processors or os.cpu_count() or 1
        self._runs = 0
        self._made_at = -math.inf
        self._shelves: dict[SandboxSpec, _Shelf] = {}
        self._stats = PoolStats()
        self._changed = threading.Condition()
        self._closed = False
        self._woken = False
        self._cancel = CancelToken()
        self._thread: threading.Thread | None = None
        self._pause = 0.0
        self._next_try = 0.0

    def want(self, spec: SandboxSpec, waiting: str = "python") -> bool:
        """Have one made for runs like this, in the background; True if one is ready."""
        with self._changed:
            shelf = self._shelf_for(spec, waiting)
            self._wake()
            return shelf is not None and bool(shelf.idle)

    def take(self, spec: SandboxSpec, waiting: str = "python") -> BootedSandbox | None:
        """A sandbox as this spec asks for, if one is ready; never waits. Rather one in which
        another interpreter waits than none: it has started all the same. The taker has to
        close it. The next one is made after a run, or when want() is called."""
        dead = []
        found: BootedSandbox | None = None
        with self._changed:
            shelf = self._shelf_for(spec, waiting)
            if shelf is None:
                return None
            for each in (shelf, *self._alike(shelf)):
                while each.idle and found is None:
                    candidate = each.idle.popleft()
                    if _is_usable(candidate):
                        found = candidate.sandbox
                    else:
                        dead.append(candidate)
            hit = found is not None
            self._stats = replace(
                self._stats,
                hits=self._stats.hits + hit,
                misses=self._stats.misses + (not hit),
            )
        for entry in dead:
            entry.sandbox.channel.close()
        return found

    def begin_run(self) -> None:
        """Called when a run begins, whatever its kind."""
        with self._changed:
            self._runs += 1

    def end_run(self) -> None:
        """Called once for each begun run: now is a good time to make what is missing."""
        with self._changed:
            self._runs -= 1
            self._wake()

    def stats(self) -> PoolStats:
        """The counters as they are now."""
        with self._changed:
            return replace(self._stats, idle=self._count())

    def close(self) -> None:
        """Throw all idle sandboxes away and take no more."""
        with self._changed:
            self._closed = True
            self._wake()
        self._cancel.cancel()
        if self._thread is not None:
            self._thread.join(_POOL_CLOSE_SECONDS)
        with self._changed:
            shelves, self._shelves = self._shelves, {}
        for shelf in shelves.values():
            for entry in shelf.idle:
                entry.sandbox.channel.close()

    def _shelf_for(self, spec: SandboxSpec, waiting: str) -> _Shelf | None:
        """The shelf of this spec's kind, which is wanted now; None if there is no pool."""
        if self._closed or not self._settings.most:
            return None
        kind = self._kind_of(spec, waiting)
        shelf = self._shelves.setdefault(kind, _Shelf(kind))
        shelf.wanted_at = time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="run-code-pool", daemon=True
            )
            self._thread.start()
        return shelf

    def _alike(self, shelf: _Shelf) -> list[_Shelf]:
        """The other shelves whose sandboxes differ in the interpreter only."""
        return [
            other
            for other in self._shelves.values()
            if other is not shelf and _cold(other.spec) == _cold(shelf.spec)
        ]

    def _kind_of(self, spec: SandboxSpec, waiting: str) -> SandboxSpec:
        """What two specs have in common when one sandbox would do for both."""
        return replace(
            spec,
            run_id="",
            expires_at=0.0,
            limits=spec.limits.shape(),
            waiting=waiting,
            preload=self._settings.preload if waiting == "python" else (),
        )

    def _wake(self) -> None:
        self._woken = True
        self._changed.notify()

    def _count(self) -> int:
        return sum(len(shelf.idle) for shelf in self._shelves.values())

    # --- the pool's own thread ---------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._woken, _TIDY_SECONDS)
                self._woken = False
                if self._closed:
                    return
            self._tidy()
            spec = self._missing()
            while spec is not None and self._make(spec):
                spec = self._missing()

    def _tidy(self) -> None:
        """Throw away what is dead, old, or of a kind that nobody wants any more."""
        now = time.monotonic()
        discarded: list[_Idle] = []
        with self._changed:
            for kind, shelf in list(self._shelves.items()):
                wanted = now - shelf.wanted_at < self._settings.idle_seconds
                kept = deque(
                    entry for entry in shelf.idle if wanted and _is_usable(entry)
                )
                discarded += [entry for entry in shelf.idle if entry not in kept]
                shelf.idle = kept
                if not wanted:
                    del self._shelves[kind]
        for entry in discarded:
            entry.sandbox.channel.close()

    def _missing(self) -> SandboxSpec | None:
        """The kind to make next: the one asked for last that has too few. When the budget
        is used up, the kind that was asked for longest ago gives one up for it."""
        with self._changed:
            now = time.monotonic()
            if self._closed or now < self._next_try or self._is_crowded(now):
                return None
            by_age = sorted(self._shelves.values(), key=lambda shelf: shelf.wanted_at)
            lacking = [
                shelf for shelf in by_age if len(shelf.idle) < self._settings.size
            ]
            if not lacking:
                return None
            given_up: _Idle | None = None
            if self._count() >= self._settings.most:
                oldest = next(shelf for shelf in by_age if shelf.idle)
                if oldest.wanted_at >= lacking[-1].wanted_at:
                    return None
                given_up = oldest.idle.popleft()
        if given_up is not None:
            given_up.sandbox.channel.close()
        return lacking[-1].spec

    def _is_crowded(self, now: float) -> bool:
        recent = now - self._made_at < _CROWDED_SECONDS
        return recent and self._runs >= self._processors

    def _make(self, kind: SandboxSpec) -> bool:
        """Boot one and put it on its shelf. False after a failure, which makes us pause."""
        started = time.monotonic()
        spec = replace(
            kind,
            run_id=f"idle-{new_run_id()}",
            expires_at=time.time() + _OLDEST_SECONDS + _LONGEST_RUN_SECONDS,
        )
        try:
            sandbox = boot_sandbox(
                self._engine, spec, self._cancel, Deadline(_BOOT_SECONDS)
            )
        except Exception as error:  # whatever it was, the thread lives on
            self._note_failure(error)
            return False
        now = time.monotonic()
        with self._changed:
            shelf = self._shelves.get(kind)
            kept = shelf is not None and not self._closed
            if shelf is not None and kept:
                shelf.idle.append(_Idle(sandbox, now))
            self._pause = 0.0
            self._made_at = now
            self._stats = replace(
                self._stats,
                refills=self._stats.refills + 1,
                refill_seconds=now - started,
            )
        if not kept:
            sandbox.channel.close()
        return kept

    def _note_failure(self, error: Exception) -> None:
        with self._changed:
            if self._closed:
                return
            self._pause = min(_LONGEST_PAUSE, 2 * self._pause or _FIRST_PAUSE)
            self._next_try = time.monotonic() + self._pause
            self._stats = replace(self._stats, failures=self._stats.failures + 1)
        _pool_log.warning(
            "no sandbox could be made ahead, next try in %d s: %s (%s)",
            self._pause,
            error,
            getattr(error, "detail", ""),
            exc_info=None if isinstance(error, SandboxError) else error,
        )


def _cold(kind: SandboxSpec) -> SandboxSpec:
    return replace(kind, waiting="", preload=())


def _is_usable(entry: _Idle) -> bool:
    """Not too old, and its guest is there: a dead one has an end of stream to read."""
    if time.monotonic() - entry.made_at > _OLDEST_SECONDS:
        return False
    return entry.sandbox.channel.recv(0.0) is None
