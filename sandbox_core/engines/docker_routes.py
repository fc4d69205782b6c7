"""The ways out of sandboxes, as Docker makes them: for each run an internal network with the
proxy on it, which goes when the run ends.

On a network of its own a sandbox finds no other one. The host has no address on it, because of
``inhibit_ipv4``: an internal network alone leaves all of the host's addresses open.
"""

import re
import time
from contextlib import suppress
from typing import Any

from sandbox_core.deadline import Deadline
from sandbox_core.egress import EgressSettings, Route, route_name, route_subnets
from sandbox_core.engines.docker_api import DockerApi
from sandbox_core.errors import EngineError
from sandbox_core.leases import LABEL_EXPIRES, LABEL_OWNER, LABEL_RUN, Lease

__all__ = ["DockerRoutes"]

_LIST_ROUTES_SECONDS = 10.0
_CLOSE_ROUTE_SECONDS = 20.0
_TAKEN_WORDS = ("overlap", "conflicts with")
_NO_PROXY = (
    "The proxy to the network is not running, so nothing was run. An administrator should "
    "start it (docs/network.md); then try again."
)
_NO_SUBNET = (
    "There is no free network for this run. Try again in a minute; if it stays, an "
    "administrator should set egress_subnets to an unused range (docs/network.md)."
)


class DockerRoutes:
    """Makes and removes them, from any thread."""

    def __init__(self, api: DockerApi) -> None:
        self._api = api

    def open(
        self,
        way: EgressSettings,
        mode: str,
        run_id: str,
        owner: str,
        expires_at: float,
        deadline: Deadline,
    ) -> Route:
        """See Engine.open_route."""
        self._check_proxy(way.container, deadline)
        name = route_name(mode, run_id)
        labels = {
            LABEL_OWNER: owner,
            LABEL_RUN: run_id,
            LABEL_EXPIRES: str(int(expires_at)),
        }
        proxy = self._create(name, way.subnets, labels, deadline)
        try:
            self._api.call(
                deadline,
                "connect_container_to_network",
                way.container,
                name,
                ipv4_address=proxy,
            )
        except EngineError:
            self._remove(name, Deadline(_CLOSE_ROUTE_SECONDS))
            raise
        return Route(name, proxy)

    def close(self, route: Route) -> None:
        """See Engine.close_route."""
        self._remove(route.network, Deadline(_CLOSE_ROUTE_SECONDS))

    def leftovers(self) -> list[Lease]:
        """All networks of runs. Raises EngineError."""
        listed = self._api.call(
            Deadline(_LIST_ROUTES_SECONDS), "networks", filters={"label": LABEL_OWNER}
        )
        return [_lease_of_network(entry) for entry in listed]

    def remove(self, lease: Lease) -> None:
        """Remove one of leftovers(). Raises EngineError."""
        self._remove(lease.sandbox_id, Deadline(_LIST_ROUTES_SECONDS))

    def _check_proxy(self, container: str, deadline: Deadline) -> None:
        try:
            state = self._api.call(deadline, "inspect_container", container)["State"]
        except EngineError as error:
            if "No such container" in error.detail:
                raise EngineError(_NO_PROXY, error.detail) from error
            raise
        if not state.get("Running"):
            raise EngineError(_NO_PROXY, f"{container} is {state.get('Status')}")

    def _create(
        self, name: str, subnets: str, labels: dict[str, str], deadline: Deadline
    ) -> str:
        """Make the network in the first subnet that is free; returns the proxy's address."""
        problem = ""
        for subnet, proxy in route_subnets(subnets):
            try:
                self._api.call(
                    deadline,
                    "create_network",
                    name,
                    driver="bridge",
                    internal=True,
                    check_duplicate=True,
                    labels=labels,
                    options={"com.docker.network.bridge.inhibit_ipv4": "true"},
                    ipam={"Driver": "default", "Config": [{"Subnet": subnet}]},
                )
                return proxy
            except EngineError as error:
                problem = error.detail
                if not any(words in problem for words in _TAKEN_WORDS):
                    raise
        raise EngineError(_NO_SUBNET, problem)

    def _remove(self, network: str, deadline: Deadline) -> None:
        """Take off whoever is on it, and remove it. Raises EngineError when it stays."""
        while True:
            try:
                seen = self._api.call(deadline, "inspect_network", network)
                for container in seen.get("Containers") or {}:
                    self._take_off(container, network, deadline)
                self._api.call(deadline, "remove_network", network)
                return
            except EngineError as error:
                if _says_no_network(error):
                    return
                if deadline.passed():
                    raise
            time.sleep(0.1)

    def _take_off(self, container: str, network: str, deadline: Deadline) -> None:
        # It may be going by itself. Whether it is gone, the network's removal tells.
        with suppress(EngineError):
            self._api.call(
                deadline,
                "disconnect_container_from_network",
                container,
                network,
                force=True,
            )


def _says_no_network(error: EngineError) -> bool:
    """Not so for an endpoint that is not found."""
    return re.search(r"\bnetwork \S+ not found", error.detail) is not None


def _lease_of_network(entry: dict[str, Any]) -> Lease:
    labels = entry["Labels"]
    expires = labels.get(LABEL_EXPIRES, "")
    return Lease(
        sandbox_id=entry["Id"],
        run_id=labels.get(LABEL_RUN, ""),
        owner=labels[LABEL_OWNER],
        expires_at=float(expires) if expires.isdigit() else 0.0,
        is_network=True,
    )
