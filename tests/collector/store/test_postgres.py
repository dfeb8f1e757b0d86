"""The PostgreSQL store keeps the contract."""

from __future__ import annotations

import pytest

from collector.store.postgres.store import open_postgres
from tests.collector.store.contract import StoreContract


class TestPostgres(StoreContract):
    @pytest.fixture
    async def store(self, postgres_dsn):
        async with open_postgres(postgres_dsn) as store:
            yield store
