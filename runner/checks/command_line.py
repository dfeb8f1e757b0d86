"""A test command as it is started: its runners made to report outside the workspace, and what it can prove at all.

The line is read by the shell's own grammar, and only arguments are added to it: `runners.toml` says which. Where the
runner is hidden (`make test`, a script), variables of ours ask for reports. Pure.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import tree_sitter

from runner.gate.criterion import NotVerified
from runner.gate.languages import by_name
from runner.gate.source import is_too_deep, parse

PYTHON_STARTER: Final = Path(__file__).with_name("python_starter.py")
_REAL: Final = "--test with the runner alone, its exit code unchanged (pytest -q, npx jest, go test ./...)"
_HIDDEN: Final[Mapping[str, str]] = {
    "PYTEST_ADDOPTS": "--junitxml={report}-pytest.xml -o junit_family=xunit1",
    "NODE_OPTIONS": "--test-reporter=spec --test-reporter-destination=stdout"
    " --test-reporter=tap --test-reporter-destination={report}-node.tap",
    "SPEC_OPTS": "--format progress --format json --out {report}-rspec.json",
    "TESTOPTS": "-v",
    "GOFLAGS": "-v",
    "TOX_OVERRIDE": "testenv.pass_env+=PYTEST_ADDOPTS",
}
_MOST_BYTES: Final = 64 << 10
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*")
# Programs that start the one behind their options; the number is of words that are theirs besides.
_WRAPPERS: Final[Mapping[tuple[str, ...], int]] = {
    ("env",): 0, ("time",): 0, ("exec",): 0, ("command",): 0, ("nice",): 0, ("nohup",): 0, ("stdbuf",): 0,
    ("timeout",): 1, ("xvfb-run",): 0, ("cross-env",): 0, ("dotenv",): 0, ("npx",): 0, ("bunx",): 0, ("c8",): 0,
    ("nyc",): 0, ("uv", "run"): 0, ("uvx",): 0, ("poetry", "run"): 0, ("pipenv", "run"): 0, ("pdm", "run"): 0,
    ("hatch", "run"): 0, ("rye", "run"): 0, ("pixi", "run"): 0, ("pnpm", "exec"): 0, ("yarn", "exec"): 0,
    ("yarn", "run"): 0, ("npm", "exec"): 0, ("bundle", "exec"): 0, ("conda", "run"): 0, ("yarn",): 0, ("pnpm",): 0,
}  # fmt: skip
_WITH_VALUE: Final = frozenset(
    {"-n", "--name", "--with", "--python", "-p", "--extra", "--group", "-k", "-s", "--package"}
)
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_SCRIPTS: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    ("npm", "test"): ("npm", "exec", "-c"), ("npm", "t"): ("npm", "exec", "-c"), ("npm", "run"): ("npm", "exec", "-c"),
    ("npm", "run-script"): ("npm", "exec", "-c"), ("pnpm", "test"): ("pnpm", "exec", "sh", "-c"),
    ("pnpm", "run"): ("pnpm", "exec", "sh", "-c"), ("yarn", "test"): ("sh", "-c"), ("yarn", "run"): ("sh", "-c"),
}  # fmt: skip
_RUN_SCRIPT: Final = re.compile(r"(?P<manager>npm|pnpm|yarn)(?: run)? (?P<name>[\w:.-]+)")
_QUIET: Final = frozenset({"-s", "--silent"})
_ALWAYS_0: Final = frozenset({"true", ":", "echo", "printf", "date", "sleep", "pwd", "wait"})
_NO_RUN: Final = frozenset({"-n", "--just-print", "--dry-run", "--recon"})


class Runner(NamedTuple):
    """One row of runners.toml."""

    name: str
    starts: tuple[tuple[str, ...], ...]
    args: tuple[str, ...]
    suffix: str
    first: bool
    unless: frozenset[str]
    drops: frozenset[str]
    files: str
    lists: frozenset[str]
    example: tuple[str, str]


@cache
def runners() -> tuple[Runner, ...]:
    """All rows."""
    rows = tomllib.loads(Path(__file__).with_name("runners.toml").read_text(encoding="utf-8"))["runner"]
    return tuple(
        Runner(
            row["name"],
            tuple(tuple(start.split()) for start in row["starts"]),
            tuple(row.get("args", ())),
            row.get("suffix", ""),
            row.get("first", False),
            frozenset(row.get("unless", ())),
            frozenset(row.get("drops", ())),
            row.get("files", ""),
            frozenset(row["lists"]),
            (row["example"][0], row["example"][1]),
        )
        for row in rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a test command is started. `doubt`: why it proves nothing however it ends.

    `argv` is to run in an environment without the names in `unset` and with `variables`. Reports come to files whose
    names begin with `report`. `runners` are those recognised; none: what runs the tests is hidden.
    """

    command: str
    argv: tuple[str, ...]
    report: str
    variables: Mapping[str, str]
    runners: tuple[str, ...] = ()
    told_by_output: bool = False
    """One of them tells its tests in its output, and that is not kept elsewhere."""
    doubt: NotVerified | None = None

    def environment(self, users: Mapping[str, str]) -> dict[str, str]:
        """The user's environment, which no agent can change, with what we ask the runner for added to it."""
        joined = {name: f"{users[name]} {value}" for name, value in self.variables.items() if users.get(name)}
        return {**users, **self.variables, **joined}


def plan_launch(
    command: str,
    *,
    report: str,
    bash: str | None = "bash",
    scripts: Mapping[str, str] | None = None,
    starter: str = str(PYTHON_STARTER),
) -> Launch:
    """How to start `command`; `report` is the beginning of file names outside the workspace.

    `bash` is the program, None where there is none: pipelines then end as their last part does. `scripts` are those of
    package.json at the base. `starter` is where `python_starter.py` stands; empty: `python -m` stays as it is.
    """
    line = _Line(command, report=report, scripts=scripts or {}, pipefail=bash is not None, starter=starter)
    text = line.rewritten()
    hidden = {} if line.found else {name: value.replace("{report}", report) for name, value in _HIDDEN.items()}
    if not any("--test" in script and "--test-reporter" not in script for script in (scripts or {}).values()):
        hidden.pop("NODE_OPTIONS", None)  # old versions of node end at it, and its own reporters clash with ours
    count = "-count=1"  # a kept result says nothing about this tree
    return Launch(
        command=command,
        argv=(bash, "-o", "pipefail", "-c", text) if bash else ("/bin/sh", "-c", text),
        report=report,
        variables={**hidden, "GOFLAGS": f"{hidden.get('GOFLAGS', '')} {count}".strip()},
        runners=tuple(dict.fromkeys(call.runner.name for call in line.found if call.runner)),
        told_by_output=any(not call.leaves_file and not call.piped for call in line.found),
        doubt=line.doubt(),
    )


def narrowed(command: str, files: Sequence[str], *, scripts: Mapping[str, str] | None = None) -> str | None:
    """The command for these test files alone; None where its runner cannot be told, or is told already what to run."""
    if (asked := _RUN_SCRIPT.fullmatch(command)) is not None:
        script = (scripts or {}).get(asked["name"], "")
        alone = narrowed(script, files, scripts={}) or ""
        rest = alone.removeprefix(f"{script} ")
        return f"{command}{' --' if asked['manager'] == 'npm' else ''} {rest}" if rest != alone else None
    line = _Line(command, report="", scripts={}, pipefail=True)
    call = line.found[0] if len(line.found) == 1 and not line.found[0].piped else None
    if call is None or call.runner is None or call not in line.calls or not call.runner.files:
        return None
    wanted = [path for path in files if re.search(call.runner.files, path)]
    if call.runner.name == "go":
        wanted = [f"./{path.rpartition('/')[0]}" for path in wanted]
    rest_of = list(zip(call.words[call.begin :], call.spans[call.begin :], strict=True))
    whole = None
    for word, span in rest_of:
        folder = (word or "/").removeprefix("./").rstrip("/")
        if folder in {"...", "."} or all(path.startswith(f"{folder}/") for path in wanted):
            whole = whole or span
    others = (word or "x" for word, span in rest_of if span != whole)
    if not wanted or any(not word.startswith("-") and _OF_OPTION.search(word) is None for word in others):
        return None
    start, end = whole or (call.spans[-1][1], call.spans[-1][1])
    data = command.encode("utf-8", "surrogateescape")
    chosen = f"{'' if whole else ' '}{shlex.join(dict.fromkeys(wanted))}".encode("utf-8", "surrogateescape")
    return (data[:start] + chosen + data[end:]).decode("utf-8", "surrogateescape")


# What an option is given and no path is: `-p no:cacheprovider`, `-n 2`, `-m "not slow"`.
_OF_OPTION: Final = re.compile(r"^(?:[\d.]*\d|(?!.*::)[^/]*[:= ][^/]*)$")


@dataclass(eq=False)
class _Call:
    """One simple command: its words (None: not known before it runs) and where they stand in the text, in bytes."""

    words: list[str | None]
    spans: list[tuple[int, int]]
    end: int
    piped: bool = False
    runner: Runner | None = None
    begin: int = 0
    """Index of the first word behind the runner's start."""
    started: bool = False
    """It is `python -m RUNNER`, which our starter takes the place of."""
    inner: _Line | None = None
    """What a script or `sh -c` runs, and the words that it takes the place of."""
    shell: tuple[str, ...] = ()
    inner_span: tuple[int, int] = (0, 0)

    @property
    def leaves_file(self) -> bool:
        """Whether the runner reports to a file of ours."""
        if self.runner is None or (self.started and self.runner.name == "unittest"):
            return self.runner is not None
        return any("{report}" in arg for arg in self.runner.args)

    def base(self, at: int) -> str:
        return (self.words[at] or "").rpartition("/")[2] if at < len(self.words) else ""


class _Line:
    """A command line, read once."""

    def __init__(
        self,
        text: str,
        *,
        report: str,
        scripts: Mapping[str, str],
        pipefail: bool,
        starter: str = "",
        depth: int = 0,
    ) -> None:
        self._bytes = text.encode("utf-8", "surrogateescape")
        self._report, self._scripts, self._pipefail = report, scripts, pipefail
        self._starter, self._depth = starter, depth
        self.calls: list[_Call] = []
        self._inverted = False
        shell = by_name("bash")
        readable = shell is not None and not is_too_deep(self._bytes) and len(self._bytes) <= _MOST_BYTES
        tree = parse(shell, self._bytes) if shell is not None and readable else None
        known = tree is not None and not tree.root_node.has_error
        self._deciding: set[_Call] | None = None
        try:
            self._deciding = self._ends(tree.root_node) if tree is not None and known else None
        except RecursionError:  # thousands of commands on one line: it is run as it is
            self.calls.clear()

    @property
    def found(self) -> list[_Call]:
        """The calls of known runners, those in scripts too."""
        return [
            one for call in self.calls for one in ([call] if call.runner else call.inner.found if call.inner else [])
        ]

    def doubt(self) -> NotVerified | None:
        """Why the line proves nothing."""
        if self._deciding is None:
            return None
        if self._inverted:
            return NotVerified(why="the test command turns its exit code round (!)", next=_REAL)
        deciding = [call for call in self.calls if call in self._deciding]
        running = [call for call in self.calls if call.runner or (call.inner and call.inner.found)]
        if running and not any(call in self._deciding for call in running):
            return NotVerified(why="the test command throws its exit code away", next=_REAL)
        if not running and self.calls and all(call.base(0) in _ALWAYS_0 for call in deciding):
            return NotVerified(why="the test command ends with 0 whatever the code is", next=_REAL)
        for call in running:
            if call.runner and (option := _listing(call)):
                return NotVerified(why=f"the test command runs no tests ({option})", next=_REAL)
        if not running and any(call.base(0) == "make" and _NO_RUN & set(call.words) for call in self.calls):
            return NotVerified(why="the test command runs no tests (make -n)", next=_REAL)
        inner = (call.inner.doubt() for call in deciding if call.inner)
        return next((doubt for doubt in inner if doubt), None)

    def rewritten(self) -> str:
        """The line with its runners made to report."""
        edits: list[tuple[int, int, str]] = []
        for number, call in enumerate(self.calls):
            edits += self._edits(call, f"{self._report}-{self._depth}{number}")
        text = self._bytes
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new.encode("utf-8", "surrogateescape") + text[end:]
        return text.decode("utf-8", "surrogateescape")

    def _edits(self, call: _Call, report: str) -> Iterator[tuple[int, int, str]]:
        if call.inner is not None and call.inner.found:
            yield (*call.inner_span, shlex.join((*call.shell, call.inner.rewritten())))
        runner, given = call.runner, [str(word) for word in call.words]
        if runner is None or any(one.startswith(tuple(runner.unless)) for one in given):
            return
        added = [arg.replace("{report}", report + runner.suffix) for arg in runner.args]
        if call.started:
            # Before the current folder is on the import path: no pytest.py of the project stands in.
            start, end = call.spans[call.begin - 2][0], call.spans[call.begin - 1][1]
            yield start, end, shlex.join([self._starter, runner.name, f"{report}.xml"])
            added = [] if runner.name == "unittest" else added
        place = call.spans[-1][1]
        if runner.first:
            place = call.spans[call.begin - 1][1]
        elif "--" in given[call.begin :]:
            place = call.spans[given.index("--", call.begin)][0] - 1
        if added:
            yield place, place, f" {shlex.join(added)}"
        dropped = False
        for word, span in zip(given, call.spans, strict=True):
            value, dropped = dropped, f"{word}=" in runner.drops
            if value or dropped or {word, f"{word.partition('=')[0]}="} & runner.drops:
                yield span[0] - 1, span[1], ""
        if call.piped and not call.leaves_file:
            yield call.end, call.end, f" | tee {shlex.quote(f'{report}.txt')}"

    def _ends(self, node: tree_sitter.Node) -> set[_Call]:
        """The calls whose failing makes `node` fail; the rest of its calls are noted all the same."""
        match node.type:
            case "command" | "declaration_command" | "test_command":
                return {self._call(node)}
            case "program" | "compound_statement" | "subshell" | "do_group":
                return self._sequence(node)
            case "list":
                return self._pair(node)
            case "pipeline":
                parts = [self._part(child) for child in node.named_children]
                return set().union(*parts) if self._pipefail else parts[-1]
            case "redirected_statement":
                body = node.child_by_field_name("body")
                found = self._ends(body) if body is not None else set()
                for call in found:
                    call.end = max(call.end, node.end_byte)
                return found
            case "negated_command":
                found = set().union(*(self._ends(child) for child in node.named_children))
                self._inverted = self._inverted or any(call.runner for call in found)
                return found
            case "comment" | "heredoc_body" | "function_definition":
                return set()
            case _:  # what a condition or a loop makes of its commands is not known before it runs
                return set().union(*(self._ends(child) for child in node.named_children))

    def _part(self, node: tree_sitter.Node) -> set[_Call]:
        found = self._ends(node)
        last = node.next_named_sibling is None
        for call in found:
            call.piped = call.piped or not last
        return found

    def _sequence(self, node: tree_sitter.Node) -> set[_Call]:
        ends: list[tuple[tree_sitter.Node, set[_Call]]] = []
        stops = False  # set -e
        found: set[_Call] = set()
        for child in node.named_children:
            if child.type == "comment":
                continue
            own = self._ends(child)
            if child.next_sibling is not None and child.next_sibling.type == "&":
                own = set()
            stops = stops or any(call.base(0) == "set" and _sets_e(call) for call in own)
            if stops:
                found |= own
            ends.append((child, own))
        if not ends:
            return found
        last = ends[-1][1]
        if any(_keeps_status(call) for call in last):  # exit $status, wait $!: as any of them ended
            return {call for call in self.calls if node.start_byte <= call.spans[0][0] < node.end_byte}
        return found | last

    def _pair(self, node: tree_sitter.Node) -> set[_Call]:
        left, right = node.named_children[0], node.named_children[-1]
        first, second = self._ends(left), self._ends(right)
        if any(child.type == "||" for child in node.children):
            return first if second and all(_always_fails(call) for call in second) else second
        return first | second

    def _call(self, node: tree_sitter.Node) -> _Call:
        parts = [child for child in node.named_children if child.type not in {"file_redirect", "herestring_redirect"}]
        words = [_text(part) for part in parts]
        call = _Call(words, [(part.start_byte, part.end_byte) for part in parts] or [node.byte_range], node.end_byte)
        self.calls.append(call)
        at = _unwrapped(call)
        if not self._look_inside(call, at):
            self._recognise(call, at)
        return call

    def _recognise(self, call: _Call, at: int) -> None:
        for runner in runners():
            for start in runner.starts:
                end = _begins(call, at, start)
                if end is not None:
                    call.runner, call.begin = runner, end
                    call.started = (
                        bool(self._starter) and start[0] == "python" and start[-2] == "-m" and "coverage" not in start
                    )
                    return

    def _look_inside(self, call: _Call, at: int) -> bool:
        """Read the line that a shell or a package's script runs."""
        if self._depth > 3:
            return False
        words = [word or "" for word in call.words]
        if call.base(at) in _SHELLS and "-c" in words[at:]:
            place = words.index("-c", at) + 1
            if place < len(words) and call.words[place] is not None:
                self._enter(call, words[place], tuple(words[at:place]), (call.spans[at][0], call.spans[place][1]),
                            pipefail="pipefail" in words[at:place])  # fmt: skip
            return True
        asked = [word for word in words[at:] if word not in _QUIET]
        shell = _SCRIPTS.get(tuple(asked[:2]))
        if shell is None:
            return False
        rest = asked[1:] if asked[1] in {"t", "test"} else asked[2:]
        name = "test" if rest[:1] == ["t"] else next(iter(rest), "")
        script, given = self._scripts.get(name), _passed_on(asked[0], rest[1:])
        elsewhere = any(one.base(0) in {"cd", "pushd"} for one in self.calls)
        if script is None or given is None or elsewhere or None in call.words[at:]:
            return False
        parts = (
            self._scripts.get(f"pre{name}"),
            f"{script} {shlex.join(given)}".strip(),
            self._scripts.get(f"post{name}"),
        )
        text = " && ".join(part for part in parts if part)
        text = f'PATH="$PWD/node_modules/.bin:$PATH"; {text}' if shell[0] == "sh" else text
        self._enter(call, text, shell, (call.spans[at][0], call.spans[-1][1]), pipefail=False)
        return True

    def _enter(self, call: _Call, text: str, shell: tuple[str, ...], span: tuple[int, int], *, pipefail: bool) -> None:
        report = f"{self._report}-{len(self.calls)}"
        call.inner = _Line(
            text, report=report, scripts=self._scripts, pipefail=pipefail, starter=self._starter, depth=self._depth + 1
        )
        call.shell, call.inner_span = shell, span


def is_script(words: Sequence[str | None]) -> bool:
    """Whether the words have a package manager run a script of package.json."""
    return tuple([word for word in words if word not in _QUIET][:2]) in _SCRIPTS


def _passed_on(manager: str, words: Sequence[str]) -> list[str] | None:
    """What a package manager hands to the script; None where its own options say to run it elsewhere."""
    own = words[: words.index("--")] if "--" in words else words
    if manager == "npm" and any(word.startswith("-") for word in own):
        return None
    return [word for word in own if word] + list(words[len(own) + 1 :])


def _text(node: tree_sitter.Node) -> str | None:
    """A word as the shell passes it on; None where that is known only when it runs."""
    text = (node.text or b"").decode("utf-8", "surrogateescape")
    match node.type:
        case "command_name":
            return _text(node.named_children[0]) if node.named_children else text
        case "word" | "number":
            return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
        case "raw_string":
            return text[1:-1]
        case "string":
            plain = all(child.type == "string_content" for child in node.named_children)
            return re.sub(r'\\([\\"$`])', r"\1", text[1:-1]) if plain else None
        case "concatenation":
            parts = [_text(child) for child in node.named_children]
            return "".join(part for part in parts if part is not None) if None not in parts else None
        case "variable_assignment":
            return text
        case _:
            return None


def _unwrapped(call: _Call) -> int:
    """The index of the program that is really run: behind assignments and programs that start another."""
    at = 0
    while at < len(call.words):
        word = call.words[at] or ""
        if _ASSIGNED.match(word):
            at += 1
            continue
        wrapper = next(
            (
                (names, more)
                for names, more in sorted(_WRAPPERS.items(), key=lambda item: -len(item[0]))
                if tuple(call.base(at + offset) for offset in range(len(names))) == names
            ),
            None,
        )
        behind = at + len(wrapper[0]) if wrapper else at
        if wrapper is None or behind >= len(call.words) or is_script(call.words[at:]):
            return at
        while behind < len(call.words) and (call.words[behind] or "").startswith("-"):
            behind += 2 if call.words[behind] in _WITH_VALUE else 1
        at = behind + wrapper[1]
    return at


def _begins(call: _Call, at: int, start: Sequence[str]) -> int | None:
    """The index behind the words of `start`; None where the call begins otherwise."""
    for number, wanted in enumerate(start):
        if wanted == "*":
            while at < len(call.words) and not _is_word(call.words[at], start[number + 1]):
                # Options, and a value that belongs to one; a program's own words end the search.
                if not (call.words[at] or "").startswith("-") and not (call.words[at - 1] or "").startswith("-"):
                    return None
                at += 1
            continue
        if at >= len(call.words) or not _is_word(call.words[at], wanted):
            return None
        at += 1
    return at


def _is_word(word: str | None, wanted: str) -> bool:
    base = (word or "").rpartition("/")[2]
    if wanted == "python":
        return _PYTHON.fullmatch(base) is not None
    return wanted in {base, word} or ("*" in wanted and fnmatchcase((word or "") if "/" in wanted else base, wanted))


def _listing(call: _Call) -> str:
    """The option with which the runner runs no tests; empty where there is none."""
    if call.runner is None:
        return ""
    for word in call.words[call.begin :]:
        if (word or "").partition("=")[0] in call.runner.lists:
            return str(word)
        if word == "--" and call.runner.name != "cargo":
            return ""
    return ""


def _sets_e(call: _Call) -> bool:
    return any(re.fullmatch(r"-[a-z]*e[a-z]*", word or "") or word == "errexit" for word in call.words[1:])


def _keeps_status(call: _Call) -> bool:
    return call.base(0) in {"exit", "return", "wait", "test", "["} and (
        None in call.words[1:] or call.base(0) in {"test", "["}
    )


def _always_fails(call: _Call) -> bool:
    return call.base(0) == "false" or (call.base(0) in {"exit", "return"} and call.words[1:] not in ([], ["0"]))
