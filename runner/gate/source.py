"""A file as the criteria see it: language, syntax tree, comments, brackets.

Nothing over `PARSE_LIMIT` is parsed, and a parse that needs too many steps is given up (counted, not timed).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, cached_property, lru_cache
from itertools import accumulate, count
from operator import add
from typing import NamedTuple

import tree_sitter

from runner.gate.languages import Language, by_path, grammar, has_grammar
from runner.gate.wording import later, pattern, pattern_of_bytes
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
_EACH_MARK = tuple(map(re.compile, MARK_BYTES.pattern.split(b"|")))  # word by word takes half as long as all at once
_SUBJECT_IS_MARKS = pattern_of_bytes("source", "subject_is_marks")
_EXTENDS = pattern_of_bytes("source", "extends")
_PREPROCESSED = later(rb"^\s*#\s*(?:if|ifdef|ifndef|define\b[^\n]*[{}()])", re.MULTILINE)
_GENERATED_NAME = pattern("source", "generated_name")
_GENERATED_TEXT = pattern_of_bytes("source", "generated_text")


Span = tuple[int, int]
"""Where a part of a text begins and ends, in bytes."""
_AROUND = 3


class _Text(NamedTuple):
    path: str
    text: bytes
    language: Language
    unread: str = ""
    lines: frozenset[int] | None = None
    whole: Source | None = None


class Source(_Text):
    """One text with its language, parsed when its tree is asked for; where `unread` says why not to, it is not."""

    @cached_property
    def tree(self) -> tree_sitter.Tree | None:
        """The syntax tree, None where there is no grammar or `note` says why it was not parsed."""
        global _near  # noqa: PLW0603 - a memo of one entry: the two sides of a file are parsed one after the other
        if self.unread or not has_grammar(self.language):
            return None
        if self.whole is None:
            near = _near if _near is not None and (_near.path, _near.language) == (self.path, self.language) else None
            _near = self
            return parse(self.language, self.text, near=near)
        tree = parse(self.language, self.text, ranges=self._blocks()) if is_preprocessed(self) else None
        return tree if tree and not any(node.is_error for node in tree.root_node.children) else self.whole.tree

    @property
    def note(self) -> str:
        """Why it was not parsed, or not all of it was read; empty where it was."""
        return self.unread or (TOO_DEEP if has_grammar(self.language) and self.tree is None else "")

    def around(self, lines: Collection[int]) -> Source:
        """The same text for questions about some of its lines and its marks.

        Of preprocessed C, whose syntax is not judged, only what stands around those is parsed, a tenth of the file
        mostly; all of it where an error shows that a block begins or ends elsewhere.
        """
        return self._replace(lines=frozenset(lines), whole=self)

    @cached_property
    def span(self) -> Span:
        """From the first to the last of `lines`, and a few lines around them; all of the text without any."""
        if not self.lines:
            return 0, len(self.text) if self.lines is None else 0
        start = self.line_span(max(1, min(self.lines) - _AROUND))[0]
        last = max(self.lines) + _AROUND
        return start, len(self.text) if last >= len(self._starts) else self.line_span(last)[1]

    def _blocks(self) -> list[tree_sitter.Range]:
        """Around each of `lines`, and each mark, what is between two brackets that end a block and begin a line."""
        found: list[Span] = []
        places = [*(self.line_span(line)[0] for line in self.lines or (1,)), *(start for start, _ in self.marks)]
        for at in sorted(places):
            if found and at < found[-1][1]:
                continue
            before, behind = self.text.rfind(b"\n}", 0, at) + 1, self.text.find(b"\n}", max(at - 1, 0)) + 1
            start = self.text.find(b"\n", before) + 1 if before else 0
            end = self.text.find(b"\n", behind) + 1 if behind else 0
            if found and start <= found[-1][1]:
                start = found.pop()[0]
            found.append((start, end or len(self.text)))
        rows = [[self.line_at(offset) - 1 for offset in span] for span in found]
        return [tree_sitter.Range((a, 0), (b, 0), *span) for (a, b), span in zip(rows, found, strict=True)]

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *map(add, accumulate(map(len, self.text.split(b"\n")[:-1])), count(1))]

    @cached_property
    def extended(self) -> frozenset[bytes]:
        """The names that stand where a class of this text names what it extends."""
        heads = (match.group(1) or match.group(2) or match.group(3) or b"" for match in _EXTENDS.finditer(self.text))
        return frozenset(word for head in heads for word in re.findall(rb"\w+", head))

    @cached_property
    def marks(self) -> list[Span]:
        """Where the words for missing work stand, in comments or not."""
        return [mark.span() for each in _EACH_MARK for mark in each.finditer(self.text)]

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
        return not self.text[self._starts[self.line_at(offset) - 1] : offset].strip()

    def above(self, offset: int) -> Iterator[tree_sitter.Node]:
        """The smallest node at an offset and all that it stands in; nothing where there is no tree."""
        root = self.tree.root_node if self.tree is not None else None
        return upwards(root.descendant_for_byte_range(offset, offset + 1) if root is not None else None)

    @cached_property
    def _found(self) -> dict[tuple[tuple[str, ...], Span], list[tree_sitter.Node]]:
        return {}

    def nodes(self, types: tuple[str, ...], *, span: Span | None = None) -> list[tree_sitter.Node]:
        """All nodes of `types`, in the order of the text, that meet a span; a type may be a pattern with `@node`."""
        if self.tree is None or not types:
            return []
        span = span or self.span
        language = self.language
        usual = (*language.comments, *language.functions, *language.literals, *language.classes)
        if types != usual and set(types) <= set(usual):  # a query takes 1-4 ms to make, however much it asks for
            return [node for node in self.nodes(usual, span=span) if node.type in types]
        if (types, span) not in self._found:
            cursor = tree_sitter.QueryCursor(_query(language, types))
            cursor.set_byte_range(*span)
            found = cursor.captures(self.tree.root_node).get("node", [])
            self._found[types, span] = sorted(found, key=lambda node: node.start_byte)
        return self._found[types, span]


@cache
def _query(language: Language, types: tuple[str, ...]) -> tree_sitter.Query:
    patterns = (name if name.startswith("(") else f"({name}) @node" for name in dict.fromkeys(types))
    return tree_sitter.Query(grammar(language), "\n".join(patterns))


def upwards(node: tree_sitter.Node | None) -> Iterator[tree_sitter.Node]:
    """A node and all that it stands in, from the inside out."""
    while node is not None:
        yield node
        node = node.parent


def is_preprocessed(source: Source) -> bool:
    """Whether a text is C that the grammar cannot judge: its preprocessor puts pieces together."""
    return source.language.name in {"c", "cpp"} and _PREPROCESSED.search(source.text) is not None


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
    elif len(text) > PARSE_LIMIT:
        note = f"too large to parse ({len(text) / 1048576:.0f} MB)"
    else:
        note = TOO_DEEP if is_too_deep(text) else ""
    return Source(path=path, text=text, language=found, unread=note)


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


def parse(
    language: Language, text: bytes, *, near: Source | None = None, ranges: Sequence[tree_sitter.Range] = ()
) -> tree_sitter.Tree | None:
    """The syntax tree, of some `ranges` or of all, or None where the parser was stopped after too many steps.

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
        parser = tree_sitter.Parser(grammar(language), included_ranges=list(ranges))
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
