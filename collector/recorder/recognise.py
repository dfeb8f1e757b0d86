"""What a command line is for: a test run, and of which runner; a debugger; a look at a file; ourselves. Pure.

The line is parsed by the shell's own grammar (tree-sitter), so quotes, pipes and lists are told apart. Whether the
exit code that the shell reports is the test's own depends on where the test stands: `status_of` says so.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

__all__ = ["Line", "TestCommand", "junit_path", "read_line", "status_of"]

Runner = Literal["pytest", "go test", "npm test", "make test", "custom"]
Standing = Literal["line", "pipe", "zero_only", "unknown"]

_PREFIXES: Final[dict[str, int]] = {
    "sudo": 0, "time": 0, "env": 0, "command": 0, "exec": 0, "nice": 0, "nohup": 0, "npx": 0, "timeout": 1,
}  # fmt: skip
_RUNNING: Final = {"uv": "run", "poetry": "run", "pdm": "run", "pipenv": "run", "hatch": "run", "rye": "run",
                   "bundle": "exec", "coverage": "run", "pnpm": "exec"}  # fmt: skip
_CUSTOM: Final = frozenset(
    {
        "tox",
        "nox",
        "jest",
        "vitest",
        "mocha",
        "ava",
        "rspec",
        "ctest",
        "phpunit",
        "nextest",
        "unittest",
        "nosetests",
        "ward",
        "behave",
        "stack-test",
    }
)
_TEST_WORDS: Final = frozenset({"test", "tests", "check", "unittest", "test-unit", "unit"})
_CUSTOM_SUBCOMMANDS: Final = {
    "cargo": {"test", "nextest", "t"}, "mvn": {"test", "verify"}, "mvnw": {"test", "verify"},
    "gradle": {"test", "check"}, "gradlew": {"test", "check"}, "dotnet": {"test"},
    "swift": {"test"}, "bazel": {"test"}, "mix": {"test"},
    "deno": {"test"}, "bun": {"test"}, "rake": {"test", "spec"}, "sbt": {"test"}, "zig": {"test"}, "stack": {"test"},
    "cabal": {"test"}, "just": _TEST_WORDS, "task": _TEST_WORDS, "ninja": _TEST_WORDS, "meson": {"test"},
}  # fmt: skip
_DEBUGGERS: Final = frozenset({"gdb", "lldb", "dlv", "pdb", "ipdb", "pudb", "rdbg", "delve", "jdb"})
_VIEWERS: Final = frozenset({"less", "more", "cat", "bat", "head", "tail", "view"})
_EDITORS: Final = frozenset(
    {
        "vim",
        "vi",
        "nvim",
        "nano",
        "emacs",
        "emacsclient",
        "hx",
        "helix",
        "micro",
        "code",
        "cursor",
        "kak",
        "ed",
        "ex",
        "pico",
        "joe",
        "mcedit",
    }
)
_COUNTED: Final = frozenset({"-n", "-c", "--lines", "--bytes"})
_AROUND: Final = frozenset({"-A", "-B", "-C", "-m", "--max-count", "--context", "-g", "--glob", "-t", "--type"})
_WITH_VALUE: Final[Mapping[str, frozenset[str]]] = {
    "head": _COUNTED,
    "tail": _COUNTED,
    "vim": frozenset({"-u", "-c", "--cmd", "-S"}),
    "vi": frozenset({"-u", "-c", "--cmd", "-S"}),
    "nvim": frozenset({"-u", "-c", "--cmd", "-S"}),
    "grep": _AROUND,
    "egrep": _AROUND,
    "fgrep": _AROUND,
    "rg": _AROUND,
    "ag": _AROUND,
}
_SEARCHERS: Final = frozenset({"grep", "rg", "ag", "ack", "egrep", "fgrep", "git-grep"})
# The grammar's scanner gives every character to isdigit(), which crashes on large ones: it sees letters instead.
_AS_ASCII: Final = bytes(range(128)) + b"x" * 128
_OURS: Final = frozenset({"think", "record", "snapshot"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCommand:
    """A test run within a line. `standing` says how its exit code shows; `place` is its place in the last pipe."""

    __test__ = False  # not a pytest class

    runner: Runner
    words: tuple[str, ...]
    standing: Standing
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a line is for. `program` is its first program's name; `viewed` (kind, path, line, query) if it looks."""

    program: str = ""
    test: TestCommand | None = None
    debugger: str = ""
    viewed: tuple[Literal["open", "search"], str, int | None, str] | None = None
    editor: bool = False
    ours: bool = False


def read_line(text: str) -> Line:
    """What the command line `text` is for; total on any text."""
    commands = list(_commands(text))
    if not commands:
        return Line()
    found = Line(program=_base(commands[0][0]))
    for words, standing, place in commands:
        base, rest = _base(words), words[1:]
        runner = _runner(base, rest)
        if runner and found.test is None:
            test = TestCommand(runner=runner, words=tuple(words), standing=standing, place=place)
            found = _changed(found, test=test)
        if base in _DEBUGGERS or (base.startswith("python") and rest[:2] in (["-m", "pdb"], ["-m", "ipdb"])):
            found = _changed(found, debugger=" ".join(words))
        if base in _EDITORS:
            found = _changed(found, editor=True)
        if base == "pm" and any(word in _OURS for word in rest[:1]):
            found = _changed(found, ours=True)
        viewed = _viewed(base, rest)
        if viewed is not None and found.viewed is None:
            found = _changed(found, viewed=viewed)
    return found


def status_of(test: TestCommand, *, line_status: int, pipe: Sequence[int]) -> int | None:
    """The test's own exit code from the line's and the last pipe's; None where the shell does not tell it."""
    if test.standing == "pipe":
        return pipe[test.place] if test.place < len(pipe) else None
    if test.standing == "line":
        return line_status
    if test.standing == "zero_only" and line_status == 0:
        return 0
    return None


def junit_path(words: Sequence[str]) -> str | None:
    """The file a test command was told to write its JUnit report to."""
    names = ("--junitxml", "--junit-xml", "--junitfile", "--output-junit")
    for number, word in enumerate(words):
        name, found, value = word.partition("=")
        if name in names:
            if found:
                return value
            return words[number + 1] if number + 1 < len(words) else None
    return None


def _changed(line: Line, **changes: Any) -> Line:
    from dataclasses import replace

    return replace(line, **changes)


def _base(words: Sequence[str]) -> str:
    return os.path.basename(words[0]) if words else ""  # noqa: PTH119 - a text, not a place


def _runner(base: str, rest: Sequence[str]) -> Runner | None:
    first = next((word for word in rest if not word.startswith(("-", "+"))), "")
    if base in {"pytest", "py.test", "pytest-3"}:
        return "pytest"
    if base.startswith("python"):
        module = rest[rest.index("-m") + 1] if "-m" in rest and rest.index("-m") + 1 < len(rest) else ""
        if module == "pytest":
            return "pytest"
        return "custom" if module in _CUSTOM else None
    if base == "go":
        return "go test" if first == "test" else None
    if base in {"npm", "yarn", "pnpm"}:
        plain = [word for word in rest if not word.startswith("-")]
        target = plain[1] if plain[:1] == ["run"] and len(plain) > 1 else first
        return "npm test" if target in {"test", "t", "tst"} or target.startswith("test:") else None
    if base in {"make", "gmake"}:
        return "make test" if any(word in _TEST_WORDS or word.startswith("test-") for word in rest) else None
    if base in _CUSTOM:
        return "custom"
    if base in _CUSTOM_SUBCOMMANDS and any(word in _CUSTOM_SUBCOMMANDS[base] for word in rest[:3]):
        return "custom"
    return None


def _viewed(base: str, rest: Sequence[str]) -> tuple[Literal["open", "search"], str, int | None, str] | None:
    rest = _without_values(base, rest)
    plain = [word for word in rest if not word.startswith(("-", "+"))]
    if base in _SEARCHERS or (base == "git" and rest[:1] == ["grep"]):
        plain = plain[1:] if base == "git" else plain
        return ("search", plain[1] if len(plain) == 2 else "", None, plain[0]) if plain else None
    if (base in _VIEWERS or base in _EDITORS) and plain:
        at = next((word[1:] for word in rest if word.startswith("+") and word[1:].isdigit()), "")
        return None if plain[-1].startswith("/dev/") else ("open", plain[-1], int(at) if at else None, "")
    return None


def _without_values(base: str, rest: Sequence[str]) -> list[str]:
    """Without the numbers and patterns that stand after an option (`head -n 20 a.py`, `grep -A 3 word`)."""
    options = _WITH_VALUE.get(base, frozenset())
    return [word for at, word in enumerate(rest) if at == 0 or rest[at - 1] not in options]


def _commands(text: str) -> Iterator[tuple[list[str], Standing, int]]:
    """Every simple command of the line, outside substitutions: words without prefixes, standing, place in its pipe."""
    original = text.encode("utf-8", "replace")
    tree = _parser().parse(original.translate(_AS_ASCII))
    last = tree.root_node.named_children[-1] if tree.root_node.named_children else None
    waiting = [tree.root_node]
    found = []
    while waiting:
        node = waiting.pop()
        if node.type in {"command_substitution", "process_substitution", "function_definition", "comment"}:
            continue
        if node.type == "command":
            found.append(node)
            continue
        waiting.extend(reversed(node.named_children))
    for node in found:
        words = _unwrapped(_words(node, original))
        if words:
            yield words, *_standing(node, last)


def _words(node: Any, original: bytes) -> list[str]:
    words = []
    for child in node.named_children:
        if child.type in {"variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"}:
            continue
        raw = original[child.start_byte : child.end_byte].decode("utf-8", "replace")
        try:
            parts = shlex.split(raw)
        except ValueError:
            parts = [raw]
        words.append(" ".join(parts) if parts else "")
    return words


def _unwrapped(words: list[str]) -> list[str]:
    """Without what only runs another program: `env A=1`, `time`, `uv run`, `timeout 10` and their like."""
    for _round in range(5):
        base = _base(words)
        if base in _RUNNING and _RUNNING[base] in words[1:3]:
            rest = words[words.index(_RUNNING[base], 1) + 1 :]
            if base == "coverage" and rest[:1] == ["-m"]:
                rest = ["python", *rest]
        elif base in _PREFIXES and len(words) > 1:
            rest = words[1:]
            while rest and (rest[0].startswith("-") or ("=" in rest[0] and base == "env")):
                rest = rest[1:]
            rest = rest[_PREFIXES[base] :]
        else:
            return words
        while rest and rest[0].startswith("-"):
            rest = rest[1:]
        if not rest:
            return words
        words = rest
    return words


def _standing(node: Any, last: Any) -> tuple[Standing, int]:
    """How the exit code of `node` shows in what the shell reports for the whole line."""
    place, zero_only = -1, False
    while node.parent is not None and node.parent.type != "program":
        parent = node.parent
        if parent.type == "pipeline":
            place = next(number for number, child in enumerate(parent.named_children) if child.id == node.id)
        elif parent.type == "list":
            is_left = parent.named_children[0].id == node.id
            operator = next((child.type for child in parent.children if child.type in {"&&", "||"}), "")
            if is_left and operator == "&&":
                zero_only = True
            elif is_left:
                return "unknown", 0
        elif parent.type != "redirected_statement":
            return "unknown", 0
        node = parent
    if last is None or node.id != last.id:
        return "unknown", 0
    if zero_only:
        return ("zero_only", 0) if place < 0 else ("unknown", 0)
    return ("pipe", place) if place >= 0 else ("line", 0)


@cache
def _parser() -> Any:
    import tree_sitter  # 22 ms, with the first command
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
