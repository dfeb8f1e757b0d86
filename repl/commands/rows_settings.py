"""Registry rows: settings, health, completion, version, help."""

from __future__ import annotations

from repl.commands.spec import Argument, Command

__all__ = ["SETTINGS_COMMANDS"]

SETTINGS_COMMANDS: tuple[Command, ...] = (
    Command(
        "version",
        "settings",
        "print the version",
        "repl.commands.about:version",
        "pm version",
    ),
    Command(
        "help",
        "settings",
        "list the commands, or explain one",
        "repl.commands.about:help_command",
        "pm help trace",
        arguments=(Argument("topic", "a command, or exit-codes", required=False, many=True, values="command"),),
        exits=(7,),
    ),
    Command(
        "completion",
        "settings",
        "print a completion script for your shell",
        "repl.commands.about:completion",
        "pm completion bash > ~/.local/share/bash-completion/completions/pm",
        arguments=(Argument("shell", "bash, zsh or fish", choices=("bash", "zsh", "fish")),),
        surfaces=("cli",),
    ),
    Command(
        "__complete",
        "settings",
        "answer a completion script",
        "repl.commands.completion_scripts:complete",
        "pm __complete -- tr",
        arguments=(Argument("words", "the words typed so far", required=False, many=True),),
        surfaces=("cli",),
        hidden=True,
    ),
)
