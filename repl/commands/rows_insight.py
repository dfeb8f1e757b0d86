"""Registry rows that look after and learn from traces: redaction, insights, comparison."""

from __future__ import annotations

from repl.commands.spec import Argument, Command, Flag

__all__ = ["INSIGHT_COMMANDS"]

INSIGHT_COMMANDS: tuple[Command, ...] = (
    Command(
        "redact",
        "trace",
        "write a copy of a file without secrets, or find the leaks in a folder",
        "repl.commands.redact:redact",
        "pm redact --audit .pm-orchestrator",
        arguments=(Argument("path", "the file, or with --audit the folder", required=False, values="file"),),
        flags=(
            Flag("--audit", "list file, line and rule of each leak; exit 1 if there is one"),
            Flag("--output", "where the copy goes (stdout without it)", "FILE", "-o", values="file"),
            Flag("--in-place", "put the copy in the file's place"),
        ),
        exits=(1, 7, 8),
        description="Files that end in .jsonl are taken line by line and stay JSON. No secret is ever printed.",
    ),
)
