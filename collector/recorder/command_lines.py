"""What a command line is for: a test run, and of which runner; a debugger; a look at a file; ourselves. Pure.

The line is parsed by the shell's own grammar (tree-sitter), so quotes, pipes and lists are told apart. Whether the
exit code that the shell reports is the test's own depends on where the test stands: `status_of` says so.
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from runner.project_settings import package_scripts
from tracer.capture.wire import Runner

Standing = Literal["line", "pipe", "zero_only", "unknown"]

_WORDS: Final[Mapping[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _table(name: str) -> Mapping[str, frozenset[str]]:
    return {program: frozenset(words) for program, words in _WORDS[name].items()}


_HOLDERS: Final[Mapping[str, Runner]] = _WORDS["holders"]
_DEEPEST: Final = 3
_MOST_TEXT: Final = 256 << 10
_MOST_NEEDED: Final = 6
_TARGET: Final = re.compile(r"[\w.][\w./-]*")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*=")
_ASSIGNED: Final = re.compile(r"(?m)^(?:export )?([\w.-]+)[ \t]*[:?]*=[ \t]*([^\n#$]*?)[ \t]*$")
# The goal that the file sets anywhere, else its first target that is no special one.
_FIRST_GOAL: Final = re.compile(
    r"(?ms)\A.*?^\.DEFAULT_GOAL\s*:?=\s*(?P<set>[\w./-]+)|\A.*?^@?(?P<first>\w[\w./-]*)(?:[ \t][^:=\n]*)?::?(?!=)"
)
_PREFIXES: Final[Mapping[str, int]] = _WORDS["prefixes"]
_RUNNING: Final[Mapping[str, str]] = _WORDS["running"]
_FINDERS: Final = frozenset((*_WORDS["finders"], *_RUNNING))
_CUSTOM: Final = frozenset(_WORDS["custom"])
_TEST_WORDS: Final = frozenset(_WORDS["test_words"])
_CUSTOM_SUBCOMMANDS: Final = _table("subcommands")
_CUSTOM_GOALS: Final = _table("goals")
_NO_RUN: Final = _table("no_run")
_DEBUGGERS: Final = frozenset(_WORDS["debuggers"])
_VIEWERS: Final = frozenset(_WORDS["viewers"])
_EDITORS: Final = frozenset(_WORDS["editors"])
_BEFORE: Final = _table("before")
_HARMLESS: Final = frozenset(_WORDS["harmless"])
_WITH_VALUE: Final = _table("with_value")
_SEARCHERS: Final = frozenset(_WORDS["searchers"])
_OURS: Final = frozenset(_WORDS["ours"])


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCommand:
    """A test run within a line. `standing` says how its exit code shows; `place` is its place in the last pipe.

    `entered` are the folders that the line changes to before it, as they are written; `line` is it alone, with the
    variables that are set for it and what finds its program (`npx`, `uv run`).
    """

    __test__ = False  # not a pytest class

    runner: Runner
    words: tuple[str, ...]
    standing: Standing
    place: int = 0
    entered: tuple[str, ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line's purpose. `viewed`: (kind, path, line, query); `ours`: only about the recording."""

    program: str = ""
    test: TestCommand | None = None
    debugger: str = ""
    viewed: tuple[Literal["open", "search"], str, int | None, str] | None = None
    editor: bool = False
    ours: bool = False


Inside = Callable[[str, str, Sequence[str]], str]
"""What a target of `make`, `just` or a script of package.json runs, as lines of the shell: program, target, and the
folders that the line changes to before it."""


def read_line(text: str, *, inside: Inside = lambda _program, _target, _entered: "", depth: int = 0) -> Line:
    """What the command line `text` is for; total on any text."""
    commands = list(_commands(text))
    if not commands:
        return Line()
    others = [words for words, *_ in commands if not (_base(words) == "pm" and words[1:2] and words[1] in _OURS)]
    found = Line(
        program=_base((others or [commands[0][0]])[0]),
        ours=not others,
    )
    entered: list[tuple[tuple[int, ...], str]] = []
    for words, standing, place, shells, whole, variables in commands:
        base, rest = _base(words), words[1:]
        if base in {"cd", "pushd"}:
            entered.append((shells, next((word for word in rest if word != "--"), "~")))
        folders = tuple(folder for within, folder in entered if shells[: len(within)] == within)
        runner = _runner_named(base, _without_values(base, rest, _BEFORE))
        if runner is not None and not _NO_RUN[runner].isdisjoint(rest):
            runner = None
        if not runner and base in _HOLDERS and depth < _DEEPEST and _NO_RUN[_HOLDERS[base]].isdisjoint(rest):
            deeper = partial(_deeper, inside, folders)
            lines = (deeper(base, target, ()) for target in _targets(base, rest))
            if any(read_line(line, inside=deeper, depth=depth + 1).test for line in lines):
                runner = _HOLDERS[base]
        if runner and found.test is None:
            line = _alone(whole, words, variables)
            test = TestCommand(
                runner=runner, words=tuple(words), standing=standing, place=place, entered=folders, line=line
            )
            found = replace(found, test=test)
        if base in _DEBUGGERS or (base.startswith("python") and rest[:2] in (["-m", "pdb"], ["-m", "ipdb"])):
            found = replace(found, debugger=" ".join(words))
        if base in _EDITORS:
            found = replace(found, editor=True)
        viewed = _viewed(base, rest)
        if viewed is not None and found.viewed is None:
            found = replace(found, viewed=viewed)
    return found


def _deeper(inside: Inside, before: Sequence[str], program: str, target: str, entered: Sequence[str]) -> str:
    """What a target runs that another one names, which was started in the folders `before`."""
    return inside(program, target, (*before, *entered))


def target_lines(folder: str, program: str, target: str, entered: Sequence[str] = (), *, top: str = "") -> str:
    """What a target (empty: the default one) runs, by package.json, Makefile or justfile; empty: it is not there.

    The line starts in `folder` and has changed to the folders `entered`. As the package managers look for it, the
    package.json is the nearest one from there up to `top`, the repository's folder.
    """
    manager = _HOLDERS[program] == "npm test"
    makes = ("GNUmakefile", "makefile", "Makefile")
    names = ("package.json",) if manager else makes if _HOLDERS[program] == "make test" else ("justfile", "Justfile")
    here = Path(folder, *entered).resolve()
    above = [each for each in here.parents if manager and top and each.is_relative_to(Path(top).resolve())]
    for path in (each / name for each in (here, *above) for name in names):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")[:_MOST_TEXT]
        except OSError:
            continue
        if manager:
            return package_scripts(text).get(target, "")
        if not target and (first := _FIRST_GOAL.search(text)) is not None:
            target = first["set"] or first["first"]
        begins = rf"^@?{re.escape(target)}(?![\w.-])[^:\n]*::?(?!=)(?P<needed>[^;#\n]*)(?:;(?P<beside>[^\n]*))?[^\n]*\n"
        rule = re.search(rf"(?m){begins}(?P<below>(?:[ \t]+[^\n]*\n?|\n)*)", f"{text}\n")
        if rule is None:
            return ""
        needed = [f"{program} {name}" for name in rule["needed"].split()[:_MOST_NEEDED] if _TARGET.fullmatch(name)]
        below = re.sub(r"(?m)^[ \t]+[@-]*", "", rule["below"])
        values = dict(_ASSIGNED.findall(text))  # the makefile's own variables, as far as one line each tells them
        lines = "\n".join([*needed, rule["beside"] or "", below])
        return re.sub(r"\$[({]([\w.-]+)[)}]", lambda found: values.get(found[1], found[0]), lines)  # noqa: B023 - done here
    return ""


def _targets(base: str, rest: Sequence[str]) -> list[str]:
    """The targets that a line names; an empty one where it leaves it to the file of targets."""
    plain = [word for word in _without_values(base, rest, _BEFORE) if not word.startswith("-") and "=" not in word]
    if _HOLDERS[base] != "npm test":
        return plain or [""]
    return plain[1:2] if plain[:1] in (["run"], ["run-script"]) else plain[:1]


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


def _base(words: Sequence[str]) -> str:
    return os.path.basename(words[0]) if words else ""  # noqa: PTH119 - a text, not a place


def _runner_named(base: str, rest: Sequence[str]) -> Runner | None:
    plain = [word for word in rest if not word.startswith(("-", "+"))]
    first = plain[0] if plain else ""
    if base in {"pytest", "py.test", "pytest-3"}:
        return "pytest"
    if base.startswith("python"):
        module = rest[rest.index("-m") + 1] if "-m" in rest and rest.index("-m") + 1 < len(rest) else ""
        if module == "pytest":
            return "pytest"
        return "custom" if module in _CUSTOM or (_base([first]), *plain[1:2]) == ("manage.py", "test") else None
    if base == "go":
        return "go test" if first == "test" else None
    if base in {"npm", "yarn", "pnpm"}:
        target = plain[1] if first == "run" and len(plain) > 1 else first
        if target in {"test", "t", "tst"} or target.startswith("test:"):
            return "npm test"
        return "custom" if target in _CUSTOM else None
    if base in {"make", "gmake"}:
        return "make test" if any(word in _TEST_WORDS or word.startswith("test-") for word in rest) else None
    custom = (
        base in _CUSTOM
        or first in _CUSTOM_SUBCOMMANDS.get(base, ())
        or not _CUSTOM_GOALS.get(base, frozenset()).isdisjoint(plain)
        or (base == "node" and "--test" in rest)
    )
    return "custom" if custom else None


def _viewed(base: str, rest: Sequence[str]) -> tuple[Literal["open", "search"], str, int | None, str] | None:
    rest = _without_values(base, rest, _WITH_VALUE)
    plain = [word for word in rest if not word.startswith(("-", "+"))]
    if base in _SEARCHERS or (base == "git" and rest[:1] == ["grep"]):
        plain = plain[1:] if base == "git" else plain
        return ("search", plain[1] if len(plain) == 2 else "", None, plain[0]) if plain else None
    if (base in _VIEWERS or base in _EDITORS) and plain:
        at = next((word[1:] for word in rest if word.startswith("+") and word[1:].isdigit()), "")
        return None if plain[-1].startswith("/dev/") else ("open", plain[-1], int(at) if at else None, "")
    return None


def _without_values(base: str, rest: Sequence[str], table: Mapping[str, frozenset[str]]) -> list[str]:
    """Without what stands after the options that `table` gives a value (`head -n 20 a.py`, `grep -A 3 word`)."""
    options = table.get(base, frozenset())
    return [word for at, word in enumerate(rest) if at == 0 or rest[at - 1] not in options]


def _commands(text: str) -> Iterator[tuple[list[str], Standing, int, tuple[int, ...], list[str], list[str]]]:
    """Every simple command of the line, outside substitutions: words without prefixes, standing, place in its pipe.

    Then come the subshells around it, outermost first, its words with all prefixes, and the variables set for it.
    """
    from runner.gate.languages import by_name  # 10 ms for both, with the first command
    from runner.gate.source import parse

    original = text.encode("utf-8", "replace")
    shell = by_name("bash")
    tree = parse(shell, original) if shell is not None else None
    if tree is None:
        return
    last = next((child for child in reversed(tree.root_node.named_children) if child.type != "comment"), None)
    waiting = [tree.root_node]
    found = []
    while waiting:
        node = waiting.pop()
        if node.type in {"command_substitution", "process_substitution", "function_definition", "comment"}:
            continue
        if node.type in {"command", "declaration_command"}:
            found.append(node)
            continue
        waiting.extend(reversed(node.named_children))
    exported: list[str] = []
    for node in found:
        variables = [
            original[child.start_byte : child.end_byte].decode("utf-8", "replace")
            for child in node.named_children
            if child.type == "variable_assignment"
        ]
        if node.type == "declaration_command":
            exported += variables
            continue
        whole = _words(node, original)
        words = _unwrapped(whole)
        if words:
            yield words, *_standing(node, last, original), _shells_around(node), whole, [*exported, *variables]


def _alone(whole: Sequence[str], words: Sequence[str], variables: Sequence[str]) -> str:
    """The words as a line, with the variables that are set for them and the prefix by which the program is found."""
    before = whole[: len(whole) - len(words)]
    at = next((at for at, word in enumerate(before) if _base([word]) in _FINDERS), len(before))
    given = [word.partition("=") for word in before[:at] if _VARIABLE.match(word)]  # to env, as words
    line = shlex.join(whole[at:] if at < len(before) else words)
    return " ".join([*variables, *(f"{name}={shlex.quote(value)}" for name, _, value in given), line])


def _shells_around(node: Any) -> tuple[int, ...]:
    found: list[int] = []
    while (node := node.parent) is not None:
        if node.type == "subshell":
            found.append(node.start_byte)
    return tuple(reversed(found))


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
            rest = _without_values(base, rest, _BEFORE)
            if base == "coverage" and rest[:1] == ["-m"]:
                rest = ["python", *rest]
        elif base in _PREFIXES and len(words) > 1:
            rest = words[1:]
            while rest and (rest[0].startswith("-") or ("=" in rest[0] and base in {"env", "cross-env"})):
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


def _standing(node: Any, last: Any, original: bytes) -> tuple[Standing, int]:
    """How the exit code of `node` shows in what the shell reports for the whole line."""
    place, zero_only = -1, False
    while True:
        if node.next_sibling is not None and node.next_sibling.type == "&":
            return "unknown", 0  # in the background: the line ends before it
        parent = node.parent
        if parent is None or parent.type == "program":
            break
        if parent.type == "pipeline":
            place = next(number for number, child in enumerate(parent.named_children) if child.id == node.id)
        elif parent.type == "list":
            clear = _in_list(node, parent, original)
            if clear is None:
                return "unknown", 0
            zero_only = zero_only or not clear
        elif parent.type in {"subshell", "compound_statement"}:
            if place >= 0 or parent.named_children[-1].id != node.id:
                return "unknown", 0
        elif parent.type != "redirected_statement":
            return "unknown", 0
        node = parent
    if last is None or node.id != last.id:
        return "unknown", 0
    if zero_only:
        return ("zero_only", 0) if place < 0 else ("unknown", 0)
    return ("pipe", place) if place >= 0 else ("line", 0)


def _in_list(node: Any, parent: Any, original: bytes) -> bool | None:
    """Whether the exit code of `a && b` is that of its part `node`; False: only 0 is; None: nobody can tell."""
    if any(child.type == "||" for child in parent.children):
        return None
    left = parent.named_children[0]
    return left.id != node.id and _is_harmless(left, original)


def _is_harmless(node: Any, original: bytes) -> bool:
    if node.type == "command":
        return _base(_words(node, original)) in _HARMLESS
    if node.type in {"list", "redirected_statement"}:
        parts = node.named_children if node.type == "list" else node.named_children[:1]
        return all(_is_harmless(child, original) for child in parts)
    return node.type in {"variable_assignment", "variable_assignments", "declaration_command", "unset_command"}
