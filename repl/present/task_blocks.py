"""A task as blocks: its events, answer and question as a session shows them, while it runs and from its record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from repl.present.blocks import Block, Kind
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

NARROW: Final = 84  # columns below which lines do not align theirs
_LAST_TASKS: Final = 20


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
    choices = ["", *(f"{number}. {one}" for number, one in enumerate(question.choices, 1))]  # a list of Markdown's
    return Block("question", "\n".join([f"? {task_id} {who}", question.text, *(choices if question.choices else ())]))


def _only_asks(outcome: TaskOutcome) -> bool:
    """Whether the question's box shows the answer, whole."""
    return outcome.question is not None and outcome.question.text.strip().endswith(outcome.answer.strip())


async def tell_result(output: Output, outcome: TaskOutcome, progress: Progress, *, asked: bool = True) -> None:
    """Show the task's last answer under its verdict, unless this view has, and the question it waits with."""
    if outcome.answer != progress.answer_told and not (asked and _only_asks(outcome)):
        progress.answer_told = outcome.answer
        rejected = outcome.status == "INCOMPLETE" and outcome.judgments[-1:] == ("REJECT",) and outcome.question is None
        if rejected and output.form == "human":  # JSON has the answer beside its verdict
            output.note("  what it claimed last, and was rejected:")
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
    blocks += [Block("answer", outcome.answer, progress.whole_by)] if outcome.answer and not _only_asks(outcome) else []
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
