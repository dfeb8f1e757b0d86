"""Comments of a source: mark words, omission markers, and comments in place of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter

from runner.gate.file_roles import is_test_file
from runner.gate.languages import BODIES, Language, by_name
from runner.gate.source import SCAN_LIMIT, Source, scan, upwards
from runner.gate.wording import Words

_I = re.IGNORECASE

# A mark at the start of a line, whatever its case, with what shows that it is one.
MARK = re.compile(
    r"^\W*(?P<mark>(?:TODO|FIXME|TBD|HACK|XXX|(?i:@?(?:todo|fixme|tbd|hack)(?=\s*(?:[:(\[!]|-\s|–|—)|\s*$)))"
    r"|(?i:(?:todo|fixme)(?=\s+(?:implement|fix|handle|finish|refactor|clean up|optimi[sz]e|improve|validate|later"
    r"|this)\b)))(?![\w-]|\.\w|\s*=)",
)
# A mark inside a line: capital letters only, and set off from the sentence or pointed.
MARK_LOOSE = re.compile(
    r"(?:(?:^|[.;:!?)\]–—]\s+|\s-+\s+|\(|\[|,\s+)(?P<a>TODO|FIXME|TBD|HACK|XXX)(?![\w-]|\.\w)"
    r"|(?<![\w-])(?P<b>TODO|FIXME|TBD|HACK|XXX)(?:\([\w .@#-]{1,40}\))?\s*[:!](?!:)"
    r"|(?<![\w-])(?P<c>FIXME|TBD|TODO)\W*$)"
)
# After a mark: the word is the name of a thing, as in a to-do app, or one of a list of marks.
DOMAIN = re.compile(
    r"^(?:'?s\b|/|\||`|\s*(?:,|/|\||&|->|→|=>)\s*(?:DOING|DONE|FIXME|HACK|XXX|TBD|IN.PROGRESS|TODO|BUG|NOTE|OPEN|and"
    r"|or)\b|\s+(?:lists?|apps?|applications?|items?|comments?|marks?|markers?|states?|columns?|entry|entries|tags?"
    r"|labels?|tasks?|cards?|DOING|DONE|FIXME|or|and|is|are|has|holds|handlers?|stores?|models?|views?|pages?"
    r"|services?|components?|controllers?|API|reducer|routes?|schema|types?|interface|CRUD|managers?|boards?|lines?"
    r"|words?|keywords?|text|title|titles|status|counter|count|created|updated|deleted|does|was|were|will be"
    r"|to be shown|resource|endpoint|repository|entity|data|object|class|struct|record|row|table|id|name|field|fields"
    r"|form|input|button|notes?|annotations?|detector|scanner|checker|found|rule|rules|checks"
    r"|check(?=\s+(?:is|was|has|runs|fails|passes|rejects)\b)|prefix|pattern"
    r"|by(?=\s+(?:id|ids|its|index|name|status|key|user|owner|date|uuid|slug)\b)|for each)\b"
    # "list", "store", "record" … before an object are what is still to be done, not what the program deals with.
    r"(?!\s+(?:the|an?|all|this|these|those|it|them|our|my|each|every|some|any)\b))",
)
# The sentence talks about marks; it is none.
MENTION = re.compile(
    r"\b(?:such as|e\.g\.|for example|example|like|match(?:es|ing)?|starts? with|begins? with|prefix|find(?:s|ing)?"
    r"|search|grep|counts?|reports?|detect(?:s|ed|ing)?|rejects?|forbid|disallow|highlights?|pars(?:e|es|ing|er)"
    r"|recogni[sz]es?|called|named|labell?ed|keyword|comments? (?:like|with|that)|words?|marker|patterns?"
    r"|scan(?:s|ner)?|ignor(?:e|es|ing)|becomes?|gives?|returns?|prints?|shows?|no|none|without|removed?|resolved?"
    r"|replaced?|instead of|column|state|status|either|one of|regex|lint|linter|rule)\b",
    _I,
)


_MISSING = Words("missing_work", "in_comment")
LEFT_OUT = Words("left_out", "strict")
LEFT_OUT_DOTS = Words("left_out", "dots")
_LEFT_OUT_WEAK = Words("left_out", "weak")
_ELLIPSIS_ONLY = re.compile(
    r"^[\s\[\](){}<>*/#;%!_-]*(?:(?:\.{3,}|…|\. \. \.)[\s\[\](){}<>*/#;%!,_-]*)+$|^\W*\[(?:\.\.\.|…)\]\W*$"
)
_OMITS = Words("left_out", "omits")
_OF_CODE = Words("left_out", "of_code")
_OF_DATA = Words("left_out", "of_data")


# Said of code wherever it stands.
_ALWAYS = re.compile(r"(?:以下|以降|残り)(?:は|も|、)?(?:省略|略|同様|同じ)|[中下後]略")
# "On a failure …, the other nodes stay as they are" is behaviour; "the rest of the code stays" is left out.
_KEEPS = re.compile(r"保持(?:不变|原样|原有)|不变|不變")


def omits_data(sentence: str, found: str) -> bool:
    """Whether a sentence in which `found` speaks of leaving out means data, as a part of what the code does."""
    if _ALWAYS.search(found) or _ALWAYS.search(sentence):
        return False
    if _KEEPS.search(found):
        before = sentence[: sentence.find(found)]
        return re.search(r"[,，;；:：]", before) is not None and _OF_CODE.search(found) is None
    return (
        _OMITS.search(found) is not None and _OF_DATA.search(sentence) is not None and _OF_CODE.search(sentence) is None
    )


_LEAD = re.compile(
    r"^\s*(?:\{/\*+|/\*+!?|\*+/|\*(?![*/])|//+[!/]?|#\||#+!?|--+(?:\[\[)?|<!--+|;+|%+|[rRbBuUfF]{0,2}(?:\"\"\"|''')"
    r"|REM\b|rem\b|::|<#|=begin|\{-|\{#)?[ \t]?"
)
_TRAIL = re.compile(r"\s*(?:\*+/\}?|--+>|\"\"\"|'''|#>|=end|-\}|\]\])\s*$")
_QUOTE = re.compile(
    r"`[^`\n]+`|\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|「[^」\n]{1,200}」|『[^』\n]{1,200}』|«[^»\n]{1,200}»|"
    r"„[^“”\n]{1,200}[“”]"
    r"|(?<!\w)'[^'\n]{1,120}'(?!\w)|\{@(?:code|link) [^}]*\}|<code>.*?</code>"
)
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_EXAMPLE = re.compile(r"^\s*(?:>>>|\.\.\.(?:\s|$)|\$ |@example\b|\* @example\b|In \[\d+\])")
_CODE_LINE = re.compile(
    r"[;{}]\s*$|^\s*(?:return|if|for|while|const|let|var|import|def|function|class|throw|raise)\b.*[(={;:]|"
    r"^\s*[\w.]+\(.*\)\s*;?\s*$|^\s*@\w+\(",
    re.ASCII,  # a remark in brackets after a Japanese word is no call
)
_NO_WORK = re.compile(
    rb"(?:return|pass|\.\.\.|:|true)\s*(?:None|null|nil|undefined|true|false|True|False|0|1|-1|0\.0|\"\"|''|\[\]|\{\}"
    rb"|\(\)|[a-z_]\w{0,20})?\s*(?:,\s*nil)?;?$"
)
_BRACED = re.compile(r"^\W*[{<\[][\w ]+[}>\]]\W*$")
_LINE_LIMIT = 400
_EXPLAINS = 5
_DOTS = ("...", "…", ". . .")
_EMPTY = (b"", b"*/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """One comment: its lines with their numbers, its bytes, and how it stands.

    `own` is true where nothing but the comment is on its lines, `doc` where it documents behaviour (`/** */`, `///`,
    a docstring). `node` is its first syntax node, None from the scanner.
    """

    lines: tuple[tuple[int, str], ...]
    start: int
    end: int
    own: bool
    doc: bool
    node: tree_sitter.Node | None = None

    @property
    def text(self) -> str:
        """All lines without leaders, joined by blanks."""
        return " ".join(clean(text) for _, text in self.lines).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A place in a comment: `criterion` Q2 or Q3, the words found, and its 1-based line."""

    criterion: str
    words: str
    line: int
    excerpt: str


def clean(line: str) -> str:
    """A comment's line without its leader and trailer."""
    return _TRAIL.sub("", _LEAD.sub("", line, count=1))


_WARNING = re.compile(rb"^[ \t]*#[ \t]*warning[ \t]+[\"']?(?P<said>[^\n\"']+)", re.MULTILINE)


def comments_of(source: Source) -> list[Comment]:
    """All comments of `source` in order; by its tree, or by the scanner where there is none."""
    spans = list(_spans(source))
    spans.sort(key=lambda span: span[0])
    merged: list[Comment] = []
    run: list[tuple[int, int, tree_sitter.Node | None]] = []
    for start, end, node, doc in spans:
        if doc or b"\n" in source.text[start:end].rstrip(b"\n") or not source.starts_line(start):
            merged += _flush(source, run)
            run = []
            merged.append(_comment(source, [(start, end, node)], doc=doc))
            continue
        if run and not _joins(source, run[-1], start):
            merged += _flush(source, run)
            run = []
        run.append((start, end, node))
    return merged + _flush(source, run)


def _flush(source: Source, run: list[tuple[int, int, tree_sitter.Node | None]]) -> list[Comment]:
    return [_comment(source, run, doc=False)] if run else []


def _joins(source: Source, before: tuple[int, int, object], start: int) -> bool:
    between = source.text[before[1] : start]
    return between.count(b"\n") + source.text[before[0] : before[1]].endswith(b"\n") == 1 and not between.strip()


def _comment(source: Source, run: list[tuple[int, int, tree_sitter.Node | None]], *, doc: bool) -> Comment:
    start, end = run[0][0], run[-1][1]
    first = source.line_at(start)
    raw = source.text[start:end].decode("utf-8", "replace")
    lines = tuple((first + index, line[:_LINE_LIMIT]) for index, line in enumerate(raw.split("\n")))
    after = source.text[end : end + 200].split(b"\n", 1)[0].strip() if not raw.endswith("\n") else b""
    return Comment(
        lines=lines,
        start=start,
        end=end,
        own=source.starts_line(start) and after in {b"", b"}", b"*/", b"-->"},
        # A block comment of many lines explains: dots in it belong to examples.
        doc=doc or raw.startswith(("/**", "///", "//!", "##", "(**")) or (len(run) == 1 and len(lines) >= _EXPLAINS),
        node=run[0][2],
    )


def _spans(source: Source) -> Iterator[tuple[int, int, tree_sitter.Node | None, bool]]:
    if source.tree is None or source.language.name == "make":
        yield from ((start, end, None, False) for start, end in _scanned(source.text[:SCAN_LIMIT], source.language))
        return
    for node in source.nodes(source.language.comments):
        if source.text[node.start_byte : node.start_byte + 2] != b"#!" or node.start_byte:
            yield node.start_byte, node.end_byte, node, False
    if source.language.name == "python":
        yield from _docstrings(source)
    if source.language.name in {"c", "cpp"}:
        for match in _WARNING.finditer(source.text):  # what the compiler is to say is said to people
            yield match.start("said"), match.end("said"), None, False
    if source.language.name == "html":
        for element in source.nodes(("script_element", "style_element")):
            inner = by_name("javascript" if element.type == "script_element" else "css")
            yield from _inside(source, element, "raw_text", inner)
    if source.language.name == "php":
        for text in source.nodes(("text",)):
            yield from _offset(source, text, by_name("html"))


def _inside(
    source: Source, element: tree_sitter.Node, kind: str, language: Language | None
) -> Iterator[tuple[int, int, tree_sitter.Node | None, bool]]:
    for child in element.children:
        if child.type == kind:
            yield from _offset(source, child, language)


def _offset(
    source: Source, node: tree_sitter.Node, language: Language | None
) -> Iterator[tuple[int, int, tree_sitter.Node | None, bool]]:
    if language is not None:
        for start, end in scan(source.text[node.start_byte : node.end_byte], language).comments:
            yield node.start_byte + start, node.start_byte + end, None, False


def _scanned(text: bytes, language: Language) -> tuple[tuple[int, int], ...]:
    return scan(text, language).comments if language.line or language.block else ()


def _docstrings(source: Source) -> Iterator[tuple[int, int, tree_sitter.Node | None, bool]]:
    for node in source.nodes(("expression_statement",)):
        if node.named_child_count != 1 or node.parent is None:
            continue
        child = node.named_children[0]
        if child.type == "string" and _is_first(node):
            yield child.start_byte, child.end_byte, child, True


def _is_first(statement: tree_sitter.Node) -> bool:
    before = statement.prev_named_sibling
    while before is not None and before.type == "comment":
        before = before.prev_named_sibling
    parent = statement.parent
    return (
        before is None
        and parent is not None
        and parent.type in {"module", "block"}
        and (
            parent.type == "module"
            or (parent.parent is not None and parent.parent.type in {"function_definition", "class_definition"})
        )
    )


def read_comment(comment: Comment, *, mentions_marks: bool = False) -> list[Hit]:
    """What in `comment` stands for missing work. `mentions_marks` is for code whose own subject is such marks."""
    voice = _voice(comment)
    hits = [hit for number, text, raw in voice if (hit := _mark(number, text, raw, mentions_marks=mentions_marks))]
    marked = {hit.line for hit in hits}
    for number, text, raw in _sentences(voice):
        if number in marked:
            continue
        if found := _MISSING.search(text):
            hits.append(Hit(criterion="Q2", words=_short(found.group()), line=number, excerpt=raw))
        elif found := _left_out(comment, text):
            hits.append(Hit(criterion="Q3", words=_short(found.group()), line=number, excerpt=raw))
    if not hits and not comment.doc and (dots := _dots(comment, voice)):
        hits.append(dots)
    return hits


def _left_out(comment: Comment, text: str) -> re.Match[str] | None:
    found = LEFT_OUT.search(text)
    if found is not None and omits_data(text, found.group()):
        return None
    if found is None and not comment.doc:
        found = LEFT_OUT_DOTS.search(text) if any(dots in text for dots in _DOTS) else None
        if found is None and comment.own and (weak := _LEFT_OUT_WEAK.search(text)) and not _followed(comment):
            found = weak
    return found


def _followed(comment: Comment) -> bool:
    """Whether code of the same block comes after the comment, more than a return of nothing much."""
    after = comment.node.next_named_sibling if comment.node is not None else None
    while after is not None and "comment" in after.type:
        after = after.next_named_sibling
    if after is None:
        return False
    text = (after.text or b"")[:80]
    return after.next_named_sibling is not None or _NO_WORK.match(text) is None


def _dots(comment: Comment, voice: list[tuple[int, str, str]]) -> Hit | None:
    said = [line for line in voice if line[1].strip()]
    if len(said) == 1 and _ELLIPSIS_ONLY.match(said[0][1]) and comment.own:
        return Hit(criterion="Q3", words="...", line=said[0][0], excerpt=said[0][2])
    return None


def _mark(number: int, text: str, raw: str, *, mentions_marks: bool) -> Hit | None:
    if found := MARK.match(text):
        after = text[found.end() :]
        upper = found["mark"].upper().lstrip("@")
        plain = not after.lstrip(" ").startswith((":", "(", "!", "["))
        if not (plain and (DOMAIN.match(after) or (mentions_marks and MENTION.search(text)))):
            return Hit(criterion="Q2", words=upper, line=number, excerpt=raw)
        return None
    if (found := MARK_LOOSE.search(text)) and not mentions_marks:
        words = found["a"] or found["b"] or found["c"]
        if not MENTION.search(text) and not (found["a"] and DOMAIN.match(text[found.end("a") :])):
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
            kept.append((number, _QUOTE.sub(lambda match: " " * len(match.group()), text), raw))
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
    flat = " ".join(words.split()).strip(" -:#/*(")
    return flat if len(flat) <= 60 else flat[:59] + "…"


_BLOCKS = BODIES | {
    "lambda_literal", "do_block", "closure_expression", "then", "else", "template_body", "indented_block",
}  # fmt: skip
_UNNAMED = ("arrow_function", "function_expression")
_HEADS = {
    "lambda_parameters", "block_parameters", "lambda_function_type", "formal_parameters", "parameters", "bindings",
    "capture_list", "parameter_list",
}  # fmt: skip
_LIKE = Words("stand_in", "like")
_TO_DO = Words("stand_in", "to_do")
_REASON = Words("deliberate", "stand_in")
_CLOSES = re.compile(rb"\s*(?:\}|end\b)")
_OPENS = (b"{", b"|", b" in", b" do", b"then", b"else", b">", b")")
_NEAR = 120
_LINES = 4


def stands_in(source: Source, comment: Comment) -> Hit | None:
    """The hit where `comment` is all that a block holds and takes the place of its code."""
    if comment.doc or comment.node is None or len(comment.lines) > _LINES:
        return None
    # A quick look at what stands around it spares most comments the patterns and the tree.
    before = source.text[max(0, comment.start - _NEAR) : comment.start].rstrip()
    if not before.endswith(_OPENS) or _CLOSES.match(source.text, comment.end) is None:
        return None
    text = comment.text
    like = _LIKE.search(text) is not None
    if not (like or _TO_DO.search(text)) or _REASON.search(text) or not _is_alone(comment.node):
        return None
    if not like and (not _in_literal(source, comment.node) or is_test_file(source.path)):
        return None
    number, raw = comment.lines[0]
    return Hit(criterion="Q3", words=text[:60], line=number, excerpt=raw)


def _is_alone(node: tree_sitter.Node) -> bool:
    """Whether nothing but comments stands in the block around `node`."""
    parent = node.parent
    if parent is None or parent.type not in _BLOCKS or (parent.type == "block" and parent.parent is None):
        return False
    return all("comment" in child.type or child.type in _HEADS for child in parent.named_children)


def _in_literal(source: Source, node: tree_sitter.Node) -> bool:
    """Whether the block around `node` is the body of a function without a name."""
    kinds = {*source.language.literals, *_UNNAMED}
    above = next((each for each in upwards(node.parent) if each.type in kinds or each.type not in _BLOCKS), None)
    return above is not None and above.type in kinds and not _ignores_failure(above)


def _ignores_failure(literal: tree_sitter.Node) -> bool:
    """Whether the literal is given to `.catch(…)`: what it says there is why the failure does not matter."""
    arguments = literal.parent
    call = arguments.parent if arguments is not None else None
    callee = call.child_by_field_name("function") if call is not None else None
    return callee is not None and (callee.text or b"").endswith((b".catch", b".finally"))
