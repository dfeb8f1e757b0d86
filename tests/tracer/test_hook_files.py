"""Hooks in other programs' settings files: added once, the rest kept, taken out again; what is not understood stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracer.errors import ConfigError
from tracer.settings.hook_files import HookPlan, plan_install, plan_uninstall, write_plan

MARK = "sessions hooks run claude"


def install(path: Path, command: str = f"pm {MARK}") -> HookPlan:
    entry = {"hooks": [{"type": "command", "command": command}]}
    return plan_install(path, {"SessionEnd": entry}, mark=MARK, environ={"HOME": str(path.parent / "home")})


def uninstall(path: Path) -> HookPlan:
    return plan_uninstall(path, mark=MARK, environ={"HOME": str(path.parent / "home")})


def test_a_hook_is_added_once_and_the_rest_of_the_settings_kept(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    mine = {"type": "command", "command": "notify"}
    settings = {"model": "x", "hooks": {"Stop": [{"hooks": [mine]}], "SessionEnd": [{"hooks": [mine]}]}}
    path.write_text(json.dumps(settings))
    plan = install(path)
    assert path.read_text() == json.dumps(settings), "shown, not written"
    write_plan(plan)
    after = json.loads(path.read_text())
    assert after["hooks"]["SessionEnd"][0] == {"hooks": [mine]}
    assert not install(path).changes
    write_plan(install(path, f"/opt/bin/pm {MARK}"))
    assert path.read_text().count(MARK) == 1
    write_plan(uninstall(path))
    assert path.read_text() == json.dumps(settings), "to the byte, also after it was renewed"
    assert not uninstall(path).changes


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": 3}', '{"hooks": {"SessionEnd": {}}}'])
def test_settings_that_cannot_be_understood_are_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(ConfigError):
        install(path)
    assert path.read_text() == text
