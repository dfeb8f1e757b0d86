"""Every key of the full screen: data by the place where it holds; screens, `/keys`, palette, help and docs read it.

`repl.keys.<id>` in the settings rebinds a key by its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from textual.binding import Binding, BindingType

# Places whose keys can be looked up, with the names that `/keys` and the documentation give them.
_SHOWN: Final = {
    "app": "everywhere", "themed": "everywhere", "prompt": "prompt", "home": "tasks", "transcript": "session",
    "task": "task", "trace": "trace", "waterfall": "waterfall",
    "capture": "capture", "diff": "diff", "review": "review", "page": "pages",
}  # fmt: skip

KEYS: Final[dict[str, list[BindingType]]] = {
    "app": [
        Binding("ctrl+q", "quit_asking", "leave", show=False, priority=True, id="app.quit"),
        Binding("ctrl+p", "palette", "palette", priority=True, id="app.palette"),
        Binding("ctrl+t", "last_trace", "trace of the last task", show=False, priority=True, id="app.trace"),
        Binding("ctrl+l", "clear", "clear the transcript", show=False, priority=True, id="app.clear"),
        Binding("ctrl+s", "page('sessions')", "sessions", show=False, priority=True, id="app.sessions"),
        Binding("f2", "page('settings')", "settings", show=False, id="app.settings"),
        Binding("f3", "page('captures')", "captures", show=False, id="app.captures"),
        Binding("f4", "page('doctor')", "doctor", show=False, id="app.doctor"),
        Binding("f8", "page('log')", "log", show=False, id="app.log"),
        Binding("f5", "refresh_now", "refresh", show=False, id="app.refresh"),
        Binding("ctrl+o", "detail", "unfold answers and what the agent does", show=False, id="app.detail"),
        Binding("ctrl+z", "suspend_process", "suspend to the shell", show=False, priority=True, id="app.suspend"),
    ],
    "themed": [
        Binding("ctrl+q", "quit", "quit", show=False, id="app.quit"),
        Binding("question_mark,f1", "help", "help", id="app.help"),
    ],
    "prompt": [
        Binding("enter", "submit", "submit", id="prompt.submit"),
        Binding("ctrl+j,alt+enter,shift+enter", "break_line", "new line", show=False, id="prompt.newline"),
        Binding("tab", "complete", "complete", id="prompt.complete"),
        Binding("shift+tab", "complete_back", "complete back", show=False, id="prompt.complete_back"),
        Binding("ctrl+r", "search_history", "history", id="prompt.search"),
        Binding("ctrl+g", "edit", "editor", show=False, id="prompt.editor"),
        Binding("ctrl+o", "expand", "unfold pastes, answers and what the agent does", show=False, id="prompt.expand"),
    ],
    "home": [
        Binding("enter", "do('open')", "open", id="home.open"),
        Binding("t", "do('trace')", "trace", id="home.trace"),
        Binding("d", "do('diff')", "diff", id="home.diff"),
        Binding("v", "do('review')", "review", id="home.review"),
        Binding("s", "do('stop')", "stop", id="home.stop"),
        Binding("r", "do('resume')", "resume", id="home.resume"),
        Binding("a", "do('answer')", "answer", id="home.answer"),
        Binding("slash", "filter", "filter", id="home.filter"),
        Binding("colon", "command", "command", id="home.command"),
        Binding("i", "prompt", "prompt", show=False, id="home.prompt"),
        Binding("y", "do('copy')", "copy the id", show=False, id="home.copy"),
        Binding("Y", "do('copy_path')", "copy the trace's path", show=False, id="home.copy_raw"),
        Binding("e", "do('editor')", "trace in the editor", show=False, id="home.editor"),
        Binding("o", "do('pager')", "trace in the pager", show=False, id="home.pager"),
        Binding("up,k", "move(-1)", "up", show=False, id="home.up"),
        Binding("down,j", "move(1)", "down", show=False, id="home.down"),
        Binding("pageup,ctrl+u", "page(-1)", "a page up", show=False, id="home.page_up"),
        Binding("pagedown", "page(1)", "a page down", show=False, id="home.page_down"),
        Binding("home,g", "edge(0)", "newest", show=False, id="home.first"),
        Binding("end,G", "edge(1)", "oldest", show=False, id="home.last"),
        Binding("n", "move(1)", "next", show=False, id="home.next"),
        Binding("N", "move(-1)", "previous", show=False, id="home.previous"),
        Binding("escape,q", "back", "back to the prompt", show=False, id="home.back"),
        Binding("ctrl+c", "interrupt", "stop what runs", show=False, id="home.interrupt"),
        *(Binding(str(digit), f"row({digit})", "", show=False) for digit in range(1, 10)),
    ],
    "transcript": [
        Binding("up,k", "scroll_by(-1)", "up", show=False, id="transcript.up"),
        Binding("down,j", "scroll_by(1)", "down", show=False, id="transcript.down"),
        Binding("pageup,ctrl+u", "scroll_page(-1)", "a page up", id="transcript.page_up"),
        Binding("pagedown,ctrl+d", "scroll_page(1)", "a page down", id="transcript.page_down"),
        Binding("home,g", "to_start", "start", id="transcript.start"),
        Binding("end,G", "to_end", "end, and follow", id="transcript.end"),
        Binding("y", "copy", "copy all", id="transcript.copy"),
    ],
    "task": [
        Binding("escape,q", "back", "back", id="task.back"),
        Binding("t", "do('trace')", "trace", id="task.trace"),
        Binding("d", "do('diff')", "diff", id="task.diff"),
        Binding("v", "do('review')", "review", id="task.review"),
        Binding("s", "do('stop')", "stop", id="task.stop"),
        Binding("r", "do('resume')", "resume", id="task.resume"),
        Binding("enter,a", "do('answer')", "answer, hint", id="task.answer"),
        Binding("y", "do('copy')", "copy the id", show=False, id="task.copy"),
        Binding("colon", "command", "command", id="task.command"),
    ],
    "trace": [
        Binding("escape", "back", "back", id="trace.back"),
        Binding("f", "follow", "follow", id="trace.follow"),
        Binding("j", "mode", "raw", id="trace.raw"),
        Binding("l", "latest", "latest", id="trace.latest"),
        Binding("i", "iterations", "iterations", id="trace.iterations"),
        Binding("s", "subtasks", "subtasks", id="trace.subtasks"),
        Binding("w", "waterfall", "waterfall", id="trace.waterfall"),
        Binding("equals_sign", "compare", "diff answers", id="trace.compare"),
        Binding("slash", "ask('search')", "search", id="trace.search"),
        Binding("ampersand", "ask('filter')", "filter", id="trace.filter"),
        Binding("g", "ask('go to line')", "goto", id="trace.goto"),
        Binding("y", "copy", "copy", id="trace.copy"),
        Binding("p", "previous", "previous iteration's same event", show=False, id="trace.previous"),
        Binding("n", "next_match(False)", "next match", show=False, id="trace.next"),
        Binding("N", "next_match(True)", "previous match", show=False, id="trace.previous_match"),
        Binding("Y", "copy_raw", "copy the stored line", show=False, id="trace.copy_raw"),
        Binding("x", "unfold", "unfold long values", show=False, id="trace.unfold"),
        Binding("e", "open('editor')", "open in the editor", show=False, id="trace.editor"),
        Binding("o", "open('pager')", "open in the pager", show=False, id="trace.pager"),
        Binding("enter", "detail", "read the detail", show=False, id="trace.detail"),
        Binding("space", "fold", "fold or unfold the group", show=False, id="trace.fold"),
        Binding("left", "fold_to(True)", "fold", show=False, id="trace.fold_left"),
        Binding("right", "fold_to(False)", "unfold", show=False, id="trace.fold_right"),
        Binding("up,K", "move(-1)", "up", show=False, id="trace.up"),
        Binding("down,J", "move(1)", "down", show=False, id="trace.down"),
        Binding("pageup,ctrl+u", "page(-1)", "a page up", show=False, id="trace.page_up"),
        Binding("pagedown,ctrl+d", "page(1)", "a page down", show=False, id="trace.page_down"),
        Binding("home", "first", "first event", show=False, id="trace.first"),
        Binding("end,G", "last", "last event, and follow", show=False, id="trace.last"),
        Binding("tab", "app.focus_next", "next pane", show=False, id="trace.next_pane"),
        Binding("f5", "refresh_now", "look at the file again", show=False, id="trace.refresh"),
        Binding("q", "leave", "back to the list", show=False, id="trace.leave"),
        *(Binding(str(digit), f"ask('go to line', '{digit}')", "", show=False) for digit in range(10)),
    ],
    "trace_input": [Binding("tab", "complete", "complete", show=False, id="trace.complete")],
    "capture": [
        Binding("T", "next_thought", "next thought", id="capture.next_thought"),
    ],
    "diff": [
        Binding("escape,q", "back", "back", id="diff.back"),
        Binding("n", "jump(False)", "next change", id="diff.next"),
        Binding("N", "jump(True)", "previous change", id="diff.previous"),
        Binding("v", "flip", "side by side", id="diff.flip"),
    ],
    "review": [
        Binding("escape,q", "back", "back", id="review.back"),
        Binding("n", "jump(False)", "next change", id="review.next"),
        Binding("x", "decide('--discard', False)", "discard or put in", id="review.discard"),
        Binding("a", "decide('--keep', False)", "keep", id="review.keep"),
        Binding("c", "commit", "commit", id="review.commit"),
        Binding("e", "edit", "edit", id="review.edit"),
        Binding("u", "undo", "undo the task", id="review.undo"),
        Binding("X", "decide('--discard', True)", "discard the whole file", show=False, id="review.discard_file"),
        Binding("A", "decide('--keep', True)", "keep the whole file", show=False, id="review.keep_file"),
        Binding("N", "jump(True)", "previous change", show=False, id="review.previous"),
        Binding("up,k", "move(-1)", "up", show=False, id="review.up"),
        Binding("down,j", "move(1)", "down", show=False, id="review.down"),
        Binding("pageup,ctrl+u", "page(-1)", "a page up", show=False, id="review.page_up"),
        Binding("pagedown,ctrl+d,space", "page(1)", "a page down", show=False, id="review.page_down"),
        Binding("home,g", "edge(0)", "start", show=False, id="review.start"),
        Binding("end,G", "edge(1)", "end", show=False, id="review.end"),
        Binding("tab", "app.focus_next", "files or changes", show=False, id="review.pane"),
    ],
    "page": [
        Binding("escape,q", "back", "back", id="page.back"),
        Binding("enter", "open", "open", id="page.open"),
        Binding("slash", "filter", "filter", id="page.filter"),
        Binding("f5", "look", "refresh", id="page.refresh"),
        Binding("y", "copy", "copy", id="page.copy"),
        Binding("j", "move(1)", "down", show=False, id="page.down"),
        Binding("k", "move(-1)", "up", show=False, id="page.up"),
    ],
    "waterfall": [Binding("space,left,right", "fold", "fold", id="waterfall.fold")],
    "palette": [
        Binding("escape,ctrl+p", "dismiss(None)", "close", id="palette.close"),
        Binding("down", "move(1)", "down", show=False, id="palette.down"),
        Binding("up", "move(-1)", "up", show=False, id="palette.up"),
    ],
    "history": [
        Binding("escape", "dismiss(None)", "close", id="history.close"),
        Binding("ctrl+r", "scope", "session, project, all", id="history.scope"),
        Binding("down", "move(1)", "older", id="history.older"),
        Binding("up", "move(-1)", "newer", id="history.newer"),
    ],
    "choice": [
        Binding("escape,q", "dismiss(None)", "close", id="choice.close"),
        Binding("j", "down", "down", show=False, id="choice.down"),
        Binding("k", "up", "up", show=False, id="choice.up"),
    ],
    "help": [Binding("escape,q,question_mark,f1,enter", "close", "close", id="help.close")],
}

_NAMES: Final = {
    "escape": "Esc", "enter": "Enter", "space": "space", "tab": "Tab", "left": "left", "right": "right",
    "question_mark": "?", "slash": "/", "equals_sign": "=", "colon": ":", "ampersand": "&", "backslash": "\\",
    "pageup": "PgUp", "pagedown": "PgDn", "less_than_sign": "<", "greater_than_sign": ">", "full_stop": ".",
    "up": "up", "down": "down", "home": "Home", "end": "End",
}  # fmt: skip


def key_name(key: str) -> str:
    """A key as people write it: `question_mark` → `?`, `ctrl+p` stays."""
    *modifiers, last = key.split("+")
    name = _NAMES.get(last, last.upper() if last.startswith("f") and last[1:].isdecimal() else last)
    return "+".join([*modifiers, name])


class KeyBinding(NamedTuple):
    """One action: where it holds, its id, its keys as shown, and what it does."""

    place: str
    id: str
    keys: tuple[str, ...]
    what: str


def binding_rows(changes: Mapping[str, str]) -> list[KeyBinding]:
    """All bindings that have an id; `changes` are the keys set by the user, by id."""
    rows: dict[str, KeyBinding] = {}
    for place, shown in _SHOWN.items():
        for binding in KEYS[place]:
            if isinstance(binding, Binding) and binding.id and binding.id not in rows:
                keys = changes.get(binding.id, binding.key).split(",")
                names = tuple(key_name(key.strip()) for key in keys)
                rows[binding.id] = KeyBinding(shown, binding.id, names, binding.description)
    return list(rows.values())
