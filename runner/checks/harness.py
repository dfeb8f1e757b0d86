"""Which changed files are tests, which steer the runner, and how both are put back. Pure; the rows are data.

`harness.toml` lists paths by ecosystem; a project adds its own with the setting `gate.harness`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from runner.checks.mutants import targets_of
from runner.checks.project_settings import json_object
from runner.checks.reports import CaseResult
from runner.gate.criterion import ChangedFile, Place, at
from runner.gate.evidence_criteria import tests_in
from runner.gate.file_roles import is_test_file

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
            if line not in known and _looks().search(line):
                advice = "the product must do the same whether or not tests run"
                yield at("bought", "code looks for the tests", path=file.path, line=number, suggestion=advice)


def concerns(case: CaseResult, *, request: str, product: Sequence[ChangedFile], tests: Mapping[str, str]) -> bool:
    """Whether a failing test is about this task: the request names it, or what it tests was changed.

    Changed is what its failure passed through, or a function that its own lines name; of a file whose functions cannot
    be told, the file's name. `tests` are the files with tests and their text before the task.
    """
    name = case.short
    wanted = {name} if re.search(r"[^a-z]", name) else set()  # one plain word stands in a request by chance
    if any(_names(word, request) for word in wanted):
        return True
    told = case.trace + case.message
    if any(re.search(rf"(?<![\w.-]){re.escape(file.path)}[:\"]", told) for file in product):
        return True
    targets = targets_of(product)
    known = {target.path for target in targets}
    changed = {target.function.rpartition(".")[2] for target in targets}
    changed |= {PurePosixPath(file.path).stem for file in product if file.path not in known}
    text = _text_of(case, tests)
    return any(_names(word, text) for word in changed)


def _names(word: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def _text_of(case: CaseResult, tests: Mapping[str, str]) -> str:
    """The test's own lines; those of its whole file where the report names no test of it."""
    place = case.file or case.id.partition("::")[0]
    stem = place.replace(".", "/") if "/" not in place else place.rpartition(".")[0]
    own = [text for path, text in tests.items() if path == place or path.rpartition(".")[0].endswith(stem)]
    short = case.short.partition("/")[0]
    for text in (*own, *tests.values()):
        if (found := tests_in(text).get(case.short) or tests_in(text).get(short)) is not None:
            return found
    return "\n".join(own)


class Sorted(NamedTuple):
    """The changed files by what they are to the tests.

    `tests` were there before, `new_tests` not; `harness` was there before, `steering` not. `written` holds files of
    which only the steering parts are put back, with their content then.
    """

    tests: tuple[ChangedFile, ...] = ()
    new_tests: tuple[ChangedFile, ...] = ()
    harness: tuple[ChangedFile, ...] = ()
    steering: tuple[ChangedFile, ...] = ()
    product: tuple[ChangedFile, ...] = ()
    written: Mapping[str, bytes] = {}

    @property
    def touched(self) -> bool:
        """Whether the task changed anything that was there and that the tests rest on, or steers them anew."""
        return bool(self.tests or self.harness or self.steering or self.written)


_ROLES = ("tests", "new_tests", "harness", "steering", "product")


def sort_changes(files: Iterable[ChangedFile], *, extra: Sequence[str] = ()) -> Sorted:
    """Tell tests, harness and product apart."""
    found: dict[str, list[ChangedFile]] = {name: [] for name in _ROLES}
    written: dict[str, bytes] = {}
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
    return Sorted(**{name: tuple(files) for name, files in found.items()}, written=written)


def _parts_put_back(file: ChangedFile) -> bytes | None:
    """The file as the task left it with its steering parts as before; None where these are unchanged, or it is new."""
    row = next((row for row in rows()["parts"] if re.search(row["path"], file.path)), None)
    if row is None or file.after is None or file.too_large:
        return None
    before, after = ((side or b"").decode("utf-8", "replace") for side in (file.before, file.after))
    made = put_back(row, before, after)
    return None if made == after or not (file.before or _blocks(after, row)) else made.encode()


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
    head, wanted = (_SECTION, row["sections"]) if "sections" in row else (_RULE, row["rules"])
    return [block for name, block in _cut(text, head) if re.search(wanted, name)]


def _cut(text: str, head: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    found = list(head.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    for match, end in zip(found, ends, strict=True):
        yield match[1].strip().strip("\"'"), text[match.start() : end]
