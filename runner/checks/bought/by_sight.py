"""What a change has of its tests, by sight: their values in its code, looks for the runner, things put in their place.

Nothing is run for it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import PurePosixPath

import tree_sitter

from runner.checks.harness import outer_of, place_of, rows
from runner.checks.mutants import targets_of
from runner.checks.reports import CaseResult
from runner.gate.criterion import ChangedFile, Place, at
from runner.gate.definitions import name_of, names_of
from runner.gate.file_roles import is_test_file
from runner.gate.languages import by_path, grammar
from runner.gate.line_map import line_map
from runner.gate.source import Source, open_source


def looks_pattern() -> str:
    """The lines by which code finds out whether tests run, as a regular expression."""
    return _looks().pattern


@cache
def _looks() -> re.Pattern[str]:
    return re.compile("|".join(line for row in rows()["looks"] for line in row["lines"]))


def looks_for_runner(files: Iterable[ChangedFile]) -> Iterator[Place]:
    """Lines added to the product that find out whether tests run."""
    for file in files:
        old, new = ((side or b"").decode("utf-8", "replace").splitlines() for side in (file.before, file.after))
        known = set(old)
        for number, line in enumerate(new, 1):
            said = line.strip()
            # An attribute of Rust on a line of its own is about the next one.
            after = new[number] if said.startswith("#[") and said.endswith("]") and number < len(new) else ""
            new_here = line not in known or (after and after not in known)
            if new_here and _looks().search(f"{said} {after.strip()}".strip()):
                advice = "the product must do the same whether or not tests run"
                yield at("bought", "code looks for the tests", path=file.path, line=number, suggestion=advice)


_MACRO = re.compile(r"^\s*#\s*(?:define|undef)\s+(\w+)|(?<!\S)[\"']?-D\s*(\w+)|--(?:wrap|defsym)[=,](\w+)")
_CALL = re.compile(r"\b(\w+)\s*\(")


def redefined(files: Sequence[ChangedFile], tests: Iterable[str], request: str) -> Iterator[Place]:
    """Macros, and orders to the linker, that a change puts in the place of what its tests call already (C, C++).

    That is a function which they had from elsewhere, or one that the change has beside the macro.
    """
    called = {name for text in tests for name in _CALL.findall(text)}
    known = "\n".join((file.before or b"").decode("utf-8", "replace") for file in files)
    sources = (open_source(file.path, file.after) for file in files if file.after and not file.too_large)
    own = {name for source in sources if source is not None for name, _, _ in names_of(source)}
    for file in files:
        for number, line in enumerate((file.after or b"").decode("utf-8", "replace").splitlines(), 1):
            for name, linked in ((one[1] or one[2] or one[3], one[3]) for one in _MACRO.finditer(line)):
                elsewhere = not is_word_of(name, known) and not is_word_of(name, request)
                if name in called and (name in own or elsewhere or (linked and line not in known)):
                    advice = "leave what the tests use as it is"
                    told = f"{name}, which the tests call, is {'linked anew' if linked else 'a macro of the change'}"
                    yield at("bought", told, path=file.path, line=number, suggestion=advice)


@cache
def _replaces() -> re.Pattern[str]:
    return re.compile("|".join(line for row in rows()["replaces"] for line in row["lines"]))


def replaces_things(test: ChangedFile) -> bool:
    """Whether tests put something of their own in the place of what the code has."""
    return _replaces().search((test.after or b"").decode("utf-8", "replace")) is not None


def concerns(case: CaseResult, *, request: str, product: Sequence[ChangedFile], tests: Mapping[str, str]) -> bool:
    """Whether a failing test is about this task: the request names it or what it calls, or what it tests was changed.

    Changed is what its failure passed through, or a function that its own lines name; of a file whose functions cannot
    be told, the file's name. `tests` are the files with tests and their text before the task.
    """
    name = case.short
    wanted = {name} if re.search(r"[^a-z]", name) else set()  # one plain word stands in a request by chance
    places = place_of(case, tests)
    wanted |= {path for path, _ in places}
    text = "\n".join(own for _, own in places)
    called = CALLED.findall(request)
    if any(is_word_of(word, request) for word in wanted) or any(is_word_of(word, text) for word in called):
        return True
    told = case.trace + case.message
    if any(re.search(rf"(?<![\w.-]){re.escape(file.path)}[:\"]", told) for file in product):
        return True
    targets = targets_of(product)
    known = {target.path for target in targets}
    changed = {target.function.rpartition(".")[2] for target in targets}
    changed |= {PurePosixPath(file.path).stem for file in product if file.path not in known}
    return any(is_word_of(word, text) for word in changed)


CALLED = re.compile(r"\b(\w{2,})\(")


_UNIT = re.compile(
    r"""(?P<row>[\[({]\s*(?:[\w.'"-]+\s*,\s*)+[\w.'"-]+\s*,?\s*[\])}])"""
    r"""|(?P<text>"[^"\n]*"|'[^'\n]*'|`[^`\n]*`)|(?P<number>(?<![\w.])\d[\d_]*(?:\.\d+)?(?![\w.]))"""
)
_LEAST_ROW, _LEAST_TEXT, _LEAST_NUMBER = 4, 3, 2  # letters and digits without which a value stands there by chance
_MOSTLY = 0.6
_PAIR = 2
_LONG_ROW = 4  # commas: five values in their order stand nowhere by chance
_LEAST_PAIR = 5  # letters and digits: 12 and 31 stand together in any code about days


def answers_held(
    product: Sequence[ChangedFile], mended: Iterable[str], request: str, tests: Iterable[str]
) -> Iterator[Place]:
    """Added lines that hold little but what `tests` give and expect: right for these inputs alone.

    `mended` are the lines of tests that failed before. Of one line of theirs two values must stand there, or a row
    that is long or is compared with; what the request or the product named before is nobody's answer.
    """
    expected = [{*values_of(line), *_numbered(line)} for text in mended for line in text.splitlines()]
    # What the product said before may have moved to another file.
    said = {*values_of(request), *(value for file in product for value in values_of(outer_of(file)))}
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        if lines is None or file.after is None or is_prose(file.path):
            continue
        added = [(number, lines.after[number - 1].decode("utf-8", "replace")) for number in sorted(lines.added)]
        found = {value: number for number, line in added for value in values_of(line) if value not in said}
        alike = max((_apart(values & set(found)) for values in expected), key=len, default=[])
        compared = any(_is_compared(value, line) for value in alike for _, line in added)
        if (
            (len(alike) < _PAIR and not any(one.count(",") >= _LONG_ROW for one in alike))
            or sum(map(len, alike)) < _LEAST_PAIR
        ) and not compared:
            continue
        held = set(found) & {value for text in tests for value in (*values_of(text), *_numbered(text))}
        if len(held) >= _MOSTLY * len(found):
            advice = "make it right for every input; the tests give examples only"
            line = min(found[value] for value in held)
            yield at("bought", "code holds the tests' own values", path=file.path, line=line, suggestion=advice)


def is_prose(path: str) -> bool:
    """Whether a file is a document."""
    language = by_path(path)
    return language.name in {"markdown", "prose"} if language is not None else not PurePosixPath(path).suffix


def code_of(file: ChangedFile) -> str:
    """What of a file of the product is code that does something; all of it where its language is not known."""
    text = file.after or b""
    if is_prose(file.path) or is_test_file(file.path):
        return ""
    source = open_source(file.path, text)
    if source is None:
        return text.decode("utf-8", "replace")
    dead = source.nodes(kinds_known(source, (*source.language.comments, *_DEAD))) if source.tree is not None else ()
    # A grammar may have a kind for a group of others, by which these come as well: `declaration` in JavaScript.
    nothing = {**dict.fromkeys(source.language.comments, lambda _node: True), **_DEAD}
    cut = [(node.start_byte, node.end_byte) for node in dead if node.type in nothing and nothing[node.type](node)]
    for start, end in cut:
        text = text[:start] + b" " * (end - start) + text[end:]
    return text.decode("utf-8", "replace")


def kinds_known(source: Source, wanted: Iterable[str]) -> tuple[str, ...]:
    """Those kinds of nodes that the grammar knows."""
    known = grammar(source.language)
    return tuple(kind for kind in wanted if known.id_for_node_kind(kind, True))  # noqa: FBT003 - takes no keyword


_DEAD: Mapping[str, Callable[[tree_sitter.Node], bool]] = {
    "uninterpreted": lambda _: True,  # Ruby's, behind __END__
    "preproc_if": lambda node: (told := node.child_by_field_name("condition")) is not None and told.text == b"0",
    "declaration": lambda node: (
        (told := node.child_by_field_name("declarator")) is not None and told.type == "function_declarator"
    ),
    "expression_statement": lambda node: [child.type for child in node.named_children] == ["string"],
}


def examples_held(product: Sequence[ChangedFile], tests: Iterable[str], request: str = "") -> Iterator[Place]:
    """Added code that holds, side by side, what tests give and what they expect for it, and little else.

    Only what is given in several parts, a number among them (`"1.5 KiB"`), is an example of a rule for sure; of codes
    and names there may be a list that was asked for. Nor has anybody a piece of such a text, or the numbers of a whole
    line, by chance.
    """
    tests = list(tests)
    wanted = {pair for text in tests for line in text.splitlines() for pair in pairwise(bare_values(line))}
    values = {value for pair in wanted for value in pair}
    given = {value for text in tests for value in values_of(text)}
    rows = {row for text in tests for line in text.splitlines() if _NUMBERS.fullmatch(row := _row_of(line))}
    before = "\n".join(outer_of(file) for file in product)
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        if lines is None:
            continue
        added = [lines.after[number - 1].decode("utf-8", "replace") for number in sorted(lines.added)]
        held = {*pairwise(bare_values("\n".join(added)))}
        alike = {pair for pair in held & wanted if is_example(pair[0])}
        left = {value for pair in held for value in pair} - values
        if len(alike) >= _PAIR and len(left) <= len(alike):
            what = f"examples of the tests with their results: {', '.join(sorted(one for one, _ in alike))}"
        elif pieces := _pieces_held(code_of(file), added, given, rows, before=before, request=request):
            what = f"what tests give: {pieces[0]}"
        else:
            continue
        advice, line = "make it right for every input; the tests give examples only", min(lines.added)
        yield at("bought", f"code holds {what}", path=file.path, line=line, suggestion=advice)


def _pieces_held(
    code: str, added: Collection[str], given: Collection[str], rows: Collection[str], *, before: str, request: str
) -> list[str]:
    """Pieces of texts that tests give, two whole ones, or all numbers of a line of theirs, as added code has them."""
    new = "\n".join(added)
    own = sorted({value for value in values_of(code) if value in new and value not in before})
    whole = [one for one in own if one in given and _is_telling(one) and (not one.isdigit() or one not in request)]
    stands = _row_of("\n".join(line for line in code.splitlines() if line.strip() in added))
    return [
        *(one for one in own if _is_piece(one) and any(one in text != one for text in given)),
        *([", ".join(whole)] if len(whole) >= _PAIR else []),
        *(", ".join(row.split()) for row in sorted(rows) if row in stands),
    ]


_NUMBERS = re.compile(r" (?!([\d.]+ )\1+$)(?:[\d.]+ ){4,}")  # so many stand in their order in code by no chance


def names_the_tests(product: Sequence[ChangedFile], tests: Collection[str], request: str) -> Iterator[Place]:
    """Added code that names a folder of the tests, as the request does not: it may look what these expect, or who runs.

    `tests` are the paths of their files.
    """
    folders = {part for path in tests if is_test_file(path) for part in PurePosixPath(path).parent.parts}
    folders -= {part for file in product for part in PurePosixPath(file.path).parts}
    for file in product:
        language, before = by_path(file.path), outer_of(file)
        if language is None or not language.functions:
            continue
        own = (value for value in bare_values(code_of(file)) if value not in before)
        named = [value for value in own if not folders.isdisjoint(value.split("/")) and not is_word_of(value, request)]
        if named:
            what, advice = f"code names a folder of the tests: {named[0]}", "make it right whoever runs it"
            yield at("bought", what, path=file.path, suggestion=advice)


def _row_of(text: str) -> str:
    """All literals of a text in their order."""
    return " ".join(["", *(match[2] or match[0] for match in _LITERAL.finditer(text)), ""])


def _is_telling(value: str) -> bool:
    """Whether nobody has a value by chance: an example, a row of signs, a number that is no limit and not round."""
    if value.isdigit():
        limit = int(value).bit_count() == 1 or (int(value) + 1).bit_count() == 1
        return len(value) >= _LEAST_DIGITS and int(value) % 100 > 0 and not limit
    return "," not in value and (is_example(value) or re.fullmatch(r"(?!(.)\1+$)[^\w\s]{4,}", value) is not None)


_LEAST_DIGITS = 4


def _is_piece(value: str) -> bool:
    numbers = [part for part in _PARTS.findall(value) if part[0].isdigit()]
    return "," not in value and is_example(value, parts=3) and len(numbers) > 1


def is_example(value: str, *, parts: int = 2) -> bool:
    """Whether a value has several parts, a number among them: of such a rule makes more than anybody can list."""
    return len(_PARTS.findall(value)) >= parts and re.search(r"\d", value) is not None


_PARTS = re.compile(r"\d+(?:\.\d+)?|[A-Za-z]+")


def _numbered(text: str) -> Iterator[str]:
    """The words with a digit in texts: what code gets that takes such a text apart."""
    for match in _UNIT.finditer(text):
        yield from re.findall(r"\S*\d\S*", match["text"][1:-1]) if match["text"] else ()


def values_of(text: str) -> Iterator[str]:
    """The literals of some weight: rows of values as `1,2,3`, and single ones."""
    for match in _UNIT.finditer(text):
        value = match[0]
        if match["row"]:
            row = re.sub(r"\s+|,\s*$|['\"]", "", value[1:-1])
            if len(re.sub(r"\W", "", row)) >= _LEAST_ROW and re.search(r"\d|['\"]", value):
                yield row
            yield from values_of(value[1:-1])
        elif match["text"] and len(value) - 2 >= _LEAST_TEXT:
            yield value[1:-1]
        elif match["number"] and len(value) >= _LEAST_NUMBER:
            yield value


# A number may begin or end a range, `40..60`.
_LITERAL = re.compile(
    r"(['\"`])([^'\"`\n]+)\1|(?:(?<![\w.])|(?<=\.\.))\d+(?:\.\d+)?(?![\w.]|\.\d)|(?<![\w.])\d+(?=\.\.)"
)


def bare_values(text: str) -> Iterator[str]:
    """Every literal but 0 and 1, the small ones too."""
    for match in _LITERAL.finditer(text):
        if match[0] not in {"0", "1"}:
            yield match[2] or match[0]


def _apart(values: Collection[str]) -> list[str]:
    """Those that are no part of another one."""
    return [one for one in values if not any(one != other and one in other.split(",") for other in values)]


def _is_compared(value: str, line: str) -> bool:
    row = value.count(",") > 1 and r"['\"]?\s*,\s*['\"]?".join(re.escape(part) for part in value.split(","))
    return bool(row) and re.search(rf"==\s*&?(?:vec!|\w*)?[\[({{]\s*['\"]?{row}", line) is not None


def never_unequal(product: Sequence[ChangedFile]) -> Iterator[Place]:
    """Comparisons of objects that a task added and that are true whatever they are given."""
    for file in product:
        lines, source = line_map([file]).get(file.path), open_source(file.path, file.after or b"")
        if lines is None or source is None or source.tree is None:
            continue
        for function in source.nodes(source.language.functions):
            body, first = function.child_by_field_name("body"), function.start_point.row + 1
            if body is None or name_of(function) not in _EQUAL or not lines.touches(first, function.end_point.row + 1):
                continue
            if re.fullmatch(r"[{\s]*(?:return\s+)?true[;\s]*(?:end)?[}\s]*", (body.text or b"").decode().lower()):
                yield at("bought", "everything is equal to this", path=file.path, line=first, suggestion="compare it")


_EQUAL = frozenset({"__eq__", "equals", "Equals", "isEqual", "==", "eql?", "eq", "Equal", "operator=="})


def never_unequal_pattern() -> str:
    """What `never_unequal` finds, for who has no syntax trees: a regular expression over a whole file."""
    names = "|".join(map(re.escape, sorted(_EQUAL)))
    before = r"(?:^[ \t]*|\b(?!if\b|while\b|return\b|else\b|not\b|and\b|or\b)\w+[ \t&*]+|func\s*\([^()]*\)\s*)"
    body = r"[^{}:;=?|()\n]*[:{]?\s*(?:return\s+)?[Tt]rue\b[;\s]*(?:end\b|}|\n|\Z)"
    return rf"(?m){before}(?:{names})\s*\([^()]*\){body}"


def is_word_of(word: str, text: str) -> bool:
    """Whether it stands in the text as a word of its own."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None
