"""Registry rows: commands that read traces, compare runs, export and serve."""

from __future__ import annotations

from repl.registry.rows.work import TASK
from repl.registry.spec import Argument, Command, Flag

# Data, as many values in a line as fit.
# fmt: off

TRACE_COMMANDS: tuple[Command, ...] = (
    Command(
        "trace", "look", "show what happened in a task, event by event", "repl.commands.look.trace:trace",
        "pm trace 15 --latest", arguments=(TASK._replace(required=False),),
        flags=(
            Flag("--latest", "only the last iteration (of each subtask) and the end"),
            Flag("--raw", "the stored bytes of its newest file"),
            Flag("--follow", "go on as events are recorded, until the task ends"),
            Flag("--subtask", "only this subtask", "S"),
            Flag("--iteration", "only this iteration, counted from 0", "N", kind="integer", least=0),
            Flag("--event", "only this event (may be repeated)", "E", repeat=True, values="event"),
            Flag("--waterfall", "what the time went into: a bar for each request, check and tool call"),
            Flag("--full", "everything each event holds; of a waterfall every tool call"),
            Flag("--screen", "in the full-screen viewer"),
        ),
        exits=(7, 8),
        description=(
            "Without a task: the current or newest one. Damaged or incomplete lines are named on stderr.\n"
            "A task that was continued has several files: the text shows all of them, JSON the newest and the names\n"
            "of the older ones."
        ),
    ),
    Command(
        "trace verify", "look", "check a trace: framing, order, values and hash chain",
        "repl.commands.look.verify:verify", "pm trace verify 15", arguments=(TASK._replace(required=False),),
        flags=(
            Flag("--head", "a chain head that was kept elsewhere, 64 hex digits", "HEX"),
            Flag(
                "--session", "check a session's TracePack log instead: an id or its beginning; alone, the last one",
                "ID", bare="last",
            ),
        ),
        exits=(7, 8),
    ),
)


INSIGHT_COMMANDS: tuple[Command, ...] = (
    Command(
        "redact", "admin", "write a file without secrets; find and remove leaks",
        "repl.commands.look.redact:redact", "pm redact --audit .pm-orchestrator", aliases=("admin redact",),
        arguments=(
            Argument("path", "the file; with --audit and --scrub folders", required=False, many=True, values="file"),
        ),
        flags=(
            Flag("--audit", "list file, line, rule and date of each leak; exit 1 if there is one"),
            Flag("--scrub", "redact each file that leaks where it is, unless something writes to it; keeps a copy"),
            Flag("--output", "where the copy goes (stdout without it or with -)", "FILE", "-o", values="file"),
            Flag("--in-place", "put the copy in the file's place"),
        ),
        exits=(1, 7, 8),
        description="Files that end in .jsonl are taken line by line and stay JSON. No secret is ever printed.",
    ),
    Command(
        "sessions show", "sessions", "read one distilled: thoughts, calls, what failed",
        "repl.commands.look.insights:show_session", "pm sessions show trace_20260101_1000_fix__prices_anthropic",
        arguments=(Argument("trace", "a file, or a name or its beginning (pm sessions find); * and ? are wildcards"),),
        flags=(Flag("--thoughts", "thoughts alone"),), exits=(7, 8),
    ),
    Command(
        "sessions insights", "sessions", "show where agents loop, fail and lose their time",
        "repl.commands.look.insights:show_insights", "pm sessions insights --since 7d --op sync",
        arguments=(Argument("traces", "these traces: files, or names with * and ?", required=False, many=True),),
        flags=(
            Flag("--since", "only traces that ended since (30d, 2h, 2026-01-31)", "WHEN"),
            Flag("--op", "only this operation; * and ? are wildcards", "NAME"),
        ),
        exits=(7, 8),
        description="Without a trace: the newest 200 of this project, and the criteria that rejected most.",
    ),
    Command(
        "compare", "look", "compare two tasks, sessions, captures or prompts",
        "repl.commands.look.insights:compare_runs", "pm compare 14 15",
        arguments=(
            Argument("a", "a task, a distilled session, a capture, or the beginning of a prompt's sha256"),
            Argument("b", "what it is compared with"),
        ),
        exits=(7,), description="Medians with 95 % intervals; `too few runs` where a side has fewer than 5.",
    ),
)


SERVICE_COMMANDS: tuple[Command, ...] = (
    Command(
        "serve", "setup", "serve this project's tasks over HTTP and in the browser", "repl.commands.setup.serve:serve",
        "pm serve --port 8765", surfaces=("cli",),
        flags=(
            Flag("--host", "address to bind; other machines can reach it if it is not loopback", "ADDRESS"),
            Flag("--port", "port to bind, 0 for any free one", "PORT", kind="integer", least=0),
            Flag("--token-file", "keep the bearer token here", "FILE", values="file"),
            Flag("--new-token", "replace the bearer token"),
        ),
        exits=(3, 5, 8),
        description=(
            "Everything but /healthz and /readyz needs the bearer token, one line in .pm-orchestrator/serve-token. "
            "The link that is printed opens the pages in a browser once and leaves a cookie there. Ctrl+C or "
            "SIGTERM ends the service with exit code 0; tasks it ran stay resumable."
        ),
    ),
    Command(
        "serve link", "setup", "print a link that signs another browser in, once", "repl.commands.setup.serve:link",
        "pm serve link", surfaces=("cli",),
        flags=(
            Flag("--host", "the address that pm serve was given", "ADDRESS"),
            Flag("--port", "the port that pm serve was given", "PORT", kind="integer", least=0),
            Flag("--new-token", "replace the bearer token: a running service takes the new one, cookies end"),
        ),
        exits=(3, 8),
        description=(
            "It works for an hour. It leads to service.public_url, else to the service that runs in this folder, else "
            "to the given host and port."
        ),
    ),
    Command(
        "export", "look", "write a task as one file to pass on: Markdown, JSON or a page",
        "repl.commands.look.export:export", "pm export 15 --format html",
        arguments=(
            Argument("task", "the task; the newest one if left out", required=False, values="task"),
            Argument("kind", "md, json or html, as --format", required=False, choices=("md", "json", "html")),
        ),
        flags=(
            Flag("--format", "md, json or html", "FORMAT", choices=("md", "json", "html")),
            Flag("--output", "write here, - for stdout, instead of TASK.FORMAT", "PATH", "-o", values="file"),
        ),
        exits=(7, 8),
        description="Secrets are replaced again and paths rewritten; a copy that would still hold one is not written.",
    ),
)
