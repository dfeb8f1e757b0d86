"""Which files an answer claims to have delivered, and which files a request names. Pure: strings in, strings out.

A path counts as claimed where the answer says it was created, written, changed or the like; a path merely mentioned
(read, explained, suggested, negated) is no claim. Looking them up on disk is `runner.checks.evidence`'s part.
"""

from __future__ import annotations

import re

from runner.gate.answer_text import blank, read_answer
from runner.gate.wording import Words, later, pattern

_EXTENSIONS = pattern("claimed_paths", "extensions").pattern
_BARE = "Dockerfile|Makefile|Containerfile|Jenkinsfile|Procfile|Rakefile|Gemfile|LICENSE|CODEOWNERS"
_NAME = r"[\w@+\-.()\[\]$]"
# Names have at most 255 characters; without the bound one long word would take quadratic time.
_PATH = later(
    rf"(?<![\w/@.\\:-])(?P<path>(?:[A-Za-z]:[\\/]|~/|\.{{0,2}}/)?"
    rf"(?:{_NAME}{{1,255}}[\\/]){{0,64}}(?:{_NAME}{{0,255}}[\w)\]]\.(?:{_EXTENSIONS})"
    rf"|\.(?:gitignore|dockerignore|env|editorconfig|npmrc|prettierrc|eslintrc)(?:\.\w+)*"
    rf"|(?:{_BARE})))(?![\w/\\]|\.\w)",
    re.ASCII,
)
_DID = Words("claims", "did")
_NOT_DID = Words("claims", "did_not")
_DELETED = Words("claims", "deleted")
_HEADING = Words("claims", "heading")
_BULLET = later(r"^\s*(?:[-*+•]|\d+[.)])\s+")
_FROM = Words("claims", "source")
_COMMAND = pattern("claimed_paths", "command")
_URL = later(r"\b[a-z][a-z0-9+.-]{0,30}://\S+|\bwww\.\S+", re.IGNORECASE)
_MARKED = later(r"`+([^`\n]+)`+|\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”")
# Set off by marks a name may hold blanks, a few words of them.
_WITH_BLANKS = later(
    rf"(?:{_NAME}{{1,100}}[\\/]){{0,16}}{_NAME}{{1,60}}(?: {_NAME}{{1,60}}){{1,6}}\.(?:{_EXTENSIONS})", re.ASCII
)
_NAMED = pattern("claimed_paths", "named")


def requested_paths(request: str) -> tuple[str, ...]:
    """Paths that the request names, in order, each once."""
    return _unique(path for line in request.split("\n") for path, _ in _paths_in(line))


def claimed_paths(answer: str) -> tuple[str, ...]:
    """Paths that the answer claims to have created or changed, in order, each once."""
    found: list[str] = []
    listing = False
    for prose in read_answer(answer).prose:
        raw = prose.raw
        if not raw.strip() or raw.lstrip().startswith(">"):
            continue
        bullet = _BULLET.match(raw)
        if listing and bullet:
            found.extend(
                path for path, start in _paths_in(raw) if start <= bullet.end() + 4 and not _DELETED.search(raw)
            )
            continue
        listing = bool(_HEADING.match(raw.strip(" #*_:"))) or (
            raw.rstrip().endswith((":", "：", ":**")) and bool(_claims(raw)) and not list(_paths_in(raw))
        )
        for sentence in _sentences(raw):
            found.extend(_claimed_in(sentence))
    return _unique(found)


def _claims(sentence: str) -> bool:
    return bool(_DID.search(sentence)) and not _NOT_DID.search(sentence)


def _claimed_in(sentence: str) -> list[str]:
    if not _claims(sentence):
        return []
    return [
        path
        for path, start in _paths_in(sentence)
        if not _FROM.search(sentence[:start]) and not _DELETED.search(sentence[max(0, start - 40) : start])
    ]


def _sentences(line: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+|(?<=[。！？])|;\s+|\s+(?:but|however|whereas)\s+", line) if part]


def _paths_in(line: str) -> list[tuple[str, int]]:
    clean = _NAMED.sub(blank, _URL.sub(blank, line))
    found: list[tuple[str, int]] = []
    for marked in _MARKED.finditer(clean):
        text = next(part for part in marked.groups() if part is not None).strip()
        if _WITH_BLANKS.fullmatch(text) and not _COMMAND.match(text):
            found.append((text, marked.start()))
        elif marked.group()[0] != "`" or not (_COMMAND.match(text) or "(" in text or "*" in text):
            continue
        clean = clean[: marked.start()] + " " * len(marked.group()) + clean[marked.end() :]
    found += [(match["path"], match.start()) for match in _PATH.finditer(clean)]
    return [
        (path.replace("\\", "/").removeprefix("./"), start) for path, start in sorted(found, key=lambda each: each[1])
    ]


def _unique(paths: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))  # type: ignore[call-overload]  # an iterable of str; typed at the callers
