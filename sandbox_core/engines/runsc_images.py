"""Root file systems for embedded sandboxes: prepared folders, else this machine's Python.

A prepared image is ``IMAGES/NAME/`` with ``rootfs/`` and ``image.json`` (``{"env": [...]}``);
scripts/rootfs makes it. NAME is the image's, with ``/`` and ``:`` as ``_``.
"""

import fcntl
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from sandbox_core.engines.base import Finding
from sandbox_core.engines.host_root import host_root_key, make_host_root
from sandbox_core.errors import ImageMissing

__all__ = [
    "DEFAULT_ENV",
    "HOST_IMAGE",
    "ImageStore",
    "RootImage",
    "default_images_folder",
    "image_folder_name",
    "write_image",
]

DEFAULT_ENV = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
)
HOST_IMAGE = "host"
USUAL_IMAGE = "run-code-python:latest"
_NOT_PREPARED = (
    "The sandbox image is not on this machine, so nothing was run. It is called {name}: an "
    "administrator should prepare it with scripts/rootfs debian {name} (docs/setup.md, "
    "“Without Docker”); then try again."
)
_NOT_COPIED = (
    "No sandbox image is prepared here, and this machine's Python could not be copied for "
    "one, so nothing was run. An administrator should run the doctor (docs/setup.md)."
)


@dataclass(frozen=True, slots=True)
class RootImage:
    """A folder that becomes a sandbox's root, and the environment of its programs."""

    root: Path
    env: tuple[str, ...]


def default_images_folder() -> Path:
    """Where images are prepared when no setting says."""
    if os.geteuid() == 0:
        return Path("/var/lib/run-code/images")
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")
    return Path(data) / "run-code/images"


def image_folder_name(image: str) -> str:
    """The folder of an image: no name leads out of the images' folder."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", image).lstrip(".") or "_"


class ImageStore:
    """The images of one folder."""

    def __init__(self, folder: str = "") -> None:
        self._folder = Path(folder) if folder else default_images_folder()

    def open(self, image: str) -> RootImage:
        """The root of this image; for ``host``, and for the usual image when nobody has
        prepared it, this machine's own Python, copied first if need be (some seconds).
        Raises ImageMissing."""
        prepared = self._folder / image_folder_name(image)
        if (prepared / "image.json").is_file():
            return _read_image(prepared)
        if image not in (HOST_IMAGE, USUAL_IMAGE):
            raise _not_prepared(image, str(prepared))
        try:
            return _read_image(self._host_image())
        except OSError as error:
            raise ImageMissing(_NOT_COPIED, repr(error)) from error

    def check(self, image: str) -> Finding:
        """What the doctor says of this image."""
        prepared = self._folder / image_folder_name(image)
        try:
            root = self.open(image).root
        except ImageMissing as error:
            mend = (
                f"scripts/rootfs debian {image}   # or: scripts/rootfs docker {image}"
            )
            return Finding("image", False, str(error), mend)
        if root.parent == prepared:
            return Finding("image", True, f"The image {image} is in {prepared}.")
        text = f"No image is prepared: sandboxes see a copy of this machine's Python ({root})."
        return Finding("image", True, text)

    def identity(self, image: str) -> str:
        """Which image that is, for records; empty when it is not there. Raises ImageMissing
        when it cannot be read."""
        root = self.open(image).root
        made = (root.parent / "image.json").stat().st_mtime
        return f"{root.parent.name}@{made:.0f}"

    def _host_image(self) -> Path:
        """The folder of the copy, made once by whoever comes first."""
        done = self._folder / f"host-{host_root_key()}"
        if (done / "image.json").is_file():
            return done
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        with (self._folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (done / "image.json").is_file():
                return done
            shutil.rmtree(done, ignore_errors=True)
            (done / "rootfs").mkdir(parents=True)
            make_host_root(done / "rootfs")
            # Last: a folder without it is one that was never finished.
            write_image(done, DEFAULT_ENV)
        return done


def write_image(folder: Path, env: tuple[str, ...]) -> None:
    """Declare a folder with a ``rootfs`` to be an image."""
    text = json.dumps({"env": list(env)})
    draft = folder / ".image.json"
    draft.write_text(text)
    draft.rename(folder / "image.json")


def _not_prepared(image: str, detail: str) -> ImageMissing:
    # The host of a registry is nobody's business in a chat.
    return ImageMissing(_NOT_PREPARED.format(name=image.rpartition("/")[2]), detail)


def _read_image(folder: Path) -> RootImage:
    try:
        env = tuple(json.loads((folder / "image.json").read_text())["env"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _not_prepared(folder.name, repr(error)) from error
    return RootImage(folder / "rootfs", env or DEFAULT_ENV)
