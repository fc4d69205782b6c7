"""Errors of the sandbox core. Every message is a plain sentence that may be shown in a
chat: it says what happened and what to do next, and holds no path, address or secret.

    SandboxError
    ├── InvalidRequest        the caller asked for something that is not allowed
    ├── EngineError           the engine cannot give us a sandbox
    │   ├── EngineUnavailable     the daemon is down, unreachable or does not answer
    │   ├── RuntimeMissing        the gVisor runtime is not registered or its binary is gone
    │   ├── NotIsolated           the runtime that answered is not gVisor
    │   ├── ImageMissing          the sandbox image is not on this host
    │   └── StartFailed           the sandbox was made but did not come up in time
    ├── ChannelClosed         the guest is gone (or was killed) while we talked to it
    └── ProtocolError         the sandbox sent something that the protocol does not allow
"""

__all__ = [
    "ChannelClosed",
    "EngineError",
    "EngineUnavailable",
    "ImageMissing",
    "InvalidRequest",
    "NotIsolated",
    "ProtocolError",
    "RuntimeMissing",
    "SandboxError",
    "StartFailed",
]


class SandboxError(Exception):
    """Base of all errors of the core; ``str(error)`` is a sentence for people.

    ``detail`` is for the log only: it may name hosts, paths and vendor messages.
    ``engine``, ``image`` and ``run_id`` are filled in on the way out by whoever knows them.
    """

    def __init__(self, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.detail = detail
        self.engine = ""
        self.image = ""
        self.run_id = ""


class InvalidRequest(SandboxError):
    """The request breaks a rule: a limit out of range, an unknown language, a bad name."""


class EngineError(SandboxError):
    """The engine cannot give us a sandbox."""


class EngineUnavailable(EngineError):
    """The daemon is down, unreachable, or accepts connections and never answers."""


class RuntimeMissing(EngineError):
    """The daemon does not know the gVisor runtime, or cannot start its binary."""


class NotIsolated(EngineError):
    """A sandbox came up, but what runs it is not gVisor."""


class ImageMissing(EngineError):
    """The sandbox image is not on this host."""


class StartFailed(EngineError):
    """The sandbox was made but did not come up within its start budget."""


class ChannelClosed(SandboxError):
    """The guest is gone, or the channel was killed, while we talked to it."""


class ProtocolError(SandboxError):
    """The sandbox sent something that the protocol does not allow."""
