"""Bring up Open WebUI with both plugins on this machine, or take it down (scripts/up)."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .demo_model import MODEL_NAME
from .environment import open_webui_environment
from .packages import ensure_venv
from .plugins import install, plugin_files
from .process import free_port, is_free, is_running, launch, stop
from .progress import Progress, StepFailed
from .rest import OpenWebUI, OpenWebUIError, Refused
from .sandbox import (
    docker_has_gvisor,
    ensure_image,
    prepare_embedded,
    private_host_is_down,
    start_private_host,
    stop_private_host,
)
from .server import ServerError, start_open_webui, wait_until_healthy
from .state import State, secret

__all__ = ["main"]

_SCRIPTS = Path(__file__).resolve().parent.parent
_EMAIL = "admin@example.com"
_PLUGIN_ID = "run_code"
_SUGGESTIONS = (
    ("Find the primes", "then press Run code", "Find the primes up to 100 in Python."),
    ("Mix languages", "several blocks in one sandbox", "Show several blocks of code."),
    ("Let the model run it", "with the tool", "Use the tool to print some squares."),
)
_SERVER, _DEMO = "open-webui", "demo-model"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code (0 done, 1 failed with a sentence)."""
    arguments = _arguments(argv)
    folder = Path(arguments.dir).expanduser().resolve()
    progress = Progress()
    try:
        if arguments.down:
            _down(folder, progress)
        else:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _up(folder, arguments.port, arguments.private_docker, progress)
    except (StepFailed, ServerError, OpenWebUIError, OSError) as error:
        progress.say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        progress.say("interrupted; run this again to go on, or with --down to stop all")
        return 130
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/up",
        description="Bring up Open WebUI with the Run code plugins on this machine.",
        epilog="The model comes from OPENAI_API_BASE_URL (and OPENAI_API_KEY) or "
        "OLLAMA_BASE_URL; without them a demo model answers, which is not an AI.",
    )
    data = os.environ.get("XDG_DATA_HOME", "~/.local/share")
    parser.add_argument("--port", type=int, default=8080, help="port of 127.0.0.1")
    parser.add_argument(
        "--dir",
        default=f"{data}/run-code-up",
        help="data, packages, logs (%(default)s)",
    )
    parser.add_argument(
        "--private-docker",
        action="store_true",
        help="without a Docker Engine that has gVisor, start one for this instead of running "
        "gVisor alone (root)",
    )
    parser.add_argument("--down", action="store_true", help="stop all that it started")
    return parser.parse_args(argv)


def _up(folder: Path, port: int, private_docker: bool, progress: Progress) -> None:
    plugins = plugin_files()
    state = State.load(folder)
    _check_port(state, port)
    venv = ensure_venv(folder, plugins, progress)
    _ensure_sandbox(folder, venv, state, private_docker, progress)
    _ensure_model(folder, state, progress)
    client = _ensure_server(folder, venv, port, state, progress)
    password = _sign_in(client, folder)
    install(client, plugins, report=progress.say)
    _use_model(client, state.models_url)
    print(_summary(client.url, password, folder, state))


def _down(folder: Path, progress: Progress) -> None:
    state = State.load(folder)
    for name, process in state.processes.items():
        if is_running(process):
            progress.say(f"Stopping {name}")
            stop(process)
    if state.started_sandbox_host:
        progress.say("Stopping the private Docker Engine")
        stop_private_host()
    state.processes.clear()
    state.started_sandbox_host = False
    if folder.exists():
        state.save(folder)
    progress.say("All down.")


def _check_port(state: State, port: int) -> None:
    """Refuse a port of somebody else before minutes are spent on the rest."""
    if _runs(state, _SERVER):
        return
    if not is_free(port):
        raise StepFailed(
            f"Port {port} of 127.0.0.1 is in use by another program: choose another one "
            "with --port."
        )


def _ensure_sandbox(
    folder: Path, venv: Path, state: State, private_docker: bool, progress: Progress
) -> None:
    if private_docker or state.started_sandbox_host or docker_has_gvisor():
        address = _find_docker_host(folder, state, progress)
        sandbox = {"RUN_CODE_BACKEND": "docker"}
        sandbox |= {"DOCKER_HOST": address} if address else {}
    else:
        progress.say("No Docker Engine with gVisor is here: running gVisor without one")
        sandbox = prepare_embedded(folder / "embedded", venv / "bin" / "python")
    if sandbox != state.sandbox and _runs(state, _SERVER):
        progress.say("Code runs elsewhere now: restarting Open WebUI")
        stop(state.processes[_SERVER])
    state.sandbox = sandbox
    state.save(folder)


def _find_docker_host(folder: Path, state: State, progress: Progress) -> str:
    """Address of a Docker Engine with gVisor and the image; "" is Docker's default."""
    if not state.started_sandbox_host and docker_has_gvisor():
        progress.say("Using the Docker Engine of this machine: it has gVisor (runsc)")
        ensure_image(folder, progress)
        return os.environ.get("DOCKER_HOST", "")
    if private_host_is_down():
        progress.say("Starting a private Docker Engine with gVisor (minutes at first)")
        # Before it starts, so that --down stops it even if we do not get further.
        state.started_sandbox_host = True
        state.save(folder)
    return start_private_host()


def _ensure_model(folder: Path, state: State, progress: Progress) -> None:
    """Decide which model answers, and start the demo model when there is no other."""
    given = _given_models_url()
    if given:
        if _runs(state, _DEMO):
            stop(state.processes[_DEMO])
        state.models_url = given
    elif not _runs(state, _DEMO):
        progress.say("No model is set: starting the demo model (it is not an AI)")
        # The same port again if possible: Open WebUI stores the address.
        if not state.demo_port or not is_free(state.demo_port):
            state.demo_port = free_port()
        port = str(state.demo_port)
        state.processes[_DEMO] = launch(
            [sys.executable, str(_SCRIPTS / "demo_model.py"), "--port", port],
            env=os.environ,
            cwd=folder,
            log=folder / "demo-model.log",
        )
        state.models_url = f"http://127.0.0.1:{port}/v1"
    state.save(folder)


def _given_models_url() -> str:
    openai = os.environ.get("OPENAI_API_BASE_URL", "").rstrip("/")
    ollama = os.environ.get("OLLAMA_BASE_URL", "").rstrip("/")
    return openai or (f"{ollama}/v1" if ollama else "")


def _ensure_server(
    folder: Path, venv: Path, port: int, state: State, progress: Progress
) -> OpenWebUI:
    if not _runs(state, _SERVER):
        state.port = port
        url = f"http://127.0.0.1:{port}"
        progress.say("Starting Open WebUI (up to a minute)")
        env = open_webui_environment(
            venv=venv,
            data_dir=folder / "data",
            url=url,
            secret_key=secret(folder, "secret-key"),
            models_url=state.models_url,
            models_key=_models_key(),
            extra=_first_settings() | state.sandbox,
        )
        state.processes[_SERVER] = start_open_webui(
            venv, port, env=env, cwd=folder, log=folder / "open-webui.log"
        )
        state.save(folder)
    url = f"http://127.0.0.1:{state.port}"
    wait_until_healthy(
        url,
        state.processes[_SERVER],
        folder / "open-webui.log",
        waiting=lambda seconds: progress.still(
            f"Open WebUI is starting: {seconds:.0f} s"
        ),
    )
    return OpenWebUI(url)


def _first_settings() -> dict[str, str]:
    """Settings that Open WebUI stores at its first start and its administrator may change.

    The tool is switched on in every chat, and the empty chat suggests what to try.
    """
    suggestions = [
        {"title": [title, subtitle], "content": content}
        for title, subtitle, content in _SUGGESTIONS
    ]
    return {
        "DEFAULT_MODEL_METADATA": json.dumps({"toolIds": [_PLUGIN_ID]}),
        "DEFAULT_PROMPT_SUGGESTIONS": json.dumps(suggestions),
    }


def _models_key() -> str:
    return os.environ.get("OPENAI_API_KEY", "") or "none"


def _sign_in(client: OpenWebUI, folder: Path) -> str:
    """Sign in as the administrator, whom the first call creates; return the password."""
    password = secret(folder, "admin-password")
    try:
        client.sign_up("Administrator", _EMAIL, password)
    except Refused:
        try:
            client.sign_in(_EMAIL, password)
        except OpenWebUIError as error:
            raise StepFailed(
                f"Open WebUI runs at {client.url}, but the password of {_EMAIL} is no "
                f"longer the one in {folder / 'admin-password'}: write the new one into "
                "that file and run this again."
            ) from error
    return password


def _use_model(client: OpenWebUI, models_url: str) -> None:
    """Point the connection at the model: the server reads its environment only once."""
    if models_url not in client.get("/openai/config")["OPENAI_API_BASE_URLS"]:
        connection = {
            "ENABLE_OPENAI_API": True,
            "OPENAI_API_BASE_URLS": [models_url],
            "OPENAI_API_KEYS": [_models_key()],
            "OPENAI_API_CONFIGS": {},
        }
        client.post("/openai/config/update", connection)
        client.get("/api/models?refresh=true")


def _runs(state: State, name: str) -> bool:
    return name in state.processes and is_running(state.processes[name])


def _summary(url: str, password: str, folder: Path, state: State) -> str:
    demo = _runs(state, _DEMO)
    model = MODEL_NAME if demo else f"the models of {state.models_url}"
    return f"""
Open WebUI is ready:  {url}
Sign in with:         {_EMAIL}
Password:             {password}   (kept in {folder / 'admin-password'})
Model:                {model}

What to try:
  1. Take a suggestion, or ask for "primes", a "plot" or "bash".
  2. Press "Run code" (the last sign below the answer): the output appears under it.
  3. Ask "what was the output?", or ask the model to use the tool.

Stop it all:          scripts/up --down --dir {folder}"""
