"""The review screen: the tree of changed files, and beside it all of their hunks to keep, discard, edit and commit."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option
from typing_extensions import override

from repl.present.cells import shown
from repl.present.progress import short_id
from repl.present.review import ReviewRow, review_rows, row_texts, wrapped_rows
from repl.screen.desk import Desk
from repl.screen.hints import Hints
from repl.screen.keymap import KEYS
from repl.screen.line_view import CursorView
from repl.screen.outside import edit_file
from repl.screen.pickers import Question
from repl.shell import captured

_WIDE = 100
_AHEAD = 200  # rows that get their colours at once


class ReviewView(CursorView):
    """The rows with a cursor; what is decided is about the row that it stands on."""

    STYLE_PREFIX = "review"
    COMPONENT_CLASSES: ClassVar[set[str]] = {"review--cursor"}

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[ReviewRow] = ()
        self._texts: dict[int, Text] = {}

    def show(self, rows: Sequence[ReviewRow]) -> None:
        self.rows, self._texts = rows, {}
        self.set_reactive(ReviewView.cursor, self.validate_cursor(self.cursor))
        self.lines_changed()

    @override
    def line_count(self) -> int:
        return len(self.rows)

    @property
    def target(self) -> str:
        return self.rows[self.cursor].target if self.rows else ""

    def go_to(self, kinds: set[str], *, backwards: bool = False, target: str = "") -> None:
        """To the next row of these kinds, or to the one of `target`."""
        found = [n for n, row in enumerate(self.rows) if row.kind in kinds and target in {"", row.target}]
        later = found if target else [n for n in found if (n < self.cursor if backwards else n > self.cursor)]
        if later:
            self.cursor = later[-1 if backwards else 0]
            self.scroll_to(y=max(self.cursor - 2, 0), animate=False, immediate=True)

    @override
    def line(self, number: int, width: int) -> Strip:
        if number not in self._texts:
            start = next((n for n in range(number, -1, -1) if self.rows[n].kind in {"file", "hunk"}), 0)
            part = [row._replace(text=shown(row.text)) for row in self.rows[start : number + _AHEAD]]
            texts = [Text(row.lead + row.text) for row in part] if self.app.theme == "mono" else row_texts(part)
            self._texts |= dict(enumerate(texts, start))
        return Strip([one for one in self._texts[number].render(self.app.console) if one.text != "\n"])


class ReviewScreen(Screen[None]):
    """The review of a task; every decision is a command, and what is shown is read again after it."""

    HELP = (
        "What the task changed. n and N go from change to change; x discards the one under the cursor or puts it back\n"
        "in, a says that it is good; X and A do so to the whole file. Nothing is final but the commit (c)."
    )
    BINDINGS = KEYS["review"]

    def __init__(self, desk: Desk, record: Mapping[str, Any]) -> None:
        super().__init__()
        self.desk, self.record = desk, record
        self.task_id = str(record["task_id"])
        self.view = ReviewView()
        self.tree_list = OptionList()

    @override
    def compose(self) -> ComposeResult:
        yield Static(shown(f" {self.task_id}: review"), id="review-title", markup=False)
        with Horizontal():
            yield self.tree_list
            yield self.view
        yield Hints()

    def on_mount(self) -> None:
        self.view.focus()
        self.show()

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.width < _WIDE, "-narrow")

    def show(self) -> None:
        beside = 36 if self.size.width >= _WIDE else 0
        columns = max(self.size.width - beside, 40) - 2
        rows = wrapped_rows(review_rows(self.record, columns=columns), columns)
        self.view.show(rows)
        options: list[Option] = []
        folder = ""
        for row in (row for row in rows if row.kind == "file" and row.target):
            path = PurePosixPath(row.target)
            if str(path.parent) not in {folder, "."}:
                options.append(Option(Content(f"{shown(str(path.parent))}/"), disabled=True))
            folder = str(path.parent)
            indent = "" if folder == "." else "  "
            told = row.text.partition(" · ")[2]
            options.append(Option(Content(f"{indent}{shown(path.name)} {shown(told)}"), id=row.target))
        at = self.tree_list.highlighted
        self.tree_list.clear_options()
        self.tree_list.add_options(options)
        self.tree_list.highlighted = at

    @on(OptionList.OptionSelected)
    def file_chosen(self, event: OptionList.OptionSelected) -> None:
        self.view.go_to({"file"}, target=str(event.option_id))
        self.view.focus()

    # -- moving -----------------------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        self.view.cursor += step

    def action_page(self, step: int) -> None:
        self.view.cursor += step * max(self.view.size.height - 1, 1)

    def action_edge(self, end: int) -> None:
        self.view.cursor = len(self.view.rows) if end else 0

    def action_jump(self, backwards: bool) -> None:  # noqa: FBT001 - written in the binding
        self.view.go_to({"hunk"}, backwards=backwards)

    # -- deciding ---------------------------------------------------------------------------------------------------

    def _file(self) -> Mapping[str, Any] | None:
        """The file under the cursor."""
        target = self.view.target
        hunks = ((file, hunk["id"]) for file in self.record["files"] for hunk in file["hunks"])
        found: Mapping[str, Any] | None = next((f for f, name in hunks if target in {name, f["path"]}), None)
        return found

    def action_decide(self, flag: str, whole: bool) -> None:  # noqa: FBT001 - written in the binding
        file, target = self._file(), self.view.target
        if file is None:
            self.app.notify("no change is under the cursor: n goes to the next", severity="information", markup=False)
            return
        about = [hunk for hunk in file["hunks"] if whole or target in {file["path"], hunk["id"]}]
        if flag == "--discard" and all(hunk["state"] == "discarded" for hunk in about):
            flag = "--keep"
        name = file["path"] if len(about) == len(file["hunks"]) else target
        self.run(f"/review {self.task_id} {flag} {shlex.quote(name)} --json")
        if flag == "--keep":
            self.action_jump(backwards=False)

    @work(exclusive=True, group="review")
    async def run(self, line: str) -> None:
        """Run a command in the background, and show the review as it is then."""
        found = await captured(self.desk.session, line)
        if found.problem:
            self.app.notify(found.problem, severity="warning", markup=False)
        for path in found.record.get("conflicts", ()):
            told = path["path"] if isinstance(path, dict) else path
            self.app.notify(
                f"{told}: you changed the same lines; it stays as it is, e opens it", severity="warning", markup=False
            )
        record = found.record
        if "files" not in record or "answer" not in record:
            record = (await captured(self.desk.session, f"/review {self.task_id} --json")).record
        if record and self.is_attached:
            self.record = record
            self.show()

    @work
    async def action_undo(self) -> None:
        what = "Put its work in again?" if self.record["undone"] else "Put back all that it changed?"
        if await self.app.push_screen_wait(Question(f"{self.task_id}: {what}\n\n y yes   Esc no", "y")) == "y":
            self.run(f"/undo {self.task_id} --yes --json")

    def action_commit(self) -> None:
        self.dismiss()
        self.desk.put(f"/review {short_id(self.task_id)} --commit -m {shlex.quote(self.record['message'])}")

    @work
    async def action_edit(self) -> None:
        file = self._file()
        if file is None:
            return
        path = Path(self.record["folder"]) / file["path"]
        if not await asyncio.to_thread(path.is_file):
            self.app.notify(f"{file['path']} is not there", severity="information", markup=False)
            return
        await edit_file(self.app, str(path))
        kept = [shlex.quote(hunk["id"]) for hunk in file["hunks"] if hunk["state"] != "discarded"]
        self.run(f"/review {self.task_id} --json {'--keep' if kept else ''} {' '.join(kept)}")
