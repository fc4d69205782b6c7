"""The engine of a benchmark: it notes when what was sent and when what came."""

import time

from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import CancelToken, SandboxSpec
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.engines.docker_channel import DockerChannel
from sandbox_core.protocol import FrameReader
from scripts.benchmarks.subject import Subject

__all__ = ["DONE", "FILE_SENT", "STARTED", "STEP_ENDED", "WatchedEngine"]

FILE_SENT, STARTED, STEP_ENDED, DONE = "F", "s", "x", "z"


class WatchedEngine(DockerEngine):
    """``at`` holds the monotonic time at which the first file of the last run was sent, and
    at which each kind of frame arrived last."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(image=subject.image, runtime=subject.runtime)
        self.at: dict[str, float] = {}

    def start(
        self, spec: SandboxSpec, cancel: CancelToken, deadline: Deadline
    ) -> DockerChannel:
        """See Engine.start."""
        channel = super().start(spec, cancel, deadline)
        reader, receive, send = FrameReader(), channel.recv, channel.send
        self.at.clear()

        def receive_and_note(timeout: float) -> bytes | None:
            data = receive(timeout)
            for kind, _ in reader.feed(data or b""):
                self.at[kind] = time.monotonic()
            return data

        def send_and_note(data: bytes, deadline: Deadline) -> None:
            if data[:1] == FILE_SENT.encode():
                self.at.setdefault(FILE_SENT, time.monotonic())
            send(data, deadline)

        channel.recv, channel.send = receive_and_note, send_and_note
        return channel
