"""Q2, Q3 and Q4 over one answer: every changed file whole, every deliverable block, and the prose.

A file is parsed once for the three criteria: the last review is kept beside its evidence (compared by identity), so
this is still a function of the evidence alone.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from runner.criteria.answer import Fence, read_answer
from runner.criteria.comments import Comment, Hit, comments_of, read_comment
from runner.criteria.fences import is_deliverable, is_program, language_of_fence, looks_whole
from runner.criteria.finding import at, finding_of
from runner.criteria.kind import asks_for_change, asks_for_code, effective_kind
from runner.criteria.languages import by_name
from runner.criteria.markdown import read_markdown, unclosed_fence
from runner.criteria.model import ChangedFile, Evidence, Finding, Place
from runner.criteria.orders import names_marks
from runner.criteria.prose import left_out, marks
from runner.criteria.scope import asks_to_finish, names_file, was_there_before
from runner.criteria.source import PARSE_LIMIT, Source, is_binary, is_generated, open_source
from runner.criteria.standins import stands_in
from runner.criteria.stubs import stubs_of, unordered
from runner.criteria.syntax import fault_of

__all__ = ["CUT_OFF", "q2_marks", "q3_omissions", "q4_syntax", "review_file"]

CUT_OFF = frozenset({"max_tokens", "length", "max_output_tokens", "model_context_window_exceeded", "token_limit"})
_SUBJECT_IS_MARKS = re.compile(
    rb"\b(?:lint|no-warning-comments|todo[-_ ]?(?:scan|check|find|pars|detect|mark|comment)|mark(?:er)?s?)\w*",
    re.IGNORECASE,
)
_MANY = 500
_ADVICE = {
    "Q2": "do the work that the mark stands for, then remove the mark",
    "Q3": "write the code out in full",
    "Q4": "make it parse",
}
_DOTS_IN_DATA = re.compile(rb"^[^\"\n]*(?<![\w.\"'])\.\.\.(?![\w.\"'])", re.MULTILINE)


@dataclass(slots=True)
class _Review:
    """Places of the three criteria, in the order of the answer."""

    places: dict[str, list[Place]] = field(default_factory=lambda: {"Q2": [], "Q3": [], "Q4": []})

    def add(self, criterion: str, place: Place) -> None:
        self.places[criterion].append(place)


_last: tuple[Evidence, _Review] | None = None


def q2_marks(evidence: Evidence) -> Finding:
    """No TODO, FIXME, TBD, HACK, XXX standing for missing work; no work named as missing."""
    return finding_of(_review(evidence).places["Q2"])


def q3_omissions(evidence: Evidence) -> Finding:
    """Nothing left out: no omission marker, no empty body where behaviour was asked for."""
    return finding_of(_review(evidence).places["Q3"])


def q4_syntax(evidence: Evidence) -> Finding:
    """Everything delivered parses and nothing was cut off."""
    return finding_of(_review(evidence).places["Q4"])


def _review(evidence: Evidence) -> _Review:
    global _last  # noqa: PLW0603 - a memo of one entry: three criteria share one parse of each file
    kept = _last
    if kept is not None and kept[0] is evidence:
        return kept[1]
    review = _Review()
    if evidence.stop_reason is not None and evidence.stop_reason.lower() in CUT_OFF:
        review.add(
            "Q4", at("cut_off", "the answer was cut off by the output limit", suggestion="answer in smaller steps")
        )
    _review_answer(evidence, review)
    excluded = tuple(evidence.options.get("exclude", ()))
    for file in evidence.files:
        if not any(fnmatch.fnmatch(file.path, pattern) for pattern in excluded):
            for criterion, place in review_file(file, request=evidence.request, options=evidence.options):
                review.add(criterion, place)
    _last = (evidence, review)
    return review


def review_file(
    file: ChangedFile, *, request: str = "", options: Mapping[str, Any] | None = None
) -> list[tuple[str, Place]]:
    """What Q2-Q4 find in one changed file, as (criterion, place)."""
    if file.after is None:
        return []
    if file.unstable:
        return [
            (
                "Q4",
                at(
                    "unstable",
                    "the file changed while it was read",
                    path=file.path,
                    suggestion="leave no process running that writes it",
                ),
            )
        ]
    if file.too_large or is_binary(file.after):
        return (
            [("Q4", at("not_parsed", "too large to judge", path=file.path, preexisting=True))] if file.too_large else []
        )
    source = open_source(file.path, file.after)
    if source is None or file.after == file.before:
        return []
    found: list[tuple[str, Place]] = []
    found += _faults(source, file)
    if source.note:
        found.append(("Q4", at("not_parsed", source.note, path=file.path, preexisting=True)))
    if not is_generated(file.path, file.after):
        found += _missing_work(source, file, request)
        found += _own_marks(source, options or {})
    return _allowed(found, options or {})


def _own_marks(source: Source, options: Mapping[str, Any]) -> list[tuple[str, Place]]:
    """Q2 for the words of the option `marks`, in comments."""
    words = "|".join(re.escape(str(word)) for word in options.get("marks", ()))
    if not words:
        return []
    pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)")
    return [
        (
            "Q2",
            at("marker", f"{hit.group()} found", path=source.path, line=line, excerpt=text, suggestion=_ADVICE["Q2"]),
        )
        for comment in comments_of(source)
        for line, text in comment.lines
        if (hit := pattern.search(text))
    ]


def _allowed(found: list[tuple[str, Place]], options: Mapping[str, Any]) -> list[tuple[str, Place]]:
    """What is left when places whose excerpt matches an expression of the option `allow` are dropped."""
    patterns = [re.compile(str(pattern)) for pattern in options.get("allow", ())]
    return [
        (criterion, place) for criterion, place in found if not any(each.search(place.excerpt) for each in patterns)
    ]


def _faults(source: Source, file: ChangedFile) -> Iterable[tuple[str, Place]]:
    fault = fault_of(source, before=file.before)
    if fault is not None:
        excerpt = source.line_text(fault.line) if fault.line else ""
        yield (
            "Q4",
            at("syntax", fault.message, path=file.path, line=fault.line, excerpt=excerpt, suggestion=_ADVICE["Q4"]),
        )
        if source.language.data and (dots := _DOTS_IN_DATA.search(source.text)):
            line = source.line_at(dots.end() - 1)
            yield (
                "Q3",
                at(
                    "omission",
                    "`...` in place of data",
                    path=file.path,
                    line=line,
                    excerpt=source.line_text(line),
                    suggestion=_ADVICE["Q3"],
                ),
            )
    if source.language.name == "markdown" and (opened := _newly_unclosed(source, file)):
        yield (
            "Q4",
            at(
                "unterminated_fence", "a code block is never closed", path=file.path, line=opened, suggestion="close it"
            ),
        )


def _newly_unclosed(source: Source, file: ChangedFile) -> int | None:
    if file.before is not None and unclosed_fence(file.before.decode("utf-8", "replace")) is not None:
        return None
    return unclosed_fence(source.text.decode("utf-8", "replace"))


def _missing_work(source: Source, file: ChangedFile, request: str) -> list[tuple[str, Place]]:
    if source.language.name in {"markdown", "prose"}:
        hits = [
            (hit, *_line_span(source, hit.line))
            for hit in read_markdown(file.path, source.text[:PARSE_LIMIT].decode("utf-8", "replace"))
        ]
    else:
        subject = _SUBJECT_IS_MARKS.search(source.text[:PARSE_LIMIT]) is not None
        hits = [
            (hit, comment.start, comment.end)
            for comment in comments_of(source)
            for hit in _hits_of(source, comment, mentions_marks=subject)
        ][:_MANY]
    old = partial(_is_old, source, file, request)
    found: list[tuple[str, Place]] = []
    for hit, start, end in hits:
        found.append(
            (hit.criterion, _place_of(hit, file.path, preexisting=old(*_line_span(source, hit.line), start, end)))
        )
    marked = {place.line for _, place in found}
    for stub in unordered(stubs_of(source, request=request), request):
        line = source.line_at(stub.start)
        last = source.line_at(stub.end)
        if not any(mark is not None and line <= mark <= last for mark in marked):
            kind = "missing_work" if stub.criterion == "Q2" else "stub"
            place = at(
                kind, stub.message, path=file.path, line=line, excerpt=source.line_text(line),
                suggestion="implement it", preexisting=old(stub.start, stub.end, stub.start, stub.end),
            )  # fmt: skip
            found.append((stub.criterion, place))
    return found


def _hits_of(source: Source, comment: Comment, *, mentions_marks: bool = False) -> list[Hit]:
    """What a comment says is missing, else what it stands in for."""
    hits = read_comment(comment, mentions_marks=mentions_marks)
    if not hits and (hit := stands_in(source, comment)) is not None:
        hits.append(hit)
    return hits


def _line_span(source: Source, line: int) -> tuple[int, int]:
    start = source._starts[line - 1]  # noqa: SLF001 - the same package's line table
    end = source.text.find(b"\n", start)
    return start, len(source.text) if end < 0 else end


def _is_old(
    source: Source, file: ChangedFile, request: str, start: int, end: int, whole_start: int, whole_end: int
) -> bool:
    """The rule on what was there before: untouched with its section, the file not named, nothing to finish."""
    if file.before is None or names_file(request, file.path) or asks_to_finish(request):
        return False
    if source.text[start:end].strip() not in file.before:
        return False
    return was_there_before(source, whole_start, whole_end, file.before, request)


def _place_of(hit: Hit, path: str | None, *, preexisting: bool = False) -> Place:
    marker = hit.words in {"TODO", "FIXME", "TBD", "HACK", "XXX", "WIP"}
    kind = "marker" if marker else "missing_work" if hit.criterion == "Q2" else "omission"
    message = f"{hit.words} found" if marker or hit.words == "..." else f"{hit.words!r} found"
    return at(
        kind,
        message,
        path=path,
        line=hit.line,
        excerpt=hit.excerpt,
        suggestion=_ADVICE[hit.criterion],
        preexisting=preexisting,
    )


def _review_answer(evidence: Evidence, review: _Review) -> None:
    answer = read_answer(evidence.answer)
    changed = [file.path for file in evidence.files if file.before != file.after]
    question = effective_kind(evidence) != "change" and not asks_for_change(evidence.request)
    wanted = asks_for_code(evidence.request)
    for fence in answer.fences:
        if not fence.closed:
            review.add(
                "Q4",
                at(
                    "unterminated_fence",
                    "a code block is never closed",
                    line=fence.line,
                    excerpt=f"```{fence.info}",
                    suggestion="close the block and finish the answer",
                ),
            )
        elif is_deliverable(fence, changed=changed, answers_question=question and not wanted):
            _review_fence(fence, review, evidence.request)
        elif is_program(fence, changed=changed):
            _parse_fence(fence, review)
    speaks_of_work = not question or not evidence.request.rstrip().endswith(("?", "？"))
    if speaks_of_work and evidence.kind not in {"question", "investigation"}:
        prose: Sequence = answer.prose  # type: ignore[type-arg]  # the parts of the answer, as read
        reports = question and bool(evidence.request)
        for place in marks(prose, reports=reports, about_marks=names_marks(evidence.request)):
            review.add("Q2", place)
        for place in left_out(prose):
            review.add("Q3", place)


def _review_fence(fence: Fence, review: _Review, request: str) -> None:
    language = language_of_fence(fence)
    source = open_source("", fence.body.encode(), language or by_name("javascript"))
    if source is None or (language is not None and language.name in {"markdown", "prose"}):
        return
    if language is None:
        _review_untagged(fence, review)
        return
    _parse_fence(fence, review)
    for comment in comments_of(source):
        for hit in _hits_of(source, comment):
            place = _place_of(hit, None)
            review.add(
                hit.criterion,
                at(
                    place.type,
                    place.message,
                    line=fence.line + hit.line,
                    excerpt=hit.excerpt,
                    suggestion=place.suggestion,
                ),
            )
    if not review.places["Q2"] and not review.places["Q3"]:
        for stub in unordered(stubs_of(source), request):
            line = source.line_at(stub.start)
            review.add(
                stub.criterion,
                at(
                    "stub",
                    stub.message,
                    line=fence.line + line,
                    excerpt=source.line_text(line),
                    suggestion="implement it",
                ),
            )


def _parse_fence(fence: Fence, review: _Review) -> None:
    """Q4 for one block that is whole."""
    language = language_of_fence(fence)
    if language is None or language.name in {"markdown", "prose"} or not looks_whole(fence):
        return
    source = open_source("", fence.body.encode(), language)
    if source is not None and (fault := fault_of(source, fragment=True)) is not None:
        review.add(
            "Q4",
            at(
                "syntax",
                fault.message,
                line=fence.line + (fault.line or 1),
                excerpt=source.line_text(fault.line) if fault.line else "",
                suggestion=_ADVICE["Q4"],
            ),
        )


def _review_untagged(fence: Fence, review: _Review) -> None:
    """A block without a tag: comments by every common leader, nothing more."""
    for name in ("python", "slash"):
        language = by_name(name) if name == "python" else by_name("rust")
        if language is None:
            continue
        plain = Source(path="", text=fence.body.encode(), language=language, tree=None)
        for comment in comments_of(plain):
            for hit in read_comment(comment):
                place = _place_of(hit, None)
                review.add(
                    hit.criterion,
                    at(
                        place.type,
                        place.message,
                        line=fence.line + hit.line,
                        excerpt=hit.excerpt,
                        suggestion=place.suggestion,
                    ),
                )
