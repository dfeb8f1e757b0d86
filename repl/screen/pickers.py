"""Small questions on top of a screen: choose from a list, or answer yes or no. The safe answer is always Esc."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option
from typing_extensions import override

from repl.present.cells import shown
from repl.screen.keymap import KEYS


class Choice(ModalScreen[int | None]):
    """Pick one of `options`, which `text` asks for; answers its index, None for Esc."""

    BINDINGS = KEYS["choice"]

    def __init__(self, title: str, options: Sequence[str], *, start: int = 0, text: str = "") -> None:
        super().__init__()
        self._heading, self._options, self._start, self._text = title, options, start, text

    @override
    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._heading
            box.border_subtitle = "Enter chooses, Esc closes"
            if self._text:
                yield Static(Content(shown(self._text)))
            yield OptionList(*(Option(Content(shown(text))) for text in self._options))

    def on_mount(self) -> None:
        listing = self.query_one(OptionList)
        listing.highlighted = min(self._start, len(self._options) - 1) if self._options else None
        listing.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)

    def action_down(self) -> None:
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        self.query_one(OptionList).action_cursor_up()


class Question(ModalScreen[str]):
    """Answered by one of `keys`; every other key but Esc is ignored, Esc answers the empty text."""

    def __init__(self, text: str, keys: str) -> None:
        super().__init__()
        self._text, self._keys = text, keys

    @override
    def compose(self) -> ComposeResult:
        yield Static(self._text, markup=False)

    def on_key(self, event: Key) -> None:
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.dismiss("")
        elif event.character and event.character in self._keys:
            self.dismiss(event.character)
