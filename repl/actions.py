"""Every action that a key can start, in line mode and full screen: the one table that both bind their keys from.

Hints, help, `/keys`, the palette, completion and the documentation read it too. `repl.keys.<id>` in the settings
rebinds an action wherever it holds. Keys are written as `ctrl+x`, alternatives apart by commas, sequences (line mode
alone) by blanks. Pure data: nothing of a terminal is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from tracer.errors import ConfigError


class Action(NamedTuple):
    """One action. `what` is short, for hints; `about` says more where that is needed.

    `does` is how the full screen calls it; without, its widget reads the key itself. `hint`: at the foot of the screen;
    `first`: before the focused widget; `line`: it holds in line mode too.
    """

    id: str
    keys: str
    what: str
    does: str = ""
    hint: bool = False
    first: bool = False
    line: bool = False
    about: str = ""


# Places whose keys can be looked up, with the names that `/keys` and the documentation give them.
PLACES: Final = {
    "app": "everywhere", "themed": "everywhere", "prompt": "prompt", "home": "tasks", "transcript": "session",
    "task": "task", "trace": "trace", "waterfall": "waterfall", "capture": "capture", "diff": "diff",
    "review": "review", "page": "pages",
}  # fmt: skip

# fmt: off
ACTIONS: Final[Mapping[str, tuple[Action, ...]]] = {
    "app": (
        Action("app.quit", "ctrl+q", "leave", "quit_asking", first=True),
        Action("app.palette", "ctrl+p", "palette", "palette", hint=True, first=True),
        Action("app.trace", "ctrl+t", "trace of the current or last task", "last_trace", first=True, line=True),
        Action("app.clear", "ctrl+l", "clear what is shown, keep the state", "clear", first=True, line=True),
        Action("app.sessions", "ctrl+s", "go to sessions", "page('sessions')", first=True),
        Action("app.settings", "f2", "go to settings", "page('settings')"),
        Action("app.captures", "f3", "go to captures", "page('captures')"),
        Action("app.doctor", "f4", "go to doctor", "page('doctor')"),
        Action("app.log", "f8", "go to log", "page('log')"),
        Action("app.refresh", "f5", "refresh", "refresh_now"),
        Action("app.detail", "ctrl+o", "unfold answers and what the agent does", "detail"),
        Action("app.suspend", "ctrl+z", "suspend to the shell", "suspend_process", first=True, line=True),
    ),
    "themed": (
        Action("app.quit", "ctrl+q", "quit", "quit"),
        Action("app.help", "question_mark,f1", "help", "help", hint=True),
    ),
    "prompt": (
        Action("prompt.submit", "enter", "submit", "submit", hint=True, line=True,
               about="submit; while a task runs: queue for after it"),
        Action("prompt.newline", "ctrl+j,alt+enter,shift+enter", "new line", "break_line", line=True,
               about=r"insert a line break (also \ at the end)"),
        Action("prompt.complete", "tab", "complete", "complete", hint=True),
        Action("prompt.complete_back", "shift+tab", "complete back", "complete_back"),
        Action("prompt.search", "ctrl+r", "history", "search_history", hint=True, line=True,
               about="search earlier inputs; again: session, project, all"),
        Action("prompt.editor", "ctrl+g,ctrl+x ctrl+e", "edit the line in $VISUAL or $EDITOR", "edit", line=True),
        Action("prompt.expand", "ctrl+o", "unfold pastes, answers and what the agent does", "expand", line=True),
        Action("prompt.previous", "up", "earlier input", line=True,
               about="earlier input that begins like this; empty line: pull back the last queued input"),
        Action("prompt.escape", "escape", "close the menu, or stop", line=True,
               about="close the menu; then, in line mode: stop the task at the next safe point, asks once; in full "
                     "screen: go to the list"),
        Action("prompt.interrupt", "ctrl+c", "clear the line", line=True,
               about="clear the line; an empty one: stop the task, asks once"),
        Action("prompt.leave", "ctrl+d", "leave", line=True,
               about="empty line: leave; while a task runs asks: wait, stop and leave, or cancel"),
        Action("prompt.help", "question_mark", "the keys", line=True, about="empty line: the keys that hold"),
    ),
    "home": (
        Action("home.open", "enter", "open", "do('open')", hint=True),
        Action("home.trace", "t", "trace", "do('trace')", hint=True),
        Action("home.diff", "d", "diff", "do('diff')", hint=True),
        Action("home.review", "v", "review", "do('review')", hint=True),
        Action("home.stop", "s", "stop", "do('stop')", hint=True),
        Action("home.resume", "r", "resume", "do('resume')", hint=True),
        Action("home.answer", "a", "answer", "do('answer')", hint=True),
        Action("home.filter", "slash", "filter", "filter", hint=True),
        Action("home.command", "colon", "command", "command", hint=True),
        Action("home.prompt", "i", "prompt", "prompt"),
        Action("home.copy", "y", "copy the id", "do('copy')"),
        Action("home.copy_raw", "Y", "copy the trace's path", "do('copy_path')"),
        Action("home.editor", "e", "trace in the editor", "do('editor')"),
        Action("home.pager", "o", "trace in the pager", "do('pager')"),
        Action("home.up", "up,k", "up", "move(-1)"),
        Action("home.down", "down,j", "down", "move(1)"),
        Action("home.page_up", "pageup,ctrl+u", "a page up", "page(-1)"),
        Action("home.page_down", "pagedown", "a page down", "page(1)"),
        Action("home.first", "home,g", "newest", "edge(0)"),
        Action("home.last", "end,G", "oldest", "edge(1)"),
        Action("home.next", "n", "next", "move(1)"),
        Action("home.previous", "N", "previous", "move(-1)"),
        Action("home.back", "escape,q", "back to the prompt", "back"),
        Action("home.interrupt", "ctrl+c", "stop what runs", "interrupt"),
    ),
    "transcript": (
        Action("transcript.up", "up,k", "up", "scroll_by(-1)"),
        Action("transcript.down", "down,j", "down", "scroll_by(1)"),
        Action("transcript.page_up", "pageup,ctrl+u", "a page up", "scroll_page(-1)", hint=True),
        Action("transcript.page_down", "pagedown,ctrl+d", "a page down", "scroll_page(1)", hint=True),
        Action("transcript.start", "home,g", "start", "to_start", hint=True),
        Action("transcript.end", "end,G", "end, and follow", "to_end", hint=True),
        Action("transcript.copy", "y", "copy all", "copy", hint=True),
    ),
    "task": (
        Action("task.back", "escape,q", "back", "dismiss(None)", hint=True),
        Action("task.trace", "t", "trace", "do('trace')", hint=True),
        Action("task.diff", "d", "diff", "do('diff')", hint=True),
        Action("task.review", "v", "review", "do('review')", hint=True),
        Action("task.stop", "s", "stop", "do('stop')", hint=True),
        Action("task.resume", "r", "resume", "do('resume')", hint=True),
        Action("task.answer", "enter,a", "answer, hint", "do('answer')", hint=True),
        Action("task.copy", "y", "copy the id", "do('copy')"),
        Action("task.command", "colon", "command", "command", hint=True),
    ),
    "trace": (
        Action("trace.back", "escape", "back", "back", hint=True),
        Action("trace.follow", "f", "follow", "follow", hint=True),
        Action("trace.raw", "j", "raw", "mode", hint=True),
        Action("trace.latest", "l", "latest", "latest", hint=True),
        Action("trace.iterations", "i", "iterations", "iterations", hint=True),
        Action("trace.subtasks", "s", "subtasks", "subtasks", hint=True),
        Action("trace.waterfall", "w", "waterfall", "waterfall", hint=True),
        Action("trace.compare", "equals_sign", "diff answers", "compare", hint=True),
        Action("trace.search", "slash", "search", "ask('search')", hint=True),
        Action("trace.filter", "ampersand", "filter", "ask('filter')", hint=True),
        Action("trace.goto", "g", "goto", "ask('go to line')", hint=True),
        Action("trace.copy", "y", "copy", "copy", hint=True),
        Action("trace.previous", "p", "previous iteration's same event", "previous"),
        Action("trace.next", "n", "next match", "next_match(False)"),
        Action("trace.previous_match", "N", "previous match", "next_match(True)"),
        Action("trace.copy_raw", "Y", "copy the stored line", "copy_raw"),
        Action("trace.unfold", "x", "unfold long values", "unfold"),
        Action("trace.editor", "e", "open in the editor", "open('editor')"),
        Action("trace.pager", "o", "open in the pager", "open('pager')"),
        Action("trace.detail", "enter", "read the detail", "detail"),
        Action("trace.fold", "space", "fold or unfold the group", "fold"),
        Action("trace.fold_left", "left", "fold", "fold_to(True)"),
        Action("trace.fold_right", "right", "unfold", "fold_to(False)"),
        Action("trace.up", "up,K", "up", "move(-1)"),
        Action("trace.down", "down,J", "down", "move(1)"),
        Action("trace.page_up", "pageup,ctrl+u", "a page up", "page(-1)"),
        Action("trace.page_down", "pagedown,ctrl+d", "a page down", "page(1)"),
        Action("trace.first", "home", "first event", "first"),
        Action("trace.last", "end,G", "last event, and follow", "last"),
        Action("trace.next_pane", "tab", "next pane", "app.focus_next"),
        Action("trace.refresh", "f5", "look at the file again", "refresh_now"),
        Action("trace.leave", "q", "back to the list", "leave"),
    ),
    "trace_input": (
        Action("trace.complete", "tab", "complete", "complete"),
    ),
    "capture": (
        Action("capture.next_thought", "T", "next thought", "next_thought", hint=True),
    ),
    "diff": (
        Action("diff.back", "escape,q", "back", "dismiss(None)", hint=True),
        Action("diff.next", "n", "next change", "jump(False)", hint=True),
        Action("diff.previous", "N", "previous change", "jump(True)", hint=True),
        Action("diff.flip", "v", "side by side", "flip", hint=True),
    ),
    "review": (
        Action("review.back", "escape,q", "back", "dismiss(None)", hint=True),
        Action("review.next", "n", "next change", "jump(False)", hint=True),
        Action("review.discard", "x", "discard or put in", "decide('--discard', False)", hint=True),
        Action("review.keep", "a", "keep", "decide('--keep', False)", hint=True),
        Action("review.commit", "c", "commit", "commit", hint=True),
        Action("review.edit", "e", "edit", "edit", hint=True),
        Action("review.undo", "u", "undo the task", "undo", hint=True),
        Action("review.discard_file", "X", "discard the whole file", "decide('--discard', True)"),
        Action("review.keep_file", "A", "keep the whole file", "decide('--keep', True)"),
        Action("review.previous", "N", "previous change", "jump(True)"),
        Action("review.up", "up,k", "up", "move(-1)"),
        Action("review.down", "down,j", "down", "move(1)"),
        Action("review.page_up", "pageup,ctrl+u", "a page up", "page(-1)"),
        Action("review.page_down", "pagedown,ctrl+d,space", "a page down", "page(1)"),
        Action("review.start", "home,g", "start", "edge(0)"),
        Action("review.end", "end,G", "end", "edge(1)"),
        Action("review.pane", "tab", "files or changes", "app.focus_next"),
    ),
    "page": (
        Action("page.back", "escape,q", "back", "back", hint=True),
        Action("page.open", "enter", "open", "open", hint=True),
        Action("page.filter", "slash", "filter", "filter", hint=True),
        Action("page.refresh", "f5", "refresh", "look", hint=True),
        Action("page.copy", "y", "copy", "copy", hint=True),
        Action("page.down", "j", "down", "move(1)"),
        Action("page.up", "k", "up", "move(-1)"),
    ),
    "waterfall": (
        Action("waterfall.fold", "space,left,right", "fold", "fold", hint=True),
    ),
    "palette": (
        Action("palette.close", "escape,ctrl+p", "close", "dismiss(None)", hint=True),
        Action("palette.down", "down", "down", "move(1)"),
        Action("palette.up", "up", "up", "move(-1)"),
    ),
    "history": (
        Action("history.close", "escape", "close", "dismiss(None)", hint=True),
        Action("history.scope", "ctrl+r", "session, project, all", "scope", hint=True),
        Action("history.older", "down", "older", "move(1)", hint=True),
        Action("history.newer", "up", "newer", "move(-1)", hint=True),
    ),
    "choice": (
        Action("choice.close", "escape,q", "close", "dismiss(None)", hint=True),
        Action("choice.down", "j", "down", "down"),
        Action("choice.up", "k", "up", "up"),
    ),
    "help": (
        Action("help.close", "escape,q,question_mark,f1,enter", "close", "dismiss(None)", hint=True),
    ),
}
# fmt: on

_NAMES: Final = {
    "escape": "Esc", "enter": "Enter", "space": "Space", "tab": "Tab", "left": "Left", "right": "Right", "up": "Up",
    "down": "Down", "home": "Home", "end": "End", "pageup": "PgUp", "pagedown": "PgDn", "question_mark": "?",
    "slash": "/", "equals_sign": "=", "colon": ":", "ampersand": "&", "backslash": "\\", "less_than_sign": "<",
    "greater_than_sign": ">", "full_stop": ".",
}  # fmt: skip


def key_name(keys: str) -> str:
    """Keys as people write them: `ctrl+x ctrl+e` → `Ctrl+X Ctrl+E`, `question_mark` → `?`; a letter stays as it is."""
    return " ".join(_one_key(key) for key in keys.split())


def _one_key(key: str) -> str:
    *modifiers, last = key.split("+")
    upper = bool(modifiers) or (last.startswith("f") and last[1:].isdecimal())
    return "+".join([*(each.capitalize() for each in modifiers), _NAMES.get(last, last.upper() if upper else last)])


def live_keys(changes: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The keys of each action by its id; `changes` are the settings below `repl.keys`.

    Raises ConfigError: no such action, no key, or a key that two actions of one place would share.
    """
    found = {action.id: _alternatives(action.keys) for actions in ACTIONS.values() for action in actions}
    for action_id, text in changes.items():
        if action_id not in found:
            raise ConfigError(f"repl.keys.{action_id}: no such action", next_step="/keys lists them")
        found[action_id] = _alternatives(str(text))
        if not found[action_id]:
            raise ConfigError(f"repl.keys.{action_id}: no key", next_step=f"pm config set repl.keys.{action_id} ctrl+x")
    line = tuple(action for _place, action in _shown(line=True))
    for actions in (*ACTIONS.values(), line) if changes else ():
        owners: dict[str, str] = {}
        for action_id, key in ((action.id, key) for action in actions for key in found[action.id]):
            if owners.setdefault(key, action_id) != action_id:
                raise ConfigError(
                    f"repl.keys: {key_name(key)} stands for {owners[key]} and {action_id}",
                    next_step=f"pm config set repl.keys.{action_id} KEY",
                )
    return found


def _alternatives(keys: str) -> tuple[str, ...]:
    return tuple(" ".join(key.split()) for key in keys.split(",") if key.strip())


def _shown(*, line: bool) -> Iterator[tuple[str, Action]]:
    """Each action that can be looked up with the name of its place; with `line` those of line mode alone."""
    named = ((name, action) for place, name in PLACES.items() for action in ACTIONS[place])
    return ((name, action) for name, action in named if action.line or not line)


class KeyRow(NamedTuple):
    """One action as the tables of keys show it."""

    place: str
    id: str
    keys: str
    what: str
    line: bool


def key_rows(changes: Mapping[str, str], *, mode: Literal["line", "screen"]) -> list[KeyRow]:
    """The actions that hold in `mode` with their live keys, each once."""
    keys = live_keys(changes)
    rows: dict[str, KeyRow] = {}
    for place, action in _shown(line=mode == "line"):
        names = ", ".join(key_name(key) for key in keys[action.id] if mode == "line" or " " not in key)
        rows.setdefault(action.id, KeyRow(place, action.id, names, action.about or action.what, action.line))
    return list(rows.values())


def key_lines(rows: Iterable[KeyRow], *, columns: int) -> list[str]:
    """The table of keys within `columns`, broken between words; 0 is no terminal: a line each."""
    from textwrap import wrap  # 2 ms, for this table alone

    lines = []
    for row in rows:
        head = f"{row.keys:<22} {row.id:<18} "
        parts = wrap(row.what, max(columns - len(head) - 1, 20)) if columns else [row.what]
        lines += [f"{head if number == 0 else ' ' * len(head)}{part}" for number, part in enumerate(parts)]
    return lines
