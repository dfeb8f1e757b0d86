"""The detail pane: one event in full, readable, as indented JSON or as stored; decoded only when selected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final, Literal

import orjson
from rich.segment import Segment
from textual.events import Resize
from textual.reactive import reactive
from textual.strip import Strip
from typing_extensions import override

from repl.present.cells import matches_in, shown, wrap
from repl.screen.line_view import LineView
from repl.screen.trace.timeline import painted
from tracer.clock import from_epoch_ms
from tracer.rows.row import Decoded, Row

Mode = Literal["readable", "pretty", "raw"]
MODES: Final[tuple[Mode, ...]] = ("readable", "pretty", "raw")
Tone = Literal["", "title", "key", "dim", "good", "bad", "fold"]
FOLD_LINES: Final = 20
_MAX_LINES: Final = 50_000
_MAX_ITEMS: Final = 500


@dataclass(frozen=True, slots=True)
class Line:
    """One displayed line; `path` names the value it unfolds or folds, empty for none."""

    text: str
    tone: Tone = ""
    path: str = ""


def detail_lines(
    row: Row, decoded: Decoded, *, width: int, mode: Mode = "readable", unfolded: frozenset[str] = frozenset()
) -> list[Line]:
    """All lines of `row` at `width` cells; at most 50,000, the rest counted in the last one."""
    maker = _raw if mode == "raw" or decoded.value is None else _pretty if mode == "pretty" else _readable
    return list(islice(_capped(maker(row, decoded, max(width, 10), unfolded)), _MAX_LINES + 1))


def plain_text(decoded: Decoded) -> str:
    """The fact's main text, as recorded, for copying: the prompt, the output, the text; else indented JSON."""
    value = decoded.value
    if value is None:
        return decoded.raw.decode("utf-8", "backslashreplace")
    data = value.get("data") if isinstance(value.get("data"), dict) else value
    for key in ("output", "modification_prompt", "prompt", "rules", "text"):
        text = data.get(key) if isinstance(data, dict) else None
        if isinstance(text, str) and text:
            return text
    return _indented(value)


def _capped(lines: Iterator[Line]) -> Iterator[Line]:
    for count, line in enumerate(lines):
        if count >= _MAX_LINES:
            yield Line(f"… more than {_MAX_LINES:,} lines; e opens it in the editor", "fold")
            return
        yield line


def _indented(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode("utf-8", "backslashreplace")


def _wrapped(text: str, width: int, *, first: str = "", rest: str = "", tone: Tone = "") -> Iterator[Line]:
    """`text` in lines of `width`, which begin with `first`, further ones with `rest`."""
    for number, piece in enumerate(wrap(shown(text), width - len(rest))):
        yield Line((rest if number else first) + piece, tone)


def _title(row: Row) -> Iterator[Line]:
    number = "?" if row.seq is None else str(row.seq)
    group = "" if row.group.iteration is None else f"[{row.group.iteration}]"
    yield Line(f"{number} {shown(row.event)}{group}", "title")
    time = from_epoch_ms(row.epoch_ms) if row.family == "capture" and row.epoch_ms is not None else row.time
    about = [part for part in (time, row.group.subtask or "", f"{row.size:,} bytes") if part]
    yield Line(shown("  ".join(about)), "dim")


def _raw(row: Row, decoded: Decoded, width: int, unfolded: frozenset[str]) -> Iterator[Line]:
    yield from _title(row)
    if decoded.problem:
        yield from _wrapped(decoded.problem, width, tone="bad")
    yield Line("")
    text = decoded.raw.decode("utf-8", "backslashreplace")
    yield from _block(text, width, "", unfolded, indent="", fold=False)


def _pretty(row: Row, decoded: Decoded, width: int, _unfolded: frozenset[str]) -> Iterator[Line]:
    yield from _title(row)
    yield Line("")
    for line in _indented(decoded.value).split("\n"):
        yield from _wrapped(line, width)


def _readable(row: Row, decoded: Decoded, width: int, unfolded: frozenset[str]) -> Iterator[Line]:
    value = decoded.value or {}
    yield from _title(row)
    nested = {"conversation": "data", "tracepack": "data", "capture": "payload"}.get(row.family, "")
    body = value.get(nested) if nested else None
    hidden = {"timestamp", "event", "session_id", "task_id", "subtask_id", "iteration_index", "type", "ts"}
    if row.family == "capture" and isinstance(body, dict):
        yield from _captured(value, body, width, unfolded)
        return
    if isinstance(body, dict):
        outer = {key: item for key, item in value.items() if key not in hidden | {nested}}
    else:
        outer, body = {}, {key: item for key, item in value.items() if key not in hidden}
    for key, item in (*outer.items(), *body.items()):
        yield from _value(str(key), item, str(key), width, unfolded)


def _captured(value: dict[str, Any], payload: dict[str, Any], width: int, unfolded: frozenset[str]) -> Iterator[Line]:
    """What was done first; who did it, and where, in one line below. Ids are in the stored form (j)."""
    hidden = {"links_to", "env_hash", "pre_hash", "post_hash", "patch_format", "edit_kind"}
    for key, item in payload.items():
        if key not in hidden and item is not None:
            yield from _value(str(key), item, str(key), width, unfolded)
    actor, context = value.get("actor"), value.get("context")
    about = [str(actor.get("id") or actor.get("kind"))] if isinstance(actor, dict) else []
    if isinstance(context, dict):
        about += [str(context[key])[:12] for key in ("branch", "commit_head") if context.get(key)]
    yield from _wrapped("  ".join(["by", *about]), width, tone="dim")


def _value(key: str, item: Any, path: str, width: int, unfolded: frozenset[str]) -> Iterator[Line]:
    name = shown(key.replace("_", " "))
    special = _SPECIAL.get(key)
    if special is not None and isinstance(item, list) and all(isinstance(part, dict) for part in item):
        yield Line(name, "key")
        for part in item[:_MAX_ITEMS]:
            yield from special(part, width)
        return
    if isinstance(item, str) and ("\n" in item or len(item) + len(name) + 2 > width):
        yield Line(name, "key")
        yield from _block(item, width, path, unfolded, indent="  ")
        return
    if isinstance(item, list) and all(isinstance(part, str) and len(part) < width for part in item):
        yield from _pair(name, "  ".join(item[:_MAX_ITEMS]) or "none", width)
        return
    if isinstance(item, dict) and item and all(isinstance(part, int | float | None) for part in item.values()):
        yield from _pair(name, "  ".join(f"{k} {orjson.dumps(v).decode()}" for k, v in item.items()), width)
        return
    if isinstance(item, dict | list) and item:
        yield Line(name, "key")
        yield from _block(_indented(item), width, path, unfolded, indent="  ")
        return
    yield from _pair(name, item if isinstance(item, str) else orjson.dumps(item).decode(), width)


def _pair(name: str, text: str, width: int) -> Iterator[Line]:
    indent = " " * (len(name) + 2)
    return _wrapped(text, max(width, len(indent) + 10), first=f"{name}  ", rest=indent)


def _block(
    text: str, width: int, path: str, unfolded: frozenset[str], *, indent: str, fold: bool = True
) -> Iterator[Line]:
    """The lines of a long value; folded to `FOLD_LINES` unless `path` is unfolded."""
    room = width - len(indent)
    if not fold or path in unfolded:
        for line in text.split("\n"):
            for piece in wrap(shown(line), room):
                yield Line(indent + piece, path=path)
        return
    pieces = (piece for line in text.split("\n") for piece in wrap(shown(line[: FOLD_LINES * room * 2]), room))
    first = list(islice(pieces, FOLD_LINES + 3))
    if len(first) <= FOLD_LINES + 2:
        for piece in first:
            yield Line(indent + piece)
        return
    for piece in first[:FOLD_LINES]:
        yield Line(indent + piece)
    hidden = sum(max(1, -(-len(line) // room)) for line in text.split("\n")) - FOLD_LINES
    yield Line(f"{indent}… {hidden:,} more lines (x shows them)", "fold", path)


def _criterion(part: dict[str, Any], width: int) -> Iterator[Line]:
    passed = None if part.get("outcome") == "not_verified" else part.get("passed")
    mark = "v" if passed is True else "x" if passed is False else "?"
    reason = part.get("reason")
    text = f"{mark} {part.get('id', '?')} {part.get('name', '')}"
    if isinstance(reason, str) and reason:
        text += f": {reason}"
    yield from _wrapped(text, width, first="  ", rest="    ", tone="good" if passed is True else "bad")


def _issue(part: dict[str, Any], width: int) -> Iterator[Line]:
    place = ":".join(str(part[key]) for key in ("path", "line") if part.get(key) is not None)
    text = " ".join(str(word) for word in (part.get("criterion", ""), place, part.get("excerpt") or "") if word)
    yield from _wrapped(text, width, first="  ", rest="    ")
    if part.get("suggestion"):
        yield from _wrapped(f"fix: {part['suggestion']}", width - 2, first="    ", rest="    ", tone="dim")


def _subtask(part: dict[str, Any], width: int) -> Iterator[Line]:
    needs = part.get("dependencies")
    after = f"  after {', '.join(str(name) for name in needs)}" if isinstance(needs, list) and needs else ""
    text = f"{part.get('id', '?')}  {part.get('title') or part.get('description', '')}{after}"
    yield from _wrapped(text, width, first="  ", rest="    ")


_SPECIAL: Final = {"criteria_results": _criterion, "issues": _issue, "subtasks": _subtask}


class Detail(LineView, inherit_bindings=False):
    """Shows `row` with its decoded line; empty until `show` is called."""

    STYLE_PREFIX = "detail"
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "detail--title", "detail--key", "detail--dim", "detail--good", "detail--bad", "detail--fold", "detail--hit",
    }  # fmt: skip
    needle: reactive[str] = reactive("", init=False)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.row: Row | None = None
        self.decoded: Decoded | None = None
        self.mode: Mode = "readable"
        self.unfolded: frozenset[str] = frozenset()
        self._lines: list[Line] = []
        self._width = 0

    def show(self, row: Row | None, decoded: Decoded | None) -> None:
        """Show another fact (None: nothing), from its top, folded."""
        same = row is not None and self.row is not None and row.offset == self.row.offset and row.size == self.row.size
        self.row, self.decoded = row, decoded
        if not same:
            self.unfolded = frozenset()
        self.layout_lines()
        if not same:
            self.scroll_to(y=0, animate=False, immediate=True)

    def next_mode(self) -> None:
        self.mode = MODES[(MODES.index(self.mode) + 1) % len(MODES)]
        self.layout_lines()
        self.scroll_to(y=0, animate=False, immediate=True)

    def toggle_unfolded(self) -> None:
        paths = frozenset(line.path for line in self._lines if line.path)
        self.unfolded = frozenset() if self.unfolded else paths
        self.layout_lines()

    def layout_lines(self) -> None:
        self._width = self.scrollable_content_region.width
        if self.row is None or self.decoded is None or not self._width:
            self._lines = []
        else:
            self._lines = detail_lines(
                self.row, self.decoded, width=self._width, mode=self.mode, unfolded=self.unfolded
            )
        self.lines_changed()

    @override
    def line_count(self) -> int:
        return len(self._lines)

    def on_resize(self, _event: Resize) -> None:
        if self.scrollable_content_region.width != self._width:
            self.layout_lines()

    def watch_needle(self) -> None:
        self.refresh()

    def find_needle(self) -> None:
        """Scroll to the first line that holds the needle, unfolding what hides it; stay where it is in view."""
        number = self._line_with_needle()
        if number is None and self.needle and not self.unfolded and any(line.path for line in self._lines):
            self.toggle_unfolded()
            number = self._line_with_needle()
        if number is not None and not self.scroll_offset.y <= number < self.scroll_offset.y + self.size.height:
            self.scroll_to(y=max(number - 2, 0), animate=False, immediate=True)

    def _line_with_needle(self) -> int | None:
        return next((number for number, line in enumerate(self._lines) if matches_in(line.text, self.needle)), None)

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self._lines)

    @override
    def line(self, number: int, width: int) -> Strip:
        line = self._lines[number]
        strip = Strip([Segment(line.text, self.tone(line.tone) if line.tone else None)])
        spans = matches_in(line.text, self.needle)
        return Strip(painted(strip, spans, self.tone("hit"))) if spans else strip
