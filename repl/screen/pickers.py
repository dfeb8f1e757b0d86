"""On top of a screen: choose from a list, search one, or answer yes or no. The safe answer is always Esc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from typing_extensions import override

from repl.present.cells import shown
from repl.screen.keymap import KEYS

_MOST: Final = 200


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


Result = TypeVar("Result")


class Search(ModalScreen[Result]):
    """Type to narrow a list; Enter takes what is highlighted. Subclasses `find` entries, write a `row`, `take` one."""

    title_text: ClassVar[str] = ""
    keys_text: ClassVar[str] = ""
    placeholder: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__()
        self.found: Sequence[Any] = ()

    @override
    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self.title_text
            box.border_subtitle = self.keys_text
            yield Input(placeholder=self.placeholder)
            yield OptionList()

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.narrow()

    def find(self, wanted: str) -> Sequence[Any]:
        raise NotImplementedError

    def row(self, entry: Any) -> str:
        raise NotImplementedError

    def take(self, entry: Any | None) -> None:
        """What Enter does; None where nothing was found."""
        raise NotImplementedError

    @on(Input.Changed)
    def narrow(self) -> None:
        self.found = self.find(self.query_one(Input).value)[:_MOST]
        listing = self.query_one(OptionList)
        listing.clear_options()
        listing.add_options([Option(Content(self.row(entry))) for entry in self.found])
        listing.highlighted = 0 if self.found else None

    @on(Input.Submitted)
    def entered(self) -> None:
        at = self.query_one(OptionList).highlighted
        self.take(None if at is None else self.found[at])

    @on(OptionList.OptionSelected)
    def clicked(self, event: OptionList.OptionSelected) -> None:
        self.take(self.found[event.option_index])

    def action_move(self, step: int) -> None:
        listing = self.query_one(OptionList)
        if self.found:
            listing.highlighted = ((listing.highlighted or 0) + step) % len(self.found)


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
