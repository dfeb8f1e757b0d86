"""The `pm>` prompt of the full screen: several lines, completion, folded pastes, and the history search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from textual.containers import Vertical
from textual.content import Content
from textual.events import Key, Paste
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option
from typing_extensions import override

from repl.actions import ACTIONS, live_keys
from repl.editing import Pastes
from repl.history import History, HistorySearch
from repl.present.cells import fit, shown
from repl.present.text import one_line
from repl.registry.complete import Candidate
from repl.screen.keymap import KEYS
from repl.screen.pickers import Search


class HistoryScreen(Search[str | None]):
    """Answers the chosen input, or None."""

    BINDINGS = KEYS["history"]
    keys_text = "Enter takes it, Ctrl+R next scope, Esc closes"
    placeholder = "search earlier inputs"

    def __init__(self, history: History) -> None:
        super().__init__()
        self._search = HistorySearch(history.entries, saved="")

    @override
    def find(self, wanted: str) -> list[str]:
        self.query_one(Vertical).border_title = f"History: {self._search.scope}"
        return self._search.matches(wanted)

    @override
    def row(self, entry: str) -> str:
        return fit(shown(one_line(entry)), max(int(self.app.size.width * 0.9) - 6, 20))

    @override
    def take(self, entry: str | None) -> None:
        self.dismiss(entry)

    def action_scope(self) -> None:
        self._search.cycle()
        self.narrow()


_PROMPT_MAX_SHOWN: Final = 8


class Completions(OptionList, can_focus=False):
    """The menu above the prompt: candidates with argument hint and help."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.candidates: list[Candidate] = []
        self.moved = False

    def offer(self, candidates: list[Candidate]) -> None:
        """Show candidates; an empty list closes the menu."""
        if candidates == self.candidates:
            return
        self.candidates, self.moved = candidates, False
        self.clear_options()
        width = max(self.app.size.width - 4, 20)
        self.add_options([Option(Content(_row(candidate, width))) for candidate in candidates])
        self.highlighted = None
        self.display = bool(candidates)

    def move(self, step: int) -> None:
        if self.candidates:
            start = -1 if self.highlighted is None else self.highlighted
            start = len(self.candidates) if self.highlighted is None and step < 0 else start
            self.highlighted = (start + step) % len(self.candidates)
            self.moved = True

    @property
    def chosen(self) -> Candidate | None:
        """The candidate the user moved to, if any."""
        if not self.moved or self.highlighted is None:
            return None
        return self.candidates[self.highlighted]


def _row(candidate: Candidate, width: int) -> str:
    head = shown(f"{candidate.text} {candidate.hint}".strip())
    return fit(f"{fit(head, 30) if len(head) < 30 else head}  {shown(candidate.help)}".rstrip(), width)


class Prompt(TextArea):
    """The input. `look_up` completes what stands before the cursor, `pull_back` takes queued input back."""

    BINDINGS = KEYS["prompt"]
    HELP = (
        "Type a task, or / for commands. Enter submits, Ctrl+J starts a new line, Up and Down go through earlier\n"
        "inputs that begin as the line does, Ctrl+R searches them. Esc goes to the list, where letters act."
    )

    class Submitted(Message):
        """The user submitted `text`."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Asked(Message):
        """The user wants `what`: help, history, editor, detail, leave (for the list), interrupt or end."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    def __init__(self, completions: Completions, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(
            id=id, show_line_numbers=False, soft_wrap=True, tab_behavior="focus", highlight_cursor_line=False
        )
        self.cursor_blink = False  # a blinking cursor writes to the terminal while nothing changes
        self.completions = completions
        self.look_up: Callable[[str], list[Candidate]] = lambda _text: []
        self.past: Callable[[], list[str]] = list
        self.pull_back: Callable[[], str] = str
        self.enter_breaks = False
        self.rebind(live_keys({}))
        self._pastes = Pastes()
        self._walk: list[str] | None = None
        self._at = 0
        self._typed = ""

    def rebind(self, keys: Mapping[str, Sequence[str]]) -> None:
        """Take the live keys, by action id."""
        self._own_keys = {key: action for action in ACTIONS["prompt"] for key in keys[action.id]}

    # -- text -------------------------------------------------------------------------------------------------------

    def put(self, text: str) -> None:
        self.load_text(text)
        self.move_cursor(self.document.end)

    @property
    def whole(self) -> str:
        return self._pastes.expand(self.text)

    @override
    async def _on_paste(self, event: Paste) -> None:
        event.prevent_default()
        event.stop()
        self.insert(self._pastes.insert(event.text))

    def action_expand(self) -> None:
        if self.whole == self.text:
            self.post_message(self.Asked("detail"))
            return
        self.put(self.whole)
        self._pastes.clear()

    # -- keys -------------------------------------------------------------------------------------------------------

    @override
    async def _on_key(self, event: Key) -> None:
        # Here and not by priority bindings: those overtake keys that were typed before and wait in the queue.
        # Textual calls the TextArea's own handler after this one, unless the default is prevented.
        action = self._own_keys.get(event.key)
        if action is not None and action.does:
            await self.run_action(action.does)
        elif not self._special(event.key if action is None else action.id):
            return
        event.stop()
        event.prevent_default()

    def _special(self, what: str) -> bool:
        """Actions (or keys) that depend on what is there: an empty line, an open menu, the first or last line."""
        offered = bool(self.completions.candidates)
        match what:
            case "prompt.help" if not self.text:
                self.post_message(self.Asked("help"))
            case "prompt.leave" if not self.text:
                self.post_message(self.Asked("end"))
            case "prompt.interrupt" if not self.selected_text:
                self._clear() if self.text else self.post_message(self.Asked("interrupt"))
            case "prompt.escape":
                self.completions.offer([]) if offered else self.post_message(self.Asked("leave"))
            case "prompt.previous" | "down" if offered:
                self.completions.move(1 if what == "down" else -1)
            case "prompt.previous" if not self.text and (queued := self.pull_back()):
                self.put(queued)
            case "prompt.previous" if self.cursor_location[0] == 0:
                self._earlier(-1)
            case "down" if self.cursor_location[0] == self.document.line_count - 1:
                self._earlier(1)
            case _:
                return False
        return True

    def action_submit(self) -> None:
        if self.enter_breaks:
            self.insert("\n")
        else:
            self._submit()

    def action_break_line(self) -> None:
        if self.enter_breaks:
            self._submit()
        else:
            self.insert("\n")

    def _submit(self) -> None:
        chosen = self.completions.chosen
        if chosen is not None:
            self._take(chosen)
            self.completions.offer([])
            return
        if self.text.endswith("\\") and self.cursor_at_end_of_text:
            self.action_delete_left()
            self.insert("\n")
            return
        text = self.whole
        self._clear()
        if text.strip():
            self.post_message(self.Submitted(text))

    def _clear(self) -> None:
        self._pastes.clear()
        self._walk = None
        self.load_text("")
        self.completions.offer([])

    def action_search_history(self) -> None:
        self.post_message(self.Asked("history"))

    def action_edit(self) -> None:
        self.post_message(self.Asked("editor"))

    # -- history ----------------------------------------------------------------------------------------------------

    def _earlier(self, step: int) -> None:
        if self._walk is None:
            if step > 0:
                return
            self._typed = self.text
            self._walk = [entry for entry in self.past() if entry.startswith(self._typed) and entry != self._typed]
            self._at = len(self._walk)
        self._at = max(0, min(self._at + step, len(self._walk)))
        walk = self._walk
        self.put(walk[self._at] if self._at < len(walk) else self._typed)
        self._walk = walk
        self.completions.offer([])

    # -- completion -------------------------------------------------------------------------------------------------

    def on_text_area_changed(self) -> None:
        if self._walk is not None and self._at < len(self._walk) and self.text == self._walk[self._at]:
            return
        self._walk = None
        before = self._before()
        wanted = before.startswith("/") or before.rpartition(" ")[2].startswith("@")
        self.completions.offer(self.look_up(before)[: _PROMPT_MAX_SHOWN * 4] if wanted and "\n" not in before else [])

    def _before(self) -> str:
        row, column = self.cursor_location
        return "\n".join([*self.text.split("\n")[:row], self.document.get_line(row)[:column]])

    def action_complete(self) -> None:
        offered = self.completions.candidates
        if len(offered) == 1:
            self._take(offered[0])
            self.completions.offer([])
        elif offered:
            self.completions.move(1)

    def action_complete_back(self) -> None:
        self.completions.move(-1)

    def _take(self, candidate: Candidate) -> None:
        before = self._before()
        start = max(before.rfind(" "), before.rfind("\n")) + 1
        lead = before[start:]
        mark = lead[0] if lead[:1] in {"/", "@"} and not candidate.text.startswith(lead[:1]) else ""
        keeps_mark = start == 0 and mark == "/"
        row, column = self.cursor_location
        ending = "" if candidate.text.endswith("/") else " "
        text = (mark if keeps_mark or mark == "@" else "") + candidate.text + ending
        self.replace(text, (row, column - len(lead)), (row, column))
