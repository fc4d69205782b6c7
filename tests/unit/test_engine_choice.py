"""One name for each container engine, and where each is looked for."""

import os
from typing import get_args

import pytest

from codebox.settings import Settings
from codebox.settings_loading import SettingsFault, load_settings
from owui_plugin.valves import EveryValve
from sandbox_core.engines.choice import (
    ENGINE_NAMES,
    make_engine,
    usual_engine_name,
)
from sandbox_core.engines.podman import podman_address
from sandbox_core.errors import InvalidRequest


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_each_name_gives_its_engine(name):
    assert make_engine(name, "unix:///none").name == name


def test_unknown_engine_is_refused_with_those_that_there_are():
    with pytest.raises(InvalidRequest, match=r"“crane”: choose docker, podman, runsc"):
        make_engine("crane")


def test_valve_and_service_offer_every_engine():
    offered = get_args(EveryValve.model_fields["backend"].annotation)
    assert offered == ("auto", "codebox", *ENGINE_NAMES)
    setting = Settings.model_fields["container_backend"]
    assert get_args(setting.annotation) == ENGINE_NAMES


def test_service_does_not_start_with_an_unknown_engine():
    environ = {
        "CODEBOX_SECRET": "0123456789abcdef0123456789abcdef",
        "CODEBOX_CONTAINER_BACKEND": "crane",
    }
    with pytest.raises(SettingsFault) as caught:
        load_settings(environ)
    (fault,) = caught.value.faults
    assert fault.startswith("CODEBOX_CONTAINER_BACKEND: input should be 'docker'")


def test_podman_is_found_by_environment_and_by_its_sockets(tmp_path, monkeypatch):
    assert podman_address({"DOCKER_HOST": "tcp://a:1"}) == "tcp://a:1"
    assert podman_address({"CONTAINER_HOST": "unix:///b"}) == "unix:///b"
    assert podman_address({}) == "unix:///run/podman/podman.sock"
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    own = tmp_path / "podman" / "podman.sock"
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert podman_address(environ) == "unix:///run/podman/podman.sock"
    own.parent.mkdir()
    own.touch()
    assert podman_address(environ) == f"unix://{own}"


def test_the_platform_of_the_embedded_engine_is_part_of_the_runtime_name():
    assert make_engine("runsc", runtime="runsc-ptrace").name == "runsc"
    with pytest.raises(
        InvalidRequest, match="no platform “net”: choose one of systrap"
    ):
        make_engine("runsc", runtime="runsc-net")


def test_auto_is_docker_where_it_is_and_the_embedded_engine_where_only_that_is(
    tmp_path,
):
    runsc, socket = tmp_path / "runsc", tmp_path / "docker.sock"
    nothing = {"environ": {}, "docker_socket": str(socket)}
    assert usual_engine_name(runsc=str(runsc), **nothing) == "docker"
    runsc.touch(mode=0o755)
    assert usual_engine_name(runsc=str(runsc), **nothing) == "runsc"
    assert usual_engine_name("tcp://a:1", str(runsc), **nothing) == "docker"
    given = {"environ": {"DOCKER_HOST": "tcp://a:1"}, "docker_socket": str(socket)}
    assert usual_engine_name(runsc=str(runsc), **given) == "docker"
    socket.touch()
    assert usual_engine_name(runsc=str(runsc), **nothing) == "docker"
