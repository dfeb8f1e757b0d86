"""Stores and spools as the version before the modules moved left them: they open, verify and are sent.

`data/` was written by that version: the same recorded bug fix in both databases, materialized, and a recording that
was kept and not sent.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tarfile
from pathlib import Path

import psycopg
import pytest

from collector.client.api import CollectorClient
from collector.client.send import send_spool
from collector.client.spool import captures_folder, find_spool
from collector.collector import Collector
from collector.final.trace_source import StoreSource
from collector.final.verify_session import Report, stored_document_agrees, verify_source
from tests.collector.final.collecting import a_collector
from tests.service.support import TOKEN, serving
from tests.support.postgres import postgres_dsn, postgres_server

__all__ = ["postgres_dsn", "postgres_server"]

_DATA = Path(__file__).with_name("data")
STORED = "43fdca48-ce03-5907-8627-ecd96b6ce945"
SPOOLED = "72a7e5ff-1d97-4846-a522-de22d8fbd3c2"


async def verified(collector: Collector, trace_id: str) -> Report:
    source = await StoreSource.open(trace_id, store=collector.store, contents=collector.contents)
    agrees = await stored_document_agrees(trace_id, store=collector.store)
    return await verify_source(source, document=agrees)


async def test_an_sqlite_store_opens_and_its_session_verifies(tmp_path: Path) -> None:
    folder = tmp_path / ".pm-orchestrator"
    folder.mkdir()
    old = sqlite3.connect(folder / "collector.sqlite")
    old.executescript((_DATA / "sqlite-session.sql").read_text())
    old.close()
    async with a_collector(tmp_path) as collector:
        report = await verified(collector, STORED)
    assert (report.status, report.mismatches, report.document) == ("verified", 0, True)
    assert report.reaches is not None


@pytest.mark.xdist_group("postgres")
async def test_a_postgres_store_opens_and_its_session_verifies(tmp_path: Path, postgres_dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_dsn, autocommit=True) as old:
        await old.execute((_DATA / "postgres-session.sql").read_text())
    async with a_collector(tmp_path, database=postgres_dsn) as collector:
        report = await verified(collector, STORED)
    assert (report.status, report.mismatches, report.document) == ("verified", 0, True)
    assert report.reaches is not None


def test_a_spool_opens_is_sent_whole_and_its_session_verifies(tmp_path: Path) -> None:
    state = tmp_path / ".pm-orchestrator"
    folder = captures_folder(state)
    folder.mkdir(parents=True)
    with tarfile.open(_DATA / "spool.tar.gz") as kept:
        kept.extractall(folder, filter="data")
    spool = find_spool(state, SPOOLED)
    assert [line.seq for line in spool.lines()] == list(range(1, 11))
    with serving(tmp_path, []) as served:

        async def send() -> None:
            async with CollectorClient(served.url, token=TOKEN) as client:
                sending = await send_spool(spool, client)
            assert (sending.accepted, sending.finalized) == (10, True)

        asyncio.run(send())

    async def look() -> Report:
        async with a_collector(tmp_path) as collector:
            return await verified(collector, SPOOLED)

    report = asyncio.run(look())
    assert (report.status, report.mismatches) == ("verified", 0)
    assert report.reaches is not None
