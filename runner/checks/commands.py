"""A project's test, lint and type-check commands from its files, and failing tests from their output."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from runner.project_settings import package_scripts, toml_table

if TYPE_CHECKING:
    from runner.gate.criterion import CommandKind, NotVerified

PROJECT_FILES = (
    "pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", "mypy.ini", "ruff.toml", ".ruff.toml", ".flake8",
    "package.json", "Cargo.toml", "go.mod", "Makefile", "makefile", "GNUmakefile",
)  # fmt: skip
_READ_LIMIT = 256 * 1024
_NAMES_LIMIT = 5000
KINDS: tuple[CommandKind, ...] = ("test", "lint", "typecheck")
_NO_TEST = re.compile(r"no test specified")
_MAKE_TARGETS: dict[CommandKind, tuple[str, ...]] = {
    "test": ("test", "tests"),
    "lint": ("lint",),
    "typecheck": ("typecheck", "type-check", "types", "mypy"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCommand:
    """A command to run; `held_back` says why it must not be started."""

    kind: CommandKind
    command: str
    origin: Literal["given", "configured", "detected"]
    held_back: NotVerified | None = None


def detect_commands(
    workspace: Path,
    *,
    given: Mapping[CommandKind, str] | None = None,
    configured: Mapping[CommandKind, str] | None = None,
    untrusted: Mapping[CommandKind, str] | None = None,
    trusted: bool = False,
) -> tuple[PlannedCommand, ...]:
    """The commands of `workspace` before any tool was looked for; reads a few small project files."""
    names = _names(workspace)
    wanted = [name for name in PROJECT_FILES if name in names]
    wanted += _python_tests(names)[:20]
    texts = {name: _text(workspace / name) for name in wanted}
    return plan_commands(
        names=names, texts=texts, given=given, configured=configured, untrusted=untrusted, trusted=trusted
    )


def _names(workspace: Path) -> list[str]:
    names: list[str] = []
    for folder in ("", "tests/", "test/"):
        with suppress(OSError), os.scandir(workspace / folder) as entries:
            listed = islice(entries, _NAMES_LIMIT)
            names += [
                f"{folder}{one.name}"
                for one in listed
                if one.is_file(follow_symlinks=False) or (one.is_symlink() and Path(one).is_file())
            ]
    return sorted(names)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_READ_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""


def plan_commands(
    *,
    names: Collection[str] = (),
    texts: Mapping[str, str] | None = None,
    given: Mapping[CommandKind, str] | None = None,
    configured: Mapping[CommandKind, str] | None = None,
    untrusted: Mapping[CommandKind, str] | None = None,
    trusted: bool = False,
) -> tuple[PlannedCommand, ...]:
    """One command for each kind that has one, tests first; in an untrusted folder, what is detected is held back.

    So is what its own settings name (`untrusted`), which stands before what is detected.

    `names` are workspace-relative paths of files (top level and `tests/`), `texts` the contents of `PROJECT_FILES`.
    An empty given or configured command switches its kind off.
    """
    detected = _detect(names, texts or {})
    held_back = None
    if untrusted or (detected and not trusted):
        from runner.gate.criterion import NOT_TRUSTED  # 10 ms, which the first prompt need not wait for

        held_back = NOT_TRUSTED
    planned: list[PlannedCommand] = []
    for kind in KINDS:
        if given and kind in given:
            planned.append(PlannedCommand(kind=kind, command=given[kind].strip(), origin="given"))
        elif configured and kind in configured:
            planned.append(PlannedCommand(kind=kind, command=configured[kind].strip(), origin="configured"))
        elif untrusted and kind in untrusted:
            command = untrusted[kind].strip()
            planned.append(PlannedCommand(kind=kind, command=command, origin="configured", held_back=held_back))
        elif kind in detected:
            planned.append(PlannedCommand(kind=kind, command=detected[kind], origin="detected", held_back=held_back))
    return tuple(command for command in planned if command.command)


def _detect(names: Collection[str], texts: Mapping[str, str]) -> dict[CommandKind, str]:
    found: dict[CommandKind, str] = {}
    node = _node(names, texts.get("package.json", ""))
    for candidates in (_python(names, texts), node, _cargo(names), _go(names), _make(texts)):
        found = {**candidates, **found}
    return found


def _python(names: Collection[str], texts: Mapping[str, str]) -> dict[CommandKind, str]:
    project = toml_table(texts.get("pyproject.toml", ""))
    tool = project.get("tool", {}) if isinstance(project.get("tool"), dict) else {}
    ini = "\n".join(texts.get(name, "") for name in ("setup.cfg", "tox.ini", "pytest.ini", "mypy.ini"))
    tests = _python_tests(names)
    found: dict[CommandKind, str] = {}
    marks = ("[pytest]", "[tool:pytest]")
    if "pytest" in tool or any(mark in ini for mark in marks) or {"pytest.ini", "conftest.py"} & set(names):
        found["test"] = "python -m pytest -q"
    elif tests:
        imports_pytest = any("pytest" in text for name, text in texts.items() if name.endswith(".py"))
        mentions = "pytest" in texts.get("pyproject.toml", "") or imports_pytest
        found["test"] = "python -m pytest -q" if mentions or not _unittest(texts) else "python -m unittest discover"
    if "ruff" in tool or "ruff.toml" in names or ".ruff.toml" in names:
        found["lint"] = "ruff check ."
    elif ".flake8" in names or "[flake8]" in ini:
        found["lint"] = "flake8"
    if "mypy" in tool or "[mypy]" in ini or "mypy.ini" in names:
        found["typecheck"] = "mypy" if _mypy_targets(tool, ini) else "mypy ."
    elif "pyright" in tool or "pyrightconfig.json" in names:
        found["typecheck"] = "pyright"
    return found


def _python_tests(names: Iterable[str]) -> list[str]:
    return [
        name for name in names if name.endswith(".py") and re.search(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$", name)
    ]


def _unittest(texts: Mapping[str, str]) -> bool:
    return any(name.endswith(".py") and re.search(r"\bunittest\b", text) for name, text in texts.items())


def _mypy_targets(tool: Mapping[str, Any], ini: str) -> bool:
    section = tool.get("mypy", {})
    keys = set(section) if isinstance(section, dict) else set()
    return bool(keys & {"files", "packages", "modules"}) or bool(
        re.search(r"^\s*(?:files|packages|modules)\s*=", ini, re.MULTILINE)
    )


_ESLINT = re.compile(r"\.eslintrc(?:\.\w+)?|eslint\.config\.[mc]?[jt]s")


def _node(names: Collection[str], text: str) -> dict[CommandKind, str]:
    scripts = package_scripts(text)
    runner = "pnpm" if "pnpm-lock.yaml" in names else "yarn" if "yarn.lock" in names else "npm"
    found: dict[CommandKind, str] = {}
    if "test" in scripts and not _NO_TEST.search(scripts["test"]):
        found["test"] = f"{runner} test"
    if "lint" in scripts:
        found["lint"] = f"{runner} run lint"
    elif any("eslint" in name and _ESLINT.fullmatch(name) for name in names):
        found["lint"] = "npx --no-install eslint ."
    for script in ("typecheck", "type-check", "types", "tsc"):
        if script in scripts:
            found["typecheck"] = f"{runner} run {script}"
            break
    else:
        if "tsconfig.json" in names:
            found["typecheck"] = "npx --no-install tsc --noEmit"
    return found


def _cargo(names: Collection[str]) -> dict[CommandKind, str]:
    if "Cargo.toml" not in names:
        return {}
    return {"test": "cargo test", "lint": "cargo clippy -- -D warnings", "typecheck": "cargo check"}


def _go(names: Collection[str]) -> dict[CommandKind, str]:
    if "go.mod" not in names:
        return {}
    found: dict[CommandKind, str] = {"test": "go test ./...", "typecheck": "go vet ./..."}
    if any(re.match(r"\.golangci\.(?:ya?ml|toml|json)$", name) for name in names):
        found["lint"] = "golangci-lint run"
    return found


def _make(texts: Mapping[str, str]) -> dict[CommandKind, str]:
    text = next((texts[name] for name in ("GNUmakefile", "makefile", "Makefile") if name in texts), "")
    targets = {target for line in re.findall(r"^([\w .-]+):(?!=)", text, re.MULTILINE) for target in line.split()}
    return {kind: f"make {target}" for kind, wanted in _MAKE_TARGETS.items() for target in wanted if target in targets}


_LAST = 512 * 1024
_NAMES = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(?:FAILED|ERROR) ((?:\S+\.py)(?:::\S+?(?:\[[^\]\n]*\])?)?)(?: - |$)",  # pytest -ra
        r"^(?:FAIL|ERROR): (\w+ \([\w.]+\))",  # unittest
        r"^\s*--- FAIL: (\S+)",  # go test
        r"^test (\S+) \.\.\. FAILED$",  # cargo test
        r"^\s*● (.+ › .+)$",  # jest
        r"^\s*(?:×|✗|✖) (.+?)(?:\s+\d+\s?ms)?$",  # vitest, ava
        r"^\s*not ok \d+ -? ?(.+)$",  # TAP
        r"^\s{2,}\d+\) (.+)$",  # mocha
    )
)


def failing_tests(output: str) -> tuple[str, ...]:
    """The failing tests' names, in order, each once."""
    tail = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output[-_LAST:])
    found = [match.group(1).strip() for pattern in _NAMES for match in pattern.finditer(tail)]
    return tuple(dict.fromkeys(found))
