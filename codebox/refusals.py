"""What a caller is told when nothing runs: one table from causes to HTTP answers."""

from dataclasses import dataclass

from codebox.counters import CountersLost
from codebox.identity import NotAuthorised
from codebox.openwebui import FileRefused, OpenWebUIDown
from sandbox_core.admission import Busy
from sandbox_core.errors import InvalidRequest

__all__ = ["CAUSES", "BadRequest", "NotReady", "RateLimited", "Refusal", "refusal_for"]

_RETRY_SECONDS = 10


class RateLimited(Exception):
    """Too many calls; ``seconds`` is when the next is welcome."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"Too many calls: wait {seconds} seconds, then try again.")
        self.seconds = seconds


class NotReady(Exception):
    """The service cannot run anything now; the text is a sentence."""


class BadRequest(Exception):
    """The request cannot be read; ``status`` says in which way."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class Refusal:
    """An HTTP status, a sentence for the caller, and a word for the metrics."""

    status: int
    sentence: str
    reason: str
    retry_after: int | None = None

    def headers(self) -> dict[str, str]:
        """The headers that belong to this answer."""
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        if self.retry_after is not None:
            return {"Retry-After": str(self.retry_after)}
        return {}

    def body(self) -> dict[str, str]:
        """The JSON object of this answer."""
        return {"message": self.sentence}


# Everything that refusal_for knows.
CAUSES = (
    BadRequest,
    Busy,
    CountersLost,
    FileRefused,
    InvalidRequest,
    NotAuthorised,
    NotReady,
    OpenWebUIDown,
    RateLimited,
)


def refusal_for(cause: Exception) -> Refusal:
    """The answer for one of CAUSES. A bad token learns nothing but that it is bad."""
    match cause:
        case NotAuthorised():
            return Refusal(401, "not authorised", "token")
        case RateLimited():
            return Refusal(429, str(cause), "rate", cause.seconds)
        case Busy():
            return Refusal(429, str(cause), "busy", _RETRY_SECONDS)
        case BadRequest():
            return Refusal(cause.status, str(cause), "invalid")
        case InvalidRequest() | FileRefused():
            return Refusal(422, str(cause), "invalid")
        case OpenWebUIDown():
            sentence = (
                "Open WebUI does not answer, so nothing was run. Try again in a minute."
            )
            return Refusal(503, sentence, "not_ready", _RETRY_SECONDS)
        case _:
            return Refusal(503, str(cause), "not_ready", _RETRY_SECONDS)
