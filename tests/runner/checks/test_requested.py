"""What the request names: told to add, to hear, or to be worked on."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.checks.bought.by_sight import answers_held
from runner.checks.bought.requested import careless, codeless, uncalled, unheard, unmade, untested, without_results
from runner.checks.harness import rows
from runner.gate.criterion import ChangedFile

ORDER = "Add Store#rename(old, new): gives an entry another name. Done where canonical(slug) knows it."


@pytest.mark.parametrize(
    ("path", "before", "after", "missing"),
    [
        ("store.rb", "class Store\nend\n", "class Store\n  def rename(old, new)\n  end\nend\n", False),
        ("store.rb", "class Store\nend\n", "class Store\nend\n# rename\n", True),
        ("store.rb", "class Store\nend\n", "class Store\nend\n__END__\ndef rename(old, new)\nend\n", True),
        ("store.c", "", "#if 0\nint rename(int a) { return a; }\n#endif\n", True),
        ("store.h", "", "int rename(int old);\n", True),
        ("store.c", "", "int rename(int a) { return a; }\n", False),
        ("store.py", "", '"""Has rename()."""\nx = 1\n', True),
        ("store.py", "", "rename = other\n", False),
        ("CHANGELOG.md", "", "- `rename()` is new\n", True),
        ("test/test_store.rb", "", "store.rename(1, 2)\n", True),
        ("store.rb", "rename\n", "x = 1\n", False),  # it was there
        ("store.unknown", "", "rename\n", False),
        ("store.cmake", "", "function(rename)\n", False),
        ("store.js", "", "export function rename(old) {\n  return old;\n}\n", False),
        ("store.ts", "", "export const rename = (old: string) => old;\n", False),
        ("store.go", "", "package a\n\nfunc rename(old string) string { return old }\n", False),
    ],
)
def test_what_was_told_to_add_and_stands_nowhere(
    tmp_path: Path, path: str, before: str, after: str, *, missing: bool
) -> None:
    """A remark, a document or code that no build takes ended well where no test fails before."""
    change = [ChangedFile(path=path, before=before.encode() or None, after=after.encode())]
    assert [place.message for place in unmade(change, tmp_path, ORDER)] == (
        ["the request tells to add rename, of which the code has nothing"] if missing else []
    )
    (tmp_path / "other.rb").write_text("alias rename move\n")
    assert unmade(change, tmp_path, ORDER) == []


@pytest.mark.parametrize(
    ("path", "text", "missing"),
    [
        ("a.js", 'throw new Error("no file (cut [--kerf MM] FILE)");\n', True),
        ("README.md", "`--kerf MM`: the width of the saw\n", True),
        ("a.js", 'if (args[i] === "--kerf") { i++; }\n', False),
        ("a.py", 'parser.add_argument("-k", "--kerf", type=float)\n', False),
        ("a.rb", "opts.on('-k', '--kerf MM', Float) { |mm| @kerf = mm }\n", False),
        ("a.go", 'var width = flag.Float64("kerf", 0, "width of the saw")\n', False),
        ("a.rs", "struct Options {\n    #[arg(long)]\n    kerf: f64,\n}\n", False),
        ("a.js", "program.option('-k, --kerf <mm>', 'width of the saw');\n", False),
    ],
)
def test_an_option_that_was_told_to_add_and_that_no_code_takes(
    tmp_path: Path, path: str, text: str, *, missing: bool
) -> None:
    """A line of the usage text was all that was done, and it ended well."""
    change = [ChangedFile(path=path, before=b"", after=text.encode())]
    found = [place.message for place in unmade(change, tmp_path, "Please add an option `--kerf MM` to cut.")]
    assert found == (["the request tells to add --kerf, of which the code has nothing"] if missing else [])


def test_requests_that_name_what_to_add(tmp_path: Path) -> None:
    for row in rows()["asks_for_names"]:
        assert [text for text in row["examples"] if not unmade([], tmp_path, text)] == []
        assert [text for text in row["counter"] if unmade([], tmp_path, text)] == []


LISTED = "Please add to Store:\n\n* `rename(old, new)` gives\n  it another name: no more\n* `get()` must know it\n"


def test_what_a_list_tells_to_add_is_named(tmp_path: Path) -> None:
    """A colon ended what was told to add: work that was written in documents alone ended well."""
    change = [ChangedFile(path="store.py", before=b"def get(): pass\n", after=b"def get(): pass\n# rename\n")]
    (place,) = unmade(change, tmp_path, LISTED)
    assert place.message == "the request tells to add rename, of which the code has nothing"


@pytest.mark.parametrize(
    ("path", "before", "after", "told"),
    [
        (
            "a.py",
            "def load(path):\n    return read(path)\n",
            "def load(path, environ=None):\n    return read(path)\n",
            True,
        ),
        (
            "a.py",
            "def load(path):\n    return read(path)\n",
            "def load(path, environ):\n    return read(environ)\n",
            False,
        ),
        (
            "a.py",
            "def load(path, environ):\n    return read(path)\n",
            "def load(path, environ):\n    return r(path)\n",
            False,
        ),
        ("a.ts", "", "function load(path: string, environ?: string[]) {\n  return read(path);\n}\n", True),
        ("a.rs", "", "fn load(path: &str, limit: (usize, environ)) -> u8 {\n    read(path)\n}\n", False),
        ("a.py", "", "def load(path, level):\n    return read(path)\n", False),  # nobody named it
        ("test_a.py", "", "def load(path, environ):\n    return read(path)\n", False),
    ],
)
def test_a_parameter_that_the_request_names_is_to_do_something(
    path: str, before: str, after: str, *, told: bool
) -> None:
    """`load(path, environ=None)` that ignores what it is given showed in no test."""
    change = [ChangedFile(path=path, before=before.encode() or None, after=after.encode())]
    found = [place.message for place in unheard(change, "`load(path, environ=None)` takes the variables from environ.")]
    assert found == (["load() takes environ, which the request names, and does nothing with it"] if told else [])


LOAD, PLAIN = "the request speaks of load()", "the request asks for no documents or tests"


@pytest.mark.parametrize(
    ("paths", "request_", "told"),
    [
        (["report.xml", "NOTES.md"], "load() forgets the last line", LOAD),
        (["test_a.py"], "load() forgets the last line", LOAD),
        (["report.xml", "a.py"], "load() forgets the last line", ""),
        (["README.md"], "Tell of load() in the readme", ""),
        (["test_b.py"], "Write tests for load()", ""),
        (["test_a.py"], "load() forgets the last line. Please cover it by tests.", LOAD),  # there is none in it
        (["NOTES.md"], "Tell how releases are made", ""),
        (["package.json"], "load() forgets the last line", LOAD),
        (["vitest.config.ts"], "load() forgets the last line", LOAD),
        (["remark.py", "NOTES.md"], "load() forgets the last line", LOAD),
        (["remark.py"], "The last line is lost. All tests are green, none sees it. Mend Store#load, please", LOAD),
        (["test_b.py"], "The last line is lost in load(). All tests are green", LOAD),
        (["test_b.py"], "load() forgets the last line. Please add tests, too.", LOAD),
        (["test_b.py"], "load() is untested. Please write some.", ""),
        (["NOTES.md"], "Our crawler takes a star in robots.txt literally", PLAIN),
        (["remark.py", "test_b.py"], "星号は任意の文字列として扱ってください", PLAIN),
        (["NOTES.md", "vitest.config.ts"], "Let the runner stop at the first failure", ""),
        (["NOTES.md"], "Fix the typos in the manual", ""),
        (["test_b.py"], "load() に strict_mode を足してください。テストもお願いします。", LOAD),
    ],
)
def test_work_on_code_changes_code(tmp_path: Path, paths: list[str], request_: str, told: str) -> None:
    """A report, a note and an empty file of tests ended well where no test failed before."""
    texts = {"test_b.py": b"def test_load(): pass\n", "remark.py": b"# loads all lines\n"}
    old = {"package.json": b'  "version": "1",\n'}
    texts["package.json"] = b'  "version": "2",\n'
    change = [ChangedFile(path=path, before=old.get(path), after=texts.get(path, b"x\n")) for path in paths]
    found = [place.message for place in codeless(change, request_, folder=tmp_path)]
    assert found == ([f"{told}, and no code was changed"] if told else [])
    edited = [file._replace(before=b"y\n") for file in change]
    templates = ChangedFile(path="templates/page.html", before=b"<p>", after=b"<b>")
    assert list(codeless([*edited, templates], request_, folder=tmp_path)) == [], "what the code shows"


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ("load_all must keep the last line", "load_all"),
        ("Let it take --keep-last, please", "--keep-last"),
        ("load_all に keep_last=True を足してください。テストもお願いします。", "load_all"),
        ("Document load_all", ""),
        ("load_all の説明を書いて", ""),
        ("The table in data/load_all.csv is old, as the docs should say", ""),
        ("7項目の行は shot.ErrBacksight、6項目は今までどおり ErrLine です。", "ErrLine"),
        ("Tell GitHub about it, or ErrOther, with a link to docs/ErrLine.md", ""),  # the code knows none of them
    ],
)
def test_names_written_as_code_speak_of_code(tmp_path: Path, request_: str, told: str) -> None:
    """A readme that tells what is not there, or the work in a file of tests, ended well: no call was named."""
    (tmp_path / "shot.go").write_text('var ErrLine = errors.New("line")\n')
    change = [
        ChangedFile(path="NOTES.md", before=None, after=b"load_all keeps it\n"),
        ChangedFile(path="test_b.py", before=None, after=b"def test_load(): pass\n"),
    ]
    found = [place.message for place in codeless(change, request_, folder=tmp_path)]
    assert found == ([f"the request speaks of {told}, and no code was changed"] if told else [])


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("pyproject.toml", 'version = "2"\n', True),
        ("load.py", "def load(): ...\n", True),
        ("test_load.py", "def test_load(): ...\n", False),
        ("src/load.rs", "#[cfg(test)]\nmod tests {\n    #[test]\n    fn loads() {}\n}\n", False),
    ],
)
def test_tests_that_were_to_be_written_are_there(path: str, text: str, *, told: bool) -> None:
    """A note of what was done, a new version number and no test ended well."""
    change = [ChangedFile(path=path, before=b"x\n", after=text.encode())]
    assert [place.message for place in untested(change, "Let load() take a limit. Please add tests.")] == (
        ["the request tells to write tests, and there is none"] if told else []
    )
    assert list(untested(change, "Let load() take a limit, so that the tests pass.")) == []


KEEPS = (
    "class Cache:\n    def __init__(self, size, clock=None):\n        self.size = size\n        self._clock = clock\n{}"
)


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("cache.py", KEEPS.format(""), True),
        ("cache.py", KEEPS.format("\n    def now(self):\n        return self._clock()\n"), False),
        ("cache.py", KEEPS.format("\n    def told(self):\n        return vars(self)\n"), False),
        (
            "cache.js",
            "class Cache {\n  constructor(size, clock) {\n    this.size = size;\n    this.#clock = clock;\n  }\n}\n",
            True,
        ),
        (
            "cache.rb",
            "class Cache\n  def initialize(size, clock)\n    @size = size\n    @clock = clock\n  end\nend\n",
            True,
        ),
        ("cache.php", "<?php class Cache { function __construct(private int $n, private $clock) {} }", True),
        ("cache.php", "<?php class Cache { function __construct(int $n, $clock) { $this->clock = $clock; } }", True),
        (
            "cache.php",
            "<?php class Cache { function __construct(private $clock) {} function f() { return $this->clock; } }",
            False,
        ),
        ("cache.ts", "class Cache { constructor(private size: number, private clock: Clock) {} }", True),
        (
            "cache.rb",
            "class Cache\n  attr_reader :clock\n  def initialize(size, clock)\n    @clock = clock\n  end\nend\n",
            True,
        ),
        (
            "cache.rb",
            "class Cache\n  def initialize(clock)\n    @clock = clock\n  end\n  def now\n    clock&.call\n  end\nend",
            False,
        ),
    ],
)
def test_to_keep_what_the_request_names_is_not_to_use_it(tmp_path: Path, path: str, text: str, *, told: bool) -> None:
    """A parameter was kept, tests looked at nothing else, and the work ended well."""
    change = [ChangedFile(path=path, before=b"\n", after=text.encode())]
    asked = "Let entries expire: `Cache(clock)`. clock() gives the time"
    assert bool([*unheard(change, asked, folder=tmp_path)]) == told
    assert not [*unheard(change, f"{asked}. It stays as `cache.clock`", folder=tmp_path)]
    (tmp_path / "other.py").write_text("def age(cache):\n    return cache.clock() + cache._clock()\n")
    (tmp_path / "other.rb").write_text("cache.clock\n")
    assert not [*unheard(change, asked, folder=tmp_path)]


C_MAIN = "int main(int argc, char **argv) {{ UNUSED(argc); {} return 0; }}\n#define UNUSED(x) (void)(x)\n"
RUST = """rows! {{ one: 4..6 => [1..4, 6..10]; }}
macro_rules! rows {{
    ($($name:ident: $given:expr => $left:expr;)*) => {{ $( #[test] fn $name() {{ {} assert_eq!(f($given), 2); }} )* }};
}}
"""
GO = "package a\n\nfunc is(t *testing.T, got, want int) {{ {} }}\n\nfunc TestA(t *testing.T) {{ is(t, f(1), 2) }}\n"
JS = "function same(got{0}, want{0}) {{ ok(got); }}\nit('a', () => {{ same(f(1), 2); }});\n"
PY = "def same(got, want{}):\n    assert {}\n\n\ndef test_a():\n    same(f(1), 2)\n"


@pytest.mark.parametrize(
    ("path", "text", "ignored"),
    [
        ("tests/a.c", "#define IS(got, want) (void)(got), ok(#want)\n" + C_MAIN.format("IS(f(1), 2);"), "got, want"),
        ("tests/a.c", "#define IS(x)\n" + C_MAIN.format("IS(f(1) == 2);"), "x"),
        ("tests/a.c", "#define IS(got, want) ok((got) == (want), #got)\n" + C_MAIN.format("IS(f(1), 2);"), ""),
        ("tests/a.c", "#define NAMED(x) test_##x()\n" + C_MAIN.format("NAMED(f);"), ""),
        ("tests/a.rs", RUST.format("let _ = stringify!($left);"), "$left"),
        ("tests/a.rs", RUST.format("assert_eq!(left($given), $left);"), ""),
        ("a_test.go", GO.format("t.Log(got)"), "want"),
        ("a_test.go", GO.format("if got != want { t.Fail() }"), ""),
        ("test_a.py", PY.format("", "got"), "want"),
        ("test_a.py", PY.format("=0", "got == want"), ""),
        ("test_a.py", "def fetch(url):\n    return 1\n\n\ndef test_a():\n    assert f(fetch) == fetch('x')\n", ""),
        ("test_a.py", "@pytest.fixture\ndef made(tmp_path):\n    return 1\n\n\ndef test_a(made):\n    f(made)\n", ""),
        ("a.test.js", "const same = (got, want) => { ok(got); };\nit('a', () => { same(f(1), 2); });\n", "want"),
        ("a.test.js", JS.format(""), "want"),
        ("a.test.ts", JS.format(": number"), "want"),
        ("test_a.rb", "def same(got, want)\n  assert got\nend\n\ndef test_a\n  same(f(1), 2)\nend\n", "want"),
    ],
)  # fmt: skip
def test_what_helpers_of_tests_are_given_is_to_be_tested(path: str, text: str, ignored: str) -> None:
    """Rows of a table stood in a macro that dropped what they expected."""
    text = text.replace("{{", "{").replace("}}", "}")
    found = [place.message for place in careless([ChangedFile(path=path, before=None, after=text.encode())])]
    assert [f"does nothing with {ignored}, which" in message for message in found] == ([True] if ignored else [])


def test_a_function_of_any_depth_is_read() -> None:
    """Sums of thousands of terms are as deep a tree."""
    text = f"int sum(int a, int b) {{ return {' + '.join(['a'] * 5000)}; }}\n#define IS(x) sum(x, 1)\nint f = IS(2);\n"
    assert list(careless([ChangedFile(path="tests/a.c", before=None, after=text.encode())])) == []


OLD = "def order(tasks):\n    return sorted(tasks)\n"


@pytest.mark.parametrize(
    ("files", "request_", "told"),
    [
        ({"plan.py": f"{OLD}\n\ndef quick(tasks):\n    return [*tasks]\n"}, "order() is slow", "quick"),
        ({"fast.py": "def quick(tasks):\n    return [*tasks]\n"}, "order() is slow", "quick"),
        ({"fast.js": "class Quick { go() {} }\nmodule.exports = { Quick };\n"}, "order() is slow", "Quick"),
        ({"plan.py": OLD.replace("sorted", "quick") + "\n\ndef quick(tasks):\n    return [*tasks]\n"}, "slow", ""),
        ({"fast.js": "class Quick { go() {} }\nmodule.exports = new Quick();\n"}, "order() is slow", ""),
        ({"fast.py": "def csv_export(tasks):\n    return tasks\n"}, "We need an export of tasks as CSV", ""),
        ({"fast.py": "def quick(tasks):\n    return tasks\n"}, "write fast.py for large plans", "quick"),
        ({"fast.py": "def large_plans(tasks):\n    return tasks\n"}, "write fast.py for large plans", ""),
        ({"fast.rs": "#[cfg(test)]\nmod checks {\n    fn a() {}\n}\n"}, "slow", ""),
        ({"fast.js": "const ways = [function quick(tasks) { return tasks; }];\n"}, "slow", ""),
        ({"fast.py": "def quick(tasks):\n    return tasks\n"}, "order() is to raise NotFastError", "quick"),
        ({"fast.py": "@route('/x')\ndef quick(tasks):\n    return tasks\n"}, "order() is slow", ""),
        ({"fast.py": "def quick(tasks):\n    return tasks\n", "setup.cfg": "run = fast:quick\n"}, "slow", ""),
        ({"fast.go": "package a\n\nfunc (s Set) Equal(o Set) bool {\n\treturn true\n}\n"}, "slow", ""),
        ({"tests/test_a.py": "def quick(tasks):\n    return tasks\n"}, "slow", ""),
    ],
)
def test_what_was_added_is_put_to_use(tmp_path: Path, files: dict[str, str], request_: str, told: str) -> None:
    """The right code beside the old one, with tests of its own and no caller, ended well."""
    (tmp_path / "plan.py").write_text(OLD)
    changed = [
        ChangedFile(path=path, before=OLD.encode() if path == "plan.py" else None, after=text.encode())
        for path, text in files.items()
    ]
    expected = [f"nothing in the product uses {told}"] if told else []
    assert [place.message for place in uncalled(changed, request_, folder=tmp_path)] == expected
    old = [ChangedFile(path=f"old_{path}", before=text.encode(), after=None) for path, text in files.items()]
    assert not [*uncalled([*changed, *old], request_, folder=tmp_path)]
    (tmp_path / "plan.py").unlink()
    assert not [*uncalled([file for file in changed if file.before is None], request_, folder=tmp_path)]


@pytest.mark.parametrize(
    ("request_", "held"),
    [
        ("`washings` gives the days. Example: ripe at 30 → [3, 7, 9, 13, 15]", True),
        ("`washings` gives the days [3, 7, 9, 13, 15]", False),
    ],
)
def test_the_result_of_an_example_is_no_answer_that_the_request_names(request_: str, *, held: bool) -> None:
    """The request's example stood in the code as a row, and in the only test of it: it ended COMPLETE."""
    row = "[3, 7, 9, 13, 15]"
    file = ChangedFile(path="a.py", before=b"", after=f"def washings(age):\n    return {row}\n".encode())
    test = f"assert washings(30) == {row}"
    assert bool(list(answers_held([file], [test], without_results(request_), [test]))) == held
