"""Key bindings of line mode: which key calls which action of the `LineView`, and when.

Everything a key can do is a method of the view, so that tests and the palette reach it without a key. Both ways to
interrupt are one action: the raw key and a real SIGINT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, FilterOrBool
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_bindings import KeyHandlerCallable
from prompt_toolkit.keys import Keys

from tracer.errors import ConfigError

if TYPE_CHECKING:
    from repl.line.view import LineView

__all__ = ["make_bindings"]

# What terminals send for Shift+Enter where they tell it apart, and for focus in and out.
ANSI_SEQUENCES["\x1b[13;2u"] = Keys.ControlJ
ANSI_SEQUENCES["\x1b[27;2;13~"] = Keys.ControlJ
ANSI_SEQUENCES["\x1b[I"] = Keys.F23
ANSI_SEQUENCES["\x1b[O"] = Keys.F24


def make_bindings(view: LineView, keys: Mapping[str, tuple[tuple[str, ...], ...]]) -> KeyBindings:
    """The bindings for a live keymap.

    Raises:
        ConfigError: a key that prompt_toolkit does not know.

    """
    found = KeyBindings()
    searching = Condition(lambda: view.search is not None)
    leaving = Condition(lambda: view.leaving)
    editing = ~searching & ~leaving
    empty = Condition(lambda: not view.buffer.text)
    pull = Condition(lambda: not view.buffer.text and bool(view.session.queue) and bool(view.session.running))

    def bind(action: str, handler: Callable[[KeyPressEvent], None], when: FilterOrBool) -> None:
        for sequence in keys[action]:
            try:
                found.add(*sequence, filter=when)(handler)
            except ValueError as error:
                raise ConfigError(f"repl.keys.{action}: {' '.join(sequence)!r} is no key", why=str(error)) from error

    submit, newline = ("newline", "submit") if view.swap_enter else ("submit", "newline")
    bind(submit, lambda _event: view.submit(), editing)
    bind(newline, lambda event: event.current_buffer.insert_text("\n"), editing)
    bind("stop", lambda _event: view.escape(), editing)
    bind("interrupt", lambda _event: view.interrupt(), ~searching)
    found.add(Keys.SIGINT)(lambda _event: view.interrupt())
    bind("leave", lambda _event: view.end_of_input(), editing & empty)
    bind("previous", lambda _event: view.pull_back(), editing & pull)
    bind("search", lambda _event: view.start_search(), editing)
    bind("editor", lambda _event: view.edit_outside(), editing)
    bind("expand", lambda _event: view.expand_pastes(), editing)
    bind("detail", lambda _event: view.toggle_detail(), editing)
    bind("trace", lambda _event: view.show_trace(), editing)
    bind("clear", lambda event: event.app.renderer.clear(), editing)
    bind("suspend", lambda event: event.app.suspend_to_background(), editing)
    bind("help", lambda _event: view.print_keys(), editing & empty)
    _bind_search(found, view, searching)
    _bind_leaving(found, view, leaving)
    found.add(Keys.BracketedPaste, filter=editing)(lambda event: view.paste(event.data))
    found.add(Keys.F23)(lambda _event: view.focus(inside=True))
    found.add(Keys.F24)(lambda _event: view.focus(inside=False))
    return found


def _bind_search(found: KeyBindings, view: LineView, searching: Condition) -> None:
    def handler(work: Callable[[], None]) -> KeyHandlerCallable:
        return lambda _event: work()

    for key, work in (
        ("c-r", view.cycle_scope),
        ("up", lambda: view.move_match(1)),
        ("down", lambda: view.move_match(-1)),
        ("enter", lambda: view.end_search(take=True)),
        ("tab", lambda: view.end_search(take=True)),
        ("escape", lambda: view.end_search(take=False)),
        ("c-c", lambda: view.end_search(take=False)),
        ("c-g", lambda: view.end_search(take=False)),
    ):
        found.add(key, filter=searching)(handler(work))


def _bind_leaving(found: KeyBindings, view: LineView, leaving: Condition) -> None:
    found.add(Keys.Any, filter=leaving)(lambda event: view.answer_leaving(event.data))
    for key in ("escape", "enter", "c-d"):
        found.add(key, filter=leaving)(lambda _event: view.answer_leaving("c"))
