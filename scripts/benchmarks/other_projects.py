"""Other projects' ways to run a program: `PYTHON other_projects.py KEY IMAGE CODE`.

Runs in an interpreter that has requirements-bench.txt, and prints how long it took, as JSON.
Importing the project is not counted: a server does that once.
"""

import json
import os
import sys
import time
from collections.abc import Callable


def llm_sandbox(image: str) -> Callable[[str], None]:
    """A session for each run: only so does no run see what another left."""
    import docker
    from llm_sandbox import SandboxSession

    client = docker.from_env()

    def run(code: str) -> None:
        with SandboxSession(
            client=client, lang="python", image=image, keep_template=True, verbose=False
        ) as session:
            output = session.run(code)
        if output.exit_code:
            raise SystemExit(output.stderr)

    return run


def jupyter(image: str) -> Callable[[str], None]:
    """A kernel for each run, as Open WebUI's own interpreter has it, but without the gateway
    between. It is a process of this machine: nothing is isolated."""
    from jupyter_client.manager import start_new_kernel

    os.environ.update(MPLBACKEND="Agg", OPENBLAS_NUM_THREADS="1")

    def run(code: str) -> None:
        manager, client = start_new_kernel()
        try:
            reply = client.execute_interactive(
                code, timeout=60, output_hook=lambda _: None
            )
            if reply["content"]["status"] != "ok":
                raise SystemExit(str(reply["content"]))
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)

    return run


def main() -> None:
    """Run one program once."""
    key, image, code = sys.argv[1:]
    run = {"llm_sandbox": llm_sandbox, "jupyter": jupyter}[key](image)
    begin = time.monotonic()
    run(code)
    print(json.dumps({"milliseconds": (time.monotonic() - begin) * 1000}))


if __name__ == "__main__":
    main()
