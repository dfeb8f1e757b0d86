"""A second labelled set, written without a look at the detector's code and before its first run on it.

Each case is what an agent called, with native arguments and answers, and the loops a person sees in it: (kind, first
call, last call), counted from 1. The writer knew the definition in the docs, no more. `repeat`: asking the same thing
again with nothing changed that could change the answer. `edit-fail`: changing, and the same check fails for the same
reason, without getting nearer. Labels are a person's view also where the record cannot show the reason.

Do not amend a case to please the detector: add new ones elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["CASES", "Blind", "Call"]


class Call(NamedTuple):
    """One tool call with its answer; `file` is the content a read returned, with its first line's number."""

    tool: str
    arguments: dict[str, Any]
    output: str = ""
    failed: bool = False
    file: tuple[str, int, int] | None = None


class Blind(NamedTuple):
    """A sequence and the loops in it."""

    name: str
    calls: list[Call]
    loops: tuple[tuple[str, int, int], ...] = ()


def _read(path: str, body: str = "", *, offset: int = 0, limit: int = 0, total: int = 0) -> Call:
    text = body or "".join(f"line {number} of {path}\n" for number in range(1, 41))
    arguments: dict[str, Any] = {"file_path": f"/home/dev/proj/{path}"}
    if offset:
        arguments["offset"] = offset
    if limit:
        arguments["limit"] = limit
        text = "".join(f"line {number} of {path}\n" for number in range(offset or 1, (offset or 1) + limit))
    count = text.count("\n")
    return Call("Read", arguments, "", file=(text, offset or 1, total or (offset or 1) - 1 + count))


def _edit(path: str, old: str, new: str, *, error: str = "") -> Call:
    arguments = {"file_path": f"/home/dev/proj/{path}", "old_string": old, "new_string": new}
    return Call("Edit", arguments, error or f"The file /home/dev/proj/{path} has been updated.", failed=bool(error))


def _write(path: str, lines: int) -> Call:
    content = "".join(f"x{number} = {number}\n" for number in range(lines))
    return Call("Write", {"file_path": f"/home/dev/proj/{path}", "content": content}, "File created successfully")


def _run(command: str, output: str = "", *, failed: bool = False) -> Call:
    return Call("Bash", {"command": command, "description": "Run"}, output, failed=failed)


def _bad(command: str, output: str) -> Call:
    return _run(command, f"Exit code 1\n{output}", failed=True)


def _grep(pattern: str, output: str, **more: str) -> Call:
    return Call("Grep", {"pattern": pattern, "output_mode": "content", **more}, output)


def _glob(pattern: str, output: str) -> Call:
    return Call("Glob", {"pattern": pattern}, output)


def _use(tool: str, output: str = "", *, failed: bool = False, **arguments: Any) -> Call:
    return Call(tool, arguments, output, failed=failed)


_NOT_FOUND = "String to replace not found in file."
_NOT_READ = "File has not been read yet. Read it first before writing to it."


def _pytest(failure: str, count: int = 1, passed: int = 4, seconds: float = 0.3) -> str:
    return (
        f"F...{'.' * passed}\n=== FAILURES ===\nE   {failure}\n"
        f"FAILED tests/test_app.py::test_total - {failure}\n{count} failed, {passed} passed in {seconds}s"
    )


LOOPS: list[Blind] = [
    Blind(
        "opens one file four times with nothing in between",
        [_read("src/config.py"), _read("src/config.py"), _read("src/config.py"), _read("src/config.py")],
        (("repeat", 1, 4),),
    ),
    Blind(
        "comes back to the same file between looks at others",
        [
            _read("src/router.py"),
            _grep("def route", "src/router.py:12:def route(path):"),
            _read("src/router.py"),
            _glob("src/**/*.py", "src/router.py\nsrc/app.py"),
            _read("src/app.py"),
            _read("src/router.py"),
            _run("ls src", "app.py\nrouter.py"),
            _read("src/router.py"),
        ],
        (("repeat", 1, 8),),
    ),
    Blind(
        "runs a failing test again and again, hoping",
        [_bad("pytest -q", _pytest("assert 3 == 4", seconds=0.31 + n / 100)) for n in range(4)],
        (("repeat", 1, 4),),
    ),
    Blind(
        "runs the failing test with ever other flags, changes nothing",
        [
            _bad("pytest -q", _pytest("assert 3 == 4")),
            _bad("pytest -x -q", _pytest("assert 3 == 4")),
            _bad("pytest -v", _pytest("assert 3 == 4")),
            _bad("python -m pytest -q", _pytest("assert 3 == 4")),
            _bad("pytest -q --tb=short", _pytest("assert 3 == 4")),
        ],
        (("repeat", 1, 5),),
    ),
    Blind(
        "asks git for its status between doing nothing",
        [_run("git status", "On branch main\nnothing to commit, working tree clean") for _ in range(3)],
        (("repeat", 1, 3),),
    ),
    Blind(
        "git status and git diff in turns",
        [
            call
            for _ in range(3)
            for call in (
                _run("git status --short", " M src/app.py"),
                _run("git diff", "-    return a\n+    return b"),
            )
        ],
        (("repeat", 1, 6),),
    ),
    Blind(
        "installs a package that is not to be had",
        [
            _bad("pip install fastmathx", "ERROR: No matching distribution found for fastmathx"),
            _bad("pip install fastmathx", "ERROR: No matching distribution found for fastmathx"),
            _bad("pip install --upgrade pip", "ERROR: Could not find a version that satisfies the requirement pip"),
            _bad("pip install fastmathx", "ERROR: No matching distribution found for fastmathx"),
        ],
        (("repeat", 1, 4),),
    ),
    Blind(
        "the same missing command, three times",
        [
            _bad("make lint", "make: ruff: No such file or directory\nmake: *** [Makefile:4: lint] Error 127"),
            _bad("make lint", "make: ruff: No such file or directory\nmake: *** [Makefile:4: lint] Error 127"),
            _bad("make lint 2>&1", "make: ruff: No such file or directory\nmake: *** [Makefile:4: lint] Error 127"),
        ],
        (("repeat", 1, 3),),
    ),
    Blind(
        "edits a string that is not in the file",
        [_edit("src/app.py", "def total(x):", f"def total(x, y={n}):", error=_NOT_FOUND) for n in range(3)],
        (("edit-fail", 1, 3),),
    ),
    Blind(
        "edits a string that is not there, reading in between",
        [
            _edit("src/app.py", "return x+1", "return x", error=_NOT_FOUND),
            _read("src/app.py"),
            _edit("src/app.py", "return  x + 1", "return x", error=_NOT_FOUND),
            _read("src/app.py"),
            _edit("src/app.py", "    return x +1", "return x", error=_NOT_FOUND),
            _read("src/app.py"),
            _edit("src/app.py", "\treturn x + 1", "return x", error=_NOT_FOUND),
        ],
        (("edit-fail", 1, 7),),
    ),
    Blind(
        "three edits, the same assertion each time",
        [
            call
            for n in range(3)
            for call in (_edit("src/app.py", f"a{n}", f"b{n}"), _bad("pytest -q", _pytest("assert 3 == 4")))
        ],
        (("edit-fail", 1, 6),),
    ),
    Blind(
        "five edits in two files, the same assertion each time",
        [
            _bad("pytest -q", _pytest("KeyError: 'total'")),
            _edit("src/app.py", "a", "b"),
            _bad("pytest -q", _pytest("KeyError: 'total'")),
            _edit("src/model.py", "a", "b"),
            _bad("pytest -q", _pytest("KeyError: 'total'")),
            _edit("src/app.py", "b", "c"),
            _read("src/app.py"),
            _bad("pytest -q", _pytest("KeyError: 'total'")),
            _edit("src/model.py", "b", "c"),
            _bad("pytest -q", _pytest("KeyError: 'total'")),
        ],
        (("edit-fail", 1, 10),),
    ),
    Blind(
        "switches between two fixes that undo each other",
        [
            call
            for n in range(4)
            for call in (
                _edit("src/app.py", "x > 0" if n % 2 else "x >= 0", "x >= 0" if n % 2 else "x > 0"),
                _bad("pytest -q", _pytest("assert 0 == 1" if n % 2 else "assert 1 == 0")),
            )
        ],
        (("edit-fail", 1, 8),),
    ),
    Blind(
        "rewrites the whole file, the build fails the same way",
        [
            call
            for n in range(3)
            for call in (
                _write("src/main.rs", 30 + n),
                _bad("cargo build", "error[E0502]: cannot borrow `buf` as mutable\n --> src/main.rs:14:9"),
            )
        ],
        (("edit-fail", 1, 6),),
    ),
    Blind(
        "line numbers wander while the compiler's complaint stays",
        [
            call
            for n in range(4)
            for call in (
                _edit("src/index.ts", f"let v{n}", f"const v{n}"),
                _bad("npx tsc --noEmit", f"src/index.ts({20 + n},7): error TS2345: Argument of type 'string'"),
            )
        ],
        (("edit-fail", 1, 8),),
    ),
    Blind(
        "searches one name with the same words",
        [_grep("retry_policy", "No matches found") for _ in range(3)],
        (("repeat", 1, 3),),
    ),
    Blind(
        "searches one name with three programs",
        [
            _grep("retry_policy", "No matches found"),
            _bad("grep -rn retry_policy .", ""),
            _bad("rg retry_policy", ""),
            _bad("git grep retry_policy", ""),
        ],
        (("repeat", 1, 4),),
    ),
    Blind(
        "lists a folder in ever other ways",
        [
            _run("ls", "README.md\nsrc\ntests"),
            _run("ls -la", "README.md\nsrc\ntests"),
            _run("ls .", "README.md\nsrc\ntests"),
            _run("ls -1", "README.md\nsrc\ntests"),
        ],
        (("repeat", 1, 4),),
    ),
    Blind(
        "writes the same to-do list again and again",
        [_use("TodoWrite", "Todos have been modified", todos=[{"content": "fix", "status": "pending"}])] * 4,
        (("repeat", 1, 4),),
    ),
    Blind(
        "fetches a page that is not there",
        [
            _use("WebFetch", "Request failed with status code 404", failed=True, url="https://x.test/api", prompt="p")
            for _ in range(3)
        ],
        (("repeat", 1, 3),),
    ),
    Blind(
        "starts a server whose port is taken",
        [
            _bad("npm run dev", "Error: listen EADDRINUSE: address already in use :::3000"),
            _bad("npm run dev", "Error: listen EADDRINUSE: address already in use :::3000"),
            _bad("npm run dev &", "Error: listen EADDRINUSE: address already in use :::3000"),
        ],
        (("repeat", 1, 3),),
    ),
    Blind(
        "asks a server that nobody started",
        [_bad("curl -s localhost:8080/health", "curl: (7) Failed to connect to localhost port 8080")] * 5,
        (("repeat", 1, 5),),
    ),
    Blind(
        "compiles in turns with looking at the same file",
        [
            call
            for _ in range(3)
            for call in (
                _bad("go build ./...", "./main.go:7:2: undefined: helper"),
                _read("main.go"),
            )
        ],
        (("repeat", 1, 6),),
    ),
    Blind(
        "the same migration fails for the same reason",
        [
            _bad("python manage.py migrate", f"[{9 + n}:0{n}:11] django.db.utils.OperationalError: no such table: a_b")
            for n in range(3)
        ],
        (("repeat", 1, 3),),
    ),
    Blind(
        "chases a type error through one annotation",
        [
            _edit("app/io.py", "-> str", "-> bytes"),
            _bad("mypy app", "app/io.py:9: error: Incompatible return value"),
            _edit("app/io.py", "-> bytes", "-> Any"),
            _bad("mypy app", "app/io.py:9: error: Incompatible return value"),
            _edit("app/io.py", "-> Any", "-> object"),
            _bad("mypy app", "app/io.py:10: error: Incompatible return value"),
        ],
        (("edit-fail", 1, 6),),
    ),
    Blind(
        "a subagent is sent three times with the same order",
        [
            _use("Task", "I could not find it.", subagent_type="Explore", description="Find auth", prompt="Find auth.")
            for _ in range(3)
        ],
        (("repeat", 1, 3),),
    ),
    Blind(
        "prints a variable that stays empty",
        [_run("echo $DATABASE_URL", ""), _run("echo $DATABASE_URL", ""), _run("echo $DATABASE_URL", "")],
        (("repeat", 1, 3),),
    ),
    Blind(
        "prints a file by cat, head and sed",
        [
            _run("cat setup.cfg", "[metadata]\nname = app"),
            _run("head -50 setup.cfg", "[metadata]\nname = app"),
            _run("sed -n 1,80p setup.cfg", "[metadata]\nname = app"),
            _read("setup.cfg", "[metadata]\nname = app\n"),
        ],
        (("repeat", 1, 4),),
    ),
    Blind(
        "tests one file over and over after edits elsewhere that failed",
        [
            _bad("pytest tests/test_a.py", "E   ImportError: cannot import name 'load'\n1 error in 0.10s"),
            _edit("src/a.py", "x", "y", error=_NOT_READ),
            _bad("pytest tests/test_a.py", "E   ImportError: cannot import name 'load'\n1 error in 0.11s"),
            _edit("src/a.py", "x", "y", error=_NOT_READ),
            _bad("pytest tests/test_a.py", "E   ImportError: cannot import name 'load'\n1 error in 0.12s"),
        ],
        (("repeat", 1, 5),),
    ),
    Blind(
        "a flaky fix: sleeps grow, the timeout stays",
        [
            call
            for n in range(4)
            for call in (
                _edit("tests/test_ws.py", f"sleep({n})", f"sleep({n + 1})"),
                _bad("pytest tests/test_ws.py", f"E   TimeoutError: no message\n1 failed in {n + 5}.20s"),
            )
        ],
        (("edit-fail", 1, 8),),
    ),
    Blind(
        "looks for a file under every name it might have, then starts over",
        [
            _glob("**/settings.py", "No files found"),
            _glob("**/config.py", "No files found"),
            _glob("**/settings.py", "No files found"),
            _glob("**/config.py", "No files found"),
            _glob("**/settings.py", "No files found"),
            _glob("**/config.py", "No files found"),
        ],
        (("repeat", 1, 6),),
    ),
    Blind(
        "checks for a process id that is ever another, with no other news",
        [_run("ps aux | grep server", f"dev  {4100 + n}  0.0  0.0 grep server") for n in range(4)],
        (("repeat", 1, 4),),
    ),
    Blind(
        "commits with nothing staged",
        [_bad("git commit -m 'Fix total'", "On branch main\nnothing added to commit but untracked files present")] * 3,
        (("repeat", 1, 3),),
    ),
    Blind(
        "pushes to a remote that refuses",
        [
            _bad("git push origin main", "! [rejected] main -> main (fetch first)\nerror: failed to push some refs"),
            _bad("git push origin main", "! [rejected] main -> main (fetch first)\nerror: failed to push some refs"),
            _run("git status", "Your branch is ahead of 'origin/main' by 1 commit."),
            _bad("git push origin main", "! [rejected] main -> main (fetch first)\nerror: failed to push some refs"),
        ],
        (("repeat", 1, 4),),
    ),
    Blind(
        "the linter's one complaint outlives every edit",
        [
            _edit("a.js", "var a", "let a"),
            _bad("npx eslint a.js", "  3:1  error  'a' is not defined  no-undef"),
            _edit("a.js", "let a", "const a"),
            _bad("npx eslint a.js", "  3:1  error  'a' is not defined  no-undef"),
            _edit("a.js", "const a", "window.a"),
            _bad("npx eslint a.js", "  4:1  error  'a' is not defined  no-undef"),
        ],
        (("edit-fail", 1, 6),),
    ),
    Blind(
        "a good beginning, then a loop, then a way out",
        [
            _read("src/a.py"),
            _grep("load", "src/a.py:3:def load():"),
            _edit("src/a.py", "1", "2"),
            _bad("pytest -q", _pytest("assert 'a' == 'b'")),
            _edit("src/a.py", "2", "3"),
            _bad("pytest -q", _pytest("assert 'a' == 'b'")),
            _edit("src/a.py", "3", "4"),
            _bad("pytest -q", _pytest("assert 'a' == 'b'")),
            _read("tests/test_app.py"),
            _edit("src/a.py", "4", "lower()"),
            _run("pytest -q", "5 passed in 0.30s"),
        ],
        (("edit-fail", 3, 8),),
    ),
    Blind(
        "the same SQL against an empty table",
        [_use("mcp__db__query", "(0 rows)", sql="select * from users where id = 7") for _ in range(4)],
        (("repeat", 1, 4),),
    ),
    Blind(
        "the same SQL, other spaces and letters",
        [
            _use("mcp__db__query", "(0 rows)", sql="select * from users where id = 7"),
            _use("mcp__db__query", "(0 rows)", sql="SELECT * FROM users WHERE id = 7"),
            _use("mcp__db__query", "(0 rows)", sql="SELECT *\nFROM users\nWHERE id = 7;"),
        ],
        (("repeat", 1, 3),),
    ),
    Blind(
        "clicks a button that does nothing",
        [
            call
            for _ in range(3)
            for call in (
                _use("mcp__browser__click", "clicked", selector="#save"),
                _use("mcp__browser__snapshot", "<form><button id=save>Save</button></form>"),
            )
        ],
        (("repeat", 1, 6),),
    ),
    Blind(
        "builds the same container image, the same step fails",
        [
            _bad("docker build -t app .", f'#{7 + n} ERROR: process "/bin/sh -c make" exit code: 2\n{n + 20}.4s')
            for n in range(3)
        ],
        (("repeat", 1, 3),),
    ),
    Blind(
        "patches the Dockerfile, the same step fails",
        [
            call
            for n in range(3)
            for call in (
                _edit("Dockerfile", f"RUN a{n}", f"RUN b{n}"),
                _bad("docker build -t app .", 'ERROR: failed to solve: process "make" did not complete: exit code: 2'),
            )
        ],
        (("edit-fail", 1, 6),),
    ),
    Blind(
        "runs one test through two commands in turns",
        [
            call
            for _ in range(3)
            for call in (
                _bad("npm test", "Tests: 1 failed, 3 passed\n  Expected: 4\n  Received: 3"),
                _bad("npx jest total.test.js", "Tests: 1 failed, 3 passed\n  Expected: 4\n  Received: 3"),
            )
        ],
        (("repeat", 1, 6),),
    ),
    Blind(
        "edits, runs, reverts by git, edits again: the same failure",
        [
            _edit("src/p.py", "a", "b"),
            _bad("pytest -q", _pytest("assert None is not None")),
            _run("git checkout src/p.py", "Updated 1 path from the index"),
            _edit("src/p.py", "a", "c"),
            _bad("pytest -q", _pytest("assert None is not None")),
            _run("git checkout src/p.py", "Updated 1 path from the index"),
            _edit("src/p.py", "a", "d"),
            _bad("pytest -q", _pytest("assert None is not None")),
        ],
        (("edit-fail", 1, 8),),
    ),
    Blind(
        "changes a file by sed, the test fails the same way",
        [
            call
            for n in range(3)
            for call in (
                _run(f"sed -i 's/v{n}/v{n + 1}/' src/app.py"),
                _bad("pytest -q", _pytest("assert 'v0' == 'v9'")),
            )
        ],
        (("edit-fail", 1, 6),),
    ),
    Blind(
        "reads its own notes again before every step",
        [
            _read("NOTES.md"),
            _run("ls src", "a.py"),
            _read("NOTES.md"),
            _run("ls tests", "test_a.py"),
            _read("NOTES.md"),
            _run("ls docs", "index.md"),
            _read("NOTES.md"),
        ],
        (("repeat", 1, 7),),
    ),
    Blind(
        "waits for a file that nobody writes, with sleeps that do not help",
        [_bad("sleep 2; cat out/result.json", "cat: out/result.json: No such file or directory")] * 6,
        (("repeat", 1, 6),),
    ),
    Blind(
        "asks for help of a program again and again",
        [_run("poetry add --help", "Usage: poetry add [options]\n  --dev  add as dev"), _run("poetry --version", "1.8")]
        + [_run("poetry add --help", "Usage: poetry add [options]\n  --dev  add as dev")] * 2,
        (("repeat", 1, 4),),
    ),
    Blind(
        "an environment is made anew each time, the import still fails",
        [
            call
            for _ in range(3)
            for call in (
                _run("python -m venv .venv"),
                _bad(".venv/bin/python -c 'import numpy'", "ModuleNotFoundError: No module named 'numpy'"),
            )
        ],
        (("repeat", 1, 6),),
    ),
    Blind(
        "formats, the check complains as before",
        [
            call
            for n in range(3)
            for call in (
                _run("black src", "All done!\n3 files left unchanged."),
                _bad("flake8 src", "src/a.py:1:80: E501 line too long (93 > 79 characters)"),
            )
        ],
        (("repeat", 1, 6),),
    ),
    Blind(
        "counts the failures every time in other words",
        [
            _bad("pytest -q 2>&1 | tail -1", "2 failed, 8 passed in 1.02s"),
            _bad("pytest -q 2>&1 | tail -3", "2 failed, 8 passed in 1.05s"),
            _bad("pytest -q 2>&1 | grep failed", "2 failed, 8 passed in 0.99s"),
            _bad("cd /home/dev/proj && pytest -q | tail -1", "2 failed, 8 passed in 1.00s"),
        ],
        (("repeat", 1, 4),),
    ),
    Blind(
        "swaps one failing test for another and back",
        [
            call
            for n in range(4)
            for call in (
                _edit("calc.py", f"r{n}", f"r{n + 1}"),
                _bad(
                    "pytest -q", f"FAILED tests/test_c.py::test_{'up' if n % 2 else 'down'}\n1 failed, 9 passed in 0.2s"
                ),
            )
        ],
        (("edit-fail", 1, 8),),
    ),
    Blind(
        "the segmentation fault at ever other addresses",
        [
            _bad("./build/app --demo", f"Segmentation fault at 0x7ffd{n}3a8 (core dumped), pid {900 + n}")
            for n in range(3)
        ],
        (("repeat", 1, 3),),
    ),
    Blind(
        "an agent writes the same file with the same content",
        [_write("docs/plan.md", 12), _read("docs/plan.md"), _write("docs/plan.md", 12), _write("docs/plan.md", 12)],
        (("repeat", 1, 4),),
    ),
    Blind(
        "a snapshot test is edited by hand, never right",
        [
            call
            for n in range(5)
            for call in (
                _edit("tests/__snapshots__/a.snap", f"<p>{n}", f"<p>{n + 1}"),
                _bad("npx jest a.test.js", "› 1 snapshot failed.\nTests: 1 failed, 2 passed, 3 total"),
            )
        ],
        (("edit-fail", 1, 10),),
    ),
    Blind(
        "looks at the diff after every thought",
        [_run("git diff HEAD", "diff --git a/a.py b/a.py\n+x = 1"), _run("git log -1", "commit 3f9a1c")]
        + [_run("git diff HEAD", "diff --git a/a.py b/a.py\n+x = 1"), _run("git branch", "* main")]
        + [_run("git diff HEAD", "diff --git a/a.py b/a.py\n+x = 1")],
        (("repeat", 1, 5),),
    ),
    Blind(
        "a tool is not allowed, and is asked for again",
        [
            _use("Bash", "Permission to use Bash has been denied.", failed=True, command="rm -rf build")
            for _ in range(3)
        ],
        (("repeat", 1, 3),),
    ),
    Blind(
        "a YAML file is mended by guess",
        [
            call
            for n in range(3)
            for call in (
                _edit(".github/workflows/ci.yml", " " * n + "steps:", " " * (n + 1) + "steps:"),
                _bad(
                    "actionlint",
                    f".github/workflows/ci.yml:{9 + n}:3: could not parse as YAML: did not find expected key",
                ),
            )
        ],
        (("edit-fail", 1, 6),),
    ),
    Blind(
        "downloads what the sandbox blocks",
        [
            _bad("curl -LO https://dl.test/tool.tgz", "curl: (6) Could not resolve host: dl.test"),
            _bad("wget https://dl.test/tool.tgz", "wget: unable to resolve host address 'dl.test'"),
            _bad("curl -LO https://dl.test/tool.tgz", "curl: (6) Could not resolve host: dl.test"),
            _bad("curl -k -LO https://dl.test/tool.tgz", "curl: (6) Could not resolve host: dl.test"),
            _bad("curl -LO https://dl.test/tool.tgz", "curl: (6) Could not resolve host: dl.test"),
        ],
        (("repeat", 1, 5),),
    ),
    Blind(
        "deletes the cache and builds, three times over",
        [
            call
            for n in range(3)
            for call in (
                _run("rm -rf node_modules/.cache"),
                _bad("npm run build", f"Module not found: Can't resolve './Widget'\nbuild failed in {n + 2}.1s"),
            )
        ],
        (("repeat", 1, 6),),
    ),
    Blind(
        "one notebook cell is edited until the run gives up",
        [
            call
            for n in range(3)
            for call in (
                _use("NotebookEdit", "Updated cell", notebook_path="/home/dev/proj/a.ipynb", new_source=f"x={n}\n"),
                _bad("jupyter execute a.ipynb", "NameError: name 'df' is not defined"),
            )
        ],
        (("edit-fail", 1, 6),),
    ),
    Blind(
        "two subjects, each asked three times, mixed",
        [
            _read("a.py"),
            _read("b.py"),
            _read("a.py"),
            _read("b.py"),
            _grep("x", "a.py:1:x"),
            _read("b.py"),
            _read("a.py"),
        ],
        (("repeat", 1, 7),),
    ),
    Blind(
        "a script is mended line by line, always the same complaint",
        [
            call
            for n in range(4)
            for call in (
                _edit("deploy.sh", f"if [ {n}", f"if [[ {n}"),
                _bad("bash -n deploy.sh", f"deploy.sh: line {30 + n}: syntax error: unexpected end of file"),
            )
        ],
        (("edit-fail", 1, 8),),
    ),
]

INNOCENT: list[Blind] = [
    Blind("pages through a long file", [_read("big.py", offset=1 + 200 * n, limit=200, total=1000) for n in range(5)]),
    Blind(
        "pages through a long file by sed",
        [_run(f"sed -n '{1 + 100 * n},{100 + 100 * n}p' big.py", f"def f{n}():\n    pass") for n in range(5)],
    ),
    Blind("pages by head and tail", [_run(f"head -{n}00 log | tail -100", f"line {n}00 ok") for n in range(1, 5)]),
    Blind(
        "looks at one place of a file, then at another, then at the whole",
        [
            _read("src/a.py", offset=100, limit=20, total=400),
            _read("src/a.py", offset=300, limit=20, total=400),
            _read("src/a.py", offset=20, limit=60, total=400),
            _grep("class", "src/a.py:3:class A:", path="src/a.py"),
        ],
    ),
    Blind(
        "waits for a build that moves on",
        [_run("cat build.log | tail -1", f"[{n * 20}%] Building CXX object {n}.o") for n in range(1, 6)],
    ),
    Blind(
        "waits for a job of CI until it is done",
        [
            _run("gh run view 812 --json status", '{"status":"queued"}'),
            _run("sleep 30 && gh run view 812 --json status", '{"status":"in_progress"}'),
            _run("sleep 60 && gh run view 812 --json status", '{"status":"in_progress"}'),
            _run("sleep 60 && gh run view 812 --json status", '{"status":"in_progress"}'),
            _run("sleep 60 && gh run view 812 --json status", '{"status":"completed","conclusion":"success"}'),
        ],
    ),
    Blind(
        "polls a container until it is healthy",
        [
            _run("docker ps --format '{{.Status}}'", "Up 2 seconds (health: starting)"),
            _run("sleep 3; docker ps --format '{{.Status}}'", "Up 5 seconds (health: starting)"),
            _run("sleep 3; docker ps --format '{{.Status}}'", "Up 9 seconds (health: starting)"),
            _run("sleep 3; docker ps --format '{{.Status}}'", "Up 12 seconds (healthy)"),
        ],
    ),
    Blind(
        "reads the output of a shell in the background as it comes",
        [_use("BashOutput", f"<stdout>epoch {n}/5 loss=0.{9 - n}</stdout>", bash_id="bash_1") for n in range(1, 6)],
    ),
    Blind(
        "waits for an upload, byte by byte",
        [_run("ls -l out.tar", f"-rw-r--r-- 1 dev dev {n}048576 out.tar") for n in range(1, 5)],
    ),
    Blind(
        "runs the tests after each real edit, all pass",
        [
            call
            for n in range(4)
            for call in (_edit("src/a.py", f"a{n}", f"b{n}"), _run("pytest -q", f"{10 + n} passed in 0.4s"))
        ],
    ),
    Blind(
        "runs the tests after each refactoring, the same number passes",
        [call for n in range(5) for call in (_edit(f"src/m{n}.py", "a", "b"), _run("pytest -q", "10 passed in 0.4s"))],
    ),
    Blind(
        "failures go down from round to round",
        [
            call
            for n in range(5)
            for call in (
                _edit("src/a.py", f"a{n}", f"b{n}"),
                _bad("pytest -q", _pytest(f"assert {n} == 9", count=5 - n, passed=4 + n)),
            )
        ],
    ),
    Blind(
        "one error after the other, each another one",
        [
            _edit("a.py", "1", "2"),
            _bad("python a.py", "SyntaxError: invalid syntax"),
            _edit("a.py", "2", "3"),
            _bad("python a.py", "NameError: name 'os' is not defined"),
            _edit("a.py", "3", "4"),
            _bad("python a.py", "FileNotFoundError: 'in.txt'"),
            _edit("a.py", "4", "5"),
            _run("python a.py", "done"),
        ],
    ),
    Blind(
        "the compiler's complaints wander through the file as they are mended",
        [
            call
            for n, name in enumerate(("alpha", "beta", "gamma", "delta"))
            for call in (
                _edit("src/lib.rs", f"{name}", f"&{name}"),
                _bad("cargo check", f"error[E0382]: borrow of moved value: `{name}`\n --> src/lib.rs:{10 * n + 4}:5"),
            )
        ],
    ),
    Blind(
        "three failing tests, mended one by one",
        [
            _bad("pytest -q", "FAILED test_a\nFAILED test_b\nFAILED test_c\n3 failed in 0.2s"),
            _edit("a.py", "1", "2"),
            _bad("pytest -q", "FAILED test_b\nFAILED test_c\n2 failed, 1 passed in 0.2s"),
            _edit("b.py", "1", "2"),
            _bad("pytest -q", "FAILED test_c\n1 failed, 2 passed in 0.2s"),
            _edit("c.py", "1", "2"),
            _run("pytest -q", "3 passed in 0.2s"),
        ],
    ),
    Blind(
        "tries an address with ever other arguments",
        [
            _bad("curl -s localhost:8000/api", "404"),
            _bad("curl -s localhost:8000/api/v1", "404"),
            _bad("curl -s localhost:8000/v1/items", "404"),
            _run("curl -s localhost:8000/items", "[]"),
        ],
    ),
    Blind(
        "retries a download from other mirrors",
        [
            _bad(f"curl -fLO https://mirror{n}.test/tool.tgz", f"curl: (6) Could not resolve host: mirror{n}.test")
            for n in range(4)
        ],
    ),
    Blind(
        "tries versions of a package one by one",
        [
            _bad(f"pip install torch==2.{n}.0", "ERROR: No matching distribution found for torch==2." + f"{n}.0")
            for n in range(4)
        ],
    ),
    Blind("tests ever other files", [_run(f"pytest tests/test_{n}.py -q", "3 passed in 0.1s") for n in "abcdef"]),
    Blind(
        "the same test with other seeds",
        [_run(f"pytest -q -p randomly --randomly-seed={n}", "10 passed in 0.4s") for n in range(5)],
    ),
    Blind("opens ever other files", [_read(f"src/m{n}.py") for n in range(8)]),
    Blind(
        "searches ever other words",
        [_grep(word, "No matches found") for word in ("retry", "backoff", "attempts", "max_tries")],
    ),
    Blind(
        "searches one word in ever other folders",
        [
            _grep("TODO", "No matches found", path=f"/home/dev/proj/{folder}")
            for folder in ("src", "tests", "docs", "bin")
        ],
    ),
    Blind(
        "reads a file again after each of its own edits",
        [
            _read("src/a.py"),
            _edit("src/a.py", "1", "2"),
            _read("src/a.py"),
            _edit("src/a.py", "2", "3"),
            _read("src/a.py"),
            _edit("src/a.py", "3", "4"),
            _read("src/a.py"),
        ],
    ),
    Blind(
        "commits after each step, looks at the status before",
        [
            call
            for n in range(3)
            for call in (
                _edit(f"src/m{n}.py", "a", "b"),
                _run("git status --short", f" M src/m{n}.py"),
                _run(f"git commit -qam 'Step {n}'", ""),
            )
        ],
    ),
    Blind(
        "status is clean after each commit",
        [
            call
            for n in range(4)
            for call in (
                _write(f"src/n{n}.py", 5 + n),
                _run("git add -A && git commit -qm wip"),
                _run("git status --short", ""),
            )
        ],
    ),
    Blind("edits one file in many places", [_edit("src/a.py", f"name{n}", f"title{n}") for n in range(7)]),
    Blind("renames in many files", [_edit(f"src/m{n}.py", "old_name", "new_name") for n in range(6)]),
    Blind("writes many files of equal size", [_write(f"src/p{n}.py", 20) for n in range(6)]),
    Blind(
        "a to-do list that gets on",
        [
            _use(
                "TodoWrite",
                "Todos have been modified",
                todos=[{"content": "a", "status": s}, {"content": "b", "status": t}],
            )
            for s, t in (
                ("pending", "pending"),
                ("in_progress", "pending"),
                ("completed", "in_progress"),
                ("completed", "completed"),
            )
        ],
    ),
    Blind(
        "runs a program with ever other input",
        [_run(f"echo {n} | ./fib", str(value)) for n, value in enumerate((0, 1, 1, 2, 3, 5))],
    ),
    Blind(
        "runs a program twice to see whether it is steady",
        [_run("./bench", "42 ms"), _run("./bench", "42 ms"), _edit("bench.c", "a", "b"), _run("./bench", "42 ms")],
    ),
    Blind(
        "measures the time of a run again and again",
        [_run("./bench --once", f"{n}.3 ms/op") for n in (41, 44, 40, 43, 42)],
    ),
    Blind(
        "flips a coin: a test that fails now and then is run to see how often",
        [
            _run("pytest -q tests/test_flaky.py", "1 passed in 0.2s"),
            _bad("pytest -q tests/test_flaky.py", _pytest("TimeoutError")),
            _run("pytest -q tests/test_flaky.py", "1 passed in 0.2s"),
            _run("pytest -q tests/test_flaky.py", "1 passed in 0.2s"),
            _bad("pytest -q tests/test_flaky.py", _pytest("TimeoutError")),
        ],
    ),
    Blind(
        "bisects",
        [
            call
            for n, word in enumerate(("bad", "good", "good", "bad"))
            for call in (
                _run("pytest -q", "1 passed in 0.1s")
                if word == "good"
                else _bad("pytest -q", _pytest("assert 1 == 2")),
                _run(f"git bisect {word}", f"Bisecting: {8 >> n} revisions left to test after this"),
            )
        ],
    ),
    Blind(
        "sends three subagents with other orders",
        [
            _use("Task", f"Found {n} places.", subagent_type="Explore", description=f"Look {n}", prompt=f"Look in {n}.")
            for n in range(3)
        ],
    ),
    Blind(
        "goes through pages of an API",
        [_run(f"curl -s 'https://api.test/items?page={n}'", f'[{{"id":{n}0}}]') for n in range(1, 6)],
    ),
    Blind(
        "goes through pages of a table",
        [_use("mcp__db__query", f"id {n}1\nid {n}2", sql=f"select id from t limit 2 offset {2 * n}") for n in range(5)],
    ),
    Blind(
        "an edit that misses once, then hits",
        [
            _edit("a.py", "x = 1", "x = 2", error=_NOT_FOUND),
            _read("a.py"),
            _edit("a.py", "x=1", "x = 2"),
            _run("pytest -q", "4 passed in 0.1s"),
        ],
    ),
    Blind(
        "edits of three files that miss, each once",
        [
            call
            for n in range(3)
            for call in (_edit(f"m{n}.py", "x", "y", error=_NOT_READ), _read(f"m{n}.py"), _edit(f"m{n}.py", "x", "y"))
        ],
    ),
    Blind(
        "writes the test first: it fails once, then passes, thrice over",
        [
            call
            for n in range(3)
            for call in (
                _edit("tests/test_a.py", f"# {n}", f"def test_{n}(): ..."),
                _bad(
                    "pytest -q",
                    f"FAILED tests/test_a.py::test_{n} - AttributeError: f{n}\n1 failed, {n} passed in 0.1s",
                ),
                _edit("src/a.py", f"# {n}", f"def f{n}(): ..."),
                _run("pytest -q", f"{n + 1} passed in 0.1s"),
            )
        ],
    ),
    Blind(
        "the linter finds ever fewer things",
        [
            call
            for n in range(4)
            for call in (_edit("a.py", f"a{n}", f"b{n}"), _bad("ruff check .", f"Found {9 - 2 * n} errors."))
        ],
    ),
    Blind(
        "builds for one platform after the other",
        [_run(f"GOOS={system} go build ./...") for system in ("linux", "darwin", "windows", "freebsd")],
    ),
    Blind(
        "looks the same thing up twice, an hour of work apart",
        [_read("README.md"), *(_read(f"src/q{n}.py") for n in range(12)), _read("README.md")],
    ),
    Blind(
        "prints variables one by one",
        [_run(f"echo ${name}", value) for name, value in (("HOME", "/home/dev"), ("SHELL", "/bin/sh"), ("LANG", "C"))],
    ),
    Blind(
        "goes from folder to folder", [_run(f"ls {name}", "__init__.py") for name in ("src", "src/a", "src/b", "src/c")]
    ),
    Blind(
        "takes several pictures of a page as it loads",
        [_use("mcp__browser__snapshot", text) for text in ("<p>Loading", "<p>Loading items 3/9", "<p>9 items")],
    ),
    Blind(
        "fills in a form, field by field",
        [_use("mcp__browser__fill", "filled", selector=f"#f{n}", value=f"v{n}") for n in range(4)],
    ),
    Blind(
        "clicks 'next' through a tour, each page another",
        [
            call
            for n in range(4)
            for call in (
                _use("mcp__browser__click", "clicked", selector="#next"),
                _use("mcp__browser__snapshot", f"<h1>Step {n + 2} of 5</h1>"),
            )
        ],
    ),
    Blind(
        "the same command in other folders",
        [
            _run(f"cd packages/{name} && npm test", "Tests: 4 passed, 4 total")
            for name in ("core", "web", "cli", "docs")
        ],
    ),
    Blind(
        "the same command for other machines",
        [_run(f"ssh {host} uptime", "up 3 days") for host in ("web1", "web2", "db1", "db2")],
    ),
    Blind(
        "applies, shows and takes back migrations",
        [
            _run("alembic upgrade +1", "Running upgrade a -> b"),
            _run("alembic current", "b"),
            _run("alembic upgrade +1", "Running upgrade b -> c"),
            _run("alembic current", "c"),
            _run("alembic upgrade +1", "Running upgrade c -> d"),
            _run("alembic current", "d (head)"),
        ],
    ),
    Blind(
        "starts the server anew after each change and asks it",
        [
            call
            for n in range(3)
            for call in (
                _edit("app.py", f"v{n}", f"v{n + 1}"),
                _run("pkill -f app.py; python app.py &"),
                _run("curl -s localhost:5000/version", f"v{n + 1}"),
            )
        ],
    ),
    Blind(
        "the server's answer stays healthy after each change",
        [
            call
            for n in range(3)
            for call in (_edit(f"h{n}.py", "a", "b"), _run("curl -s localhost:5000/health", '{"ok":true}'))
        ],
    ),
    Blind(
        "formats after each edit",
        [
            call
            for n in range(4)
            for call in (
                _edit(f"src/z{n}.py", "a", "b"),
                _run("ruff format .", "1 file reformatted, 20 files left unchanged"),
            )
        ],
    ),
    Blind(
        "watches a queue run dry",
        [_run("redis-cli llen jobs", f"(integer) {n}") for n in (40, 31, 18, 6, 0)],
    ),
    Blind(
        "looks at the top of several logs with the same complaint",
        [_run(f"head -1 logs/{name}.log", "WARN cache miss") for name in ("a", "b", "c", "d")],
    ),
    Blind(
        "two rounds of edit and failure, then asks the person",
        [
            _edit("a.py", "1", "2"),
            _bad("pytest -q", _pytest("assert 1 == 2")),
            _edit("a.py", "2", "3"),
            _bad("pytest -q", _pytest("assert 1 == 2")),
            _use("AskUserQuestion", "Use the first", questions=["Which result is wanted?"]),
        ],
    ),
    Blind(
        "test, edit of the docs, test, edit of the docs, all green",
        [
            call
            for n in range(3)
            for call in (_run("make docs", "build succeeded."), _edit("docs/index.md", f"a{n}", f"b{n}"))
        ],
    ),
    Blind(
        "tries three ways to read a broken file, each with another answer",
        [
            _bad("python read.py a.csv", "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe4 in position 9"),
            _edit("read.py", "utf-8", "ascii"),
            _bad("python read.py a.csv", "UnicodeDecodeError: 'ascii' codec can't decode byte 0xe4 in position 9"),
            _edit("read.py", "ascii", "latin-1"),
            _run("python read.py a.csv", "9 rows"),
        ],
    ),
    Blind(
        "waits for a port with nc until it opens",
        [
            _bad("nc -z localhost 5432", ""),
            _bad("sleep 1; nc -z localhost 5432", ""),
            _bad("sleep 2; nc -z localhost 5432", ""),
            _run("sleep 4; nc -z localhost 5432", ""),
        ],
    ),
    Blind(
        "asks for the next task of a list kept elsewhere, and gets another each time",
        [_use("mcp__tracker__next_issue", f"#{120 + n}: label {n}", project="app") for n in range(5)],
    ),
]

CASES: tuple[Blind, ...] = (*LOOPS, *INNOCENT)
