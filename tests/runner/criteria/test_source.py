"""Opening a text: its lines, what nests too deeply, and what is parsed of it."""

from __future__ import annotations

from itertools import accumulate
from random import Random

import pytest
import tree_sitter

from runner.gate.source import is_too_deep, open_source

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
