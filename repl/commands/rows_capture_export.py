"""Registry rows: captured sessions proved, made from tasks and agents' sessions, and handed on as training data."""

from __future__ import annotations

from repl.commands.spec import Argument, Command, Flag

__all__ = ["CAPTURE_EXPORT_COMMANDS"]

_CONSENT = Flag("--consent", "what may be kept: all, none, or of code,output,judge", "LIST")
_FORMATS = ("atif", "chat", "otlp", "json")

CAPTURE_EXPORT_COMMANDS: tuple[Command, ...] = (
    Command(
        "capture verify",
        "sessions",
        "prove a captured session: replay its edits, check every hash, rebuild the final tree",
        "repl.commands.capture_verify:verify",
        "pm capture verify 3f9a1c02",
        arguments=(
            Argument("trace", "the trace's id or its beginning, or a file that holds a final document", values="file"),
        ),
        flags=(
            Flag("--tree", "write the rebuilt final tree into this new folder", "DIR", values="folder"),
            Flag("--limit", "show at most so many findings (default 20)", "N", kind="integer"),
        ),
        exits=(7, 8),
        description=(
            "Ends with 8 where something differs. What cannot be told (redacted, no bundle of the base commit, a blob "
            "that is not here) is counted apart and is no failure."
        ),
    ),
    Command(
        "capture export",
        "sessions",
        "hand captured sessions on: one, or a set chosen by a condition",
        "repl.commands.capture_export:export",
        "pm capture export --where 'qa.final_passed and overall >= 4' --format chat -o set-1",
        arguments=(Argument("trace", "one trace's id, or its beginning", required=False),),
        flags=(
            Flag("--format", "atif, chat, otlp or json (the final document)", "FORMAT", choices=_FORMATS),
            Flag("--where", "make a set of all traces that fulfil this condition", "CONDITION"),
            Flag("--fields", "list the fields that a condition can name"),
            Flag("--output", "write here: a file for one trace, a new folder for a set", "PATH", "-o", values="file"),
            Flag("--redact", "replace in the copy what the leak audit finds, instead of refusing"),
            Flag("--split", "percent of repositories for train/validation/test (default 80/10/10)", "A/B/C"),
            Flag("--shard-rows", "at most so many rows in a file (default 1000)", "N", kind="integer"),
        ),
        exits=(7, 8),
        description=(
            "Every string is looked at for secrets before anything is written; a find stops the export and is named by "
            "its place. The developer's consent is applied again. A set has shards, a manifest, a report of "
            "near-duplicates, and keeps all traces of a repository in one split."
        ),
    ),
    Command(
        "capture from-task",
        "sessions",
        "make a finished task a captured session",
        "repl.commands.capture_import:from_task",
        "pm capture from-task 15 --consent code,output",
        arguments=(Argument("task", "the task; the newest one if left out", required=False, values="task"),),
        flags=(_CONSENT,),
        exits=(7, 8),
        description="Done again for the same task it changes nothing.",
    ),
    Command(
        "capture from-session",
        "sessions",
        "make an agent's own session a captured session",
        "repl.commands.capture_import:from_session",
        "pm capture from-session --latest --provider claude",
        flags=(
            Flag("--provider", "whose session it is", "NAME", choices=("claude", "codex", "gemini")),
            Flag("--session", "this session: its file, its id, or how the id begins", "PATH", values="file"),
            Flag("--latest", "the newest session of this project"),
            Flag("--project-root", "the project the session worked in (default: this one)", "DIR", values="folder"),
            _CONSENT,
        ),
        exits=(7, 8),
        description="Done again for the same session it changes nothing.",
    ),
)
