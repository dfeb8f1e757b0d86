"""Mutants: which faults are made in which language, where they are made, and what is left alone."""

from __future__ import annotations

import ast
import sysconfig
import warnings
from pathlib import Path

import pytest

from runner.checks.mutants import in_turns, targets_of
from runner.gate.criterion import ChangedFile
from runner.gate.source import open_source

PYTHON = b'''\
class Basket:
    def total(self, items: list[int], limit: int = 3) -> int:
        """The sum."""
        found = 0
        for item in items:
            if item < limit and not self.is_free(item):
                found += item * 2
        self.note(found)
        return found
'''
TYPESCRIPT = b"""\
export const add = (a: number, b: number): number => a + b;
export function send(a: number): boolean {
  if (!ready(a) || a === 1) {
    push(a);
    count++;
  }
  return a > 2;
}
"""
GO = b"""\
package shop

func (b *Basket) Total(limit int) (int, error) {
	if limit == 0 || !b.open {
		b.note(limit)
		return 0, nil
	}
	b.sum += limit
	return b.sum - 1, nil
}
"""
RUST = b"""\
impl Basket {
    fn total(&self, limit: u32) -> Result<u32, Error> {
        if limit >= 3 && !self.open {
            self.note(limit);
            return Ok(limit % 7);
        }
        Ok(limit)
    }
}
"""
JAVA = b"""\
class Basket {
    int total(int limit) {
        if (limit != 3) {
            note(limit);
        }
        return limit / 2;
    }
}
"""
C = b"""\
struct basket *find(struct basket *all, int limit) {
    if (all->size <= limit) {
        note(limit);
        return all;
    }
    return all + limit;
}
"""
CPP = b"""\
std::vector<int> Basket::take(int limit) const {
    if (open && limit > 3) {
        note(limit);
    }
    return {limit, 1};
}
"""
RUBY = b"""\
def total(items)
  if items.size > 3 && !open
    note(items)
    @count += 1
  end
  return 0 unless items
  items.sum * 2
end
"""
EXPECTED = {
    "shop/basket.py": (
        PYTHON,
        """
        Basket.total:2 stub: the whole body → return None
        Basket.total:6 negation: not self.is_free(item) → self.is_free(item)
        Basket.total:9 return: found → None
        Basket.total:7 arithmetic: * → /
        Basket.total:8 call: self.note(found) → (left out)
        Basket.total:4 constant: 0 → 1
        Basket.total:6 comparison: < → <=
        Basket.total:7 assignment: += → -=
        Basket.total:6 logic: and → or
        Basket.total:7 constant: 2 → 3
        """,
    ),
    "src/send.ts": (
        TYPESCRIPT,
        """
        add:1 stub: the whole body → undefined as any
        send:2 stub: the whole body → return undefined as any
        add:1 arithmetic: + → -
        send:3 negation: !ready(a) → ready(a)
        send:7 comparison: > → >=
        send:5 assignment: ++ → --
        send:4 call: push(a); → (left out)
        send:3 comparison: === → !==
        send:7 return: a > 2 → undefined as any
        send:3 logic: || → &&
        send:7 constant: 2 → 3
        send:3 constant: 1 → 2
        """,
    ),
    "shop/basket.go": (
        GO,
        """
        Basket.Total:3 stub: the whole body → return zero values
        Basket.Total:4 negation: !b.open → b.open
        Basket.Total:6 return: 0, nil → zero values
        Basket.Total:9 return: b.sum - 1, nil → zero values
        Basket.Total:8 assignment: += → -=
        Basket.Total:5 call: b.note(limit) → (left out)
        Basket.Total:4 comparison: == → !=
        Basket.Total:9 arithmetic: - → +
        Basket.Total:6 constant: 0 → 1
        Basket.Total:4 logic: || → &&
        Basket.Total:9 constant: 1 → 2
        Basket.Total:4 constant: 0 → 1
        """,
    ),
    "src/basket.rs": (
        RUST,
        """
        Basket.total:2 stub: the whole body → return Ok(Default::default())
        Basket.total:3 negation: !self.open → self.open
        Basket.total:5 return: Ok(limit % 7) → Ok(Default::default())
        Basket.total:4 call: self.note(limit); → (left out)
        Basket.total:3 comparison: >= → >
        Basket.total:5 arithmetic: % → *
        Basket.total:3 logic: && → ||
        Basket.total:5 constant: 7 → 8
        Basket.total:3 constant: 3 → 4
        """,
    ),
    "src/Basket.java": (
        JAVA,
        """
        Basket.total:2 stub: the whole body → return 0
        Basket.total:3 comparison: != → ==
        Basket.total:6 return: limit / 2 → 0
        Basket.total:4 call: note(limit); → (left out)
        Basket.total:6 arithmetic: / → *
        Basket.total:3 constant: 3 → 4
        Basket.total:6 constant: 2 → 3
        """,
    ),
    "src/basket.c": (
        C,
        """
        find:1 stub: the whole body → return 0
        find:2 comparison: <= → <
        find:4 return: all → 0
        find:6 return: all + limit → 0
        find:3 call: note(limit); → (left out)
        find:6 arithmetic: + → -
        """,
    ),
    "src/basket.cpp": (
        CPP,
        """
        Basket::take:1 stub: the whole body → return {}
        Basket::take:2 comparison: > → >=
        Basket::take:5 return: {limit, 1} → {}
        Basket::take:3 call: note(limit); → (left out)
        Basket::take:2 logic: && → ||
        Basket::take:5 constant: 1 → 2
        Basket::take:2 constant: 3 → 4
        """,
    ),
    "lib/basket.rb": (
        RUBY,
        """
        total:1 stub: the whole body → return nil
        total:2 negation: !open → open
        total:6 negation: items → !(items)
        total:7 arithmetic: * → /
        total:4 assignment: += → -=
        total:3 call: note(items) → (left out)
        total:2 comparison: > → >=
        total:4 constant: 1 → 2
        total:6 constant: 0 → 1
        total:7 constant: 2 → 3
        total:2 logic: && → ||
        total:2 constant: 3 → 4
        """,
    ),
}


def made(path: str, after: bytes, before: bytes | None = None) -> list[str]:
    targets = targets_of([ChangedFile(path=path, before=before, after=after)])
    return [f"{one.function}:{one.line} {one.kind}: {one.old} → {one.new}" for one in in_turns(targets)]


@pytest.mark.parametrize("path", EXPECTED)
def test_each_language_gets_a_stub_first_and_the_faults_of_its_lines(path: str) -> None:
    text, expected = EXPECTED[path]
    assert made(path, text) == [line.strip() for line in expected.strip().split("\n")]


@pytest.mark.parametrize("path", EXPECTED)
def test_a_mutant_of_code_that_parses_parses(path: str) -> None:
    text, _ = EXPECTED[path]
    for mutant in in_turns(targets_of([ChangedFile(path=path, before=None, after=text)])):
        source = open_source(path, mutant.applied(text))
        assert source is not None
        assert source.tree is not None
        assert not source.tree.root_node.has_error, mutant


@pytest.mark.parametrize("name", ["bisect", "textwrap", "shlex", "heapq", "dataclasses"])
def test_every_mutant_of_the_standard_library_compiles(name: str) -> None:
    text = (Path(sysconfig.get_paths()["stdlib"]) / f"{name}.py").read_bytes()
    mutants = list(in_turns(targets_of([ChangedFile(path=f"lib/{name}.py", before=None, after=text)])))
    assert len(mutants) > 30
    whole = ast.dump(ast.parse(text))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        for mutant in mutants[:: len(mutants) // 20]:
            changed = ast.parse(mutant.applied(text))
            assert ast.dump(changed) != whole, mutant


def test_only_changed_functions_and_their_changed_lines_are_mutated() -> None:
    before = b"def a(x):\n    y = x + 1\n    return y < 3\n\n\ndef b(x):\n    return x - 1\n"
    after = before.replace(b"x + 1", b"x + 2")
    assert made("m.py", after, before) == [
        "a:1 stub: the whole body → return None",
        "a:2 arithmetic: + → -",
        "a:2 constant: 2 → 3",
    ]


def test_a_function_that_only_lost_lines_has_its_stub() -> None:
    before = b"def a(x):\n    x.one()\n    x.two()\n    return x.three()\n"
    assert made("m.py", before.replace(b"    x.two()\n", b""), before) == ["a:1 stub: the whole body → return None"]


def test_a_file_with_a_new_name_has_mutants_only_where_it_changed() -> None:
    before = b"".join(b"def f%d(x):\n    return x + %d\n\n\n" % (number, number + 3) for number in range(5))
    after = before.replace(b"x + 5", b"x - 5")
    files = [
        ChangedFile(path="old.py", before=before, after=None),
        ChangedFile(path="new.py", before=None, after=after),
    ]
    assert [target.function for target in targets_of(files)] == ["f2"]


def test_a_change_outside_functions_and_one_of_blank_lines_elsewhere_make_none() -> None:
    before = b"LIMIT = 3\n\n\ndef a(x):\n    return x\n"
    assert made("m.py", before.replace(b"3", b"4"), before) == []
    assert made("m.py", before, before) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("m.py", b"def a(x):\n    log.debug('at %d', x + 1)\n"),
        ("m.py", b"class A:\n    def __repr__(self):\n        return 'A' * 2\n"),
        ("m.py", b"class A:\n    def __hash__(self):\n        return hash(self.x) + 1\n"),
        ("m.py", b'def a(x):\n    """Text."""\n    return None\n'),
        ("m.py", b"def a(x: list[int]) -> None:\n    pass\n"),
        ("tests/test_m.py", b"def test_a():\n    assert a(1) == 2\n"),
        ("src/m.rs", b"#[cfg(test)]\nmod tests {\n    fn helper() -> u8 {\n        1 + 2\n    }\n}\n"),
        ("m_pb2.py", b"def a(x):\n    return x + 1\n"),
        ("m.go", b"package m\n\nfunc a() []int {\n\treturn nil\n}\n"),
        ("README.md", b"def a(x):\n    return x + 1\n"),
        ("m.py", b"def a(:\n    return x + \n\0"),
    ],
)
def test_what_no_test_could_see_is_left_alone(path: str, text: bytes) -> None:
    assert made(path, text) == []


def test_error_texts_annotations_and_releasing_calls_are_left_alone() -> None:
    text = b"""\
def a(x: Literal["no"]) -> None:
    y: dict[str, int] = load(x)
    if x.closed:
        raise ValueError("it is closed" + 1)
    fail("never")
    x.close()
"""
    assert made("m.py", text) == [
        "a:1 stub: the whole body → return None",
        "a:3 negation: x.closed → not (x.closed)",
        'a:5 call: fail("never") → (left out)',
    ]


def test_a_function_inside_another_has_its_own_mutants_and_a_callback_belongs_to_its_function() -> None:
    text = b"""\
function a(list) {
  function inner(x) {
    return x - 1;
  }
  return list.map((x) => inner(x) + 1);
}
"""
    assert [line.partition(":")[0] for line in made("m.js", text)].count("inner") == 3
    assert "a:5 arithmetic: + → -" in made("m.js", text)


def test_functions_take_turns_so_that_each_gets_its_share() -> None:
    text = b"def a(x):\n    return (x + 1) * 2 - 3\n\n\ndef b(x):\n    return x < 1\n"
    order = [line.split(":")[0] for line in made("m.py", text)]
    assert order[:4] == ["a", "b", "a", "b"]
    assert order.count("a") > order.count("b")


def test_a_generator_remains_one() -> None:
    text = b"def a(x):\n    for one in x:\n        yield one + 1\n"
    stub = next(in_turns(targets_of([ChangedFile(path="m.py", before=None, after=text)])))
    names: dict[str, object] = {}
    exec(stub.applied(text), names)
    assert list(names["a"]([1, 2])) == []  # type: ignore[operator]


@pytest.mark.parametrize(
    ("path", "text", "stub"),
    [
        ("m.py", b"class A:\n    def w(self, d):\n        self.d = d\n        return self\n", "return self"),
        ("m.js", b"class A {\n  w(d) {\n    this.d = d;\n    return this;\n  }\n}\n", "return this"),
        (
            "m.rs",
            b"impl A {\n    fn w(mut self, d: u32) -> Self {\n        self.d = d;\n        self\n    }\n}",
            "return self",
        ),
        ("m.rs", b"impl A {\n    fn w(d: u32) -> Self {\n        Self { d }\n    }\n}\n", "return Default::default()"),
    ],
)
def test_a_method_that_calls_are_chained_by_does_nothing_and_gives_itself_back(
    path: str, text: bytes, stub: str
) -> None:
    """With zero in its place the next call fails whatever it is to do: a builder that forgot all ended well."""
    first = next(in_turns(targets_of([ChangedFile(path=path, before=None, after=text)])))
    assert (first.kind, first.new) == ("stub", stub)
