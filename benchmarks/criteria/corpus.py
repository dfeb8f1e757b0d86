"""The labelled corpus: reads `corpus/<part>/<language>/<family>.cases` into evidence.

A case is `=== EXPECT PATH | why it is hard`, then the file's content, or sections `--- request`, `--- before`,
`--- after`, `--- file PATH`, `--- answer` and `--- kind` (else the request's words settle it). EXPECT is PASS or the
criteria that must fail (`Q2/Q3`: either will do).
PATH `-` makes the content the answer itself; unless the case has a request of its own, one clean changed file stands
beside it so that only the text is judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from runner.gate.criterion import ChangedFile, Evidence
from runner.gate.request_kind import settled_kind

__all__ = ["CASES", "Case", "load"]

CASES = Path(__file__).parents[2] / "corpus"
_HEADER = re.compile(r"^=== (?P<expect>PASS|Q[1-9](?:/Q[1-9])*) (?P<path>\S+) \| (?P<why>.+)$")
_SECTION = re.compile(r"^--- (?P<name>request|before|after|answer|file|stop|kind)(?: (?P<arg>\S+))?$")
_LANGUAGES = {
    "py": "python", "pyi": "python", "js": "javascript", "jsx": "jsx", "ts": "typescript", "tsx": "tsx", "go": "go",
    "rs": "rust", "java": "java", "kt": "kotlin", "c": "c", "h": "c", "cpp": "cpp", "hpp": "cpp", "cs": "c#",
    "rb": "ruby", "php": "php", "swift": "swift", "scala": "scala", "sh": "shell", "sql": "sql", "html": "html",
    "css": "css", "yaml": "yaml", "yml": "yaml", "toml": "toml", "json": "json", "jsonl": "json", "md": "markdown",
    "mjs": "javascript", "bash": "shell",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One labelled case. `expect` is empty where it must pass, else the criteria of which one must fail."""

    name: str
    why: str
    language: str
    expect: frozenset[str]
    evidence: Evidence


def load(half: str) -> tuple[Case, ...]:
    """All cases of a part (`test`, `dev` or `later`), in the order of files and lines."""
    cases: list[Case] = []
    for file in sorted((CASES / half).rglob("*.cases")):
        lines = file.read_text(encoding="utf-8").split("\n")
        starts = [index for index, line in enumerate(lines) if _HEADER.match(line)]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            cases.append(_case(f"{file.relative_to(CASES)}:{start + 1}", lines[start], lines[start + 1 : end]))
    return tuple(cases)


def language_of(path: str) -> str:
    """The corpus's name for the language of `path`."""
    name = path.rsplit("/", 1)[-1]
    if name in {"Dockerfile", "Makefile"}:
        return name.lower()
    return "answer" if path == "-" else _LANGUAGES.get(name.rsplit(".", 1)[-1], "other")


def _case(name: str, header: str, lines: list[str]) -> Case:
    matched = _HEADER.match(header)
    if matched is None:
        raise ValueError(f"{name}: not a case header: {header!r}")
    path = matched["path"]
    sections = _sections(lines, "answer" if path == "-" else "after")
    files = tuple(
        ChangedFile(path=file, before=_bytes(before), after=_bytes(after))
        for file, before, after in _files(path, sections)
    )
    expect = matched["expect"]
    request = sections.get("request", "Add the feature that the ticket describes.").strip()
    return Case(
        name=name,
        why=matched["why"],
        language=language_of(path),
        expect=frozenset() if expect == "PASS" else frozenset(expect.split("/")),
        evidence=Evidence(
            request=request,
            answer=sections.get("answer", "Added the feature.").strip("\n"),
            kind=settled_kind(sections.get("kind", "auto").strip(), request),
            stop_reason=sections.get("stop", "").strip() or None,
            files=files,
        ),
    )


def _files(path: str, sections: dict[str, str]) -> list[tuple[str, str | None, str]]:
    found = [(name.removeprefix("file "), None, text) for name, text in sections.items() if name.startswith("file ")]
    if path != "-":
        found.append((path, sections.get("before"), sections.get("after", "")))  # type: ignore[arg-type]
    elif not found and "request" not in sections:
        found.append(("src/feature.py", None, "VALUE = 1\n"))
    return found  # type: ignore[return-value]


def _sections(lines: list[str], first: str) -> dict[str, str]:
    found: dict[str, list[str]] = {first: []}
    name = first
    for line in lines:
        if section := _SECTION.match(line):
            name = section["name"] + (f" {section['arg']}" if section["arg"] else "")
            found[name] = []
        else:
            found[name].append(line)
    return {name: "\n".join(text) for name, text in found.items()}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else (text.rstrip("\n") + "\n").encode() if text.strip() else b""
