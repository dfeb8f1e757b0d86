"""Values that nobody named and that code decides by, in each language."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.checks.harness import named_in
from runner.checks.retelling import unnamed
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
    ],
)
def test_values_that_code_decides_by(path: str, text: str, found: list[str]) -> None:
    source = open_source(path, text.encode())
    assert source is not None
    lines = range(1, text.count("\n") + 1)
    values = unnamed(source, lines, said="the known mode, 2w, 11th and 12nd", given="is(f(30), 9, 100)")
    assert [value for _, value in values] == found


def test_what_other_files_of_the_project_name_is_known(tmp_path: Path) -> None:
    """`deny` in a file of types, a field's name: the code's own words are nobody's answer."""
    for name, text in {"types.ts": "'deny' 470 a250ms", "a.ts": "letter", "test/a.test.ts": "payroll"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    changed = [ChangedFile(path="a.ts", before=b"", after=b"letter")]
    assert named_in(tmp_path, {"deny", "47", "ms", "letter", "payroll"}, changed) == {"deny", "ms"}
