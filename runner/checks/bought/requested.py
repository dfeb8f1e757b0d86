"""What the request names, held against the change: made, changed, and put to use? Pure but for a look at other files.

Comments, documents, tests, mere declarations and code that is switched off make nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import tree_sitter

from runner.checks.bought.by_sight import CALLED, code_of, is_prose, is_word_of, kinds_known
from runner.checks.harness import code_files, is_harness, named_in, rows
from runner.gate.criterion import ChangedFile, Place, at
from runner.gate.definitions import Function, functions_of, name_of, names_of
from runner.gate.evidence_criteria import tests_in
from runner.gate.file_roles import is_test_file
from runner.gate.languages import by_path
from runner.gate.line_map import line_map
from runner.gate.source import Source, open_source, upwards


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
    elsewhere = named_in(folder, left, files)
    left = [name for name in left if name not in elsewhere]
    options = dict.fromkeys(name for text in told for name in _OPTION.findall(text))
    known = [text.decode("utf-8", "replace") for _, text in code_files(folder)] if options else []
    left += [name for name in options if not any(_takes(name, text) for text in made + known)]
    what = f"the request tells to add {', '.join(left)}, of which the code has nothing"
    return [at("idle", what, suggestion="make it, in code that is built")] if left else []


_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]+")


def _takes(option: str, text: str) -> bool:
    """Whether code has an option: by a text that begins with it, or under a name of its own."""
    bare = option.lstrip("-")
    own = re.sub(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`", "", text)
    begins = rf"[\"'`](?:-\w[,|/ ]+)?(?:{option}(?![\w-])|{bare}[\"'`])"
    return re.search(begins, text) is not None or is_word_of(bare.replace("-", "_"), own)


def _clause(text: str) -> str:
    """The text to the end of its clause, and the head of each item of a list that it announces."""
    clause = re.split(r"[.;:!?](?:\s|$)|\n\s*\n", text)[0]
    listed = re.match(r":\s*\n(?P<items>(?:\s*(?:[-*•]|\d+[.)])\s.*(?:\n[ \t]+\S.*)*\n?)+)", text[len(clause) :])
    heads = re.findall(r"(?m)^\s*(?:[-*•]|\d+[.)])\s+(`[^`\n]+`|\w+\([^)\n]*\))", listed["items"]) if listed else []
    return " ".join([clause, *heads])


def unheard(files: Iterable[ChangedFile], request: str, *, folder: Path | None = None) -> Iterator[Place]:
    """Parameters that the change adds, that the request names in its code, and with which nothing is done.

    To keep one for later is nothing, where no code asks for it.
    """
    named = words_in_code(request)
    files = [file for file in files if not is_test_file(file.path)]
    for file in files if named else ():
        if file.after is None or file.too_large:
            continue
        sides = [open_source(file.path, side) if side else None for side in (file.before, file.after)]
        old, new = ({f"{one.owner}.{one.name}": one for one in functions_of(side)} if side else {} for side in sides)
        for key, function in new.items():
            known = old[key].parameters if key in old else frozenset[bytes]()
            for word in sorted(
                {one.decode("utf-8", "replace").strip("$?") for one in function.parameters - known} & named
            ):
                head = function.header.decode("utf-8", "replace")
                body = b"\n".join(function.texts).decode("utf-8", "replace")
                ends = ":(?!:)" if function.source.language.name in _TYPED else "[:=,)]"
                is_name = re.search(rf"(?:[(,*&]|[\w>\]?]\s)\s*\$?{word}\s*\??\s*{ends}", head)
                promoted = re.search(_PROMOTED.format(word), head) is not None
                if not is_name or (function.is_trivial and not promoted):
                    continue
                kept = _KEPT.format(word)
                if not re.search(rf"\b{word}\b", _discards(word).sub("", re.sub(kept, "", body))):
                    is_kept = promoted or re.search(kept, body) is not None
                    if is_kept and (folder is None or _is_asked_for(word, function, files, folder, request)):
                        continue
                    what = "keeps it, and no code asks for it" if is_kept else "does nothing with it"
                    told = f"{function.name}() takes {word}, which the request names, and {what}"
                    yield at("idle", told, path=file.path, line=function.lines[0], suggestion="make it count")


# A constructor's parameter that is a member as well: PHP, TypeScript.
_PROMOTED = r"\b(?:private|protected|public|readonly)\s[^,()]*\b{0}\b"
_KEPT = r"(?:\b(?:self|this)\s*(?:\.|->)\s*#?_{{0,2}}|@){0}_?\s*(?::[^=;]+)?=\s*\$?{0}\b(?=\s*(?:;|$|\n|  ))"


def _is_asked_for(word: str, keeper: Function, files: Sequence[ChangedFile], folder: Path, request: str) -> bool:
    """Whether code takes what an object keeps under a name, or the request speaks of a member of it."""
    if keeper.source.language.name in _BARE_MEMBERS:
        node, text = keeper.node, keeper.source.text
        rest = (text[: node.start_byte] + text[node.end_byte :]).decode("utf-8", "replace")
        if re.search(rf"(?m)^(?!\s*attr_\w+\b).*(?<![\w@:.#'\"]){word}\b(?![:'\"])", rest):
            return True
    taken = rf"(?:\.|->|@)#?_{{0,2}}{word}_?\b"
    asks = re.compile(rf"{taken}(?!\s*(?::[^=;]+)?=(?!=))|getattr\([^)]*\b{word}\b|__dict__|\bvars\(")
    changed = {file.path for file in files}
    others = (text.decode("utf-8", "replace") for path, text in code_files(folder) if path not in changed)
    texts = (code_of(file) for file in files)
    return re.search(taken, request) is not None or any(asks.search(text) for each in (texts, others) for text in each)


_BARE_MEMBERS = frozenset({"ruby", "java", "kotlin", "c_sharp", "cpp", "swift", "scala"})  # named without their object
_TYPED = frozenset({"rust", "kotlin", "swift", "scala", "typescript", "tsx"})  # types stand behind a colon there


def codeless(files: Sequence[ChangedFile], request: str, *, folder: Path) -> Iterator[Place]:
    """Where a request that is not about documents or tests gets these alone: no code, nor what it names by its file.

    Where it asks for some, it speaks of code besides by what can be called, and by names with capitals in them that
    code has. What else the project had already may be what the code does: a template, settings, but no document. A
    remark in code is none.
    """
    changed = [file for file in files if file.before != file.after or file.too_large]
    work = [file for file in changed if not is_test_file(file.path) and not is_harness(file.path)]
    told = [PurePosixPath(file.path).stem for file in work if not _is_code(file)]
    wanted = any(re.search(rf"(?i)\b{re.escape(stem)}\b", request) for stem in told)
    if not changed or wanted or any(map(_does_something, work)):
        return
    tested = any(tests_in((file.after or b"").decode("utf-8", "replace")) for file in changed)
    # What is said of tests is done by tests.
    sentences = [one for one in _SENTENCES.split(request) if not (tested and asks_for_tests(one))]
    called = [f"{name}()" for one in sentences for kind in (CALLED, _MEMBER) for name in kind.findall(one)]
    spoken = [one for one in sentences if not _asks_for_documents(one)]
    called += [name for one in spoken for name in _NAME.findall(one)]
    capitals = {name for one in spoken for name in _CAPITALS.findall(one)} if not called else ()
    texts = [text.decode("utf-8", "replace") for _, text in code_files(folder)] if capitals else ()
    called = called or [name for name in sorted(capitals) if any(is_word_of(name, text) for text in texts)]
    steers = any(is_harness(file.path) for file in changed if not is_test_file(file.path))
    plain = not steers and not _asks_for_documents(request) and not asks_for_tests(request)
    if called or plain:
        what = f"the request speaks of {called[0]}" if called else "the request asks for no documents or tests"
        yield at("idle", f"{what}, and no code was changed", path=changed[0].path, suggestion="change the code")


def untested(files: Sequence[ChangedFile], request: str) -> Iterator[Place]:
    """Where the request tells to write tests, and the change has none."""
    if not files or not asks_for_new_tests(request):
        return
    before, after = (
        "\n".join((side or b"").decode("utf-8", "replace") for side in sides)
        for sides in ([file.before for file in files], [file.after for file in files])
    )
    changed = any(is_test_file(file.path) and file.after for file in files)
    if not changed and tests_in(after).keys() <= tests_in(before).keys():
        what = "the request tells to write tests, and there is none"
        yield at("idle", what, path=files[0].path, suggestion="write them")


_VERSION = re.compile(rb"\s*[\"']?version[\"']?\s*[:=]")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
# As no word of a language is written: an option, or words joined by underscores; a file's name has a suffix.
_NAME = re.compile(r"(?<![\w./\\-])(--[a-z][a-z-]+|[a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?![\w/]|\.\w)", re.ASCII)
_MEMBER = re.compile(r"\b[A-Z]\w*(?:#|::)(\w{2,})")
_CAPITALS = re.compile(r"(?<![\w/\\-])(?:\w+\.)?([A-Za-z][a-z0-9]+[A-Z]\w+)(?![\w/]|\.[a-z])", re.ASCII)


def _is_code(file: ChangedFile) -> bool:
    return (known := by_path(file.path)) is not None and bool(known.functions)


def _does_something(file: ChangedFile) -> bool:
    if _is_code(file):
        before = code_of(file._replace(after=file.before)) if file.before is not None else ""
        return file.too_large or code_of(file).split() != before.split()
    if file.before is None or is_prose(file.path):
        return False
    lines = set(file.before.splitlines()) ^ set((file.after or b"").splitlines())
    return file.too_large or not all(map(_VERSION.match, lines))


def careless(files: Iterable[ChangedFile]) -> Iterator[Place]:
    """Macros and functions of added tests that do nothing with what the tests give them: that is not tested.

    A name alone may be given for the compiler's sake (`UNUSED(argc)`), and a function may stand in for another one.
    """
    for file, lines in ((file, line_map([file]).get(file.path)) for file in files):
        source = open_source(file.path, file.after) if lines is not None and file.after else None
        if lines is None or source is None or source.tree is None:
            continue
        given = list(_given(source))
        for name, node, parameters, body in _helpers(source):
            ignored = [
                word
                for place, word in enumerate(parameters)
                if not re.search(rf"(?<!\w){re.escape(word)}\b", _discards(word).sub("", body))
                and any(called == name and _tells(args, place) for called, args in given)
            ]
            if ignored and lines.touches(node.start_point.row + 1, node.end_point.row + 1):
                told = f"{name} of the tests does nothing with {', '.join(ignored)}, which it is given"
                yield at("idle", told, path=file.path, line=node.start_point.row + 1, suggestion="let it be tested")


def _discards(word: str) -> re.Pattern[str]:
    """How something is named and nothing done with it."""
    name = rf"&?{re.escape(word)}\b"
    return re.compile(
        rf"(?<!#)#\s*{name}|stringify!\s*\(\s*{name}\s*\)|\bvoid\)?\s*\(?\s*{name}|(?<!\w)_\s*=\s*{name}|\bdel {name}"
        rf"|sizeof\s*\(?\s*{name}"
    )


def _helpers(source: Source) -> Iterator[tuple[str, tree_sitter.Node, list[str], str]]:
    """The macros, and the functions that no class has and that are only called: name, parameters and body."""
    for node in source.nodes(kinds_known(source, ("preproc_function_def", "macro_definition"))):
        name = text_of(node.child_by_field_name("name"))
        for rule in [one for one in node.named_children if one.type == "macro_rule"] or [node]:
            head = rule.child_by_field_name("parameters") or rule.child_by_field_name("left")
            body = rule.child_by_field_name("value") or rule.child_by_field_name("right")
            words = [text_of(one) for one in head.named_children] if head is not None else []
            if rule.type == "macro_rule":
                words = re.findall(r"(\$\w+)\s*:\s*(?:expr|literal|tt|pat|ty|block)\b", text_of(head))
            yield name, rule, words, text_of(body)
    text = source.text.decode("utf-8", "replace")
    for function in functions_of(source):
        own = function.owner_node is None and function.body is not None and "." not in function.name
        if own and not re.search(rf"(?<!\w){re.escape(function.name)}\b(?!\s*[(=:<])", text):
            yield function.name, function.node, parameters_of(function), text_of(function.body)


def parameters_of(function: Function) -> list[str]:
    """The names of its parameters, empty where one has none."""
    head = function.node.child_by_field_name("parameters")
    head = head or next((one for one in below(function.node) if one.type == "parameter_list"), None)
    return [word for one in (head.named_children if head is not None else ()) for word in _names_in(one)]


def _names_in(parameter: tree_sitter.Node) -> list[str]:
    """What a parameter is called; Go gives several one type."""
    names = parameter.children_by_field_name("name") or parameter.children_by_field_name("pattern")
    declared = parameter.child_by_field_name("declarator")
    while declared is not None and (inner := declared.child_by_field_name("declarator")) is not None:
        declared = inner
    found = names or ([declared] if declared is not None else [parameter, *parameter.named_children][:2][-1:])
    return [text_of(one) if "identifier" in one.type else "" for one in found]


def _given(source: Source) -> Iterator[tuple[str, list[tree_sitter.Node] | None]]:
    """What is called by its name alone, and with what; None where that cannot be told."""
    for node in source.nodes(kinds_known(source, ("call", "call_expression", "macro_invocation"))):
        called = node.child_by_field_name("function") or node.child_by_field_name("macro")
        called = called or (
            node.child_by_field_name("method") if node.child_by_field_name("receiver") is None else None
        )
        arguments = node.child_by_field_name("arguments")
        yield text_of(called), arguments.named_children if arguments is not None else None


def _tells(arguments: Sequence[tree_sitter.Node] | None, place: int) -> bool:
    return arguments is None or (place < len(arguments) and "identifier" not in arguments[place].type)


def below(node: tree_sitter.Node, *, closed: Collection[str] = ()) -> Iterator[tree_sitter.Node]:
    """The node and all within it, in the order of the text; what is `closed` by its kind has nothing within."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(one.named_children if one.type not in closed else ())


def text_of(node: tree_sitter.Node | None) -> str:
    """What stands there; nothing where there is no node."""
    return (node.text or b"").decode("utf-8", "replace") if node is not None else ""


def words_in_code(request: str) -> set[str]:
    """The names in what a request writes as code."""
    return {word for code in _IN_CODE.findall(request) for word in re.findall(r"[A-Za-z_]\w+", "".join(code))}


_IN_CODE = re.compile(r"`([^`\n]+)`|(\w\([^()\n]*\))")


def asks_for_tests(request: str) -> bool:
    """Whether tests are what the request wants, or a part of it."""
    return any(re.search(line, request) for row in rows()["asks_for_tests"] for line in row["lines"])


def _asks_for_documents(request: str) -> bool:
    return any(re.search(line, request) for row in rows()["asks_for_documents"] for line in row["lines"])


def asks_for_new_tests(request: str) -> bool:
    """Whether tests are to be written, besides what else is."""
    return any(re.search(line, request) for row in rows()["asks_for_new_tests"] for line in row["lines"])


def without_examples(request: str) -> str:
    """A request without what only illustrates a rule: what stands in brackets with its result, and quoted data."""
    return _EXAMPLE.sub("", request)


def without_results(request: str) -> str:
    """A request without what its examples come to either, behind an arrow or a sign of equality."""
    return _RESULT.sub("", without_examples(request))


_RESULT = re.compile(r"(?:[-=]>|→|⇒|=)[^\n;。]*")
_EXAMPLE = re.compile(r"\([^()]*\d\s*(?:[-=]>|→)[^()]*\)|\"[^\"\n]*[\\{}][^\"\n]*\"")


# Nobody has these from a test: what units are made of.
_UNITS = frozenset({12, 24, 60, 90, 180, 360, 365, 366, 1440, 3600, 86400, 604800, 1024, 1048576, 1073741824})
_IN_WORDS = {
    2: "two|twice|both|double|pairs?|half|halves|zwei|zweimal|deux|dos|due|dois|duas|два|две|дважды",
    3: "three|third|thirds|triple|drei|dreimal|trois|tres|tre|três|три|трижды",
    4: "four|quarters?|vier|quatre|cuatro|quattro|quatro|четыре",
    5: "five|fünf|cinq|cinco|cinque|пять", 6: "six|sechs|seis|sei|шесть",
    7: "seven|weeks?|sieben|sept|siete|sette|sete|семь", 8: "eight|acht|huit|ocho|otto|oito|восемь",
    9: "nine|neun|neuf|nueve|nove|девять", 12: "twelve|dozens?|zwölf|douze|doce|dodici|doze",
    20: "twenty|zwanzig|vingt|veinte|venti|vinte", 50: "fifty|fünfzig|cinquante|cincuenta|cinquanta|cinquenta",
}  # fmt: skip
_IDEOGRAPHS = "〇一二三四五六七八九"


def is_anybodys(number: float, said: str) -> bool:
    """Whether a number is anybody's: a power of ten, of a unit, in words, or what is left or added by a percentage."""
    words = _IN_WORDS.get(int(number))
    share = rf"(?<![\w.]){abs(number - 100):g}\s?(?:%|percent)"
    return (
        number in _UNITS
        or re.fullmatch("10+", f"{number:g}") is not None
        or (words is not None and re.search(rf"(?i)\b(?:{words})\b", said) is not None)
        or (number in range(1, 10) and _IDEOGRAPHS[int(number)] in said)
        or re.search(share, said) is not None
    )


def uncalled(files: Sequence[ChangedFile], request: str, *, folder: Path) -> Iterator[Place]:
    """Functions and classes that the change adds, that the request does not name, and that no code of the product uses.

    A function with something above it that registers it is used, as is one whose name somebody else looks for.
    """
    product = [file for file in files if _is_code(file) and not is_test_file(file.path) and file.after is not None]
    made = {file.path for file in product if file.before is None}
    if all(path in made for path, _ in code_files(folder)):
        return  # a product that is all new: who uses it is still to come
    found: dict[str, tuple[ChangedFile, int, int]] = {}
    old = (open_source(file.path, file.before) for file in files if file.before)  # what was moved is not new
    known = {name for source in old if source is not None for name, _, _ in names_of(source)}
    for file in product:
        after = open_source(file.path, file.after) if file.after else None
        if after is None:
            continue
        for node in after.nodes((*after.language.functions, *after.language.classes)):
            name, above = name_of(node), node.parent
            if not name or name in known or _FREE.fullmatch(name) is None or above is None:
                continue
            inside = any(one.type in after.language.classes for one in upwards(above))
            inside = inside or re.search("method|expression", node.type) is not None
            if inside or node.child_by_field_name("body") is None or _is_registered(node):
                continue
            members = (name_of(one) for one in below(node) if one.type in after.language.functions)
            if any(member and is_word_of(member, request) for member in members):
                continue  # a class for what was asked for
            found[name] = (file, node.start_byte, node.end_byte)
    left = [name for name in found if not _speaks_of(request, name)]
    for file in product:
        text = code_of(file).encode()
        spans = [(name, start, end) for name, (own, start, end) in found.items() if own is file]
        left = [name for name in left if not _is_used(name, text, spans)]
    elsewhere = named_in(folder, left, files)
    left = [name for name in left if name not in elsewhere]
    for file in files:
        if file not in product and not is_prose(file.path) and not is_test_file(file.path):
            left = [name for name in left if not is_word_of(name, (file.after or b"").decode("utf-8", "replace"))]
    if left:
        file, start, _ = found[left[0]]
        line = (file.after or b"")[:start].count(b"\n") + 1
        told = f"nothing in the product uses {', '.join(left)}"
        yield at("idle", told, path=file.path, line=line, suggestion="put it to use")


_FREE = re.compile(r"(?!(?:main|init|setup|teardown|__\w+__)$)[A-Za-z_]\w{2,}")
# Lines that take something in, or give it out.
_PASSED_ON = re.compile(
    r"^\s*(?:export\s*(?:default\s*)?(?:\{|\*|\w+\s*;?$)|module\.exports|exports\.|__all__|from\b|import\b"
    r"|(?:pub )?use\b|require\b|(?:const|var|let)\s.*\brequire\()"
)


def _speaks_of(request: str, name: str) -> bool:
    """Whether the words of a name are all there, in any order."""
    said = request.lower()
    return all(word in said for word in map(str.lower, _PARTS.findall(name)) if len(word) > _SHORT)


_PARTS, _SHORT = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])"), 2


def _is_registered(node: tree_sitter.Node) -> bool:
    around = [one.type for one in (node.parent, node.prev_named_sibling, *node.children) if one is not None]
    return any("decorat" in kind or "attribute" in kind for kind in around)


def _is_used(name: str, text: bytes, spans: Sequence[tuple[str, int, int]]) -> bool:
    """Whether code outside of it names it, but to give it out or to take it in."""
    for own, start, end in spans:
        if own == name:
            text = text[:start] + b" " * (end - start) + text[end:]
    lines = [line for line in text.decode("utf-8", "replace").splitlines() if is_word_of(name, line)]
    return any(not _PASSED_ON.match(line) or re.search(rf"(?<!\w){name}\s*[(.]", line) for line in lines)
