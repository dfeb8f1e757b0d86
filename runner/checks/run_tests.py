"""Runs a test command so that its runners report, and reads what they left."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.checks.command_line import plan_launch
from runner.checks.report_formats import read_reports, shown_output
from runner.checks.reports import CommandRun
from runner.processes.command import ProcessResult
from runner.project_settings import package_scripts

KEEP_BYTES = 32 << 20
"""How much of its output a run must keep: some runners report there alone."""
_MOST_BYTES = 64 << 20
_MOST_FILES = 500
_TAIL = 8192

Start = Callable[[Sequence[str], Mapping[str, str]], Awaitable[ProcessResult]]
"""Runs words in an environment, to the end or a limit; keeps `KEEP_BYTES` of the output."""

# Where runners that take no such argument leave JUnit reports, in the working folder.
_REPORTS_LEFT = (
    "junit.xml",
    "reports/*.xml",
    "test-results/*.xml",
    "build/test-results/*/*.xml",
    "target/*-reports/*.xml",
    "*/target/*-reports/*.xml",
    "*/build/test-results/*/*.xml",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPlace:
    """Where a test command runs: `tree` on the disk, `seen_as` by its programs, `reports` an empty folder outside."""

    __test__ = False

    tree: Path
    seen_as: Path
    reports: Path


async def run_tests(
    command: str, *, place: TestPlace, start: Start, environment: Mapping[str, str], package: bytes | None = None
) -> CommandRun:
    """Run `command` once.

    `environment` is what it would get; `package` the package.json in force, by default the tree's own.
    """
    scripts = await asyncio.to_thread(scripts_of, place.tree, package)
    launch = plan_launch(command, report=str(place.reports / "report"), bash=shutil.which("bash"), scripts=scripts)
    before = await asyncio.to_thread(_left, place.tree)
    ended = await start(launch.argv, launch.environment(environment))
    files = await asyncio.to_thread(_files, place, before)
    output = ended.output if launch.told_by_output or not files else b""
    reading, report = read_reports(files, output=output, root=str(place.seen_as))
    return CommandRun(
        command=command,
        exit_code=ended.exit_code,
        reading=reading,
        report=report,
        duration_s=ended.duration_s,
        timed_out=ended.timed_out,
        output_tail=shown_output(ended.output)[-_TAIL:],
        doubt=launch.doubt,
        runners=launch.runners,
    )


def scripts_of(tree: Path, package: bytes | None = None) -> dict[str, str]:
    """The scripts of the tree's package.json; `package` is read in its place."""
    text = package if package is not None else _read(tree / "package.json")
    return package_scripts(text or b"")


def _left(tree: Path) -> dict[Path, int]:
    """The reports that lie in the tree, and when they were written."""
    found = {}
    for pattern in _REPORTS_LEFT:
        for path in tree.glob(pattern):
            try:
                found[path] = path.lstat().st_mtime_ns
            except OSError:
                continue
            if len(found) >= _MOST_FILES:
                return found
    return found


def _files(place: TestPlace, before: Mapping[Path, int]) -> dict[str, bytes]:
    """What this run wrote; where runners reported to our folder, what lies in the tree is not looked at."""
    own = sorted(_inside(place.reports))[:_MOST_FILES]
    found = own or [path for path, written in _left(place.tree).items() if before.get(path) != written]
    return {str(path): data for path in found if (data := _read(path)) is not None}


def _inside(folder: Path) -> Iterator[Path]:
    for base, _, names in os.walk(folder):
        yield from (Path(base) / name for name in names)


def _read(path: Path) -> bytes | None:
    """The bytes of a regular file; a link, a pipe or a device that a test made is none."""
    try:
        with open(path, "rb", opener=_no_link) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(_MOST_BYTES + 1) if regular else None
    except OSError:
        return None


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
