"""Registry rows: the collector on the server's side."""

from __future__ import annotations

from repl.commands.spec import Argument, Command, Flag

__all__ = ["COLLECTOR_COMMANDS"]

COLLECTOR_COMMANDS: tuple[Command, ...] = (
    Command(
        "tokens new",
        "sessions",
        "make a token for the collector and show it, the only time",
        "repl.commands.tokens:new",
        "pm tokens new --label laptop",
        flags=(
            Flag("--label", "what it is for, shown by pm tokens list", "TEXT"),
            Flag("--trace", "an ingest key for this capture (the beginning of its id is enough), no admin token", "ID"),
        ),
        exits=(3, 5, 7, 8),
        surfaces=("cli",),
        description="Admin tokens may create, read and delete captures; the serve token of pm serve is one too.",
    ),
    Command(
        "tokens list",
        "sessions",
        "list the collector's admin tokens, never their text",
        "repl.commands.tokens:listed",
        "pm tokens list",
        flags=(Flag("--all", "revoked ones and the ingest keys of captures too"),),
        exits=(3, 5, 8),
        surfaces=("cli",),
    ),
    Command(
        "tokens revoke",
        "sessions",
        "make a token worthless",
        "repl.commands.tokens:revoke",
        "pm tokens revoke 3f0c4a52-7d1e-4c55-9b11-0a2f6f1f8a10",
        arguments=(Argument("token", "its id, as pm tokens list shows it"),),
        exits=(3, 5, 7, 8),
        surfaces=("cli",),
        description="A service that runs believes a token it has just seen for two seconds more.",
    ),
    Command(
        "schema trace",
        "sessions",
        "print the JSON Schema of a captured trace",
        "repl.commands.captured:schema",
        "pm schema trace > trace.schema.json",
        surfaces=("cli",),
    ),
    Command(
        "capture gc",
        "sessions",
        "remove uploads that no capture names",
        "repl.commands.captured:gc",
        "pm capture gc",
        exits=(3, 5, 8),
        surfaces=("cli",),
        description="What was uploaded in the last day stays: the event that names it may be on its way.",
    ),
)
