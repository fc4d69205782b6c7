"""Gets gVisor's program from an address, once, when an administrator has asked for it.

What comes is kept only when it has the SHA-512 that was stated: the address may be a mirror.
gVisor publishes each release's next to it (``ADDRESS.sha512``). Proxies are those of the
environment (``https_proxy``, ``no_proxy``), as urllib reads them.
"""

import fcntl
import hashlib
import logging
import os
import platform
import threading
import urllib.request
from pathlib import Path

from sandbox_core.engines.runsc_images import default_images_folder
from sandbox_core.errors import RuntimeMissing

__all__ = [
    "RUNSC_ADDRESS",
    "download_runsc",
    "downloaded_runsc",
    "start_runsc_download",
]

RUNSC_ADDRESS = (
    "https://storage.googleapis.com/gvisor/releases/release/20240729/{arch}/runsc"
)
_MOST_BYTES = 200 << 20
_READ_AT_ONCE = 1 << 20
_DOWNLOAD_SECONDS = 60.0  # without a byte
_download_log = logging.getLogger("run_code.runsc")


def downloaded_runsc(sha512: str, folder: Path | None = None) -> Path:
    """Where the program of this checksum is, or would be."""
    home = folder or default_images_folder().parent / "runsc"
    return home / sha512[:16].lower() / "runsc"


def start_runsc_download(address: str, sha512: str) -> None:
    """Get it in a thread of its own, unless it is there. A failure is one line in the log,
    and runs say meanwhile that there is no runsc."""
    if not downloaded_runsc(sha512).exists():
        threading.Thread(
            target=_try, args=(address, sha512), name="run-code-runsc", daemon=True
        ).start()


def download_runsc(address: str, sha512: str, folder: Path | None = None) -> Path:
    """Get it, check it, and put it in its place; ``{arch}`` in the address becomes this
    machine's. Raises RuntimeMissing when it cannot be had, or is another one."""
    target = downloaded_runsc(sha512, folder)
    try:
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with (target.parent / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                draft = target.with_name(".runsc.draft")
                found = _fetch(address.replace("{arch}", platform.machine()), draft)
                if found != sha512.lower():
                    draft.unlink()
                    raise OSError(f"its SHA-512 is {found}, not {sha512.lower()}")
                draft.chmod(0o755)
                draft.rename(target)
    except (OSError, ValueError) as error:
        raise RuntimeMissing(
            "gVisor's program could not be downloaded. An administrator should check "
            "runsc_address and runsc_sha512 (docs/setup.md, “Without Docker”).",
            repr(error),
        ) from error
    return target


def _try(address: str, sha512: str) -> None:
    try:
        path = download_runsc(address, sha512)
        _download_log.info("gVisor's program is in %s", path)
    except RuntimeMissing as error:
        _download_log.error("%s (%s)", error, error.detail)


def _fetch(address: str, path: Path) -> str:
    """Store what is at the address; its SHA-512. Raises OSError, ValueError."""
    digest = hashlib.sha512()
    size = 0
    opener = urllib.request.build_opener()  # reads the proxies as they are now
    with (
        opener.open(address, timeout=_DOWNLOAD_SECONDS) as answer,
        path.open("wb") as sink,
    ):
        while data := answer.read(_READ_AT_ONCE):
            size += len(data)
            if size > _MOST_BYTES:
                raise OSError(f"more than {_MOST_BYTES >> 20} MiB")
            digest.update(data)
            sink.write(data)
        sink.flush()
        os.fsync(sink.fileno())
    return digest.hexdigest()
