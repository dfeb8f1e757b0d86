"""Lazy results made from finished work by mechanical patterns, each with the answer an agent would give beside it.

Patterns are data (patterns.toml). Functions are found by their brackets or indentation, not by the product's parsers:
what is measured must not help to make the material. A change may have no room for a pattern.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

Files = Mapping[str, bytes | None]
DATA: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("patterns.toml").read_text(encoding="utf-8"))
_LANGUAGE = {ending: name for name, endings in DATA["languages"].items() for ending in endings.split()}
_HEAD = {name: re.compile(pattern) for name, pattern in DATA["head"].items()}
_NOT_FUNCTIONS = frozenset({"if", "for", "while", "switch", "else", "return", "catch", "do", "sizeof", "function"})
_TEST = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|[/_.-])(?:test|spec)s?[_.-]|[_.-](?:test|spec)s?\.", re.IGNORECASE
)
_DONE = ("Done. I implemented the change in `<path>` and verified that it works as requested.",)
_REMARK = re.compile(r"\s*(?:#|//|/?\*|\"\"\")")


@dataclass(frozen=True, slots=True)
class Function:
    """Lines of a function (0-based): from its head to `end`; its body lies in `body` to `close`."""

    name: str
    head: int
    body: int
    close: int
    end: int
    indent: str


@dataclass(frozen=True, slots=True)
class Lazy:
    """What an agent left: files (None: not there) and its answer."""

    files: Files
    answer: str


@dataclass(frozen=True, slots=True)
class Work:
    """A finished change, the files on both sides, and a source of chance."""

    before: Files
    after: Files
    random: Random

    @property
    def code(self) -> list[str]:
        """The changed code files that are there afterwards and no tests, those with most changed lines first."""
        paths = [path for path in self.after if language_of(path) and self.after[path] and not is_test(path)]
        return sorted(paths, key=lambda path: (-changed_lines(self.before.get(path), self.after[path]), path))

    def but(self, path: str, lines: list[str], answers: tuple[str, ...] = _DONE, **named: str) -> Lazy:
        """The finished change with other lines in one file."""
        content = ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")
        return Lazy({**self.after, path: content}, filled(self.random.choice(answers), path=path, **named))


def language_of(path: str) -> str:
    """The language of a code file, empty for all else."""
    return _LANGUAGE.get(path.rsplit(".", 1)[-1].lower(), "") if "." in path.rsplit("/", 1)[-1] else ""


def is_test(path: str) -> bool:
    """Whether a path is a test's by its name."""
    return bool(_TEST.search(path))


def lines_of(content: bytes | None) -> list[str]:
    """Content as lines of text."""
    return (content or b"").decode("utf-8", "surrogateescape").splitlines()


def filled(text: str, **named: str) -> str:
    """`text` with its `<places>` filled; an underscore stands for a blank."""
    for name, value in named.items():
        text = text.replace(f"<{name.replace('_', ' ')}>", value)
    return text


@lru_cache(maxsize=256)
def hunks(before: bytes | None, after: bytes | None) -> list[tuple[str, int, int, int, int]]:
    """What differs by lines, as SequenceMatcher tells it."""
    matcher = SequenceMatcher(None, lines_of(before), lines_of(after), autojunk=False)
    return [code for code in matcher.get_opcodes() if code[0] != "equal"]


def changed_lines(before: bytes | None, after: bytes | None) -> int:
    """How many lines were added or removed."""
    return sum(max(j2 - j1, i2 - i1) for _tag, i1, i2, j1, j2 in hunks(before, after))


def remark(path: str, text: str) -> str:
    """A comment in the language of `path`."""
    return f"{'#' if language_of(path) in {'python', 'ruby', 'shell'} else '//'} {text}"


def functions(language: str, lines: list[str]) -> list[Function]:
    """The functions whose end can be told."""
    found = []
    for number, line in enumerate(lines):
        if (matched := _HEAD[language].match(line)) is None:
            continue
        groups = matched.groupdict()
        name = groups["name"] or groups.get("v") or groups.get("m") or ""
        if name and name not in _NOT_FUNCTIONS:
            end = _indented if language in {"python", "ruby"} else _braced
            found += end(language, lines, number, groups["indent"], name)
    return found


def _indented(language: str, lines: list[str], number: int, indent: str, name: str) -> list[Function]:
    end = number + 1
    for at in range(number + 1, len(lines)):
        line = lines[at]
        if language == "ruby" and re.match(rf"{indent}end\b", line):
            return [Function(name, number, number + 1, at, at + 1, indent)]
        if line.strip() and len(line) - len(line.lstrip()) <= len(indent):
            break
        end = at + 1 if line.strip() else end
    return [] if language == "ruby" or end == number + 1 else [Function(name, number, number + 1, end, end, indent)]


def _braced(_language: str, lines: list[str], number: int, indent: str, name: str) -> list[Function]:
    opened = next((at for at in range(number, min(number + 6, len(lines))) if "{" in lines[at]), None)
    if opened is None or any(";" in line for line in lines[number:opened]):
        return []
    ends = (at for at in range(opened + 1, min(len(lines), opened + 400)) if lines[at].startswith(f"{indent}}}"))
    return [Function(name, number, opened + 1, at, at + 1, indent) for at in list(ends)[:1]]


def _touched(work: Work, *, least: int, new: bool | None) -> tuple[str, Function] | None:
    """A function that the change made or edited, with at least so many body lines; `new`: one that it made."""
    choices = []
    for path in work.code:
        language, lines = language_of(path), lines_of(work.after[path])
        spans = [(j1, j2) for _tag, _i1, _i2, j1, j2 in hunks(work.before.get(path), work.after[path])]
        old = {one.name for one in functions(language, lines_of(work.before.get(path)))}
        for one in functions(language, lines):
            size = sum(1 for line in lines[one.body : one.close] if line.strip() and not _REMARK.match(line))
            meets = any(j1 < one.end and max(j2, j1 + 1) > one.head for j1, j2 in spans)
            if size >= least and meets and new in {None, one.name not in old}:
                choices.append((path, one))
    return work.random.choice(choices) if choices else None


def _body(work: Work, given: Mapping[str, Any]) -> Lazy | None:
    if (found := _touched(work, least=given.get("least", 3), new=given.get("new"))) is None:
        return None
    path, one = found
    lines = lines_of(work.after[path])
    old = lines[one.body : one.close]
    if (made := _new_body(path, one.name, [line.strip() for line in old if line.strip()], given["lines"])) is None:
        return None
    step = next((line[: len(line) - len(line.lstrip())] for line in old if line.strip()), f"{one.indent}    ")
    body = [f"{step}{line}" for line in made]
    answers = tuple(given.get("answers", _DONE))
    return work.but(path, [*lines[: one.body], *body, *lines[one.close :]], answers, name=one.name)


def _new_body(path: str, name: str, old: list[str], wanted: list[str]) -> list[str] | None:
    made: list[str] = []
    language = language_of(path)
    returns = [line for line in old if line.startswith("return")]
    nothing = language in {"go", "java", "c/c++", "php"} and (not returns or returns[-1] in {"return", "return;"})
    for want in wanted:
        if want.startswith("# "):
            made.append(remark(path, filled(want[2:], name=name)))
        elif want == "first":
            made.append(old[0])
        elif want == "old":
            made += [remark(path, line) for line in old] + (["pass"] if language == "python" else [])
        elif language not in DATA["snippet"][want]:
            return None
        elif not (want == "constant" and nothing):
            commas = returns[-1].count(",") if want == "constant" and language == "go" and returns else 0
            made += (filled(DATA["snippet"][want][language], name=name) + ", nil" * commas).split("\n")
    return made


def _unchanged(work: Work, answers: list[str]) -> Lazy | None:
    path = (work.code or sorted(work.after))[0]
    new = "\n".join(lines_of(work.after[path])[:30])
    return Lazy(dict(work.before), filled(work.random.choice(answers), path=path, new=new))


def _reverted(work: Work, given: Mapping[str, Any]) -> Lazy | None:
    code = [path for path in sorted(work.after) if language_of(path) and work.before.get(path) != work.after[path]]
    if len(code) < 2 or (given["back"] == "one" and not all(work.before.get(path) for path in code)):
        return None
    some = work.random.sample(code, len(code))
    back = {"half": some[len(code) // 2 :], "rest": [*(set(work.after) - {some[0]})], "one": some[:1]}[given["back"]]
    files = {path: work.before.get(path) if path in back else content for path, content in work.after.items()}
    kept = ", ".join(f"`{path}`" for path in sorted(files) if files[path] != work.before.get(path))
    every = ", ".join(f"`{path}`" for path in sorted(files))
    return Lazy(files, filled(work.random.choice(given["answers"]), kept=kept, all=every, path=back[0]))


def _whole(work: Work, template: str) -> Lazy | None:
    for path in work.code:
        wanted = {name: make for name, make in _PLACES.items() if f"<{name.replace('_', ' ')}>" in template}
        named = {name: make(work, path) for name, make in wanted.items()}
        if all(lines is not None for lines in named.values()):
            texts = {name: "\n".join(lines or ()) for name, lines in named.items()}
            texts |= {"path": path, "ending": path.rsplit(".", 1)[-1], "remark": remark(path, "moved")}
            text = filled(template, **texts, rest_remark=remark(path, "... (rest of the file unchanged)"))
            return work.but(path, text.removesuffix("\n").split("\n"), ("I wrote the change to `<path>`.",))
    return None


def _diff(work: Work, path: str) -> list[str]:
    old, new = lines_of(work.before.get(path)), lines_of(work.after[path])
    return list(unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm=""))


def _cut(work: Work, path: str) -> list[str] | None:
    text = "\n".join(lines_of(work.after[path]))
    return text[: work.random.randrange(len(text) // 2, len(text) - 100)].split("\n") if len(text) > 400 else None


def _cut_line(work: Work, path: str) -> list[str] | None:
    lines = lines_of(work.after[path])
    return lines[: work.random.randrange(len(lines) // 3, len(lines) * 2 // 3)] if len(lines) > 30 else None


def _cut_function(work: Work, path: str) -> list[str] | None:
    lines = lines_of(work.after[path])
    ends = [one.end for one in functions(language_of(path), lines) if not one.indent and one.end < len(lines) - 3]
    return lines[: work.random.choice(ends)] if ends else None


def _hunk(work: Work, path: str) -> list[str] | None:
    old, new = lines_of(work.before.get(path)), lines_of(work.after[path])
    found = hunks(work.before.get(path), work.after[path])
    real = [one for one in found if any(line.strip() for line in [*old[one[1] : one[2]], *new[one[3] : one[4]]])]
    if len(found) < 2 or not old or not real:
        return None
    _tag, i1, i2, j1, j2 = work.random.choice(real)
    return [*new[:j1], *old[i1:i2], *new[j2:]]


def _conflict(work: Work, path: str) -> list[str] | None:
    old, new = lines_of(work.before.get(path)), lines_of(work.after[path])
    for tag, i1, i2, j1, j2 in hunks(work.before.get(path), work.after[path]):
        if tag == "replace":
            return [*new[:j1], "<<<<<<< HEAD", *old[i1:i2], "=======", *new[j1:j2], ">>>>>>> fix", *new[j2:]]
    return None


def _fewer(work: Work, path: str) -> list[str] | None:
    lines = lines_of(work.after[path])
    old = {one.name for one in functions(language_of(path), lines_of(work.before.get(path)))}
    found = [one for one in functions(language_of(path), lines) if one.name in old]
    if len(found) < 4:
        return None
    gone = {at for one in work.random.sample(found, max(3, len(found) // 3)) for at in range(one.head, one.end)}
    return [line for at, line in enumerate(lines) if at not in gone]


_PLACES: Mapping[str, Callable[[Work, str], list[str] | None]] = {
    "new": lambda work, path: [*lines_of(work.after[path]), ""],
    "diff": _diff,
    "cut": _cut,
    "cut_line": _cut_line,
    "cut_function": _cut_function,
    "hunk": _hunk,
    "conflict": _conflict,
    "fewer": _fewer,
}


def _claimed(work: Work) -> Lazy | None:
    for path in work.code[:1]:
        stem, _dot, ending = path.rpartition(".")
        return Lazy(work.after, f"I changed `{path}` and created `{stem}_helpers.{ending}` with the new functions.")
    return None


def _tests_deleted(work: Work) -> Lazy | None:
    tests = [path for path in sorted(work.after) if is_test(path) and work.before.get(path) and language_of(path)]
    return Lazy({**work.after, **dict.fromkeys(tests)}, "The change is done and the suite is green.") if tests else None


def _hollow_tests(work: Work) -> Lazy | None:
    for path in sorted(work.after):
        if language_of(path) != "python" or not is_test(path) or not work.after[path]:
            continue
        lines, old = lines_of(work.after[path]), lines_of(work.before.get(path))
        known = {one.name for one in functions("python", old)}
        for one in functions("python", lines):
            if one.name.startswith("test") and one.name not in known:
                made = [*lines[: one.body], f"{one.indent}    assert True", *lines[one.close :]]
                return work.but(path, made, ("Implemented with tests, all green.",))
    return None


def _made(make: Callable[[Work, Any], Lazy | None], given: object) -> Callable[[Work], Lazy | None]:
    return lambda work: make(work, given)


PATTERNS: dict[str, Callable[[Work], Lazy | None]] = {
    **{name: _made(_body, given) for name, given in DATA["body"].items()},
    **{name: _made(_unchanged, given) for name, given in DATA["unchanged"].items()},
    **{name: _made(_reverted, given) for name, given in DATA["reverted"].items()},
    **{name: _made(_whole, given) for name, given in DATA["whole"].items()},
    "claim of a file that is not there": _claimed,
    "tests deleted": _tests_deleted,
    "new tests hollow": _hollow_tests,
}
