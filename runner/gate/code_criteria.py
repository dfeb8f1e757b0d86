"""Q2-Q4 over changed files and code blocks of an answer: marks, omissions, syntax.

A file is parsed once for the three criteria; the last review is cached by the identity of its evidence.
"""

from __future__ import annotations

import fnmatch
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from runner.gate.answer_text import Fence, read_answer
from runner.gate.comments import Comment, Hit, comments_of, read_comment, stands_in
from runner.gate.criterion import ChangedFile, Evidence, Finding, Place, at, finding_of
from runner.gate.languages import Language, by_name
from runner.gate.line_map import FileLines, line_map
from runner.gate.prose import left_out, marks, read_markdown, unclosed_fence
from runner.gate.source import PARSE_LIMIT, Source, is_binary, is_generated, open_source
from runner.gate.stubs import Stub, asks_for_code, names_marks, stubs_of, unordered
from runner.gate.syntax import fault_of
from runner.gate.wording import Words

_NOT_CODE = {
    "diff", "patch", "console", "shell-session", "shellsession", "terminal", "text", "txt", "plaintext", "plain",
    "output", "log", "logs",
    "stdout", "stderr", "traceback", "pytb", "error", "none", "ansi", "mermaid", "plantuml", "dot", "tree", "csv",
    "http", "pycon", "console-output",
}  # fmt: skip
_QUOTED = Words("code_blocks", "quoted")
_OFFERED = Words("code_blocks", "offered")
_WHOLE = Words("code_blocks", "whole")
_NAMED = re.compile(r"[\w./-]+\.\w{1,5}\b")
_PROMPT = re.compile(r"^\s*(?:\$|>|%|❯|>>>|PS [A-Z]:|C:\\|\w+@[\w.-]+[:~$ ]|In \[\d+\]:)\s*\S", re.MULTILINE)
_DIFF = re.compile(r"^(?:@@ -\d|--- a/|\+\+\+ b/|diff --git)", re.MULTILINE)
_ERROR = re.compile(
    r"^(?:Traceback \(most recent call last\)|\s*File \"[^\"]+\", line \d+|\w*(?:Error|Exception): |\s+at \S+ ?\("
    r"|npm ERR!|error(?:\[\w+\])?: )",
    re.MULTILINE,
)
_ELIDED = re.compile(r"^\s*(?:\.\.\.|…|⋮|\[\.\.\.\])\s*$", re.MULTILINE)

# What a whole program opens with, after comments.
_STARTS = re.compile(
    r"\A\s*(?:#!|<\?php\b|<!DOCTYPE|(?:(?:# |//|/\*| \*|--)[^\n]*\n\s*){0,12}(?:import\b|from \w[\w.]* import\b"
    r"|package \w|#include\b|using [\w.]+;|use [\w:{}, ]+;|require\b|const \w+ = require|export\b))",
    re.IGNORECASE,
)
_DEFINES = re.compile(
    r"^(?:(?:export|default|public|private|pub|async|static|final|data|abstract) )*(?:def|class|func|function|fn"
    r"|interface|enum|struct|trait|object|fun|module|type|const|let|var|val|int|void|if __name__)\b"
    r"|^\s+(?:public|private|static)\b",
    re.MULTILINE,
)
_DEFINITIONS = 2
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？])(?=\S)")


def language_of_fence(fence: Fence) -> Language | None:
    """The language that the block's tag names, else JSON or Python where the text can be nothing else."""
    tag = fence.language
    if tag:
        return by_name(tag)
    body = fence.body.strip()
    if re.match(r"(?:import \w|from \w+ import |def \w+\(.*\).*:\s*$|class \w+.*:\s*$)", body, re.MULTILINE):
        return by_name("python")
    return None


def is_deliverable(fence: Fence, *, changed: Collection[str], answers_question: bool) -> bool:
    """Whether the block is offered as (part of) the result.

    `changed` are the paths this task changed on disk: then only a block offered as the whole counts. `answers_question`
    is true where the request only asked something: then likewise.
    """
    if _is_shown(fence):
        return False
    lead = _introduction(fence)
    offered = _OFFERED.search(lead) is not None
    if changed and _repeats(fence, changed):
        return False
    if changed or answers_question:
        return offered or not lead
    return True


def is_program(fence: Fence, *, changed: Collection[str]) -> bool:
    """Whether a block is a whole program or module, which must parse even where nobody says "here is the file".

    It brings in what it needs and defines or runs something; what is merely shown, or repeats a changed file, does not.
    """
    if _is_shown(fence) or (changed and _repeats(fence, changed)):
        return False
    return _STARTS.search(fence.body) is not None and len(_DEFINES.findall(fence.body)) >= _DEFINITIONS


def _is_shown(fence: Fence) -> bool:
    """Whether a block is output, a diff, a transcript, or quoted by the line above it."""
    body = fence.body
    if fence.language in _NOT_CODE or not body.strip():
        return True
    if _DIFF.search(body) or _PROMPT.search(body) or _ERROR.search(body) or _is_marked_diff(body):
        return True
    lead = _introduction(fence)
    return bool(lead and _QUOTED.search(lead) and not _WHOLE.search(lead))


def _introduction(fence: Fence) -> str:
    """The sentence that introduces a block: the last one of the line above it."""
    return _SENTENCE_END.split(fence.lead)[-1]


def looks_whole(fence: Fence) -> bool:
    """Whether a block stands by itself: it starts at the margin and nothing in it is elided."""
    lines = [line for line in fence.body.split("\n") if line.strip()]
    if not lines or lines[0][:1] in {" ", "\t"} or _ELIDED.search(fence.body):
        return False
    return lines[0].strip() not in {"...", "…"} and not lines[0].lstrip().startswith(
        (".", ")", "}", "]", "else", "elif", "except", "catch", "case ")
    )


def _is_marked_diff(body: str) -> bool:
    lines = [line for line in body.split("\n") if line.strip()]
    marked = sum(line[:1] in {"+", "-"} for line in lines)
    return len(lines) > 1 and marked * 2 >= len(lines) and any(line[:1] == "+" for line in lines)


def _repeats(fence: Fence, changed: Collection[str]) -> bool:
    named = {*_NAMED.findall(fence.info), *_NAMED.findall(_introduction(fence))}
    first = fence.body.strip().split("\n", 1)[0]
    if first.lstrip().startswith(("#", "//", "--", "/*", "<!--")):
        named.update(_NAMED.findall(first))
    return any(path == name or path.endswith("/" + name.lstrip("./")) for name in named for path in changed)


CUT_OFF = frozenset({"max_tokens", "length", "max_output_tokens", "model_context_window_exceeded", "token_limit"})
_SUBJECT_IS_MARKS = re.compile(
    rb"\b(?:lint|no-warning-comments|todo[-_ ]?(?:scan|check|find|pars|detect|mark|comment)|mark(?:er)?s?)\w*",
    re.IGNORECASE,
)
_ADVICE = {
    "Q2": "do the work that the mark stands for, then remove the mark",
    "Q3": "write the code out in full",
    "Q4": "make it parse",
}
_UNCLOSED = ("unterminated_fence", "a code block is never closed")
_DOTS_IN_DATA = re.compile(rb"^[^\"\n]*(?<![\w.\"'])\.\.\.(?![\w.\"'])", re.MULTILINE)


Found = tuple[str, Place]
"""A criterion's id and a place it points at."""
_last: tuple[Evidence, list[Found]] | None = None


def q2_marks(evidence: Evidence) -> Finding:
    """No TODO, FIXME, TBD, HACK, XXX standing for missing work; no work named as missing."""
    return _finding("Q2", evidence)


def q3_omissions(evidence: Evidence) -> Finding:
    """Nothing left out: no omission marker, no empty body where behaviour was asked for."""
    return _finding("Q3", evidence)


def q4_syntax(evidence: Evidence) -> Finding:
    """Everything delivered parses and nothing was cut off."""
    return _finding("Q4", evidence)


def _finding(criterion: str, evidence: Evidence) -> Finding:
    global _last  # noqa: PLW0603 - a memo of one entry: three criteria share one parse of each file
    kept = _last
    if kept is None or kept[0] is not evidence:
        kept = _last = (evidence, [*_review_answer(evidence), *_review_files(evidence)])
    return finding_of(place for name, place in kept[1] if name == criterion)


def _review_files(evidence: Evidence) -> Iterator[Found]:
    excluded = tuple(evidence.options.get("exclude", ()))
    lines = line_map(evidence.files).files
    for file in evidence.files:
        if file.path in lines and not any(fnmatch.fnmatch(file.path, pattern) for pattern in excluded):
            yield from review_file(file, lines[file.path], request=evidence.request, options=evidence.options)


def review_file(
    file: ChangedFile, lines: FileLines | None = None, *, request: str = "", options: Mapping[str, Any] | None = None
) -> list[Found]:
    """What Q2-Q4 find in one changed file; `lines` is its part of the change (else it is the whole of it)."""
    if file.after is None:
        return []
    if file.unstable:
        advice = "leave no process running that writes it"
        return [("Q4", at("unstable", "the file changed while it was read", path=file.path, suggestion=advice))]
    if file.too_large:
        return [("Q4", at("not_parsed", "too large to judge", path=file.path, preexisting=True))]
    source = None if is_binary(file.after) else open_source(file.path, file.after)
    if source is None or file.after == file.before:
        return []
    lines = lines or line_map([file]).files[file.path]
    options = options or {}
    found = list(_faults(source, lines.old))
    if source.note:
        found.append(("Q4", at("not_parsed", source.note, path=file.path, preexisting=True)))
    if not is_generated(file.path, file.after):
        found += _missing_work(source, lines, request)
        found += _own_marks(source, options)
    allowed = [re.compile(str(pattern)) for pattern in options.get("allow", ())]
    return [(criterion, place) for criterion, place in found if not any(each.search(place.excerpt) for each in allowed)]


def _own_marks(source: Source, options: Mapping[str, Any]) -> Iterator[Found]:
    """Q2 for the words of the option `marks`, in comments."""
    words = "|".join(re.escape(str(word)) for word in options.get("marks", ()))
    pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)")
    for comment in comments_of(source) if words else ():
        for line, text in comment.lines:
            if hit := pattern.search(text):
                yield _found("Q2", "marker", f"{hit.group()} found", source, line, text)


def _found(
    criterion: str,
    kind: str,
    message: str,
    source: Source,
    line: int | None,
    excerpt: str | None = None,
    *,
    advice: str = "",
    below: int = 0,
    preexisting: bool = False,
) -> Found:
    """A place at a line of a file, or of a block that follows the line `below` of the answer."""
    if excerpt is None:
        excerpt = source.line_text(line) if line else ""
    return criterion, at(
        kind, message, path=source.path or None, line=below + (line or 1) if below else line, excerpt=excerpt,
        suggestion=advice or _ADVICE[criterion], preexisting=preexisting,
    )  # fmt: skip


def _faults(source: Source, before: bytes | None) -> Iterator[Found]:
    fault = fault_of(source, before=before)
    if fault is not None:
        yield _found("Q4", "syntax", fault.message, source, fault.line)
        if source.language.data and (dots := _DOTS_IN_DATA.search(source.text)):
            yield _found("Q3", "omission", "`...` in place of data", source, source.line_at(dots.end() - 1))
    if source.language.name == "markdown" and (opened := _newly_unclosed(source, before)):
        yield _found("Q4", *_UNCLOSED, source, opened, "", advice="close it")


def _newly_unclosed(source: Source, before: bytes | None) -> int | None:
    if before is not None and unclosed_fence(before.decode("utf-8", "replace")) is not None:
        return None
    return unclosed_fence(source.text.decode("utf-8", "replace"))


def _missing_work(source: Source, lines: FileLines, request: str) -> list[Found]:
    """Places on lines that this task added or edited count; the others are for information."""
    if source.language.name in {"markdown", "prose"}:
        hits = read_markdown(source.path, source.text[:PARSE_LIMIT].decode("utf-8", "replace"))
    else:
        subject = _SUBJECT_IS_MARKS.search(source.text[:PARSE_LIMIT]) is not None
        hits = [hit for comment in comments_of(source) for hit in _hits_of(source, comment, mentions_marks=subject)]
    found = [_of_hit(hit, source, preexisting=hit.line not in lines.added) for hit in hits]
    marked = sorted({place.line for _, place in found if place.line is not None})
    for stub in unordered(stubs_of(source, request=request), request):
        first, last = source.line_at(stub.start), source.line_at(stub.end)
        if bisect_left(marked, first) == bisect_right(marked, last):
            kind = "missing_work" if stub.criterion == "Q2" else "stub"
            found.append(_of_stub(stub, source, kind, preexisting=not lines.touches(first, last)))
    return found


def _hits_of(source: Source, comment: Comment, *, mentions_marks: bool = False) -> list[Hit]:
    """What a comment says is missing, else what it stands in for."""
    hits = read_comment(comment, mentions_marks=mentions_marks)
    if not hits and (hit := stands_in(source, comment)) is not None:
        hits.append(hit)
    return hits


def _of_hit(hit: Hit, source: Source, *, below: int = 0, preexisting: bool = False) -> Found:
    marker = hit.words in {"TODO", "FIXME", "TBD", "HACK", "XXX", "WIP"}
    kind = "marker" if marker else "missing_work" if hit.criterion == "Q2" else "omission"
    message = f"{hit.words} found" if marker or hit.words == "..." else f"{hit.words!r} found"
    return _found(hit.criterion, kind, message, source, hit.line, hit.excerpt, below=below, preexisting=preexisting)


def _of_stub(stub: Stub, source: Source, kind: str, *, below: int = 0, preexisting: bool = False) -> Found:
    line = source.line_at(stub.start)
    return _found(
        stub.criterion, kind, stub.message, source, line, advice="implement it", below=below, preexisting=preexisting
    )


def _review_answer(evidence: Evidence) -> list[Found]:
    found: list[Found] = []
    if evidence.stop_reason is not None and evidence.stop_reason.lower() in CUT_OFF:
        advice = "answer in smaller steps"
        found.append(("Q4", at("cut_off", "the answer was cut off by the output limit", suggestion=advice)))
    answer = read_answer(evidence.answer)
    changed = [file.path for file in evidence.files if file.before != file.after]
    question = evidence.kind != "change"
    wanted = asks_for_code(evidence.request)
    for fence in answer.fences:
        if not fence.closed:
            advice = "close the block and finish the answer"
            found.append(("Q4", at(*_UNCLOSED, line=fence.line, excerpt=f"```{fence.info}", suggestion=advice)))
        elif is_deliverable(fence, changed=changed, answers_question=question and not wanted):
            _review_fence(fence, found, evidence.request)
        elif is_program(fence, changed=changed):
            found += _fault_of_fence(fence)
    if not question or not evidence.request.rstrip().endswith(("?", "？")):
        about_marks = names_marks(evidence.request)
        found += (("Q2", place) for place in marks(answer.prose, reports=question, about_marks=about_marks))
        found += (("Q3", place) for place in left_out(answer.prose))
    return found


def _review_fence(fence: Fence, found: list[Found], request: str) -> None:
    language = language_of_fence(fence)
    if language is None:
        # No tag: comments by the two commonest leaders, nothing more.
        for leader in ("python", "rust"):
            if (language := by_name(leader)) is not None:
                plain = Source(path="", text=fence.body.encode(), language=language, tree=None)
                hits = (hit for comment in comments_of(plain) for hit in read_comment(comment))
                found += (_of_hit(hit, plain, below=fence.line) for hit in hits)
        return
    source = open_source("", fence.body.encode(), language)
    if source is None or language.name in {"markdown", "prose"}:
        return
    found += _fault_of_fence(fence)
    for comment in comments_of(source):
        found += (_of_hit(hit, source, below=fence.line) for hit in _hits_of(source, comment))
    if not any(criterion in {"Q2", "Q3"} for criterion, _ in found):
        stubs = unordered(stubs_of(source), request)
        found += (_of_stub(stub, source, "stub", below=fence.line) for stub in stubs)


def _fault_of_fence(fence: Fence) -> Iterator[Found]:
    """Q4 for one block that is whole."""
    language = language_of_fence(fence)
    if language is None or language.name in {"markdown", "prose"} or not looks_whole(fence):
        return
    source = open_source("", fence.body.encode(), language)
    if source is not None and (fault := fault_of(source, fragment=True)) is not None:
        yield _found("Q4", "syntax", fault.message, source, fault.line, below=fence.line)
