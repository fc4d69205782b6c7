"""A pasted plugin file as a command: run a program with it, or prove that it works here.

echo 'print(1)' | python3 run_code.py [--language python]
python3 run_code.py --self-test
"""

import argparse
import os
import sys

from owui_plugin.backend import examine_backend, open_backend
from owui_plugin.settings import resolve_settings
from owui_plugin.valves import EveryValve
from sandbox_core.errors import SandboxError
from sandbox_core.models import RunRequest, Step
from sandbox_core.terminal import (
    exit_status,
    print_event,
    print_findings,
    print_message,
    send_log,
)

__all__ = ["run_plugin_file"]

_COULD_NOT_RUN = 125


def run_plugin_file(plugin: str) -> int:
    """The command of a plugin file; ``plugin`` is ``function`` or ``tool``. Returns the exit
    code: the program's own, or 125 when it could not run; 1 when the self-test found a fault.
    """
    parser = argparse.ArgumentParser(description=f"The Run code {plugin} as a command.")
    parser.add_argument(
        "--self-test", action="store_true", help="prove that runs work here"
    )
    parser.add_argument("--language", default="python", help="of the program on stdin")
    parser.add_argument("--verbose", action="store_true", help="show the log, too")
    options = parser.parse_args()
    send_log(options.verbose)
    try:
        settings = resolve_settings(EveryValve(), None, os.environ)
        if options.self_test:
            return print_findings(examine_backend(settings.shared))
        runner = open_backend(settings.shared).runner
        steps = (Step(options.language, sys.stdin.read()),)
        try:
            request = RunRequest(
                steps, limits=settings.limits, network=settings.network
            )
            result = runner.run(request, print_event)
        finally:
            runner.close()
    except SandboxError as error:
        print(error, file=sys.stderr)
        return _COULD_NOT_RUN
    print_message(result, options.verbose)
    return exit_status(result)
