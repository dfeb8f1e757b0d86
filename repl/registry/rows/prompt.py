"""Registry rows that only make sense inside a running `pm>`: its choices, its queue, its skin, its way out."""

from __future__ import annotations

from repl.registry.spec import Argument, Command, Flag

# Data, as many values in a line as fit.
# fmt: off

SESSION_COMMANDS: tuple[Command, ...] = (
    Command(
        "repl", "setup", "open the pm> prompt; what pm does without a command", "repl.open_session:repl",
        "pm repl --line", surfaces=("cli",),
        flags=(
            Flag("--line", "line mode"),
            Flag("--screen", "full screen"),
            Flag("--resume", "go on with this task", "TASK", values="task"),
            Flag("--last", "go on with the newest task"),
        ),
        exits=(1, 3, 4, 5, 6, 7, 8),
        description="Lines from a pipe run as if typed, one after the other; the exit code is the highest seen.",
    ),
    Command(
        "status", "session", "show this session: executor, limits, what runs and waits",
        "repl.commands.work.prompt:status", "/status", surfaces=("slash",),
    ),
    Command(
        "queue", "session", "show, edit or drop the inputs that wait", "repl.commands.work.prompt:queue",
        "/queue drop 1", surfaces=("slash",),
        arguments=(
            Argument("action", "edit or drop", required=False, choices=("edit", "drop")),
            Argument("words", "the row, and the new text", required=False, many=True),
        ),
        exits=(7,),
    ),
    Command(
        "permit", "session", "answer an agent that asks permission", "repl.commands.work.prompt:permit", "/permit yes",
        surfaces=("slash",),
        arguments=(
            Argument("answer", "yes (this once), always, or no", required=False, choices=("yes", "always", "no")),
        ),
        exits=(7,),
        description="y, a or n alone on a line do the same. What nobody answers is refused after run.permission_wait.",
    ),
    Command(
        "executor", "session", "show or choose who does the work", "repl.commands.work.prompt:executor",
        "/executor claude", surfaces=("slash",),
        arguments=(Argument("name", "an executor, or auto", required=False, values="executor"),), exits=(4,),
    ),
    Command(
        "model", "session", "show or choose the model", "repl.commands.work.prompt:model", "/model default",
        surfaces=("slash",), arguments=(Argument("name", "a model, or default", required=False),),
    ),
    Command(
        "limits", "session", "show or choose iterations, budget and time", "repl.commands.work.prompt:limits",
        "/limits iterations 5 budget 2.50", surfaces=("slash",),
        arguments=(Argument("words", "iterations N, budget USD, timeout TIME", required=False, many=True),),
    ),
    Command(
        "cost", "session", "show tokens and money by task or model", "repl.commands.work.prompt:cost",
        "/cost --by model", surfaces=("slash",),
        flags=(Flag("--by", "task or model", "WHAT", choices=("task", "model")),),
    ),
    Command(
        "history", "session", "search earlier inputs of this project", "repl.commands.work.prompt:history",
        "/history signup", surfaces=("slash",),
        arguments=(Argument("words", "only inputs that hold this", required=False, many=True),),
    ),
    Command(
        "keys", "session", "show the keys, and the ids that rebind them", "repl.commands.work.prompt:keys", "/keys",
        surfaces=("slash",),
    ),
    Command(
        "live", "session", "show the answer's text while it arrives", "repl.commands.work.prompt:live", "/live on",
        surfaces=("slash",), arguments=(Argument("switch", "on or off", choices=("on", "off")),),
    ),
    Command(
        "plain", "session", "no colour, no moving line, ASCII", "repl.commands.work.prompt:plain", "/plain on",
        surfaces=("slash",), arguments=(Argument("switch", "on or off", choices=("on", "off")),),
    ),
    Command(
        "theme", "session", "show or choose the full screen's colours", "repl.commands.work.prompt:theme",
        "/theme dark", surfaces=("slash",),
        arguments=(
            Argument(
                "name", "a theme", required=False, values="theme",
                choices=("auto", "dark", "light", "high-contrast", "mono"),
            ),
        ),
    ),
    Command(
        "screen", "session", "go on in full screen", "repl.commands.work.prompt:screen", "/screen", surfaces=("slash",),
    ),
    Command("line", "session", "go on in line mode", "repl.commands.work.prompt:line", "/line", surfaces=("slash",)),
    Command(
        "clear", "session", "clear the screen, keep the state", "repl.commands.work.prompt:clear", "/clear",
        surfaces=("slash",),
    ),
    Command(
        "exit", "session", "leave; prints what is unfinished", "repl.commands.work.prompt:exit_", "/exit",
        surfaces=("slash",), aliases=("quit",),
    ),
)
