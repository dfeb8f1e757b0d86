"""What the structure of a change shows, without a word being read.

Q3's gutted, lost, hollow and commented-out code, and Q2's "not implemented" in the words of the programming language.

Only what this task did counts: a body is compared with the one that stood before, and a function that stands as it was
is none of this task's. The only members that may be empty are those that the syntax says others are to fill.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from runner.gate.definitions import (
    FILLED_IN,
    STRING,
    Change,
    Function,
    comments_above,
    functions_of,
    head_of,
    is_abstract,
    is_constant,
    is_trivial,
    names_of,
    stands_in_tests,
    unnamed_of,
)
from runner.gate.file_roles import is_test_double, is_test_file
from runner.gate.languages import CONDITIONAL
from runner.gate.line_map import FileLines
from runner.gate.source import Source, open_source, upwards
from runner.gate.wording import Words, later, pattern, pattern_of_bytes, tables
from tracer.redaction.cuts import beginning

_GUTTED_FROM = 4  # lines of code
_LEAST = 2  # likewise, of a body that now holds nothing at all
_LOST_NAMES = 3
_LOST_PART = 0.2
_LOST_LINES = 40  # a file of fewer lines of code is not measured by them
_KEPT_PART = 0.75
OUT_COMMENTED = 2

_REMOVAL = Words("requests", "removal")
_RESHAPING = Words("requests", "reshaping")
_DELIBERATE = Words("deliberate", "inside")


class Shown(NamedTuple):
    """One place: the criterion, the kind of issue, what to say, its first and last line, and what would mend it."""

    kind: str
    message: str
    first: int
    last: int
    advice: str
    criterion: str = "Q3"


class Reviewed:
    """One changed file: its source, its part of the change, and both sides' functions, read when they are needed."""

    def __init__(self, whole: Source, lines: FileLines) -> None:
        self.whole = whole
        self.source = whole.around(lines.added)
        self.lines = lines

    @cached_property
    def touched(self) -> list[Function]:
        """The functions that may hold added lines."""
        return functions_of(self.source) if self.lines.added else []

    @cached_property
    def old(self) -> Source | None:
        """What the file was; None where it is new, or nothing was taken out of it."""
        lines = self.lines
        if lines.old is None or len(lines.removed) < OUT_COMMENTED:
            return None
        return open_source(lines.renamed_from or lines.path, lines.old)

    @cached_property
    def old_near(self) -> Source | None:
        """The same for questions about its removed lines."""
        return self.old.around(self.lines.removed) if self.old is not None else None

    @cached_property
    def taken(self) -> list[Function]:
        """The functions of before that may have lost lines."""
        return functions_of(self.old_near) if self.old_near is not None else []

    @cached_property
    def stood(self) -> frozenset[str]:
        """The keys of all functions of before."""
        return frozenset(one.key for one in functions_of(self.old)) if self.old is not None else frozenset()


def gutted(file: Reviewed, request: str) -> Iterator[Shown]:
    """Functions whose body did something and now holds no more than a constant, a log line, a raise or nothing."""
    removed = file.lines.removed
    before = _by_key(one for one in file.taken if not removed.isdisjoint(range(one.lines[0], one.lines[1] + 1)))
    names = {one.name for olds in before.values() for one in olds}
    after = _by_key(one for one in file.touched if one.name in names)
    # Where as many are touched, and none of them idles, none is gutted, whatever stands elsewhere.
    before = {key: olds for key, olds in before.items() if len(after[key]) != len(olds) or any(map(_idles, after[key]))}
    after = _by_key(one for one in (functions_of(file.whole) if before else ()) if one.name in names)
    for key, olds in before.items():
        for old, new in zip(olds, after[key], strict=True) if len(olds) == len(after[key]) else ():
            if not _idles(new):
                continue  # most, and it costs less to ask than how much they do
            if old.code_lines < _GUTTED_FROM or old.is_trivial or new.code_lines > max(2, old.code_lines // 3):
                if old.is_trivial or old.code_lines < _LEAST or not new.is_empty or _is_constructor(new):
                    continue
            elif not (new.is_trivial or (new.returns_parameter and file.lines.touches(*new.lines))) or _declines(new):
                continue
            if is_to_go(request, f"{file.lines.path} {new.owner} {new.name}"):
                continue
            told = f"the body of {new.name}() is gone ({old.code_lines} lines before, {new.code_lines} now)"
            yield _at(new, "gutted", told, "put the function's work back, and change only what was asked for")


def _idles(function: Function) -> bool:
    """Whether it does next to nothing."""
    return function.is_trivial or function.is_empty or function.returns_parameter


def _declines(function: Function) -> bool:
    """Whether all it does now is raise with a reason of its own: what it did is no longer offered."""
    last = function.texts[-1] if function.texts else b""
    return _REFUSES.match(last) is not None and not last.startswith(b"return") and _is_told(last)


def _is_constructor(function: Function) -> bool:
    owner, _, name = f"{function.owner}::{function.name}".removeprefix("::").rpartition("::")
    return owner.split("::")[-1] == name


def _by_key(functions: Iterable[Function]) -> dict[str, list[Function]]:
    found: dict[str, list[Function]] = defaultdict(list)
    for function in functions:
        found[function.key].append(function)
    return found


def hollow(file: Reviewed, asked: frozenset[str], change: Change) -> Iterator[Shown]:
    """New functions that were asked for by name, say what they do or are used, and use nothing they are given."""
    source, lines = file.source, file.lines
    if is_test_double(source.path) or source.path.endswith((".pyi", ".d.ts")):
        return
    for function in file.touched:
        if not (function.is_trivial and lines.touches(*function.lines)) or function.key in file.stood:
            continue
        parent, in_tests = function.node.parent, stands_in_tests(source, function.node)
        meant = _refuses(function) or is_abstract(function) or _is_constructor(function) or _is_deliberate(function)
        meant = meant or (parent is not None and parent.type in _VALUES)  # a callback may do nothing
        if meant or (in_tests and not TEST_NAME.match(function.name)):
            continue
        told = bool(function.documented or function.comments)
        wanted = told or change.adds(function.name.encode(), but=function.lines[0], end=rb"\s*\(")
        made = re.findall(_MADE % re.escape(function.name.encode()), source.text)
        named = function.name in asked and not (function.owner.encode() in source.extended and len(made) > 1)
        message = _hollowness(function, named=named, wanted=wanted, in_tests=in_tests, asked=asked)
        if message:
            yield _at(function, "stub", message, "write what the function is to do")
    yield from (*_unnamed(file), *_ellipses(file)) if lines.added else ()


_VALUES = {"object", "pair", "assignment_expression"}
TEST_NAME = later(r"_*[tT]est|should_")
_NO_OP = pattern("structure", "no_op")
_MADE = rb"(?m)^\s*(?:[\w*]+ )*%s\s*(?:\([^\n]*[:{]\s*$|=[^=])"  # a subclass may make it anew: a hook
_CALLED_BY_LANGUAGE = frozenset(
    {"constructor", "initialize", "deinit", "init", "main", "finalize", "dispose", "Dispose"}
)


def _hollowness(function: Function, *, named: bool, wanted: bool, in_tests: bool, asked: frozenset[str]) -> str:
    """What a trivial body lacks, empty where it may be all that is wanted."""
    if function.is_empty:
        if in_tests:
            return f"empty test {function.name}()"
        return "" if not named and _may_be_empty(function) else f"empty body of {function.name}()"
    given = function.parameters - {b"_"}
    if in_tests or not given or function.uses_parameters:
        return ""
    unused = {name.lstrip(b"$_").decode() for name in given if name.startswith((b"_", b"$_"))}
    if _NO_OP.search(function.owner) or (unused and not (named and (unused <= asked or f"{function.name}(" in asked))):
        return ""
    free = named or (wanted and not _has_bases(function) and b"@" not in function.header)
    return f"{function.name}() does nothing with what it is given" if free else ""


def _may_be_empty(function: Function) -> bool:
    """Whether an empty body is what its place calls for."""
    name, language = function.name, function.source.language.name
    if name.startswith(("__", "~")) or "operator" in name or name == function.owner or name in _CALLED_BY_LANGUAGE:
        return True
    if _NO_OP.search(name) or _NO_OP.search(function.owner) or language == "bash":
        return True
    if _has_bases(function) or b"@" in function.header or b"#[" in function.header:
        return True
    if function.owner and (language in {"go", "c", "cpp"} or function.owner.encode() in function.source.extended):
        return True  # there for an interface, or for who extends the class
    if function.owner_node is not None and function.owner_node.type == "module":
        return True  # for who includes it
    if language in {"c", "cpp"} and len(function.parameters) <= 2:
        return True  # a type alone: the parameter has no name
    nested = any(above.type in function.source.language.functions for above in upwards(function.node.parent))
    given = function.parameters - {b"_"}
    if "::" in name or (not given and not function.documented and not function.comments):
        return True
    return (nested and not function.documented) or any(word.startswith((b"_", b"$_")) for word in given)


def _is_deliberate(function: Function) -> bool:
    """Whether a comment, a docstring or a condition says that the body is meant as it is."""
    said = function.comments + b" " + b" ".join(comments_above(function.node))
    if _DELIBERATE.search(said.decode("utf-8", "replace")):
        return True
    conditions = (above.child_by_field_name("condition") for above in upwards(function.node.parent))
    return any(b"TYPE_CHECKING" in (condition.text or b"") for condition in conditions if condition is not None)


_EMPTY_TEST = pattern_of_bytes("structure", "empty_test")
_CATCHES = (b".catch", b".finally", b".on", b".recover", b".rescue")


def _unnamed(file: Reviewed) -> Iterator[Shown]:
    """Empty tests of JavaScript; functions without a name that hold a comment in place of their code."""
    source, lines = file.source, file.lines
    if source.language.name in {"javascript", "typescript", "tsx"}:
        for match in _EMPTY_TEST.finditer(source.text, *source.span):
            line = source.line_at(match.start())
            if lines.touches(line, line):
                advice = "write the test"
                yield Shown(kind="stub", message="empty test", first=line, last=line, advice=advice)
    for function in unnamed_of(file.source) if not is_test_file(source.path) else ():
        if (
            function.texts
            or not function.comments
            or len(function.comments.split()) < _GUTTED_FROM
            or not lines.touches(*function.lines)
            or _is_deliberate(function)
        ):
            continue
        arguments = function.node.parent
        call = arguments.parent if arguments is not None else None
        callee = call.child_by_field_name("function") if call is not None else None
        if callee is None or not (callee.text or b"").endswith(_CATCHES):
            yield _at(function, "stub", "a comment in place of a function's code", "write what the comment describes")


_MAY_HOLD_DOTS = frozenset(tables()["structure"]["may_hold_dots"])


def _ellipses(file: Reviewed) -> Iterator[Shown]:
    """Python's `...` as a statement where code should be; alone in what may be empty it is a `pass`."""
    source, lines = file.source, file.lines
    if source.language.name != "python" or source.text.find(b"...", *source.span) < 0:
        return
    for node in source.nodes(("(expression_statement (ellipsis)) @node",)):
        block = node.parent
        owner = block.parent if block is not None and block.type == "block" else block
        if block is None or owner is None:
            continue
        others = [child for child in block.named_children if child.id != node.id and "comment" not in child.type]
        documented = all((child.text or b"").lstrip(b"rRbBuU")[:1] in {b'"', b"'"} for child in others)
        condition = owner.child_by_field_name("condition")
        checking = condition is not None and b"TYPE_CHECKING" in (condition.text or b"")
        line = node.start_point.row + 1
        if lines.touches(line, line) and not checking and not (documented and owner.type in _MAY_HOLD_DOTS):
            told, advice = "`...` in place of code", "write the code"
            yield Shown(kind="stub", message=told, first=line, last=line, advice=advice)


_OVERRIDES = later(rb"\b(?:override|open|protected|partial|weak)\b|@Override\b")


def _has_bases(function: Function) -> bool:
    """Whether its class extends or implements another one, or it says that it overrides."""
    if _OVERRIDES.search(function.header):
        return True
    if function.owner_node is None:
        return False
    language, head = function.source.language.name, head_of(function.owner_node)
    pattern = tables()["bases"].get(language, r"\b(?:extends|implements|with|use)\b").encode()
    return re.search(pattern, re.sub(rb"\([^()]*\)", b"", head) if language != "python" else head) is not None


def _at(function: Function, kind: str, message: str, advice: str) -> Shown:
    first, last = function.lines
    return Shown(kind=kind, message=message, first=first, last=last, advice=advice)


# "Not implemented", as languages say it.
_OWN_WORD = pattern_of_bytes("structure", "own_word")
_SAYS_SO = pattern_of_bytes("structure", "says_so")
_REFUSES = pattern_of_bytes("structure", "refuses")
_ANSWERS = later(rb"\b501\b|[sS]tatus\w*.*NotImplemented|NotImplemented.*[sS]tatus|HTTP", re.DOTALL)
_MEANT = pattern_of_bytes("structure", "meant")
_COMPARES = later(rb"[=!]=|\bisinstance\b|\bis\b|\?\s|\berrors\.(?:Is|As)\(")
_ONLY_MARK = later(rb"[\"'`](?:TODO|FIXME)\b\s*[: -]\s*\w")
_OWN_TODO = later(rb"\b(?:fun|class|object|typealias)\s+TODO\b|^import\s[^\n]*\bTODO\s*$", re.MULTILINE)
_LANGUAGES_OWN = {"rust": (b"todo!", b"unimplemented!"), "scala": (b"???",), "kotlin": (b"TODO",)}
_STEMS = (b"implement", b"todo", b"???", b"supported yet")
_LONGEST = 400


def not_implemented(file: Reviewed) -> Iterator[Shown]:
    """Functions that only say that they are not implemented, and branches left with the language's own word for it."""
    source = file.source
    around = source.text[slice(*source.span)].lower()
    if not any(stem in around for stem in _STEMS) or is_test_double(source.path):
        return
    said: list[tuple[int, int]] = []
    for function in (*file.touched, *unnamed_of(file.source)):
        if _refuses(function) and not _is_others_work(function):
            said.append((function.node.start_byte, function.node.end_byte))
            last = function.texts[-1].decode("utf-8", "replace")
            named = f"{function.name}() is not implemented" if function.name else "not implemented"
            line = function.statements[-1].start_point.row + 1
            yield _missing(f"{named} ({beginning(' '.join(last.split()), 60)})", line)
    for match in _OWN_WORD.finditer(source.text, *source.span):
        if any(start <= match.start() < end for start, end in said) or not is_code(source, match.start()):
            continue
        end = source.text.find(b"\n", match.end())
        statement = source.text[match.start() : end if end >= 0 else len(source.text)]
        if _is_own_word(source, match) or (match.group()[:1] in b"rt" and _left_open(source, match.start(), statement)):
            line = source.line_at(match.start())
            told = beginning(" ".join(statement.decode("utf-8", "replace").split()), 60)
            yield _missing(f"not implemented ({told})", line)


def _missing(message: str, line: int) -> Shown:
    advice = "implement it"
    return Shown(criterion="Q2", kind="missing_work", message=message, first=line, last=line, advice=advice)


def _is_own_word(source: Source, match: re.Match[bytes]) -> bool:
    """Whether the language's own word stands there: not a constant, a function or a macro of the program."""
    name = source.language.name
    if not match.group().startswith(_LANGUAGES_OWN.get(name, (b"\0",))):
        return False
    if name == "rust":
        return b"macro_rules! " + match.group().split(b"!")[0] not in source.text
    if name == "scala":
        return b"def ???" not in source.text
    stands_in = [node.type for node in source.above(match.start())]
    return stands_in[1:2] == ["call_expression"] and not _OWN_TODO.search(source.text)


def _refuses(function: Function) -> bool:
    """Whether saying that it is not implemented is all that a function does."""
    texts = function.texts
    if not texts or len(texts) > _GUTTED_FROM or not all(is_trivial(text) for text in texts[:-1]):
        return False
    last = texts[-1].removeprefix(b"=>").removeprefix(b"=").strip()
    if len(last) > _LONGEST or _is_meant(last) or _ANSWERS.search(last) or _COMPARES.search(STRING.sub(b'""', last)):
        return False
    if _is_told(last) or (FILLED_IN.search(last) and not re.search(rb"\byet\b|\bTODO\b", last)):
        return False  # said of a case that was asked about
    if function.source.language.name == "python" and last == b"return NotImplemented":
        return not function.name.startswith("__")
    if last.startswith(b"return") and b"\n" in last:
        return False
    refuses = _REFUSES.match(last) is not None or (is_trivial(last) and not is_constant(last))
    return (
        (refuses and _SAYS_SO.search(last) is not None)
        or _OWN_WORD.match(last) is not None
        or (_ONLY_MARK.search(last) is not None and is_trivial(last))
    )


def _is_meant(statement: bytes) -> bool:
    """Whether the message says that others are to do it, or that it is not to be done."""
    return any(_MEANT.search(each) for each in re.findall(rb"[\"'`]([^\"'`]*)[\"'`]", statement))


def _is_told(statement: bytes) -> bool:
    """Whether the message gives a reason of its own, without a word of work to come."""
    said = b" ".join(STRING.findall(statement))
    return len(said.split()) >= _LEAST + 1 and _WORK_TO_COME.search(said) is None


def _is_others_work(function: Function) -> bool:
    """Whether a member that says "not implemented" leaves its work to others by design."""
    source, owner = function.source, function.owner_node
    if is_abstract(function) or (stands_in_tests(source, function.node) and not TEST_NAME.match(function.name)):
        return True
    if re.search(r"(?i)not_?implemented|unimplemented|unsupported", function.name + function.owner):
        return True
    if owner is None:
        return False
    if function.owner.encode() in source.extended or _BASE_NAME.match(function.owner) or b"@" in function.header:
        return True
    call = rb"(?:self|this|@|super)\s*(?:->|\.)\s*" + re.escape(function.name.encode()) + rb"\s*\("
    return re.search(call, owner.text or b"") is not None  # a template method


_WORK_TO_COME = later(rb"implement|\btodo\b|\byet\b|\bsoon\b|\blater\b|coming", re.IGNORECASE)
_BASE_NAME = later(r"_*(?:Abstract|Base)|.*(?:Base|Mixin|Interface)$")
_NAMES_WORK = later(rb"[\"'`][^\"'`]*(?:implement|\btodo\b|\byet\b)", re.IGNORECASE)


def _left_open(source: Source, offset: int, statement: bytes) -> bool:
    """Whether a raise in a branch of a function names work that is missing, not a case that is refused."""
    for above in source.above(offset) if _NAMES_WORK.search(statement) and not _is_meant(statement) else ():
        if above.type in source.language.functions:
            return False
        if above.type in CONDITIONAL:
            return True
    return False


def is_code(source: Source, offset: int) -> bool:
    """Whether an offset lies in code: in no string and no comment."""
    kinds = {*source.language.strings, *source.language.comments}
    for node in source.above(offset):
        if node.type in kinds:
            return False
        if node.type in {"template_substitution", "interpolation"}:
            return True
    return source.tree is not None


def lost(file: Reviewed, request: str, *, change: Change) -> Iterator[Shown]:
    """Definitions, or a good part of a file, that are gone where nothing asked for it and nothing came in their place.

    What moved is not gone, and a change that defines as much as it takes away is a rewriting.
    """
    old, lines = file.old, file.lines
    if old is None or file.old_near is None or is_test_file(lines.path) or not old.language.functions:
        return
    named = frozenset(re.findall(r"\w+", request))
    gone = [
        (name, first, last) for name, first, last in names_of(file.old_near)
        if _is_gone(lines.removed, first, last) and name not in named and name.rpartition("::")[2] not in change.names
    ]  # fmt: skip
    if not gone:
        return
    advice = "put back what the request does not ask to remove"
    before, names = names_of(old), {name for name, _, _ in gone}
    for one in file.taken:
        if one.name in names and not _has_bases(one) and _is_called(file, change, one.name.encode()):
            told = f"{one.name}() is gone and is still called"
            yield Shown(kind="lost", message=told, first=0, last=0, advice=advice)
            return
    if _asks_removal(request, lines.path):
        return
    size = sum(1 for line in lines.before if line)
    taken = sum(1 for n in lines.removed if lines.before[n - 1])
    less = taken - sum(1 for n in lines.added if lines.after[n - 1])
    fewer = min(len(gone), len(before) - len(names_of(file.whole)))
    inner = sum(
        any((a <= first and last < b) or (a < first and last <= b) for _, a, b in gone) for _, first, last in gone
    )
    many = fewer - inner >= _LOST_NAMES and fewer > _LOST_PART * len(before)
    shrunk = size >= _LOST_LINES and less > (1 - _KEPT_PART) * size and len(gone) * 2 >= len(before)
    if not (many or shrunk) or less * 2 <= taken or -change.grown * 2 < len(gone):
        return  # what was written in its place is half of it and more
    missed = [name for name, _, _ in gone if not change.takes_out(name.encode(), lines.path)]
    if len(missed) * 2 > len(gone):
        told = ", ".join(f"{name}()" for name in missed[:5])
        told += f" and {len(missed) - 5} more" if len(missed) > 5 else ""
        told = f"{len(missed)} of {len(before)} definitions are gone ({told})"
        yield Shown(kind="lost", message=told, first=0, last=0, advice=advice)


def _is_called(file: Reviewed, change: Change, name: bytes) -> bool:
    """Whether a line that stands as it was calls a function by its bare name, and no line was added that gives it."""
    calls = re.compile(rb"(?:\b(?:self|this)(?:\.|->)|(?<![\w.>:$@]))" + re.escape(name) + rb"\s*\(")
    found = [match.start() for match in calls.finditer(file.source.text) if is_code(file.whole, match.start())]
    given = change.adds(name) or any(IMPORT.match(file.lines.after[number - 1]) for number in file.lines.added)
    return bool(found) and not given and file.lines.added.isdisjoint(map(file.source.line_at, found))


def is_to_go(request: str, about: str) -> bool:
    """Whether a line of a request that takes something away speaks of it: shares a word with its names."""
    words = {word.lower()[:6] for word in _PARTS.findall(about)}
    lines = (line for line in request.split("\n") if _REMOVAL.search(line))
    return any(words.intersection(word.lower()[:6] for word in _PARTS.findall(line)) for line in lines)


IMPORT = later(rb"#\s*include|(?:from|import|use|using|include|require|extend|export \*)\b")
_PARTS = later(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")


def _is_gone(removed: frozenset[int], first: int, last: int) -> bool:
    """Whether most of a definition's lines were taken out and stand nowhere else."""
    return len(removed.intersection(range(first, last + 1))) * 2 > last - first + 1


def _asks_removal(request: str, path: str) -> bool:
    """Whether a request asks to take something away or to write it otherwise, or names the file by its name."""
    return bool(_REMOVAL.search(request) or _RESHAPING.search(request)) or path.rsplit("/", 1)[-1] in request
