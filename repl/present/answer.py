"""An agent's answer as people read it: Markdown on a terminal with colours, the text as it was given anywhere else.

Everything is escaped first, and nothing that Markdown would swallow (HTML, entities, link definitions) is hidden. Only
terminals get a fold: what goes into a pipe or a file is whole.
"""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING, Final

from repl.present.text import count_text, escape

if TYPE_CHECKING:
    from repl.present.output import Output
    from repl.present.progress import Progress
    from runner.core.task import TaskOutcome
    from tracer.facts import Question

GUTTER: Final = "  │ "
_FOLD: Final = 40
_MOST_MARKDOWN: Final = 200_000  # longer ones take seconds to lay out


async def tell_answer(output: Output, outcome: TaskOutcome, progress: Progress) -> None:
    """Print the task's last answer under its verdict, unless this view has shown it."""
    if not output.human or outcome.answer == progress.answer_told:
        return
    progress.answer_told = outcome.answer
    lines = await asyncio.to_thread(
        answer_lines, outcome.answer, columns=output.columns, styled=output.colour, whole_by=progress.whole_by
    )
    output.lines([*([""] if output.columns else []), *lines, ""])


def question_lines(question: Question, task_id: str, *, columns: int) -> list[str]:
    """The box of a question to the user: its text and numbered choices, whole."""
    who = "asks" if question.by == "agent" else "waits for your decision"
    text = "\n".join([question.text, *(f"  {number}  {one}" for number, one in enumerate(question.choices, 1))])
    return [f"  ? {escape(task_id)} {who}", *answer_lines(text, columns=max(columns, 1))]


def answer_lines(text: str, *, columns: int, styled: bool = False, whole_by: str = "") -> list[str]:
    """The lines of `text` for a terminal of `columns` (0: no terminal, as it is).

    With `whole_by`, the command that shows all of it, a terminal gets no more than 40 rows of it.
    """
    text = escape(text).strip("\n")
    if not columns:
        return text.split("\n")
    text, hidden = _folded(text, columns) if whole_by else (text, 0)
    if styled and len(text) <= _MOST_MARKDOWN:
        lines = _markdown(text, columns)
    else:
        lines = [f"{GUTTER}{line}".rstrip() for line in text.split("\n")]
    return [*lines, *([f"  … {count_text(hidden, 'more line')}   {whole_by} shows all"] if hidden else [])]


def _folded(text: str, columns: int) -> tuple[str, int]:
    """The lines that fill the first rows of a terminal, and how many there are beyond them."""
    lines, room = text.split("\n"), _FOLD
    for number, line in enumerate(lines):
        room -= max(1, -(-len(line) // columns))
        if room < 0:
            kept = lines[: max(number, 1)]
            return "\n".join([kept[0][: _FOLD * columns], *kept[1:]]), max(len(lines) - number, 1)
    return text, 0


def _markdown(text: str, columns: int) -> list[str]:
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
    with console.capture() as captured:
        console.print(Padding(shown, (0, 0, 0, 2)))
    return "\n".join(line.rstrip() for line in captured.get().split("\n")).strip("\n").split("\n")
