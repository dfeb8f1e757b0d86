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
    Command(
        "insights",
        "sessions",
        "show where agents went in circles, what failed and where the time went",
        "repl.commands.insights:show_insights",
        "pm insights --since 7d --op sync",
        arguments=(Argument("traces", "these traces: files, or names with * and ?", required=False, many=True),),
        flags=(
            Flag("--since", "only traces that ended since (30d, 2h, 2026-01-31)", "WHEN"),
            Flag("--op", "only this operation; * and ? are wildcards", "NAME"),
        ),
        exits=(7, 8),
        description="Without a trace: the newest 200 of this project, and the criteria that rejected most.",
    ),
    Command(
        "compare",
        "sessions",
        "compare two runs, or the runs of two prompts",
        "repl.commands.insights:compare_runs",
        "pm compare 3f9a1c 77b0e2",
        arguments=(
            Argument("a", "a trace, or the beginning of a prompt's sha256"),
            Argument("b", "what it is compared with"),
        ),
        exits=(7,),
        description="Medians with 95 % intervals; `too few runs` where a side has fewer than 5.",
    ),
)
