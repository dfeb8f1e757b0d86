"""Opening a text: its lines, what nests too deeply, and how much of it is parsed."""

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
        near = Source(path=path, text=one, language=language)
        shape = _shape(near.tree)
        assert _shape(parse(language, other, near=near)) == _shape(parse(language, other))
        assert _shape(near.tree) == shape


_PIECES = (
    "#include <a.h>\n\n",
    "#define ALL(x) for (x = 0; x < 9; x++) {\n#define END }\n",
    "/* What one does.\n * TODO: more. */\nstatic int one(char *s)\n{\n  if (s[0] == '}')\n    return 1; // said\n}\n",
    "#ifdef A\nint two(void) {\n#if B\n  return 2;\n#else\n  return 3;\n#endif\n}\n#endif\n",
    "struct three {\n  int a; /* a */\n  char *b;\n};\n",
    'int four(void) {\n  ALL(i) {\n    puts("}\\n{");\n  }\n  return 4;\n}\n\n',
    "enum five { A, B };\nint six(int);\n\n",
)


def _over(nodes: list[tree_sitter.Node], line: int) -> list[tuple[str, int, int]]:
    return [
        (node.type, node.start_byte, node.end_byte)
        for node in nodes
        if node.start_point.row < line <= node.end_point.row + 1
    ]


def test_around_some_lines_stands_what_stands_there_in_all_of_the_text() -> None:
    random, parts = Random(17), 0
    for _ in range(300):
        text = "#if X\n#endif\n" + "".join(random.choices(_PIECES, k=random.randint(1, 30)))
        source = open_source("a.c", text.encode())
        assert source is not None
        lines = random.sample(range(1, text.count("\n") + 1), random.randint(1, 2))
        near = source.around(lines)
        kinds = (*source.language.functions, *source.language.comments)
        parts += len(near.nodes(kinds, span=(0, len(text)))) < len(source.nodes(kinds))
        for line in lines:
            assert _over(near.nodes(kinds), line) == _over(source.nodes(kinds), line)
    assert parts > 200


def test_all_is_parsed_where_the_blocks_alone_do_not_parse() -> None:
    text = b"#if A\n#endif\n/* As in\nint f() {\n}\nsays. */\nint one(int a) {\n  return a;\n}\nint two(void) {}\n"
    source = open_source("a.c", text)
    assert source is not None
    near, kinds = source.around([8]), source.language.functions
    assert len(near.nodes(kinds, span=(0, len(text)))) == len(source.nodes(kinds)) == 2
    assert _over(near.nodes(kinds), 8) == _over(source.nodes(kinds), 8) != []


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
