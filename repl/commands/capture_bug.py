"""What `pm record` and `pm capture new` are told about bug, person and consent; asked where a person can answer."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from tracer.errors import UsageError

if TYPE_CHECKING:
    from collector.recorder.begin import Bug, Person
    from collector.recorder.consent import Consent
    from repl.commands.context import Context
    from runner.workspace.git import Git

__all__ = ["ask_line", "ask_yes", "bug_from", "can_ask", "person_from"]


def can_ask(context: Context) -> bool:
    """Whether somebody is there to answer: a terminal on both sides, and no `--no-input` or JSON form."""
    return (
        not getattr(context.arguments, "no_input", False)
        and context.output.human
        and sys.stdin.isatty()
        and sys.stderr.isatty()
    )


def ask_line(context: Context, question: str) -> str:
    """A line of the person's; empty where they just pressed Enter."""
    sys.stderr.write(f"{question} ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    context.output.detail("")
    return line.strip()


def ask_yes(context: Context, question: str, *, default: bool) -> bool:
    """Yes or no; Enter means `default`, and `--yes` answers by itself."""
    if getattr(context.arguments, "yes", False):
        return True
    while True:
        answer = ask_line(context, f"{question} [{'Y/n' if default else 'y/N'}]").lower()
        if answer in {"", "y", "yes", "n", "no"}:
            return default if not answer else answer.startswith("y")


def bug_from(context: Context, arguments: Namespace, *, default_title: str) -> Bug:
    """The bug report of the flags; a missing title is asked for, else `default_title`."""
    from collector.recorder.begin import Bug

    title = arguments.title or ""
    if not title and can_ask(context):
        title = ask_line(context, "What is the bug, in a line? (Enter: say it later)")
    return Bug(
        title=title or default_title,
        description=arguments.description or "",
        repro_steps=arguments.repro or "",
        expected=arguments.expected or "",
        actual=arguments.actual or "",
        links=tuple(arguments.link or ()),
        labels=tuple(arguments.label or ()),
        task_id=arguments.task_id or "",
    )


def person_from(context: Context, arguments: Namespace, git: Git) -> Person:
    """Who records, with their consent: of the flag, else as given before, else asked now (and kept).

    Raises:
        UsageError: nobody consented yet and nobody can be asked.

    """
    from collector.recorder.begin import Person
    from collector.recorder.consent import keep_consent, parse_consent, stored_consent
    from collector.recorder.facts import head_commit, repo_block

    repo_id = str(repo_block(git, commit=head_commit(git))["repo_id"])
    if arguments.consent:
        consent = parse_consent(arguments.consent)
        keep_consent(context.state_root, repo_id, consent)
    else:
        known = stored_consent(context.state_root, repo_id)
        consent = known if known is not None else _asked_consent(context, repo_id)
    return Person(developer_id=arguments.developer or "", experience=arguments.experience or "", consent=consent)


def _asked_consent(context: Context, repo_id: str) -> Consent:
    from collector.recorder.consent import QUESTIONS, Consent, keep_consent

    if not can_ask(context):
        raise UsageError(
            f"nobody consented yet to captures of {repo_id}",
            why="a capture holds commands, edits and thoughts; what else it may hold is yours to say, once",
            next_step="--consent output,judge   (or all, none; of code, output, judge)",
        )
    context.output.note(f"A capture of {repo_id} holds your commands, edits, commits and thoughts, secrets replaced.")
    answers: dict[str, Any] = {word: _answer(context, question) for word, question in QUESTIONS.items()}
    consent = Consent(**answers)
    keep_consent(context.state_root, repo_id, consent)
    return consent


def _answer(context: Context, question: str) -> bool:
    while True:
        answer = ask_line(context, f"{question} [y/N]").lower()
        if answer in {"", "y", "yes", "n", "no"}:
            return answer.startswith("y")
