"""What people are told in a source, a document or an answer: marks, work not done, remarks for what was left out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import tree_sitter

from runner.gate.answer_text import QUOTED, Prose, blank, read_answer
from runner.gate.file_roles import is_test_file
from runner.gate.languages import by_name
from runner.gate.source import ANY_MARK, SCAN_LIMIT, Source, Span, scan
from runner.gate.wording import Words, later, pattern
from tracer.redaction.cuts import beginning

# A mark at the start of a line, whatever its case, with what shows that it is one.
MARK = pattern("comments", "mark")
# A mark inside a line: capital letters only, and set off from the sentence or pointed.
MARK_LOOSE = pattern("comments", "mark_loose")
DOMAIN = Words("marks", "name_of_a_thing")
_MENTION = Words("marks", "mention")
NOT_DONE = Words("missing_work", "not_done")
REMARK = Words("omissions", "remark")
WITH_DOTS = Words("omissions", "with_dots")
_ELLIPSIS_ONLY = pattern("comments", "ellipsis_only")
_LEAD = pattern("comments", "lead")
_TRAIL = later(r"\s*(?:\*+/\}?|--+>|\"\"\"|'''|#>|=end|-\}|\]\])\s*$")
_QUOTE = later(rf"`[^`\n]+`|{QUOTED.pattern}|\{{@(?:code|link) [^}}]*\}}|<code>.*?</code>")
_FENCE = later(r"^\s*(?:```|~~~)")
_EXAMPLE = later(r"^\s*(?:>>>|\.\.\.(?:\s|$)|\$ |@example\b|\* @example\b|In \[\d+\])")
_CODE_LINE = pattern("comments", "code_line")
_BRACED = later(r"^\W*[{<\[][\w ]+[}>\]]\W*$")
_LINE_LIMIT = 400
_EXPLAINS = 5
_DOTS = ("...", "…", ". . .")


class Comment(NamedTuple):
    """One comment: its lines with their numbers, and how it stands.

    `own` is true where nothing but the comment is on its lines, `doc` where it documents behaviour (`/** */`, `///`,
    a docstring).
    """

    lines: tuple[tuple[int, str], ...]
    own: bool
    doc: bool


class Hit(NamedTuple):
    """A place in a comment: `criterion` Q2 or Q3, the words found, and its 1-based line."""

    criterion: str
    words: str
    line: int
    excerpt: str


def clean(line: str) -> str:
    """A comment's line without its leader and trailer."""
    return _TRAIL.sub("", _LEAD.sub("", line, count=1))


_WARNING = later(rb"^[ \t]*#[ \t]*warning[ \t]+[\"']?(?P<said>[^\n\"']+)", re.MULTILINE)


def comments_of(source: Source) -> list[Comment]:
    """The comments in order, of some lines those around these and around marks; scanned where there is no tree."""
    parts = [source.span] if source.lines is None else _parts(source, source.lines)
    runs: list[list[_Spot]] = []
    below = False  # whether the next line of a comment may belong to the last run
    for spot in sorted({spot for part in parts for spot in _spans(source, part)}):
        start, end, doc = spot
        alone = doc or b"\n" in source.text[start:end].rstrip(b"\n") or not source.starts_line(start)
        if below and not alone and _joins(source, runs[-1][-1], start):
            runs[-1].append(spot)
        else:
            runs.append([spot])
        below = not alone
    return [_comment(source, run) for run in runs]


_MANY = 24  # parts of a text: to look for comments in more of them costs more than to look at all of it


def _parts(source: Source, lines: Collection[int]) -> Sequence[Span]:
    """The paragraphs that hold one of some lines or a mark: the lines of one comment have no empty one between them."""
    text, parts = source.text, [(0, 0)]
    for start, end in sorted([*map(source.line_span, lines), *source.marks]):
        if end > parts[-1][1]:
            parts.append((text.rfind(b"\n\n", 0, start) + 1, text.find(b"\n\n", end) % (len(text) + 1)))
    return parts[1:] if len(parts) <= _MANY and not _is_scanned(source) else [(0, len(text))]


def _is_scanned(source: Source) -> bool:
    return source.tree is None or source.language.name == "make"


_Spot = tuple[int, int, bool]
"""Where a comment begins and ends, and whether it is a docstring."""


def _joins(source: Source, before: _Spot, start: int) -> bool:
    between = source.text[before[1] : start]
    return between.count(b"\n") + source.text[before[0] : before[1]].endswith(b"\n") == 1 and not between.strip()


def _comment(source: Source, run: list[_Spot]) -> Comment:
    start, end = run[0][0], run[-1][1]
    first = source.line_at(start)
    raw = source.text[start:end].decode("utf-8", "replace")
    lines = tuple((first + index, line[:_LINE_LIMIT]) for index, line in enumerate(raw.split("\n")))
    after = source.text[end : end + 200].split(b"\n", 1)[0].strip() if not raw.endswith("\n") else b""
    own = source.starts_line(start) and after in {b"", b"}", b"*/", b"-->"}
    # A block comment of many lines explains: dots in it belong to examples.
    explains = raw.startswith(("/**", "///", "//!", "##", "(**")) or (len(run) == 1 and len(lines) >= _EXPLAINS)
    return Comment(lines, own, doc=run[0][2] or explains)


def _spans(source: Source, span: Span) -> Iterator[_Spot]:
    language = source.language
    if _is_scanned(source):
        found = scan(source.text[:SCAN_LIMIT], language).comments if language.line or language.block else ()
        yield from ((start, end, False) for start, end in found)
        return
    for node in source.nodes(language.comments, span=span):
        if source.text[node.start_byte : node.start_byte + 2] != b"#!" or node.start_byte:
            yield node.start_byte, node.end_byte, False
    if language.name == "python":
        yield from ((node.start_byte, node.end_byte, True) for node in _docstrings(source, span))
    if language.name in {"c", "cpp"}:
        for match in _WARNING.finditer(source.text, *span):  # what the compiler is to say is said to people
            yield match.start("said"), match.end("said"), False
    yield from _embedded(source)


def _embedded(source: Source) -> Iterator[_Spot]:
    """The comments of another language in a page."""
    if source.language.name == "html":
        for element in source.nodes(("script_element", "style_element")):
            for child in element.children:
                if child.type == "raw_text":
                    yield from _offset(source, child, "javascript" if element.type == "script_element" else "css")
    if source.language.name == "php":
        for text in source.nodes(("text",)):
            yield from _offset(source, text, "html")


def _offset(source: Source, node: tree_sitter.Node, name: str) -> Iterator[_Spot]:
    if (language := by_name(name)) is not None:
        for start, end in scan(source.text[node.start_byte : node.end_byte], language).comments:
            yield node.start_byte + start, node.start_byte + end, False


def _docstrings(source: Source, span: Span) -> Iterator[tree_sitter.Node]:
    """Those of Python that may meet `span`."""
    root = source.tree.root_node if source.tree is not None else None
    for owner in (root, *source.nodes((*source.language.functions, *source.language.classes), span=span)):
        body = owner if owner is None or owner is root else owner.child_by_field_name("body")
        first = next((child for child in body.named_children if child.type != "comment"), None) if body else None
        if first is not None and first.type == "expression_statement" and first.named_child_count == 1:
            yield from (child for child in first.named_children if child.type == "string")


def read_comment(comment: Comment, source: Source, *, marks_only: bool = False) -> list[Hit]:
    """What in a `comment` of `source` stands for missing work."""
    if marks_only and not any(ANY_MARK.search(raw) for _, raw in comment.lines):
        return []
    voice = _voice(comment)
    hits = [hit for number, text, raw in voice if (hit := _mark(number, text, raw, source))]
    if marks_only:
        return hits
    marked = {hit.line for hit in hits}
    for number, text, raw in _sentences(voice):
        if number in marked:
            continue
        if found := NOT_DONE.search(text):
            hits.append(Hit(criterion="Q2", words=_short(found.group()), line=number, excerpt=raw))
        elif found := left_out(text, doc=comment.doc):
            hits.append(Hit(criterion="Q3", words=_short(found.group()), line=number, excerpt=raw))
    if not hits and not comment.doc and (dots := _dots(comment, voice)):
        hits.append(dots)
    return hits


def left_out(text: str, *, doc: bool = False) -> re.Match[str] | None:
    """A remark that stands for what was left out; documentation may speak of leaving out, so there it must begin."""
    found = REMARK.search(text)
    if found is None and not doc and any(each in text for each in _DOTS):
        found = WITH_DOTS.search(text)
    return None if found is not None and doc and text[: found.start()].strip() else found


def _dots(comment: Comment, voice: list[tuple[int, str, str]]) -> Hit | None:
    said = [line for line in voice if line[1].strip()]
    if len(said) == 1 and _ELLIPSIS_ONLY.match(said[0][1]) and comment.own:
        return Hit(criterion="Q3", words="...", line=said[0][0], excerpt=said[0][2])
    return None


def _mark(number: int, text: str, raw: str, source: Source) -> Hit | None:
    if found := MARK.match(text):
        after = text[found.end() :]
        upper = found["mark"].upper().lstrip("@")
        plain = not after.lstrip(" ").startswith((":", "(", "!", "["))
        if not (plain and (DOMAIN.search(after) or (_MENTION.search(text) and source.is_about_marks))):
            return Hit(criterion="Q2", words=upper, line=number, excerpt=raw)
        return None
    if (found := MARK_LOOSE.search(text)) and not source.is_about_marks:
        words = found["a"] or found["b"] or found["c"]
        if not _MENTION.search(text) and not (found["a"] and DOMAIN.search(text[found.end("a") :])):
            return Hit(criterion="Q2", words=words, line=number, excerpt=raw)
    return None


def _voice(comment: Comment) -> list[tuple[int, str, str]]:
    """(line, own words, raw) without examples, fences and quotations."""
    kept: list[tuple[int, str, str]] = []
    fenced = example = False
    for number, raw in comment.lines:
        text = clean(raw)
        if _FENCE.match(text):
            fenced = not fenced
            continue
        if _EXAMPLE.match(text) and (comment.doc or example or ">>>" in text or "@example" in text):
            example = True
            continue
        example = example and bool(text.strip())
        if not fenced and not example:
            kept.append((number, _QUOTE.sub(blank, text), raw))
    return kept


def _sentences(voice: list[tuple[int, str, str]]) -> Iterator[tuple[int, str, str]]:
    """Each line, and for a sentence that runs over two lines the two together, at the first one's place."""
    for index, (number, text, raw) in enumerate(voice):
        if not text.strip() or (_CODE_LINE.search(text) and "..." not in text and not _BRACED.match(text)):
            continue
        if not _continues(voice, index):
            yield number, text, raw
        if index + 1 == len(voice) or text.rstrip().endswith((".", "!", "?", ":", ";", "。")):
            continue
        below, following, _ = voice[index + 1]
        if below == number + 1 and following[:1].strip() and not following.startswith(("-", "*", "•", "@", ":")):
            yield number, f"{text.rstrip()} {following.strip()}", raw


def _continues(voice: list[tuple[int, str, str]], index: int) -> bool:
    """Whether a line goes on with the sentence of the line above it."""
    if not index or voice[index - 1][0] != voice[index][0] - 1:
        return False
    above, text = voice[index - 1][1].rstrip(), voice[index][1].lstrip()
    return bool(above.strip()) and above[-1] not in ".!?:;。…" and text[:1].islower()


def _short(words: str) -> str:
    return beginning(" ".join(words.split()).strip(" -:#/*("), 60)


# In prose a mark needs more than its letters: a colon, a verb of work after it, or a line of its own.
_PROSE_MARK = pattern("comments", "prose_mark")
_LISTS_WORK = later(
    r"(?:^|/)[^/]*(?:todo|roadmap|backlog|change-?log|changes|history|news|release|issues|plan|ideas|wish)[^/]*$",
    re.IGNORECASE,
)
_HEADING = later(r"^\s{0,3}#{1,6}\s")
_HTML_COMMENT = later(r"<!--(.*?)(?:-->|$)")
_BRACKETED = later(r"^\s*[\[(<{*_]+.*[\])>}*_]+\s*$|^\s*(?:\.{3}|…)")


def mark_in(prose: Prose) -> str:
    """The mark that a line of prose offers as its content, empty where there is none."""
    found = _PROSE_MARK.search(prose.text[:2000])
    return next((mark for mark in found.groups() if mark), "") if found else ""


def read_document(path: str, text: str) -> list[Hit]:
    """What in a Markdown or prose file stands for missing work; text beside tests is data."""
    if _LISTS_WORK.search(path) or is_test_file(path):
        return []
    return [hit for line in read_answer(text).prose if (hit := _document_line(line))]


def _document_line(line: Prose) -> Hit | None:
    for comment in _HTML_COMMENT.finditer(line.text):
        said = comment.group(1).strip()
        if (mark := MARK.match(said)) and not DOMAIN.search(said[mark.end() :]):
            return Hit(criterion="Q2", words=mark["mark"].upper(), line=line.line, excerpt=line.raw)
        if left := left_out(said):
            return Hit(criterion="Q3", words=_short(left.group()), line=line.line, excerpt=line.raw)
    if _HEADING.match(line.text) or "<!--" in line.text:
        return None
    if mark_word := mark_in(line):
        return Hit(criterion="Q2", words=mark_word, line=line.line, excerpt=line.raw)
    if _BRACKETED.match(line.text) and (left := left_out(line.text.strip())):
        return Hit(criterion="Q3", words=_short(left.group()), line=line.line, excerpt=line.raw)
    return None
