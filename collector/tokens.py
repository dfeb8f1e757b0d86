"""Tokens of the collector: drawn at random, shown once, kept only as hashes, revocable.

They are 256 random bits, so a plain SHA-256 is enough and a look-up by hash tells nothing by its timing. A look-up
is cached for two seconds: so long may a revoked token still work in another process.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final, Literal, NamedTuple

from collector.store.port import TokenRow, TraceStore
from tracer.clock import monotonic, new_id, now_epoch_ms
from tracer.errors import NotFoundError

_BELIEVED_S: Final = 2.0
_MOST_BELIEVED: Final = 4096
_LONGEST: Final = 200


class Access(NamedTuple):
    """What a token opens: one trace, or with `trace_id` None everything."""

    token_id: str
    trace_id: str | None

    def opens(self, trace_id: str) -> bool:
        """Whether calls about `trace_id` are allowed."""
        return self.trace_id is None or self.trace_id == trace_id


ADMIN: Final = Access("", None)
"""Whoever got in by other means, such as the serve token."""


class Issued(NamedTuple):
    """A new token, and the only time its text is known."""

    token_id: str
    token: str


def draw_token(kind: Literal["admin", "ingest"]) -> str:
    """A fresh token: `pm_admin_…` or `pm_ingest_…`, 43 random characters."""
    return f"pm_{kind}_{secrets.token_urlsafe(32)}"


def hash_token(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class Tokens:
    """The tokens of one store."""

    def __init__(self, store: TraceStore) -> None:
        self._store = store
        self._believed: dict[str, tuple[float, Access]] = {}

    async def access(self, token: str) -> Access | None:
        """What `token` opens; None for an unknown or revoked one."""
        if not token or len(token) > _LONGEST:
            return None
        hashed = hash_token(token)
        known = self._believed.get(hashed)
        now = monotonic()
        if known is not None and known[0] > now:
            return known[1]
        row = await self._store.find_token(hashed)
        if row is None or row.revoked_at_ms is not None:
            self._believed.pop(hashed, None)
            return None
        access = Access(row.token_id, row.trace_id if row.kind == "ingest" else None)
        if len(self._believed) >= _MOST_BELIEVED:
            self._believed.clear()
        self._believed[hashed] = (now + _BELIEVED_S, access)
        return access

    async def new_admin(self, label: str) -> Issued:
        """Make an admin token; its text is in the answer and nowhere else."""
        return await self._issue("admin", None, label)

    async def new_ingest(self, trace_id: str, label: str) -> Issued:
        """Make a further ingest key for a trace."""
        return await self._issue("ingest", trace_id, label)

    async def _issue(self, kind: Literal["admin", "ingest"], trace_id: str | None, label: str) -> Issued:
        token, token_id = draw_token(kind), new_id()
        row = TokenRow(token_id, kind, hash_token(token), trace_id, label=label, created_at_ms=now_epoch_ms())
        await self._store.add_token(row)
        return Issued(token_id, token)

    async def revoke(self, token_id: str) -> bool:
        """Make a token worthless; False where it was before."""
        self._believed.clear()
        if await self._store.revoke_token(token_id, now_epoch_ms()):
            return True
        if all(row.token_id != token_id for row in await self._store.list_tokens()):
            raise NotFoundError(f"no token {token_id!r}", next_step="pm admin tokens list")
        return False

    async def listed(self) -> tuple[TokenRow, ...]:
        """All tokens, oldest first."""
        return await self._store.list_tokens()
