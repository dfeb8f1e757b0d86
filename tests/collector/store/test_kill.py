"""kill -9 of the real server under load: nothing acknowledged is lost, nothing is there twice.

PM_TEST_KILLS sets how many kills each database gets (300 in the full campaign); without it, a seeded few.
"""

from __future__ import annotations

import os

import pytest

from collector.store.postgres.store import open_postgres
from collector.store.sqlite.store import open_sqlite
from tests.collector.store.killing import Campaign

_KILLS = int(os.environ.get("PM_TEST_KILLS", "12"))
_SEED = int(os.environ.get("PM_TEST_SEED", "20261121"))

pytestmark = [pytest.mark.torture, pytest.mark.timeout(60 + _KILLS * 20)]


async def test_sqlite_keeps_what_it_acknowledged(tmp_path):
    blobs = tmp_path / ".pm-orchestrator" / "collector-blobs"
    with Campaign(tmp_path, seed=_SEED) as campaign:
        for _kill in range(_KILLS):
            await campaign.round()
            async with open_sqlite(tmp_path / ".pm-orchestrator" / "collector.sqlite") as store:
                await campaign.check(store, blobs)
    assert campaign.kills == _KILLS
    assert campaign.answers >= _KILLS  # there was load


async def test_postgres_keeps_what_it_acknowledged(tmp_path, postgres_dsn):
    blobs = tmp_path / ".pm-orchestrator" / "collector-blobs"
    with Campaign(tmp_path, seed=_SEED + 1, environ={"PM_COLLECTOR_DATABASE": postgres_dsn}) as campaign:
        for _kill in range(_KILLS):
            await campaign.round()
            async with open_postgres(postgres_dsn) as store:
                await campaign.check(store, blobs)
    assert campaign.kills == _KILLS
    assert campaign.answers >= _KILLS


async def test_a_crash_of_the_whole_database_server_loses_nothing_either(tmp_path, postgres_server, postgres_dsn):
    blobs = tmp_path / ".pm-orchestrator" / "collector-blobs"
    with Campaign(tmp_path, seed=_SEED + 2, environ={"PM_COLLECTOR_DATABASE": postgres_dsn}) as campaign:
        for _kill in range(max(_KILLS // 10, 2)):
            await campaign.round()
            postgres_server.crash()
            async with open_postgres(postgres_dsn) as store:
                await campaign.check(store, blobs)
    assert campaign.answers >= 2
