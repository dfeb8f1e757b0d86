"""What makes one session like another: its report and its patches, not the frame of the format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Final, Literal

from collector.contents import Contents
from collector.exporting import export_pieces
from collector.store.port import TraceRow, TraceStore
from tracer.export.pieces import Leaf

__all__ = ["TrainingFormat", "telling", "told_apart"]

TrainingFormat = Literal["atif", "chat", "otlp"]

_ATTRIBUTES: Final = frozenset({"gen_ai.input.messages", "gen_ai.tool.call.arguments", "pm.text"})
_FIRST_MESSAGE: Final = "/messages/0"


def telling(form: TrainingFormat, take: Callable[[str], None]) -> Callable[[Leaf], None]:
    """Called with each value of an export, hands `take` the texts in it that tell."""
    texts = {"chat": _of_chat, "atif": _of_atif, "otlp": _of_otlp}[form]

    def each(leaf: Leaf) -> None:
        for text in texts(leaf):
            take(text)

    return each


async def told_apart(row: TraceRow, take: Callable[[str], None], *, store: TraceStore, contents: Contents) -> None:
    """Hand `take` what tells of a trace whose final document is exported: it holds much more, and in another order.

    Raises as `export_pieces`.
    """
    each = telling("chat", take)
    async with aclosing(export_pieces(row, "chat", store=store, contents=contents)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Leaf):
                each(piece)


def _of_chat(leaf: Leaf) -> Iterator[str]:
    """Of a message that is neither the frame's nor what a command printed."""
    if leaf.pointer.startswith("/messages/") and leaf.pointer != _FIRST_MESSAGE and leaf.value.get("role") != "tool":
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
