"""Open WebUI as its users see it: who they are, and their files, each with their own token."""

import hashlib
import time
from collections import OrderedDict
from typing import Any

import httpx

from codebox.settings import Settings

__all__ = ["FileRefused", "OpenWebUI", "OpenWebUIDown"]

_SECONDS = 10.0
_MOST_SESSIONS = 2000
_ROLES = ("user", "admin")
_IMAGES = {"png": "image/png", "jpg": "image/jpeg", "svg": "image/svg+xml"}


class OpenWebUIDown(Exception):
    """Open WebUI does not answer, so it is not known whose token that is."""


class FileRefused(Exception):
    """Open WebUI does not give or take a file; the text is a sentence."""


class OpenWebUI:
    """A client of one Open WebUI. Whether something is allowed is always its answer."""

    def __init__(self, settings: Settings) -> None:
        self._seconds = settings.owui_session_seconds
        self._http = httpx.AsyncClient(
            base_url=str(settings.owui_base_url),
            verify=settings.owui_verify_tls,
            timeout=_SECONDS,
            follow_redirects=False,
        )
        # Digest of a token → (until when, user). Also what was refused is remembered.
        self._known: OrderedDict[str, tuple[float, str | None]] = OrderedDict()

    async def user_of(self, token: str) -> str | None:
        """The id of the user of a session token; None when it is not good for one who may
        log in. Believed for the seconds of the settings. Raises OpenWebUIDown."""
        digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        until, user = self._known.get(digest, (0.0, None))
        if until > time.monotonic():
            return user
        user = await self._ask_user(token)
        self._known[digest] = (time.monotonic() + self._seconds, user)
        self._known.move_to_end(digest)
        if len(self._known) > _MOST_SESSIONS:
            self._known.popitem(last=False)
        return user

    async def _ask_user(self, token: str) -> str | None:
        answer = await self._send("GET", "/api/v1/auths/", token)
        if answer.status_code >= 500:
            raise OpenWebUIDown
        plain = _plain(answer) if answer.status_code == 200 else {}
        user = plain.get("id")
        good = isinstance(user, str) and plain.get("role") in _ROLES
        return user if good else None

    async def read_file(self, token: str, file_id: str, most_bytes: int) -> bytes:
        """The content of a file that the token's user may read. Raises FileRefused."""
        if not file_id.replace("-", "").isalnum():
            raise FileRefused("That is not the id of a file.")
        path = f"/api/v1/files/{file_id}/content"
        data = bytearray()
        try:
            async with self._http.stream("GET", path, headers=_bearer(token)) as answer:
                if answer.status_code != 200:
                    raise FileRefused(f"There is no file {file_id} for you.")
                async for chunk in answer.aiter_bytes():
                    data += chunk
                    if len(data) > most_bytes:
                        raise FileRefused(
                            f"The file {file_id} is too large for the work folder."
                        )
        except httpx.HTTPError as error:
            raise OpenWebUIDown from error
        return bytes(data)

    async def store_file(self, token: str, name: str, content: Any) -> str:
        """Store a file as the token's user; gives its id. Raises FileRefused."""
        kind = _IMAGES.get(name.rpartition(".")[2].lower(), "application/octet-stream")
        short = name.rpartition("/")[2] or "file"
        answer = await self._send(
            "POST",
            "/api/v1/files/?process=false",
            token,
            files={"file": (short, content, kind)},
        )
        file_id = _plain(answer).get("id") if answer.status_code == 200 else None
        if not isinstance(file_id, str):
            raise FileRefused(f"Open WebUI did not store the file {short}.")
        return file_id

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(
        self, method: str, path: str, token: str, **more: Any
    ) -> httpx.Response:
        try:
            return await self._http.request(
                method, path, headers=_bearer(token), **more
            )
        except httpx.HTTPError as error:
            raise OpenWebUIDown from error


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _plain(answer: httpx.Response) -> dict[str, Any]:
    try:
        plain = answer.json()
    except ValueError:
        return {}
    return plain if isinstance(plain, dict) else {}
