"""An agent's answer as people read it: Markdown on a terminal with colours, the text as it was given anywhere else.

Everything is escaped first, and nothing that Markdown would swallow (HTML, entities, link definitions) is hidden. Only
terminals get a fold: what goes into a pipe or a file is whole.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from repl.present.text import count_text, escape, width_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.padding import Padding

GUTTER: Final = "  │ "
FOLD: Final = 40
MOST_MARKDOWN: Final = 200_000  # longer ones take seconds to lay out


def answer_lines(text: str, *, columns: int, styled: bool = False, whole_by: str = "") -> list[str]:
    """The lines of `text` for a terminal of `columns` (0: no terminal, as it is).

    With `whole_by`, the command that shows all of it, a terminal gets no more than 40 rows of it.
    """
    text = escape(text).strip("\n")
    if not columns:
        return text.split("\n")
    text, hidden = _folded(text, columns) if whole_by else (text, 0)
    if styled and len(text) <= MOST_MARKDOWN:
        lines = _markdown(text, columns)
    else:
        lines = [f"{GUTTER}{line}".rstrip() for line in text.split("\n")]
    return [*lines, *([f"  … {count_text(hidden, 'more line')}   {whole_by} shows all"] if hidden else [])]


def _folded(text: str, columns: int) -> tuple[str, int]:
    """The lines that fill the first rows of a terminal, and how many there are beyond them."""
    lines, room = text.split("\n"), FOLD
    for number, line in enumerate(lines):
        room -= max(1, -(-width_of(line) // columns))
        if room < 0:
            kept = lines[: max(number, 1)]
            return "\n".join([kept[0][: FOLD * columns], *kept[1:]]), max(len(lines) - number, 1)
    return text, 0


def markdown(text: str, columns: int) -> tuple[Console, Padding]:
    """What renders the escaped Markdown, and what is to be rendered."""
    from markdown_it import MarkdownIt  # 60 ms with rich, once there is something to show
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.padding import Padding
    from rich.theme import Theme

    parser = MarkdownIt().enable(["strikethrough", "table"])
    shown = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    shown.parsed = parser.disable(["html_block", "html_inline", "entity", "reference"]).parse(text)
    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        width=max(columns, 20),
        highlight=False,
        theme=Theme({"markdown.code": "bold cyan"}),  # no background: the terminal's own may be light
    )
    return console, Padding(shown, (0, 0, 0, 2))


def _markdown(text: str, columns: int) -> list[str]:
    console, shown = markdown(text, columns)
    with console.capture() as captured:
        console.print(shown)
    return "\n".join(line.rstrip() for line in captured.get().split("\n")).strip("\n").split("\n")
