"""The command line of scripts/install_plugins.py."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .check import judge, look_at
from .plugins import install, plugin_files
from .rest import OpenWebUI, OpenWebUIError

__all__ = ["main"]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Install or update both plugins in a running Open WebUI."
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="change nothing: say why the button is missing, or nothing happens",
    )
    parser.add_argument("--url", default="http://localhost:8080", help="address")
    parser.add_argument(
        "--api-key",
        default=os.environ.get("OPEN_WEBUI_API_KEY", ""),
        help="API key of an administrator (or OPEN_WEBUI_API_KEY)",
    )
    parser.add_argument("--email", default="", help="e-mail of an administrator")
    parser.add_argument(
        "--password",
        default=os.environ.get("OPEN_WEBUI_PASSWORD", ""),
        help="the password (or OPEN_WEBUI_PASSWORD)",
    )
    parser.add_argument(
        "--password-file", default="", metavar="FILE", help="a file with the password"
    )
    access = parser.add_mutually_exclusive_group()
    access.add_argument(
        "--public", action="store_true", default=True, help="tool for all (default)"
    )
    access.add_argument(
        "--admin-only", dest="public", action="store_false", help="tool for admins"
    )
    parser.add_argument(
        "--valve",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a setting in both plugins; may be repeated",
    )
    arguments = parser.parse_args(argv)
    if arguments.password_file and not arguments.password:
        arguments.password = _read_password(parser, arguments.password_file)
    if not arguments.api_key and not (arguments.email and arguments.password):
        parser.error("give --api-key, or --email and --password of an administrator")
    if any("=" not in valve for valve in arguments.valve):
        parser.error("--valve needs NAME=VALUE")
    return arguments


def _read_password(parser: argparse.ArgumentParser, file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        parser.error(f"--password-file: {file} cannot be read ({error})")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code (0 done or all well, 1 with sentences)."""
    arguments = _arguments(argv)
    client = OpenWebUI(arguments.url, arguments.api_key)
    try:
        plugins = plugin_files()
        if not client.token:
            client.sign_in(arguments.email, arguments.password)
        if arguments.check:
            return _check(client)
        valves = dict(valve.split("=", 1) for valve in arguments.valve)
        install(client, plugins, public=arguments.public, valves=valves)
    except OpenWebUIError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Done: open {client.url} and press the button under an answer with code.")
    return 0


def _check(client: OpenWebUI) -> int:
    function, tool = plugin_files()
    verdicts = judge(look_at(client, function, tool), function, tool)
    for verdict in verdicts:
        print(f"{'ok  ' if verdict.ok else 'NOT '}{verdict.text}")
        if not verdict.ok:
            print(f"    mend it: {verdict.mend}")
    return 0 if all(verdict.ok for verdict in verdicts) else 1
