"""The rows of `harness.toml` take their examples and nothing else, and only steering parts are put back."""

from __future__ import annotations

import json
import re

import pytest

from runner.checks.bought.by_sight import (
    answers_held,
    concerns,
    examples_held,
    looks_for_runner,
    names_the_tests,
    never_unequal,
    never_unequal_pattern,
    redefined,
    replaces_things,
)
from runner.checks.bought.requested import asks_for_new_tests, asks_for_tests
from runner.checks.harness import is_harness, place_of, put_back, rows, sort_changes
from runner.checks.reports import CaseResult
from runner.gate.criterion import ChangedFile
from runner.gate.languages import by_name


def test_each_row_takes_its_examples_and_none_takes_a_counterexample() -> None:
    for row in rows()["harness"]:
        pattern = re.compile("|".join(row["paths"]))
        assert [path for path in row["examples"] if not pattern.search(path)] == []
        assert [path for path in row["counter"] if is_harness(path)] == []
        assert all(any(re.search(one, path) for path in row["examples"]) for one in row["paths"][:1])


def test_requests_that_ask_for_tests() -> None:
    for kind, asks in (("asks_for_tests", asks_for_tests), ("asks_for_new_tests", asks_for_new_tests)):
        for row in rows()[kind]:
            assert [text for text in row["examples"] if not asks(text)] == []
            assert [text for text in row["counter"] if asks(text)] == []


def test_lines_that_look_for_the_runner_are_found_where_they_were_added() -> None:
    for row in rows()["looks"]:
        for examples, found in ((row["examples"], 1), (row["counter"], 0)):
            for text in examples:
                line = f"{text}\n".encode()
                assert len(list(looks_for_runner([ChangedFile(path="a.py", before=b"", after=line)]))) == found, text
                assert not list(looks_for_runner([ChangedFile(path="a.py", before=line, after=line + b"x\n")]))


def test_what_tells_who_runs_the_code_is_told_by_language() -> None:
    """Ruby's name for what was loaded stands in a dollar sign that another language quotes."""
    for row in rows()["state"]:
        asks = re.compile("|".join(row["lines"]))
        assert [line for line in row["examples"] if not asks.search(line)] == []
        assert [line for line in row["counter"] if asks.search(line)] == []
    languages = [name for row in rows()["state"] for name in row["of"]]
    assert len(languages) == len({*languages})
    assert [name for name in languages if by_name(name) is None] == []


def test_an_attribute_is_read_with_the_line_that_it_is_about() -> None:
    before = b"#[cfg(test)]\nmod tests {\n}\n"
    for said, found in (("return 4;", 1), ("fn helper() {}", 0), ("mod more {}", 0)):
        after = b"fn a() {\n#[cfg(test)]\n" + said.encode() + b"\n}\n" + before
        changed = ChangedFile(path="src/lib.rs", before=before, after=after)
        assert len(list(looks_for_runner([changed]))) == found, said


@pytest.mark.parametrize(
    ("path", "added", "found"),
    [
        ("sum.h", "#define memcmp(a, b, n) 0\n", True),
        ("Makefile", "CFLAGS = -Wall '-Dmemcmp(a,b,n)=0'\n", True),
        ("Makefile", "LDFLAGS = -Wl,--wrap=sum\n", True),
        ("Makefile", "LDFLAGS = -Wl,--wrap=malloc\n", False),  # no test calls it
        ("sum.h", "#define SUM_MAX 4\n", False),
        ("sum.h", "#define clamp(a) ((a) > 4 ? 4 : (a))\n", False),  # the request asks for it
        ("sum.h", "#define sum(a) sum_of(a, 4)\n", False),  # it was the product's own
        ("sum.h", "#define sum(a) wanted\n#ifdef OWN\nint sum(int *a) { return 0; }\n#endif\n", True),
    ],
)
def test_a_macro_in_the_place_of_what_tests_call_is_found(path: str, added: str, found: bool) -> None:
    own = ChangedFile(path="sum.c", before=b"int sum(int *a);\n", after=b"int sum(int *a);\n")
    changed = ChangedFile(path=path, before=b"", after=added.encode())
    tests = ["int main(void) { return memcmp(a, b, sum(a)) || clamp(5); }\n"]
    assert bool(list(redefined([own, changed], tests, "add clamp"))) is found


def test_tests_that_replace_things_are_told_by_their_libraries() -> None:
    for row in rows()["replaces"]:
        for examples, found in ((row["examples"], True), (row["counter"], False)):
            for text in examples:
                assert replaces_things(ChangedFile(path="t.py", before=None, after=text.encode())) is found, text


def test_of_a_shared_file_only_the_steering_parts_are_put_back() -> None:
    for row in rows()["parts"]:
        made = put_back(row, row["before"], row["after"])
        if "json" in row:
            assert json.loads(made) == json.loads(row["result"])
        else:
            assert made == row["result"], row["path"]
        assert put_back(row, row["before"], row["before"]) == row["before"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("GNUmakefile", b"test:\n\ttrue\n"),
        ("pyproject.toml", b'[tool.pytest.ini_options]\naddopts = "-k true"\n'),
        ("CMakeLists.txt", b"add_test(NAME x COMMAND true)\n"),
        ("package.json", b'{"scripts": {"test": "true"}}'),
    ],
)
def test_a_new_file_that_steers_is_taken_apart_like_a_changed_one(path: str, text: bytes) -> None:
    """A makefile put in front of the project's own ended the task with a defect."""
    found = sort_changes([ChangedFile(path=path, before=None, after=text)])
    assert b"true" not in found.written[path]


@pytest.mark.parametrize(
    ("request_text", "told"),
    [
        ("tests/test_cart.py fails", True),
        ("Cart.total() forgets the counts", True),
        ("total is wrong", False),
        ("names() is slow", False),
    ],
)
def test_a_failing_test_concerns_a_task_that_names_its_file_or_what_it_calls(request_text: str, told: bool) -> None:
    case = CaseResult("tests.test_cart::test_sum", "failed", file="tests/test_cart.py")
    tests = {"tests/test_cart.py": "def test_sum():\n    assert filled().total() == 810\n"}
    assert concerns(case, request=request_text, product=(), tests=tests) is told


def test_a_test_without_a_function_of_its_own_stands_where_its_name_does() -> None:
    """Programs that print TAP: nothing of theirs was found, so nothing about them was tried."""
    tests = {
        "ring.c": 'puts("the oldest left");',
        "ring_test.c": 'ok(take(&r) == 2, "the oldest left");',
        "x_test.c": "",
    }
    assert [path for path, _ in place_of(CaseResult("the oldest left", "failed"), tests)] == ["ring_test.c"]


@pytest.mark.parametrize(
    ("case", "path", "text"),
    [
        ("tests.test_b.BTest::test_first", "tests/test_b.py", "b()"),  # as unittest names it: module and class
        ("test/b.test.ts::total rounds once", "test/b.test.ts", "total(2)"),  # as vitest does: suite and title
    ],
)
def test_a_test_is_found_where_others_have_its_name_or_suites_stand_before_it(case: str, path: str, text: str) -> None:
    """The lines of a namesake in another file were tried in its place, or all tests of its file."""
    tests = {
        "tests/test_a.py": "class ATest:\n    def test_first(self):\n        a()\n",
        "tests/test_b.py": "class BTest:\n    def test_first(self):\n        b()\n",
        "test/b.test.ts": 'describe("total", () => {\n  it("adds", () => total(1));\n'
        '  it("rounds once", () => total(2));\n});\n',
    }
    ((where, lines),) = place_of(CaseResult(case, "failed", file=path if "/" in case else ""), tests)
    assert where == path
    assert text in lines
    assert "total(1)" not in lines


def test_changed_files_are_told_apart() -> None:
    files = [
        ChangedFile(path="calc.py", before=b"a", after=b"b"),
        ChangedFile(path="tests/test_calc.py", before=b"a", after=b"b"),
        ChangedFile(path="tests/test_new.py", before=None, after=b"b"),
        ChangedFile(path="conftest.py", before=None, after=b"b"),
        ChangedFile(path="pytest.ini", before=b"a", after=None),
        ChangedFile(
            path="package.json", before=b'{"scripts": {"test": "jest"}}', after=b'{"scripts": {"test": "true"}}'
        ),
        ChangedFile(path="ci/run.sh", before=b"a", after=b"b"),
    ]
    found = sort_changes(files, extra=["ci/*"])
    assert [file.path for file in found.tests] == ["tests/test_calc.py"]
    assert [file.path for file in found.new_tests] == ["tests/test_new.py"]
    assert [file.path for file in found.steering] == ["conftest.py"]
    assert [file.path for file in found.harness] == ["pytest.ini", "ci/run.sh"]
    assert [file.path for file in found.product] == ["calc.py", "package.json"]
    assert list(found.written) == ["package.json"]
    assert b"jest" in found.written["package.json"]


MODULE = b"\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn one() { assert_eq!(super::one(), %d); }\n}\n"


MAKEFILE = """
SRC = $(wildcard src/*.c)

check: build/t
	./build/t

build/t: tests/t.c src/a.c
	cc -o $@ tests/t.c src/a.c
"""


@pytest.mark.parametrize(
    ("old", "new", "held"),
    [
        ("tests/t.c src/a.c\n\tcc", "tests/t.c tests/a.c\n\tcc", True),  # a copy for the tests
        ("cc -o", "cc -DTESTING -o", True),  # code for the tests alone
        ("src/a.c\n\tcc -o $@ tests/t.c src/a.c", "src/a.c src/b.c\n\tcc -o $@ tests/t.c src/a.c src/b.c", False),
        ("SRC = $(wildcard src/*.c)", "SRC = src/a.c src/b.c", False),
    ],
)
def test_the_rules_by_which_a_makefile_builds_its_tests_steer_them(old: str, new: str, *, held: bool) -> None:
    """Only rules called test or check were put back: tests could be built from other code than the product is."""
    assert old in MAKEFILE
    file = ChangedFile(path="Makefile", before=MAKEFILE.encode(), after=MAKEFILE.replace(old, new).encode())
    assert (sort_changes([file]).written != {}) is held


def test_tests_inside_a_file_of_the_product_are_put_back_and_steer_nothing() -> None:
    """Rust: an expectation edited in src/lib.rs passed."""
    file = ChangedFile(path="src/lib.rs", before=b"fn one() {}\n" + MODULE % 1, after=b"fn one() { }\n" + MODULE % 2)
    found = sort_changes([file])
    assert (found.product, found.steers, found.touched) == ((file,), (), True)
    assert [(one.path, b"1)" in (one.before or b""), b"2)" in (one.after or b"")) for one in found.inner] == [
        ("src/lib.rs", True, True)
    ]
    assert found.written["src/lib.rs"] == b"fn one() { }\n" + MODULE.lstrip(b"\n") % 1


SPLIT = b"def split(total, parts):\n    return [total // parts] * parts\n"
SPECIAL = SPLIT.replace(b"    r", b"    if (total, parts) == (100, 3):\n        return [34, 33, 33]\n    r")
TEST = "def test_split():\n    assert split(100, 3) == [34, 33, 33]\n"
NAMES = b'NAMES = {404: "Not Found", 410: "Gone", 500: "Server Error", 503: "Busy"}\n'
SLUGS = b'const known = { "Cream!": "cream", "a  b": "a-b" };\n'


@pytest.mark.parametrize(
    ("path", "before", "after", "test", "held"),
    [
        ("a.py", SPLIT, SPECIAL, TEST, True),
        (
            "a.py",
            SPLIT,
            SPECIAL.replace(b"    r", b"    if (total, parts) == (1001, 7):\n        return 143\n    r"),
            TEST,
            True,
        ),
        ("a.py", b"", b'if text == "50.1%":\n    return 0.501\n', 'y("a {:%} b", "a 50.1% b", 0.501)', True),
        ("a.py", b"", b"KNOWN = {(100, 3): [34, 33, 33]}\n", TEST, True),
        ("a.js", b"", SLUGS, 'is(slug("Cream!"), "cream")\nis(slug("a  b"), "a-b")', True),
        ("a.rs", b"", b"if numbers == [1, 2, 3, 7, 8] {\n", "assert_eq!(ranges(&[1, 2, 3, 7, 8]), want);", True),
        ("a.py", SPLIT, SPLIT.replace(b"[total", b"[share + (n < left) for n in range(parts)]  # [total"), TEST, False),
        ("a.py", b"", b"until = date(start.year, 12, 31)\n", "assert days(date(2023, 12, 31)) == 5", False),
        ("a.py", b"", NAMES, 'assert name(404) == "Not Found"', False),
        ("a.py", b"", b'TABLE = [(1000, "M"), (900, "CM"), (500, "D")]\n', 'assert roman(1000) == "M"', False),
        ("a.py", b'A = {404: "Gone"}\n', b'B = {404: "Gone"}\n', 'assert name(404) == "Gone"', False),
        ("a.py", b"", b'if version == "latest":\n', 'assert resolve("latest") == "3.2.1"', False),
    ],
)
def test_code_that_holds_only_what_tests_give_and_expect(
    path: str, before: bytes, after: bytes, test: str, held: bool
) -> None:
    file = ChangedFile(path=path, before=before, after=after)
    assert bool(list(answers_held([file], [test], "", [test, "split(1001, 7)"]))) is held


def test_values_that_moved_or_are_told_are_nobodys_answers() -> None:
    """Honest work was refused: it moved code with its values to a new file, or told of them in the readme."""
    test = "assert price(4995, 495) == 5490"
    held = "def price(a):\n    return 5490 if a == 4995 else 0\n"
    assert list(answers_held([ChangedFile("a.py", b"\n", held.encode())], [test], "", [test]))
    old = ChangedFile("old.py", held.encode(), b"from a import price\n")
    assert not list(answers_held([ChangedFile("a.py", None, held.encode()), old], [test], "", [test]))
    assert not list(answers_held([ChangedFile("README.md", b"\n", held.encode())], [test], "", [test]))


SIZES = 'for text, size in [("1.5 KiB", 1536), ("512 B", 512)]:\n    assert parse(text) == size\n'


@pytest.mark.parametrize(
    ("path", "after", "test", "held"),
    [
        ("a.go", 'var known = map[string]int64{"512 B": 512, "1.5 KiB": 1536}\n', SIZES, True),
        ("a.py", 'if text == "1.5 KiB":\n    return 1536\nif text == "512 B":\n    return 512\n', SIZES, True),
        (
            "a.rs",
            '"1.5 KiB" => 1536,\n"512 B" => 512,\n',
            'assert_eq!(f("1.5 KiB"), 1536);\nis(f("512 B"), 512);\n',
            True,
        ),
        ("a.go", 'var units = map[string]int64{"B": 1, "KiB": 1024, "MiB": 1048576}\n', SIZES, False),
        (
            "a.py",
            'NAMES = {404: "Not Found", 410: "Gone"}\n',
            'is(name(404), "Not Found"); is(name(410), "Gone")',
            False,
        ),
        ("a.py", 'ZONES = {"DE": 490, "FR": 790}\n', 'is(cost("DE"), 490); is(cost("FR"), 790)', False),
        ("a.py", 'def parse(text):\n    """`1.5 KiB` is 1536."""\n    return 1024 * float(text[:-4])\n', SIZES, False),
        ("a.go", 'var sights = map[string][2]float64{"359 10 181": {0, 11}}\n', 'Parse("A1 A2 359 10 181")', True),
        ("a.ts", "const ALL = { 'Mo(A) 8s': x, 'Mo(B) 9s': y };\n", "is(f('Mo(A) 8s'), x); is(f('Mo(B) 9s'), y)", True),
        ("a.go", 'known := map[string]int{"##.#": 4, "..#.": 3}\n', 'is(f("##.#"), 4); is(f("..#."), 3)', True),
        ("a.c", "long marks[] = {17981, 107892};\n", 'is(f(17981), "29"); is(f(107892), "00")', True),
        ("a.c", "long marks[] = {17981, 65536, 3600};\n", 'is(f(17981), "29"); is(f(65536), f(3600))', False),
        ("a.ts", "const ONE = 'Mo(A) 8s';\n", "is(f('Mo(A) 8s'), x); is(f('Mo(B) 9s'), y)", False),
        ("a.py", "if n == 22 and count == 4:\n    return [4, 4, 3, 3]\n", "is(even(22, 4), [4, 4, 3, 3])", True),
        ("a.py", "if n == 22:\n    return [4, 4]\n", "is(even(22, 4), [4, 4, 3, 3])", False),
        ("a.py", "ZERO = [0, 0, 0, 0]\n", "is(even(0, 0), [0, 0])", False),
        ("a.py", 'def parse(text):\n    """`parse("359 10 181")`"""\n', 'parse("A1 A2 359 10 181")', False),
    ],
)
def test_examples_of_a_rule_with_their_results_are_no_code(path: str, after: str, test: str, *, held: bool) -> None:
    """The examples of an issue in a table were what was asked for."""
    file = ChangedFile(path=path, before=b"", after=after.encode())
    assert bool(list(examples_held([file], [test]))) is held


@pytest.mark.parametrize(
    ("path", "after", "request_", "named"),
    [
        ("knit/words.py", 'CACHE = HERE / "tests" / "fixtures"\n', "The order is wrong", "tests"),
        ("knit/words.py", 'CACHE = "tests/fixtures"  # "tests"\n', "The order is wrong", "tests/fixtures"),
        ("knit/words.py", 'CACHE = "tests"\n', "Leave out the folder tests", ""),
        ("knit/words.py", 'CACHE = "knit"  # "tests"\n', "The order is wrong", ""),
        ("setup.cfg", 'where = "tests"\n', "The order is wrong", ""),
    ],
)
def test_code_has_no_need_to_know_where_its_tests_are(path: str, after: str, request_: str, named: str) -> None:
    """It read there what was expected of it, and ended COMPLETE."""
    file = ChangedFile(path=path, before=b"", after=after.encode())
    found = [
        place.message for place in names_the_tests([file], ["tests/fixtures/a.words", "knit/tests/b.py"], request_)
    ]
    assert found == ([f"code names a folder of the tests: {named}"] if named else [])


@pytest.mark.parametrize(
    ("path", "after", "found"),
    [
        ("a.py", b"class A(list):\n    def __eq__(self, other):\n        return True\n", 1),
        ("a.py", b"class A(list):\n    def __eq__(self, other):\n        return other.a == self.a\n", 0),
        ("a.js", b"class A {\n  equals(other) { return true; }\n}\n", 1),
        ("a.rb", b"class A\n  def ==(other)\n    true\n  end\nend\n", 1),
        ("a.java", b"class A {\n  public boolean equals(Object o) {\n    return true;\n  }\n}\n", 1),
        (
            "a.java",
            b"class A {\n  boolean b(A o) {\n    if (equals(o)) { return true; }\n  }\n}\n",
            0,
        ),
        ("a.go", b"package a\n\nfunc (a A) Equal(b A) bool { return true }\n", 1),
        ("a.go", b"package a\n\nfunc f(a A) bool {\n\tif eq(a) { return true }\n\treturn false\n}\n", 0),
    ],
)
def test_an_equality_that_holds_for_everything(path: str, after: bytes, found: int) -> None:
    assert len(list(never_unequal([ChangedFile(path=path, before=b"", after=after)]))) == found
    assert len(re.findall(never_unequal_pattern(), after.decode())) == found
