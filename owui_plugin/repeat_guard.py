"""Stops a model that makes the same failing call again and again."""

import hashlib
from collections import OrderedDict
from threading import Lock

from sandbox_core.outcome import Outcome

__all__ = ["REPEAT_SENTENCE", "RepeatGuard", "call_digest"]

REPEAT_SENTENCE = (
    "This exact code has just failed twice with the same input, so it was not run a third "
    "time. Change it: read the last error, then mend its cause or try another way."
)

_FAILURES_ALLOWED = 2
_MOST_CHATS = 1000

# Neither says anything about the code: the host failed, or somebody pressed Stop.
_NOT_COUNTED = (Outcome.SANDBOX_ERROR, Outcome.CANCELLED)


def call_digest(language: str, code: str, stdin: str, *packages: str) -> str:
    """A short stand-in for one call: equal for equal arguments."""
    digest = hashlib.sha256()
    for part in (language, code, stdin, *packages):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


class RepeatGuard:
    """Counts, per user and chat, how often the last call failed in a row.

    Thread-safe. Remembers the 1,000 chats used last.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._failures: OrderedDict[tuple[str, str], tuple[str, int]] = OrderedDict()

    def refuses(self, user_id: str, chat_id: str, digest: str) -> bool:
        """Whether this call has failed twice in a row already. Ask before a run; a
        different call is never refused."""
        with self._lock:
            return self._failures.get((user_id, chat_id)) == (digest, _FAILURES_ALLOWED)

    def ended(self, user_id: str, chat_id: str, digest: str, outcome: Outcome) -> None:
        """Tells how a run ended. Success, or a different call, starts the count anew."""
        key = (user_id, chat_id)
        with self._lock:
            last_digest, failures = self._failures.pop(key, (digest, 0))
            if outcome is Outcome.OK:
                return
            if last_digest != digest:
                failures = 0
            if outcome not in _NOT_COUNTED:
                failures = min(failures + 1, _FAILURES_ALLOWED)
            self._failures[key] = (digest, failures)
            if len(self._failures) > _MOST_CHATS:
                self._failures.popitem(last=False)
