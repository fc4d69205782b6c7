"""The one place where what runsc says of itself becomes an error of ours."""

from sandbox_core.errors import EngineError, RuntimeMissing, StartFailed

__all__ = ["RUNSC_FAILED", "error_from_runsc", "no_runsc"]

# runsc's own exit code when it could not make a sandbox (util.Fatalf).
RUNSC_FAILED = 128

_NO_RUNSC = (
    "gVisor's program “runsc” is not on this machine, so nothing was run. An administrator "
    "should install it (docs/setup.md, “Without Docker”)."
)
_RUNSC_NOT_ALLOWED = (
    "gVisor is not allowed to make a sandbox here, so nothing was run. An administrator "
    "should run the doctor: it names what is missing (docs/setup.md, “Without Docker”)."
)
_RUNSC_NO_PYTHON = (
    "The sandbox image has no python3, so nothing was run. An administrator should prepare it "
    "again (docs/setup.md, “Without Docker”)."
)
_RUNSC_REFUSED = (
    "gVisor could not start the sandbox. An administrator should look at the log and run the "
    "doctor (docs/setup.md)."
)
_PERMISSION_WORDS = (
    "operation not permitted",
    "permission denied",
    "read-only file system",
    "no space left on device",  # max_user_namespaces is used up, or 0
    "unable to run a rootless container",
)


def no_runsc(detail: str) -> EngineError:
    """There is no runsc, or it cannot be executed."""
    return RuntimeMissing(_NO_RUNSC, detail)


def error_from_runsc(said: str) -> EngineError:
    """The error for what runsc wrote to stderr before it ended with RUNSC_FAILED."""
    text = said.lower()
    if "executable file not found" in text or "error finding executable" in text:
        return StartFailed(_RUNSC_NO_PYTHON, said)
    if any(words in text for words in _PERMISSION_WORDS):
        return StartFailed(_RUNSC_NOT_ALLOWED, said)
    return StartFailed(_RUNSC_REFUSED, said)
