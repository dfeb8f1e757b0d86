"""What the structure of a change shows: emptied bodies, lost definitions, commented-out code, foreign content."""

from __future__ import annotations

import pytest

from runner.gate.code_criteria import q2_marks, q3_omissions, q4_syntax
from runner.gate.criterion import ChangedFile, Evidence

WORK = {
    "a.py": ("def total(rows):\n", "    found = 0\n    for row in rows:\n        found += row\n    return found\n"),
    "a.ts": ("function total(rows) {\n", "  let n = 0;\n  for (const r of rows) {\n    n += r;\n  }\n  return n;\n}\n"),
    "a.go": (
        "func total(rows []int) int {\n",
        "\tn := 0\n\tfor _, r := range rows {\n\t\tn += r\n\t}\n\treturn n\n}\n",
    ),
    "a.rs": ("fn total(r: &[u32]) -> u32 {\n", "  let mut n = 0;\n  for i in r {\n    n += i;\n  }\n  n\n}\n"),
    "a.rb": ("def total(rows)\n", "  n = 0\n  rows.each do |row|\n    n += row\n  end\n  n\nend\n"),
    "a.c": ("int total(int *r, int n) {\n", "  int s = 0;\n  while (n)\n    s += r[--n];\n  return s;\n}\n"),
}
CONSTANT = {
    "a.py": "    return 0\n",
    "a.ts": "  return 0;\n}\n",
    "a.go": "\treturn 0\n}\n",
    "a.rs": "    0\n}\n",
    "a.rb": "  0\nend\n",
    "a.c": "  return 0;\n}\n",
}
FUNCTIONS = "".join(f"def part{n}(a):\n    b = a + {n}\n    return b * {n}\n\n\n" for n in range(6))


def changed(path: str, before: str | None, after: str | None) -> ChangedFile:
    return ChangedFile(path=path, before=before and before.encode(), after=None if after is None else after.encode())


def found(*files: ChangedFile, request: str = "Add a discount.", answer: str = "Done.") -> dict[str, str]:
    evidence = Evidence(request=request, answer=answer, files=files)
    checks = {"Q2": q2_marks, "Q3": q3_omissions, "Q4": q4_syntax}
    return {name: finding.reason for name, check in checks.items() if not (finding := check(evidence)).passed}


@pytest.mark.parametrize("path", WORK)
def test_a_body_that_held_work_and_holds_a_constant_is_gutted(path: str) -> None:
    head, body = WORK[path]
    reason = found(changed(path, head + body, head + CONSTANT[path]))["Q3"]
    assert reason.startswith("the body of total() is gone")


def test_a_body_that_only_lost_lines_is_gutted_beside_one_that_was_edited() -> None:
    calls = "".join(f"    {name}(rows)\n" for name in ("check", "log", "store", "send"))
    before = f"def total(rows):\n{calls}    return 0\n\n\n{FUNCTIONS}"
    after = before.replace(calls, "").replace("b * 5", "b * 55")
    assert found(changed("a.py", before, after))["Q3"].startswith("the body of total() is gone (5 lines before")


@pytest.mark.parametrize("body", ["    return sum(rows)\n", "    return rows[0] + 1\n", "    raise Wrong(rows)\n"])
def test_a_body_that_still_works_is_not(body: str) -> None:
    head, old = WORK["a.py"]
    assert not found(changed("a.py", head + old, head + body))


def test_disabling_what_the_request_names_is_no_loss() -> None:
    head, body = WORK["a.py"]
    assert not found(changed("a.py", head + body, head + CONSTANT["a.py"]), request="Disable total().")


def test_definitions_that_are_gone_unasked_are_lost_but_not_those_that_moved() -> None:
    rest = FUNCTIONS.split("def part4")[1]
    kept = changed("a.py", FUNCTIONS, "def part4" + rest)
    assert "4 of 6 definitions are gone" in found(kept)["Q3"]
    assert not found(kept, request="Remove what nobody uses.")
    assert not found(kept, changed("b.py", None, FUNCTIONS.split("def part4")[0]))


def test_a_file_that_is_emptied_is_lost() -> None:
    assert found(changed("a.css", "a { color: red }\n", ""))["Q3"] == "everything in the file is gone: a.css"


def test_a_function_that_was_asked_for_and_uses_nothing_is_hollow() -> None:
    hollow = changed("a.py", None, "def discount(total, rate):\n    return 0\n")
    assert "discount() does nothing with what it is given" in found(hollow, request="Write discount().")["Q3"]
    assert "discount()" in found(hollow, answer="Added `discount()`.")["Q3"]
    assert not found(hollow, request="Change the page.")


def test_what_the_request_says_a_function_is_given_is_not_to_be_marked_as_unused() -> None:
    """`with_darkness(self, _dusk, _dawn)` gave itself back and ended COMPLETE."""
    hollow = changed("a.py", None, "class Race:\n    def with_darkness(self, _dusk, _dawn):\n        return self\n")
    assert "with_darkness() does nothing" in found(hollow, request="Add `with_darkness(dusk, dawn)`.")["Q3"]
    assert not found(hollow, request="Add with_darkness, it may do nothing yet.")


def test_what_the_request_calls_with_something_is_not_to_do_nothing_with_it() -> None:
    """`read(_it)` gave 0 in a module of Ruby, whose functions counted as there for others to fill."""
    hollow = "module Quipu\n  module_function\n\n  def {}(_it)\n    0\n  end\nend\n"
    request = "Quipu.read(cord) should give the number back; lead the way there."
    assert "read() does nothing" in found(changed("a.rb", None, hollow.format("read")), request=request)["Q3"]
    assert not found(changed("a.rb", None, hollow.format("lead")), request=request)


def test_a_method_that_a_subclass_makes_anew_may_be_empty() -> None:
    """Also where the request has its name as a word."""
    hook = "class Fifo:\n    def used(self, key):\n        pass\n\n\nclass Lru(Fifo):\n    {} = stored\n"
    request = "Let the least recently used one go."
    assert not found(changed("a.py", None, hook.format("used")), request=request)
    assert "empty body of used()" in found(changed("a.py", None, hook.format("other")), request=request)["Q3"]


def test_code_that_is_a_comment_now_is_found_unless_other_code_took_its_place() -> None:
    old = "def f(a):\n    check(a)\n    save(a)\n    return a\n"
    new = "def f(a):\n    # check(a)\n    # save(a)\n    return a\n"
    assert found(changed("a.py", old, new))["Q3"] == "2 lines of code commented out at a.py:2"
    assert not found(changed("a.py", old, new.replace("    return", "    store(a, checked=True)\n    return")))


WHOLE = "".join(f"def new{n}(a):\n    b = a + {n}\n    c = b * {n}\n    return b - c\n\n\n" for n in range(20))
MARKED = "def total(rows):\n    # TODO: {}\n    found = sum(rows)\n    return found\n"


@pytest.mark.parametrize(
    ("before", "after", "request_", "accepted"),
    [
        (None, MARKED.format("use a faster sum"), "Add a discount.", False),  # nothing else was done
        (None, WHOLE + MARKED.format("use a faster sum"), "Add a discount.", True),  # small beside the work
        (None, WHOLE + MARKED.format("give the discount"), "Give a discount.", False),  # it is what was asked for
        (None, WHOLE + "def f(a):\n    b = a\n    # TODO: use it\n", "Add a discount.", False),  # nothing follows
        (None, WHOLE + "def f(a):\n    # TODO: use it\n    return 0\n", "Add a discount.", False),  # only a constant
        (None, MARKED.format("drop after #4711"), "Add a discount.", True),  # the work to come is on record
        (None, MARKED.format("drop after #4711"), "Fix #4711.", False),  # this is that work
        (None, MARKED.format("x" + " of the many words that say why" * 4), "Add a discount.", True),  # it gives reasons
        (MARKED.format("use a faster sum"), MARKED.format("use an even faster sum"), "Reword.", True),  # there before
        (MARKED.format("a"), MARKED.format("a") + MARKED.format("a").replace("total", "sum_of"), "Copy it.", True),
    ],
)
def test_a_mark_is_its_authors_note_where_the_work_beside_it_is_there(
    before: str | None, after: str, request_: str, accepted: bool
) -> None:
    assert ("Q2" not in found(changed("a.py", before, after), request=request_)) is accepted


def test_a_mark_in_a_test_that_tests_is_a_note_and_in_an_empty_one_it_is_not() -> None:
    test = "def test_a():\n    {}\n    # TODO: test b as well\n"
    assert not found(changed("tests/test_a.py", None, test.format("assert f(1) == 2")))
    assert "Q2" in found(changed("tests/test_a.py", None, test.format("pass")))


def test_what_is_gone_and_still_called_is_lost_whatever_the_request_says() -> None:
    used = FUNCTIONS + "def whole(a):\n    return part0(a)\n"
    gone = changed("a.py", used, used.partition("def part1")[1] + used.partition("def part1")[2])
    assert found(gone, request="Remove what nobody uses.")["Q3"] == "part0() is gone and is still called: a.py"
    moved = changed(
        "a.py", used, "from b import part0\n" + used.partition("def part1")[1] + used.partition("def part1")[2]
    )
    assert not found(moved)


def test_definitions_that_went_with_all_that_used_them_are_not_lost() -> None:
    rest = "def part4" + FUNCTIONS.split("def part4")[1]
    calls = "".join(f"part{n}(1)\n" for n in range(4))
    assert not found(changed("a.py", FUNCTIONS, rest), changed("b.py", f"import a\n{calls}", "import a\n"))
    assert "Q3" in found(
        changed("a.py", FUNCTIONS, rest), changed("b.py", f"import a\n{calls}", f"import a, os\n{calls}")
    )


def test_a_removal_excuses_only_what_it_speaks_of() -> None:
    head, body = WORK["a.py"]
    gutted = changed("a.py", head + body, head + CONSTANT["a.py"])
    assert "Q3" in found(gutted, request="Drop the old parser.")
    assert not found(changed("a.py", head + body, head + "    raise Error('totals are no longer offered')\n"))


def test_a_new_function_that_the_change_uses_must_do_something() -> None:
    new = "def rate(country):\n    return 0\n"
    assert not found(changed("a.py", None, new))
    assert "rate() does nothing" in found(changed("a.py", None, new + "\n\ndef f(c):\n    return 3 * rate(c)\n"))["Q3"]


def test_code_that_became_a_remark_and_a_sentence_in_code_are_found() -> None:
    assert found(changed("a.ts", "type A = B\ntype C = D\n", "// moved\n"))["Q3"].startswith(
        "everything in the file is gone"
    )
    chat = "int f(void) { return 1; }\nThis change fixes the problem in the loop.\n"
    assert "a sentence stands where code belongs at a.c:2" in found(changed("a.c", None, chat))["Q4"]


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("a.ini", "[a]\n<<<<<<< HEAD\nb = 1\n=======\nb = 2\n>>>>>>> theirs\n", "a merge conflict is left in the file"),
        ("notes.txt", "Here is the updated file:\n\n```\nnote\n```\n", "the file begins with a sentence of the answer"),
        ("Makefile", "```make\nall:\n\ttrue\n```\n", "the file begins with a code fence"),
        ("a.cfg", "--- a/a.cfg\n+++ b/a.cfg\n@@ -1 +1 @@\n-a\n+b\n", "the file holds a diff in place of its content"),
    ],
)
def test_what_is_no_content_is_found_in_any_file(path: str, text: str, told: str) -> None:
    assert told in found(changed(path, None, text))["Q4"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("git.md", "# Conflicts\n\n```\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> theirs\n```\n"),
        ("a.patch", "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n"),
        ("t.py", 'TEXT = """\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> theirs\n"""\n'),
    ],
)
def test_what_is_quoted_is_let_be(path: str, text: str) -> None:
    assert not found(changed(path, None, text))


USES = "def g(a):\n    return half(a)\n"
HALF = "def half(a):\n    b = a / 2\n    return b\n\n"


@pytest.mark.parametrize(
    "files",
    [
        (changed("a.py", HALF + USES, "from .maths import *\n\n" + USES),),  # an added import may give it
        (changed("a.py", "from .a import b\nfrom .c import d\n", ""),),  # nothing but imports is gone
        (changed("old.py", FUNCTIONS, None), changed("b.py", "import old\nold.part0(1)\n", "import new\nnew.go()\n")),
        (changed("a.py", "def f(x):\n    if OLD:\n        a = x.a()\n        b = a\n        return b\n    return x\n",
                 "def f(x):\n    return x\n"),),
        (changed("a.js", None, "const always = (x) => true;\nexport const f = (xs) => xs.filter(always);\n"),),
        (changed("a.c", "int f(void) { return 2; }\nint g(void) { return 1; }\n",
                 "/* FIXME: should be unsigned */\nint f(void) { return 2; }\nint g(void) { return 3; }\n"),),
        (changed("tests/data/merge.txt", None, "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n"),),
        (changed("tests/fixtures/a.c", None, "int main(void) {\n  /* TODO: implement */\n  return 0;\n}\n"),),
    ],
)  # fmt: skip
def test_what_ordinary_commits_do_is_accepted(files: tuple[ChangedFile, ...]) -> None:
    assert not found(*files)
