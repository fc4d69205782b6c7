"""Tokens, good and bad, made by hand: what no library would agree to make is needed too."""

import base64
import hashlib
import hmac
import json
import time

__all__ = ["SECRET", "good_token", "headers", "signed", "token"]

SECRET = "correct-secret-32-bytes-long-xxxx"
_HASHES = {"HS256": "sha256", "HS384": "sha384", "HS512": "sha512"}


def _encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(claims, secret=SECRET, alg="HS256", **head):
    """A token as its parts say, right or wrong; without a signature for other algorithms."""
    parts = [{"alg": alg, "typ": "JWT", **head}, claims]
    return signed(*(json.dumps(part).encode() for part in parts), secret, alg)


def signed(head, claims, secret=SECRET, alg="HS256"):
    """A token of these bytes, whatever they are."""
    body = f"{_encode(head)}.{_encode(claims)}"
    if alg not in _HASHES:
        return body + "."
    digest = getattr(hashlib, _HASHES[alg])
    return (
        f"{body}.{_encode(hmac.new(secret.encode(), body.encode(), digest).digest())}"
    )


def good_token(user="u1", **more):
    """A token that is good for a minute."""
    return token({"id": user, "exp": int(time.time()) + 60, **more})


def headers(text=None, **more):
    """Headers of a call with this token, or with a good one."""
    return {"Authorization": f"Bearer {text or good_token()}", **more}
