"""`pm criteria`: what an answer is judged by here, what is mandatory, and which commands stand behind Q7 to Q9."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from repl.commands.setup.config import planned_commands
from repl.context import Context
from repl.present.text import escape, padded, width_of
from repl.task_request import expand_criteria
from runner.gate.verdict import BUILT_IN, KIND_OF, criteria_in_force, team_criteria
from tracer.errors import NotFoundError, UsageError


def criteria(context: Context, arguments: Namespace) -> None:
    if arguments.switch:
        _switch(context, arguments)
        return
    settings, planned = context.settings(), planned_commands(context)
    commands = {command.kind: command for command in planned}
    chosen = context.session.chosen("criteria")[0] if context.session is not None else settings.get("run.criteria")
    selected = expand_criteria(tuple(chosen)) if chosen else None
    team = team_criteria()
    review = str(settings.get("run.review") or "off") != "off"
    tests = commands.get("test")  # where they run, each task tries faults on them
    tried = tests is not None and tests.held_back is None and bool(settings.get("gate.strength_time"))
    in_force = {
        one.id
        for one in criteria_in_force(
            commands=list(commands), selected=selected, team=team, review=review, strength=tried
        )
    }
    rows: list[dict[str, Any]] = []
    shown = [one for one in (*BUILT_IN, *team) if not arguments.id or one.id.upper() == arguments.id.upper()]
    wide, long = (max([least, *(width_of(escape(text)) for text in texts)])
                  for least, texts in ((4, [one.id for one in shown]), (22, [one.name for one in shown])))  # fmt: skip
    for one in shown:
        command = commands.get(KIND_OF[one.id]) if one.id in KIND_OF else None
        held_back = command.held_back if command and one.id in in_force else None
        force = "not run" if held_back else "in force" if one.id in in_force else "not in force"
        kind = "mandatory" if one.mandatory else "optional"
        origin = f"{command.origin}: {escape(command.command)}" if command else ""
        context.output.line(
            f"{padded(escape(one.id), wide)} {padded(escape(one.name), long)} {kind:<10} {force:<13} {origin}".rstrip()
        )
        if arguments.id and one.explain:
            context.output.lines(["", *(f"  {line}" for line in one.explain.split("\n"))])
        rows.append(
            {
                "id": one.id,
                "name": one.name,
                "mandatory": one.mandatory,
                "in_force": one.id in in_force,
                "not_run": held_back.why if held_back else None,
                "command": command.command if command else None,
                "origin": command.origin if command else None,
                "explain": one.explain,
            }
        )
    if not rows:
        raise NotFoundError(f"no criterion {arguments.id!r}", next_step="pm criteria")
    if any(command.held_back for command in planned):
        context.output.note("commands found in this folder are run once it is trusted: pm config trust")
    context.output.result("criteria", {"criteria": rows, "trusted": settings.trusted})


def explain(context: Context, arguments: Namespace) -> None:
    known = (*BUILT_IN, *team_criteria())
    wanted = arguments.id.lower()
    found = next((one for one in known if one.id.lower() == wanted), None)
    if found is None:
        raise NotFoundError(f"no criterion {arguments.id!r}", next_step="pm criteria")
    context.output.line(f"{found.id} {escape(found.name)}")
    context.output.lines(["", *(escape(line) for line in (found.explain or "No explanation was given.").split("\n"))])
    fields = {"id": found.id, "name": found.name, "mandatory": found.mandatory, "explain": found.explain}
    context.output.result("criteria explain", fields)


def _switch(context: Context, arguments: Namespace) -> None:
    if context.session is None:
        raise UsageError("on and off are for a session", next_step="pm config set run.criteria Q1-Q9")
    name = arguments.id.upper()
    found = next((one for one in BUILT_IN if one.id == name), None)
    if found is None:
        raise NotFoundError(f"no criterion {arguments.id!r}", next_step="/criteria")
    if found.mandatory and arguments.switch == "off":
        raise UsageError(f"{name} is mandatory", why=f"{found.name} cannot be switched off", next_step="/criteria")
    chosen = context.session.chosen("criteria")[0]
    names = expand_criteria(tuple(chosen)) if chosen else [one.id for one in BUILT_IN if one.mandatory]
    names = [one for one in names if one != name] + ([name] if arguments.switch == "on" else [])
    context.session.choose("criteria", tuple(sorted(names)))
    context.output.line(f"{name} {found.name} is {arguments.switch} for this session")
    context.output.result("criteria", {"id": name, "switch": arguments.switch})
