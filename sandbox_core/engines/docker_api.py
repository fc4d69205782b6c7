"""Docker's low-level client with a time-out for every call and our errors."""

import threading
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
        return client
