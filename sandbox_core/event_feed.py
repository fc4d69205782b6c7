"""Events on their way from a run to whoever watches it, who may be slow or asleep."""

import logging
import threading
from collections import deque

from sandbox_core.models import OnEvent, RunEvent

__all__ = ["EventFeed"]

_feed_log = logging.getLogger("run_code.event_feed")
_CAP_CHARACTERS = 1 << 18
_CLOSE_SECONDS = 2.0


class EventFeed:
    """Calls ``on_event`` in a thread of its own; putting never waits for it.

    Texts of one stream that wait are merged. While more than 256 Ki characters wait, further
    text is dropped: the result holds it, the watcher only wants to see something move. One
    that raises is told no more.
    """

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = on_event
        self._waiting: deque[RunEvent] = deque()
        self._characters = 0
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, event: RunEvent) -> None:
        """Hand over an event. Never blocks."""
        if self._on_event is None:
            return
        with self._changed:
            if self._characters + len(event.text) > _CAP_CHARACTERS:
                return
            self._characters += len(event.text)
            last = self._waiting[-1] if self._waiting else None
            if (
                last
                and event.kind == last.kind == "text"
                and event.stream == last.stream
            ):
                self._waiting.pop()
                merged = last.text + event.text
                event = RunEvent("text", event.step, event.stream, merged)
            self._waiting.append(event)
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._deliver, name="run-code-events", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Let the watcher have what waits, for at most two seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)
        with self._changed:
            self._waiting.clear()

    def _deliver(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                event = self._waiting.popleft()
                self._characters -= len(event.text)
            if self._on_event is not None and not self._tell(self._on_event, event):
                return

    def _tell(self, on_event: OnEvent, event: RunEvent) -> bool:
        try:
            on_event(event)
        except Exception:
            _feed_log.exception("whoever watched a run failed, and sees no more of it")
            self._on_event = None
        return self._on_event is not None
