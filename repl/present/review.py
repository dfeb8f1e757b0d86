"""A review as rows, which line mode prints and the full screen moves through: verdict, answer, files, hunks."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from repl.present.answer import GUTTER, answer_lines
from repl.present.text import count_text, escape, one_line
from runner.changed_paths import in_reading_order, is_made

if TYPE_CHECKING:
    from rich.text import Text

_MARKS: Final = {"gone": "-", "new": "+", "same": " "}
_STYLES: Final = {"file": "bold", "hunk": "dim", "gone": "red", "new": "green", "finding": "bold", "note": "dim"}
_MOST_COLOURED: Final = 20_000
_FOLD: Final = 400


class ReviewRow(NamedTuple):
    """One row; `target` is the file or hunk that a decision here is about, `old` and `new` are line numbers."""

    kind: Literal["text", "file", "hunk", "same", "gone", "new", "finding", "note"]
    text: str
    target: str = ""
    old: int = 0
    new: int = 0

    @property
    def lead(self) -> str:
        """What stands before the text: line numbers and mark."""
        if self.kind not in _MARKS:
            return {"hunk": "  ", "finding": " " * 12 + "! ", "note": " " * 14}.get(self.kind, "")
        return f"{self.old or '':>5} {self.new or '':>5} {_MARKS[self.kind]} "


def review_rows(
    record: Mapping[str, Any], *, columns: int, styled: bool = False, whole_by: str = ""
) -> list[ReviewRow]:
    """The rows of a review's record (`Review.to_dict`); what caches and builds left is counted.

    With `whole_by`, the command that shows all of it, a terminal gets at most 40 rows of the answer and 400 of a hunk.
    """
    said = f"{record['task_id']} {record['status']}" + (f" ({record['reason']})" if record["reason"] else "")
    checked = {"failed": "checks failed"}.get(record["verification"], record["verification"].replace("_", " "))
    rows = [ReviewRow("file", escape(f"{said} · {checked}"))]
    if record["undone"]:
        rows.append(ReviewRow("text", "  it is undone: nothing of it is in your files"))
    if record["away"]:
        rows.append(ReviewRow("text", f"  its work is {record['away']}: what you keep comes into your files"))
    unverified = [(one_line(one["criterion"]), one_line(one["why"])) for one in record["not_verified"]]
    rows += [ReviewRow("text", f"  {criterion} not verified: {why}") for criterion, why in unverified]
    rows += [_finding(one, "") for one in record["findings"]]
    if record["answer"]:
        told = answer_lines(record["answer"], columns=columns, styled=styled, whole_by=whole_by)
        rows += [ReviewRow("text", line) for line in ["", *told, ""]]
    files = {file["path"]: file for file in record["files"]}
    made = [path for path in files if is_made(path)]
    for path in in_reading_order(path for path in files if path not in made):
        rows += _file_rows(files[path], most=_FOLD if whole_by and columns else 1 << 31)
    if made:
        rows.append(ReviewRow("text", f"{count_text(len(made), 'file')} made by tools"))
    return rows if files or record["away"] else [*rows, ReviewRow("text", "  it changed no file")]


def wrapped_rows(rows: Iterable[ReviewRow], columns: int) -> list[ReviewRow]:
    """The rows in `columns` cells: what is longer goes on in rows of the same kind, without line numbers."""
    from repl.present.cells import wrap

    return [
        row._replace(text=margin + text, old=row.old * (not at), new=row.new * (not at))
        for row in rows
        for margin in [GUTTER if row.text.startswith(GUTTER) else ""]
        for at, text in enumerate(wrap(row.text.removeprefix(margin), columns - len(row.lead + margin)))
    ]


def file_heading(file: Mapping[str, Any]) -> str:
    """`src/cart.py · modified +12 -3 · 1 of 2 hunks discarded · changed since`."""
    lines = [line for hunk in file["hunks"] for line in hunk["lines"] if hunk["new_start"] or hunk["old_start"]]
    added, removed = (sum(line.startswith(mark) for line in lines) for mark in "+-")
    states = [hunk["state"] for hunk in file["hunks"]]
    out, kept = states.count("discarded"), states.count("kept")
    standing = "kept" if kept == len(states) else f"{kept} of {len(states)} hunks kept" if kept else ""
    if out:
        standing = "discarded" if out == len(states) else f"{out} of {count_text(len(states), 'hunk')} discarded"
    parts = [_name(file["path"]), f"{file['status']}" + (f" +{added} -{removed}" if lines else ""), standing]
    return " · ".join(part for part in [*parts, "changed since" if file["edited"] else ""] if part)


def _name(path: str) -> str:
    return escape(path.replace("\n", "\\n"))


def _file_rows(file: Mapping[str, Any], *, most: int) -> Iterable[ReviewRow]:
    path = str(file["path"])
    yield ReviewRow("text", "")
    yield ReviewRow("file", file_heading(file), path)
    yield from (_finding(one, path) for one in file["findings"])
    for hunk in file["hunks"]:
        target = str(hunk["id"])
        standing = "" if hunk["state"] == "open" else f" · {hunk['state']}"
        yield ReviewRow("hunk", f"@@ {_name(target)}{standing}", target)
        old, new = hunk["old_start"], hunk["new_start"]
        waiting = list(hunk["findings"])
        for line in hunk["lines"][:most]:
            kind: Literal["same", "gone", "new"] = "gone" if line[:1] == "-" else "new" if line[:1] == "+" else "same"
            text = escape(line[1:]).replace("\n", " ")
            if line[:1] == "\\":
                yield ReviewRow("note", text.strip(), target)
                continue
            yield ReviewRow(kind, text, target, old * (kind != "new"), new * (kind != "gone"))
            yield from (_finding(one, target) for one in waiting if kind != "gone" and one.get("line") == new)
            old, new = old + bool(old and kind != "new"), new + bool(new and kind != "gone")
        if (more := len(hunk["lines"]) - most) > 0:
            yield ReviewRow("note", f"… {count_text(more, 'more line')}: pm diff shows all", target)


def _finding(issue: Mapping[str, Any], target: str) -> ReviewRow:
    told = str(issue.get("message") or issue.get("type") or "").replace("_", " ")
    where = "" if target else f" {issue.get('path') or ''}"
    mend = f" · {issue['suggestion']}" if issue.get("suggestion") else ""
    return ReviewRow("finding", one_line(f"{issue.get('criterion', '')}{where} {told}{mend}"), target)


def row_texts(rows: Sequence[ReviewRow]) -> list[Text]:
    """The rows with colours: marks and line numbers, and the code in those of its language."""
    from rich.text import Text  # 60 ms with a lexer, once there is something to show

    sides: dict[tuple[str, str], list[int]] = {}  # each by itself: together they are no text of the language
    for number, row in enumerate(rows):
        for side in ("gone", "new") if row.kind == "same" else (row.kind,):
            sides.setdefault((row.target, side), []).append(number)
    code: dict[int, Text] = {}
    for (target, side), numbers in sides.items():
        if side in {"gone", "new"}:
            lines = tuple(rows[number].text for number in numbers)
            code |= zip(numbers, highlighted(target.rpartition(":")[0], lines), strict=True)
    found = []
    for number, row in enumerate(rows):
        style = _STYLES.get(row.kind, "")
        text = Text.from_ansi(row.text) if row.kind == "text" else code.get(number) or Text(row.text, style)
        found.append(Text.assemble((row.lead, style or "dim"), text))
    return found


@lru_cache(maxsize=512)
def highlighted(path: str, lines: tuple[str, ...]) -> list[Text]:
    """The lines of a file in the colours of its language, which its name tells."""
    from rich.syntax import Syntax
    from rich.text import Text

    code = "\n".join(lines)
    if len(code) > _MOST_COLOURED or not lines:
        return [Text(line) for line in lines]
    text = Syntax("", Syntax.guess_lexer(path), theme="ansi_dark").highlight(code)
    text.rstrip()
    shown = list(text.split("\n", allow_blank=True))
    return [*shown, *(Text() for _ in lines[len(shown) :])][: len(lines)]


def row_lines(rows: Sequence[ReviewRow], *, coloured: bool) -> list[str]:
    """The rows as lines for a terminal."""
    if not coloured:
        return [f"{row.lead}{row.text}".rstrip() for row in rows]
    from rich.console import Console

    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=1000, highlight=False)
    with console.capture() as captured:
        for text in row_texts(rows):
            console.print(text, soft_wrap=True)
    return captured.get().split("\n")[: len(rows)]
