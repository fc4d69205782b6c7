"""The command line of scripts/bench."""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.benchmarks.click import measure_click
from scripts.benchmarks.collection import measure_collection
from scripts.benchmarks.comparison import measure_comparison
from scripts.benchmarks.embedded_run import measure_embedded_run
from scripts.benchmarks.files import measure_files
from scripts.benchmarks.idle import measure_idle
from scripts.benchmarks.load import measure_load
from scripts.benchmarks.measurement import Measurement, table_of
from scripts.benchmarks.output_flood import measure_output_flood
from scripts.benchmarks.overhead import measure_overhead
from scripts.benchmarks.package_runs import measure_packages
from scripts.benchmarks.plot import draw_comparison
from scripts.benchmarks.processor import measure_processor
from scripts.benchmarks.subject import BenchmarkError, Subject
from scripts.benchmarks.throughput import measure_throughput
from scripts.benchmarks.warm_run import measure_warm_run

__all__ = ["main"]

_BENCHMARKS = {
    "warm": measure_warm_run,
    "embedded": measure_embedded_run,
    "compare": measure_comparison,
    "throughput": measure_throughput,
    "idle": measure_idle,
    "cpu": measure_processor,
    "collect": measure_collection,
    "files": measure_files,
    "service": measure_overhead,
    "load": measure_load,
    "flood": measure_output_flood,
    "packages": measure_packages,
    "click": measure_click,
}
# What is left out of a quick look takes long whatever the rounds.
_QUICK = ("warm", "compare", "cpu", "idle", "throughput")
# No part of a quick look begins later: the longest takes half a minute on a slow machine.
_QUICK_SECONDS = 60.0
_ROUNDS, _QUICK_ROUNDS = 20, 3
_DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
_PICTURE = _DOCUMENT.with_name("images") / "performance.svg"
_SHOWN = f"![Each program in every way that was measured](images/{_PICTURE.name})"
_REGION = re.compile(r"(<!-- measured -->\n).*(?=<!-- end measured -->)", re.DOTALL)


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; 1 when a bound was missed, 2 when something does not work."""
    options = _options(argv)
    subject = Subject(options.image, options.runtime, options.others)
    rounds = _QUICK_ROUNDS if options.quick else options.rounds
    try:
        facts = {**subject.facts(), "rounds": str(rounds)}
    except BenchmarkError as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 2
    print("\n".join(f"{name}: {value}" for name, value in facts.items()), flush=True)
    names = options.only or (_QUICK if options.quick else tuple(_BENCHMARKS))
    measured, failed = _measure(names, subject, rounds, options.quick)
    if options.json:
        _write_values(Path(options.json), facts, measured)
    if options.write_docs and not failed:
        picture = draw_comparison(subject, measured)
        if picture is not None:
            _PICTURE.write_bytes(picture)
        _write_document(facts, measured, picture is not None)
    if failed:
        return 2
    return 0 if all(one.holds for one in measured) else 1


def _measure(
    names: Sequence[str], subject: Subject, rounds: int, quick: bool
) -> tuple[list[Measurement], bool]:
    """What could be measured, and whether anything could not."""
    measured: list[Measurement] = []
    failed = False
    begun = time.monotonic()
    for name in names:
        if quick and time.monotonic() - begun > _QUICK_SECONDS:
            print(f"{name}: left out, this machine is too slow for it in 90 s")
            continue
        try:
            for one in _BENCHMARKS[name](subject, rounds):
                print(one.line(), flush=True)
                measured.append(one)
        except BenchmarkError as error:
            # The others need not be measured again because of this one.
            failed = True
            print(f"scripts/bench: {name}: {error}", file=sys.stderr, flush=True)
    return measured, failed


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measure what a run costs on this machine."
    )
    names = ", ".join(_BENCHMARKS)
    parser.add_argument(
        "--only", action="append", choices=list(_BENCHMARKS), metavar="NAME", help=names
    )
    parser.add_argument(
        "--quick", action="store_true", help="the main figures in 90 seconds"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=_ROUNDS,
        metavar="N",
        help="how often each is measured, at least 10 (%(default)s)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all values there too")
    parser.add_argument(
        "--write-docs",
        action="store_true",
        help="put table and picture into docs/performance.md",
    )
    image = os.environ.get("RUN_CODE_IMAGE", "run-code-python:latest")
    parser.add_argument(
        "--image", default=image, help="the sandbox image (%(default)s)"
    )
    parser.add_argument(
        "--others",
        default="",
        metavar="PYTHON",
        help="interpreter with requirements-bench.txt, to compare with other projects",
    )
    parser.add_argument(
        "--runtime", default="runsc", help="Docker's name for gVisor (%(default)s)"
    )
    options = parser.parse_args(argv)
    if options.rounds < 10:
        parser.error("--rounds: at least 10; for a first look there is --quick")
    return options


def _write_values(
    file: Path, facts: Mapping[str, str], measured: Sequence[Measurement]
) -> None:
    figures = {name: value for one in measured for name, value in one.figures.items()}
    records = [one.to_plain() for one in measured]
    whole = {"machine": facts, "figures": figures, "measurements": records}
    file.write_text(json.dumps(whole, indent=2) + "\n", "utf-8")


def _write_document(
    facts: Mapping[str, str], measured: Sequence[Measurement], has_picture: bool
) -> None:
    machine = "; ".join(f"{name} {value}" for name, value in facts.items())
    region = f"\n{table_of(measured)}\n\nMeasured on: {machine}.\n\n"
    if has_picture:
        region = f"\n{_SHOWN}\n{region}"
    text = _DOCUMENT.read_text("utf-8")
    _DOCUMENT.write_text(_REGION.sub(lambda found: found[1] + region, text), "utf-8")
