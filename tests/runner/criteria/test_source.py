"""Opening a text: its lines, what nests too deeply, and the second side of a file parsed from the first."""

from __future__ import annotations

from itertools import accumulate
from random import Random

import pytest
import tree_sitter

from runner.gate.languages import by_path
from runner.gate.source import Source, is_too_deep, open_source, parse

_TEXTS = {
    "a.c": "#if A\nint one(char *s) {\n  if (s[0] == 'x') return 1; // said\n#else\nint one(void) {\n#endif\n}\n",
    "a.py": "class A:\n    def one(self, b):\n        '''a'''\n        return [b, f'{b!r}', 'é']\n\ndef two(): ...\n",
    "a.js": "export const f = async (a) => `x ${a ? `y ${a}` : /re/g}`; // said\nfunction g() { return f({a: 1}) }\n",
    "a.sh": '#!/bin/sh\nf() { cat <<E\n$x é\nE\n}\nif [ -n "$1" ]; then f; fi # said\n',
    "a.rb": "def one(a)\n  puts <<~E\n    #{a}\n  E\nend\nclass B < A; def c = 1; end\n",
}


def _shape(tree: tree_sitter.Tree | None) -> list[tuple[str, int, int, bool]]:
    assert tree is not None
    found, stack = [], [tree.root_node]
    while stack:
        node = stack.pop()
        found.append((node.type, node.start_byte, node.end_byte, node.is_missing))
        stack += node.children
    return found


@pytest.mark.parametrize("path", sorted(_TEXTS))
def test_a_side_parsed_from_the_other_one_has_the_tree_of_its_own(path: str) -> None:
    random, language = Random(path), by_path(path)
    assert language is not None
    for _ in range(60):
        text = _TEXTS[path] * random.randint(1, 4)
        start = random.randrange(len(text))
        new = (
            text[:start] + random.choice(["", "x", "\n", "(", "é}", text[:40]]) + text[start + random.randint(0, 30) :]
        )
        one, other = text.encode(), new.encode()
        near = Source(path=path, text=one, language=language, tree=parse(language, one))
        shape = _shape(near.tree)
        assert _shape(parse(language, other, near=near)) == _shape(parse(language, other))
        assert _shape(near.tree) == shape


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        (b"f(a[1]);\n" * 5000, False),
        (b"(" * 3000 + b")" * 3000, False),
        (b"(" * 3001 + b")" * 3001, True),
        (b"[({" * 1001 + b"x" + b"})]" * 1001, True),
        (b")" * 9000 + b"([" * 1500, False),
        (b"(" * 2990 + b"{()}" * 4000, False),
        (b"(" * 2999 + b"{()}" * 4000, True),
        (b"<a>" * 60_001, True),
        (b"<a></a>" * 60_001, False),
    ],
)
def test_brackets_that_nest_too_deeply(text: bytes, deep: bool) -> None:
    assert is_too_deep(text) is deep


def test_lines_are_where_their_ends_say() -> None:
    for text in (b"", b"\n", b"a", b"a\n", b"a\r\nbc\n\n\nd", b"\n\n"):
        source = open_source("a.py", text)
        assert source is not None
        starts = [0, *accumulate(len(line) + 1 for line in text.split(b"\n")[:-1])]
        lines = [text.count(b"\n", 0, offset) + 1 for offset in range(len(text) + 1)]
        assert [source.line_at(offset) for offset in range(len(text) + 1)] == lines
        assert [source.line_span(number + 1)[0] for number in range(len(starts))] == starts
