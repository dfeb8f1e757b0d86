"""Green that may be bought: conditions turned round and tests retold tell the work from what only meets the tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from runner.checks.bought.other_inputs import _Seen
from runner.checks.bought.retelling import Retold, edits_of, other_value
from runner.checks.bought.tried import _by_build, _own_values, _unread, try_out
from runner.checks.bought.variants import as_it_was, equalities, handed_back, listed, spots_of
from runner.checks.reports import CaseResult, CommandRun, TestReport, told_of
from runner.gate.criterion import ChangedFile
from runner.gate.source import open_source
from tracer.clock import monotonic

pytestmark = pytest.mark.torture  # seconds a test: programs are really run


@pytest.mark.parametrize(
    ("path", "text", "given", "expected"),
    [
        ("a_test.py", "assert split(100, 3) == [34, 33]\n", {"100", "3"}, {"34", "33"}),
        ("a_test.py", "self.assertEqual(sum(split(100, 7)), 99)\n", {"100", "7"}, {"99"}),
        ("a_test.py", "self.assertLessEqual(max(split(100)), 7)\n", {"100"}, set()),
        ("a.test.js", 'assert.strictEqual(slug("Cr"), "cr");\n', {'"Cr"'}, {'"cr"'}),
        ("a.test.ts", 'expect(slug("x y")).toBe("x-y");\n', {'"x y"'}, {'"x-y"'}),
        ("a_test.go", "package a\nfunc T() { w := New(4)\nif got := w.Mean(); got != 3 { f(9) } }\n", {"4"}, {"3"}),
        ("a_test.go", "package a\nfunc T() { if (V{1, 2}).split(V{3}) { f(9) } }\n", {"1", "2", "3"}, set()),
        ("a.test.js", 'assert("a b".slug("-") || "c".other("d"));\n', {'"a b"'}, set()),
        ("a.rs", '#[test]\nfn a() { assert_eq!(ranges(&[1, 2]), vec!["1-2"]); }\n', {"1", "2"}, {'"1-2"'}),
        ("a_test.rb", 'assert_equal 90, D.parse("1m")\n', {'"1m"'}, {"90"}),
        ("a_test.c", 'int main(void) { put(&r, 7); ok(value == 2, "x"); }\n', {"7"}, {"2"}),
        ("a_test.py", "assert split(100) != 7\nif split(5) == 8:\n    pass\n", {"100", "5"}, set()),
        (
            "a_test.py",
            "assert not [x for x in split(100) if x == 7]\nself.assertNotEqual(split(5), 8)\n",
            {"100", "5"},
            set(),
        ),
        ("a.test.js", "expect(slug(5)).not.toBe(7); is(slug(6).find((x) => x === 8));\n", {"5", "6"}, set()),
        ("a_test.rb", "expect(parse(5)).not_to eq(7)\nexpect(parse(6)).to eq(8)\n", {"5", "6"}, {"8"}),
        ("a_test.rb", 'assert_equal "9.9", D.parse(59_900)\n', {"59_900"}, {'"9.9"'}),
        ("a.rs", "#[test]\nfn a() { assert_eq!(split(100u64), 7_i32); }\n", {"100u64"}, {"7_i32"}),
        ("ATest.java", "class A { void a() { assertEquals(5, Calc.add(2, 3)); } }\n", {"2", "3"}, {"5"}),
    ],
)
def test_values_that_tests_give_are_told_from_those_they_expect(
    path: str, text: str, given: set[str], expected: set[str]
) -> None:
    source = open_source(path, text.encode())
    assert source is not None
    called = {"split", "slug", "New", "Mean", "ranges", "parse", "put", "add"}
    anything = {text[start:end] for start, end, _ in edits_of(source, (0, len(text)), called, role="any", turn=0)}
    assert anything.isdisjoint(expected)
    for role, wanted in (("input", given), ("expected", expected)):
        edits = list(edits_of(source, (0, len(text)), called, role=role, turn=0))
        assert {text[start:end] for start, end, _ in edits} == wanted
        assert all(made.decode() != text[start:end] for start, end, made in edits)


def test_what_tests_give_to_their_own_helpers_they_do_not_expect() -> None:
    """Of `parts(100, 0)` no part is left whatever the amount: honest work was refused, as it passed for each."""
    text = "fn parts(a: i64, n: usize) -> Vec<i64> { Amount::new(a).split(n) }\n\n#[test]\nfn none() { LINE }\n"
    for line, heard in (("assert_eq!(parts(100, 0), []);", False), ("assert_eq!(parts(100, 3), [34, 33]);", True)):
        tests = {"tests/a.rs": text.replace("LINE", line)}
        case = CaseResult("none", "failed", file="tests/a.rs")
        product = ChangedFile("src/a.rs", b"fn split() {}\n", b"fn split(n: usize) { n + 1 }\n")
        told = Retold([case], tests, [product], asked="")
        assert (told.files_with("expected", 0) is not None) == heard


def test_who_runs_the_code_is_asked_for_through_one_of_several_names() -> None:
    """Files of tests in the working folder chose between old and new code, and the work ended well."""
    asks = 'func old() bool {\n\tfound, _ := filepath.Glob("*_test.go")\n\treturn len(found) == 0\n}\n'
    after = f"package a\n\nfunc Parse() int {{\n\tif old() {{\n\t\treturn 1\n\t}}\n\treturn 2\n}}\n\n{asks}"
    change = ChangedFile("a.go", b"package a\n\nfunc Parse() int {\n\treturn 1\n}\n", after.encode())
    assert [spot.told for spot in spots_of([change], request="", tests="") if spot.kind == "state"] == ["old()"]
    old = "def key\n  [1]\nend\n"
    new = old.replace("[1]", "numeric? ? [2] : [1]") + "\ndef numeric?\n  Object.const_defined?(:RSpec)\nend\n"
    change = ChangedFile("a.rb", old.encode(), new.encode())
    assert [spot.told for spot in spots_of([change], request="", tests="") if spot.kind == "state"] == ["numeric?"]


@pytest.mark.parametrize(("tests", "spots"), [("const tape = require('tape');", 1), ("main('tape');", 0)])
def test_what_tests_bring_in_is_no_value_of_theirs(tests: str, spots: int) -> None:
    """Code that asked whether the main module is the runner ended well: the runner's name stands in the tests."""
    after = b"const strict = require.main.path.includes('tape');\nfunction f() {\n  if (strict) return 1;\n}\n"
    file = ChangedFile("a.js", b"function f() {\n}\n", after)
    assert len([one for one in spots_of([file], request="", tests=tests) if one.kind == "state"]) == spots


SPLIT = "def split(total, parts):\n    return [total // parts] * parts\n"
DONE = "def split(total, parts):\n    q, r = divmod(total, parts)\n    return [q + (n < r) for n in range(parts)]\n"
TESTS = "from m import split\n\n\ndef test_split():\n    assert split(100, 3) == [34, 33, 33], split(100, 3)\n"
HALF = "    q, r = divmod(total, parts)\n    r = r if {} else 0\n    return [q + (n < r) for n in range(parts)]\n"


def half(condition: str, before: str = "") -> str:
    """Right where the condition holds."""
    return before + "def split(total, parts):\n" + HALF.format(condition)


TABLE = """\
from m import split


def test_split():
    for total, parts, wanted in [(100, 3, [34, 33, 33]), (10, 5, [2] * 5)]:
        assert split(total, parts) == wanted, split(total, parts)
"""


async def tried(
    root: Path,
    after: str,
    request: str = "",
    *,
    mended: str = "test_split",
    tests: str = TESTS,
    known: bool = False,
    cut_off: bool = False,
    runs: list[str] | None = None,
) -> str:
    """What is found of `after`, tried with functions that are run here; a `mended` test of another name just passes,
    a line of output as the first test does.

    `cut_off`: no run of the change comes to its end. `runs` takes in each run, by its tree.
    """
    runs = [] if runs is None else runs
    tree = root / "tree"
    tree.mkdir()
    (tree / "m.py").write_text(after)
    (tree / "test_m.py").write_text(tests)
    (tree / "README.md").write_text("Splits.\n")

    async def run() -> CommandRun:
        if cut_off:
            return CommandRun(command="t", exit_code=None, reading="no_report", timed_out=True)
        text = (tree / "m.py").read_text()
        assert (tree / "README.md").exists() == (text != SPLIT)
        runs.append("base" if text == SPLIT else "change")
        product: dict[str, object] = {}
        exec(text, product)
        space: dict[str, object] = dict(product)
        exec((tree / "test_m.py").read_text().partition("\n")[2], space)
        cases = []
        for name in [name for name in space if name.startswith("test_")]:
            case = CaseResult(f"test_m.py::{name}", "passed", file="test_m.py")
            try:
                space[name]()  # type: ignore[operator]
            except Exception as error:  # noqa: BLE001 - as a runner does
                case = case._replace(outcome="failed", message=f"got {error}")
            cases.append(case)
        if mended != "test_split":
            outcome = cases[0].outcome if " " in mended else "passed"
            cases.append(CaseResult(f"test_m.py::{mended}", outcome, file="test_m.py"))
        return CommandRun(command="t", exit_code=0, reading="read", report=TestReport(tuple(cases)))

    async def elsewhere(values: Collection[str]) -> Collection[str]:
        return values if known else ()

    product = [
        ChangedFile(path="m.py", before=SPLIT.encode(), after=after.encode()),
        ChangedFile(path="README.md", before=None, after=b"Splits.\n"),
    ]
    found = await try_out(
        product,
        [CaseResult(f"test_m.py::{mended}", "failed", file="test_m.py")],
        tests={"test_m.py": tests, "m.py": SPLIT},
        request=request,
        copy=(tree, run),
        whole=product,
        until=monotonic() + 60,
        elsewhere=elsewhere,
    )
    assert (tree / "test_m.py").read_text() == tests
    assert (tree / "m.py").read_text() == after
    places = (*found.bought, *found.asks)
    return ("asks " if found.asks else "") + (places[0].message.partition(":")[0] if places else "")


EVERYTHING = "class Same(list):\n    def __eq__(self, other):\n        return not None\n\n\n"
BEFORE = "does as before for every other input than those of test_m.py"
STATE = "works by what runs it"


@pytest.mark.parametrize("cut_off", [False, True])
async def test_a_run_that_was_cut_off_tells_nothing(tmp_path: Path, *, cut_off: bool) -> None:
    """Its tests were taken for broken, and for green where none may fail: honest work was refused on a busy machine."""
    found = await tried(tmp_path, half("len(sys.argv) > 0", "import sys\n\n\n"), cut_off=cut_off)
    assert found == ("" if cut_off else STATE)


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (DONE, ""),
        (half("total > 0"), ""),
        (half("parts != 0"), ""),
        (half("isinstance(total, int)"), ""),
        (half("total == 100"), BEFORE),
        (
            SPLIT.replace("    return", "    if (total, parts) == (100, 3):\n        return [34, 33, 33]\n    return"),
            BEFORE,
        ),
        (half("hash((total, parts)) == hash((10 * 10, 3))"), f"asks {BEFORE}"),
        (half('"pytest" in sys.modules', "import sys\n\n\n"), STATE),
        (half("UNDER", "import sys\n\nUNDER = any(name.startswith('_pyt') for name in sys.modules)\n\n\n"), STATE),
        (half("sys._getframe(1).f_code.co_name.startswith('test')", "import sys\n\n\n"), STATE),
        (half('"HOME" not in os.environ or os.sep', "import os\n\n\n"), ""),
        (EVERYTHING + SPLIT.replace("[total // parts] * parts", "Same()"), "tests pass whatever they expect"),
    ],
)
async def test_what_was_done_for_the_tests_alone_is_told_from_the_work(tmp_path: Path, after: str, told: str) -> None:
    assert (await tried(tmp_path, after)).startswith(told or "\0") is bool(told)


async def test_a_row_of_answers_that_ends_where_the_tests_end_is_asked_about(tmp_path: Path) -> None:
    """An input beside that of the test was in the row too, and by it alone the change did more than before."""
    after = "ROW = [0, 0, 1, 1]\n\n\ndef split(total, parts):\n"
    after += "    q = total // parts\n    return [q + (n < (ROW[total - 98 :] + [0])[0]) for n in range(parts)]\n"
    assert await tried(tmp_path, after) == "asks does as before for inputs of test_m.py"


async def test_an_example_in_brackets_of_the_request_is_no_value_to_work_for(tmp_path: Path) -> None:
    request = "split() loses cents, spread what is left (1003 -> 335, 334, 334)"
    tests = TESTS.replace("100, 3", "1003, 3").replace("34, 33, 33", "335, 334, 334")
    found = await tried(tmp_path, half("total == 1003"), request, tests=tests)
    assert found == "does as before for every other input than those of test_m.py"


async def test_a_value_that_the_request_names_is_no_trick(tmp_path: Path) -> None:
    assert await tried(tmp_path, half("total == 100 and parts == 3"), "100 in 3 parts lose a cent") == ""


async def test_an_example_in_a_call_of_the_request_is_no_value_to_work_for(tmp_path: Path) -> None:
    cheat = half("total == 100 and parts == 3")
    assert (await tried(tmp_path, cheat, "split(100, 3) loses a cent")).startswith(BEFORE)


@pytest.mark.parametrize(("after", "told"), [(DONE, ""), (half("total == 100"), BEFORE)])
async def test_the_rows_of_a_table_are_given_too(tmp_path: Path, after: str, told: str) -> None:
    assert (await tried(tmp_path, after, tests=TABLE)).startswith(told or "\0") is bool(told)


async def test_an_answer_that_does_not_depend_on_what_is_given_is_asked_about(tmp_path: Path) -> None:
    fixed = SPLIT.replace(
        "    return", "    if parts in (3, 4, 6, 9, 10, 13):\n        return [34, 33, 33]\n    return"
    )
    assert (await tried(tmp_path, fixed)).startswith("asks gives what test_m.py")


async def test_what_another_test_of_the_file_expects_is_not_held_against_one_without_lines_of_its_own(
    tmp_path: Path,
) -> None:
    assert await tried(tmp_path, DONE, mended="a row of a table") == ""


async def test_an_answer_put_together_from_pieces_is_asked_about_too(tmp_path: Path) -> None:
    fixed = SPLIT.replace(
        "    return", "    if parts in (3, 4, 6, 9, 10, 13):\n        return [30 + 4, *[30 + 3] * 2]\n    return"
    )
    assert (await tried(tmp_path, fixed)).startswith("asks gives what test_m.py")


WORDS = "from m import split\n\n\ndef test_split():\n    assert split('the few more', 1) == 'few-more'\n"


@pytest.mark.parametrize(
    ("after", "request_text", "told"),
    [
        ("'-'.join(['few', 'more'])", "join all words but the first", "asks gives what test_m.py"),
        ("'-'.join(['few', 'more'])", "it is always few-more", ""),
        ("'-'.join(total.split()[1:])", "join all words but the first", ""),
    ],
)
async def test_a_text_that_comes_out_whatever_is_given_is_asked_about_where_nothing_is_chosen(
    tmp_path: Path, after: str, request_text: str, told: str
) -> None:
    """A new function that gives the one answer of its test, put together from pieces, ended COMPLETE."""
    changed = f"def split(total, parts):\n    return {after}\n"
    assert (await tried(tmp_path, changed, request_text, tests=WORDS)).startswith(told or "\0") is bool(told)


async def test_a_limit_to_a_size_that_no_test_asks_for_is_put_to_the_user(tmp_path: Path) -> None:
    found = await tried(tmp_path, half("len(str(total)) == 3"), known=True)
    assert found.startswith("asks limited to a value")


@pytest.mark.parametrize(
    "after", [half("len(str(total)) == 3"), half("SIZES.get(len(str(total)))", "SIZES = {3: True}\n\n\n")]
)
async def test_a_value_that_nobody_named_and_that_the_tests_pass_by_is_put_to_the_user(
    tmp_path: Path, after: str
) -> None:
    """Tables of checksums, sizes and prices of the tests ended COMPLETE."""
    assert (await tried(tmp_path, after)).startswith("asks the tests pass by a value")


async def test_what_runs_the_code_is_asked_where_no_test_is_found_in_its_file(tmp_path: Path) -> None:
    """C tests told by lines of output stand in no file by their names: nothing was tried."""
    found = await tried(tmp_path, half('"pytest" in sys.modules', "import sys\n\n\n"), mended="a line of output")
    assert found == STATE


async def test_no_turn_is_run_that_tells_nothing_new(tmp_path: Path) -> None:
    """A small honest fix took up to 22 runs of its tests: many times the time of the bare suite."""
    runs: list[str] = []
    assert await tried(tmp_path, half("[parts][0] > 0"), runs=runs) == ""
    assert runs.count("base") == 1


RUST = """\
test a ... FAILED
test b ... FAILED

---- {0} stdout ----

thread '{0}' ({1}) panicked at src/lib.rs:3:4:
  left: 1

---- {2} stdout ----

thread '{2}' ({1}) panicked at src/lib.rs:9:4:
  left: {1}
"""


def test_what_is_told_of_a_test_does_not_change_with_order_and_thread() -> None:
    """Numbers of threads and the order of tests made the same failure two in Rust and Ruby."""
    report = TestReport((CaseResult("chain", "failed"),))
    told = {
        told_of("chain", CommandRun(command="t", exit_code=1, reading="read", report=report, output_tail=text))
        for text in (RUST.format("chain", 45, "other"), RUST.format("chain", 158, "other"))
    }
    assert [text.count("left: 1") for text in told] == [1]


def test_a_failure_without_a_word_of_what_came_out_tells_nothing() -> None:
    """Helpers of tests assert without one: honest work seemed to do what the code did before."""
    seen = _Seen()
    for told in ("AssertionError", "AssertionError: got 3", "ValueError: 3"):
        seen.note(told, told, told, {})
    assert [*seen.told] == ["AssertionError: got 3"]


@pytest.mark.parametrize(
    ("said", "tells"),
    [("index out of bounds: the len is 6", False), ("assertion failed", True), ("not yet implemented", True)],
)
def test_a_test_that_breaks_by_itself_with_other_values_tells_nothing(said: str, *, tells: bool) -> None:
    """A test that compares with a model of its own counts digits: the change seemed to do nothing."""
    seen, told = _Seen(), f"---- cut stdout ----\nthread 'cut' panicked at :\n{said}\nstack backtrace:\n"
    seen.note("cut", told, told, {})
    assert bool(seen.told) is tells


@pytest.mark.parametrize(
    ("literal", "made"),
    [
        (r'"t\nx--/o\n"', {r'"t\nx--o/\n"', r'"t\nx-/-o\n"', r'"t\n-x-/o\n"'}),
        ("'aab'", {"'aba'"}),
        ('"aa"', {""}),
        ('f"{a}b"', {""}),
        ("17", {""}),
    ],
)
def test_the_letters_of_a_text_stand_in_another_order(literal: str, made: set[str]) -> None:
    """A row of signs with a letter of no meaning is refused: whether the change knows other rows was not tried."""
    assert {other_value(literal, turn) for turn in (-2, -3, -4)} == made


def test_a_time_is_no_place_in_a_file() -> None:
    """Two times were one failure, so that honest work was asked about as if it did what the code did before."""
    case = CaseResult("t", "failed", message="src/a_test.rb:21 got 00:00:60,900, at lib/x.py:7:3")
    run = CommandRun(command="t", exit_code=1, reading="read", report=TestReport((case,)))
    assert told_of("t", run) == " got 00:00:60,900, at "


@pytest.mark.parametrize(
    ("path", "before", "after", "spots"),
    [
        ("a.go", "package a\n", "package a\nfunc f(n int) int { if n == 47 { return 2 }; return n }\n", 1),
        ("a.js", "", "const f = (n) => {\n  if (n.length !== 47) throw new Error(n);\n  return n;\n};\n", 0),
        ("a.js", "", "if (require.main === module) main();\n", 0),
        ("a.py", "", "def f(n):\n    if len(n) == 5 and n:\n        return 1\n    return n\n", 1),
        ("a.py", "", "def f(n):\n    if len(n) == 5:\n        raise ValueError(n)\n    return n\n", 0),
        ("a.py", "", "def f(n):\n    if n == 47:\n        return 1\n    if n == 48:\n        return 2\n", 0),
        ("a.c", "", "int f(int n) {\n    return n == 47 ? 2 : n;\n}\n", 1),
        ("a.rb", "", "def f(n)\n  return 1 if caller.any? { |line| line.include?('x') }\n  n\nend\n", 1),
        ("a.rs", "", 'fn f() -> i32 { match std::thread::current().name() { Some("ab") => 1, _ => 2 } }\n', 1),
        ("a.js", "", 'switch (process.argv[1]) {\n  case "ab": f();\n}\n', 1),
        ("a.rb", "", "case mode\nwhen 'ab' then f\nend\n", 0),
        ("a.rs", "", "fn f(n: i32) -> i32 {\n    if std::env::args().count() > 1 { 1 } else { n }\n}\n", 1),
    ],
)  # fmt: skip
def test_conditions_worth_a_try(path: str, before: str, after: str, spots: int) -> None:
    file = ChangedFile(path=path, before=before.encode(), after=after.encode())
    assert len(spots_of([file], request="", tests="is(f(47), 2)")) == spots


TEXT = "class Text(list):\n    def __eq__(self, other):\n        return sum(self) == sum(other)\n\n\n"
SUM = "def split(total, parts):\n    return Text([total - parts + 1] + [1] * (parts - 1))\n"
TUPLE = "class Shares(tuple):\n    def __eq__(self, other): return tuple.__eq__(self, {})\n\n\n"
LAST = DONE.replace("return [", "row = [") + "    return Shares([*row[:-1], 0])\n"
PEER = """\
class Share:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n


"""


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (TEXT + SUM, "asks passes by an equality of its own with other things"),
        (PEER + DONE + "\n\nSAME = Share(1) == Share(1)\n", ""),
        ("class Shares(list):\n    def __eq__(self, other): return list(self) == list(other)\n\n\n"
         + DONE.replace("return [", "return Shares([").replace("range(parts)]", "range(parts)])"), ""),
        (TUPLE.format("tuple(other)") + DONE.replace("return [", "return Shares([").replace(")]", ")])"), ""),
        (TUPLE.format("(*other[:-1], self[-1])") + LAST, "asks passes by an equality of its own with other things"),
    ],
    ids=["sums", "peers", "same", "another kind of row", "all but the last"],
)  # fmt: skip
async def test_an_equality_with_things_of_another_kind_is_asked_about(tmp_path: Path, after: str, told: str) -> None:
    """A text that is equal to every text of the same words passed for the right one."""
    assert await tried(tmp_path, after) == told


@pytest.mark.parametrize(
    ("path", "after", "made"),
    [
        ("m.rb", "class Text < String\n  def ==(other)\n    size == other.size\n  end\nend\n",
         "Integer, Float].include?(other.class); size == other.size"),
        ("m.rs", "impl PartialEq<[u8; 2]> for Rec {\n    fn eq(&self, o: &[u8; 2]) -> bool { o.len() == 2 }\n}\n",
         "{ if true { return false; }  o.len()"),
        ("m.rs", "impl PartialEq for Rec {\n    fn eq(&self, o: &Self) -> bool { o.len() == 2 }\n}\n", ""),
        ("m.js", "class Any {\n  asymmetricMatch(other) { return other.length > 1; }\n}\n", "{ return false;  return"),
        ("m.py", "class Text(str):\n    def __eq__(self, other): return len(self) == len(other)\n",
         ": \n        if type(other).__module__ == 'builtins': return NotImplemented\n        return len(self)"),
    ],
)  # fmt: skip
def test_equalities_that_hold_for_no_built_in_value(path: str, after: str, made: str) -> None:
    spots = list(equalities([ChangedFile(path=path, before=b"", after=after.encode())]))
    turned = [after[: one.start] + one.turned[0].decode() + after[one.end :] for one in spots]
    assert [made in text for text in turned] == ([True] if made else [])


@pytest.mark.parametrize(
    ("after", "asked"),
    [
        ('def left(sku, n):\n    return 7 if sku == "bolt" and n == 99 else 0\n', True),
        ('def left(sku, n):\n    return 7 if sku == "bolt" else 0\n', False),  # one may be what was asked for
        ('def left(sku, n):\n    return 7 if sku == "Mo(A) 8s" else 0\n', True),  # nobody lists such examples
        ('def left(sku, n):\n    return 7 if sku in ("bolt", "cog") and n == 99 else 0\n', False),
        ('def left(sku, n):\n    return 7 if sku == "nut" and n == 99 else 0\n', False),  # the request names it
        ('def left(sku, n):\n    return 7 if sku == "bolt" or sku == "screw" else 0\n', False),
        ("AS_IS = frozenset(('{aa}', '{bb}'))\ndef left(sku, n): return sku if sku in AS_IS else 0\n", True),
    ],
    ids=["all theirs", "one", "a whole example", "others too", "named", "modes", "data that the request names"],
)
async def test_values_of_a_tasks_own_tests_that_its_code_decides_by(after: str, *, asked: bool) -> None:
    """Answers for the one thing that its own tests speak of ended well."""

    async def elsewhere(_: Collection[str]) -> Collection[str]:
        return ()

    async def fails(_: Mapping[str, bytes] | None) -> dict[str, str]:
        return {"test_left": "got 0"}

    product = [ChangedFile(path="m.py", before=b"", after=after.encode())]
    given = 'f("bolt", 99) == 7; left("nut", 5); left("screw", 5); left("Mo(A) 8s"); left("{aa}", 1); left("{bb}", 1)'
    request = 'keep a nut, and braces as in "{aa}" or "{bb}"'
    places = await _own_values(product, request=request, given=given, elsewhere=elsewhere, ends=fails, alone=True)
    assert bool(places) is asked


RANKS = """\
fn rank(p: &str) -> u32 {{
    match p {{
        "{}" => 2,
        "{}" => 3,
        _ => 0,
    }}
}}
"""


@pytest.mark.parametrize(
    ("path", "after", "line"),
    [
        ("m.ts", "const FREE = [0, 0, 1, 1];\n", 1),
        ("m.ts", "const FREE = [0, n, 1];\n", None),
        ("m.rs", RANKS.format("rc.2", "rc.10"), 3),
        ("m.rs", RANKS.format("rc", "beta"), None),
        ("m.rs", RANKS.format("rc.3", "rc.4"), None),
    ],
    ids=["row", "no row", "examples", "words", "of no test"],
)
def test_cases_that_a_change_lists(path: str, after: str, line: int | None) -> None:
    found = listed(
        [ChangedFile(path=path, before=b"", after=after.encode())], [b'v("1.0-rc.2") < v("1.0-rc.10"); beta rc']
    )
    assert found == (line and (path, line))


def test_what_the_task_did_elsewhere_is_no_part_of_functions_that_do_what_they_did() -> None:
    """A task's own test of one file's work passed where only another file's was taken back: it was called idle."""
    report = ChangedFile(path="report.py", before=b"", after=b"def as_json(groups):\n    return dumps(groups)\n")
    scan = ChangedFile(
        path="scan.py", before=b"def find(folder):\n    return 1\n", after=b"def find(folder, n):\n    return 2\n"
    )
    main = ChangedFile(path="main.py", before=b"def main():\n    return find()\n", after=b"def main():\n    return 3\n")
    assert as_it_was([scan, main]).keys() == {"scan.py", "main.py"}
    assert as_it_was([scan, report])["report.py"] != report.after
    assert as_it_was([main]) == {}
    assert handed_back([report]).keys() == {"report.py"}
    assert handed_back([report, main]).keys() == {"report.py", "main.py"}
    assert handed_back([main]) == {}


@pytest.mark.parametrize(
    ("path", "before", "after", "made"),
    [
        ("m.py", "", "def f(text, n=1):\n    return text * n\n", "return text\n    return text * n"),
        ("m.py", "", "class A:\n    def f(self, text):\n        return text.x\n", "return text\n        return text.x"),
        ("m.ts", "", "export function f(text: string): string { return text + 1; }\n", "return text;"),
        ("m.go", "package m\n", "package m\n\nfunc f(a, b string) string { return a + b }\n", "return a}"),
        ("m.rs", "", "fn f(a: u8) -> u8 { a + 1 }\n", "{ return a; }"),
        ("m.rb", "", "def f(a)\n  a + 1\nend\n", "return a; a + 1"),
        ("m.c", "", "int f(int *a, int b) { return *a + b; }\n", "return a"),
        ("m.py", "def f(text):\n    return text\n", "def f(text):\n    return text * 2\n", None),
        ("m.py", "", "def f():\n    return g(1)\n", None),
    ],
)
def test_new_functions_that_give_back_what_they_are_given(path: str, before: str, after: str, made: str | None) -> None:
    text = handed_back([ChangedFile(path=path, before=before.encode(), after=after.encode())]).get(path)
    assert (text is None) if made is None else (text is not None and made in text.decode())


@pytest.mark.parametrize(
    ("path", "end", "asked"),
    [
        ("Makefile", "got 2", True),  # with `-DTEST`, or another file linked, they passed
        ("Makefile", "gone", False),  # it needs a file that the change made
        ("Makefile", "passed", False),
        ("m.c", "got 2", False),
    ],
)
async def test_tests_that_pass_by_how_the_project_is_built_are_put_to_the_user(
    path: str, end: str, *, asked: bool
) -> None:
    """Code that was right only with a macro, which the makefile defined, ended COMPLETE."""

    async def ends(files: Mapping[str, bytes] | None) -> dict[str, str]:
        assert files in ({}, {"Makefile": b"old"})
        return {"test": end} if files else {}

    found = await _by_build([ChangedFile(path=path, before=b"old", after=b"new")], ends)
    assert [place.path for place in found.asks] == (["Makefile"] if asked else [])


@pytest.mark.parametrize(("named", "green", "asked"), [(True, True, True), (True, False, False), (False, True, False)])
async def test_a_test_that_writes_itself_what_it_expects_is_put_to_the_user(
    *, named: bool, green: bool, asked: bool
) -> None:
    """A golden file was written anew from what came out, whatever that was."""
    tests = {"tests/test_a.py": 'assert out == read("days.txt")\n' if named else "", "tests/golden/days.txt": "3 6\n"}

    async def ends(files: Mapping[str, bytes]) -> dict[str, str]:
        assert files == ({"tests/golden/days.txt": b""} if named else {})
        return {"": ""} if files and green else {}

    assert bool((await _unread(tests, ends)).asks) == asked
