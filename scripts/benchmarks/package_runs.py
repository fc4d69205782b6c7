"""What packages add to a run: nothing, one of 1 MB, and one that is there already."""

import os
import time
from collections.abc import Iterator
from contextlib import closing

from sandbox_core.engines.base import CancelToken
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.installer import InstallSettings
from sandbox_core.installing_runner import InstallingRunner
from sandbox_core.models import OnEvent, RunRequest, RunResult, Step
from sandbox_core.runner import Placement
from scripts.benchmarks.measurement import Measurement, at_most
from scripts.benchmarks.subject import Subject, run_request
from tests.contract.package_index import opened_index

__all__ = ["measure_packages"]

_MIRROR_IMAGE = os.environ.get("RUN_CODE_MIRROR_IMAGE", "run-code-mirror:latest")
_PRESENT, _WHEEL = "numpy", "mebibyte"


class _WatchedRunner(InstallingRunner):
    """``placed`` is the monotonic time at which the last sandbox was asked for: the program's."""

    placed = 0.0

    def run_placed(
        self,
        request: RunRequest,
        placement: Placement,
        on_event: OnEvent | None,
        cancel: CancelToken,
    ) -> RunResult:
        """See LocalRunner.run_placed."""
        self.placed = time.monotonic()
        return super().run_placed(request, placement, on_event, cancel)


def measure_packages(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """Cold runs of print(1), in turn: as they are, with a package that the image has, with a
    wheel of 1 MB that the mirror has (installed anew), and with that again."""
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    added: dict[str, list[float]] = {"present": [], "installed": [], "again": []}
    with opened_index(host, subject.image, _MIRROR_IMAGE) as index:
        settings = InstallSettings(index.url, index.network, "runsc-net")
        for number in range(rounds + 1):
            engine = DockerEngine(host, subject.image, subject.runtime)
            runner = _WatchedRunner(engine, subject.image, subject.runtime, settings)
            with closing(runner):
                _milliseconds(runner, _PRESENT)  # asks once what the image has
                plain = _milliseconds(runner)
                began = time.monotonic()
                _milliseconds(runner, _PRESENT)
                present = (runner.placed - began) * 1000
                installed = _milliseconds(runner, _WHEEL)
                again = _milliseconds(runner, _WHEEL)
            if number:  # the first round fills the mirror
                added["present"].append(present)
                added["installed"].append(installed - plain)
                added["again"].append(again - plain)
    yield Measurement(
        "package_present_ms",
        "added to a run by a package that the image has",
        "ms",
        tuple(added["present"]),
        (at_most(50),),
    )
    yield Measurement(
        "package_installed_ms",
        "added by a wheel of 1 MB that the mirror has",
        "ms",
        tuple(added["installed"]),
        (at_most(2000),),
    )
    yield Measurement(
        "package_again_ms",
        "added by the same packages again",
        "ms",
        tuple(added["again"]),
    )


def _milliseconds(runner: InstallingRunner, *packages: str) -> float:
    request = RunRequest((Step("python", "print(1)"),), packages=packages, user="bench")
    began = time.monotonic()
    run_request(runner, request)
    return (time.monotonic() - began) * 1000
