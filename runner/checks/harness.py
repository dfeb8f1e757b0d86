"""Which changed files are tests, which steer the runner, and how both are put back. Pure; the rows are data.

`harness.toml` lists paths by ecosystem; a project adds its own with the setting `gate.harness`.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from runner.checks.clean_copy import USUAL_LINKS
from runner.checks.reports import CaseResult
from runner.gate.criterion import ChangedFile, Expectation
from runner.gate.evidence_criteria import tests_in
from runner.gate.file_roles import TEST_FILE, is_test_file
from runner.gate.languages import by_path
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


def is_harness(path: str, extra: Sequence[str] = ()) -> bool:
    """Whether the file steers the runner; `extra` are patterns of the project's own."""
    return _paths().search(path) is not None or any(fnmatch(path, pattern) for pattern in extra)


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
    for told, path in _files_of(folder) if left else ():
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


def outer_of(file: ChangedFile) -> str:
    """What a file of the product held before, without the tests in it."""
    text, row = (file.before or b"").decode("utf-8", "replace"), _row(file.path)
    for block in _blocks(text, row) if row is not None and row.get("tests") else ():
        text = text.replace(block, "", 1)
    return text


def steers_in_part(path: str) -> bool:
    """Whether a file says how the project is built, and in some of its parts how its tests are run."""
    row = _row(path)
    return row is not None and not row.get("tests")


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
    if "rules" in row:
        old_blocks, new_blocks = _rules(before, after, row["rules"])
    else:
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


def _rules(before: str, after: str, wanted: str) -> tuple[list[str], list[str]]:
    """The rules of two makefiles that steer: by their names, and those that build tests for them.

    One of these that only gained files which it builds from is left as it is.
    """
    old, new = list(_cut(before, _RULE)), list(_cut(after, _RULE))
    steering = {name for name, _ in (*old, *new) if re.search(wanted, name)}
    waiting = set(steering)
    while waiting:
        rests_on = {word for name, rule in old if name in waiting for word in rule.partition("\n")[0].split()}
        waiting = {name for name, rule in old if name in rests_on and any(map(is_test_file, rule.split()))} - steering
        steering |= waiting
    then, now = ({name: Counter(rule.split()) for name, rule in rules} for rules in (old, new))
    grown = {
        name
        for name in steering & then.keys() & now.keys()
        if not re.search(wanted, name)
        and not then[name] - now[name]
        and all(_BUILT_FROM.fullmatch(word) and not is_test_file(word) for word in now[name] - then[name])
    }
    left, right = ([rule for name, rule in rules if name in steering - grown] for rules in (old, new))
    return left, right


_BUILT_FROM = re.compile(r"[\w./]+\.\w+")


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
