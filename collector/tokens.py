"""Tokens of the collector: drawn at random, shown once, kept only as hashes, revocable.

They are 256 random bits, so a plain SHA-256 is enough and a look-up by hash tells nothing by its timing. A look-up
is cached for two seconds: so long may a revoked token still work in another process.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from collector.errors import ForbiddenError
from collector.store.port import TokenRow, TraceStore
from tracer.clock import from_epoch_ms, monotonic, new_id, now_epoch_ms
from tracer.errors import NotFoundError, UsageError

_BELIEVED_S: Final = 2.0
_MOST_BELIEVED: Final = 4096
_LONGEST: Final = 200
_MOST_DAYS: Final = 36_500
_NEVER_MS: Final = 1 << 62


Right = Literal["create", "append", "read", "list", "check", "withdraw", "delete", "measure"]
Role = Literal["contributor", "reviewer", "exporter", "metrics", "operator"]
RIGHTS: Final[Mapping[str, frozenset[Right]]] = {
    "contributor": frozenset({"create", "append", "read", "list", "withdraw", "delete"}),
    "reviewer": frozenset({"read", "list", "check"}),
    "exporter": frozenset({"read", "list"}),
    "metrics": frozenset({"measure"}),
    "operator": frozenset({"create", "append", "read", "list", "check", "withdraw", "delete", "measure"}),
}
"""What each role may do, to the traces that its token's developer and project leave it; `measure` is of the service."""
_OF_A_KEY: Final[frozenset[Right]] = frozenset({"append", "read", "check", "withdraw", "delete"})


def _new(role: str) -> str:
    """The command that makes a token of the role."""
    return f"pm admin tokens new --role {role}{' --developer ID' if role == 'contributor' else ''}"


def for_right(right: Right) -> str:
    """Whose tokens have the right, and how one is made that may do the least beside it."""
    roles = sorted((role for role, rights in RIGHTS.items() if right in rights), key=lambda role: len(RIGHTS[role]))
    return f"a token with the role {' or '.join(roles)} may: on the collector, {_new(roles[0])}"


class Access(NamedTuple):
    """What a token opens: one trace (an ingest key), else what its role may do to its developer's and project's."""

    token_id: str
    trace_id: str | None
    role: str = "operator"
    developer: str = ""
    project: str = ""

    def may(self, right: Right) -> bool:
        """Whether its role has the right at all."""
        if right == "measure" and self.is_bound:
            return False
        return right in (_OF_A_KEY if self.trace_id is not None else RIGHTS.get(self.role, frozenset()))

    @property
    def is_bound(self) -> bool:
        """Whether it is held to some traces."""
        return self.trace_id is not None or bool(self.developer or self.project)

    @property
    def is_operator(self) -> bool:
        """Whether it is an operator's own."""
        return self.trace_id is None and self.role == "operator"

    @property
    def held_to(self) -> str:
        """What it is bound to, in words."""
        held = {"trace": self.trace_id, "developer": self.developer, "project": self.project}
        return ", ".join(f"{name} {value}" for name, value in held.items() if value)

    @property
    def another(self) -> str:
        """How a token is made that may do the same to other traces."""
        role = self.role if self.trace_id is None else "contributor"
        held = " --project REPO_ID" if self.project else ""
        of = " --developer ID" if self.developer and role != "contributor" else ""
        return f"a token with the role {role} for it: on the collector, {_new(role)}{of}{held}"

    def opens(self, trace_id: str, metadata: Mapping[str, Any]) -> bool:
        """Whether the trace with this metadata is among its traces."""
        developer, project = metadata.get("developer", {}), metadata.get("repo", {})
        return (
            self.trace_id in {None, trace_id}
            and self.developer in {"", developer.get("developer_id")}
            and self.project in {"", project.get("repo_id")}
        )

    def check_opens(self, trace_id: str, metadata: Mapping[str, Any]) -> None:
        """Raise ForbiddenError where the trace is not among its traces."""
        if not self.opens(trace_id, metadata):
            why = f"trace {trace_id} is another's"
            raise ForbiddenError(f"this token is held to {self.held_to}", why=why, next_step=self.another)

    def check_right(self, right: Right, trace_id: str | None) -> None:
        """Raise ForbiddenError where the role has no such right, or one of its traces is to be named."""
        if not self.may(right):
            held = "held to some traces" if right in RIGHTS.get(self.role, ()) else f"with the role {self.role}"
            who = f"a token {held}" if self.trace_id is None else "an ingest key"
            what = "read the metrics" if right == "measure" else f"{right} traces"
            raise ForbiddenError(f"{who} may not {what}", next_step=for_right(right))
        if self.is_bound and self.trace_id is None and right not in {"create", "list"} and trace_id is None:
            raise ForbiddenError("this token opens some traces alone", next_step="name the trace: ?trace=ID")


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


def check_days(days: int | None) -> None:
    """Raise UsageError where a token cannot end after so many days."""
    if days is not None and not 1 <= days <= _MOST_DAYS:
        why = f"a token ends after 1 to {_MOST_DAYS:,} days, or never"
        raise UsageError(
            f"--expires {days} is no number of days to come", why=why, next_step="--expires 90, or leave it out"
        )


def _end_of(days: int | None) -> int | None:
    check_days(days)
    return None if days is None else now_epoch_ms() + days * 86_400_000


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
        if row is None or row.revoked_at_ms is not None or (row.expires_at_ms or _NEVER_MS) <= now_epoch_ms():
            self._believed.pop(hashed, None)
            return None
        trace_id = row.trace_id if row.kind == "ingest" else None
        access = Access(row.token_id, trace_id, row.role, row.developer, row.project)
        if len(self._believed) >= _MOST_BELIEVED:
            self._believed.clear()
        self._believed[hashed] = (now + _BELIEVED_S, access)
        return access

    async def refusal(self, token: str) -> str:
        """Why `token` opens nothing; who holds one that ended may know it."""
        row = await self._store.find_token(hash_token(token))
        if row is None:
            return "this token is unknown here: mistyped, or made for another collector"
        if row.revoked_at_ms is not None:
            return f"this token was revoked on {from_epoch_ms(row.revoked_at_ms)[:10]}"
        return f"this token ended on {from_epoch_ms(row.expires_at_ms or 0)[:10]}"

    async def new_admin(
        self, label: str, *, role: Role = "operator", developer: str = "", project: str = "", days: int | None = None
    ) -> Issued:
        """Make a token of a role; its text is in the answer and nowhere else. It ends after `days`, None: never.

        Raises UsageError: a contributor without a developer, who would own everybody's traces or none; metrics of
        some traces, which are not counted; days that are none to come, or more than a hundred years.
        """
        if role == "metrics" and (developer or project):
            raise UsageError("a token for metrics is held to no developer or project", why="it opens no trace")
        if role == "contributor" and not developer:
            raise UsageError("a contributor's token needs --developer", why="it opens that developer's traces alone")
        ends = _end_of(days)
        return await self._issue("admin", label, role=role, developer=developer, project=project, expires_at_ms=ends)

    async def new_ingest(self, trace_id: str, label: str, *, days: int | None = None) -> Issued:
        """Make a further ingest key for a trace; it ends as `new_admin` says."""
        return await self._issue("ingest", label, trace_id=trace_id, expires_at_ms=_end_of(days))

    async def _issue(self, kind: Literal["admin", "ingest"], label: str, **held: Any) -> Issued:
        token, token_id = draw_token(kind), new_id()
        row = TokenRow(token_id, kind, hash_token(token), label=label, created_at_ms=now_epoch_ms(), **held)
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
