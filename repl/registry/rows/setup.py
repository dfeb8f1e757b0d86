"""Registry rows: settings, health, completion, version, help."""

from __future__ import annotations

from repl.registry.spec import Argument, Command, Flag

# Data, as many values in a line as fit.
# fmt: off

_KEY = Argument("key", "a setting, such as run.max_iterations", values="config-key")

SETTINGS_COMMANDS: tuple[Command, ...] = (
    Command(
        "mcp", "setup", "serve the gate and this project's records to agents over MCP", "repl.commands.setup.serve:mcp",
        "pm mcp", surfaces=("cli",),
        flags=(
            Flag("--http", "streamable HTTP on loopback, behind the token of pm serve (else stdio)"),
            Flag("--port", "the port for --http (any free one)", "N", kind="integer", least=0),
            Flag("--token-file", "keep the token here", "FILE", values="file"),
        ),
        exits=(3, 5, 8),
    ),
    Command(
        "config show", "setup", "show every setting, where it comes from and what it overrides",
        "repl.commands.setup.config:show", "pm config show run", aliases=("config",), exits=(3,),
        arguments=(Argument("key", "only settings that begin so", required=False, values="config-key"),),
    ),
    Command(
        "config get", "setup", "print one setting", "repl.commands.setup.config:get",
        "pm config get run.max_iterations", arguments=(_KEY,), exits=(3,),
    ),
    Command(
        "config set", "setup", "change one setting; comments in the file stay", "repl.commands.setup.config:set_",
        "pm config set run.max_iterations 5",
        arguments=(_KEY, Argument("value", "the new value", required=False, text=True)),
        flags=(
            Flag("--user", "in your own file, for every project"),
            Flag("--project", "in config.toml, which is committed (else config.local.toml, which is not)"),
            Flag("--unset", "remove the key"),
        ),
        exits=(3,),
        description="Secrets are refused: they belong into the environment or into a key file with mode 0600.",
        person_only=True,
    ),
    Command(
        "config path", "setup", "list the files that are read", "repl.commands.setup.config:path", "pm config path",
        exits=(3,),
    ),
    Command(
        "config validate", "setup", "check every layer", "repl.commands.setup.config:validate", "pm config validate",
        exits=(3,),
    ),
    Command(
        "config schema", "setup", "print the JSON Schema of config.toml", "repl.commands.setup.config:schema",
        "pm config schema > config.schema.json",
    ),
    Command(
        "config trust", "setup", "vouch for this folder's configuration as it is now",
        "repl.commands.setup.config:trust", "pm config trust", flags=(Flag("--revoke", "take it back"),), exits=(3,),
        description=(
            "A project's files may set commands, endpoints and key files only once you trust the folder;\n"
            "any change to them ends the trust. Commands detected in the folder run only where it is trusted;\n"
            "pm run and the prompts ask for it once, on a terminal."
        ),
        person_only=True,
    ),
    Command("version", "setup", "print the version", "repl.commands.setup.about:version", "pm version"),
    Command(
        "help", "setup", "list the commands, or explain one", "repl.commands.setup.about:help_command",
        "pm help trace",
        arguments=(Argument("topic", "a command, or exit-codes", required=False, many=True, values="command"),),
        exits=(7,),
    ),
    Command(
        "doctor", "setup", "check this machine and project, with next steps",
        "repl.commands.setup.doctor:doctor", "pm doctor --json",
        flags=(Flag("--online", "also make one free request to the model API"),), exits=(3,),
    ),
    Command(
        "completion", "setup", "print a completion script for your shell", "repl.commands.setup.about:completion",
        "pm completion bash > ~/.local/share/bash-completion/completions/pm",
        description=(
            "bash: save it as ~/.local/share/bash-completion/completions/pm (make the folder first).\n"
            "zsh: save it as ~/.zfunc/_pm, with fpath+=(~/.zfunc) before compinit in ~/.zshrc.\n"
            "fish: save it as ~/.config/fish/completions/pm.fish."
        ),
        arguments=(Argument("shell", "bash, zsh or fish", choices=("bash", "zsh", "fish")),), surfaces=("cli",),
    ),
    Command(
        "__complete", "setup", "answer a completion script", "repl.commands.setup.about:complete",
        "pm __complete -- tr", arguments=(Argument("words", "the words typed so far", required=False, many=True),),
        surfaces=("cli",), hidden=True,
    ),
)
