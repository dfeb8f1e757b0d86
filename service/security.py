"""Who may ask, and from where: one bearer token, a cookie for browsers, foreign hosts and origins refused.

The Host header must be one of ours (DNS rebinding), an Origin our own. Secrets are compared in constant time.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
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

WANTED: Final = "pm.wanted"
"""The key of the scope that holds what a browser asked for that has to sign in first."""
KNOWN: Final = "pm.known"
"""The key of the scope that says the request brought the serve token or its cookie."""
COMPLETE: Final = "pm.complete"
"""The key of a `http.response.start` that says the answer has all its headers: those of pages are left out."""
_COOKIE_AGE_S: Final = 12 * 3600
_LINK_AGE_S: Final = 3600
_LOOK_S = 1.0
_HEALTH: Final = frozenset({"/healthz", "/readyz"})
_OPEN_PATHS: Final = _HEALTH | {"/static/pm.css"}
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_MIN_TOKEN: Final = 20
_MAX_BODY: Final = 4 << 20
# The collector's calls bring tokens of their own, are limited by what waits, and may be larger than other bodies.
_OWN: Final = ("/traces", "/blobs", "/revocations", "/metrics")
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    # Not "no-referrer": a form would be sent with the origin "null", which is refused as a foreign one.
    "referrer-policy": "same-origin",
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


class Session:
    """The cookie of a signed-in browser: signed, twelve hours, under a name of its own for each token.

    Browsers send the cookies of every port of a host: two projects' services would sign each other's users out. With
    the token's `file` another token is taken up within a second of its being there, and what was signed before is void.
    """

    def __init__(self, token: str, *, file: Path | None = None) -> None:
        self._file = file
        self._look_at = 0.0
        self._take(token)

    def _take(self, token: str) -> None:
        self._token = token.encode()
        self._signer = TimestampSigner(hmac.digest(self._token, b"pm browser session", "sha256"))
        self._links = TimestampSigner(hmac.digest(self._token, b"pm link", "sha256"))
        self._used: set[str] = set()
        self.cookie = f"pm_session_{hmac.digest(self._token, b'pm cookie name', 'sha256').hex()[:8]}"

    def _look(self) -> None:
        """Take up another token that `pm serve --new-token` or `pm serve link --new-token` has made meanwhile."""
        if self._file is None or (now := monotonic()) < self._look_at:
            return
        self._look_at = now + _LOOK_S
        with suppress(ConfigError):  # unreadable for the moment: the one that is known stays
            if (found := _read_token(self._file)) and found.encode() != self._token:
                self._take(found)

    def is_token(self, given: bytes) -> bool:
        """Whether it is the serve token, compared in constant time."""
        self._look()
        return hmac.compare_digest(given.strip(), self._token)

    def is_known(self, cookies: bytes) -> bool:
        """Whether one of these cookies is ours and not too old."""
        self._look()
        # SimpleCookie stops at the first that another program wrote freely.
        given = cookie_parser(cookies.decode("latin-1")).get(self.cookie, "")
        try:
            self._signer.unsign(given, max_age=_COOKIE_AGE_S)
        except BadSignature:
            return False
        return True

    def link_code(self) -> str:
        """A code that opens `/login?code=…` once within the hour; whoever has the token can make one."""
        return self._links.sign(secrets.token_urlsafe(16)).decode()

    def redeem(self, given: str) -> bool:
        """Whether `given` is such a code and was not used yet; it is used up then."""
        self._look()
        try:
            self._links.unsign(given, max_age=_LINK_AGE_S)
        except BadSignature:
            return False
        if given in self._used:
            return False
        self._used.add(given)
        return True

    def begin(self, target: str, *, secure: bool) -> Response:
        """Send the browser on to `target`, signed in; a target that is no path of ours gives way to the first page."""
        own = target.startswith("/") and not target.startswith(("//", "/\\"))
        response = RedirectResponse(target if own else "/", status_code=303)
        response.set_cookie(
            self.cookie,
            self._signer.sign(secrets.token_urlsafe(8)).decode(),
            max_age=_COOKIE_AGE_S,
            httponly=True,
            samesite="strict",
            secure=secure,
            path="/",
        )
        return response


class Gate:
    """ASGI middleware: host, origin, rate, size and credentials are checked before any route sees the request."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        session: Session,
        hosts: Iterable[str] = (),
    ) -> None:
        self._app = app
        self._session = session
        self._hosts = _LOOPBACK | {host.lower() for host in hosts}
        self._everywhere = bool(self._hosts & _EVERYWHERE)
        self._rate = RateLimit(per_second=500, burst=2000)

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
        passed = receive if own else _limited(receive)
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
        if scope["path"] not in _HEALTH and not self._is_ours(_hostname(host)):  # a probe may call by any name
            return problem_response(
                403,
                "credentials",
                "the Host header names another host",
                next_step="if others reach this service by that name: pm config set service.hosts NAME, and restart it",
            )
        origin = headers.get(b"origin")
        if origin is not None and not _is_own(origin.decode("latin-1"), host, scope):
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
        if length.isdigit() and int(length[:18]) > _MAX_BODY:
            return problem_response(413, "limit", f"the body is over {_MAX_BODY} bytes")
        path = scope["path"]
        if path == "/login" and scope["method"] in {"GET", "HEAD"}:
            return self._login(scope)
        if path in _OPEN_PATHS or path == "/login" or self._known(headers):
            return None
        if scope["method"] == "GET" and b"text/html" in headers.get(b"accept", b""):
            query = scope.get("query_string", b"").decode("latin-1")
            scope[WANTED] = path + (f"?{query}" if query else "")
            scope.update({"path": "/sign-in", "raw_path": b"/sign-in", "query_string": b""})
            return None
        return problem_response(
            401,
            "credentials",
            "this needs the serve token",
            next_step="send Authorization: Bearer with the token file's line, or open the link that pm serve printed",
            headers={"www-authenticate": "Bearer"},
        )

    def _is_ours(self, name: str) -> bool:
        """Whether the Host header may be this; where all addresses are listened on, any address: none is rebound."""
        return name in self._hosts or (self._everywhere and _is_address(name))

    def _known(self, headers: Mapping[bytes, bytes]) -> bool:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer" and self._session.is_token(given):
            return True
        cookies = headers.get(b"cookie")
        return cookies is not None and self._session.is_known(cookies)

    def _login(self, scope: Scope) -> Response | None:
        given = parse_qs(scope.get("query_string", b"").decode("ascii", "replace")).get("code", [""])[0]
        if not given:
            scope.update({"path": "/sign-in", "raw_path": b"/sign-in"})
            return None
        if scope["method"] != "GET" or not self._session.redeem(given):
            used = "this link is used up"
            return problem_response(403, "credentials", used, next_step="pm serve link prints another")
        return self._session.begin("/", secure=scope.get("scheme") == "https")


def first_headers(scope: Scope) -> dict[bytes, bytes]:
    """The request's headers by name in lower case; of those that came twice, the first."""
    return dict(reversed(scope["headers"]))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@lru_cache(256)
def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_own(origin: str, host: str, scope: Scope) -> bool:
    """Whether a page of ours sent it; under TLS one that came without is not: anybody on the way could have made it."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.netloc.lower() == host.lower() and (scope.get("scheme") != "https" or parts.scheme == "https")


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


def _limited(receive: Receive) -> Receive:
    """`receive`, refusing a body that grows too large whatever its Content-Length said."""
    seen = 0

    async def receiving() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > _MAX_BODY:
            raise HTTPException(413, f"the body is over {_MAX_BODY} bytes")
        return message

    return receiving
