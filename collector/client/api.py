"""Client of the collector's HTTP API: one method per request, every refusal an error of the tree.

Transient failures (no connection, 429, 503, 5xx) are retried for `patience_s` in all, as `Retry-After` says.
Keys go only to the address they are for, and never over plain HTTP to another machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import orjson

from tracer.blobs import text_of
from tracer.clock import monotonic, now_epoch_ms
from tracer.errors import (
    ConfigError,
    ConflictError,
    CredentialsError,
    LimitError,
    NotFoundError,
    PmError,
    UnavailableError,
    UsageError,
)
from tracer.redaction.cuts import beginning

if TYPE_CHECKING:
    import httpx2

_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may be answered well a little later."""
_SAFE: Final = "nothing is lost: it stays in the spool"
_LONGEST_WAIT_S: Final = 60.0


class TooLargeError(LimitError):
    """413: an event, a blob or the whole trace is larger than the collector takes."""


class UnknownBlobError(UsageError):
    """422: a blob that is named is not there yet."""


def retry_after_s(headers: Mapping[str, str], *, default: float) -> float:
    """Seconds to wait before the next try: the server's word where it is a number, at most a minute."""
    try:
        told = float(headers.get("retry-after", ""))
    except ValueError:
        return default
    return min(max(told, 0.0), _LONGEST_WAIT_S)


def unreachable(address: str, error: Exception) -> UnavailableError:
    """Nobody answered."""
    return UnavailableError(
        f"the collector at {address} cannot be reached",
        why=f"{str(error) or type(error).__name__}; {_SAFE}",
        next_step="pm serve on its machine, or another address: --server URL",
    )


def refusal(status: int, body: bytes, *, address: str, doing: str, keyless: bool = False) -> PmError:
    """The error for an answer of 400 and above; the collector's words (RFC 9457, else short text) are its `why`.

    `keyless`: nobody gave a key.
    """
    problem = _problem(body)
    why = str(problem.get("detail") or "") or f"status {status}"
    given = str(problem.get("next") or "")
    what = f"the collector refused {doing}"
    if status in {401, 403}:
        # The collector's words are for who runs it, and another reads them: one who gets tokens from there.
        where = f"{given or 'pm admin tokens new, on the server, makes another'}; then {_GIVE_KEY}"
        return CredentialsError(
            f"there is no key for the collector at {address}"
            if keyless
            else f"the collector at {address} refused the key",
            why="it answers to nobody without one, and whoever runs it makes them" if keyless else why,
            next_step=_GIVE_KEY if keyless else where if status == 401 else given or where,
        )
    if status in {404, 410}:
        return NotFoundError(f"{what}: it does not know the trace", why=why, next_step=given or "pm capture list")
    if status == 409:
        return ConflictError(f"{what}: it has something else in that place", why=why, next_step=given or _CONFLICT)
    if status == 413:
        return TooLargeError(
            f"{what}: too large", why=why, next_step=given or "raise the collector's limit, or send less"
        )
    if status in {400, 405, 415, 422}:
        told = problem.get("errors")
        rules = [each.get("rule") for each in told if isinstance(each, dict)] if isinstance(told, list) else []
        return (UnknownBlobError if "unknown_blob" in rules else UsageError)(
            f"{what}: it is not valid", why=why, next_step=given or "correct what is named, and send it again"
        )
    if status in {429, 503}:
        return UnavailableError(f"the collector at {address} is busy", why=f"{why}; {_SAFE}", next_step=given or _LATER)
    return UnavailableError(f"the collector at {address} failed", why=f"{why}; {_SAFE}", next_step=given or _LATER)


_GIVE_KEY: Final = "PM_CAPTURE_TOKEN=… or --token-file FILE here"
_CONFLICT: Final = "pm capture get TRACE --view metadata shows what the collector has"
_LATER: Final = "try again in a while: pm capture append TRACE sends what is left"


def _problem(body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = beginning(body.decode("utf-8", "replace").strip(), 200)
        return {"detail": text} if text and text.isprintable() else {}
    if not isinstance(found, dict):
        return {}
    if "detail" in found and not isinstance(found["detail"], str):
        found["detail"] = beginning(orjson.dumps(found["detail"]).decode(), 500)
    return found


_FIRST_PAUSE_S: Final = 0.25
_HELD: Final = 16 << 20
_PIECE: Final = 1 << 20
_LONGEST_PAUSE_S: Final = 8.0
_TIMEOUT_S: Final = 60.0
_ABSENT_S: Final = 2.0
_PAGE: Final = 500


def checked_address(address: str, *, allow_http: bool = False) -> str:
    """`address` without a trailing slash; ConfigError: no http(s), a password, or plain HTTP to another machine."""
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(
            f"{address!r} is no collector's address", why="it begins with http:// or https://", next_step=_SET_SERVER
        )
    if parts.username or parts.password:
        raise ConfigError("the collector's address holds a password", next_step="use PM_CAPTURE_TOKEN for the key")
    if parts.scheme == "http" and not allow_http and not _is_loopback(parts.hostname):
        raise ConfigError(
            f"{address!r} would send captures unencrypted to another machine",
            next_step="use https:// or a tunnel to loopback; capture.allow_http = true where the network is yours",
        )
    return address.rstrip("/")


_SET_SERVER: Final = "PM_CAPTURE_SERVER=http://127.0.0.1:8765   or   pm config set capture.server ADDRESS"


class CollectorClient:
    """One collector, an async context manager. `token` is an admin token; calls about a trace take its ingest key."""

    def __init__(self, address: str, *, token: str = "", patience_s: float = 20.0, allow_http: bool = False) -> None:
        self.address = checked_address(address, allow_http=allow_http)
        self.token = token
        self.patience_s = patience_s
        self._http: httpx2.AsyncClient  # within `async with`

    async def __aenter__(self) -> Self:
        import httpx2  # 180 ms: only commands that talk to a collector pay it

        parts = urlsplit(self.address)
        self._http = httpx2.AsyncClient(
            base_url=self.address,
            timeout=_TIMEOUT_S,
            # a proxy or netrc entry of the user's must not see the key of a loopback service
            trust_env=not _is_loopback(parts.hostname or ""),
            verify=parts.scheme == "https",  # reading the certificates costs 100 ms, and plain HTTP has none
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def create(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """POST /traces: {trace_id, ingest_key}; with a `trace_id` of our own it may be repeated."""
        return await self._json("POST", "/traces", key=self.token, body=orjson.dumps(request), doing="the new trace")

    async def append(self, trace_id: str, events: Sequence[bytes], *, key: str) -> dict[str, Any]:
        """POST /traces/{id}/events, events as JSON bytes: {accepted, duplicates, seq_last, gaps}."""
        body = b'{"sent_at_ms":%d,"events":[%s]}' % (now_epoch_ms(), b",".join(events))
        path = f"/traces/{trace_id}/events"
        return await self._json("POST", path, key=key, body=body, doing=f"{len(events)} events")

    async def finalize(self, trace_id: str, final_state: Mapping[str, Any] | None, *, key: str) -> dict[str, Any]:
        """POST /traces/{id}/finalize; harmless when repeated."""
        said: dict[str, Any] = {"sent_at_ms": now_epoch_ms()}
        if final_state is not None:
            said["final_state"] = final_state
        path = f"/traces/{trace_id}/finalize"
        return await self._json("POST", path, key=key, body=orjson.dumps(said), doing="the end of the trace")

    async def metadata(self, trace_id: str, *, key: str) -> dict[str, Any]:
        """GET /traces/{id}?view=metadata."""
        return await self._json("GET", f"/traces/{trace_id}?view=metadata", key=key, doing="the question for the trace")

    async def listing(self) -> AsyncIterator[dict[str, Any]]:
        """GET /traces: what the collector has, newest first, page after page."""
        after = ""
        while True:
            path = f"/traces?limit={_PAGE}{f'&after={after}' if after else ''}"
            found = await self._json("GET", path, key=self.token, doing="the list")
            for trace in found.get("traces") or []:
                if isinstance(trace, dict):
                    yield trace
            following = found.get("next")
            if not isinstance(following, str) or following == after:
                return
            after = following

    async def delete(self, trace_id: str, *, key: str, erase_now: bool = False) -> None:
        """DELETE /traces/{id}: all but its id and the time; harmless when repeated."""
        path = f"/traces/{trace_id}{'?erase=now' if erase_now else ''}"
        await self._answer("DELETE", path, key=key, body=b"", headers={}, doing="the deletion", or_token=True)

    async def withdraw(self, trace_id: str, flags: Sequence[str], *, key: str) -> dict[str, Any]:
        """POST /traces/{id}/consent: what is consented to afterwards."""
        path, body = f"/traces/{trace_id}/consent", orjson.dumps({"withdraw": list(flags)})
        return await self._json("POST", path, key=key, body=body, doing="the withdrawal", or_token=True)

    async def put_blob(self, blob_id: str, path: Path, *, key: str) -> None:
        """PUT /blobs/{sha256}: the file's bytes."""
        size = path.stat().st_size
        if size > _HELD:  # not held in memory; as long as that is no text that a collector takes
            body: bytes | Path = path
            headers = {"content-type": "application/octet-stream", "content-length": str(size)}
        else:
            body = await asyncio.to_thread(path.read_bytes)
            headers = {"content-type": "application/octet-stream" if text_of(body) is None else "text/plain"}
        await self._answer(
            "PUT", f"/blobs/{blob_id}", key=key, body=body, headers=headers, doing=f"a blob of {size:,} bytes"
        )

    @asynccontextmanager
    async def get(self, trace_id: str, *, key: str, view: str, blobs: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """GET /traces/{id}: the document in pieces; nothing of it is held here."""
        import httpx2

        path = f"/traces/{trace_id}?view={view}&blobs={blobs}"
        doing = "the question for the trace"
        try:
            for each in (key, self.token):
                async with self._http.stream("GET", path, headers=_bearer(each)) as answer:
                    if self._goes_by_token(answer.status_code, each):
                        continue
                    if answer.status_code >= 400:
                        said = await answer.aread()
                        raise refusal(answer.status_code, said, address=self.address, doing=doing, keyless=not each)
                    yield answer.aiter_bytes()
                    return
        except httpx2.TransportError as error:
            raise unreachable(self.address, error) from error

    async def _json(
        self, method: str, path: str, *, key: str, body: bytes = b"", doing: str, or_token: bool = False
    ) -> dict[str, Any]:
        headers = {"content-type": "application/json"} if body else {}
        answer = await self._answer(method, path, key=key, body=body, headers=headers, doing=doing, or_token=or_token)
        try:
            found = orjson.loads(answer) if answer else {}
        except orjson.JSONDecodeError as error:
            raise UnavailableError(
                f"what answers at {self.address} is no collector", why="its answer is no JSON", next_step=_SET_SERVER
            ) from error
        return found if isinstance(found, dict) else {}

    def _goes_by_token(self, status: int, key: str) -> bool:
        """Whether the call is to be made again by the token, since the key of the trace has ended."""
        return status == 401 and bool(self.token) and key != self.token

    async def _answer(
        self,
        method: str,
        path: str,
        *,
        key: str,
        body: bytes | Path,
        headers: Mapping[str, str],
        doing: str,
        or_token: bool = False,
    ) -> bytes:
        """The answer's body; passing trouble is waited out. `body` may be a file.

        `or_token`: where the trace's own key has ended, it goes by the token.
        """
        import httpx2

        began, pause = monotonic(), _FIRST_PAUSE_S
        while True:
            until = began + self.patience_s
            try:
                content = _pieces(body) if isinstance(body, Path) else body
                answer = await self._http.request(method, path, content=content, headers={**headers, **_bearer(key)})
            except httpx2.TransportError as error:
                trouble: Exception = unreachable(self.address, error)
                wait = pause
                if isinstance(error, httpx2.ConnectError):  # nobody is there: a start-up is waited for, no more
                    until = began + min(self.patience_s, _ABSENT_S)
            else:
                if answer.status_code < 400:
                    return answer.content
                if or_token and self._goes_by_token(answer.status_code, key):
                    key = self.token
                    continue
                said = answer.content
                trouble = refusal(answer.status_code, said, address=self.address, doing=doing, keyless=not key)
                if answer.status_code not in _PASSING:
                    raise trouble
                wait = retry_after_s(answer.headers, default=pause)
            if monotonic() + wait > until:
                raise trouble
            await asyncio.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE_S)


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


def _bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
