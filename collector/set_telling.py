"""What makes one session like another: its report and its patches, not the frame of the format. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from collector.exported_document import inline_text
from collector.exporting import ExportFormat
from collector.store.port import TraceRow
from tracer.capture.document import Task
from tracer.export.pieces import Leaf

__all__ = ["telling", "told_first"]

_ATTRIBUTES: Final = frozenset({"gen_ai.input.messages", "gen_ai.tool.call.arguments", "pm.text"})
_FIRST_MESSAGE: Final = "/messages/0"


def told_first(row: TraceRow, form: ExportFormat) -> list[str]:
    """What counts before anything that is written: in the final document the report stands last."""
    if form != "json":
        return []
    report = Task.model_validate(row.metadata["task"]).bug_report.model_dump()
    return [str(report[name]) for name in sorted(report)]


def telling(form: ExportFormat, take: Callable[[str], None]) -> Callable[[Leaf], None]:
    """Called with each value of an export, hands `take` the texts in it that tell."""
    texts = {"chat": _of_chat, "atif": _of_atif, "otlp": _of_otlp, "json": _of_document}[form]

    def each(leaf: Leaf) -> None:
        for text in texts(leaf):
            take(text)

    return each


def _of_chat(leaf: Leaf) -> Iterator[str]:
    if leaf.pointer.startswith("/messages/") and leaf.pointer != _FIRST_MESSAGE:
        yield str(leaf.value.get("content") or "")
        yield from (call["function"]["arguments"] for call in leaf.value.get("tool_calls") or ())


def _of_atif(leaf: Leaf) -> Iterator[str]:
    if leaf.pointer.startswith("/steps/"):
        yield leaf.value["message"]
        yield leaf.value.get("reasoning_content") or ""
        yield from (str(call["arguments"]) for call in leaf.value.get("tool_calls") or ())


def _of_otlp(leaf: Leaf) -> Iterator[str]:
    """Of a span or an event that is written whole, and of the root span, whose attributes are."""
    attributes = leaf.value if leaf.key == "attributes" and leaf.pointer.endswith("/spans/0/attributes") else ()
    if isinstance(leaf.value, dict):
        attributes = leaf.value.get("attributes", ())
    for pair in attributes:
        if pair["key"] in _ATTRIBUTES:
            yield str(pair["value"].get("stringValue"))


def _of_document(leaf: Leaf) -> Iterator[str]:
    if leaf.pointer.startswith("/artifacts/blobs/"):
        text = inline_text(leaf.value["storage_uri"])
        if not text.startswith("blob:"):
            yield text
