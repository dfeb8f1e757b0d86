"""What the terminal wrote, told apart: marks, plain text, output within limits, and what a command line is for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collector.recorder import command_lines
from collector.recorder.command_lines import Line, junit_path, read_line, status_of, target_lines
from collector.recorder.screen_text import PlainText, placed, told_by_summary
from collector.recorder.screen_text import test_run as ended
from collector.recorder.scribe import CommandOutput
from collector.recorder.shell_marks import Cut, Mark
from tracer.redaction.engine import ProjectRedactor, build_redactor

NONCE = "0123456789abcdef"
START = b"\x1b]7717;" + NONCE.encode() + b";"
COMMAND = START + b"C;bash\x07" + b"   12  pytest -q\n" + START + b"/\x07"
PROMPT = START + b"A;1;1 0;/shop;shop\x07"


def cut(stream: bytes, sizes: list[int]) -> tuple[bytes, list[Mark | bytes]]:
    parts, at = [], 0
    for size in sizes:
        parts.append(stream[at : at + size])
        at += size
    parts.append(stream[at:])
    cutting, shown, tokens = Cut(NONCE), b"", []
    for part in parts:
        seen, found = cutting.feed(part)
        shown += seen
        tokens += found
    seen, found = cutting.close()
    joined: list[Mark | bytes] = []
    for token in [*tokens, *found]:
        if isinstance(token, bytes) and joined and isinstance(joined[-1], bytes):
            joined[-1] += token
        else:
            joined.append(token)
    return shown + seen, joined


@given(sizes=st.lists(st.integers(min_value=1, max_value=12), max_size=30))
def test_marks_are_found_and_taken_out_however_the_stream_is_cut(sizes: list[int]) -> None:
    shown, tokens = cut(b"$ pytest -q\r\n" + COMMAND + b"1 failed\r\n" + PROMPT + b"$ ", sizes)
    assert shown == b"$ pytest -q\r\n1 failed\r\n$ "
    assert tokens == [
        b"$ pytest -q\r\n",
        Mark("command", ("bash",), b"   12  pytest -q\n"),
        b"1 failed\r\n",
        Mark("prompt", ("1", "1 0", "/shop", "shop")),
        b"$ ",
    ]


@given(data=st.binary(max_size=300), sizes=st.lists(st.integers(min_value=1, max_value=20), max_size=20))
@example(data=b"\x1b]7717;other;A;0\x07", sizes=[3])
@example(data=b"\x1b", sizes=[])
def test_bytes_that_hold_no_mark_of_ours_all_reach_the_person(data: bytes, sizes: list[int]) -> None:
    shown, tokens = cut(data, sizes)
    assert shown == data
    assert not any(isinstance(token, Mark) for token in tokens)


def test_a_mark_with_another_nonce_is_text() -> None:
    forged = b"\x1b]7717;ffffffffffffffff;A;0;0;/\x07"
    assert cut(forged, [5]) == (forged, [forged])


def test_a_command_whose_end_mark_never_comes_is_shown_again() -> None:
    flood = b"x" * ((1 << 20) + 10)
    shown, _tokens = cut(START + b"C;bash\x07" + flood, [])
    assert shown == flood


def plain(data: bytes, sizes: list[int] | None = None) -> str:
    text, out, at = PlainText(), "", 0
    for size in sizes or []:
        out += text.feed(data[at : at + size])
        at += size
    return out + text.feed(data[at:]) + text.close()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"plain\r\nlines\r\n", "plain\nlines\n"),
        (b"\x1b[31mred\x1b[0m and \x1b[1;32mgreen\x1b[m", "red and green"),
        (b"10%\r50%\r100%\r\n", "100%\n"),
        (b"long line\rshort\x1b[K\r\n", "short\n"),
        (b"abd\bc\r\n", "abc\n"),
        (b"\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "textlink\n"),
        (b"\x1bPdcs\x1b\\after\n", "after\n"),
        (b"bell\x07 and nul\x00\n", "bell and nul\n"),
        ("é 日本 🐍\n".encode(), "é 日本 🐍\n"),
        (b"\xff\xfe\n", "��\n"),
        (b"\x1b[?1049hdrawn\x1b[2J\x1b[?1049lafter\n", "[full-screen program: 9 characters drawn, not kept]\nafter\n"),
        (b"before\x1b[?1049hdrawn", "before\n[full-screen program: 5 characters drawn, not kept]\n"),
    ],
)
def test_a_terminals_bytes_read_as_they_looked(written: bytes, read: str) -> None:
    assert plain(written) == read


@given(data=st.binary(max_size=400), sizes=st.lists(st.integers(min_value=1, max_value=9), max_size=40))
def test_reading_does_not_depend_on_how_the_bytes_arrive(data: bytes, sizes: list[int]) -> None:
    assert plain(data, sizes) == plain(data)


@given(data=st.binary(max_size=400))
def test_what_was_read_holds_no_control_sequences(data: bytes) -> None:
    text = plain(data)
    assert not any(sign in text for sign in "\x1b\x07\x00\r")
    text.encode("utf-8")


SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ456789"


@pytest.fixture(scope="module")
def redactor(tmp_path_factory: pytest.TempPathFactory) -> ProjectRedactor:
    return build_redactor(state_dir=tmp_path_factory.mktemp("state"), environ={}, host="", persons=())


def kept(output: CommandOutput, data: bytes, *, size: int) -> str:
    chunks: list[str] = []
    for at in range(0, len(data), size):
        chunks += output.feed(data[at : at + size])
    return "".join([*chunks, *output.close()])


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_secret_split_over_pieces_and_colours_is_replaced(redactor: ProjectRedactor, size: int) -> None:
    written = f"token \x1b[31m{SECRET[:9]}\x1b[1m{SECRET[9:]}\x1b[0m end\r\n".encode()
    text = kept(CommandOutput(redactor, head=1 << 20, tail=1 << 16), written, size=size)
    assert SECRET not in text
    assert text.startswith("token [REDACTED:")
    assert text.endswith("] end\n")


@pytest.mark.parametrize("before", range(19_950, 20_010, 7))
def test_a_cut_neither_hides_nor_halves_a_secret(redactor: ProjectRedactor, before: int) -> None:
    line = "x" * 79 + "\n"
    written = (line * (before // 80) + "y" * (before % 80) + SECRET + "\n" + line * 3000).encode()
    output = CommandOutput(redactor, head=20_000, tail=4_000)
    text = kept(output, written, size=4096)
    assert output.dropped > 0
    assert not any(SECRET[at : at + 10] in text for at in range(len(SECRET) - 10))


def test_a_secret_at_the_beginning_of_the_kept_tail_is_replaced(redactor: ProjectRedactor) -> None:
    filler = "x" * 79 + "\n"
    for shift in range(0, 120, 11):
        written = (filler * 1000 + "z" * shift + f" {SECRET} \n" + "y" * 79 + "\n" + filler * 48).encode()
        text = kept(CommandOutput(redactor, head=8_000, tail=4_000), written, size=9999)
        assert not any(SECRET[at : at + 10] in text for at in range(len(SECRET) - 10))


def test_nothing_is_dropped_below_the_limit_and_raw_text_is_as_it_was() -> None:
    output = CommandOutput(None, head=1 << 20, tail=1 << 16)
    text = kept(output, b"line\r\n" * 30_000, size=5000)
    assert text == "line\n" * 30_000
    assert output.dropped == 0


@pytest.mark.parametrize("lines", range(1_900, 7_000, 300))
@pytest.mark.parametrize("raw", [True, False])
def test_no_line_of_a_long_output_is_told_twice_and_what_is_missing_is_counted(
    redactor: ProjectRedactor, lines: int, *, raw: bool
) -> None:
    written = b"".join(b"line %06d\r\n" % number for number in range(lines))
    text = kept(CommandOutput(None if raw else redactor, head=24_000, tail=8_000), written, size=4096)
    told = [line for line in text.splitlines() if not line.startswith("[")]
    assert told == sorted({f"line {number:06}" for number in range(lines)} & set(told))
    missing = lines * 12 - len(told) * 12
    said = re.findall(r"^\[\.\.\. ([\d,]+) characters not kept \.\.\.\]$", text, re.MULTILINE)
    assert [int(count.replace(",", "")) for count in said] == ([missing] if missing else [])


def test_memory_stays_bounded_for_output_without_end() -> None:
    output = CommandOutput(None, head=10_000, tail=10_000)
    for _ in range(2_000):
        output.feed(b"a line of output that goes on\r\n" * 40)
    assert len(output._ring) < 40_000
    assert sum(map(len, output.close())) < 40_000


@pytest.mark.parametrize(
    ("line", "runner"),
    [
        ("pytest -q", "pytest"),
        ("cd app && FOO=1 python3 -m pytest -k 'a b' 2>&1 | tail -5", "pytest"),
        ("uv run pytest", "pytest"),
        ("time .venv/bin/pytest tests", "pytest"),
        ("coverage run -m pytest", "pytest"),
        ("go test ./...", "go test"),
        ("npm test", "npm test"),
        ("npm run test:unit -- --watch=false", "npm test"),
        ("yarn test", "npm test"),
        ("make test", "make test"),
        ("make -j4 check", "make test"),
        ("cargo test", "custom"),
        ("cargo nextest run", "custom"),
        ("python -m unittest", "custom"),
        ("npx jest", "custom"),
        ("timeout 60 tox -e py311", "custom"),
        ("cargo +nightly test -p cart", "custom"),
        ("mvn -q clean test", "custom"),
        ("go -C api test ./...", "go test"),
        ("npm --prefix web test", "npm test"),
        ("uv run --with pytest-cov pytest", "pytest"),
        ("yarn vitest run", "custom"),
        ("./manage.py test cart", "custom"),
        ("python3 manage.py test", "custom"),
        ("bin/rails test", "custom"),
        ("node --test", "custom"),
    ],
)
def test_test_runs_are_recognised(line: str, runner: str) -> None:
    test = read_line(line).test
    assert test is not None
    assert test.runner == runner


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ls tests",
        "git commit -m 'pytest passes'",
        "echo pytest",
        "pip install pytest",
        "vim test_x.py",
        "make",
        "go build",
        "cat <<X\npytest\nX",
        "'unclosed",
        "pytest --version",
        "pytest --collect-only -q",
        "go test -list .",
        "make -n test",
        "cargo run test",
        "cargo run -- test",
        "cargo new test",
        "cargo test --no-run",
    ],
)
def test_other_commands_are_no_test_runs(line: str) -> None:
    assert read_line(line).test is None


@pytest.mark.parametrize(
    ("line", "status", "pipe", "own"),
    [
        ("pytest", 1, [1], 1),
        ("pytest | tail -3", 0, [1, 0], 1),
        ("cd x && pytest 2>&1 | tee log", 0, [2, 0], 2),
        ("cd x && pytest", 1, [1], 1),
        ("pytest && echo fine", 0, [0], 0),
        ("pytest && echo fine", 1, [1], None),
        ("pytest; echo done", 0, [0], None),
        ("pytest || true", 0, [0], None),
        ("! pytest", 0, [0], None),
        ("(pytest)", 1, [1], 1),
        ("(cd api && go test ./...)", 1, [1], 1),
        ("{ cd api; make test; }", 2, [2], 2),
        ("(pytest; echo done)", 0, [0], None),
        ("go test ./... # once more", 1, [1], 1),
        ("export A=1 && . .venv/bin/activate && pytest", 1, [1], 1),
        ("make && make test", 2, [2], None),
        ("make && make test", 0, [0], 0),
        ("grep -q x y || pytest", 0, [0], None),
        ("pytest &", 0, [0], None),
        ("sleep 9 & pytest", 1, [1], 1),
    ],
)
def test_a_tests_own_exit_code_is_told_or_not_guessed(line: str, status: int, pipe: list[int], own: int | None) -> None:
    test = read_line(line).test
    assert test is not None
    assert status_of(test, line_status=status, pipe=pipe) == own


@given(text=st.text(max_size=200))
@example(text="k:{\U0010ffff")  # crashed the grammar
def test_any_text_can_be_read_as_a_line(text: str) -> None:
    read_line(text)


def test_looking_and_debugging_are_told() -> None:
    assert read_line("vim +12 src/a.py").viewed == ("open", "src/a.py", 12, "")
    assert read_line("vim +12 src/a.py").editor
    assert read_line("grep -rn total src").viewed == ("search", "src", None, "total")
    assert read_line("git grep total").viewed == ("search", "", None, "total")
    assert read_line("head -n 20 cart.py").viewed == ("open", "cart.py", None, "")
    assert read_line("seq 9 | tail -n 3").viewed is None
    assert read_line("yes | head -c 200M").viewed is None
    assert read_line("head -c 99 /dev/urandom").viewed is None
    assert read_line("vim -u NONE +3 a.py").viewed == ("open", "a.py", 3, "")
    assert read_line("grep -A 3 total src").viewed == ("search", "src", None, "total")
    assert read_line("python -m pdb app.py").debugger == "python -m pdb app.py"
    assert read_line("pm think x").ours
    assert not read_line("pm run x").ours
    assert not read_line("pm think x && pytest").ours
    assert read_line("pm think x; pm snapshot").ours


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("cart.py", "shop/cart.py"),
        ("./cart.py", "shop/cart.py"),
        ("../tests", "tests"),
        ("../../other/x.py", "{above}/other/x.py"),
        ("/etc/hosts", "/etc/hosts"),
        ("{top}/shop/cart.py", "shop/cart.py"),
        ("~/notes", "~/notes"),
        ("..", "."),
    ],
)
def test_a_looked_at_file_is_named_from_the_workspace(tmp_path: Path, path: str, told: str) -> None:
    above, top = str(tmp_path), str(tmp_path / "repo")
    (tmp_path / "repo" / "shop").mkdir(parents=True)
    named = placed(path.format(top=top), cwd=f"{top}/shop", top=top)
    assert named == told.format(above=above)


@pytest.mark.parametrize(
    ("printed", "code"),
    [
        ("== 1 failed, 2 passed in 0.10s ==\n", 1),
        ("3 passed in 0.1s\n", 0),
        ("Ran 3 tests in 0.001s\n\nFAILED (failures=1)\n", 1),
        ("Ran 1 test in 0.001s\n\nOK (skipped=1)\n", 0),
        ("ok  \texample.com/x\t0.003s\nFAIL\texample.com/y\t0.003s\nFAIL\n", 1),
        ("ok  \texample.com/x\t(cached)\n", 0),
        ("test result: ok. 3 passed; 0 failed\n\ntest result: FAILED. 0 passed; 1 failed\n", 1),
        ("test result: ok. 3 passed; 0 failed; 0 ignored\n", 0),
        ("Tests:       1 failed, 2 passed, 3 total\n", 1),
        (" Tests  2 passed (2)\n", 0),
        ("  3 passing (10ms)\n  1 failing\n", 1),
        ("# pass 3\n# fail 0\n# skipped 0\n", 0),
        ("FAILED to connect\nbuild OK\n", None),
        ("", None),
    ],
)
def test_a_runners_summary_is_read(printed: str, code: int | None) -> None:
    assert told_by_summary(printed) == code


@pytest.mark.parametrize(
    ("line", "status", "printed"),
    [
        ("cd nowhere && pytest", 1, "bash: cd: nowhere: No such file or directory\n"),
        ("cd nowhere && pytest", 1, "cd: no such file or directory: nowhere\n"),
        ("pytest", 127, "bash: pytest: command not found\n"),
        ("make && make test", 2, "cart.c:3: error: expected ';'\n"),
    ],
)
def test_where_no_test_was_run_none_is_made_up(line: str, status: int, printed: str) -> None:
    test = read_line(line).test
    assert test is not None
    assert ended(test, status=status, pipe=[status], printed=printed, took=(0, 9)) is None


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("pytest", "--junitxml=out/r.xml"), "out/r.xml"),
        (("pytest", "--junit-xml", "r.xml"), "r.xml"),
        (("gotestsum", "--junitfile", "r.xml"), "r.xml"),
        (("pytest", "-q"), None),
        (("pytest", "--junitxml"), None),
    ],
)
def test_the_report_a_run_was_told_to_write_is_known(words: tuple[str, ...], path: str | None) -> None:
    assert junit_path(words) == path


WORDS = tomllib.loads(Path(command_lines.__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _examples() -> Iterator[tuple[str, Callable[[Line], object]]]:
    """A line for each row of the words, and what must hold of it."""
    tested = {program: words[0] for name in ("subcommands", "goals") for program, words in WORDS[name].items()}
    for line in [*WORDS["custom"], *(f"{program} {word}" for program, word in tested.items())]:
        yield line, lambda found: found.test is not None and found.test.runner == "custom"
    for word in WORDS["test_words"]:
        yield f"make {word}", lambda found: found.test is not None and found.test.runner == "make test"
    for program, skipped in WORDS["prefixes"].items():
        yield f"{program} {'9 ' * skipped}pytest", lambda found: found.test is not None
    for program, word in WORDS["running"].items():
        yield f"{program} {word} {'-m ' if program == 'coverage' else ''}pytest", lambda found: found.test is not None
    plain = {
        "pytest": "pytest",
        "go test": "go test",
        "npm test": "npm test",
        "make test": "make test",
        "custom": "tox",
    }
    for runner, options in WORDS["no_run"].items():
        for option in options:
            yield f"{plain[runner]} {option}", lambda found: found.test is None
    for program, options in WORDS["before"].items():
        word = "pytest" if program == "uv" else "test"
        for option in options:
            line = f"{program} {'run ' if program == 'uv' else ''}{option} value {word}"
            yield line, lambda found: found.test is not None
    for program, options in WORDS["with_value"].items():
        for option in options:
            yield f"{program} {option} 3 word a.py", lambda found: found.viewed is not None and "3" not in found.viewed
    for program in WORDS["debuggers"]:
        yield f"{program} a.out", lambda found: found.debugger
    for program in WORDS["viewers"]:
        yield f"{program} a.py", lambda found: found.viewed == ("open", "a.py", None, "")
    for program in WORDS["editors"]:
        yield f"{program} a.py", lambda found: found.editor
    for program in WORDS["searchers"]:
        yield f"{program} word a.py", lambda found: found.viewed == ("search", "a.py", None, "word")
    for word in WORDS["harmless"]:
        yield f"{word} x && pytest", lambda found: found.test is not None and found.test.standing == "line"
    for word in WORDS["ours"]:
        yield f"pm {word} x", lambda found: found.ours


def test_each_word_of_the_table_does_what_its_table_says() -> None:
    assert [line for line, holds in _examples() if not holds(read_line(line))] == []


@pytest.mark.parametrize(
    ("name", "text", "line", "runner"),
    [
        ("Makefile", "A := b:c\n.PHONY: all\nall: unit\nbuild:\n\tcc a.c\nunit:\n\tpytest -q\n", "make", "make test"),
        ("Makefile", "build:\n\tcc a.c\ntest:\n\tpytest\n", "make", None),
        ("Makefile", "build:\n\tcc a.c\n.DEFAULT_GOAL := unit\nunit:\n\tpytest\n", "make -j4 V=1", "make test"),
        ("Makefile", "all:\n\tpytest\n", "make --version", None),
        ("Makefile", "# nothing here\n", "make", None),
        ("justfile", "set shell := ['sh']\nalias t := unit\nunit:\n    cargo test\n", "just", "custom"),
    ],
)
def test_a_line_that_names_no_target_is_what_the_default_one_is(
    tmp_path: Path, name: str, text: str, line: str, runner: str | None
) -> None:
    (tmp_path / name).write_text(text)
    test = read_line(line, inside=partial(target_lines, str(tmp_path))).test
    assert (test.runner if test else None) == runner


@pytest.mark.parametrize(
    ("line", "runner"),
    [
        ("npm run verify", "npm test"),
        ("npm run lint", None),
        ("pnpm run everything", "npm test"),
        ("npx --yes jest", "custom"),
        ("make verify", "make test"),
        ("make VERBOSE=1 -j4 verify", "make test"),
        ("make -n verify", None),
        ("make build", None),
        ("make ci", "make test"),
        ("make beside", "make test"),
        ("make named", "make test"),
        ("make A", None),
        ("make circle", None),
        ("just whole", "custom"),
        ("npm exec jest", "custom"),
        ("cross-env CI=1 nyc mocha", "custom"),
        ("uv run just verify", "custom"),
        ("just fmt", None),
        ("just endless", None),
    ],
)
def test_a_test_run_is_seen_through_what_starts_it(tmp_path: Path, line: str, runner: str | None) -> None:
    scripts = '{"scripts": {"verify": "jest --ci", "lint": "eslint .", "everything": "npm run lint && npm run verify"}}'
    (tmp_path / "package.json").write_text(scripts)
    (tmp_path / "Makefile").write_text(
        "A := b\nPY ?= .venv/bin/python\nbuild: a.c\n\tcc a.c\n\nverify: build\n\t@echo tests\n\t-python -m pytest\n"
        "ci: build verify\nbeside: ; pytest\nnamed:\n\t$(PY) -m pytest\ncircle: circle\n"
    )
    (tmp_path / "justfile").write_text(
        "fmt:\n    ruff format\nverify flags='':\n    @cargo test {{flags}}\nendless:\n    just endless\n"
        "whole: fmt verify\n"
    )
    found = read_line(line, inside=partial(target_lines, str(tmp_path))).test
    assert (found and found.runner) == runner


@pytest.mark.parametrize(
    ("line", "cwd", "runner"),
    [
        ("npm run check", "", None),
        ("cd packages/a && npm run check", "", "npm test"),
        ("(cd packages && cd a/src; yarn run deep)", "", "npm test"),
        ("cd packages/a && npm run lint && cd ../.. && npm run check", "", None),
        ("npm run check", "packages/a/src", "npm test"),
        ("cd ../b && npm run check", "packages/a", None),
        ("pnpm run check", "packages/c", None),
        ("cd packages/a && make -C src", "", None),
        ("npm run outside", "", None),
    ],
)
def test_a_script_is_that_of_the_nearest_package_within_the_repository(
    tmp_path: Path, line: str, cwd: str, runner: str | None
) -> None:
    top = tmp_path / "repo"
    (top / "packages/a/src").mkdir(parents=True)
    (top / "packages/b").mkdir()
    (top / "packages/c").mkdir()
    (tmp_path / "package.json").write_text('{"scripts": {"outside": "jest"}}')
    (top / "package.json").write_text('{"scripts": {"check": "eslint ."}}')
    (top / "packages/a/package.json").write_text('{"scripts": {"check": "jest", "deep": "npm run check", "lint": ""}}')
    (top / "packages/b/package.json").write_text('{"scripts": {}}')
    inside = partial(target_lines, str(top / cwd), top=str(top))
    found = read_line(line, inside=inside).test
    assert (found and found.runner) == runner
