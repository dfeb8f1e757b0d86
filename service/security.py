"""Who may ask, and from where: one bearer token, a cookie for browsers, foreign hosts and origins refused.

The Host header must be one of ours (DNS rebinding), an Origin our own. Secrets are compared in constant time.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from itsdangerous import BadSignature, TimestampSigner
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.problems import problem_response
from tracer.clock import monotonic
from tracer.errors import ConfigError, RecordError

COOKIE: Final = "pm_session"
KNOWN: Final = "pm.known"
"""The key of the scope that says the request brought the serve token or its cookie."""
COMPLETE: Final = "pm.complete"
"""The key of a `http.response.start` that says the answer has all its headers: those of pages are left out."""
_COOKIE_AGE_S: Final = 12 * 3600
_OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_MIN_TOKEN: Final = 20
# The collector's calls bring tokens of their own, are limited by what waits, and may be larger than other bodies.
_OWN: Final = ("/traces", "/blobs")
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


_ADDED: Final = [
    (name.encode("ascii"), value.encode("ascii")) for name, value in (*_HEADERS.items(), ("cache-control", "no-store"))
]


def read_or_make_token(path: Path, *, new: bool = False) -> str:
    """The serve token in `path`; made (and the file with it) where there is none or `new` asks for another.

    Raises ConfigError: the file is readable by others, or holds no usable token. Raises RecordError: it cannot be
    written.
    """
    if not new:
        found = _read_token(path)
        if found is not None:
            return found
    token = f"pm_serve_{secrets.token_urlsafe(32)}"  # a prefix that redaction knows
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(token + "\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            aside.replace(path)
        else:
            os.link(aside, path)
            aside.unlink()
    except FileExistsError:
        aside.unlink(missing_ok=True)
        found = _read_token(path)  # another `pm serve` made it in the meantime
        if found is not None:
            return found
        raise
    except OSError as error:
        raise RecordError(
            f"cannot write the token file {str(path)!r}", why=str(error), next_step="choose another with --token-file"
        ) from error
    return token


def _read_token(path: Path) -> str | None:
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the token file {str(path)!r}", why=str(error)) from error
    if mode & 0o077:
        raise ConfigError(
            f"{str(path)!r} can be read by others", why=f"its mode is {mode & 0o777:o}", next_step=f"chmod 600 {path}"
        )
    if len(text) < _MIN_TOKEN or len(text.split()) != 1:
        raise ConfigError(f"{str(path)!r} holds no usable token", next_step="pm serve --new-token")
    return text


class RateLimit:
    """A bucket of requests that refills steadily; `take` answers the seconds to wait, 0 to go on."""

    def __init__(self, *, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._left = float(burst)
        self._at = monotonic()

    def take(self) -> float:
        now = monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._per_second
        self._left -= 1
        return 0.0


class OneTimeCodes:
    """Codes that open `/login?code=…` once, for the user who started the service."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def new(self) -> str:
        code = secrets.token_urlsafe(24)
        self._open.add(code)
        return code

    def redeem(self, given: str) -> bool:
        """Whether `given` is an unused code; it is used up then."""
        match = next((code for code in self._open if hmac.compare_digest(code.encode(), given.encode())), None)
        if match is None:
            return False
        self._open.discard(match)
        return True


class Gate:
    """ASGI middleware: host, origin, rate, size and credentials are checked before any route sees the request."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        codes: OneTimeCodes,
        hosts: Iterable[str] = (),
        rate: RateLimit | None = None,
        max_body: int = 4 << 20,
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = _LOOPBACK | {host.lower() for host in hosts}
        self._rate = rate or RateLimit(per_second=500, burst=2000)
        self._max_body = max_body
        self._signer = TimestampSigner(hmac.digest(token.encode(), b"pm browser session", "sha256"))
        self._codes = codes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        own = scope["path"].startswith(_OWN)
        answer = self._refusal(scope, own=own)
        if answer is not None:
            await answer(scope, receive, _with_headers(send))
            return
        passed = receive if own else _limited(receive, self._max_body)
        if scope["method"] == "HEAD" and not scope["path"].endswith("/events"):  # a stream has no end to wait for
            await self._head(scope, passed, send)
            return
        await self._app(scope, passed, _with_headers(send))

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as a GET would, without the body: what monitors and download tools ask first."""
        asked = {**scope, "method": "GET"}
        try:
            await self._app(asked, receive, _with_headers(_without_body(send)))
        finally:
            scope.update({name: value for name, value in asked.items() if name != "method"})

    def _refusal(self, scope: Scope, *, own: bool) -> Response | None:
        headers = first_headers(scope)
        host = headers.get(b"host", b"").decode("latin-1")
        if _hostname(host) not in self._hosts:
            return problem_response(403, "credentials", "the Host header names another host")
        origin = headers.get(b"origin")
        if origin is not None and _netloc(origin.decode("latin-1")) != host.lower():
            return problem_response(403, "credentials", "the request comes from another site")
        if own:
            scope[KNOWN] = self._known(headers)
            return None
        wait = self._rate.take()
        if wait:
            return problem_response(
                429, "limit", "too many requests", headers={"retry-after": str(max(1, round(wait)))}
            )
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length[:18]) > self._max_body:
            return problem_response(413, "limit", f"the body is over {self._max_body} bytes")
        path = scope["path"]
        if path == "/login":
            return self._login(scope)
        if path in _OPEN_PATHS or self._known(headers):
            return None
        return problem_response(
            401,
            "credentials",
            "this needs the serve token",
            next_step="send Authorization: Bearer with the token file's line, or open the link that pm serve printed",
            headers={"www-authenticate": "Bearer"},
        )

    def _known(self, headers: Mapping[bytes, bytes]) -> bool:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token):
            return True
        cookies = headers.get(b"cookie")
        if not cookies:
            return False
        # Browsers send the cookies of every port: SimpleCookie stops at the first that another program wrote freely.
        given_cookie = cookie_parser(cookies.decode("latin-1")).get(COOKIE, "")
        try:
            self._signer.unsign(given_cookie, max_age=_COOKIE_AGE_S)
        except BadSignature:
            return False
        return True

    def _login(self, scope: Scope) -> Response:
        given = parse_qs(scope.get("query_string", b"").decode("ascii", "replace")).get("code", [""])[0]
        if scope["method"] != "GET" or not self._codes.redeem(given):
            return problem_response(
                403, "credentials", "this link is used up", next_step="start pm serve again for a new one"
            )
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(
            COOKIE,
            self._signer.sign(secrets.token_urlsafe(8)).decode(),
            max_age=_COOKIE_AGE_S,
            httponly=True,
            samesite="strict",
            path="/",
        )
        return response


def first_headers(scope: Scope) -> dict[bytes, bytes]:
    """The request's headers by name in lower case; of those that came twice, the first."""
    return dict(reversed(scope["headers"]))


@lru_cache(256)
def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _netloc(origin: str) -> str:
    """The host and port of an origin, "" where it names none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and COMPLETE not in message:
            there = {name.lower() for name, _value in message["headers"]}
            message["headers"] = [*message["headers"], *(each for each in _ADDED if each[0] not in there)]
        await send(message)

    return sending


def _without_body(send: Send) -> Send:
    async def sending(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return sending


def _limited(receive: Receive, max_body: int) -> Receive:
    """`receive`, refusing a body that grows past `max_body` bytes whatever its Content-Length said."""
    seen = 0

    async def receiving() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > max_body:
            raise HTTPException(413, f"the body is over {max_body} bytes")
        return message

    return receiving
