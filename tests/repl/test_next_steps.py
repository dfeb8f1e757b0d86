"""Every next step that a message names can be taken: its flags, commands and settings are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from repl.registry.commands import COMMANDS, GLOBAL_FLAGS
from tracer.settings.declared import SETTINGS

_TOP = Path(__file__).parents[2]
_ROOMS = ("tracer", "runner", "collector", "service", "repl", "pm_orchestrator")
_OTHERS = re.compile(r"`?\b(?:git|createdb|bwrap|docker|podman|run) ")  # other programs, whose flags are theirs
_NOT_COMMANDS = frozenset({"as", "in", "again"})  # `install pm again`: words behind the program's name


def _next_steps() -> Iterator[tuple[str, str]]:
    for path in (path for room in _ROOMS for path in (_TOP / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"\bnext(?:_step)?=", text) else ():
            if isinstance(node, ast.keyword) and node.arg in {"next", "next_step"}:
                said = (one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant))
                yield from ((f"{path.relative_to(_TOP)}:{node.lineno}", one) for one in said if isinstance(one, str))


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    found = list(_next_steps())
    assert len(found) > 200
    return found


def test_its_flags_are_flags_of_pm(steps: list[tuple[str, str]]) -> None:
    rows = (*GLOBAL_FLAGS, *(flag for command in COMMANDS for flag in command.flags))
    known = {name for flag in rows for name in (flag.name, flag.short)} | {"--help"}
    ours = [(place, text) for place, text in steps if not _OTHERS.search(text)]
    named = {(place, flag) for place, text in ours for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", text)}
    assert len(named) > 20
    assert not {(place, flag) for place, flag in named if flag not in known}


def test_its_commands_and_settings_are_there(steps: list[tuple[str, str]]) -> None:
    commands = {name.split()[0] for command in COMMANDS for name in (command.name, *command.aliases)} | _NOT_COMMANDS
    settings = {setting.key for setting in SETTINGS}
    for place, text in steps:
        assert {*re.findall(r"\bpm ([a-z]\w*)", text)} <= commands, place
        assert {*re.findall(r"\b(?:config set|setting) ([a-z_]+\.[a-z_]+)(?=\s|$)", text)} <= settings, place
