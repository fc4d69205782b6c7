"""The project of openwebui.compose.yaml, brought up on the Docker Engine of the tests."""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docker import APIClient

from sandbox_core.engines.docker import DockerEngine
from scripts.bringup.process import free_port

__all__ = ["INDEX_ALIAS", "ComposeProject"]

# Where the mirror looks for packages: a container of this name beside it.
INDEX_ALIAS = "index"

_FILE = Path(__file__).resolve().parents[2] / "openwebui.compose.yaml"
_NAME = "run-code-compose-test"
_LABEL = f"com.docker.compose.project={_NAME}"
_PROFILES = ("--profile", "demo", "--profile", "packages", "--profile", "redis")
_EMAIL = "admin@example.com"
_UP_SECONDS = 420
_MODELS_URL = "http://127.0.0.1:11435/v1"  # the demo model, beside Open WebUI


class ComposeProject:
    """Its services with the demo model and the mirror, on a free port of the loopback."""

    def __init__(self, docker_host: str, image: str) -> None:
        self.docker = APIClient(docker_host, timeout=60)
        self.email = _EMAIL
        self.mirror_network = f"{_NAME}_mirror"
        self._owners = ["-"]  # how the owners of codebox's sandboxes begin
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        socket = docker_host.removeprefix("unix://")
        self._environ = {
            **_without_settings(os.environ),
            "DOCKER_HOST": docker_host,
            "DOCKER_SOCKET": socket,
            "DOCKER_GID": str(os.stat(socket).st_gid),
            "CODEBOX_UID": "65534",
            "CODEBOX_IMAGE": image,
            "CODEBOX_NETWORK": "packages",
            "PIP_INDEX_URL": f"http://{INDEX_ALIAS}:8080/simple/",
            "OPEN_WEBUI_PORT": str(port),
            "OPENAI_API_BASE_URL": _MODELS_URL,
            "OPENAI_API_KEY": "none",
        }

    def up(self) -> None:
        """Start everything, or what is missing, and wait until it serves."""
        self.compose("up", "--detach", "--no-build")
        self.wait_for_end("plugins")
        self.wait_until_healthy("codebox")
        self.wait_until_healthy("mirror")

    def up_with_replicas(self, count: int) -> None:
        """So many of codebox, which count in Redis, and wait until they serve."""
        self._environ["CODEBOX_STORAGE_URL"] = "redis://redis:6379/0"
        self.compose("up", "--detach", "--no-build", "--scale", f"codebox={count}")
        self.wait_until_healthy("redis")
        self.wait_until_healthy("codebox")

    def down(self) -> None:
        """Stop everything and remove it with its data."""
        for replica in self.facts_of_all("codebox"):
            self._owners.append(replica["Config"]["Hostname"] + ".")
        self.compose("down", "--volumes", "--timeout", "10")

    def compose(self, *arguments: str) -> str:
        """What a command of compose prints. Fails with its words."""
        command = [*_program(), "--project-name", _NAME, "--file", str(_FILE)]
        done = subprocess.run(
            [*command, *_PROFILES, *arguments],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_UP_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def facts(self, service: str) -> dict[str, Any]:
        """What `docker inspect` says of a service's only container."""
        (facts,) = self.facts_of_all(service)
        return facts

    def facts_of_all(self, service: str) -> list[dict[str, Any]]:
        """What `docker inspect` says of each of a service's containers."""
        labels = [_LABEL, f"com.docker.compose.service={service}"]
        found = self.docker.containers(all=True, filters={"label": labels})
        return [self.docker.inspect_container(each["Id"]) for each in found]

    def run(self, service: str, *command: str) -> str:
        """What a command prints in a service's container."""
        made = self.docker.exec_create(self.facts(service)["Id"], list(command))
        return bytes(self.docker.exec_start(made["Id"])).decode()

    def log(self, service: str) -> str:
        """All that a service has printed."""
        return bytes(self.docker.logs(self.facts(service)["Id"])).decode()

    def wait_for_end(self, service: str) -> None:
        """Wait until a one-shot has ended well."""
        state = self._wait(service, lambda state: state["Status"] == "exited")
        told = f"{self.log(service)}\n{self.log('open-webui')[-4000:]}"
        assert state["ExitCode"] == 0, told

    def wait_until_healthy(self, service: str) -> None:
        """Wait until a service's own check of its health passes."""
        self._wait(service, lambda state: state["Health"]["Status"] == "healthy")

    def remains(self) -> list[Any]:
        """Everything of the project that the engine still has, sandboxes included."""
        sandboxes = DockerEngine(self._environ["DOCKER_HOST"]).leftovers()
        of_project = {"label": _LABEL}
        return [
            *self.docker.containers(all=True, filters=of_project),
            *self.docker.networks(filters=of_project),
            *(self.docker.volumes(filters=of_project)["Volumes"] or []),
            *(
                lease
                for lease in sandboxes
                if lease.owner.startswith(tuple(self._owners))
            ),
        ]

    def _wait(self, service: str, holds: Any) -> dict[str, Any]:
        """The state of a service's first container, when it holds of all."""
        deadline = time.monotonic() + _UP_SECONDS
        states = [facts["State"] for facts in self.facts_of_all(service)]
        while not (states and all(map(holds, states))):
            assert time.monotonic() < deadline, f"{service}: {states}"
            time.sleep(0.5)
            states = [facts["State"] for facts in self.facts_of_all(service)]
        return dict(states[0])


def _program() -> list[str]:
    """Compose as Docker's plugin, or the program of Debian's package."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True)
    if plugin.returncode == 0:
        return ["docker", "compose"]
    assert shutil.which(
        "docker-compose"
    ), "docker-compose is missing: apt-get install it"
    return ["docker-compose"]


def _without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    prefixes = (
        *("CODEBOX_", "DOCKER_", "MIRROR_", "OPENAI_", "OPEN_WEBUI_"),
        *("OWUI_", "PIP_", "WEBUI_"),
    )
    return {k: v for k, v in environ.items() if not k.startswith(prefixes)}
