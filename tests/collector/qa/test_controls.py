"""A test that is made to fail: whichever one the reports name, however its language writes it."""

from __future__ import annotations

import pytest

from collector.qa.controls import failing_tests
from runner.gate.source import open_source

PYTHON = """def test_one(): assert f() == 1


class TestB:
\tasync def test_two(self):
\t\ttext = '''
a
\t\tb'''
\t\tassert text

\tdef helper(self):
\t\tpass
"""
TYPESCRIPT = """describe('sums', () => {
  test.each([1])('adds %s up', async (x: number) => { expect(x).toBe(2) });
  it(`takes ${a} away`, function () { f(); });
  it('waits', done => done());
  it(NAME, () => { g(); });
});
"""
GO = """package a

func TestOne(t *testing.T) { f() }

func TestTwo(x *testing.T) {
}

func help(t *T) { }
"""
RUST = """#[test]
#[ignore]
fn one() { f(); }

#[should_panic]
#[test]
fn two() { g(); }

fn three() {}
"""
MINITEST = """class A < Minitest::Test
  def test_one
    f
  end

  test 'takes away' do
    g
  end
end
"""
SPEC = """describe A do
  it 'adds' do
    f
  end

  it { g }
end
"""
PHP = """<?php
class ATest extends TestCase {
  public function testOne(): void { f(); }
}
it('adds', function () { g(); });
"""
C = """#include <assert.h>
int main(int n, char **v) {
  assert(f());
  return 0;
}
"""
TESTS = {
    "tests/test_a.py": (
        PYTHON, {"a::test_one": 1, "tests.test_a.TestB::test_two[x-1]": 1, "helper": 0, "tests.test_a::test_other": 0}
    ),
    "a.test.ts": (
        TYPESCRIPT, {"a.test.ts::sums adds 4 up": 2, "sums > takes 1 away": 2, "waits": 2, "anything": 1}
    ),
    "a_test.go": (GO, {"a::TestOne/sub": 1, "a::TestTwo": 1, "a::help": 0}),
    "tests/a.rs": (RUST, {"one": 1, "two": 0, "three": 0}),
    "test/a_test.rb": (MINITEST, {"A#test_one": 1, "A#test_takes_away": 1, "A#test_other": 0}),
    "spec/a_spec.rb": (SPEC, {"./spec/a_spec.rb::A adds": 1, "A subtracts": 0}),
    "tests/ATest.php": (PHP, {"ATest::testOne": 1, "it adds": 1, "ATest::testTwo": 0}),
    "tests/a.c": (C, {"anything": 1}),
}  # fmt: skip
FAILURES = ("finally", "t.Fail()", "x.Fail()", "struct Failing", "ensure;", "cleanup(")


@pytest.mark.parametrize("path", TESTS)
def test_the_tests_that_a_report_names_are_made_to_fail_and_no_others(path: str) -> None:
    text, fixed = TESTS[path]
    made = {name: failing_tests({path: text.encode()}, [name]).get(path, b"").decode() for name in fixed}
    assert {name: sum(now.count(word) for word in FAILURES) for name, now in made.items()} == fixed
    for now in filter(None, (*made.values(), failing_tests({path: text.encode()}, [])[path].decode())):
        source = open_source(path, now.encode())
        assert source is not None
        assert source.tree is not None
        assert path.endswith(".c") or not source.tree.root_node.has_error, now  # its grammar knows no such attribute


def test_tests_that_end_their_run_themselves_and_what_cannot_be_read_are_left_alone() -> None:
    ends = b"test('a', () => { f(); });\nprocess.exit(failed);\n"
    assert (
        failing_tests({"a.test.js": ends, "b.test.js": b"test('a', () => {{", "a.bats": b"@test a { f; }\n"}, []) == {}
    )


def test_python_with_a_failure_in_it_still_runs() -> None:
    compile(failing_tests({"test_a.py": PYTHON.encode()}, [])["test_a.py"], "test_a.py", "exec")
