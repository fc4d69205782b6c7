"""Counts that bound what callers may do, in memory or in a Redis that replicas share."""

import asyncio
import hashlib
import math
import time
from collections.abc import Awaitable
from typing import TypeVar

from limits import RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import MovingWindowRateLimiter
from limits.errors import StorageError

from codebox.settings import Settings

__all__ = ["REDIS_SECONDS", "Counters", "CountersLost"]

REDIS_SECONDS = 2.0
_Value = TypeVar("_Value")


class CountersLost(Exception):
    """The limits cannot be checked, so nothing may run."""


class Counters:
    """Rate limits, refused tokens and used token ids. Every call may raise CountersLost."""

    def __init__(self, settings: Settings) -> None:
        self._storage = _storage(settings.storage_url)
        self._limiter = MovingWindowRateLimiter(self._storage)
        burst, rps = settings.rate_limit_burst, settings.rate_limit_rps
        # So many calls in the time in which the average rate allows them.
        self._calls = RateLimitItemPerSecond(
            burst, max(1, math.ceil(burst / rps)), "calls"
        )
        self._refusals = RateLimitItemPerMinute(
            settings.bad_tokens_per_minute, 1, "refusals"
        )

    async def count_call(self, user: str) -> int | None:
        """Count a call of a user. None: fine; else seconds to wait before the next."""
        key = _digest(user)
        if await self._ask(self._limiter.hit(self._calls, key)):
            return None
        stats = await self._ask(self._limiter.get_window_stats(self._calls, key))
        return max(1, math.ceil(stats.reset_time - time.time()))

    async def count_refusal(self, address: str) -> bool:
        """Count a bad token from an address. False: there were too many already."""
        return await self._ask(self._limiter.hit(self._refusals, _digest(address)))

    async def may_guess(self, address: str) -> bool:
        """Whether an address has not sent too many bad tokens."""
        return await self._ask(self._limiter.test(self._refusals, _digest(address)))

    async def is_first(self, token_id: str, seconds: int) -> bool:
        """See OnceOnly.is_first."""
        key = f"codebox:once:{_digest(token_id)}"
        return await self._ask(self._storage.incr(key, seconds)) == 1

    async def check(self) -> bool:
        """Whether the counts can be reached."""
        try:
            return await self._ask(self._storage.check())
        except CountersLost:
            return False

    async def _ask(self, question: Awaitable[_Value]) -> _Value:
        try:
            return await asyncio.wait_for(question, REDIS_SECONDS)
        except (StorageError, TimeoutError) as error:
            raise CountersLost(
                "The limits cannot be checked right now, so nothing was run. Try again in a "
                "minute."
            ) from error


def _storage(url: str) -> MemoryStorage | RedisStorage:
    if url == "memory://":
        return MemoryStorage(wrap_exceptions=True)
    return RedisStorage(
        f"async+{url}",
        wrap_exceptions=True,
        implementation="redispy",
        socket_timeout=REDIS_SECONDS,
        socket_connect_timeout=REDIS_SECONDS,
    )


def _digest(text: str) -> str:
    """A key of bounded length that says nothing about its owner."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
