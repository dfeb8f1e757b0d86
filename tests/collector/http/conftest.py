"""The servers that some of these tests run against."""

from __future__ import annotations

from tests.support.postgres import postgres_dsn, postgres_server

__all__ = ["postgres_dsn", "postgres_server"]
