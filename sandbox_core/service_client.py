"""Signed calls to a codebox service, each with a time-out, and its failures in words."""

import secrets
import time
from collections.abc import Iterator
from typing import Any

from sandbox_core.errors import (
    ChannelClosed,
    EngineUnavailable,
    InvalidRequest,
    ProtocolError,
    SandboxError,
)

__all__ = ["ServiceClient"]

_TOKEN_SECONDS = 60
_SHORTEST_KEY = 32
_CONNECT_SECONDS = 5.0
_CONNECTIONS = 64
_LONGEST_LINE = 64 << 20
_LONGEST_SENTENCE = 500
_LATER = "Try again in a minute; if it stays, tell your administrator."
_SENTENCES = {
    401: "The code service does not accept this Open WebUI. Ask your administrator to give "
    "both the same secret (CODEBOX_SECRET).",
    403: "The code service does not let you run code. Ask your administrator.",
    404: "There is no code service at the address that is set. Ask your administrator to "
    "correct it.",
}


class ServiceClient:
    """A service's address, and the secret that tells it who we are.

    ``silence_seconds`` is how long it may say nothing. Usable by several threads. Raises
    InvalidRequest when the address or the secret cannot be right.
    """

    def __init__(self, url: str, secret: str, silence_seconds: float) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidRequest(
                "The address of the code service must begin with http:// or https://. Ask "
                "your administrator to correct it."
            )
        if len(secret.encode("utf-8")) < _SHORTEST_KEY:
            raise InvalidRequest(
                f"The secret of the code service must have {_SHORTEST_KEY} characters or "
                "more. Ask your administrator to correct it."
            )
        import requests

        self._url = url.rstrip("/")
        self._secret = secret
        self._timeout = (_CONNECT_SECONDS, silence_seconds)
        self._http = requests.Session()
        self._failures = requests.RequestException
        for scheme in ("http://", "https://"):
            adapter = requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS)
            self._http.mount(scheme, adapter)

    def call(
        self,
        method: str,
        path: str,
        user: str = "",
        chat: str = "",
        accepted: tuple[int, ...] = (200,),
        **content: Any,
    ) -> Any:
        """Send a request with a token of its own; the answer is to be read and closed.

        ``accepted`` are the HTTP statuses that are no failure; ``content`` is as for
        requests. Raises InvalidRequest when the service refuses what was asked,
        EngineUnavailable when it cannot be reached or does not serve us.
        """
        token = self._token(user, chat)

        # Not as a header: one that requests finds in a .netrc file would take its place.
        def sign(request: Any) -> Any:
            request.headers["Authorization"] = f"Bearer {token}"
            return request

        try:
            answer = self._http.request(
                method,
                self._url + path,
                auth=sign,
                timeout=self._timeout,
                stream=True,
                # A token must not follow to wherever it is sent.
                allow_redirects=False,
                **content,
            )
        except self._failures as error:
            raise EngineUnavailable(_explain_no_answer(error), repr(error)) from error
        if answer.status_code in accepted:
            return answer
        with answer:
            raise _refusal(answer)

    def close(self) -> None:
        """Close the connections that are kept for the next call."""
        self._http.close()

    def _token(self, user: str, chat: str) -> str:
        import jwt

        now = int(time.time())
        claims = {
            "sub": user or "nobody",
            "chat": chat,
            "aud": "codebox",
            "iat": now,
            "exp": now + _TOKEN_SECONDS,
            "jti": secrets.token_hex(16),
        }
        return jwt.encode(claims, self._secret, algorithm="HS256")

    def lines(self, answer: Any) -> Iterator[bytes]:
        """The lines of an answer as they come. Raises ChannelClosed when it breaks off, and
        ProtocolError when a line has no end."""
        rest = b""
        try:
            for data in answer.iter_content(None):
                *whole, rest = (rest + data).split(b"\n")
                yield from whole
                if len(rest) > _LONGEST_LINE:
                    raise ProtocolError(
                        "The code service sent something that cannot be understood.",
                        "a line without end",
                    )
        except self._failures as error:
            raise ChannelClosed(
                f"The connection to the code service was lost during the run. {_LATER}",
                repr(error),
            ) from error


def _explain_no_answer(error: Exception) -> str:
    import requests

    if isinstance(error, requests.exceptions.SSLError):
        return (
            "The certificate of the code service is not trusted, so nothing was sent to it. "
            "Ask your administrator."
        )
    if isinstance(error, requests.exceptions.ReadTimeout):
        return f"The code service does not answer. {_LATER}"
    return f"The code service cannot be reached. {_LATER}"


def _refusal(answer: Any) -> SandboxError:
    """What an answer other than 200 means to a person."""
    status = answer.status_code
    detail = f"HTTP {status}"
    told = _told_sentence(answer)
    if status in (400, 413, 422) and told:
        return InvalidRequest(told, detail)
    if status in (429, 503) and told:
        return EngineUnavailable(told, detail)
    sentence = _SENTENCES.get(status)
    if 300 <= status < 400:
        sentence = _SENTENCES[404]
    if sentence is None:
        sentence = f"The code service has a fault (HTTP {status}). {_LATER}"
    return EngineUnavailable(sentence, detail)


def _told_sentence(answer: Any) -> str:
    """The service's own sentence; empty when the answer is somebody else's, as a proxy's."""
    import requests

    try:
        plain = answer.json()
    except (ValueError, requests.RequestException):
        return ""
    told = plain.get("message") if isinstance(plain, dict) else None
    return told[:_LONGEST_SENTENCE] if isinstance(told, str) else ""
