"""Which changed files are tests, which steer the runner, and how both are put back. Pure; the rows are data.

`harness.toml` lists paths by ecosystem; a project adds its own with the setting `gate.harness`.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from itertools import islice, pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from runner.checks.clean_copy import USUAL_LINKS
from runner.checks.mutants import targets_of
from runner.checks.reports import CaseResult
from runner.gate.criterion import ChangedFile, Expectation, Place, at
from runner.gate.definitions import name_of, names_of
from runner.gate.evidence_criteria import tests_in
from runner.gate.file_roles import TEST_FILE, is_test_file
from runner.gate.languages import by_path
from runner.gate.line_map import line_map
from runner.gate.source import open_source
from runner.project_settings import json_object

_SHOWN = 20
_MOST_READ = 5000
_MOST_BYTES = 1 << 20
_DATA = Path(__file__).with_name("harness.toml")
_SECTION = re.compile(r"^\[+([^\]\n]+)\]+[^\n]*$", re.MULTILINE)
_RULE = re.compile(r"^([\w.%/ -]+?)\s*::?(?!=)[^\n]*$", re.MULTILINE)


@cache
def rows() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The tables of `harness.toml`."""
    return tomllib.loads(_DATA.read_text(encoding="utf-8"))


@cache
def _paths() -> re.Pattern[str]:
    return re.compile("|".join(path for row in rows()["harness"] for path in row["paths"]))


def protected_pattern() -> str:
    """What no solution of a task may change, whole files of which parts steer among them, as a regular expression."""
    parts = (str(row["path"]) for row in rows()["parts"])
    return "|".join((_paths().pattern, TEST_FILE.pattern, *parts))


def looks_pattern() -> str:
    """The lines by which code finds out whether tests run, as a regular expression."""
    return _looks().pattern


def is_harness(path: str, extra: Sequence[str] = ()) -> bool:
    """Whether the file steers the runner; `extra` are patterns of the project's own."""
    return _paths().search(path) is not None or any(fnmatch(path, pattern) for pattern in extra)


@cache
def _looks() -> re.Pattern[str]:
    return re.compile("|".join(line for row in rows()["looks"] for line in row["lines"]))


def looks_for_runner(files: Iterable[ChangedFile]) -> Iterator[Place]:
    """Lines added to the product that find out whether tests run."""
    for file in files:
        old, new = ((side or b"").decode("utf-8", "replace").splitlines() for side in (file.before, file.after))
        known = set(old)
        for number, line in enumerate(new, 1):
            said = line.strip()
            # An attribute of Rust on a line of its own is about the next one.
            after = new[number] if said.startswith("#[") and said.endswith("]") and number < len(new) else ""
            new_here = line not in known or (after and after not in known)
            if new_here and _looks().search(f"{said} {after.strip()}".strip()):
                advice = "the product must do the same whether or not tests run"
                yield at("bought", "code looks for the tests", path=file.path, line=number, suggestion=advice)


_MACRO = re.compile(r"^\s*#\s*(?:define|undef)\s+(\w+)|(?<!\S)[\"']?-D\s*(\w+)|--(?:wrap|defsym)[=,](\w+)")
_CALL = re.compile(r"\b(\w+)\s*\(")


def redefined(files: Sequence[ChangedFile], tests: Iterable[str], request: str) -> Iterator[Place]:
    """Macros, and orders to the linker, that a change puts in the place of what its tests call already (C, C++).

    That is a function which they had from elsewhere, or one that the change has beside the macro.
    """
    called = {name for text in tests for name in _CALL.findall(text)}
    known = "\n".join((file.before or b"").decode("utf-8", "replace") for file in files)
    sources = (open_source(file.path, file.after) for file in files if file.after and not file.too_large)
    own = {name for source in sources if source is not None for name, _, _ in names_of(source)}
    for file in files:
        for number, line in enumerate((file.after or b"").decode("utf-8", "replace").splitlines(), 1):
            for name, linked in ((one[1] or one[2] or one[3], one[3]) for one in _MACRO.finditer(line)):
                elsewhere = not is_word_of(name, known) and not is_word_of(name, request)
                if name in called and (name in own or elsewhere or (linked and line not in known)):
                    advice = "leave what the tests use as it is"
                    told = f"{name}, which the tests call, is {'linked anew' if linked else 'a macro of the change'}"
                    yield at("bought", told, path=file.path, line=number, suggestion=advice)


@cache
def _replaces() -> re.Pattern[str]:
    return re.compile("|".join(line for row in rows()["replaces"] for line in row["lines"]))


def replaces_things(test: ChangedFile) -> bool:
    """Whether tests put something of their own in the place of what the code has."""
    return _replaces().search((test.after or b"").decode("utf-8", "replace")) is not None


def concerns(case: CaseResult, *, request: str, product: Sequence[ChangedFile], tests: Mapping[str, str]) -> bool:
    """Whether a failing test is about this task: the request names it or what it calls, or what it tests was changed.

    Changed is what its failure passed through, or a function that its own lines name; of a file whose functions cannot
    be told, the file's name. `tests` are the files with tests and their text before the task.
    """
    name = case.short
    wanted = {name} if re.search(r"[^a-z]", name) else set()  # one plain word stands in a request by chance
    places = place_of(case, tests)
    wanted |= {path for path, _ in places}
    text = "\n".join(own for _, own in places)
    called = CALLED.findall(request)
    if any(is_word_of(word, request) for word in wanted) or any(is_word_of(word, text) for word in called):
        return True
    told = case.trace + case.message
    if any(re.search(rf"(?<![\w.-]){re.escape(file.path)}[:\"]", told) for file in product):
        return True
    targets = targets_of(product)
    known = {target.path for target in targets}
    changed = {target.function.rpartition(".")[2] for target in targets}
    changed |= {PurePosixPath(file.path).stem for file in product if file.path not in known}
    return any(is_word_of(word, text) for word in changed)


CALLED = re.compile(r"\b(\w{2,})\(")


_UNIT = re.compile(
    r"""(?P<row>[\[({]\s*(?:[\w.'"-]+\s*,\s*)+[\w.'"-]+\s*,?\s*[\])}])"""
    r"""|(?P<text>"[^"\n]*"|'[^'\n]*'|`[^`\n]*`)|(?P<number>(?<![\w.])\d[\d_]*(?:\.\d+)?(?![\w.]))"""
)
_LEAST_ROW, _LEAST_TEXT, _LEAST_NUMBER = 4, 3, 2  # letters and digits without which a value stands there by chance
_MOSTLY = 0.6
_PAIR = 2
_LEAST_PAIR = 5  # letters and digits: 12 and 31 stand together in any code about days


def answers_held(
    product: Sequence[ChangedFile], mended: Iterable[str], request: str, tests: Iterable[str]
) -> Iterator[Place]:
    """Added lines that hold little but what `tests` give and expect: right for these inputs alone.

    `mended` are the lines of tests that failed before. Of one line of theirs two values must stand there, or a row of
    values that is compared with; what the request or the product named before is nobody's answer.
    """
    expected = [{*values_of(line), *_numbered(line)} for text in mended for line in text.splitlines()]
    # What the product said before may have moved to another file.
    said = {*values_of(request), *(value for file in product for value in values_of(_outer(file)))}
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        if lines is None or file.after is None or is_prose(file.path):
            continue
        added = [(number, lines.after[number - 1].decode("utf-8", "replace")) for number in sorted(lines.added)]
        found = {value: number for number, line in added for value in values_of(line) if value not in said}
        alike = max((_apart(values & set(found)) for values in expected), key=len, default=[])
        compared = any(_is_compared(value, line) for value in alike for _, line in added)
        if (len(alike) < _PAIR or sum(map(len, alike)) < _LEAST_PAIR) and not compared:
            continue
        held = set(found) & {value for text in tests for value in (*values_of(text), *_numbered(text))}
        if len(held) >= _MOSTLY * len(found):
            advice = "make it right for every input; the tests give examples only"
            line = min(found[value] for value in held)
            yield at("bought", "code holds the tests' own values", path=file.path, line=line, suggestion=advice)


def is_prose(path: str) -> bool:
    """Whether a file is a document."""
    language = by_path(path)
    return language.name in {"markdown", "prose"} if language is not None else not PurePosixPath(path).suffix


def examples_held(product: Sequence[ChangedFile], tests: Iterable[str]) -> Iterator[Place]:
    """Added code that holds, side by side, what tests give and what they expect for it, and little else.

    Only what is given in several parts, a number among them (`"1.5 KiB"`), is an example of a rule for sure; of codes
    and names there may be a list that was asked for.
    """
    wanted = {pair for text in tests for line in text.splitlines() for pair in pairwise(bare_values(line))}
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        if lines is None:
            continue
        added = "\n".join(lines.after[number - 1].decode("utf-8", "replace") for number in sorted(lines.added))
        held = {*pairwise(bare_values(added))}
        alike = {pair for pair in held & wanted if len(_PARTS.findall(pair[0])) > 1 and re.search(r"\d", pair[0])}
        left = {value for pair in held for value in pair} - {value for pair in wanted for value in pair}
        if len(alike) >= _PAIR and len(left) <= len(alike):
            advice, line = "make it right for every input; the tests give examples only", min(lines.added)
            what = f"code holds examples of the tests with their results: {', '.join(sorted(one for one, _ in alike))}"
            yield at("bought", what, path=file.path, line=line, suggestion=advice)


_PARTS = re.compile(r"\d+(?:\.\d+)?|[A-Za-z]+")


def _numbered(text: str) -> Iterator[str]:
    """The words with a digit in texts: what code gets that takes such a text apart."""
    for match in _UNIT.finditer(text):
        yield from re.findall(r"\S*\d\S*", match["text"][1:-1]) if match["text"] else ()


def values_of(text: str) -> Iterator[str]:
    """The literals of some weight: rows of values as `1,2,3`, and single ones."""
    for match in _UNIT.finditer(text):
        value = match[0]
        if match["row"]:
            row = re.sub(r"\s+|,\s*$|['\"]", "", value[1:-1])
            if len(re.sub(r"\W", "", row)) >= _LEAST_ROW and re.search(r"\d|['\"]", value):
                yield row
            yield from values_of(value[1:-1])
        elif match["text"] and len(value) - 2 >= _LEAST_TEXT:
            yield value[1:-1]
        elif match["number"] and len(value) >= _LEAST_NUMBER:
            yield value


# A number may begin or end a range, `40..60`.
_LITERAL = re.compile(
    r"(['\"`])([^'\"`\n]+)\1|(?:(?<![\w.])|(?<=\.\.))\d+(?:\.\d+)?(?![\w.]|\.\d)|(?<![\w.])\d+(?=\.\.)"
)


def bare_values(text: str) -> Iterator[str]:
    """Every literal but 0 and 1, the small ones too."""
    for match in _LITERAL.finditer(text):
        if match[0] not in {"0", "1"}:
            yield match[2] or match[0]


def _apart(values: Collection[str]) -> list[str]:
    """Those that are no part of another one."""
    return [one for one in values if not any(one != other and one in other.split(",") for other in values)]


def _is_compared(value: str, line: str) -> bool:
    row = value.count(",") > 1 and r"['\"]?\s*,\s*['\"]?".join(re.escape(part) for part in value.split(","))
    return bool(row) and re.search(rf"==\s*&?(?:vec!|\w*)?[\[({{]\s*['\"]?{row}", line) is not None


def never_unequal(product: Sequence[ChangedFile]) -> Iterator[Place]:
    """Comparisons of objects that a task added and that are true whatever they are given."""
    for file in product:
        lines, source = line_map([file]).get(file.path), open_source(file.path, file.after or b"")
        if lines is None or source is None or source.tree is None:
            continue
        for function in source.nodes(source.language.functions):
            body, first = function.child_by_field_name("body"), function.start_point.row + 1
            if body is None or name_of(function) not in _EQUAL or not lines.touches(first, function.end_point.row + 1):
                continue
            if re.fullmatch(r"[{\s]*(?:return\s+)?true[;\s]*(?:end)?[}\s]*", (body.text or b"").decode().lower()):
                yield at("bought", "everything is equal to this", path=file.path, line=first, suggestion="compare it")


_EQUAL = frozenset({"__eq__", "equals", "Equals", "isEqual", "==", "eql?", "eq", "Equal", "operator=="})


def never_unequal_pattern() -> str:
    """What `never_unequal` finds, for who has no syntax trees: a regular expression over a whole file."""
    names = "|".join(map(re.escape, sorted(_EQUAL)))
    before = r"(?:^[ \t]*|\b(?!if\b|while\b|return\b|else\b|not\b|and\b|or\b)\w+[ \t&*]+|func\s*\([^()]*\)\s*)"
    body = r"[^{}:;=?|()\n]*[:{]?\s*(?:return\s+)?[Tt]rue\b[;\s]*(?:end\b|}|\n|\Z)"
    return rf"(?m){before}(?:{names})\s*\([^()]*\){body}"


def is_word_of(word: str, text: str) -> bool:
    """Whether it stands in the text as a word of its own."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def lines_of(case: CaseResult, tests: Mapping[str, str]) -> str:
    """The test's own lines; those of its whole file where the report names no test of it."""
    return "\n".join(text for _, text in place_of(case, tests))


def place_of(case: CaseResult, tests: Mapping[str, str]) -> list[tuple[str, str]]:
    """The file and the lines of a test; its whole file, or several, where the report names no test of it."""
    place = case.file or case.id.partition("::")[0]
    stem = place.replace(".", "/") if "/" not in place else place.rpartition(".")[0]
    stems = (stem, stem.rpartition("/")[0]) if "/" not in place else (stem,)  # a class may be named behind its module
    own = next(filter(None, (_files_at(one, place, tests) for one in stems if one)), {})
    short = case.short.partition("/")[0]
    for path, text in (*own.items(), *tests.items()):
        known = tests_in(text)
        if (name := case.short) not in known and (name := short) not in known and path in own:
            name = _behind_suites(case.short, known)
        if name in known:
            return [(path, known[name])]
    named = ((path, text) for path, text in tests.items() if is_test_file(path) and short and short in text)
    return list(own.items()) or list(named)


def _files_at(stem: str, place: str, tests: Mapping[str, str]) -> dict[str, str]:
    return {path: text for path, text in tests.items() if path == place or path.rpartition(".")[0].endswith(stem)}


def _behind_suites(title: str, known: Collection[str]) -> str:
    """The test of which a report names the suites around it before its own name; empty where there is none."""
    return max((name for name in known if title.endswith(f" {name}")), key=len, default="")


def texts_of_tests(folder: Path, files: Sequence[ChangedFile] = ()) -> dict[str, str]:
    """The files with tests of the workspace and the changed ones, as they were before the task."""
    found = {file.path: (file.before or b"").decode("utf-8", "replace") for file in files}
    for told, path in _files_of(folder):
        if told not in found and is_test_file(told) and len(found) < _MOST_READ:
            with suppress(OSError):
                found[told] = _read(path)
    return found


def named_in(folder: Path, values: Collection[str], files: Sequence[ChangedFile]) -> set[str]:
    """Which of these values stand in unchanged files of the workspace that are no tests."""
    changed, left, read = {file.path for file in files}, set(values), 0
    for told, path in _files_of(folder):
        if told in changed or is_test_file(told) or not left or read > _MOST_READ:
            continue
        read += 1
        with suppress(OSError):
            text = _read(path)
            left -= {value for value in left if "\0" not in text and is_named(value, text)}  # no number of a program
    return {*values} - left


def code_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files of code of the workspace that are no tests, with their text."""
    for told, path in islice(_files_of(folder), _MOST_READ):
        if (known := by_path(told)) is not None and known.functions and not is_test_file(told):
            with suppress(OSError):
                yield told, _read(path).encode()


def is_named(value: str, text: str) -> bool:
    """Whether a value stands in a text as words or a number of its own; a number may be followed by a unit."""
    before, behind = ("[a-zA-Z_]", "[a-zA-Z_]") if value[:1].isalpha() else (r"[\w.]", r"\d|\.\d")
    return value in text and re.search(rf"(?<!{before}){re.escape(value)}(?!{behind})", text) is not None


def names_code(said: str, folder: Path) -> bool:
    """Whether the output of a command names a file of code of the workspace that is no installed package's."""
    for name in {match.removeprefix(f"{folder}/") for match in re.findall(r"[\w./@+-]+\.\w{1,5}\b", said)}:
        language = by_path(name)
        if language is not None and language.functions and not {*USUAL_LINKS} & {*PurePosixPath(name).parts}:
            with suppress(OSError):
                if not name.startswith("/") and (folder / name).is_file():
                    return True
    return False


def _files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in USUAL_LINKS]
        for path in (Path(base) / name for name in names):
            yield path.relative_to(folder).as_posix(), path


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")


class Sorted(NamedTuple):
    """The changed files by what they are to the tests.

    `tests` were there before, `new_tests` not; `harness` was there before, `steering` not. `written` holds files of
    which only the steering parts are put back, with their content then; `inner` are the tests that stand in the product
    (Rust), as files of their own under its path, which are put back alike.
    """

    tests: tuple[ChangedFile, ...] = ()
    new_tests: tuple[ChangedFile, ...] = ()
    harness: tuple[ChangedFile, ...] = ()
    steering: tuple[ChangedFile, ...] = ()
    product: tuple[ChangedFile, ...] = ()
    written: Mapping[str, bytes] = {}
    inner: tuple[ChangedFile, ...] = ()

    @property
    def steers(self) -> tuple[str, ...]:
        """What runs the tests and was changed."""
        parts = {*self.written} - {file.path for file in self.inner}
        return (*(file.path for file in (*self.harness, *self.steering)), *sorted(parts))

    @property
    def touched(self) -> bool:
        """Whether the task changed anything that was there and that the tests rest on, or steers them anew."""
        return bool(self.tests or self.harness or self.steering or self.written)


_ROLES = ("tests", "new_tests", "harness", "steering", "product")


def sort_changes(files: Iterable[ChangedFile], *, extra: Sequence[str] = ()) -> Sorted:
    """Tell tests, harness and product apart."""
    found: dict[str, list[ChangedFile]] = {name: [] for name in _ROLES}
    written: dict[str, bytes] = {}
    inner: list[ChangedFile] = []
    for file in files:
        if file.before == file.after and not file.too_large:
            continue
        if is_harness(file.path, extra):
            found["steering" if file.before is None else "harness"].append(file)
        elif is_test_file(file.path):
            found["new_tests" if file.before is None else "tests"].append(file)
        else:
            found["product"].append(file)
            if (content := _parts_put_back(file)) is not None:
                written[file.path] = content
                inner += _inner(file)
    return Sorted(**{name: tuple(files) for name, files in found.items()}, written=written, inner=tuple(inner))


def _inner(file: ChangedFile) -> Iterator[ChangedFile]:
    """The tests that a file of the product holds."""
    row = _row(file.path)
    if row is not None and row.get("tests"):
        before, after = (
            "".join(_blocks((side or b"").decode("utf-8", "replace"), row)) for side in (file.before, file.after)
        )
        yield file._replace(before=before.encode(), after=after.encode())


def _outer(file: ChangedFile) -> str:
    """What a file of the product held before, without the tests in it."""
    text, row = (file.before or b"").decode("utf-8", "replace"), _row(file.path)
    for block in _blocks(text, row) if row is not None and row.get("tests") else ():
        text = text.replace(block, "", 1)
    return text


def _row(path: str) -> Mapping[str, Any] | None:
    return next((row for row in rows()["parts"] if re.search(row["path"], path)), None)


def _parts_put_back(file: ChangedFile) -> bytes | None:
    """The file as the task left it with its steering parts as before; None where these are unchanged, or it is new."""
    row = _row(file.path)
    if row is None or file.after is None or file.too_large:
        return None
    before, after = ((side or b"").decode("utf-8", "replace") for side in (file.before, file.after))
    made = put_back(row, before, after)
    there = _blocks(before, row) if row.get("tests") else file.before or _blocks(after, row)
    return None if made == after or not there else made.encode()


def put_back(row: Mapping[str, Any], before: str, after: str) -> str:
    """`after` with the parts that `row` names as in `before`."""
    if "json" in row:
        old, new = json_object(before), json_object(after)
        parts = {key: old[key] for key in row["json"] if key in old}
        if parts == {key: new[key] for key in row["json"] if key in new}:
            return after
        order = [*(key for key in new if key not in row["json"] or key in old), *parts]
        return json.dumps({key: parts.get(key, new.get(key)) for key in dict.fromkeys(order)}, indent=2) + "\n"
    old_blocks, new_blocks = _blocks(before, row), _blocks(after, row)
    if [text.strip() for text in old_blocks] == [text.strip() for text in new_blocks]:
        return after
    for text in new_blocks:
        after = after.replace(text, "", 1)
    return after.rstrip("\n") + "\n" + "".join(text if text.endswith("\n") else text + "\n" for text in old_blocks)


def _blocks(text: str, row: Mapping[str, Any]) -> list[str]:
    """The sections or rules that steer, whole."""
    if "json" in row:
        return [key for key in row["json"] if key in json_object(text)]
    if "blocks" in row:
        return [match[0] for match in re.finditer("|".join(row["blocks"]), text, re.MULTILINE)]
    head, wanted = (_SECTION, row["sections"]) if "sections" in row else (_RULE, row["rules"])
    return [block for name, block in _cut(text, head) if re.search(wanted, name)]


def _cut(text: str, head: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    found = list(head.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    for match, end in zip(found, ends, strict=False):  # a text without any part has no end to tell
        yield match[1].strip().strip("\"'"), text[match.start() : end]


def expectations(tests: Iterable[ChangedFile]) -> Iterator[Expectation]:
    """Each place where a test's lines were changed, old and new; what was only added where nothing else was."""
    for file in tests:
        old, new = ((side or b"").decode("utf-8", "replace").splitlines() for side in (file.before, file.after))
        found = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        edits = [edit for edit in found if edit[0] not in {"equal", "insert"}]
        for _, first, last, start, end in edits or [edit for edit in found if edit[0] == "insert"]:
            lines = "\n".join(old[first:last][:_SHOWN]), "\n".join(new[start:end][:_SHOWN])
            yield Expectation(path=file.path, line=first + 1, old=lines[0], new=lines[1])
