"""Which changed lines no test reaches, by a coverage report (lcov, Cobertura's XML), and which tests reach a file."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, iterparse

from runner.gate.criterion import ChangedFile
from runner.gate.line_map import line_map
from runner.processes.command import ProcessResult
from runner.project_settings import json_object

_MOST_BYTES: Final = 64 << 20
Hits = Mapping[str, Mapping[int, int]]
"""How often each line that can be run was, by path."""


async def unreached(
    report: str, workspace: Path, changed: Sequence[ChangedFile], run: Callable[[str], Awaitable[ProcessResult]]
) -> tuple[str, ...]:
    """`path:12-14` for each run of changed lines that no test reaches; one line of why where the report says nothing.

    `report` is a file in the workspace, else a command that prints one, started by `run`.
    """
    data = await asyncio.to_thread(_read, workspace / report)
    if data is None:
        ended = await run(report)
        data = ended.output
        if ended.exit_code != 0:
            return (f"not known: {report!r} is no file and ends with {ended.exit_code}",)
    hits = coverage_of(data)
    if not hits:
        return (f"not known: {report!r} gives neither lcov nor Cobertura's XML",)
    return await asyncio.to_thread(unreached_lines, hits, changed)


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except (OSError, ValueError):  # ValueError: a command that holds a NUL
        return None


def coverage_of(data: bytes) -> Hits:
    """The report's lines; nothing where it cannot be read."""
    text = data.lstrip()
    return _cobertura(text) if text.startswith(b"<") else _lcov(data.decode("utf-8", "replace"))


def _lcov(text: str) -> Hits:
    found: dict[str, dict[int, int]] = {}
    path = ""
    for line in text.splitlines():
        key, _, value = line.strip().partition(":")
        if key == "SF":
            path = value
        elif key == "DA" and path:
            number, _, rest = value.partition(",")
            _add(found, path, number, rest.partition(",")[0])
    return found


def _cobertura(data: bytes) -> Hits:
    found: dict[str, dict[int, int]] = {}
    path = ""
    try:
        # Writers name the document type; it is neither fetched nor expanded.
        for event, element in iterparse(io.BytesIO(data), events=("start", "end")):
            if event == "start" and element.tag == "class":
                path = element.get("filename") or ""
            elif event == "end" and element.tag == "line" and path:
                _add(found, path, element.get("number") or "", element.get("hits") or "")
                element.clear()
    except (ParseError, DefusedXmlException, ValueError, LookupError):
        return {}  # half a report would call lines unreached that are not
    return found


def _add(found: dict[str, dict[int, int]], path: str, number: str, hits: str) -> None:
    if number.isdigit() and hits.isdigit():
        lines = found.setdefault(path, {})
        lines[int(number)] = max(lines.get(int(number), 0), int(hits))


def unreached_lines(hits: Hits, changed: Sequence[ChangedFile]) -> tuple[str, ...]:
    """The changed lines that the report knows and nothing ran, as `path:first-last`."""
    found: list[str] = []
    for path, lines in line_map(changed).items():
        known = _of(hits, path)
        found += (f"{path}:{run}" for run in _runs(sorted(line for line in lines.added if known.get(line) == 0)))
    return tuple(found)


def _of(hits: Hits, path: str) -> Mapping[int, int]:
    """The lines of the file: reports name it whole, from the source's root, or with folders above the workspace."""
    wanted = PurePosixPath(path).parts
    for name, lines in hits.items():
        parts = PurePosixPath(name).parts
        if parts[-len(wanted) :] == wanted or wanted[-len(parts) :] == parts:
            return lines
    return {}


def _runs(numbers: Sequence[int]) -> Iterator[str]:
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"


_TOLD_BY_CONTEXT: Final = """
SELECT DISTINCT file.path, context.context FROM context
JOIN (SELECT file_id, context_id FROM line_bits UNION SELECT file_id, context_id FROM arc) AS ran
ON ran.context_id = context.id JOIN file ON file.id = ran.file_id WHERE context.context != ''"""
_MOST_PROCESSES: Final = 2_000
# Files that are called by their folder's name; Go's tests call their package.
_BY_FOLDER: Final = re.compile(r"(?:^|/)(?:__init__|index|mod|lib|main)\.\w+$|\.go$")


def reached_by(tree: Path, seen_as: Path, list_tests: Callable[[], Collection[str]]) -> dict[str, list[str]]:
    """By path, the listed tests that ran it, where a run left in `tree` what says so.

    That is data of coverage.py with contexts, or V8's of each process as c8 keeps it. Go's profiles name no test.
    """
    ran = _by_contexts(tree / ".coverage", seen_as)
    processes = _by_processes(tree / "coverage" / "tmp", seen_as)
    tests = list_tests() if ran or processes else ()
    own = [[path for path in files if path in tests] for files in processes]
    if all(len(one) < 2 for one in own):  # several tests of one process cannot be told apart
        ran += ((path, one[0]) for files, one in zip(processes, own, strict=True) if one for path in files)
    by_module = {path.rpartition(".")[0].replace("/", "."): path for path in tests}
    found: dict[str, list[str]] = {}
    for path, context in ran:
        file = context.partition("::")[0]  # tests/test_a.py::test_x|run, or tests.test_a.Case.test_x
        names = (file.rsplit(".", parts)[0] for parts in range(1, 4))
        test = file if file in tests else next((by_module[name] for name in names if name in by_module), None)
        listed = found.setdefault(path, [])
        if test is not None and test not in listed:
            listed.append(test)
    return found


def _by_contexts(place: Path, seen_as: Path) -> list[tuple[str, str]]:
    if not place.is_file() or place.is_symlink():
        return []
    import sqlite3  # 8 ms, where there is such data

    try:
        with sqlite3.connect(f"file:{place}?mode=ro&immutable=1", uri=True) as data:
            rows = data.execute(_TOLD_BY_CONTEXT).fetchall()
    except sqlite3.Error:
        return []
    return [(os.path.relpath(path, seen_as), context) for path, context in rows]


def _by_processes(folder: Path, seen_as: Path) -> list[list[str]]:
    """The files below the workspace that each process loaded; nothing where one cannot be read."""
    inside = seen_as.as_uri() + "/"
    found = []
    for place in sorted(folder.glob("coverage-*.json"))[:_MOST_PROCESSES]:
        try:
            told = [] if place.is_symlink() else json_object(place.read_text("utf-8"))["result"]
            urls = [str(one["url"]) for one in told]
        except (OSError, UnicodeDecodeError, LookupError, TypeError):
            return []
        found.append([unquote(url.removeprefix(inside)) for url in urls if url.startswith(inside)])
    return found


def files_reaching(changed: Sequence[str], tests: Mapping[str, str], reached: Mapping[str, Sequence[str]]) -> list[str]:
    """The `tests` (path to text) that ran a changed file, as `reached` tells, else those that call it by its name."""
    found: dict[str, None] = {}
    for path in changed:
        place = PurePosixPath(path)
        name = re.escape((_BY_FOLDER.search(path) and place.parent.name) or place.stem)
        called = re.compile(rf"(?<![A-Za-z0-9]){name}(?![A-Za-z0-9])")
        ran = reached[path] if path in reached else [test for test, text in tests.items() if called.search(text)]
        found.update(dict.fromkeys(ran))
    return list(found)
