"""A text is cut before the project's redactor sees it: what is left of it shows no part of a secret."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

from runner.agent_report import clean_report
from runner.checks.report_formats import junit_report
from runner.core.chunk_plan import listed_plan
from runner.executors.agents.progress import summarize_arguments
from runner.executors.provider_errors import classify_message
from runner.gate import criterion
from runner.processes.bounded import BoundedOutput
from runner.reviewer.fence import cut_middle
from tests.tracer.redaction.positives import Positive, canaries_of
from tests.tracer.redaction.test_canaries import leaks
from tracer.distill.cleaner import Cleaner
from tracer.distill.readers.assembly import Assembly, Spool
from tracer.redaction.cuts import beginning, ending
from tracer.redaction.engine import build_redactor


@canaries_of(0, 20)
def test_a_cut_at_any_place_of_any_secret_shows_nothing_of_it(tmp_path, canaries):
    redactor = build_redactor(state_dir=tmp_path, environ={}, host="wonderbox", persons=())
    leaked, tried = set(), 0
    for canary in canaries:
        text = f"words before {canary.text} and words after it\nnext line\n"
        start = text.find(canary.secret)
        if start < 0:
            continue
        for at in range(start + 1, start + len(canary.secret), max(len(canary.secret) // 7, 1)):
            for kept in (beginning(text, at), ending(text, len(text) - at)):
                tried += 1
                if leaks(canary, redactor.redact_text(kept)[0]):
                    leaked.add(canary.rule)
    assert leaked == set()
    assert tried > 6 * len(canaries)


@pytest.mark.parametrize(
    ("text", "limit", "first", "last"),
    [
        ("short", 9, "short", "short"),
        ("one two three", 9, "one two…", "one two…"),
        ("one two three", 8, "one two…", "one two…"),
        ("aaaaaaaaaaaa", 5, "…", "…"),
        ("残り省略します", 3, "残り省…", "残り省…"),
        ("a b\nlast line\n", 11, "a b\nlast…", "last line\n"),
    ],
)
def test_what_is_kept_ends_with_a_word_and_begins_with_a_line(text, limit, first, last):
    assert beginning(text, limit) == first
    assert ending(text, limit) == last


# What an agent, a test runner or a program wrote, as it is cut on its way into a record; each with the cut's place.
PLACES = {
    "test's name": (500, lambda text: junit_report(_JUNIT % quoteattr(text).encode()).tests[0].id),
    "item of a report": (2_000, lambda text: clean_report({"status": "question", "question": text})["question"]),
    "subtask's title": (80, lambda text: listed_plan([text, "and another"])["subtasks"][0]["title"]),
    "excerpt of a finding": (160, lambda text: criterion.at("tests", "m", excerpt=text).excerpt),
    "tool's arguments": (500, lambda text: summarize_arguments({"command": text})),
    "provider's error": (2_000, lambda text: classify_message(text).message),
    "middle left out": (600, lambda text: cut_middle(text, 900)),
    "end of an output": (2_000, lambda text: ending(f"{text} {'w ' * 990}", 2_000)),
    "bounded output": (250, lambda text: _bounded(f"{text} {'w ' * 600}".replace("  ", "\n"))),
    "tool's name": (200, lambda text: _line(text, {})["name"]),
    "argument's name": (80, lambda text: _line("other", {text: "1"})["args_summary"]),
}
_JUNIT = b"<testsuite tests='1'><testcase classname='' name=%s/></testsuite>"
_WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
_TOKEN = "ghp_" + "a8F3kLq0ZxYw2VbN5mTr7UsPq1WeRtYuIo34"
_KINDS = [Positive("token", _TOKEN, _TOKEN), Positive("phrase", f"seed phrase: {_WORDS}", _WORDS)]


def _bounded(text: str) -> str:
    kept = BoundedOutput(1000)
    kept.add(text.encode())
    return kept.value().decode()


def _line(name: str, arguments: dict[str, str]) -> dict[str, str]:
    redactor = build_redactor(state_dir=Path(os.devnull), environ={}, host="", persons=())
    redactor.parts.__dict__["key"] = bytes(32)
    with Spool() as spool:
        assembly = Assembly(spool, Cleaner(redactor))
        assembly.call(0, "1", name, arguments)
        assembly.finish()
        return json.loads(next(spool.lines()))


@pytest.mark.parametrize("canary", _KINDS, ids=lambda canary: canary.rule)
@pytest.mark.parametrize("place", PLACES)
def test_no_part_of_a_secret_that_stands_at_a_cut_gets_into_a_record(tmp_path, place, canary):
    redactor = build_redactor(state_dir=tmp_path, environ={}, host="wonderbox", persons=())
    limit, through = PLACES[place]
    for before in range(max(limit - len(canary.text) - 2, 0), limit + 3, 3):
        text = f"{('w ' * limit)[:before].strip()}  {canary.text}  {'w ' * 30}"
        recorded = redactor.redact_text(through(text))[0]
        assert not leaks(canary, recorded), recorded
