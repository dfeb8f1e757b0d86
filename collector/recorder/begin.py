"""Begins a capture: the create request of a new trace from what the person said and what the machine knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from collector.intake_parse import refusal
from collector.recorder.consent import Consent
from collector.recorder.facts import developer_block, environment_block, head_commit, repo_block
from collector.spool import Spool, captures_folder
from runner.workspace.git import Git
from tracer.capture.wire import CreateTrace
from tracer.clock import new_id
from tracer.errors import UsageError
from tracer.redaction.engine import ProjectRedactor

__all__ = ["Bug", "Person", "StoreMode", "begin_capture", "check_store", "create_request"]

StoreMode = Literal["redacted", "raw", "patches_only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """The bug report, as far as it is known."""

    title: str
    description: str = ""
    repro_steps: str = ""
    expected: str = ""
    actual: str = ""
    links: Sequence[str] = ()
    labels: Sequence[str] = ()
    task_id: str = ""

    def block(self) -> dict[str, Any]:
        """As `task` of the create request."""
        return {
            "task_id": self.task_id or None,
            "bug_report": {
                "title": self.title,
                "description": self.description,
                "repro_steps": self.repro_steps or None,
                "expected": self.expected or None,
                "actual": self.actual or None,
                "links": list(self.links),
            },
            "labels": list(self.labels),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who records: an id of their own choosing, and how experienced they are."""

    developer_id: str = ""
    experience: str = ""
    consent: Consent = field(default_factory=Consent)


def create_request(
    git: Git, *, bug: Bug, person: Person, store: str, mode: str, environ: Mapping[str, str], key: bytes
) -> dict[str, Any]:
    """The body of POST /traces but for `trace_id`.

    Raises:
        UsageError: raw mode without consent to keep code as it is.

    """
    check_store(store, person.consent)
    return {
        "repo": repo_block(git, commit=head_commit(git)),
        "task": bug.block(),
        "developer": developer_block(
            git,
            key=key,
            developer=person.developer_id,
            experience=person.experience,
            consent=person.consent.flags(),
        ),
        "environment": environment_block(git, environ),
        "ingestion": {"mode": mode, "client_session_id": new_id(), "dedupe_policy": "event_id"},
        "store": store,
    }


def check_store(store: str, consent: Consent) -> None:
    """Refuse raw mode that nobody consented to.

    Raises:
        UsageError: so it is.

    """
    if store == "raw" and not consent.code:
        raise UsageError(
            "raw mode keeps code and output as they are, and nobody consented to that",
            why=f"consent: {consent.describe()}",
            next_step="--consent code,output,judge   or leave --store raw out",
        )


def begin_capture(
    state_root: Path,
    request: Mapping[str, Any],
    *,
    server: str,
    kind: Literal["client", "recording"],
    redactor: ProjectRedactor,
    trace_id: str = "",
    **more: Any,
) -> Spool:
    """A new spool for `request`, redacted unless it asks for raw mode.

    Raises:
        UsageError: a value breaks the schema.
        RecordError: it cannot be written.

    """
    body = dict(request)
    try:
        CreateTrace.model_validate(body)
    except ValidationError as error:  # an empty label, too long an id: told now, not when it is sent
        raise refusal(error) from error
    if body.get("store") != "raw":
        task = redactor.redact_value(body.get("task")).value
        body["task"] = task
    trace_id = trace_id or str(body.pop("trace_id", "") or "") or new_id()
    body.pop("trace_id", None)
    return Spool.create(
        captures_folder(state_root),
        {"trace_id": trace_id, "server": server, "kind": kind, "request": body, **more},
    )
