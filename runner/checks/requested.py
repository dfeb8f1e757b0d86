"""What the request names, held against the change: made, changed, and put to use? Pure but for a look at other files.

Comments, documents, tests, mere declarations and code that is switched off make nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import tree_sitter

from runner.checks.harness import CALLED, asks_for_tests, is_word_of, named_in, rows
from runner.gate.criterion import ChangedFile, Place, at
from runner.gate.definitions import functions_of
from runner.gate.evidence_criteria import tests_in
from runner.gate.file_roles import is_test_file
from runner.gate.languages import by_path, grammar
from runner.gate.source import Source, open_source


def unmade(files: Sequence[ChangedFile], folder: Path, request: str) -> list[Place]:
    """What the request tells to add, by its name, where no code has it: not before, and not with the change.

    Comments, documents, tests, mere declarations and code that is switched off make nothing.
    """
    orders = "|".join(line for row in rows()["asks_for_names"] for line in row["lines"])
    told = [_clause(rest) for rest in re.split(f"(?i){orders}", request)[1:]]
    names = [name for text in told for name in CALLED.findall(text) if not re.search(rf"{name}\(e?s\)", text)]
    made = [code_of(file) for file in files]
    made += [(file.before or b"").decode("utf-8", "replace") for file in files]
    left = [name for name in dict.fromkeys(names) if not any(is_word_of(name, text) for text in made)]
    left = [name for name in left if name not in named_in(folder, left, files)]
    what = f"the request tells to add {', '.join(left)}, of which the code has nothing"
    return [at("idle", what, suggestion="make it, in code that is built")] if left else []


def _clause(text: str) -> str:
    """The text to the end of its clause, and the head of each item of a list that it announces."""
    clause = re.split(r"[.;:!?](?:\s|$)|\n\s*\n", text)[0]
    listed = re.match(r":\s*\n(?P<items>(?:\s*(?:[-*•]|\d+[.)])\s.*(?:\n[ \t]+\S.*)*\n?)+)", text[len(clause) :])
    heads = re.findall(r"(?m)^\s*(?:[-*•]|\d+[.)])\s+(`[^`\n]+`|\w+\([^)\n]*\))", listed["items"]) if listed else []
    return " ".join([clause, *heads])


def unheard(files: Iterable[ChangedFile], request: str) -> Iterator[Place]:
    """Parameters that the change adds, that the request names in its code, and with which nothing is done."""
    named = {word for code in IN_CODE.findall(request) for word in re.findall(r"[A-Za-z_]\w+", "".join(code))}
    for file in files if named else ():
        if is_test_file(file.path) or file.after is None or file.too_large:
            continue
        sides = [open_source(file.path, side) if side else None for side in (file.before, file.after)]
        old, new = ({f"{one.owner}.{one.name}": one for one in functions_of(side)} if side else {} for side in sides)
        for key, function in new.items():
            known = old[key].parameters if key in old else frozenset[bytes]()
            for word in sorted(
                {one.decode("utf-8", "replace").rstrip("?") for one in function.parameters - known} & named
            ):
                head = function.header.decode("utf-8", "replace")
                body = b" ".join(function.texts).decode("utf-8", "replace")
                ends = ":(?!:)" if function.source.language.name in _TYPED else "[:=,)]"
                is_name = re.search(rf"[(,*&]\s*{word}\s*\??\s*{ends}", head)
                if is_name and not function.is_trivial and not re.search(rf"\b{word}\b", body):
                    told = f"{function.name}() takes {word}, which the request names, and does nothing with it"
                    yield at("idle", told, path=file.path, line=function.lines[0], suggestion="make it count")


_TYPED = frozenset({"rust", "kotlin", "swift", "scala", "typescript", "tsx"})  # types stand behind a colon there


def codeless(files: Sequence[ChangedFile], request: str) -> Iterator[Place]:
    """Where the request speaks of code that can be called, and no code was changed, nor what it names by its file.

    What else the project had already may be what the code does: a template, settings, but no document.
    """
    changed = [file for file in files if file.before != file.after or file.too_large]
    work = [file for file in changed if not is_test_file(file.path)]
    code = any(
        ((known := by_path(file.path)) is not None and known.functions)
        or (file.before is not None and not _is_prose(file.path))
        for file in work
    )
    wanted = any(re.search(rf"(?i)\b{re.escape(PurePosixPath(file.path).stem)}\b", request) for file in work)
    tested = asks_for_tests(request) and any(
        tests_in((file.after or b"").decode("utf-8", "replace")) for file in changed
    )
    if changed and not code and not wanted and not tested and (called := CALLED.findall(request)):
        what = f"the request speaks of {called[0]}(), and no code was changed"
        yield at("idle", what, path=changed[0].path, suggestion="change the code")


IN_CODE = re.compile(r"`([^`\n]+)`|(\w\([^()\n]*\))")


def code_of(file: ChangedFile) -> str:
    """What of a file of the product is code that does something; all of it where its language is not known."""
    text = file.after or b""
    if _is_prose(file.path) or is_test_file(file.path):
        return ""
    source = open_source(file.path, text)
    if source is None:
        return text.decode("utf-8", "replace")
    kinds = (*source.language.comments, *_DEAD) if source.tree is not None else ()
    dead = source.nodes(tuple(kind for kind in kinds if _knows(source, kind)))
    cut = [(node.start_byte, node.end_byte) for node in dead if node.type not in _DEAD or _DEAD[node.type](node)]
    for start, end in cut:
        text = text[:start] + b" " * (end - start) + text[end:]
    return text.decode("utf-8", "replace")


def _is_prose(path: str) -> bool:
    language = by_path(path)
    return language.name in {"markdown", "prose"} if language is not None else not PurePosixPath(path).suffix


def _knows(source: Source, kind: str) -> bool:
    return grammar(source.language).id_for_node_kind(kind, True) is not None  # noqa: FBT003 - takes no keyword


_DEAD: Mapping[str, Callable[[tree_sitter.Node], bool]] = {
    "uninterpreted": lambda _: True,  # Ruby's, behind __END__
    "preproc_if": lambda node: (told := node.child_by_field_name("condition")) is not None and told.text == b"0",
    "declaration": lambda node: (
        (told := node.child_by_field_name("declarator")) is not None and told.type == "function_declarator"
    ),
    "expression_statement": lambda node: [child.type for child in node.named_children] == ["string"],
}
