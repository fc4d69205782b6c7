"""The one place where errors of the docker SDK and its transport become ours.

The SDK speaks to Podman as well, so the sentences have a place for the engine's name.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sandbox_core.errors import (
    EngineError,
    EngineUnavailable,
    ImageMissing,
    RuntimeMissing,
    StartFailed,
)

__all__ = ["NO_SSH", "docker_errors_mapped", "engine_error_from"]

_RUNTIME_WORDS = (
    "runtime name",  # not registered: "unknown or invalid runtime name" and the like
    "unknown runtime",
    "unable to retrieve oci runtime error",  # its binary is gone, or is no runtime
)
_NO_PROGRAM_WORDS = ("error finding executable", "executable file not found")
_MISSING_PACKAGE = (
    "The Python package “docker” is missing where Open WebUI runs. Install it there "
    "(pip install docker) and try again."
)
_NOT_REACHED = (
    "The container engine cannot be reached, so nothing was run. An administrator should "
    "check that {engine} is running and that this service may use it; then try again."
)
_NO_ANSWER = (
    "The container engine did not answer in time, so nothing was run. An administrator "
    "should check {engine}; then try again."
)
NO_SSH = (
    "The container engine cannot be used by ssh, so nothing was run. An administrator should "
    "forward its socket (ssh -L) and name that one, or use TLS; then try again."
)
_NOT_ALLOWED = (
    "This service is not allowed to use the container engine, so nothing was run. An "
    "administrator should give it access to {engine}; then try again."
)
_NO_IMAGE = "The sandbox image is not on this host, so nothing was run."
_NO_RUNTIME = (
    "gVisor is not set up on this host, so nothing was run: {engine} cannot use the runtime "
    "“runsc”. An administrator should install and register it (docs/setup.md, “gVisor”)."
)
_NO_PYTHON = (
    "The sandbox image has no python3, so nothing was run. An administrator should build it "
    "again (docs/setup.md, “The sandbox image”)."
)
_REFUSED = (
    "The container engine refused to start the sandbox. An administrator should look at "
    "the log and run the doctor (docs/setup.md)."
)


@contextmanager
def docker_errors_mapped(engine: str) -> Iterator[None]:
    """Turn whatever the docker SDK raises inside into an EngineError. ``engine`` is the name
    of what it speaks to."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        raise engine_error_from(error, engine) from error


def engine_error_from(error: Exception, engine: str) -> EngineError:
    """The EngineError for an exception of the docker SDK, requests, urllib3 or the system.

    Raises the same exception again when it is none of theirs: that is a fault of ours.
    """
    if isinstance(error, ModuleNotFoundError) and error.name == "docker":
        return EngineError(_MISSING_PACKAGE, repr(error))

    from docker.errors import APIError, DockerException, StreamParseError
    from requests.exceptions import RequestException, Timeout
    from urllib3.exceptions import HTTPError, TimeoutError

    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, APIError):
        return _error_from_answer(detail, engine)
    if isinstance(error, (Timeout, TimeoutError)) or "Read timed out" in detail:
        return EngineUnavailable(_NO_ANSWER.format(engine=engine), detail)
    if "PermissionError" in detail or "Permission denied" in detail:
        return EngineUnavailable(_NOT_ALLOWED.format(engine=engine), detail)
    theirs = (RequestException, DockerException, StreamParseError, HTTPError, OSError)
    if isinstance(error, theirs):
        return EngineUnavailable(_NOT_REACHED.format(engine=engine), detail)
    raise error


def _error_from_answer(detail: str, engine: str) -> EngineError:
    text = detail.lower()
    if "no such image" in text:
        return ImageMissing(_NO_IMAGE, detail)
    if any(words in text for words in _RUNTIME_WORDS):
        return RuntimeMissing(_NO_RUNTIME.format(engine=engine), detail)
    if any(words in text for words in _NO_PROGRAM_WORDS):
        return StartFailed(_NO_PYTHON, detail)
    return StartFailed(_REFUSED, detail)
