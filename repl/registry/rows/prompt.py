"""Registry rows that only make sense inside a running `pm>`: its choices, its queue, its skin, its way out."""

from __future__ import annotations

from typing import Any

from repl.registry.spec import Argument, Command, Flag

_SWITCH = Argument("switch", "on or off", choices=("on", "off"))


def _row(name: str, summary: str, example: str, *, handler: str = "", **more: Any) -> Command:
    """A command of `pm>` alone; its handler is named as it is, but where Python needs that name."""
    place = f"repl.commands.work.prompt:{handler or name}"
    return Command(name, "session", summary, place, example, surfaces=("slash",), **more)


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
    _row("status", "show this session: executor, limits, what runs and waits", "/status"),
    _row(
        "queue", "show, edit or drop the inputs that wait", "/queue drop 1",
        arguments=(
            Argument("action", "edit or drop", required=False, choices=("edit", "drop")),
            Argument("words", "the row, and the new text", required=False, many=True),
        ),
        exits=(7,),
    ),
    _row(
        "permit", "answer an agent that asks permission", "/permit yes",
        arguments=(
            Argument("answer", "yes (this once), always, or no", required=False, choices=("yes", "always", "no")),
        ),
        exits=(7,),
        description="y, a or n alone on a line do the same. What nobody answers is refused after run.permission_wait.",
    ),
    _row(
        "executor", "show or choose who does the work", "/executor claude",
        arguments=(Argument("name", "an executor, or auto", required=False, values="executor"),), exits=(4,),
    ),
    _row(
        "model", "show or choose the model", "/model default",
        arguments=(Argument("name", "a model, or default", required=False),),
    ),
    _row(
        "limits", "show or choose iterations, budget and time", "/limits iterations 5 budget 2.50",
        arguments=(Argument("words", "iterations N, budget USD, timeout TIME", required=False, many=True),),
    ),
    _row(
        "cost", "show tokens and money by task or model", "/cost --by model",
        flags=(Flag("--by", "task or model", "WHAT", choices=("task", "model")),),
    ),
    _row(
        "history", "search earlier inputs of this project", "/history signup",
        arguments=(Argument("words", "only inputs that hold this", required=False, many=True),),
    ),
    _row("keys", "show the keys, and the ids that rebind them", "/keys"),
    _row("live", "show the answer's text while it arrives", "/live on", arguments=(_SWITCH,)),
    _row("plain", "no colour, no moving line, ASCII", "/plain on", arguments=(_SWITCH,)),
    _row(
        "theme", "show or choose the full screen's colours", "/theme dark",
        arguments=(
            Argument(
                "name", "a theme", required=False, values="theme",
                choices=("auto", "dark", "light", "high-contrast", "mono"),
            ),
        ),
    ),
    _row("screen", "go on in full screen", "/screen"),
    _row("line", "go on in line mode", "/line"),
    _row("clear", "clear the screen, keep the state", "/clear"),
    _row("exit", "leave; prints what is unfinished", "/exit", handler="exit_", aliases=("quit",)),
)
