"""The pages beside home: sessions of other agents, captures, settings, doctor, log. Each is a list with an action.

A page names its columns, how to read its rows (in a thread) and what Enter does; where there is nothing yet it says
what would fill it. Nothing of a page is read before it is opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import work
from typing_extensions import override

from repl.context import Context
from repl.present.text import age_text, cost_text
from repl.screen.desk import Desk
from repl.screen.listing import Listing, PageRow
from tracer.clock import now_epoch_ms
from tracer.errors import PmError
from tracer.settings.declared import SETTINGS

if TYPE_CHECKING:
    from repl.screen.captures import CaptureRow


class Page(Listing):
    """A list beside home, which `page_name` opens."""

    page_name: ClassVar[str] = ""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk

    @override
    def failed(self, problem: str) -> None:
        self.desk.log_lines.append(f"{self.page_name}: {problem}")


class SessionsPage(Page):
    """Sessions of agent command lines: distilled ones open in the viewer, native ones are distilled by Enter."""

    page_name = "sessions"
    heading = "Sessions of agent command lines"
    columns = ("what", "provider", "age", "size", "session")
    widths = (9, 9, 7, 9)
    empty = ("no native sessions of claude, codex or gemini, and no distilled ones", "next: /distill --session PATH")
    HELP = "Distilled traces open in the trace viewer. Enter on a native session distills it (/distill)."

    @override
    def read(self) -> Sequence[PageRow]:
        from tracer.catalog.agentic import list_agentic
        from tracer.distill.locate.find import find_sessions

        rows = []
        for trace in list_agentic(self.desk.session.state_dir):
            ended = "not told" if trace.success is None else "ok" if trace.success else "failed"
            text = f"{trace.label}  {ended}  {trace.model}  {cost_text(trace.cost_usd)}"
            rows.append(PageRow(("distilled", trace.provider, trace.ts[:10], "", text), ("trace", trace.path)))
        now = now_epoch_ms()
        for found in find_sessions(environ=self.desk.session.environ):
            cells = ("native", found.provider, age_text(now - found.modified_ms), f"{found.size // 1024:,} kB")
            rows.append(PageRow((*cells, f"{found.cwd or ''}  {found.path.name}"), ("native", str(found.path))))
        return rows

    @override
    def open(self, value: Any) -> None:
        kind, path = value
        if kind == "trace":
            self.desk.show_trace(Path(path))
        else:
            self.dismiss()
            self.desk.run_line(f'/distill --session "{path}"')


class CapturesPage(Page):
    """Captured bug-fix sessions: recorded here, or in the local collector, with their checks where there are any."""

    page_name = "captures"
    heading = "Captured sessions"
    columns = ("age", "state", "events", "checks", "what")
    widths = (7, 10, 7, 26)
    empty = ("no captured sessions in this project", "next: pm record makes one, /capture new begins one by hand")
    HELP = (
        "Captured bug-fix sessions, newest first. Enter opens one: its timeline, and thoughts beside actions.\n"
        "States: recording, paused, cut off (pm record resume or upload), not sent, sent, collected (from elsewhere)."
    )

    @override
    def read(self) -> Sequence[PageRow]:
        from repl.screen.captures import read_captures

        session, now = self.desk.session, now_epoch_ms()
        rows = []
        for capture in read_captures(session.state_dir, session.settings):
            age = age_text(now - capture.created_at_ms)
            what = f"{capture.trace_id[:8]}  {capture.title}"
            rows.append(PageRow((age, capture.state, f"{capture.events:,}", capture.checks, what), capture))
        return rows

    @override
    def open(self, value: Any) -> None:
        if value.path is not None:
            self._show_capture(value, value.path, temporary=False)
        else:
            self._fetch(value)

    @work(exclusive=True, group="fetch")
    async def _fetch(self, capture: CaptureRow) -> None:
        from repl.screen.captures import view_stored

        session = self.desk.session
        try:
            path = await asyncio.to_thread(view_stored, session.state_dir, session.settings, capture.trace_id)
        except PmError as error:
            self.notify(error.what, severity="error", markup=False)
            return
        self._show_capture(capture, path, temporary=True)

    def _show_capture(self, capture: CaptureRow, path: Path, *, temporary: bool) -> None:
        from repl.screen.captures import CaptureScreen

        try:
            self.app.push_screen(CaptureScreen(capture, path, temporary=temporary))
        except PmError as error:
            self.notify(error.what, severity="error", markup=False)


class SettingsPage(Page):
    """Every declared setting with its value and the layer it comes from; Enter begins a change at the prompt."""

    page_name = "settings"
    heading = "Settings"
    columns = ("setting", "value", "from", "what it does")
    widths = (24, 18, 20)
    HELP = "Every setting, its value and where that comes from. Enter writes /config set KEY on the prompt for you."

    @override
    def read(self) -> Sequence[PageRow]:
        settings = self.desk.session.settings
        rows = []
        for setting in SETTINGS:
            origin = settings.origin(setting.key)
            value = settings.get(setting.key)
            text = "unset" if value is None else ",".join(value) if isinstance(value, list | tuple) else str(value)
            place = f"{origin.layer} {Path(origin.where).name if origin.where else ''}".strip()
            rows.append(PageRow((setting.key, text, place, setting.help), setting.key))
        return rows

    @override
    def open(self, value: Any) -> None:
        self.dismiss()
        self.desk.put(f"/config set {value} ")


class DoctorPage(Page):
    """The health checks, in their fixed order."""

    page_name = "doctor"
    heading = "Doctor"
    columns = ("", "check", "found")
    widths = (4, 13)
    HELP = "What works here and what does not, with the next step. f5 checks again."

    @override
    def read(self) -> Sequence[PageRow]:
        from repl.commands.setup.doctor import run_checks

        session = self.desk.session
        context = Context(
            output=self.desk.output, environ=session.environ, arguments=self.desk.nothing, session=session
        )
        rows = []
        for check in run_checks(context):
            rows.append(PageRow((check.status, check.name, check.found), check.next_step))
            if check.next_step and check.status != "ok":
                rows.append(PageRow(("", "", f"next: {check.next_step}"), check.next_step))
        return rows

    @override
    def open(self, value: Any) -> None:
        if value:
            self.notify(f"next: {value}", markup=False)


class LogPage(Page):
    """Our own warnings and errors of this session."""

    page_name = "log"
    heading = "Log: warnings and errors of this session"
    columns = ("what",)
    empty = ("no warnings", "")
    HELP = "What went wrong in this session, oldest first. Tasks have their own record: their traces."

    @override
    def read(self) -> Sequence[PageRow]:
        return [PageRow((line,)) for line in self.desk.log_lines]


PAGES: dict[str, type[Page]] = {
    page.page_name: page for page in (SessionsPage, CapturesPage, SettingsPage, DoctorPage, LogPage)
}
