"""Opens the collector of a state directory: its store, its blobs and its redactor, as the settings name them."""

from __future__ import annotations

import hmac
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from collector.collector import Collector
from collector.config import collector_settings
from collector.store.blobs import CollectorBlobs, FolderBlobs
from collector.store.port import TraceStore
from collector.store.sqlite.store import open_sqlite
from tracer.errors import needs_extra
from tracer.redaction.engine import build_redactor
from tracer.settings.layers import Settings
from tracer.statedir import StateDir

_LOG: Final = logging.getLogger("pm.collector")


@asynccontextmanager
async def open_collector(
    state_dir: StateDir, settings: Settings, *, environ: Mapping[str, str]
) -> AsyncIterator[Collector]:
    """The collector of a state directory, while the block runs."""
    state_dir.ensure()
    chosen = collector_settings(settings)
    blobs = open_blobs(chosen.blobs, default=state_dir.root / "collector-blobs", environ=environ)
    redactor = build_redactor(
        state_dir=state_dir.root,
        environ=environ,
        extra_names=settings.get("redaction.extra_names") or (),
        extra_rules=settings.family("redaction.extra_rules"),
    )
    async with _open_store(state_dir, chosen.database) as store:
        mark = hmac.digest(redactor.parts.key, b"pm collector", "sha256")
        if is_postgres(chosen.database) and await store.secret("redaction", mark) != mark:
            _LOG.warning(
                "this database was filled with another redaction.key than %s: secrets get other placeholders, and what "
                "is sent to two servers is two things; copy the file from the first server's state directory",
                state_dir.root / "redaction.key",
            )
        yield Collector(store=store, blobs=blobs, redactor=redactor, settings=chosen)


def shown_store(state_dir: StateDir, settings: Settings) -> str:
    """Where captures and tokens are kept, for people: the SQLite file, or the database's address without a password."""
    database = collector_settings(settings).database
    if not is_postgres(database):
        return f"SQLite {_file(state_dir, database)}"
    parts = urlsplit(database)
    host = parts.netloc.rpartition("@")[2] or ",".join(parse_qs(parts.query).get("host", ()))
    return f"PostgreSQL {host}{parts.path}"


def is_postgres(database: str) -> bool:
    """Whether `collector.database` names a PostgreSQL."""
    return database.startswith(("postgresql://", "postgres://"))


def _file(state_dir: StateDir, database: str) -> Path:
    return Path(database).expanduser() if database else state_dir.root / "collector.sqlite"


async def check_places(state_dir: StateDir, settings: Settings, *, environ: Mapping[str, str]) -> str:
    """What database and blobs are, once both have answered; nothing is made. Raises what their use would."""
    chosen = collector_settings(settings)
    store, folder = shown_store(state_dir, settings), state_dir.root / "collector-blobs"
    if is_postgres(chosen.database):
        from collector.store.postgres.jobs import check_database  # psycopg and pgqueuer (700 ms)

        store += f" ({await check_database(chosen.database)})"
    else:
        await FolderBlobs(_file(state_dir, chosen.database).parent).check()
    await open_blobs(chosen.blobs, default=folder, environ=environ).check()
    return f"{store}, blobs in {chosen.blobs or folder}"


@asynccontextmanager
async def _open_store(state_dir: StateDir, database: str) -> AsyncIterator[TraceStore]:
    if is_postgres(database):
        from collector.store.postgres.jobs import enqueue, install_queue  # psycopg and pgqueuer (700 ms)

        await install_queue(database)
        from collector.store.postgres.store import open_postgres  # once they are known to be there

        async with open_postgres(database, on_finalize=enqueue) as store:
            yield store
    else:
        async with open_sqlite(_file(state_dir, database)) as store:
            yield store


def open_blobs(place: str, *, default: Path, environ: Mapping[str, str]) -> CollectorBlobs:
    """The blob store at `place`: a folder, an `s3://bucket/prefix` URL (`AWS_…` variables), or `default` if empty."""
    if "://" not in place:
        return FolderBlobs(Path(place).expanduser() if place else default)
    with needs_extra("s3", wanted_by="a bucket in collector.blobs"):
        from collector.store.bucket import open_bucket  # obstore: 25 ms, for bucket users alone
    return open_bucket(place, environ=environ)
