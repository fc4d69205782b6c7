"""The watch over what a program uses: time, memory and processes."""

import time

from sandbox_core.guest_process import count_tasks, memory_now

WATCH_SECONDS = 0.02, 0.1  # each look takes time from the program
FILL_RATE = 4 << 30  # bytes a second: no program takes memory faster
# So long at the process limit means: a fork bomb, not a busy program.
FULL_SECONDS = 2.0


class Watch:
    """Looks at one program after another; ``full`` says that one touched the process limit."""

    def __init__(self, boot):
        self.boot = boot
        self.used_before = 0
        self.full = False
        self.full_since = None
        self.next = 0.0
        self.end = 0.0

    def look_at_memory(self):
        """What is used now is not the program's: the guest, a launcher, the input."""
        self.used_before = memory_now(self.boot["folders"])[1]

    def begin(self, seconds):
        """A program starts, and has so many seconds."""
        now = time.monotonic()
        self.end = now + seconds
        self.next = now + WATCH_SECONDS[0]

    def verdict(self, now, job):
        """The flag that says why the program must end now; None when it may go on."""
        if now > self.end:
            return "timed_out"
        free, used = memory_now(self.boot["folders"])
        left = min(
            job["memory_bytes"] - (used - self.used_before),
            free - job["reserve_bytes"],
        )
        if left < 0:
            return "memory_killed"
        shortest, longest = WATCH_SECONDS
        self.next = now + max(shortest, min(longest, left / FILL_RATE))
        return "processes_killed" if self.is_crowded(now) else None

    def is_crowded(self, now):
        limit = self.boot["processes"]
        count = count_tasks() - 1
        if count < limit - 1:
            self.full_since = None
            return False
        self.full = True
        self.full_since = self.full_since or now
        return now - self.full_since > FULL_SECONDS or count > 2 * limit

    def left_a_crowd(self):
        """Whether a program that has ended leaves too many behind. It may have filled up and
        ended between two looks, hence this last one; on a busy machine a fork bomb has burnt down
        by then, but not to a few."""
        self.is_crowded(time.monotonic())
        return self.full and count_tasks() > self.boot["processes"] // 8
