"""Registry rows: native sessions of other agents, the traces made of them, prompts kept by hash."""

from __future__ import annotations

from repl.registry.spec import Argument, Command, Flag

# Data, as many values in a line as fit.
# fmt: off

SESSION_PROVIDERS = ("claude", "codex", "gemini", "copilot", "opencode")
_PROVIDER = Flag("--provider", "only this agent's", "NAME", choices=SESSION_PROVIDERS)
_HOOKED = Argument("agent", "the agent whose settings get the hook", choices=("claude", "codex", "gemini"))

DISTILL_COMMANDS: tuple[Command, ...] = (
    Command(
        "distill", "sessions", "make a compact trace of an agent's own session",
        "repl.commands.sessions.distill:distill", "pm distill --provider claude --latest --label sync:scheduler",
        flags=(
            _PROVIDER,
            Flag("--session", "this session: its file, its id, or how the id begins", "PATH", values="file"),
            Flag("--latest", "the newest session of this project"),
            Flag("--all", "every session found, of every project"),
            Flag("--since", "with --all: only sessions used since (30d, 2h, 2026-01-31)", "WHEN"),
            Flag("--watch", "keep on distilling sessions as they are used, until Ctrl+C"),
            Flag("--label", "operation:module; part of the file name", "OP:MODULE"),
            Flag("--project-root", "the project the session worked in (default: this one)", "DIR", values="folder"),
            Flag("--prompt-file", "the file the session's prompt came from", "FILE", values="file"),
            Flag("--output", "write traces here", "DIR", "-o", values="folder"),
        ),
        exits=(7, 8),
        description="One session is one trace: distilled again, it is brought up to date. --json: one object a trace.",
    ),
    Command(
        "sessions", "sessions", "list the sessions agents have left on this machine",
        "repl.commands.sessions.listing:sessions", "pm sessions --provider claude",
        flags=(
            _PROVIDER,
            Flag("--here", "only sessions of this project"),
            Flag("--limit", "at most so many (default 50)", "N", kind="integer", least=1),
        ),
        description="Shows project, age, size, whether it was distilled, and the days until its agent deletes it.",
    ),
    Command(
        "sessions find", "sessions", "find distilled sessions by time, outcome, cost, text",
        "repl.commands.sessions.listing:traces", "pm sessions find --failed --since 7d --op sync",
        arguments=(Argument("text", "words in thoughts, messages, commands or output", required=False, many=True),),
        flags=(
            Flag("--failed", "only those that failed"),
            Flag("--outcome", "how they ended", "HOW", choices=("success", "failure", "unknown")),
            Flag("--since", "ended since (30d, 2h, 2026-01-31)", "WHEN"),
            Flag("--until", "ended before", "WHEN"),
            Flag("--op", "operation; * and ? are wildcards", "NAME"),
            Flag("--module", "module; * and ? are wildcards", "NAME"),
            Flag("--provider", "whose session it is", "NAME", choices=SESSION_PROVIDERS),
            Flag("--model", "model; * and ? are wildcards", "NAME"),
            Flag("--min-cost", "at least so many dollars", "USD", kind="number"),
            Flag("--max-cost", "at most so many dollars", "USD", kind="number"),
            Flag("--errors", "at least so many errors", "N", kind="integer", least=0),
            Flag("--limit", "at most so many (default 50)", "N", kind="integer", least=1),
        ),
        exits=(8,),
    ),
    Command(
        "sessions cost", "sessions", "show what agents cost, in tasks and by themselves",
        "repl.commands.sessions.cost:cost", "pm sessions cost --by model --since 30d",
        flags=(
            Flag("--by", "one line for each (default day)", "WHAT", choices=("day", "project", "model", "task")),
            Flag("--since", "only what ended since (30d, 2h, 2026-01-31)", "WHEN"),
        ),
        exits=(8,), description="A model without a known price is n/a, never 0. pm distill --all adds other sessions.",
    ),
    Command(
        "admin reindex", "admin", "rebuild the catalogue from the traces", "repl.commands.sessions.listing:reindex",
        "pm admin reindex", exits=(8,),
    ),
    Command(
        "prompts show", "sessions", "print the prompt that a trace names by its hash",
        "repl.commands.sessions.listing:show", "pm prompts show 53673074",
        arguments=(Argument("sha256", "the hash, or its first digits"),), exits=(7, 8),
    ),
    Command(
        "sessions hooks install", "sessions", "have an agent hand over each session when it ends",
        "repl.commands.sessions.hooks:install", "pm sessions hooks install claude", arguments=(_HOOKED,), exits=(3, 8),
        description="The change is shown first; the rest of the settings file stays. --yes writes without asking.",
    ),
    Command(
        "sessions hooks uninstall", "sessions", "take that hook out again", "repl.commands.sessions.hooks:uninstall",
        "pm sessions hooks uninstall claude", arguments=(_HOOKED,), exits=(3, 8),
    ),
    Command(
        "sessions hooks run", "sessions", "what the hook runs: distill the session named on stdin",
        "repl.commands.sessions.hooks:run", "pm sessions hooks run claude", arguments=(_HOOKED,), surfaces=("cli",),
        hidden=True,
    ),
)
