"""From nothing to a guest that waits for its job: what cold runs and the pool both do first."""

import time
from dataclasses import dataclass

from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import CancelToken, Channel, Engine, SandboxSpec
from sandbox_core.errors import ChannelClosed, NotIsolated, ProtocolError, StartFailed
from sandbox_core.guest_program import guest_program
from sandbox_core.job import boot_frame
from sandbox_core.protocol import FrameReader, encode_program, parse_header

__all__ = ["BootedSandbox", "boot_sandbox"]

_HELLO_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class BootedSandbox:
    """A sandbox whose guest is ready. ``reader`` holds the state of its frame stream, of
    which ``hello`` was the first payload; ``waiting`` is as in its spec."""

    channel: Channel
    reader: FrameReader
    hello: bytes
    waiting: str = ""


def boot_sandbox(
    engine: Engine, spec: SandboxSpec, cancel: CancelToken, deadline: Deadline
) -> BootedSandbox:
    """Start a sandbox, send it the guest, and wait until it says hello.

    With ``spec.waiting`` that is when the interpreter is ready for a program. Raises EngineError;
    NotIsolated when the kernel in there is not gVisor's; ChannelClosed when
    cancelled; ProtocolError. On any raise nothing is left.
    """
    channel = engine.start(spec, cancel, deadline)
    try:
        lease_seconds = spec.expires_at - time.time()
        frame = boot_frame(
            spec.limits,
            lease_seconds,
            spec.waiting,
            spec.preload,
            has_packages=bool(spec.packages_mib),
            proxy=spec.proxy,
        )
        channel.send(encode_program(guest_program()) + frame, deadline)
        reader = FrameReader()
        hello = _await_hello(channel, reader, cancel, deadline)
        if not parse_header(hello, {"gvisor": bool})["gvisor"]:
            raise NotIsolated(
                f"The runtime “{spec.runtime}” is not gVisor, so nothing was run. An "
                "administrator should register runsc under this name (docs/setup.md)."
            )
    except BaseException:
        channel.close()
        raise
    return BootedSandbox(channel, reader, hello, spec.waiting)


def _await_hello(
    channel: Channel, reader: FrameReader, cancel: CancelToken, deadline: Deadline
) -> bytes:
    while not deadline.passed():
        if cancel.is_set():
            raise ChannelClosed("The run was stopped on request.")
        untrusted_data = channel.recv(min(_HELLO_POLL_SECONDS, deadline.remaining()))
        if untrusted_data == b"":
            raise ChannelClosed(
                "The sandbox ended unexpectedly. Try again; if it stays, tell your "
                "administrator."
            )
        frames = list(reader.feed(untrusted_data or b""))
        if frames:  # until the job comes, it has to say nothing else
            if [kind for kind, _ in frames] != ["h"]:
                raise ProtocolError("The sandbox sent a broken message.", "no hello")
            return frames[0][1]
    raise StartFailed("The sandbox did not answer in time. Try again.")
