"""`python -m benchmarks.criteria.speed [MB]`: judging source against parsing the same bytes with the same grammars.

The Python sources are the standard library's own; the other languages are the corpus cases that parse, repeated.
Parsing means the tree alone; for Python, whose files are judged by the compiler, `ast.parse` is part of it.
"""

from __future__ import annotations

import ast
import contextlib
import sys
import sysconfig
import time
import warnings
from pathlib import Path

from benchmarks.criteria.corpus import load
from runner.gate.code_criteria import review_file
from runner.gate.criterion import ChangedFile
from runner.gate.languages import by_path
from runner.gate.source import parse

MEGABYTE = 1024 * 1024


def python_sources(limit: int) -> list[ChangedFile]:
    """Files of the standard library, `limit` bytes in all."""
    files: list[ChangedFile] = []
    size = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if size >= limit or "site-packages" in path.parts or "lib2to3" in path.parts or "test" in path.parts:
            continue
        text = path.read_bytes()
        size += len(text)
        files.append(ChangedFile(path=f"src/{path.name}", before=None, after=text))
    return files


def other_sources(limit: int) -> list[ChangedFile]:
    """The corpus's own files of languages with a grammar, each repeated to about 20 kB, `limit` bytes in all."""
    files: list[ChangedFile] = []
    size = 0
    cases = [file for half in ("test", "dev") for case in load(half) for file in case.evidence.files]
    while size < limit:
        for file in cases:
            language = by_path(file.path)
            if language is None or not language.module or language.data or language.name == "python" or not file.after:
                continue
            text = file.after * max(1, 20_000 // len(file.after))
            size += len(text)
            files.append(ChangedFile(path=file.path, before=None, after=text))
    return files


def parse_alone(files: list[ChangedFile]) -> float:
    """Seconds of processor time to parse, nothing else."""
    started = time.process_time()
    for file in files:
        language = by_path(file.path)
        if language is not None and language.module and file.after is not None:
            parse(language, file.after)
            if language.name == "python":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    with contextlib.suppress(SyntaxError, ValueError):  # a file of a task may be of Python 2
                        ast.parse(file.after)
    return time.process_time() - started


def judge(files: list[ChangedFile]) -> float:
    """Seconds to judge the files by Q2 to Q4."""
    started = time.process_time()
    for file in files:
        review_file(file)
    return time.process_time() - started


def main() -> int:
    """Print one line for each source."""
    limit = int(sys.argv[1]) * MEGABYTE if len(sys.argv) > 1 else 5 * MEGABYTE
    for name, files in (("python", python_sources(limit)), ("other languages", other_sources(limit))):
        size = sum(len(file.after or b"") for file in files) / MEGABYTE
        alone, judged = parse_alone(files), judge(files)
        print(
            f"{name}: {size:.1f} MB, parse {alone:.1f} s, judge {judged:.1f} s, {judged / alone:.1f} times", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
