"""What the agent's report and its questions come to: what it left, what it asks, what it claims without an event.

The ledger joins each claim to the session's tool calls and to our own runs. A claim that nothing could show, because
there is no record of the session, is no finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.gate.answer_text import read_answer
from runner.gate.criterion import CommandResult, Evidence, Place, Question, SessionCall, at
from runner.gate.wording import Words, later
from tracer.redaction.cuts import beginning, ending

_NOTHING = Words("claims", "nothing_to_change")
_BECAUSE = 40
_LONGEST = 2_000
_SHOWN = 160
_ASKS = later(r"[?？][\s\"'”’»」』)\]）*_~`]*$")
_ITEM = later(r"^\s*(?:[-*+•]|\(?(?:\d{1,2}|[a-zA-Z])[.)])\s+(?P<text>\S.*)$")


def question_of(evidence: Evidence) -> Question | None:
    """What the user is to be asked about this answer: what the agent wants to know, or what only they can decide."""
    report = evidence.report
    unchanged = evidence.kind == "change" and not has_changed(evidence) and not evidence.options.get("answer_alone")
    if evidence.status == "BLOCKED":
        told = ending(evidence.answer.strip(), _LONGEST)  # all of it: a refusal ends with links and ids
        return Question(text=told or "the agent says that it cannot do this", by="agent")
    if report is not None:
        stuck = report.status in {"question", "blocked"} or (report.question and report.status == "partial")
        if stuck or (report.question and unchanged):
            text = report.question or _ending(evidence.answer) or "; ".join(report.left) or report.status
            return Question(text=beginning(text, _LONGEST), choices=report.choices, by="agent")
    elif unchanged and (asked := _asked_in(evidence.answer)) is not None:
        return asked
    if not unchanged:
        return None
    told = _ending(evidence.answer)
    says_so = _NOTHING.search(evidence.answer) and len(evidence.answer.strip()) >= _BECAUSE
    if (report is not None and report.status == "nothing_to_do") or (report is None and says_so):
        return Question(text=f"The agent says that nothing needs to change, and changed nothing.\n\n{told}", by="gate")
    if evidence.unchanged_before:
        return Question(text=f"The agent changed nothing for the second time.\n\n{told}", by="gate")
    return None


def has_changed(evidence: Evidence) -> bool:
    """Whether the task has changed a file."""
    return any(file.before != file.after for file in evidence.files)


def _ending(text: str) -> str:
    """The last paragraph of an answer."""
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    return ending(paragraphs[-1], _LONGEST) if paragraphs else ""


def _asked_in(text: str) -> Question | None:
    """The question that an answer ends with, its choices where a list of them follows."""
    lines = [line.raw.strip() for line in read_answer(text).prose if line.raw.strip() and not line.raw.startswith(">")]
    choices: list[str] = []
    while lines and (item := _ITEM.match(lines[-1])) and not _ASKS.search(lines[-1]):
        choices.insert(0, item["text"])
        lines.pop()
    if not lines or not _ASKS.search(lines[-1]):
        return None
    asked = _ending(text) if not choices else lines[-1]
    return Question(text=ending(asked, _LONGEST), choices=tuple(choices), by="agent")


def report_places(evidence: Evidence) -> Iterator[Place]:
    """Q6: what the report says is not done, and what it claims that did not happen."""
    report = evidence.report
    if (question := question_of(evidence)) is not None and question.by == "agent":
        told = beginning(" ".join(question.text.split()), _SHOWN)
        yield at("asked", f"the agent asks: {told}", suggestion="answer its question")
    if report is None:
        return
    for item in report.left:
        yield at("left", "the report says this is not done", excerpt=item, suggestion="do it now")
    if report.status == "partial" and not report.left:
        yield at("left", "the report says that the work is not finished", suggestion="finish it")
    changed = [file.path for file in evidence.files if file.before != file.after]
    for one in report.tests_changed:
        path = one.test.partition("::")[0].removeprefix("./")
        if _IS_PATH.search(path) and not any(f"/{name}".endswith(f"/{path}") for name in changed):
            told = "the report says that this test was changed; its file was not"
            yield at("claim", told, excerpt=one.test, suggestion="report only what you changed")
    if evidence.session is None:
        return
    for command in report.commands:
        if (fault := _unproven(command.run, command.exit, evidence.session, evidence.commands)) is not None:
            yield at("claim", fault, excerpt=command.run, suggestion="run it, and report what it says")


_IS_PATH = later(r"^[\w./-]+\.[A-Za-z]{1,4}$")
_WORD = later(r"[\w./+@-]+")
# What starts another program, and what only prepares for one.
_STARTERS = later(r"python3?|npx|uvx?|run|poetry|pipenv|pdm|hatch|sudo|env|time|(?:ba)?sh|exec|bunx|p?npm|yarn")
_BEFORE = later(r"\b(?:cd\s+\S+\s*(?:&&|;)|\w+=\S+)")
_CUT = 490  # characters: a summary this long may have lost its end


def _unproven(
    run: str, code: int | None, session: tuple[SessionCall, ...], own: tuple[CommandResult, ...]
) -> str | None:
    """Why a claimed command is not borne out: no call runs it, or the last one that does ended otherwise."""
    claimed = " ".join(run.split())
    same = [call for call in session if claimed in " ".join(call.text.split())]
    if same:
        # Only where nothing ran after it whose ending the call would have got instead.
        alone = " ".join(same[-1].text.split()).endswith(claimed)
        told = code == 0 and same[-1].ok is False and alone
        return "the report says that this ended with 0; in the session it failed" if told else None
    programs = _programs(claimed)
    if not programs or any(claimed == " ".join(result.command.split()) for result in own):
        return None
    if any(programs & set(_WORD.findall(text)) or len(call.text) >= _CUT for call in session for text in call.texts):
        return None
    from tracer.insights.agentic_trace import phase_of  # 3 ms, only where an agent reported

    phases = [phase_of(call.name, "") for call in session]
    if "other" in phases:  # a tool that nobody knows may have run it
        return None
    ran = [call for call, phase in zip(session, phases, strict=True) if phase == "run"]
    names = ", ".join(dict.fromkeys(next(iter(_programs(call.text)), beginning(call.text, 40)) for call in ran[:5]))
    return f"the report says it ran this; the session ran {names or 'nothing'}"


def _programs(command: str) -> set[str]:
    """The words by which a run of `command` would be recognised: the first that is no starter, option or setting."""
    for word in _WORD.findall(_BEFORE.sub(" ", command)):
        if not word.startswith("-") and not _STARTERS.fullmatch(word) and not word.startswith("/"):
            return {word, word.rpartition("/")[2]}
    return set()
