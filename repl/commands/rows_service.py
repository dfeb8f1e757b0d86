"""Registry rows: the HTTP service."""

from __future__ import annotations

from repl.commands.spec import Command, Flag

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
)
