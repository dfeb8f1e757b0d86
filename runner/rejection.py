"""The modification prompt: what was found, what is required, what was tried, and the first request. Pure.

Everything inserted is data: nothing in it is expanded as a template, and corrections never nest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["modification_prompt"]


def modification_prompt(
    *,
    request: str,
    criteria_results: Sequence[Mapping[str, Any]],
    issues: Sequence[Mapping[str, Any]],
    tried: Sequence[str] = (),
) -> str:
    """The text that sends an answer back with its reasons; `tried` are the summaries of earlier rejections."""
    lines = [
        f"- {result.get('id')} {result.get('name')}: {result.get('reason', 'failed')}"
        for result in criteria_results
        if result.get("passed") is False
    ]
    for issue in issues:
        where = f"{issue.get('path', '')}:{issue.get('line', '')}".strip(":")
        lines.append(f"  - {where} {issue.get('excerpt', '')} {issue.get('suggestion', '')}".rstrip())
    already = "\n".join(f"- {item}" for item in tried)
    parts = ["## What was found", *lines]
    if already:
        parts += ["", "## What was already tried and not accepted", already]
    parts += ["", "## The original request", request]
    return "\n".join(parts)
