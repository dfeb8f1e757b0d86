"""Docstrings name only what is there: modules, settings and every identifier in backticks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tracer.settings.declared import SETTINGS, find_setting

ROOT = Path(__file__).parent.parent
ROOMS = ("collector", "pm_orchestrator", "repl", "runner", "service", "tracer")
ELSEWHERE = {
    "ExportTraceServiceRequest",
    "PGHOST",
    "__eq__",
    "llm_call_count",
    "setsid",
    "uvloop",
    "websockets",
    "x_blob_id",
}
"""Names of other programs and formats, of Python itself, and one that stands for many."""
_DOTTED = re.compile(rf"\b(?:{'|'.join(ROOMS)})(?:\.\w+)+")
_NAMED = re.compile(r"`([A-Za-z_]\w{3,})(?:\(\))?`")
_STRINGS = re.compile(r'"""(?:.|\n)*?"""')

SOURCES = {path: path.read_text() for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))}
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in SOURCES}
WORDS = set(re.findall(r"\w+", "\n".join(_STRINGS.sub("", text) for text in SOURCES.values())))
WORDS |= {setting.env for setting in SETTINGS}


def docstrings(text: str) -> list[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(ast.parse(text)) if isinstance(node, kinds))
    return [docstring for docstring in found if docstring]


def exists(dotted: str) -> bool:
    """A module, something in one, or a setting; file names such as `collector.sqlite` are none of ours to know."""
    parts = dotted.split(".")
    if dotted in MODULES or find_setting(dotted) or any(one.key.startswith(f"{dotted}.") for one in SETTINGS):
        return True
    if parts[-1] in {"json", "jsonl", "md", "sqlite", "toml"}:
        return True
    return any(".".join(parts[:end]) in MODULES and parts[end] in WORDS for end in range(2, len(parts)))


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_docstring_names_is_there(room: str) -> None:
    missing = []
    for path, text in SOURCES.items():
        if path.relative_to(ROOT).parts[0] != room:
            continue
        for docstring in docstrings(text):
            names = [name for name in _NAMED.findall(docstring) if name not in WORDS | ELSEWHERE]
            names += [name for name in _DOTTED.findall(docstring) if not exists(name)]
            missing += [f"{path.relative_to(ROOT)}: {name}" for name in names]
    assert missing == []
