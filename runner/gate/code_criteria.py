"""Q2-Q4 over what a task changed, and over code blocks that are all an answer delivers: marks, omissions, syntax.

A file is parsed once for the three criteria; the last review is cached by the identity of its evidence.
"""

from __future__ import annotations

import fnmatch
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from runner.gate.answer_text import Fence, read_answer
from runner.gate.comments import Hit, comments_of, mark_in, read_comment, read_document
from runner.gate.criterion import ChangedFile, Evidence, Finding, Place, at, finding_of
from runner.gate.definitions import LEADER, Change, is_trivial
from runner.gate.file_roles import is_test_file
from runner.gate.languages import Language, by_name
from runner.gate.line_map import FileLines
from runner.gate.source import PARSE_LIMIT, Source, forget, is_binary, is_generated, open_source
from runner.gate.structure import (
    IMPORT,
    OUT_COMMENTED,
    TEST_NAME,
    Reviewed,
    Shown,
    gutted,
    hollow,
    is_code,
    is_to_go,
    lost,
    not_implemented,
)
from runner.gate.syntax import fault_of, foreign_in
from runner.gate.wording import Words, later, pattern, tables

_NOT_CODE = frozenset(tables()["code_criteria"]["not_code"])
_PROMPT = later(r"^\s*(?:\$|>|%|❯|>>>|PS [A-Z]:|C:\\|\w+@[\w.-]+[:~$ ]|In \[\d+\]:)\s*\S", re.MULTILINE)
_DIFF = later(r"^(?:@@ -\d|--- a/|\+\+\+ b/|diff --git)", re.MULTILINE)
_ERROR = pattern("code_criteria", "error")
_ELIDED = later(r"^\s*(?:\.\.\.|…|⋮|\[\.\.\.\])\s*$", re.MULTILINE)
CUT_OFF = frozenset({"max_tokens", "length", "max_output_tokens", "model_context_window_exceeded", "token_limit"})
_MARKS = {"TODO", "FIXME", "TBD", "HACK", "XXX", "WIP"}
_ADVICE = {
    "marker": "implement what this {} describes, then delete the comment",
    "missing_work": "implement it",
    "omission": "write out what this remark stands for",
    "syntax": "make it parse",
}
_UNCLOSED = ("unterminated_fence", "a code block is never closed")
_DOTS_IN_DATA = later(rb"^[^\"\n]*(?<![\w.\"'])\.\.\.(?![\w.\"'])|^\s*\"\.\.\.\"\s*:", re.MULTILINE)
_SKELETON = Words("requests", "skeleton")
_CODE_SPAN = later(r"`([^`\n]{1,100})`")
_NAME = later(r"\w{4,}")
_GIVEN = later(r"\w{2,}\((?=[^()\s])")  # called with something
_TO_BE_DONE = Words("requests", "to_be_done")
_REFUSAL = later(r"NotImplemented(?:Error|Exception)?|todo!|unimplemented!|\bTODO\(\)|\?\?\?|not implemented")


Found = tuple[str, Place]
"""A criterion's id and a place it points at."""
_last: tuple[Evidence, list[Found]] | None = None


def q2_marks(evidence: Evidence) -> Finding:
    """No TODO, FIXME, TBD, HACK, XXX standing for missing work; no work named as missing."""
    return _finding("Q2", evidence)


def q3_omissions(evidence: Evidence) -> Finding:
    """Nothing left out: no body gutted, no definition lost, no omission marker, no empty body."""
    return _finding("Q3", evidence)


def q4_syntax(evidence: Evidence) -> Finding:
    """Everything delivered parses and nothing was cut off."""
    return _finding("Q4", evidence)


def _finding(criterion: str, evidence: Evidence) -> Finding:
    global _last  # noqa: PLW0603 - a memo of one entry: three criteria share one parse of each file
    kept = _last
    if kept is None or kept[0] is not evidence:
        kept = _last = (evidence, [*_review_answer(evidence), *_review_files(evidence)])
        forget()
    return finding_of(place for name, place in kept[1] if name == criterion)


def _review_files(evidence: Evidence) -> Iterator[Found]:
    excluded = tuple(evidence.options.get("exclude", ()))
    change = Change(evidence.files)
    named = frozenset(_NAME.findall(" ".join(_CODE_SPAN.findall(evidence.answer))))
    for file in evidence.files:
        if file.path in change.lines and not any(fnmatch.fnmatch(file.path, pattern) for pattern in excluded):
            yield from review_file(file, change, request=evidence.request, named=named, options=evidence.options)


def review_file(
    file: ChangedFile, change: Change | None = None, *,
    request: str = "", named: frozenset[str] = frozenset(), options: Mapping[str, Any] | None = None,
) -> list[Found]:  # fmt: skip
    """What Q2-Q4 find in one file of a change (else of that file alone); `named` are names that the answer gives."""
    if file.unstable:
        advice = "leave no process running that writes it"
        return [("Q4", at("unstable", "the file changed while it was read", path=file.path, suggestion=advice))]
    if file.too_large:
        return [("Q4", at("not_parsed", "too large to judge", path=file.path, preexisting=True))]
    if file.after == file.before or (file.after is not None and is_binary(file.after)):
        return []
    change = change or Change([file])
    lines = change.lines[file.path]
    source = None if file.after is None else open_source(file.path, file.after)
    if file.after is None or _is_emptied(source, lines):
        return [] if file.path in change.renamed else _removed(file, lines, change, request)
    options = options or {}
    found: list[Found] = []
    reviewed = Reviewed(source, lines) if source is not None else None
    foreign = foreign_in(file.path, file.after, old=lines.old, source=reviewed.source if reviewed else None)
    if foreign is not None:
        advice = "write the file's content, and nothing else"
        found.append(("Q4", at("foreign", foreign.message, path=file.path, line=foreign.line, suggestion=advice)))
    if reviewed is not None:
        found += _faults(reviewed.whole, lines.old)
        if reviewed.source.note:
            found.append(("Q4", at("not_parsed", reviewed.source.note, path=file.path, preexisting=True)))
        if not is_generated(file.path, file.after):
            found += _missing_work(reviewed, change, request, named)
            found += _own_marks(reviewed.whole, options)
    allowed = [re.compile(str(pattern)) for pattern in options.get("allow", ())]
    return [(criterion, place) for criterion, place in found if not any(each.search(place.excerpt) for each in allowed)]


def _is_emptied(source: Source | None, lines: FileLines) -> bool:
    """Whether a file that held something holds nothing now, or code nothing but comments."""
    code = source is not None and bool(source.language.functions)
    new, old = (any(one and not (code and LEADER.match(one)) for one in side) for side in (lines.after, lines.before))
    return old and not new


def _removed(file: ChangedFile, lines: FileLines, change: Change, request: str) -> list[Found]:
    """What is lost with a file that is gone."""
    gone = open_source(file.path, b"")
    if gone is None or file.before is None or is_generated(file.path, file.before):
        return []
    if file.after is None and change.takes_out(PurePosixPath(file.path).stem.encode(), file.path):
        return []
    shown = list(lost(Reviewed(gone, lines), request, change=change))
    code = [line for number in lines.removed if (line := lines.before[number - 1]) and not LEADER.match(line)]
    kept = file.after is not None and not all(map(IMPORT.match, code)) and not is_test_file(file.path)
    if kept and not shown and not is_to_go(request, file.path):
        advice = "put back what the request does not ask to remove"
        return [("Q3", at("lost", "everything in the file is gone", path=file.path, suggestion=advice))]
    return [(each.criterion, at(each.kind, each.message, path=file.path, suggestion=each.advice)) for each in shown]


def _own_marks(source: Source, options: Mapping[str, Any]) -> Iterator[Found]:
    """Q2 for the words of the option `marks`, in comments."""
    words = "|".join(re.escape(str(word)) for word in options.get("marks", ()))
    pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)")
    for comment in comments_of(source) if words else ():
        for line, text in comment.lines:
            if hit := pattern.search(text):
                yield _found("Q2", "marker", f"{hit.group()} found", source, line, advice="take it out")


def _found(
    criterion: str, kind: str, message: str, source: Source, line: int | None, *,
    excerpt: str | None = None, advice: str, below: int = 0, preexisting: bool = False,
) -> Found:  # fmt: skip
    """A place at a line of a file, or of a block that follows the line `below` of the answer."""
    if excerpt is None:
        excerpt = source.line_text(line) if line else ""
    return criterion, at(
        kind, message, path=source.path or None, line=below + (line or 1) if below else line, excerpt=excerpt,
        suggestion=advice, preexisting=preexisting,
    )  # fmt: skip


def _faults(source: Source, before: bytes | None) -> Iterator[Found]:
    fault = fault_of(source, before=before)
    if fault is not None:
        yield _found("Q4", "syntax", fault.message, source, fault.line, advice=_ADVICE["syntax"])
    if source.language.data and (fault is not None or source.language.name == "json"):
        dots = _DOTS_IN_DATA.search(source.text)
        if dots and (before is None or not _DOTS_IN_DATA.search(before)):
            line = source.line_at(dots.end() - 1)
            yield _found("Q3", "omission", "`...` in place of data", source, line, advice=_ADVICE["omission"])
    if source.language.name == "markdown":
        opened = _unclosed_fence(source.text)
        if opened is not None and (before is None or _unclosed_fence(before) is None):
            yield _found("Q4", *_UNCLOSED, source, opened, excerpt="", advice="close it")


def _unclosed_fence(text: bytes) -> int | None:
    """The line of a fence that never closes, None where all do."""
    if b"```" not in text and b"~~~" not in text:
        return None
    return next((fence.line for fence in read_answer(text.decode("utf-8", "replace")).fences if not fence.closed), None)


def _missing_work(file: Reviewed, change: Change, request: str, named: frozenset[str] = frozenset()) -> list[Found]:
    """Places on lines that this task added or edited count; the others are for information."""
    source, added = file.source, file.lines.added
    found: list[Found] = []
    for hit in _hits(source):
        note = hit.line in added and hit.words in _MARKS and _is_note(hit, file, change, request)
        found.append(_of_hit(hit, source, kind="note" if note else "", preexisting=note or hit.line not in added))
    marked = sorted({place.line for _, place in found if place.line is not None and not place.preexisting})
    for shown in _structure(file, change, request, named):
        if bisect_left(marked, shown.first) == bisect_right(marked, shown.last) or shown.kind in {"gutted", "lost"}:
            old = shown.kind in {"stub", "missing_work"} and not file.lines.touches(shown.first, shown.last)
            first, advice = shown.first or None, shown.advice
            place = _found(shown.criterion, shown.kind, shown.message, source, first, advice=advice, preexisting=old)
            found.append(place)
    return found


def _structure(file: Reviewed, change: Change, request: str, claimed: frozenset[str]) -> Iterator[Shown]:
    """What the structure of one file shows."""
    if file.source.tree is None:
        yield from _commented_out(file, request)
        return
    ordered = _SKELETON.search(request) is not None
    named = frozenset(() if _TO_BE_DONE.search(request) else _REFUSAL.findall(request))
    for shown in () if ordered else not_implemented(file):
        if not any(word.rstrip("()") in shown.message for word in named):
            yield shown
    emptied = list(gutted(file, request))
    taken = [shown.first for shown in emptied]
    yield from emptied
    if not ordered:
        asked = claimed.union(_NAME.findall(request), _GIVEN.findall(request))
        yield from (shown for shown in hollow(file, asked, change) if shown.first not in taken)
    if file.old is not None:
        yield from lost(file, request, change=change)
    yield from _commented_out(file, request)


def _hits(source: Source) -> Iterator[Hit]:
    """What stands for missing work; of comments beside the source's lines only their marks, for information."""
    if source.language.name in {"markdown", "prose"}:
        yield from read_document(source.path, source.text[:PARSE_LIMIT].decode("utf-8", "replace"))
        return
    for comment in comments_of(source):
        beside = source.lines is not None and source.lines.isdisjoint(line for line, _ in comment.lines)
        yield from read_comment(comment, source, marks_only=beside)


def _of_hit(hit: Hit, source: Source, *, kind: str = "", below: int = 0, preexisting: bool = False) -> Found:
    marker = hit.words in _MARKS
    sort = "marker" if marker else "missing_work" if hit.criterion == "Q2" else "omission"
    message = f"{hit.words} found" if marker or hit.words == "..." else f"{hit.words!r} found"
    return _found(
        hit.criterion, kind or sort, message, source, hit.line, excerpt=hit.excerpt,
        advice=_ADVICE[sort].format(hit.words), below=below, preexisting=preexisting,
    )  # fmt: skip


_BESIDE = 50  # added lines of code for each mark: less is no work that a mark could be a side note of
_EXPLAINED = 25  # words
_REMARK_BYTES = 4000
_TRACKED = later(rb"(?<!\w)#\d+|\b[A-Z]{2,10}-\d+\b|https?://[\x21-\x7e]+")
_TELLING = later(r"[^\W\d_]{4,}")
_CLOSES = later(r"[)\]}]|(?:end|fi|done|esac|else|elif|elsif|except|catch|finally|case|default|rescue|ensure)\b|</")


def _is_note(hit: Hit, file: Reviewed, change: Change, request: str) -> bool:
    """Whether a mark on an added line is its author's note beside work that is there, not work that is missing.

    It is one where it stood there before in other words, or else where it is about code that follows in its block and
    does something, nothing that the request asks for, and either small beside the work, tracked, or explained.
    """
    lines, source = file.lines, file.source
    around = [one for one in file.touched if one.lines[0] <= hit.line <= one.lines[1]]
    data = is_test_file(source.path) and not any(TEST_NAME.match(one.name) for one in around)
    if any(one.is_trivial for one in around) and not data:
        return False
    said = lines.after[hit.line - 1] if 0 < hit.line <= len(lines.after) else b""
    if said in change.old_marks or any(_alike(said, old) for old in change.gone_marks):
        return True
    if is_test_file(source.path):
        return bool(file.touched) or not source.language.functions
    number, code, remark = _code_below(source, hit.line) if source.tree is not None else (0, b"", "")
    if not code or is_trivial(code):
        return False
    told = {word[:6] for word in _TELLING.findall(remark.lower())} - {"todo", "fixme"}
    if len(told.intersection(word[:6] for word in _TELLING.findall(request.lower()))) * 2 >= max(2, len(told)):
        return False
    above = hit.line - 1
    while above and LEADER.match(lines.after[above - 1]):
        above -= 1
    said = b"\n".join(lines.after[above : hit.line - 1]) + b"\n" + remark.encode()
    if any(ticket.decode() not in request for ticket in _TRACKED.findall(said)):
        return True
    code_lines, marks = change.added
    if code_lines and not around and number not in lines.added:
        return True
    return len(remark.split()) >= _EXPLAINED or code_lines >= _BESIDE * max(1, marks)


def _alike(one: bytes, other: bytes) -> bool:
    """Whether two lines share most of their words."""
    these, those = set(re.findall(rb"\w+", one)), set(re.findall(rb"\w+", other))
    return len(these & those) * 2 > max(len(these), len(those))


def _code_below(source: Source, line: int) -> tuple[int, bytes, str]:
    """The line and text of the code that a remark is about, empty where its block ends with it; and what it says."""
    start, _ = source.line_span(line)
    remark: list[bytes] = []
    indent = -1
    for text in source.text[start : start + _REMARK_BYTES].split(b"\n"):
        bare, at = text.lstrip(), start + len(text) - len(text.lstrip())
        start += len(text) + 1
        if not bare:
            continue
        if is_code(source, at):
            if indent < 0:  # behind the code on its line
                ends = [node.start_byte for node in source.nodes(source.language.comments, span=(at, at + len(bare)))]
                bare = bare[: ends[-1] - at] if ends else bare
                remark.append(text[len(text) - len(text.lstrip()) + len(bare) :])
            closes = _CLOSES.match(bare.decode("utf-8", "replace")) or len(text) - len(text.lstrip()) < indent
            return source.line_at(at), b"" if closes else bare, b" ".join(remark).decode("utf-8", "replace")
        indent = len(text) - len(bare) if indent < 0 else indent
        remark.append(bare)
    return 0, b"", ""


_TRAILER = later(rb"\s*(?:\*/|-->)$")
_CODE = later(rb"[=(){}\[\];:]|^\s*(?:return|import|end|else|break)\b")


def _commented_out(file: Reviewed, request: str) -> Iterator[Shown]:
    """Code that stood there and now is a comment, with none written in its place."""
    lines = file.lines
    if lines.old is None or not lines.removed or not file.source.language.functions:
        return
    if re.search(r"(?i)\bcomment(?:ed|s|ing)?\b.{0,20}\bout\b|\bdisabl", request):
        return
    taken = {lines.before[number - 1] for number in lines.removed}
    written = [n for n in lines.added if not (LEADER.match(lines.after[n - 1]) or is_trivial(lines.after[n - 1]))]
    run: list[int] = []
    for number in [*sorted(lines.added), 0]:
        text = lines.after[number - 1] if number else b""
        bare = _TRAILER.sub(b"", LEADER.sub(b"", text)).strip()
        was_code = bare != text and len(bare) > 3 and bare in taken and _CODE.search(bare) is not None
        if run and (not was_code or number != run[-1] + 1):
            around = [one.lines for one in file.touched if one.lines[0] <= run[0] <= one.lines[1]]
            first, last = around[-1] if around else (0, len(lines.after))
            if len(run) >= OUT_COMMENTED and not any(first <= number <= last for number in written):
                yield Shown(
                    kind="commented_out", message=f"{len(run)} lines of code commented out",
                    first=run[0], last=run[-1], advice="change the code or take it out; do not leave it as a comment",
                )  # fmt: skip
            run = []
        if was_code:
            run.append(number)


def _review_answer(evidence: Evidence) -> list[Found]:
    """The answer's own text: blocks that never close, code where it is all that is delivered, marks."""
    found: list[Found] = []
    if evidence.stop_reason is not None and evidence.stop_reason.lower() in CUT_OFF:
        advice = "answer in smaller steps"
        found.append(("Q4", at("cut_off", "the answer was cut off by the output limit", suggestion=advice)))
    answer = read_answer(evidence.answer)
    changed = any(file.before != file.after for file in evidence.files)
    question = evidence.kind != "change"
    for fence in answer.fences:
        if not fence.closed:
            advice = "close the block and finish the answer"
            found.append(("Q4", at(*_UNCLOSED, line=fence.line, excerpt=f"```{fence.info}", suggestion=advice)))
        elif not changed and not question and not _is_shown(fence):
            _review_fence(fence, found, evidence.request)
    if not question:
        for line in answer.prose:
            if mark := mark_in(line):
                advice = _ADVICE["marker"].format(mark)
                place = at("marker", f"{mark} found", line=line.line, excerpt=line.raw, suggestion=advice)
                found.append(("Q2", place))
    return found


def _is_shown(fence: Fence) -> bool:
    """Whether a block is output, a diff or a transcript."""
    body = fence.body
    if fence.language in _NOT_CODE or not body.strip():
        return True
    lines = [line for line in body.split("\n") if line.strip()]
    marked = sum(line[:1] in {"+", "-"} for line in lines)
    if len(lines) > 1 and marked * 2 >= len(lines) and any(line[:1] == "+" for line in lines):
        return True
    return any(pattern.search(body) for pattern in (_DIFF, _PROMPT, _ERROR))


def _looks_whole(fence: Fence) -> bool:
    """Whether a block stands by itself: it starts at the margin and nothing in it is elided."""
    lines = [line for line in fence.body.split("\n") if line.strip()]
    if not lines or lines[0][:1] in {" ", "\t"} or _ELIDED.search(fence.body):
        return False
    first = lines[0].strip()
    return first != "…" and not first.startswith((".", ")", "}", "]", "else", "elif", "except", "catch", "case "))


def _language_of(fence: Fence) -> Language | None:
    """The language that the block's tag names, else Python where the text can be nothing else."""
    if fence.language:
        return by_name(fence.language)
    body = fence.body.strip()
    if re.match(r"(?:import \w|from \w+ import |def \w+\(.*\).*:\s*$|class \w+.*:\s*$)", body, re.MULTILINE):
        return by_name("python")
    return None


def _review_fence(fence: Fence, found: list[Found], request: str) -> None:
    language = _language_of(fence)
    if language is None:
        # No tag: comments by the two commonest leaders, nothing more.
        for leader in ("python", "rust"):
            if (language := by_name(leader)) is not None:
                plain = Source(path="", text=fence.body.encode(), language=language, unread="a part")
                found += (_of_hit(hit, plain, below=fence.line) for hit in _hits(plain))
        return
    source = open_source("", fence.body.encode(), language)
    if source is None or language.name in {"markdown", "prose"}:
        return
    if _looks_whole(fence) and (fault := fault_of(source, fragment=True)) is not None:
        advice = _ADVICE["syntax"]
        found.append(_found("Q4", "syntax", fault.message, source, fault.line, advice=advice, below=fence.line))
    block = ChangedFile(path="", before=None, after=source.text)
    change = Change([block])
    for criterion, place in _missing_work(Reviewed(source, change.lines[""]), change, request):
        found.append((criterion, place._replace(line=fence.line + (place.line or 1), preexisting=False)))
