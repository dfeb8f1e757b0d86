"""What an export needs of a captured trace: the blocks around the events, and the steps. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracer.capture.document import Developer, Environment, Ingestion, Qa, Repo, Task
from tracer.export.steps import Steps

__all__ = ["ExportedTrace", "report_text"]


@dataclass(frozen=True, kw_only=True)
class ExportedTrace:
    """One trace as the formats see it; consent is applied already."""

    trace_id: str
    created_at_ms: int
    finalized_at_ms: int | None
    repo: Repo
    task: Task
    developer: Developer
    environment: Environment
    ingestion: Ingestion
    qa: Qa | None
    steps: Steps

    def about(self) -> dict[str, Any]:
        """What every format says about the trace beside its steps; whole once the steps were gone through."""
        return {
            "trace_id": self.trace_id,
            "repo_id": self.repo.repo_id,
            "commit_base": self.repo.commit_base,
            "labels": list(self.task.labels),
            "language": list(self.environment.language),
            "experience_level": self.developer.experience_level,
            "consent": self.developer.consent_flags.model_dump(),
            "store": self.ingestion.store,
            "final_passed": self.qa.tests.final_passed if self.qa and self.qa.tests else None,
            "overall": self.qa.judge.overall if self.qa and self.qa.judge else None,
            "rubric_version": self.qa.judge.rubric_version if self.qa and self.qa.judge else None,
            "snapshots": self.steps.snapshots,
            "texts_left_out": self.steps.left_out,
        }


def report_text(task: Task) -> str:
    """The bug report as the message that a session begins with."""
    report = task.bug_report
    parts = [report.title, report.description]
    for name, text in (
        ("Steps to reproduce", report.repro_steps),
        ("Expected", report.expected),
        ("Actual", report.actual),
        ("Links", "\n".join(report.links)),
    ):
        if text:
            parts.append(f"{name}:\n{text}")
    return "\n\n".join(part for part in parts if part)
