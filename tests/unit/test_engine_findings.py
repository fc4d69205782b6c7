"""What the engines say of a host on which something is missing or old."""

import stat

import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import SandboxSpec
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.engines.podman import PodmanEngine
from sandbox_core.engines.runsc import RunscEngine
from sandbox_core.limits import Limits


def program(folder, text):
    path = folder / "runsc"
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def found(engine):
    finding = next(f for f in engine.check(Deadline(10)) if f.name == "engine")
    assert finding.mend
    return finding


@pytest.mark.parametrize(
    ("says", "text"),
    [
        (
            "runsc version release-20221219.0",
            "too old or no runsc: its release is 2022",
        ),
        ("hello", "its release is unknown"),
    ],
)
def test_a_runsc_that_is_too_old_is_named(tmp_path, says, text):
    engine = RunscEngine(runsc=program(tmp_path, says), images_folder=str(tmp_path))
    finding = found(engine)
    assert not finding.ok
    assert text in finding.text


def test_a_runsc_that_is_not_there_is_named(tmp_path):
    finding = found(RunscEngine(runsc=f"{tmp_path}/runsc"))
    assert not finding.ok
    assert "“runsc” is not on this machine" in finding.text


def test_an_image_that_was_not_prepared_is_named(tmp_path):
    runsc = program(tmp_path, "runsc version release-20240729.0")
    engine = RunscEngine("mine:1", runsc, str(tmp_path))
    finding = next(f for f in engine.check(Deadline(10)) if f.name == "image")
    assert not finding.ok
    assert finding.mend.startswith("scripts/rootfs debian mine:1 ")
    assert "It is called mine:1" in finding.text


def test_docker_desktop_is_named():
    finding = DockerEngine("unix:///nowhere")._check_runtime(
        {"Runtimes": {"runc": {}}, "OperatingSystem": "Docker Desktop"}
    )
    assert not finding.ok
    assert "This is Docker Desktop" in finding.text
    assert "DOCKER_HOST" in finding.mend


@pytest.mark.parametrize(
    ("address", "mend"),
    [
        ("unix:///nowhere", "sudo runsc install && "),
        ("tcp://far:1", "restart Docker there"),
    ],
)
def test_a_runtime_that_docker_does_not_know_is_named(address, mend):
    finding = DockerEngine(address)._check_runtime({"Runtimes": {"runc": {}}})
    assert not finding.ok
    assert "Docker Engine does not know the runtime runsc" in finding.text
    assert mend in finding.mend


def test_podman_is_told_of_its_own_file():
    finding = PodmanEngine("unix:///nowhere")._check_runtime({"Runtimes": {}})
    assert "Podman does not know the runtime runsc" in finding.text
    assert "CONTAINERS_CONF" in finding.mend


@pytest.mark.parametrize(
    ("usual", "is_well"), [("crun", False), ("runsc", True), ("/usr/bin/runsc", True)]
)
def test_podman_takes_only_its_usual_runtime(usual, is_well):
    info = {"Runtimes": {"runsc": {}, "crun": {}}, "DefaultRuntime": usual}
    finding = PodmanEngine("unix:///nowhere")._check_runtime(info)
    assert finding.ok is is_well
    assert is_well or "Podman's usual runtime is crun" in finding.text


@pytest.mark.parametrize(
    ("rootless", "version", "told"), [(True, "1", 1), (True, "2", 0), (False, "1", 0)]
)
def test_podman_without_limits_is_named(rootless, version, told):
    info = {"Rootless": rootless, "CgroupVersion": version}
    findings = PodmanEngine("unix:///nowhere")._check_limits(info)
    assert len(findings) == told
    assert all("limits nothing for this user" in finding.text for finding in findings)


def test_podman_has_its_own_config_of_a_sandbox():
    spec = SandboxSpec("mine", "runsc", Limits(), "run", "me", 0.0, ("python3",))
    config = PodmanEngine("unix:///nowhere")._config(spec)
    assert config["HostConfig"]["Tmpfs"]["/var/tmp"].startswith("ro,")
    assert "Healthcheck" not in config


def test_a_runtime_that_is_registered_is_well():
    engine = DockerEngine("unix:///nowhere")
    assert engine._check_runtime({"Runtimes": {"runsc": {}}}).ok
