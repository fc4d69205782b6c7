"""Docker's low-level client with a time-out for every call and our errors."""

import threading
import time
from typing import Any

from sandbox_core.deadline import Deadline
from sandbox_core.engines.docker_errors import docker_errors_mapped

__all__ = ["DockerApi"]

_CALL_SECONDS = 10.0
_PULL_SECONDS = 600.0


class DockerApi:
    """Calls to one daemon. ``docker_host`` is as in DOCKER_HOST; "" means the environment.

    One client per thread: its time-out is an attribute, so it cannot be shared.
    """

    def __init__(self, docker_host: str) -> None:
        self._docker_host = docker_host
        self._version = ""
        self._clients = threading.local()

    def call(self, deadline: Deadline, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of docker.APIClient. Raises EngineError."""
        with docker_errors_mapped():
            seconds = max(0.1, min(_CALL_SECONDS, deadline.remaining()))
            client = self._client(seconds)
            client.timeout = seconds
            return getattr(client, method)(*args, **kwargs)

    def events(
        self, deadline: Deadline, container_id: str, kinds: list[str], since: int
    ) -> list[dict[str, Any]]:
        """What the daemon remembers of a container, oldest first. Raises EngineError."""
        filters = {"container": [container_id], "event": kinds}
        with docker_errors_mapped():
            stream = self.call(
                deadline,
                "events",
                since=since,
                # Not in the future, or the daemon would wait for more to happen.
                until=f"{time.time():.3f}",
                filters=filters,
                decode=True,
            )
            try:
                return list(stream)
            finally:
                stream.close()

    def pull(self, image: str) -> None:
        """Fetch an image from its registry, which may take minutes. Raises EngineError."""
        with docker_errors_mapped():
            client = self._client(_CALL_SECONDS)
            client.timeout = _PULL_SECONDS
            client.pull(image)

    def _client(self, seconds: float) -> Any:
        client = getattr(self._clients, "client", None)
        if client is None:
            client = self._clients.client = self._new_client(seconds)
        return client

    def _new_client(self, seconds: float) -> Any:
        import docker
        from docker.utils import kwargs_from_env

        where: dict[str, Any] = {"base_url": self._docker_host}
        if not self._docker_host:
            where = dict(kwargs_from_env())
        # Asking the daemon for its version costs a round trip: once per process is enough.
        client = docker.APIClient(
            **where, version=self._version or "auto", timeout=seconds
        )
        self._version = client.api_version
        _make_punctual(client)
        return client


def _make_punctual(client: Any) -> None:
    """Give a time-out to the calls for which the SDK has none (attach, events, wait)."""
    request = client.request

    def request_in_time(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = client.timeout
        return request(*args, **kwargs)

    client.request = request_in_time
