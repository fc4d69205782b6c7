"""Who is calling: the one place that decides whether a token is good, and whose it is."""

import hashlib
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import jwt
from jwt.types import Options

from codebox.openwebui import OpenWebUI
from codebox.settings import Settings

__all__ = ["AUDIENCE", "Gatekeeper", "Identity", "NotAuthorised", "OnceOnly"]

_FORWARDED_HEADER = "x-openwebui-user-jwt"
_CHAT_HEADER = "x-openwebui-chat-id"
AUDIENCE = "codebox"
_ALGORITHM = "HS256"
_FORWARDED_ISSUER = "open-webui"
_LEEWAY_SECONDS = 30
_LONGEST_TOKEN = 8192
_LONGEST_ID = 128

_log = logging.getLogger("codebox.identity")


class NotAuthorised(Exception):
    """The token is no good. ``reason`` is a code for the log, and for nobody else."""

    def __init__(self, reason: str, token: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls. ``session`` is the caller's own Open WebUI token, when that was used."""

    user: str
    chat: str = ""
    session: str = field(default="", repr=False)


class OnceOnly(Protocol):
    """Remembers ids of tokens that are good for one request."""

    async def is_first(self, token_id: str, seconds: int) -> bool:
        """Whether this id is seen for the first time within ``seconds``."""


class Gatekeeper:
    """Checks the tokens of requests: the plugins' own, Open WebUI's header, its sessions."""

    def __init__(
        self, settings: Settings, once: OnceOnly, openwebui: OpenWebUI | None
    ) -> None:
        self._secret = settings.secret.get_secret_value()
        self._forwarded_secret = settings.owui_user_jwt_secret.get_secret_value()
        self._forwarded_algorithm = settings.owui_user_jwt_algorithm
        self._once = once
        self._openwebui = openwebui

    async def identify(
        self, headers: Mapping[str, str], authorizations: int, may_ask: bool = True
    ) -> Identity:
        """The caller of a request with these headers (names in lower case), of which
        ``authorizations`` are Authorization headers. Raises NotAuthorised. Open WebUI is
        only asked about a token if ``may_ask``.

        With a bearer token and Open WebUI's header both, the header says who the user is,
        and the token that the call comes from a trusted side.
        """
        try:
            return await self._identify(headers, authorizations, may_ask)
        except NotAuthorised as refusal:
            _log.warning("token refused: %s %s", refusal.reason, refusal.digest)
            raise

    async def _identify(
        self, headers: Mapping[str, str], authorizations: int, may_ask: bool
    ) -> Identity:
        chat = _bounded(headers.get(_CHAT_HEADER))
        forwarded = headers.get(_FORWARDED_HEADER) if self._forwarded_secret else None
        caller = None
        if authorizations:
            token = _bearer(headers, authorizations)
            caller = await self._check_bearer(token, may_ask)
        if forwarded is not None:
            user = self._check_forwarded(forwarded)
            if caller is not None and caller.session and caller.user != user:
                raise NotAuthorised("two_users", forwarded)
            session = caller.session if caller else ""
            return Identity(user, chat, session)
        if caller is None:
            raise NotAuthorised("no_token")
        return Identity(caller.user, caller.chat or chat, caller.session)

    async def _check_bearer(self, token: str, may_ask: bool) -> Identity:
        try:
            claims = _decode(token, self._secret, _ALGORITHM)
        except NotAuthorised as refusal:
            foreign = refusal.reason == "bad_signature"
            if self._openwebui is None or not foreign or not may_ask:
                raise
            user = await self._openwebui.user_of(token)
            if user is None:
                raise NotAuthorised("no_session", token) from None
            return Identity(user, session=token)
        audience = claims.get("aud")
        if audience is not None and AUDIENCE not in (audience, *_listed(audience)):
            raise NotAuthorised("wrong_audience", token)
        user = _user_of(claims, token)
        await self._check_once(claims, token)
        return Identity(user, _bounded(claims.get("chat")))

    async def _check_once(self, claims: Mapping[str, Any], token: str) -> None:
        token_id = claims.get("jti")
        if token_id is None:
            return
        if not isinstance(token_id, str) or not 0 < len(token_id) <= _LONGEST_ID:
            raise NotAuthorised("bad_jti", token)
        # Long enough to outlive the token itself.
        lifetime = max(60, int(claims["exp"] - claims.get("iat", claims["exp"])))
        if not await self._once.is_first(token_id, lifetime + 3 * _LEEWAY_SECONDS):
            raise NotAuthorised("used_before", token)

    def _check_forwarded(self, token: str) -> str:
        claims = _decode(token, self._forwarded_secret, self._forwarded_algorithm)
        if claims.get("iss") != _FORWARDED_ISSUER:
            raise NotAuthorised("wrong_issuer", token)
        return _user_of(claims, token)


def _bearer(headers: Mapping[str, str], authorizations: int) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if authorizations != 1 or scheme.lower() != "bearer" or not token.strip():
        raise NotAuthorised("no_bearer")
    return token.strip()


def _decode(token: str, secret: str, algorithm: str) -> dict[str, Any]:
    if len(token) > _LONGEST_TOKEN:
        raise NotAuthorised("too_long", token)
    options: Options = {
        "require": ["exp"],
        "verify_aud": False,
        "verify_sub": False,
        "verify_jti": False,
        "verify_iss": False,
    }
    try:
        claims = jwt.decode(
            token,
            secret,
            algorithms=[algorithm],
            leeway=_LEEWAY_SECONDS,
            options=options,
        )
    except jwt.ExpiredSignatureError:
        raise NotAuthorised("expired", token) from None
    except jwt.InvalidSignatureError:
        raise NotAuthorised("bad_signature", token) from None
    # A token can break the parser in more ways than its authors thought of.
    except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError):
        raise NotAuthorised("malformed", token) from None
    if not all(_is_time(claims.get(name, 0)) for name in ("exp", "iat", "nbf")):
        raise NotAuthorised("bad_time", token)
    return dict(claims)


def _is_time(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _user_of(claims: Mapping[str, Any], token: str) -> str:
    named = [claims[name] for name in ("sub", "id") if name in claims]
    if not named or any(not _is_id(value) for value in named) or len(set(named)) > 1:
        raise NotAuthorised("bad_user", token)
    return str(named[0])


def _is_id(value: Any) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= _LONGEST_ID
        and value.isprintable()
        and value == value.strip()
    )


def _bounded(value: Any) -> str:
    return value if _is_id(value) else ""


def _listed(audience: Any) -> tuple[Any, ...]:
    return tuple(audience) if isinstance(audience, list) else ()
