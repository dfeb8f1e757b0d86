"""A file as the criteria see it: language, syntax tree, comments, brackets.

Nothing over `PARSE_LIMIT` is parsed, and a parse that needs too many steps is given up (counted, not timed).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple

import tree_sitter

from runner.gate.languages import Language, by_path, grammar, has_grammar
from runner.gate.wording import pattern, pattern_of_bytes
from tracer.errors import adding

_PAIRS = {b")": b"(", b"]": b"[", b"}": b"{"}


class Scan(NamedTuple):
    """What the scanner saw.

    `comments` are (start, end) in bytes; `open_at` is the offset of the first bracket left
    open, None where all are closed; `stray` that of the first closing bracket that opens nothing; `unclosed` is what
    the text ended inside (`string`, `comment` or empty).
    """

    comments: tuple[tuple[int, int], ...]
    open_at: int | None
    stray: int | None
    unclosed: str


@cache
def _tokens(language: Language) -> re.Pattern[bytes]:
    parts: list[str] = []
    for start, end in language.block:
        begin = rf"^{re.escape(start)}" if start == "=begin" else re.escape(start)
        parts.append(rf"(?P<block{len(parts)}>{begin}[\s\S]*?(?:{re.escape(end)}|\Z))")
    for quote in language.quotes:
        mark = re.escape(quote)
        long = len(quote) == 3 or quote == "`"
        inner = r"[\s\S]" if long else r"[^\n\\]"
        parts.append(rf"(?P<string{len(parts)}>{mark}(?:\\[\s\S]|(?!{mark}){inner})*+(?:{mark}|(?=\n)|\Z))")
    for leader in language.line:
        guard = r"(?<![\w$&\\:{#])" if leader in {"#", "::"} else r"(?<!:)" if leader == "//" else ""
        parts.append(rf"(?P<line{len(parts)}>{guard}{re.escape(leader)}[^\n]*)")
    parts.append(r"(?P<bracket>[()\[\]{}])")
    return re.compile("|".join(parts).encode(), re.MULTILINE)


def scan(text: bytes, language: Language) -> Scan:
    """Read `text` once."""
    comments: list[tuple[int, int]] = []
    stack: list[tuple[bytes, int]] = []
    stray: int | None = None
    unclosed = ""
    quoted = tuple((quote, quote) for quote in language.quotes)
    for match in _tokens(language).finditer(text):
        kind = match.lastgroup or ""
        if kind.startswith(("block", "line")):
            comments.append(match.span())
            if kind.startswith("block") and match.end() == len(text) and not _closed(match.group(), language.block):
                unclosed = "comment"
        elif kind == "bracket":
            mark = match.group()
            if mark not in _PAIRS:
                stack.append((mark, match.start()))
            elif stack and stack[-1][0] == _PAIRS[mark]:
                stack.pop()
            elif stray is None:
                stray = match.start()
        elif match.end() == len(text) and not _closed(match.group(), quoted):
            unclosed = "string"
    return Scan(comments=tuple(comments), open_at=stack[0][1] if stack else None, stray=stray, unclosed=unclosed)


def _closed(text: bytes, marks: Iterable[tuple[str, str]]) -> bool:
    """Whether a comment or string begins and ends with a pair of its marks."""
    pairs = ((start.encode(), end.encode()) for start, end in marks)
    return any(
        text.startswith(start) and text.endswith(end) and len(text) >= len(start) + len(end) for start, end in pairs
    )


PARSE_LIMIT = 8 * 1024 * 1024
TOO_DEEP = "nested too deeply to parse"
# Of what is not parsed, or too large to be, so much is read by the scanner.
SCAN_LIMIT = 2 * 1024 * 1024
_CHUNK = 65536
_SLICE = 512
_STEPS_PER_BYTE = 0.6
_STEPS_BASE = 20_000
_HEAD = 8192
_LONG_LINE = 2000
_DEPTH_LIMIT = 3000
_NOT_BRACKETS = bytes(set(range(256)) - set(b"()[]{}"))
_ROUNDS = 12
_ROUND = bytes.maketrans(b"[]{}", b"()()")
ANY_MARK = re.compile(r"TODO|FIXME|TBD|HACK|XXX|todo|fixme")
MARK_BYTES = re.compile(ANY_MARK.pattern.encode())
_SUBJECT_IS_MARKS = pattern_of_bytes("source", "subject_is_marks")
_EXTENDS = pattern_of_bytes("source", "extends")
_GENERATED_NAME = pattern("source", "generated_name")
_GENERATED_TEXT = pattern_of_bytes("source", "generated_text")


Span = tuple[int, int]
"""Where a part of a text begins and ends, in bytes."""
_AROUND = 3


class _Text(NamedTuple):
    path: str
    text: bytes
    language: Language
    tree: tree_sitter.Tree | None
    note: str = ""


class Source(_Text):
    """One text with its language. `tree` is None where there is no grammar or `note` says why it was not parsed."""

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(rb"\n", self.text))]

    @cached_property
    def extended(self) -> frozenset[bytes]:
        """The names that stand where a class of this text names what it extends."""
        heads = (match.group(1) or match.group(2) or match.group(3) or b"" for match in _EXTENDS.finditer(self.text))
        return frozenset(word for head in heads for word in re.findall(rb"\w+", head))

    @cached_property
    def is_about_marks(self) -> bool:
        """Whether marks such as TODO, of which it holds some, are its own subject."""
        return all(each.search(self.text[:PARSE_LIMIT]) for each in (MARK_BYTES, _SUBJECT_IS_MARKS))

    def line_at(self, offset: int) -> int:
        """The 1-based line of a byte offset."""
        return bisect_right(self._starts, offset)

    def line_span(self, line: int) -> tuple[int, int]:
        """Where a 1-based line begins and ends; the first line where there is no such line."""
        start = self._starts[line - 1] if 0 < line <= len(self._starts) else 0
        end = self.text.find(b"\n", start)
        return start, len(self.text) if end < 0 else end

    def line_text(self, line: int) -> str:
        """The text of a 1-based line, at most 400 bytes."""
        start, end = self.line_span(line)
        return self.text[start : min(end, start + 400)].decode("utf-8", "replace")

    def starts_line(self, offset: int) -> bool:
        """Whether only blanks stand before `offset` on its line."""
        start = self._starts[self.line_at(offset) - 1]
        return not self.text[start:offset].strip()

    @cached_property
    def _found(self) -> dict[tuple[tuple[str, ...], Span | None], list[tree_sitter.Node]]:
        return {}

    def nodes(self, types: tuple[str, ...], *, span: Span | None = None) -> list[tree_sitter.Node]:
        """All nodes of `types`, in the order of the text, that meet `span`; a type may be a pattern with `@node`."""
        if self.tree is None or not types:
            return []
        language = self.language
        usual = (*language.comments, *language.functions, *language.literals, *language.classes)
        if types != usual and set(types) <= set(usual):  # a query takes 1-4 ms to make, however much it asks for
            return [node for node in self.nodes(usual, span=span) if node.type in types]
        if (types, span) not in self._found:
            cursor = tree_sitter.QueryCursor(_query(language, types))
            if span is not None:
                cursor.set_byte_range(*span)
            found = cursor.captures(self.tree.root_node).get("node", [])
            self._found[types, span] = sorted(found, key=lambda node: node.start_byte)
        return self._found[types, span]

    def span_of(self, lines: Collection[int]) -> Span:
        """The bytes from the first to the last of some lines, and a few lines around them."""
        if not lines:
            return 0, 0
        start = self.line_span(max(1, min(lines) - _AROUND))[0]
        last = max(lines) + _AROUND
        return start, len(self.text) if last >= len(self._starts) else self.line_span(last)[1]


@cache
def _query(language: Language, types: tuple[str, ...]) -> tree_sitter.Query:
    patterns = (name if name.startswith("(") else f"({name}) @node" for name in dict.fromkeys(types))
    return tree_sitter.Query(grammar(language), "\n".join(patterns))


def upwards(node: tree_sitter.Node | None) -> Iterator[tree_sitter.Node]:
    """A node and all that it stands in, from the inside out."""
    while node is not None:
        yield node
        node = node.parent


def is_binary(text: bytes) -> bool:
    """Whether the text is no text: a NUL in its head."""
    return b"\0" in text[:_HEAD]


def is_generated(path: str, text: bytes) -> bool:
    """Whether a file is made by a tool or another project: its marks are not this task's."""
    if _GENERATED_NAME.search(path) or (b"generated" in text[:2048].lower() and _GENERATED_TEXT.search(text[:2048])):
        return True
    if len(text) > _HEAD and path.endswith((".js", ".mjs", ".cjs", ".css")):
        return len(text) / (text.count(b"\n") + 1) > _LONG_LINE
    return False


@lru_cache(maxsize=32)
def open_source(path: str, text: bytes, language: Language | None = None) -> Source | None:
    """The source of `text`, parsed where its language has a grammar; None for binary files and unknown languages.

    One review asks for the same text a few times; it calls `forget` when it is done.
    """
    if is_binary(text):
        return None
    found = language or by_path(path, text[:_HEAD])
    if found is None:
        return None
    text = text.removeprefix(b"\xef\xbb\xbf")
    if not has_grammar(found):
        read = PARSE_LIMIT if found.name in {"markdown", "prose"} else SCAN_LIMIT
        note = f"only its first {read >> 20} MB were read" if len(text) > read else ""
        if found.module:
            note = f"its grammar is not installed ({adding(found.module)})"
        return Source(path=path, text=text, language=found, tree=None, note=note)
    if len(text) > PARSE_LIMIT:
        size = f"{len(text) / 1048576:.0f} MB"
        return Source(path=path, text=text, language=found, tree=None, note=f"too large to parse ({size})")
    global _near  # noqa: PLW0603 - a memo of one entry: the two sides of a file are opened one after the other
    near = _near if _near is not None and (_near.path, _near.language) == (path, found) else None
    tree = None if is_too_deep(text) else parse(found, text, near=near)
    _near = Source(path=path, text=text, language=found, tree=tree, note="" if tree else TOO_DEEP)
    return _near


_near: Source | None = None


def forget() -> None:
    """Free the trees that are kept."""
    global _near  # noqa: PLW0603 - as above
    _near = None
    open_source.cache_clear()


def is_too_deep(text: bytes) -> bool:
    """Whether brackets nest so deeply that no program is meant: parsers take quadratic time, or die, on such text."""
    brackets = text.translate(None, _NOT_BRACKETS)
    if len(brackets) < _DEPTH_LIMIT and text.count(b"<") < 20 * _DEPTH_LIMIT:
        return False
    if text.count(b"<") - 2 * text.count(b"</") > 20 * _DEPTH_LIMIT:
        return True
    left = brackets.translate(_ROUND)
    for level in range(_ROUNDS):  # without its innermost pairs the rest is less deep by one
        if level + left.count(b"(") <= _DEPTH_LIMIT:
            return False
        left = left.replace(b"()", b"")
    depths = accumulate(brackets, lambda depth, mark: depth + 1 if mark in b"([{" else max(0, depth - 1), initial=0)
    return max(depths) > _DEPTH_LIMIT


_AS_ASCII = bytes(range(128)) + b"x" * 128


def parse(language: Language, text: bytes, *, near: Source | None = None) -> tree_sitter.Tree | None:
    """The syntax tree, or None where the parser was stopped after too many steps.

    Of `near`, a text like this one, what is the same is not parsed again. Around errors that may give another tree:
    where the grammar is trusted with them, a text that has some is parsed by itself.
    """
    steps, chunk = 0, _CHUNK
    allowed = int(len(text) * _STEPS_PER_BYTE) + _STEPS_BASE

    # bash's scanner gives every character to isdigit(), which crashes on large ones: it sees letters instead.
    seen = text.translate(_AS_ASCII) if language.module == "bash" else text

    def read(offset: int, _point: object) -> bytes:
        return seen[offset : offset + chunk]

    def stop(*_: object) -> bool:
        nonlocal steps
        steps += 1
        return steps > allowed

    try:
        parser = tree_sitter.Parser(grammar(language))
        old = None if near is None or near.tree is None else _edited(near.tree, near.text, text)
        tree = parser.parse(read, old, progress_callback=stop) if old else parser.parse(read, progress_callback=stop)
    except ValueError:
        return None
    if old and tree.root_node.has_error and language.trust != "advise":
        return parse(language, text)
    # `Node.text` reads through the same function, mostly a few words: large slices would cost more than the parse.
    chunk, seen = _SLICE, text
    return tree


def _edited(tree: tree_sitter.Tree, text: bytes, new: bytes) -> tree_sitter.Tree:
    """The tree of `text` with its places moved to where they are in `new`."""
    most = min(len(text), len(new))
    start = bisect_left(range(most), 1, key=lambda size: text[: size + 1] != new[: size + 1])
    end = bisect_left(range(most - start), 1, key=lambda size: text[-size - 1 :] != new[-size - 1 :])
    ends = ((start, text), (len(text) - end, text), (len(new) - end, new))
    points = ((side.count(b"\n", 0, at), at - side.rfind(b"\n", 0, at) - 1) for at, side in ends)
    edited = tree.copy()
    edited.edit(start, len(text) - end, len(new) - end, *points)
    return edited
