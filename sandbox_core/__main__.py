"""Command line of the sandbox core: run a program, or look at what this host can do.

python -m sandbox_core run --language python FILE|-     streams the output
python -m sandbox_core doctor                           proves that runs work here
"""

import argparse
import json
import os
import signal
import sys
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from sandbox_core.doctor import examine
from sandbox_core.engines.base import CancelToken, Engine
from sandbox_core.engines.choice import ENGINE_NAMES, make_engine, usual_engine_name
from sandbox_core.errors import SandboxError
from sandbox_core.language_records import (
    parse_language_records,
    read_language_records,
)
from sandbox_core.languages import (
    find_language,
    known_languages,
    use_added_languages,
)
from sandbox_core.limits import Limits
from sandbox_core.models import InputFile, RunRequest, RunResult, Step
from sandbox_core.proofs import accepted_names
from sandbox_core.runner import LocalRunner
from sandbox_core.terminal import (
    exit_status,
    print_event,
    print_findings,
    print_message,
    send_log,
)

_DEFAULT_IMAGE = os.environ.get("RUN_CODE_IMAGE", "run-code-python:latest")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    send_log(options.verbose)
    try:
        records = read_language_records(options.languages)
        use_added_languages(parse_language_records(records))
        return int(options.command(options))
    except SandboxError as error:
        print(f"sandbox_core: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sandbox_core", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="run a program in a fresh sandbox")
    run.set_defaults(command=_run)
    run.add_argument(
        "program", metavar="FILE|-", help="the program; - reads it from stdin"
    )
    names = ", ".join(language.name for language in known_languages())
    run.add_argument(
        "--language", help=f"one of {names}; default: by the file's ending"
    )
    run.add_argument("--stdin", metavar="FILE", help="what the program reads as stdin")
    run.add_argument(
        "--file",
        action="append",
        default=[],
        metavar="FILE",
        help="place it in the work folder",
    )
    run.add_argument("--out", metavar="FOLDER", help="put the files that it makes here")
    run.add_argument(
        "--json", action="store_true", help="print one JSON object at the end"
    )
    for entry in fields(Limits):
        flag = "--" + entry.name.replace("_", "-")
        kind = float if entry.name in ("seconds", "cpus") else int
        run.add_argument(flag, type=kind, metavar="N", help=entry.metadata["text"])
    doctor = commands.add_parser("doctor", help="check this host, by running things")
    doctor.set_defaults(command=_doctor)
    doctor.add_argument(
        "--json", action="store_true", help="print the findings as JSON"
    )
    doctor.add_argument(
        "--accept-unproven",
        default=os.environ.get("RUN_CODE_ACCEPT_UNPROVEN", ""),
        metavar="NAMES",
        help="limits that need not hold, as in the setting of that name",
    )
    for command in (run, doctor):
        command.add_argument(
            "--engine",
            choices=("auto", *ENGINE_NAMES),
            default="auto",
            help="auto: docker where its socket is, else runsc where that program is",
        )
        command.add_argument(
            "--runsc",
            default=os.environ.get("RUN_CODE_RUNSC_PATH", ""),
            metavar="FILE",
            help="gVisor's program, for the engine runsc",
        )
        command.add_argument(
            "--images-folder",
            default=os.environ.get("RUN_CODE_IMAGES_FOLDER", ""),
            metavar="FOLDER",
            help="images from scripts/rootfs, for the engine runsc",
        )
        command.add_argument(
            "--languages",
            default=os.environ.get("RUN_CODE_LANGUAGES", ""),
            metavar="FILE",
            help="records of further languages (docs/adding-a-language.md)",
        )
        command.add_argument(
            "--image", default=_DEFAULT_IMAGE, help="the sandbox image"
        )
        command.add_argument(
            "--runtime", default="runsc", help="Docker's name for gVisor"
        )
        command.add_argument("--verbose", action="store_true", help="show the log, too")
    return parser


def _engine(options: argparse.Namespace) -> Engine:
    name = options.engine
    return make_engine(
        usual_engine_name(runsc=options.runsc) if name == "auto" else name,
        image=options.image,
        runtime=options.runtime,
        runsc=options.runsc,
        images_folder=options.images_folder,
    )


def _run(options: argparse.Namespace) -> int:
    request = _request(options)
    cancel = CancelToken()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: cancel.cancel())
    runner = LocalRunner(_engine(options), options.image, options.runtime)
    try:
        result = runner.run(request, None if options.json else print_event, cancel)
    finally:
        runner.close()
    if options.out:
        _save_files(result, Path(options.out))
    if options.json:
        print(json.dumps(_as_json(result), ensure_ascii=False))
    else:
        _show_end(result, options.verbose)
    return exit_status(result)


def _request(options: argparse.Namespace) -> RunRequest:
    try:
        return RunRequest(
            steps=(Step(_language_of(options), _read_program(options.program)),),
            files=tuple(
                InputFile(Path(name).name, Path(name).read_bytes())
                for name in options.file
            ),
            stdin=Path(options.stdin).read_bytes() if options.stdin else b"",
            limits=replace(
                Limits(),
                **{
                    entry.name: getattr(options, entry.name)
                    for entry in fields(Limits)
                    if getattr(options, entry.name) is not None
                },
            ),
        )
    except OSError as error:
        raise SandboxError(f"{error.filename}: {error.strerror}.") from error


def _language_of(options: argparse.Namespace) -> str:
    if options.language:
        return str(options.language)
    ending = Path(options.program).suffix.lstrip(".")
    if find_language(ending) is None:
        raise SandboxError("Say what language this is, with --language.")
    return ending


def _read_program(name: str) -> str:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    return data.decode("utf-8", "surrogateescape")


def _show_end(result: RunResult, verbose: bool) -> None:
    print_message(result, verbose)
    for note in result.notes:
        print(note, file=sys.stderr)
    for file in result.files:
        print(f"made: {file.name} ({file.size} bytes)", file=sys.stderr)
    for entry in result.skipped:
        print(f"not kept: {entry.name or 'files'}: {entry.reason}", file=sys.stderr)


def _save_files(result: RunResult, folder: Path) -> None:
    for file in result.files:
        target = folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as sink:
            while chunk := file.content.read(1 << 18):
                sink.write(chunk)


def _as_json(result: RunResult) -> dict[str, Any]:
    plain = result.to_plain()
    for name in ("stdout", "stderr", "output"):
        plain[f"{name}_omitted_bytes"] = plain[name]["omitted"]
        plain[name] = str(getattr(result, name))
    plain["files"] = [{"name": file.name, "size": file.size} for file in result.files]
    return plain


def _doctor(options: argparse.Namespace) -> int:
    findings = examine(
        _engine(options),
        options.image,
        options.runtime,
        accepted=accepted_names(options.accept_unproven),
    )
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
        return 0 if all(finding.ok for finding in findings) else 1
    return print_findings(findings)


if __name__ == "__main__":
    sys.exit(main())
