"""A point on the monotonic clock by which something must have happened."""

import time

__all__ = ["Deadline"]


class Deadline:
    """``Deadline(5)`` passes five seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    def passed(self) -> bool:
        """Whether no time is left."""
        return self.remaining() == 0.0
