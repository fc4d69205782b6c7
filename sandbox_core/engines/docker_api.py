"""Docker's low-level client with a time-out for every call and our errors."""

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sandbox_core.deadline import Deadline
from sandbox_core.engines.docker_errors import NO_SSH, docker_errors_mapped
from sandbox_core.errors import EngineUnavailable

__all__ = ["DockerApi"]

_CALL_SECONDS = 10.0
_PULL_SECONDS = 600.0


class DockerApi:
    """Calls to one daemon, from any thread. ``address`` is as in DOCKER_HOST; "" means the
    default socket. ``engine`` is its name in errors.

    Each call has a client of its own, which costs less than a millisecond: the SDK's keeps a
    connection for each address that it was ever asked for, and its time-out is an attribute.
    """

    def __init__(self, address: str, engine: str) -> None:
        self._address = address
        self._engine = engine
        self._version = ""

    def call(self, deadline: Deadline, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of docker.APIClient. Raises EngineError."""
        with self.client(deadline) as client:
            return getattr(client, method)(*args, **kwargs)

    def events(
        self, deadline: Deadline, container_id: str, kinds: list[str], since: int
    ) -> list[dict[str, Any]]:
        """What the daemon remembers of a container, oldest first. Raises EngineError."""
        with self.client(deadline) as client:
            stream = client.events(
                since=since,
                # Not in the future, or the daemon would wait for more to happen.
                until=f"{time.time():.3f}",
                filters={"container": [container_id], "event": kinds},
                decode=True,
            )
            try:
                return list(stream)
            finally:
                stream.close()

    def client(self, deadline: Deadline) -> AbstractContextManager[Any]:
        """A docker.APIClient for one call that has no method there. Raises EngineError, also
        for what is raised inside."""
        return self._client(_seconds_until(deadline))

    def pull(self, image: str) -> None:
        """Fetch an image from its registry, which may take minutes. Raises EngineError."""
        with self._client(_PULL_SECONDS) as client:
            client.pull(image)

    @contextmanager
    def _client(self, seconds: float) -> Iterator[Any]:
        """A client whose every request takes ``seconds`` at most. Raises EngineError."""
        with docker_errors_mapped(self._engine):
            import docker
            from docker.utils import kwargs_from_env

            address = self._address
            if address.startswith("ssh://"):
                raise EngineUnavailable(NO_SSH, address)
            where: dict[str, Any] = {"base_url": address}
            if not address.startswith("unix://"):
                # With TLS as DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say.
                where = dict(kwargs_from_env({**os.environ, "DOCKER_HOST": address}))
            # Asking the daemon for its version costs a round trip: once is enough.
            where |= {"version": self._version or "auto", "timeout": seconds}
            client = docker.APIClient(**where)
            self._version = client.api_version
            _make_punctual(client)
            # No proxy leads to a socket; and requests goes through os.environ for each call,
            # which fails when another thread changes it.
            client.trust_env = not address.startswith("unix://")
            try:
                yield client
            finally:
                client.close()


def _seconds_until(deadline: Deadline) -> float:
    return max(0.1, min(_CALL_SECONDS, deadline.remaining()))


def _make_punctual(client: Any) -> None:
    """Give a time-out to the calls for which the SDK has none (attach, events, wait)."""
    request = client.request

    def request_in_time(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = client.timeout
        return request(*args, **kwargs)

    client.request = request_in_time
