"""A running task as lines: each event prints once, and the live status, stream and toolbar parts are derived here."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from repl.present.changed_files import files_text, lines_text
from repl.present.live import LiveStream
from repl.present.subtasks import SubtaskBoard
from repl.present.text import cost_text, count_text, escape, one_line, tokens_text, width_cut, width_of
from runner.core.state import answer_in
from runner.core.task import TaskOutcome
from runner.executors.executor_port import Live
from tracer import facts
from tracer.clock import seconds_text
from tracer.names import REVIEW
from tracer.verification import strength_text, survivor_text, tests_text, unreached_text, unverified_in, unverified_text


def calls_text(answer: facts.LlmResponse) -> str:
    """`12 tool calls: Bash 5, Edit 3, Read 4`; empty where none is recorded."""
    counts = Counter(one_line(call.name, 20) for call in answer.tool_calls)
    total = max(answer.tool_call_count or 0, counts.total())
    named = ", ".join(f"{name} {count}" for name, count in counts.most_common(6))
    return f"{count_text(total, 'tool call')}{': ' if named else ''}{named}" if total else ""


_WAITS = {"rate_limit": "rate limited", "overloaded": "provider overloaded", "network": "network trouble"}


def short_id(task_id: str) -> str:
    """What people type for a task: `15` for `task-015`, else the id."""
    digits = task_id.removeprefix("task-")
    return str(int(digits)) if task_id.startswith("task-") and digits.isdigit() else task_id


def numbered(lines: list[str], task_id: str) -> list[str]:
    """Lines of one task among others: those that are indented carry its number; as they are without a task."""
    if not task_id:
        return lines
    return [f"  #{short_id(task_id)} {line[2:]}" if line.startswith("  ") else line for line in lines]


def permissions_text(level: object) -> str:
    """`permissions full`: what an agent may do, where it is not the usual `edit`."""
    return f"permissions {escape(str(level))}" if level not in {None, "edit"} else ""


def failed_text(judged: facts.QualityJudgment) -> str:
    return "; ".join(f"{result.id or '?'} {one_line(result.reason, 160)}".strip() for result in judged.failures)


class Progress:
    """The view of one task. `prefix` is what commands begin with in hints: `pm ` or `/`.

    `narrow`: lines do not align their columns, so that they fit a small pane. `answer` is the agent's last one,
    `answer_told` the one that was printed.

    With `table` the subtasks are shown by `table()`, which a view repaints in place, instead of one line per change.
    """

    def __init__(self, task_id: str, *, prefix: str = "pm ", table: bool = False) -> None:
        self.in_place = table
        self.narrow = False
        self.task_id = task_id
        self.prefix = prefix
        self.executor = ""
        self.asks = False
        self.permissions = ""
        self.max_iterations = 0
        self.iteration = 0
        self.tokens = 0
        self.cost: float | None = 0.0
        self.phase = "starting"
        self.since = self._heard = 0.0
        self.board = SubtaskBoard()
        self.final: facts.FinalSummary | None = None
        self.answer = ""
        self.question: facts.Question | None = None
        self.allowable = False
        self.changed = False
        self.answer_told = ""
        self.stream = LiveStream()
        self._answering: dict[str | None, Live] = {}
        self._waiting: Live | None = None
        self._waits_until: float | None = None
        self._mend = ""

    def fact(self, fact: facts.Entry | None, *, now: float) -> list[str]:
        """The lines for one stored fact; most facts have one or none. `now` is monotonic seconds."""
        if fact is None or type(fact) in {facts.Entry, facts.SystemRules}:
            return []
        self.since, self._waiting = now, None
        if fact.subtask_id is None and fact.iteration_index is not None:
            self.iteration = fact.iteration_index
        changed = self.board.fact(fact, now=now)
        lines = self._lines(fact)
        if not self.in_place:
            lines += [self.board.line(one) for one in changed if fact.subtask_id is not None or one.status != "wait"]
        return lines

    def live(self, update: Live, *, now: float = 0.0) -> None:
        """A live update: decoration for the moving lines only."""
        self.stream.feed(update, now=now)
        self._heard = now
        if update.kind != "notice":
            self._waiting, self._waits_until = None, None  # whatever was waited for goes on
        if update.kind == "waiting":
            self._waiting = update
        elif update.kind == "usage":
            self._answering[update.subtask_id] = update
        elif update.kind == "tool_started":
            number = self.board.numbered(update.subtask_id)
            self.phase = one_line(f"{f'{number}: ' if number else ''}{update.tool} {update.text}", 60)
        elif update.kind == "tool_finished":
            self.phase = self._working() or f"asking {self.executor}"
        elif update.kind == "notice":
            self.phase = one_line(update.text, 100)

    @property
    def tokens_so_far(self) -> int:
        told = (update.usage for update in self._answering.values() if update.usage is not None)
        return self.tokens + sum(facts.Usage(usage.to_dict()).total or 0 for usage in told)

    @property
    def cost_so_far(self) -> float | None:
        """The money of all answers and of those being given, as far as they tell; None where one is unknown."""
        told = (update.cost_usd for update in self._answering.values())
        return None if self.cost is None else self.cost + sum(cost or 0.0 for cost in told)

    def status(self, now: float, *, spent: bool = False, columns: int = 0) -> str:
        """The moving line: what is going on, for how long, and after a while how to get out.

        `spent` adds tokens and money, for a view that shows them nowhere else. Where it takes more than `columns` (0:
        as many as it takes), what is going on is cut: the seconds stay in sight, advice does not.
        """
        waiting = self._waiting_text(now)
        if waiting:
            return waiting
        elapsed = max(0.0, now - self.since)
        text = f" · {int(elapsed)} s"
        if spent and self._answering:
            text += f" · {tokens_text(self.tokens_so_far)} · {cost_text(self.cost_so_far)}"
        advice = ""
        if elapsed >= 60:
            advice = " · Esc stops, nothing is lost" if self.prefix == "/" else " · Ctrl+C stops, nothing is lost"
        elif self.phase.startswith("asking") and now - max(self.since, self._heard) >= 10:
            advice = " · still waiting"
        if not columns or width_of(self.phase + text + advice) <= columns:
            return self.phase + text + advice
        return width_cut(self.phase, columns - width_of(text)) + text

    def _waiting_text(self, now: float) -> str:
        """`rate limited, next try in 8 s (2/5)`; empty where nothing is waited for, or no longer."""
        waiting = self._waiting
        if waiting is None:
            return ""
        if self._waits_until is None:
            self._waits_until = now + (waiting.wait_s or 0.0)
        left = self._waits_until - now
        if left <= 0 and waiting.attempt is None:
            return ""  # an agent's own pause, whose end nobody tells
        count = f" ({waiting.attempt}/{waiting.attempts})" if waiting.attempt and waiting.attempts else ""
        word = _WAITS.get(waiting.text, one_line(waiting.text, 60) or "waiting")
        return f"{word}, next try in {max(1, math.ceil(left))} s{count}"

    def table(self, now: float | None = None, *, most: int = 12) -> list[str]:
        return self.board.table(now=now, most=most) if self.in_place else []

    def subtasks_text(self) -> str:
        return f"{self.board.done}/{len(self.board.standings)} subtasks" if self.board.standings else ""

    def _lines(self, fact: facts.Entry) -> list[str]:
        match fact:
            case facts.UserRequest():
                return self._user_request(fact)
            case facts.ChunkingPlan():
                return self._chunking_plan(fact)
            case facts.LlmRequest():
                return self._llm_request(fact)
            case facts.SessionInterrupted():
                return self._interrupted(fact)
            case facts.LlmResponse():
                return self._llm_response(fact)
            case facts.QualityJudgment():
                return self._quality_judgment(fact)
            case facts.RejectionDetails():
                return self._rejection_details(fact)
            case facts.IterationEnd():
                following = "preparing the next request" if fact.subtask_id is None else "preparing"
                self.phase = (self._working() if fact.subtask_id is not None else "") or following
            case facts.FinalSummary():
                self.final, self.phase = fact, "ended"
        return []

    def _user_request(self, fact: facts.UserRequest) -> list[str]:
        if fact.continues is not None and (spent := fact.continues.spent).answers:
            self.tokens, self.cost = spent.usage.total or 0, spent.cost_usd
        if fact.action and fact.continues is not None:
            self.answer = fact.continues.ended.answer if fact.continues.ended is not None else ""
            return [f"  you: {escape(fact.action)}"]
        if fact.action:
            return [f"  you: {escape(fact.action)} {one_line(fact.prompt, 100)}".rstrip()]
        self.executor = escape(fact.executor_name)
        self.max_iterations = fact.limits_given.get("max_iterations", 0)
        self.phase = "preparing"
        self.asks = fact.kind == "question"
        self.permissions = permissions_text(fact.executor.permissions)
        parts = [f"{self.task_id} started", escape(fact.kind), self.executor, self.permissions]
        if self.max_iterations:
            parts.append(f"up to {count_text(self.max_iterations, 'iteration')}")
        return [" · ".join(part for part in parts if part)]

    def _chunking_plan(self, fact: facts.ChunkingPlan) -> list[str]:
        subtasks, reason = fact.subtasks, one_line(fact.reason, 120)
        self.phase = "preparing"
        if fact.mode == "repair":
            return [f"  plan  {one_line(item.title or 'repair', 80)}" for item in subtasks]
        if not subtasks and fact.isolation:
            return [f"  works in a worktree of its own{f': {reason}' if reason else ''}"]
        if not subtasks:
            return [f"  plan  in one piece{f': {reason}' if reason else ''}"]
        parts = [count_text(len(subtasks), "subtask")]
        parts += [f"{len(fact.done)} done before"] if fact.done else []
        parts += ["waits for your word"] if fact.proposed else []
        lines = [f"  plan  {', '.join(parts)}"]
        if fact.why:
            lines.append(f"        one after another: {one_line(fact.why, 120)}")
        return lines if self.in_place else [*lines, *self.board.table(most=10_000)]

    def _llm_request(self, fact: facts.LlmRequest) -> list[str]:
        self.question = None
        agent = self.executor or escape(fact.executor or "agent")
        if fact.subtask_id is None:
            self.phase = f"asking {agent}"
        elif fact.purpose == REVIEW:
            self.phase = self._working() or f"asking {escape(fact.executor or 'a model')} for a review"
        else:
            self.phase = self._working() or f"asking {agent} for a plan"
        if fact.subtask_id is None or not self.board.standings:
            self.stream.reset()
        self._answering.pop(fact.subtask_id, None)
        return self._base_tests(fact.base_tests) if fact.base_tests and fact.subtask_id is None else []

    def _base_tests(self, tests: facts.TestRun) -> list[str]:
        """How the tests ended before the task: what cannot be verified is said before the agent has cost anything."""
        if tests.outcome == "not_verified":
            text = self._unverified([facts.Unverified("Q7", tests.why, tests.next)]).removeprefix(", ")
        elif tests.outcome in {"pass", "fail"}:
            counts = (("passed", tests.passed), ("failed", tests.failed), ("skipped", tests.skipped))
            told = ", ".join(f"{count} {word}" for word, count in counts if count)
            text = f"tests before the task: {told or 'the command fails'}   {one_line(tests.command, 60)}"
        else:
            return []
        return [f"  {text}", *([f"  not isolated: {one_line(tests.not_isolated)}"] if tests.not_isolated else [])]

    def _working(self) -> str:
        numbers = self.board.running
        return f"working on {', '.join(map(str, numbers[:8]))}{'…' if len(numbers) > 8 else ''}" if numbers else ""

    def _interrupted(self, fact: facts.SessionInterrupted) -> list[str]:
        tokens = self._spent(fact.usage, fact.cost_usd, free=False)
        spent = "   ".join(part for part in (tokens_text(tokens), cost_text(fact.cost_usd)) if part)
        return [f"  [{self.iteration}] interrupted: its session {escape(fact.session_ref)}   {spent}".rstrip()]

    def _spent(self, usage: facts.Usage | None, cost_usd: float | None, *, free: bool) -> int | None:
        """Add to the sums; returns the tokens."""
        tokens = usage.total if usage else None
        self.tokens += tokens or 0
        if cost_usd is not None and self.cost is not None:
            self.cost += cost_usd
        elif not free:
            self.cost = None
        return tokens

    def _llm_response(self, fact: facts.LlmResponse) -> list[str]:
        self.changed = self.changed or bool(fact.files_modified)
        judging = fact.subtask_id is None or fact.purpose == REVIEW
        self.phase = "judging" if judging else self._working() or "planning"
        if fact.subtask_id is None:
            self.stream.reset()  # the answered line stands for what was streamed
        self._answering.pop(fact.subtask_id, None)
        self.answer = answer_in(fact) or self.answer
        tokens = self._spent(fact.usage, fact.cost_usd, free=fact.unbilled)
        if fact.purpose == REVIEW:
            return [self._reviewed(fact, tokens)]
        if fact.subtask_id is not None:
            return []
        word = f"answered {escape(fact.status)}" if fact.failed else "answered"
        if fact.has_fallback:
            word += f" by {escape(fact.executor or 'another')}"
        if error := fact.error:
            return [f"  [{self.iteration}] {escape(error.kind or 'error'):<8} {one_line(error.message, 120)}"]
        time, files = seconds_text(fact.duration_ms), fact.files_modified
        shown, calls = files_text(files, most=1) or "no file changed", calls_text(fact)
        done = [f"      {calls}"] if calls else []
        if self.narrow:
            spent = ", ".join(part for part in (time, tokens_text(tokens)) if part)
            return [f"  [{self.iteration}] {word:<8} {spent}   {shown}", *done]
        return [f"  [{self.iteration}] {word:<30} {time:>8}   {tokens_text(tokens):>10}   {shown}", *done]

    def _reviewed(self, fact: facts.LlmResponse, tokens: int | None) -> str:
        """`  [0] reviewed                8.1 s    3,400 tok   $0.02`."""
        word = "review failed" if fact.error else "reviewed before" if fact.cached else "reviewed"
        spent = [seconds_text(fact.duration_ms), tokens_text(tokens), cost_text(fact.cost_usd)]
        return f"  [{self.iteration}] {word:<30} {'   '.join(part for part in spent if part)}".rstrip()

    def _quality_judgment(self, fact: facts.QualityJudgment) -> list[str]:
        self.question, self.allowable = fact.question, bool(fact.to_allow)
        spent = fact.spent_usd
        self.cost = None if self.cost is None or spent is None else self.cost + spent
        if fact.subtask_id is not None:
            self.phase = self._working() or self.phase
            return []
        detail = failed_text(fact) or one_line(fact.summary, 160)
        if fact.judgment == "PASS":
            passed = [result for result in fact.criteria_results if result.passed and result.outcome != "not_verified"]
            told = one_line(tests_text(fact.tests), 160)
            detail = " ".join(escape(result.id) for result in passed) + (f", {told}" if told else "")
            detail += self._unverified(unverified_in([fact]))
        suggestions = (one_line(issue.suggestion, 100) for issue in fact.issues)
        self._mend = ", ".join(list(dict.fromkeys(filter(None, suggestions)))[:3])
        if fact.conflict:
            return [f"  merge    {detail}", *conflict_lines(fact.conflict_text)]
        what = "whole" if fact.whole else f"[{self.iteration}]"
        lines = [f"  {what} {escape(fact.judgment):<8} {detail}".rstrip()]
        if fact.strength is not None and fact.judgment == "PASS":
            missed = one_line(", ".join(survivor_text(one) for one in fact.strength.survivors), 160)
            said = f"      tests: {strength_text(fact.strength)}"
            lines.append(f"{said}; not noticed: {missed}" if missed else said)
        if fact.unreached:
            told = one_line(unreached_text(fact.unreached), 160)
            known = not told.startswith("not known:")
            lines.append(f"      {'no test reaches' if known else 'which changed lines no test reaches is'} {told}")
        return [*lines, *expectation_lines(fact)]

    def _rejection_details(self, fact: facts.RejectionDetails) -> list[str]:
        if fact.subtask_id is not None or self.question is not None:
            return []
        mend = self._mend or one_line(fact.modification_prompt.removeprefix("Fix: "), 160)
        return [f"      fix: {mend}"] if mend else []

    def closing(self, outcome: TaskOutcome) -> str:
        """The last line of a task: `task-015 COMPLETE · 2 iterations · 1 file · 4,750 tok · $0.04 · 7.9 s`.

        What could not be checked stands beside the status: `COMPLETE, tests not run: folder not trusted (…)`.
        """
        retries = outcome.judgments.count("RETRY")
        counted = outcome.iterations - retries
        parts = [
            f"{self.task_id} {outcome.status}{self._unverified(outcome.not_verified)}",
            tests_text(outcome.tests) or ("tests passed" if outcome.verification == "verified" else ""),
            count_text(counted, "iteration") if counted != 1 else "",
            f"{retries} retr{'y' if retries == 1 else 'ies'}" if retries else "",
            lines_text(outcome.files) if outcome.files or not self.asks else "",
            tokens_text(self.tokens or None),
            cost_text(self.cost if self.tokens or self.cost else None),
            seconds_text(outcome.duration_ms),
        ]
        return " · ".join(part for part in parts if part)

    def _unverified(self, unverified: Iterable[facts.Unverified]) -> str:
        text = one_line(unverified_text(unverified, prefix=self.prefix))
        return f", {text}" if text else ""

    @property
    def whole_by(self) -> str:
        return f"{self.prefix}show {short_id(self.task_id)}"

    def hints(self, outcome: TaskOutcome) -> str:
        short = short_id(self.task_id)
        review = f"{self.prefix}review {short}   " if outcome.files_modified else ""
        return f"{review}{self.prefix}trace {short}"


_EXPECTATIONS = 10


def expectation_lines(fact: facts.QualityJudgment) -> list[str]:
    """Each place where the task changed what a test expects, old and new."""
    lines: list[str] = []
    for place in fact.expectations[:_EXPECTATIONS]:
        lines.append(f"      {one_line(place.path, 100)}:{place.line}")
        for sign, text in (("-", place.old), ("+", place.new)):
            lines += [f"        {sign} {one_line(line.rstrip(), 110)}" for line in text.splitlines()[:6]]
    if (more := len(fact.expectations) - _EXPECTATIONS) > 0:
        lines.append(f"      and {more} more places: see the diff")
    return lines


_CONFLICT_LINES = 40
_SIDES = re.compile(r"^(<{7}|>{7}) [0-9a-f]{40,64}$", re.MULTILINE)


def conflict_lines(text: str) -> list[str]:
    """Both versions of what does not merge, between conflict marks; the first paragraph is the agent's."""
    named = _SIDES.sub(lambda mark: f"{mark[1]} {'your files' if mark[1][0] == '<' else 'the task'}", text)
    lines = [f"      {one_line(line, 110)}" for line in named.partition("\n\n")[2].splitlines()]
    more = len(lines) - _CONFLICT_LINES
    return [*lines[:_CONFLICT_LINES], *([f"      and {more} more lines"] if more > 0 else ())]


def fit(parts: Sequence[str], columns: int) -> str:
    """The parts joined by dots, dropped from the right until they fit; the first one is cut if it must be."""
    kept = [part for part in parts if part]
    while len(kept) > 1 and width_of(" · ".join(kept)) > columns:
        kept.pop()
    return width_cut(" · ".join(kept), columns) if columns > 0 else " · ".join(kept)


def running_parts(progress: Progress, *, others: int, queued: int, budget: float | None) -> list[str]:
    """The toolbar while a task runs: what matters most comes first."""
    parts = [progress.task_id]
    if progress.max_iterations and not progress.board.standings:
        parts.append(f"it {min(progress.iteration + 1, progress.max_iterations)}/{progress.max_iterations}")
    parts.append(progress.subtasks_text())
    tokens, cost = progress.tokens_so_far, progress.cost_so_far
    parts.append(tokens_text(tokens, short=True) if tokens else "")
    if tokens or cost:
        near = budget is not None and cost is not None and cost > 0.8 * budget > 0
        parts.append(f"! {cost_text(cost)} of {cost_text(budget)}" if near else cost_text(cost))
    parts.extend((progress.executor, progress.permissions))
    if others:
        parts.append(f"{others} more running")
    if queued:
        parts.append(f"queued {queued}")
    return parts


def status_lines(progress: Progress, *, now: float, columns: int, most: int = 12) -> list[str]:
    width = max(columns - 1, 20)
    lines = progress.table(now, most=most)
    if bar := progress.board.bar(now=now):
        lines.append(f"  {bar}")
    lines.append("  " + progress.status(now))
    return [width_cut(line, width) for line in lines]
