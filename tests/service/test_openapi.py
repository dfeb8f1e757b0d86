"""The OpenAPI document is true: generated requests find no 5xx and no undocumented answer."""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import ignored_auth

from tests.service.support import GOOD, TOKEN, build_app, serving


def test_errors_are_documented_as_problem_documents(project: Path) -> None:
    document = build_app(project, []).openapi()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                if status.startswith(("4", "5")):
                    assert list(answer["content"]) == ["application/problem+json"], (path, status)
    assert "Problem" in document["components"]["schemas"]


def test_every_operation_that_takes_a_body_has_an_example(project: Path) -> None:
    schemas = build_app(project, []).openapi()["components"]["schemas"]
    for name in ("NewTask", "PersonAnswer"):
        assert schemas[name]["examples"]


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_generated_requests_meet_only_documented_answers(project: Path) -> None:
    with serving(project, [GOOD] * 500) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "x"}).json()["task_id"]
        served.until_ended(task_id)
        schema = schemathesis.openapi.from_url(
            f"{served.url}/openapi.json", headers={"authorization": f"Bearer {TOKEN}"}
        )
        credentials = {"authorization": f"Bearer {TOKEN}"}
        problems: list[str] = []
        for result in schema.get_all_operations():
            operation = result.ok()

            @settings(
                max_examples=40,
                deadline=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def check(case: Any) -> None:
                case.call_and_validate(headers=credentials, excluded_checks=[ignored_auth], timeout=60)

            try:
                check()
            except Exception as error:  # noqa: BLE001 - all operations are tried before any is reported
                problems.append(f"{operation.label}: {''.join(traceback.format_exception(error))[-3000:]}")
        assert not problems, "\n\n".join(problems)


def test_an_open_event_stream_does_not_hold_the_service(project: Path) -> None:
    with serving(project, [{**GOOD, "delay_ms": 30_000}]) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "x"}).json()["task_id"]
        with served.client.stream("GET", f"/api/tasks/{task_id}/events") as stream:
            assert next(line for line in stream.iter_lines() if line.startswith("data:"))
            started = time.monotonic()
    assert time.monotonic() - started < 10
