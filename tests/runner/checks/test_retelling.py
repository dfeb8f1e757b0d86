"""Values that nobody named and that code decides by, in each language."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.checks.bought.deciding import relabelled, unnamed
from runner.checks.bought.retelling import CHOICES, Retold, kinds_of
from runner.checks.bought.variants import spots_of
from runner.checks.harness import named_in
from runner.checks.reports import CaseResult
from runner.gate.criterion import ChangedFile
from runner.gate.source import open_source


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.py", "TABLE = {216613673: 3, 7: 0}\n", ["216613673", "7"]),
        ("a.py", "if len(words) == 5 and words[1::2] == ['OR', 'AND']:\n    pass\n", ["5", "OR", "AND"]),
        ("a.py", "SHAPES = ('tag a', 'tag b')\nif text in SHAPES:\n    pass\n", ["tag a", "tag b"]),
        ("a.py", "cost = left * 30 + 24 * 60\n", ["30"]),
        ("a.py", "if number % 100 in (11, 12, 13):\n    pass\n", ["13"]),  # 12nd has a unit
        ("a.py", "label = 'payroll'\nraise ValueError('payroll')\n", []),
        ("a.py", "if mode == 'known' or n == 2 or x == '.':\n    pass\n", []),
        ("a.js", "if (name.startsWith('payroll')) { f(); }\nswitch (n) { case 47: f(9); }\n", ["payroll", "47"]),
        ("a.ts", "const T: Record<string, string> = { '21/4': 'x', b: 'y' };\n", ["21/4"]),
        ("a.go", 'package a\nvar t = map[[2]int]int{{6, 8}: 240}\nfunc f() { g("hook") }\n', ["6", "8"]),
        ("a.rs", "fn f(n: u32) -> u32 { match n { 47 => 5, _ => if n == 9 { 6 } else { 7 } } }\n", ["47", "9"]),
        ("a.rb", "x = s.sub('02,700', '02,007') if n == 5\nputs 'payroll'\n", ["02,700", "02,007", "5"]),
        ("a.py", "''.join({'payroll': 'x'}.get(name, ''))\n", ["payroll"]),
        ("a.rb", "x = 1 if s.start_with?('payroll')\n", ["payroll"]),
        ("a.c", "int f(int n) { return n == 47 ? 5 : 6; }\n", ["47"]),
        ("a.java", "class A { int f(int n) { return n == 47 ? 5 : 6; } }\n", ["47"]),
        ("a.go", "package a\nfunc f() bool { return crc(s) == 0x1f2e }\n", ["0x1f2e"]),
        ("a.c", "int f(char *p) { p += 3; return *p == 'x'; }\n", []),  # it counts on
        ("a.js", "if (name.match(/^(?<value>payroll)$/)) { f(); }\n", ["payroll"]),
        ("a.rb", "AS_IS = ['a\\\\b', '{{mail}}'].freeze\nAS_IS.include?(x)\n", ["a\\\\b", "{{mail}}"]),
        ("a.js", "const ALL = new Set(['payroll']);\nALL.has(x);\n", ["payroll"]),
        ("a.js", "const all = new Set(['payroll']);\nf(all);\n", []),
        ("a.py", "if text in ('2w', '1w', '2 1/2'):\n    pass\n", ["1w", "2 1/2"]),
        ("a.py", "if letter in 'abcdef' or text == 'cabbage':\n    pass\n", ["cabbage"]),
    ],
)
def test_values_that_code_decides_by(path: str, text: str, found: list[str]) -> None:
    source = open_source(path, text.encode())
    assert source is not None
    lines = range(1, text.count("\n") + 1)
    values = unnamed(
        source, lines, before="", request="the known mode, 2w, 2 1/2, 11th and 12nd", given="is(f(30), 9, 100, '2 1/2')"
    )
    assert [value for _, value in values] == found


def test_what_other_files_of_the_project_name_is_known(tmp_path: Path) -> None:
    """`deny` in a file of types, a field's name: the code's own words are nobody's answer."""
    texts = {"types.ts": "'deny' 470 a250ms", "a.ts": "letter", "test/a.test.ts": "payroll", "build/a": "\0 47 payroll"}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    changed = [ChangedFile(path="a.ts", before=b"", after=b"letter")]
    assert named_in(tmp_path, {"deny", "47", "ms", "letter", "payroll"}, changed) == {"deny", "ms"}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("rates of 19 % and 7 %", ["3", "47"]),
        ("groups of three", ["47", "107"]),
        ("", ["3", "47", "107"]),
    ],
)
def test_numbers_that_anybody_knows_are_no_answers(said: str, found: list[str]) -> None:
    """A day's seconds, `groups of three` and a price with 7 % on it were taken for values of the tests alone."""
    source = open_source("a.py", b"DAY = 86400\nWEEK = 604800\nif n == 3:\n    x = 47 + 107 + 1000\n")
    assert source is not None
    values = unnamed(source, range(1, 5), before="", request=said, given="is(f(86400), 47, 107, 1000, 604800)")
    assert [value for _, value in values] == found


@pytest.mark.parametrize(
    ("path", "text", "made"),
    [
        ("a.rs", 'fn f() { match name() { Some("quoted") => g("a"), _ => {} } }', 'Some("juoted") => g("a")'),
        ("a.go", 'package a\nfunc f() { switch g() { case "ab", "c": h("ab") } }', 'case "zb", "x": h("ab")'),
        ("a.js", 'switch (f()) { case "ab": g("ab"); break; default: h(); }', 'case "zb": g("ab");'),
        ("a.rb", "case $0\nwhen /ab/, 'b' then g('b')\nend\n", "when /(?!)/, 'y' then g('b')"),
        ("a.py", "match f():\n    case 'ab':\n        g('ab')\n", "case 'zb':\n        g('ab')"),
        ("a.c", "void f() { switch (g()) { case 47: h(47); } }", "case 48: h(47);"),
        ("A.java", 'class A { void f() { switch (g()) { case "ab": h("ab"); } } }', 'case "zb": h("ab");'),
    ],
)
def test_a_choice_gets_other_labels(path: str, text: str, made: str) -> None:
    source = open_source(path, text.encode())
    assert source is not None
    assert made in relabelled(source, source.nodes(kinds_of(source, CHOICES))[0]).decode()


def test_words_are_renamed_alike_but_not_those_that_code_goes_by() -> None:
    """Each word alone was another one: a filter found none of them, before and after, as if its parser did nothing."""
    test = 'SOUP = make(title="Red lentils")\n\n\ndef test_it():\n    assert has("red and title:lentils", SOUP)\n'
    product = ChangedFile(path="m.py", before=b"", after=b"if word == 'and':\n    pass\n")
    case = CaseResult("test_m.py::test_it", "failed", file="test_m.py")
    files, varied = Retold([case], {"test_m.py": test}, [product], asked="").renamed()
    other = test.replace('"Red lentils"', '"Rew lentilh"').replace("red and title:lentils", "rew and title:lentilh")
    assert (files["test_m.py"].decode(), varied) == (other, {case.id})


def test_words_are_renamed_in_the_fixtures_of_the_tests_as_well() -> None:
    """A key of taxa lay in a file of its own: no other word of the test stood there, before and after."""
    test = 'from maples import KEY\n\n\ndef test_it():\n    assert taxa(KEY, "lobed") == ["maple"]\n'
    fixture, other = 'KEY = {"leaf": [("lobed", "maple")]}\n', 'LIST = ["oak"]\n'
    tests = {"tests/test_m.py": test, "tests/maples.py": fixture, "tests/oaks.py": other}
    case = CaseResult("tests/test_m.py::test_it", "failed", file="tests/test_m.py")
    files, varied = Retold([case], tests, [ChangedFile(path="m.py", before=b"", after=b"x = 1\n")], asked="").renamed()
    assert {path: text.decode() for path, text in files.items()} == {
        "tests/test_m.py": test.replace("lobed", "lobew").replace('"maple"', '"maplv"'),
        "tests/maples.py": fixture.replace("lobed", "lobew").replace('"maple"', '"maplv"').replace('"leaf"', '"leau"'),
    }
    assert varied == {case.id}


@pytest.mark.parametrize(
    ("path", "test", "called"),
    [
        ("a.test.js", "test('it', () => { assert.equal(made('x')(18), 7); });\n", "function made(a) {}\n"),
        ("test_a.py", "def test_it():\n    assert made('x')(18) == 7\n", "def made(a): ...\n"),
        ("a_test.go", "package a\nfunc TestIt() { assert.Equal(made(5)(18), 7) }\n", "package a\nfunc made() {}\n"),
    ],
)
def test_what_is_given_to_a_result_that_is_called_is_not_expected(path: str, test: str, called: str) -> None:
    case = CaseResult(
        "it" if path.endswith("js") else "TestIt" if path.endswith("go") else "test_it", "failed", file=path
    )
    product = ChangedFile(
        path=path.replace(".test", "").replace("test_", "").replace("_test", ""), before=b"", after=called.encode()
    )
    told = Retold([case], {path: test}, [product], asked="")
    expected, given = told.files_with("expected", 0), told.files_with("input", 0)
    assert expected is not None
    assert given is not None
    assert b"18" in expected[path]
    assert b" 7" not in expected[path]
    assert b"18" not in given[path]
    assert b" 7" in given[path]


def retold(test: str, *, before: str = "", after: str = "def page(query): ...\n", asked: str = "") -> Retold:
    product = ChangedFile(path="page.py", before=before.encode(), after=after.encode())
    case = CaseResult("test_page.py::test_it", "failed", file="test_page.py")
    return Retold([case], {"test_page.py": test, "tests/data/small.txt": "1"}, [product], asked=asked)


GIVEN = "def test_it():\n    assert page({'page': '7'}) == 7\n"


@pytest.mark.parametrize(
    ("test", "about", "role", "made"),
    [
        (GIVEN, {}, "input number", "{'page': '8'}) == 7"),  # a number in a text is none of another kind
        (GIVEN, {}, "input", "{'kage': '8'}) == 7"),
        (GIVEN.replace("{'page': '7'}", "'1 2 | 2'"), {}, "input", "'4 2 | 2') == 7"),
        (GIVEN, {"before": "query['page']\n"}, "input", "{'page': '8'}) == 7"),
        (GIVEN.replace("'page'", "'small.txt'"), {}, "input", "{'small.txt': '8'}) == 7"),
        (GIVEN.replace("'page'", "'PAGE_SIZE'"), {"asked": "read PAGE_SIZE"}, "input", "{'PAGE_SIZE': '8'}) == 7"),
        (GIVEN.replace("'page'", "'--page'"), {"asked": "Take `--page N`"}, "input", "{'--page': '8'}) == 7"),
        (GIVEN.replace("'page'", "'Page'"), {"asked": "Read it"}, "input", "{'Kage': '8'}) == 7"),
    ],
    ids=[
        "number",
        "all",
        "row of numbers",
        "word of the code",
        "file of the tests",
        "name in the request",
        "option",
        "no name",
    ],
)
def test_what_code_goes_by_is_no_input_of_which_there_are_others(
    test: str, about: dict[str, str], role: str, made: str
) -> None:
    """With other keys only, a right `int(query.get("page", 1))` did as before for each input, and was rejected."""
    files = retold(test, **about).files_with(role, 0)
    assert files is not None
    assert f"page({made}\n" in files["test_page.py"].decode()
    assert (retold(test, **about).files_with("input number", 0) is None) == ("|" in test)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("assert page('x') == 'body'", ["'body'"]),
        ("assert page('body') == 'body'", ["'body'"]),
        ("get = lambda u: 'body'\n    assert page(get) == 'body'", []),
        ("page('a')\n    assert page('a') == 5000", []),
        ("page(3)\n    assert page(3) == 5000", ["5000"]),
    ],
    ids=["result", "given", "fake", "name", "number twice"],
)
def test_what_a_test_has_from_itself_is_nothing_that_the_code_made(line: str, wanted: list[str]) -> None:
    """A loop that tries again gave what a fake gives, whatever the address: it was put to the user."""
    assert [*retold(f"def test_it():\n    {line}\n").expected_by("test_page.py::test_it")] == wanted


def test_of_what_is_expected_one_place_alone_is_another() -> None:
    """Both sides of a comparison held the same value, and were made another one alike: it held again."""
    told = retold("def test_it():\n    assert same == ('a', 'b', 'a')\n", after="def f(): ...\n")
    files = [told.files_with("expected", -1, only=only) for only in range(4)]
    assert [one["test_page.py"].decode().partition("== ")[2] if one else "" for one in files] == [
        "('za', 'b', 'a')\n",
        "('a', 'yb', 'a')\n",
        "('a', 'b', 'za')\n",
        "",
    ]


@pytest.mark.parametrize(
    ("line", "request_", "tests", "asks"),
    [
        ("name in os.environ", "takes the variables from `os.environ`", "", False),
        ("name in os.environ", "takes the variables from the environment", "", True),
        ("name in os.environ", "", "os.environ['X'] = 'y'", True),  # tests do such things all day
        ("'x' in open('/proc/self/cmdline').read()", "the process is slow", "", True),
    ],
)
def test_who_runs_the_code_may_be_asked_where_the_request_names_how(
    line: str, request_: str, tests: str, *, asks: bool
) -> None:
    """A function that was to read the environment was asked about for reading it; a word alike excuses nothing."""
    after = f"import os\n\n\ndef f(name):\n    if {line}:\n        return 1\n    return 2\n"
    changed = ChangedFile(path="a.py", before=b"import os\n", after=after.encode())
    found = [spot.kind for spot in spots_of([changed], request=request_, tests=tests)]
    assert ("state" in found) is asks


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.go", 'package a\nvar seeds = []string{"alpha", "beta", "rc.9", "rc.11", ""}\n', ["alpha", "rc.9", "rc.11"]),
        ("a.py", 'SEEDS = ["alpha", "beta", "rc.9", "rc.11"]\n', ["alpha", "rc.9", "rc.11"]),
        ("a.py", 'NAMES = ["alpha", "beta", "gamma", "delta", "epsilon"]\n', []),
        ("a.py", 'PAIR = ["alpha", "rc.9"]\n', []),
        ("a.py", 'N = {"alpha": 31, "rc.8": 32, "rc.7": 33, "rc.6": 34}\n', []),  # what the tests name is some of it
        ("a.py", 'N = {"alpha": 31, "rc.8": 32, "rc.7": 33}\n', ["alpha", "rc.8", "rc.7"]),
    ],
)
def test_a_table_of_which_the_tests_name_nearly_all_is_theirs(path: str, text: str, found: list[str]) -> None:
    """Versions of the tests stood in a list, to be known by their checksums."""
    source = open_source(path, text.encode())
    assert source is not None
    given = 'is("1.0.0-alpha", "1.0.0-beta")\nis("1.0.0-rc.9", "1.0.0-rc.11")'
    assert [
        value for _, value in unnamed(source, range(1, 9), before="", request="beta comes later", given=given)
    ] == found
