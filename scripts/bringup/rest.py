"""A small client of Open WebUI's REST interface; every failure is one clear sentence.

OpenWebUIError          what happened and what to do next
├── Unreachable         nothing answers at the address
└── Refused             the server answered with an error (status and detail)
"""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

__all__ = ["OpenWebUI", "OpenWebUIError", "Refused", "Unreachable"]


class OpenWebUIError(Exception):
    """Base class; its text is a sentence for the person at the terminal."""


class Unreachable(OpenWebUIError):
    """No Open WebUI answers at the address."""


class Refused(OpenWebUIError):
    """The server answered with an error; `status` and `detail` say which."""

    def __init__(self, status: int, detail: str, what: str) -> None:
        super().__init__(f"Open WebUI refused {what} (HTTP {status}): {detail}")
        self.status = status
        self.detail = detail


class OpenWebUI:
    """One server and, after `sign_in`, `sign_up` or with a token, one person.

    `token` is a session token or an API key; `timeout` is in seconds per request.
    """

    def __init__(self, url: str, token: str = "", timeout: float = 120.0) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self._timeout = timeout

    def get(self, path: str) -> Any:
        """GET `path` and return the decoded JSON. Raises OpenWebUIError."""
        return self._json("GET", path, None, {})

    def post(self, path: str, payload: object = None) -> Any:
        """POST `payload` as JSON and return the decoded answer. Raises OpenWebUIError."""
        data = json.dumps({} if payload is None else payload).encode()
        return self._json("POST", path, data, {"Content-Type": "application/json"})

    def delete(self, path: str) -> None:
        """DELETE `path`. Raises OpenWebUIError."""
        self._send("DELETE", path, None, {})

    def download(self, path: str) -> bytes:
        """GET `path` and return the bytes as they are. Raises OpenWebUIError."""
        return self._send("GET", path, None, {})

    def upload(self, path: str, data: bytes, content_type: str) -> Any:
        """POST raw `data` and return the decoded answer. Raises OpenWebUIError."""
        return self._json("POST", path, data, {"Content-Type": content_type})

    def sign_up(self, name: str, email: str, password: str) -> None:
        """Create an account (the first one is the administrator) and act as it."""
        form = {"name": name, "email": email, "password": password}
        self.token = self.post("/api/v1/auths/signup", form)["token"]

    def sign_in(self, email: str, password: str) -> None:
        """Act as the person with this password. Raises OpenWebUIError."""
        form = {"email": email, "password": password}
        try:
            self.token = self.post("/api/v1/auths/signin", form)["token"]
        except Refused as error:
            raise OpenWebUIError(
                f"Open WebUI does not accept this e-mail and password for {email}: "
                "check both, or create an API key (Settings, Account) and use that."
            ) from error

    def _json(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> Any:
        body = self._send(method, path, data, headers)
        try:
            return json.loads(body)
        except ValueError as error:
            raise OpenWebUIError(
                f"{self.url} does not answer like Open WebUI (no JSON at {path}): "
                "check the address; it is the one you open in the browser."
            ) from error

    def _send(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> bytes:
        try:
            request = urllib.request.Request(
                self.url + path, data=data, headers=headers, method=method
            )
        except ValueError as error:
            raise OpenWebUIError(
                f"{self.url!r} is not an address: give one like http://localhost:8080."
            ) from error
        request.add_header("Accept", "application/json")
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                detail = _detail(error.read())
            raise Refused(error.code, detail, f"{method} {path}") from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(
                f"No Open WebUI answers at {self.url} ({_reason(error)}): "
                "check the address and that the server is running."
            ) from error


def _detail(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    try:
        answer = json.loads(text)
    except ValueError:
        return text[:500].strip() or "no reason given"
    return str(answer.get("detail", answer) if isinstance(answer, dict) else answer)


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error) or type(error).__name__
