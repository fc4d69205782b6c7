"""Command line of the service.

python -m codebox [--host 127.0.0.1] [--port 8000]     serve
python -m codebox secret FILE...                       make up a secret in each new file
python -m codebox token NAME [--days 365]              print a token for a client
python -m codebox settings                             print all settings as a .env file
python -m codebox ready                                ask the running service; 0 if ready
"""

import argparse
import os
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import jwt

from codebox.example import example_file
from codebox.identity import AUDIENCE
from codebox.settings import Settings
from codebox.settings_loading import SettingsFault, load_settings
from sandbox_core.errors import SandboxError
from sandbox_core.remote_runner import RemoteRunner
from sandbox_core.terminal import print_findings

_SECRET_BYTES = 32
_BAD_SETTINGS = 78  # EX_CONFIG of sysexits.h


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.command == "settings":
        print(example_file(), end="")
        return 0
    if options.command == "secret":
        return _make_secrets(options.files)
    try:
        settings = load_settings(os.environ, options.env_file)
    except SettingsFault as error:
        print("codebox does not start:", file=sys.stderr)
        for fault in error.faults:
            print(f"  {fault}", file=sys.stderr)
        return _BAD_SETTINGS
    changed = {
        name: value
        for name, value in (("host", options.host), ("port", options.port))
        if value is not None
    }
    settings = settings.model_copy(update=changed)
    if options.command == "token":
        print(_token(settings, options.name, options.days))
        return 0
    if options.command == "ready":
        return _ready(settings)
    # The other commands need not wait for what this one imports.
    from codebox.server import serve

    serve(settings)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m codebox",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", help="address to listen on")
    parser.add_argument("--port", type=int, help="port to listen on")
    parser.add_argument(
        "--env-file", type=Path, default=Path(".env"), help="file with settings (.env)"
    )
    commands = parser.add_subparsers(dest="command")
    secret = commands.add_parser("secret", help="make up a secret in each new file")
    secret.add_argument("files", nargs="+", type=Path, metavar="FILE")
    token = commands.add_parser("token", help="print a token for a client")
    token.add_argument("name", help="the user that its runs count for")
    token.add_argument("--days", type=float, default=365, help="how long it is good")
    commands.add_parser("settings", help="print all settings, as an example of .env")
    commands.add_parser("ready", help="ask the running service whether it can run code")
    return parser


def _make_secrets(files: Sequence[Path]) -> int:
    """Each for its owner and group. One that is there already stays as it is."""
    for file in files:
        if file.exists():
            continue
        # In place only when it is whole, however this process may end.
        draft = file.with_name(file.name + ".new")
        try:
            draft.unlink(missing_ok=True)
            draft.touch(mode=0o600)
            draft.write_text(secrets.token_hex(_SECRET_BYTES) + "\n", "ascii")
            draft.chmod(0o440)
            draft.replace(file)
        except OSError as error:
            print(f"{file} cannot be written: {error.strerror}.", file=sys.stderr)
            return 1
    return 0


def _token(settings: Settings, name: str, days: float) -> str:
    now = int(time.time())
    claims = {"sub": name, "aud": AUDIENCE, "iat": now, "exp": now + int(days * 86400)}
    return jwt.encode(claims, settings.secret.get_secret_value(), algorithm="HS256")


def _ready(settings: Settings) -> int:
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    url = f"http://{host}:{settings.port}"
    runner = RemoteRunner(url, settings.secret.get_secret_value(), 15)
    try:
        return print_findings(runner.findings())
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        runner.close()


if __name__ == "__main__":
    sys.exit(main())
