"""Prometheus metrics and OpenTelemetry traces: off unless asked for, true, and without anybody's text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from repl.cli import main
from service.telemetry import task_spans
from tests.collector.http.support import Capture, event
from tests.service.support import BAD, GOOD, serving
from tests.support.otlp import otlp_receiver
from tracer.conversation import ConversationTracer
from tracer.errors import ConfigError


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_not_there_unless_asked_for(project: Path) -> None:
    with serving(project, []) as served:
        assert served.client.get("/metrics").status_code == 404


def test_metrics_count_requests_by_route_and_what_was_captured(project: Path) -> None:
    with serving(project, [], given={"PM_SERVICE_METRICS": "true"}) as served:
        assert served.client.get("/metrics", headers={"authorization": ""}).status_code == 401
        capture = Capture(served)
        capture.append(event(1), event(2))
        capture.append(event(2), event(3))
        capture.append(event(1, wrong=1))
        served.client.get(f"/traces/{capture.trace_id}?view=metadata")
        served.client.get("/no/such/path")
        answer = served.client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        found = samples(answer.text)
        lane = "/traces/{trace_id}/events"
        requests = "pm_http_requests_total"
        assert found[requests, (("method", "POST"), ("route", lane), ("status", "200"))] == 2
        assert found[requests, (("method", "POST"), ("route", lane), ("status", "422"))] == 1
        assert found[requests, (("method", "GET"), ("route", "/traces/{trace_id}"), ("status", "200"))] == 1
        assert found[requests, (("method", "GET"), ("route", "other"), ("status", "404"))] == 1
        assert found[requests, (("method", "GET"), ("route", "/metrics"), ("status", "401"))] == 1
        assert found["pm_http_request_seconds_count", (("route", lane),)] == 3
        assert found["pm_capture_events_total", (("outcome", "accepted"),)] == 3
        assert found["pm_capture_events_total", (("outcome", "duplicate"),)] == 1
        assert found["pm_tasks", (("status", "RUNNING"),)] == 0
        assert capture.trace_id not in answer.text


def test_a_token_of_its_own_opens_the_metrics_and_no_capture(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made: dict[str, dict[str, str]] = {}
    for role in (("metrics",), ("operator",), ("operator", "--project", "shop-api"), ("exporter",)):
        assert main(["admin", "tokens", "new", "--role", *role, "--json"]) == 0
        made[" ".join(role)] = {"authorization": f"Bearer {json.loads(capsys.readouterr().out)['token']}"}
    assert main(["admin", "tokens", "new", "--role", "metrics", "--developer", "dev-1"]) == 2
    with serving(project, [], given={"PM_SERVICE_METRICS": "true"}) as served:
        told = {who: served.client.get("/metrics", headers=headers).status_code for who, headers in made.items()}
        assert told == {"metrics": 200, "operator": 200, "operator --project shop-api": 403, "exporter": 403}
        paths = ("/traces", f"/traces/{Capture(served).trace_id}", "/api/tasks")
        assert [served.client.get(path, headers=made["metrics"]).status_code for path in paths] == [403, 403, 401]


def attributes(span: Any) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        kind = value.WhichOneof("value")
        if kind == "array_value":
            return [plain(each) for each in value.array_value.values]
        return getattr(value, kind)

    return {each.key: plain(each.value) for each in span.attributes}


def test_a_task_and_its_requests_become_spans_by_the_genai_conventions(project: Path) -> None:
    usage = {"input_tokens": 20, "output_tokens": 4}
    replies = [{**BAD, "usage": usage}, {**GOOD, "usage": usage}]
    with otlp_receiver() as receiver:
        with serving(project, replies, given={"PM_SERVICE_OTEL_ENDPOINT": receiver.url}) as served:
            carried = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
            task_id = served.client.post("/api/tasks", json={"prompt": "a private wish"}, headers=carried).json()[
                "task_id"
            ]
            served.until_ended(task_id)
        spans = receiver.spans
    assert receiver.resources[0]["service.name"] == "pm-orchestrator"
    posted = next(span for span in spans if span.name == "POST /api/tasks")
    assert posted.trace_id.hex() == "ab" * 16
    assert attributes(posted)["http.response.status_code"] == 202
    task = next(span for span in spans if span.name == f"invoke_workflow pm {task_id}")
    told = attributes(task)
    assert told["gen_ai.operation.name"] == "invoke_workflow"
    assert (told["pm.task.status"], told["pm.task.iterations"], told["gen_ai.usage.input_tokens"]) == (
        "COMPLETE",
        2,
        40,
    )
    calls = [span for span in spans if span.parent_span_id == task.span_id]
    assert [span.name for span in calls] == ["invoke_agent scripted"] * 2
    assert [attributes(span)["pm.iteration"] for span in calls] == [0, 1]
    assert attributes(calls[0])["gen_ai.usage.output_tokens"] == 4
    verdicts = [attributes(span.events[0]) for span in calls]
    assert [each["gen_ai.evaluation.score.label"] for each in verdicts] == ["REJECT", "PASS"]
    assert verdicts[0]["pm.criteria_failed"] == ["Q2"]
    assert task.start_time_unix_nano <= calls[0].start_time_unix_nano < calls[1].end_time_unix_nano
    assert calls[1].end_time_unix_nano <= task.end_time_unix_nano
    assert "a private wish" not in str(spans)
    assert "TODO" not in str(spans)


def test_a_task_that_is_taken_up_again_has_spans_for_what_is_new_only(project: Path) -> None:
    with serving(project, [BAD, GOOD], on_limit="ask") as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "x", "max_iterations": 1}).json()["task_id"]
        served.until_ended(task_id)
        path = project / served.client.get(f"/api/tasks/{task_id}").json()["trace_file"]
        first = ConversationTracer.read_trace(path)
        served.client.post(f"/api/tasks/{task_id}/respond", json={"action": "continue", "max_iterations": 2})
        served.until_ended(task_id)
        whole = ConversationTracer.read_trace(path)
    assert [span.attributes.get("pm.iteration") for span in task_spans(first)] == [None, 0]
    assert [span.attributes.get("pm.iteration") for span in task_spans(whole, since=len(first))] == [None, 1]
    assert task_spans(whole, since=len(whole)) == ()


@pytest.mark.torture
def test_a_receiver_that_is_gone_costs_nothing(project: Path) -> None:
    with serving(project, [GOOD], given={"PM_SERVICE_OTEL_ENDPOINT": "http://127.0.0.1:9"}) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "x"}).json()["task_id"]
        assert served.until_ended(task_id)["status"] == "COMPLETE"


def test_an_address_that_is_none_is_refused_at_the_start(project: Path) -> None:
    with (
        pytest.raises(ConfigError, match="no address"),
        serving(project, [], given={"PM_SERVICE_OTEL_ENDPOINT": "127.0.0.1:4318"}),
    ):
        pass


def test_neither_library_is_imported_where_nobody_asked(project: Path) -> None:
    code = (
        "import sys, service.app; "
        "assert not {'prometheus_client', 'opentelemetry.sdk', 'obstore', 'psycopg'} & set(sys.modules), "
        "sorted(sys.modules)"
    )
    root = str(Path(__file__).parents[2])
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": root}, timeout=60)
