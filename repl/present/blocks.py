"""What a session prints, in blocks that know what they are: views render a block by its kind, never by its words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from repl.present.answer import answer_lines
from repl.present.progress import Progress
from repl.present.text import escape
from tracer import facts
from tracer.errors import PmError
from tracer.facts import fact_in
from tracer.journal.reading import iter_lines, read_entries

if TYPE_CHECKING:
    from repl.present.output import Output
    from runner.core.task import TaskOutcome
    from tracer.catalog.tasks import TaskRow

# `good` and `bad` are verdicts; `answer` and `question` hold Markdown, `diff` a unified diff, the others lines.
Kind = Literal["text", "typed", "task", "good", "bad", "detail", "error", "answer", "question", "diff"]
NARROW: Final = 76  # columns below which lines do not align theirs
_LAST_TASKS: Final = 20
_VERDICTS: Final = {"PASS": "\x1b[32m", "REJECT": "\x1b[31m"}
_DIFF: Final = {
    "+++ ": "\x1b[1m",
    "--- ": "\x1b[1m",
    "diff": "\x1b[1m",
    "@@": "\x1b[2m",
    "+": "\x1b[32m",
    "-": "\x1b[31m",
}


class Block(NamedTuple):
    """`whole_by` is the command that shows all of an answer; with it a view may fold."""

    kind: Kind
    text: str
    whole_by: str = ""


def fact_blocks(fact: facts.Entry | None, lines: list[str]) -> list[Block]:
    """The lines that progress has for a fact, as blocks: what stands below the first line is detail of it."""
    if not lines:
        return []
    kind: Kind = "text"
    if isinstance(fact, facts.QualityJudgment):
        kind = {"PASS": "good", "REJECT": "bad"}.get(fact.judgment, "text")  # type: ignore[assignment]
    elif isinstance(fact, facts.UserRequest):
        kind = "task"
    elif isinstance(fact, facts.RejectionDetails):
        kind = "detail"
    below = "\n".join(lines[1:])
    return [Block(kind, lines[0]), *([Block("detail" if kind in {"good", "bad"} else kind, below)] if below else [])]


def question_block(question: facts.Question, task_id: str) -> Block:
    """The box of a question to the user: its text and numbered choices, whole."""
    who = "asks" if question.by == "agent" else "waits for your decision"
    choices = [f"  {number}  {one}" for number, one in enumerate(question.choices, 1)]
    return Block("question", "\n".join([f"? {task_id} {who}", question.text, *choices]))


def diff_kind(line: str) -> str:
    """The mark that says what a line of a unified diff is; empty for an unchanged one."""
    return next((mark for mark in _DIFF if line.startswith(mark)), "")


def block_lines(block: Block, *, columns: int, colour: bool) -> list[str]:
    """The block on a terminal of `columns` (0: no terminal, as it is)."""
    match block.kind:
        case "answer":
            lines = answer_lines(block.text, columns=columns, styled=colour, whole_by=block.whole_by)
            return [*([""] if columns else []), *lines, ""]
        case "question":
            head, _, text = block.text.partition("\n")
            return [f"  {escape(head)}", *answer_lines(text, columns=max(columns, 1))]
        case "diff":
            lines = escape(block.text.replace("\r\n", "\n").removesuffix("\n")).split("\n")
            return [f"{_DIFF[mark]}{one}\x1b[0m" if colour and (mark := diff_kind(one)) else one for one in lines]
        case "task" if colour:
            return [f"\x1b[1m{block.text}\x1b[0m"]
        case "good" | "bad" if colour:
            word = "PASS" if block.kind == "good" else "REJECT"
            return [block.text.replace(word, f"{_VERDICTS[word]}{word}\x1b[0m", 1)]
        case _:
            return block.text.split("\n")


async def tell_result(output: Output, outcome: TaskOutcome, progress: Progress, *, asked: bool = True) -> None:
    """Show the task's last answer under its verdict, unless this view has, and the question it waits with."""
    if outcome.answer != progress.answer_told:
        progress.answer_told = outcome.answer
        await asyncio.to_thread(output.block, Block("answer", outcome.answer, progress.whole_by))
    if asked and outcome.question is not None:
        output.block(question_block(outcome.question, outcome.task_id))


def task_blocks(trace_file: str, task_id: str, *, narrow: bool) -> list[Block]:
    """A task as a session showed it, from its record alone. Reads the disk: for a thread."""
    from runner.core.evolve import fold
    from runner.core.outcome import outcome_of

    progress, entries = Progress(task_id, prefix="/", table=True), read_entries(trace_file)
    progress.narrow = narrow
    first = next((one.prompt for one in entries if isinstance(one, facts.UserRequest)), "")
    blocks = [Block("typed", f"pm> {escape(first)}")]
    for entry in entries:
        blocks += fact_blocks(entry, progress.fact(entry, now=0.0))
    outcome = outcome_of(fold(entries), trace_file=trace_file, chain_head=None)
    blocks += [Block("answer", outcome.answer, progress.whole_by)] if outcome.answer else []
    blocks += [question_block(outcome.question, task_id)] if outcome.question is not None else []
    return [*blocks, Block("task", progress.closing(outcome))]


def last_session(rows: Sequence[TaskRow], *, columns: int) -> list[Block]:
    """What the session of the newest of `rows` showed, oldest task first. Reads the disk: for a thread."""
    blocks: list[Block] = []
    newest = ""
    for row in rows[:_LAST_TASKS]:
        try:
            first = next((fact_in(line) for _, line in iter_lines(row.trace_file)), None)
            if first is None or (newest and first.session_id != newest) or row.status == "RUNNING":
                break
            newest = first.session_id
            blocks = [*task_blocks(row.trace_file, row.task_id, narrow=columns < NARROW), *blocks]
        except (OSError, PmError):
            break
    return [*blocks, Block("detail", "      that was the last session")] if blocks else []
