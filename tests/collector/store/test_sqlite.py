"""The SQLite store keeps the contract."""

from __future__ import annotations

import pytest

from collector.store.sqlite.store import open_sqlite
from tests.collector.store.contract import StoreContract


class TestSqlite(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path):
        async with open_sqlite(tmp_path / "collector.sqlite") as store:
            yield store
