"""The OpenAPI document is true: generated requests find no 5xx and no undocumented answer."""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings, strategies
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from tests.collector.http.support import Capture
from tests.service.support import GOOD, TOKEN, Served, build_app, serving


def test_errors_are_documented_as_problem_documents(project: Path) -> None:
    document = build_app(project, []).openapi()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                if status.startswith(("4", "5")):
                    assert list(answer["content"]) == ["application/problem+json"], (path, status)
    assert "Problem" in document["components"]["schemas"]


def test_every_operation_that_takes_json_has_an_example(project: Path) -> None:
    document = build_app(project, []).openapi()
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is not None:
                named = schemas[content["schema"]["$ref"].rpartition("/")[2]]
                assert content.get("example") or named.get("examples"), (method, path)


def test_the_examples_of_the_collector_work_one_after_the_other(project: Path) -> None:
    with serving(project, []) as served:
        paths = served.client.get("/openapi.json").json()["paths"]

        def example(path: str) -> Any:
            return paths[path]["post"]["requestBody"]["content"]["application/json"]["example"]

        created = served.client.post("/traces", json=example("/traces"))
        trace = f"/traces/{created.json()['trace_id']}"
        appended = served.client.post(f"{trace}/events", json=example("/traces/{trace_id}/events"))
        finalized = served.client.post(f"{trace}/finalize", json=example("/traces/{trace_id}/finalize"))
        assert (created.status_code, appended.status_code, finalized.status_code) == (201, 200, 202)


# Consent, hashes and references are rules between values, which no schema says: what is valid by it may be refused.
BEYOND_THE_SCHEMA = ("/traces", "/blobs")


def exercise(operation: Any, served: Served) -> None:
    """Send generated requests; those about a trace go to a real one half of the time."""
    captures = operation.path.startswith(BEYOND_THE_SCHEMA)
    excluded = [ignored_auth, positive_data_acceptance] if captures else [ignored_auth]
    real = Capture(served) if "{trace_id}" in operation.path else None

    @settings(
        max_examples=40,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), to_real=strategies.booleans())
    def check(case: Any, to_real: bool) -> None:
        if real is not None and to_real and case.method != "DELETE":
            case.path_parameters["trace_id"] = real.trace_id
        headers = {"authorization": f"Bearer {TOKEN}"}
        case.call_and_validate(headers=headers, excluded_checks=excluded, timeout=60)

    check()


@pytest.mark.torture
@pytest.mark.timeout(900)
# The server's thread draws random numbers (a back-off's jitter) while the test's thread generates.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
def test_generated_requests_meet_only_documented_answers(project: Path) -> None:
    with serving(project, [GOOD] * 500) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "x"}).json()["task_id"]
        served.until_ended(task_id)
        schema = schemathesis.openapi.from_url(
            f"{served.url}/openapi.json", headers={"authorization": f"Bearer {TOKEN}"}
        )
        problems: list[str] = []
        for result in schema.get_all_operations():
            operation = result.ok()
            try:
                exercise(operation, served)
            except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - all operations are tried before any is reported
                problems.append(f"{operation.label}: {''.join(traceback.format_exception(error))[-3000:]}")
        assert not problems, "\n\n".join(problems)


def test_an_open_event_stream_does_not_hold_the_service(project: Path) -> None:
    with serving(project, [{**GOOD, "delay_ms": 30_000}]) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "x"}).json()["task_id"]
        with served.client.stream("GET", f"/api/tasks/{task_id}/events") as stream:
            assert next(line for line in stream.iter_lines() if line.startswith("data:"))
            started = time.monotonic()
    assert time.monotonic() - started < 10
