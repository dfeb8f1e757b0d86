"""Registry rows: the HTTP service."""

from __future__ import annotations

from repl.commands.spec import Argument, Command, Flag

__all__ = ["SERVICE_COMMANDS"]

SERVICE_COMMANDS: tuple[Command, ...] = (
    Command(
        "serve",
        "task",
        "serve this project's tasks over HTTP and in the browser",
        "repl.commands.serve:serve",
        "pm serve --port 8765",
        surfaces=("cli",),
        flags=(
            Flag("--host", "address to bind; other machines can reach it if it is not loopback", "ADDRESS"),
            Flag("--port", "port to bind, 0 for any free one", "PORT", kind="integer"),
            Flag("--token-file", "keep the bearer token here", "FILE", values="file"),
            Flag("--new-token", "replace the bearer token"),
        ),
        exits=(3, 5, 8),
        description=(
            "Everything but /healthz and /readyz needs the bearer token, one line in .pm-orchestrator/serve-token. "
            "The link that is printed opens the pages in a browser once and leaves a cookie there. Ctrl+C ends the "
            "service; tasks it ran stay resumable."
        ),
    ),
    Command(
        "export",
        "trace",
        "write a task as one file to pass on: Markdown, JSON or a page",
        "repl.commands.export:export",
        "pm export 15 --format html",
        arguments=(
            Argument("task", "the task; the newest one if left out", required=False, values="task"),
            Argument("kind", "md, json or html, as --format", required=False, choices=("md", "json", "html")),
        ),
        flags=(
            Flag("--format", "md, json or html", "FORMAT", choices=("md", "json", "html")),
            Flag("--output", "write here instead of TASK.FORMAT in this folder", "PATH", "-o", values="file"),
        ),
        exits=(7, 8),
        description="Secrets are replaced again and paths rewritten; a copy that would still hold one is not written.",
    ),
)
