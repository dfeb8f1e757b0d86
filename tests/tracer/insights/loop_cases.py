"""Labelled tool sequences: what a person reading them calls a loop, and what they do not, hard cases on both sides.

One call a line: `tool | arguments | status | output`; `-` stands for ok without output. A loop is labelled by its kind
and by the numbers (from 1) of the calls in it.
"""

from __future__ import annotations

from typing import NamedTuple

from tracer.insights.agentic_trace import Step

__all__ = ["CASES", "Case"]


class Case(NamedTuple):
    """A sequence of calls and the loops in it: (kind, first call, last call)."""

    name: str
    calls: str
    loops: tuple[tuple[str, int, int], ...] = ()

    def steps(self) -> list[Step]:
        """The calls as steps of a trace whose meta line is line 0."""
        steps = []
        for number, line in enumerate((line for line in self.calls.splitlines() if line.strip()), 1):
            tool, args, status, output = (*(part.strip() for part in line.split("|")), "", "", "")[:4]
            ok = {"-": "ok", "": "ok"}.get(status, status)
            steps.append(Step(number, "tool", number, tool, args, ok, output.replace("\\n", "\n")))
        return steps


_EDIT = "Edit | src/a.py (1 replacements) | ok |"
_FAIL = "Bash | python -m pytest -q | error | E assert 3 == 4\\n1 failed in 0.{}s"

CASES: tuple[Case, ...] = (
    Case("reads one file three times", "Read | a.py (9 lines) | ok |\n" * 3, (("repeat", 1, 3),)),
    Case(
        "runs a failing command again and again without a change",
        "Bash | make build | error | cc: not found\n" * 4,
        (("repeat", 1, 4),),
    ),
    Case(
        "times and addresses differ, nothing else",
        "\n".join(f"Bash | ./run | error | at 0x7f{n}a: failed after {n}.{n}s, pid {n}" for n in range(3)),
        (("repeat", 1, 3),),
    ),
    Case(
        "the same test written three ways",
        "Bash | cd $PROJECT_ROOT && pytest tests | error | 1 failed\nBash | pytest  tests 2>&1 | error | 1 failed\n"
        "Bash | pytest tests | error | 1 failed",
        (("repeat", 1, 3),),
    ),
    Case(
        "greps the same thing between other looks",
        "\n".join(
            f"Grep | pattern=retry | ok | a.py:3\nRead | f{n}.py | ok |\nGlob | pattern=*.{n} | ok | {n}"
            for n in range(4)
        ),
        (("repeat", 1, 10),),
    ),
    Case("asks for a missing file five times", "Read | none.py | error | no such file\n" * 5, (("repeat", 1, 5),)),
    Case(
        "a list of the folder, again and again, in between single reads",
        "\n".join(f"LS | . | ok | a b c\nRead | {n}.py | ok | {n}" for n in range(5)),
        (("repeat", 1, 9),),
    ),
    Case(
        "edits and fails three times",
        "\n".join(f"{_EDIT}\n{_FAIL.format(n)}" for n in range(3)),
        (("edit-fail", 2, 6),),
    ),
    Case(
        "edits, reads, and fails with another error each time",
        "\n".join(f"{_EDIT}\nRead | a.py | ok | {n}\nBash | node app.js | error | Error number {n}" for n in range(4)),
        (("edit-fail", 3, 12),),
    ),
    Case(
        "an edit that does not apply, tried four times",
        "\n".join(f"Edit | src/a.py ({n} replacements) | error | string not found" for n in range(4)),
        (("edit-fail", 1, 4),),
    ),
    Case(
        "writes the whole file anew each time and the build fails",
        "\n".join(
            f"Write | m.go ({n} lines) | ok |\nBash | go build ./... | error | undefined: x{n}" for n in range(3)
        ),
        (("edit-fail", 2, 6),),
    ),
    Case(
        "three failing rounds, then it passes",
        "\n".join(f"{_EDIT}\n{_FAIL.format(n)}" for n in range(3))
        + f"\n{_EDIT}\nBash | python -m pytest -q | ok | 1 passed",
        (("edit-fail", 2, 6),),
    ),
    Case(
        "patches and type errors, round after round",
        "\n".join(f"apply_patch | src/x.ts | ok |\nshell | npx tsc --noEmit | error | TS2322 at {n}" for n in range(5)),
        (("edit-fail", 2, 10),),
    ),
    Case(
        "two loops in one run",
        "Read | a.py | ok |\n" * 3 + "Bash | ls x | error | no\n" * 3,
        (("repeat", 1, 3), ("repeat", 4, 6)),
    ),
    Case(
        "a to-do list written without a change",
        "TodoWrite | todos=[fix] | ok |\n" * 4,
        (("repeat", 1, 4),),
    ),
    Case(
        "searches the web for one thing with one answer",
        "web_search | query=pydantic v2 validators | ok | see docs\n" * 3,
        (("repeat", 1, 3),),
    ),
    # Loops that only sense betrays: equal intent, other words. The definition does not reach them.
    Case(
        "looks for one function by ever other words",
        "\n".join(
            f"Grep | pattern={word} | ok | no match" for word in ("retry", "retries", "re_try", "do_retry", "again")
        ),
        (("repeat", 1, 5),),
    ),
    Case(
        "installs the same package in ever other ways",
        "\n".join(
            f"Bash | {how} foo | error | not found"
            for how in ("pip install", "pip3 install", "python -m pip install", "uv add")
        ),
        (("repeat", 1, 4),),
    ),
    # No loops.
    Case("reads three files", "\n".join(f"Read | {n}.py | ok |" for n in "abc")),
    Case("reads a file twice", "Read | a.py | ok |\n" * 2),
    Case("pages through a file", "\n".join(f"Read | a.py offset={n}00 | ok | {n}" for n in range(5))),
    Case(
        "tests pass after each of three edits",
        "\n".join(
            f"Edit | {n}.py (1 replacements) | ok |\nBash | pytest -q | ok | 5 passed in 0.{n}s" for n in range(4)
        ),
    ),
    Case(
        "reads a file again after each change to it",
        "\n".join(f"{_EDIT}\nRead | src/a.py (30 lines) | ok |" for _ in range(4)),
    ),
    Case("edits one file in five places", f"{_EDIT}\n" * 5),
    Case(
        "a failure, an edit, and it passes", f"{_FAIL.format(1)}\n{_EDIT}\nBash | python -m pytest -q | ok | 1 passed"
    ),
    Case("two failing rounds", "\n".join(f"{_EDIT}\n{_FAIL.format(n)}" for n in range(2))),
    Case(
        "fewer failures each round",
        "\n".join(f"{_EDIT}\nBash | pytest -q | error | {n} failed, 9 passed in 1.0s" for n in (7, 5, 2)),
    ),
    Case(
        "other commands fail after other edits",
        "\n".join(f"Edit | {n}.py (1 replacements) | ok |\nBash | python {n}.py | error | E{n}" for n in "abcd"),
    ),
    Case(
        "the state looked at three times far apart",
        "\n".join(
            "Bash | git status --short | ok | M a.py\n"
            + "\n".join(f"Read | {k}{n}.py | ok | {k}{n}" for n in range(12))
            for k in "xyz"
        ),
    ),
    Case("a growing answer", "\n".join(f"Bash | wc -l out.log | ok | {n * 10} out.log" for n in range(1, 6))),
    Case("steps of one script", "\n".join(f"Bash | ./migrate {n} | ok | done" for n in range(5))),
    Case(
        "an agent commits after each piece of work",
        "\n".join(
            f"Edit | {n}.py (1 replacements) | ok |\nBash | git add -A && git commit -m step | ok |" for n in "abc"
        ),
    ),
    Case(
        "the build fails between, but for another file each time",
        "\n".join(f"Write | {n}.c (9 lines) | ok |\nBash | cc -c {n}.c | error | warning" for n in "abc"),
    ),
    Case(
        "a failing edit, then the right one",
        "Edit | a.py (1 replacements) | error | not found\nRead | a.py | ok |\n" + _EDIT,
    ),
    Case("lists three folders", "\n".join(f"LS | {n} | ok | a b" for n in ("src", "tests", "docs"))),
    # Looks like a loop by the definition, and a person knows better.
    Case("waits for a server", "Bash | curl -s localhost:8000/health | error | connection refused\n" * 4),
)
