"""The doctor finds a good host good, and names each thing that is broken: here each proof
runs on a real sandbox in which exactly that limit does not hold."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from sandbox_core import doctor
from sandbox_core.doctor import examine, prove_limits, reasons_to_refuse
from sandbox_core.engines import runsc
from sandbox_core.languages_interpreted import PYTHON
from sandbox_core.limits import Limits
from sandbox_core.models import RunRequest, Step
from sandbox_core.outcome import Outcome
from sandbox_core.proofs import PROOF_NAMES, PROOFS
from sandbox_core.runner import LocalRunner
from sandbox_core.self_proof import SelfProof

MOST_SECONDS = 30
# What each limit is when it does not hold, for the program that tries it.
BROKEN = {
    "time-limit": {"seconds": 30},
    "memory-limit": {"memory_mib": 2048},
    "process-limit": {"processes": 1000, "memory_mib": 2048},
    "disk-limit": {"work_mib": 100, "tmp_mib": 100, "shm_mib": 100},
    "output-limit": {"output_mib": 64},
}


class LooseRunner:
    """Gives every run these limits, whatever was asked for, and counts the runs."""

    def __init__(self, runner, **limits):
        self._runner = runner
        self._limits = limits
        self.runs = 0

    def run(self, request, on_event=None, cancel=None):
        self.runs += 1
        limits = replace(request.limits, **self._limits)
        return self._runner.run(replace(request, limits=limits), on_event, cancel)

    def close(self):
        pass


@pytest.fixture(scope="module")
def runner(first_engine, image):
    runner = LocalRunner(first_engine, image)
    yield runner
    runner.close()


def test_a_good_host_is_well_in_half_a_minute(engine, image):
    began = time.monotonic()
    findings = examine(engine, image, "runsc")
    assert [finding for finding in findings if not finding.ok] == []
    assert {*PROOF_NAMES, "python", "bash", "javascript"} <= {f.name for f in findings}
    # Generous: the machine that tests is busy. What it takes is in docs/performance.md.
    assert time.monotonic() - began < 4 * MOST_SECONDS


@pytest.mark.parametrize("name", BROKEN)
def test_a_limit_that_does_not_hold_is_found_and_named(runner, monkeypatch, name):
    only = tuple(proof for proof in PROOFS if proof.name == name)
    monkeypatch.setattr(doctor, "PROOFS", only)
    findings = prove_limits(LooseRunner(runner, **BROKEN[name]))
    finding = findings[0]
    assert (finding.name, finding.ok) == (name, False)
    assert only[0].title in finding.text
    assert finding.why
    assert finding.mend
    assert reasons_to_refuse(findings, ()) == [finding]
    assert reasons_to_refuse(findings, [name]) == []
    others = [other for other in PROOF_NAMES if other != name]
    assert reasons_to_refuse(findings, others) == [finding]


@pytest.mark.parametrize(
    ("name", "told"), [("disk-limit", "also /var/tmp"), ("no-host-files", "planted-1")]
)
def test_what_an_engine_or_image_puts_in_is_found(
    docker_engine, image, monkeypatch, tmp_path, name, told
):
    """A volume of an image, which may grow as it likes; the names of other machines."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n192.0.2.7 Planted-1 # ours\n")
    config_of = docker_engine._config

    def loosely(spec):
        config = config_of(spec)
        mount = {"Type": "bind", "Source": str(hosts), "Target": "/etc/hosts"}
        config["HostConfig"]["Mounts"] = [mount | {"ReadOnly": True}]
        return config | {"Volumes": {"/var/tmp": {}}}

    only = tuple(proof for proof in PROOFS if proof.name == name)
    monkeypatch.setattr(docker_engine, "_config", loosely)
    monkeypatch.setattr(doctor, "PROOFS", only)
    monkeypatch.setattr(doctor, "_hosts", hosts.read_text)
    runner = LocalRunner(docker_engine, image)
    try:
        findings = prove_limits(runner)
    finally:
        runner.close()
    found = next(finding for finding in findings if finding.name == name)
    assert not found.ok
    assert told in found.text.lower()
    assert found.mend


def test_a_file_of_the_machine_that_can_be_read_is_found(
    embedded_engine, image, monkeypatch
):
    def open_to_the_host(*args):
        config = runsc_bundle(*args)
        for mount in config["mounts"]:
            if mount["destination"] == "/tmp":
                mount |= {"type": "bind", "source": "/tmp", "options": ["ro", "rbind"]}
        return config

    runsc_bundle = runsc.bundle_config
    monkeypatch.setattr(runsc, "bundle_config", open_to_the_host)
    monkeypatch.setattr(doctor, "PROOFS", ())
    runner = LocalRunner(embedded_engine, image)
    try:
        (finding,) = prove_limits(runner)
    finally:
        runner.close()
    assert (finding.name, finding.ok) == ("no-host-files", False), finding


def test_a_network_is_found(embedded_engine, image, monkeypatch):
    """That of this machine, to which the program only asks for a way: it sends nothing."""

    def without_namespace(*args):
        config = runsc_bundle(*args)
        spaces = config["linux"]["namespaces"]
        config["linux"]["namespaces"] = [
            entry for entry in spaces if entry["type"] != "network"
        ]
        return config

    def of_the_host(*args):
        return [flag.replace("network=none", "network=host") for flag in flags(*args)]

    runsc_bundle, flags = runsc.bundle_config, runsc.runsc_flags
    monkeypatch.setattr(runsc, "bundle_config", without_namespace)
    monkeypatch.setattr(runsc, "runsc_flags", of_the_host)
    only = tuple(proof for proof in PROOFS if proof.name == "no-network")
    monkeypatch.setattr(doctor, "PROOFS", only)
    runner = LocalRunner(embedded_engine, image)
    try:
        finding = prove_limits(runner)[0]
    finally:
        runner.close()
    assert (finding.name, finding.ok) == ("no-network", False), finding
    assert "interfaces" in finding.text or "a route to" in finding.text


def test_what_is_left_behind_is_found(first_engine, image, monkeypatch):
    monkeypatch.setattr(doctor, "_GONE_SECONDS", 0.5)
    runner = LocalRunner(first_engine, image)
    request = RunRequest(
        (Step("python", "import time; time.sleep(4)"),), limits=Limits(seconds=10)
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, request)
        while not doctor._own_sandboxes(first_engine):
            time.sleep(0.05)
        finding = doctor._prove_nothing_left(first_engine)
        assert running.result().outcome is Outcome.OK
    runner.close()
    assert (finding.name, finding.ok) == ("nothing-left", False)
    assert "1 sandboxes of this check are still there" in finding.text


def test_a_language_that_is_not_in_the_image_is_found(runner, first_engine):
    missing = replace(PYTHON, name="bash", title="Fish")
    (finding,) = doctor.examine_runner(runner, first_engine, [missing], Limits())
    assert not finding.ok
    assert "Fish does not run" in finding.text


def test_nothing_is_served_while_a_limit_does_not_hold(runner, monkeypatch):
    only = tuple(proof for proof in PROOFS if proof.name == "output-limit")
    monkeypatch.setattr(doctor, "PROOFS", only)
    loose = LooseRunner(runner, output_mib=64)
    proof = SelfProof(loose, accepted=(), first_after_seconds=0)
    proof.start()
    end = time.monotonic() + 60
    while not proof.why_not() and time.monotonic() < end:
        time.sleep(0.05)
    assert "a limit of the sandboxes does not hold (output-limit)" in proof.why_not()
    assert loose.runs == 4  # once is no proof, and each time with the planted file
    proof.stop()
    accepting = SelfProof(loose, accepted=("output-limit",), first_after_seconds=0)
    accepting.start()
    while loose.runs < 6 and time.monotonic() < end:
        time.sleep(0.05)
    assert accepting.why_not() == ""
    accepting.stop()
