"""Caps that hold over all replicas: places for runs, counted in Redis.

A place is held by renewing it. One whose replica died is free again after 15 seconds.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from redis.asyncio import Redis
from redis.exceptions import RedisError

from codebox.counters import REDIS_SECONDS, CountersLost
from codebox.settings import Settings

__all__ = ["NoSlots", "RedisSlots"]

_log = logging.getLogger("codebox.slots")
_HELD_SECONDS = 15
_RENEW_SECONDS = 5
_POLL_SECONDS = 0.1
_ALL = "codebox:slots:all"

# KEYS: places of all, places of the user. ARGV: now, end, run, cap of all, cap of the user.
_TAKE = """
for _, key in ipairs(KEYS) do redis.call('ZREMRANGEBYSCORE', key, '-inf', ARGV[1]) end
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) then return 0 end
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[5]) then return 0 end
for _, key in ipairs(KEYS) do
    redis.call('ZADD', key, ARGV[2], ARGV[3])
    redis.call('EXPIRE', key, 60)
end
return 1
"""


class NoSlots:
    """For a service without replicas: its own queue is enough."""

    @asynccontextmanager
    async def hold(self, run_id: str, user: str) -> AsyncIterator[None]:
        """Hold nothing."""
        yield

    async def close(self) -> None:
        """Nothing to close."""


class RedisSlots:
    """Places in a Redis, at most as many as the settings allow for all replicas together."""

    def __init__(self, settings: Settings) -> None:
        self._redis: Redis = Redis.from_url(
            settings.storage_url,
            socket_timeout=REDIS_SECONDS,
            socket_connect_timeout=REDIS_SECONDS,
        )
        self._take = self._redis.register_script(_TAKE)
        self._caps = (settings.max_concurrent, settings.max_concurrent_per_user)

    @asynccontextmanager
    async def hold(self, run_id: str, user: str) -> AsyncIterator[None]:
        """Wait for a place and hold it. Raises CountersLost when Redis does not answer."""
        digest = hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()[:32]
        keys = (_ALL, f"codebox:slots:user:{digest}")
        try:
            while not await self._try(keys, run_id):
                await asyncio.sleep(_POLL_SECONDS)
        except RedisError as error:
            raise CountersLost(
                "The limits cannot be checked right now, so nothing was run. Try again in a "
                "minute."
            ) from error
        renewal = asyncio.create_task(self._renew(keys, run_id))
        try:
            yield
        finally:
            renewal.cancel()
            with suppress(RedisError):  # it ends by itself
                for key in keys:
                    await self._redis.zrem(key, run_id)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def _try(self, keys: tuple[str, str], run_id: str) -> bool:
        now = time.time()
        arguments = (now, now + _HELD_SECONDS, run_id, *self._caps)
        return bool(await self._take(keys=keys, args=arguments))

    async def _renew(self, keys: tuple[str, str], run_id: str) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                for key in keys:
                    end = time.time() + _HELD_SECONDS
                    await self._redis.zadd(key, {run_id: end})
                    await self._redis.expire(key, 4 * _HELD_SECONDS)
            except RedisError as error:
                _log.warning("the place of run %s is not renewed: %r", run_id, error)
