"""Q4 for one text: the language's real parser where there is one, else its grammar."""

from __future__ import annotations

import io
import re
import tomllib
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import tree_sitter

from runner.gate.answer_text import read_answer
from runner.gate.file_roles import is_test_file
from runner.gate.languages import by_name
from runner.gate.source import TOO_DEEP, Source, is_preprocessed, open_source, parse, scan
from runner.gate.wording import Words, later, pattern, pattern_of_bytes
from tracer.redaction.cuts import beginning

LIMIT = 32 * 1024 * 1024
_PYTHON_LIMIT = 4 * 1024 * 1024
# Compiling to bytecode finds a little more than parsing (a `return` outside a function) and costs ten times as much.
_COMPILE_LIMIT = 256 * 1024
_YAML_LIMIT = 2 * 1024 * 1024
_WITH_COMMENTS = pattern("syntax", "with_comments")
_TEMPLATED = later(r"\{\{.*?\}\}|\{%.*?%\}|<%.*?%>|\$\{\{", re.DOTALL)
_NEWER = ("type_alias_statement", "type_parameter", "interpolation")
_INLINE_TABLE = later(r"\{[^{}\"'#]*\n[^{}#]*\}")


class Fault(NamedTuple):
    """Where and why text does not parse; `line` is 1-based or None."""

    line: int | None
    message: str


def fault_in(language: str, path: str, text: bytes, *, fragment: bool = False) -> Fault | None:
    """The first fault of `text` in `language` (python, json, jsonl, toml, yaml), None where it parses or is too large.

    `fragment` is for code shown in an answer: statements that only a module forbids are let pass.
    """
    if len(text) > LIMIT:
        return None
    try:
        match language:
            case "python":
                return _python(text, fragment=fragment)
            case "json":
                return _json_with_comments(text) if _WITH_COMMENTS.search(path) else _json(text)
            case "jsonl":
                lines = enumerate(text.split(b"\n"), 1)
                return next((fault for number, line in lines if line.strip() and (fault := _json(line, number))), None)
            case "toml":
                return _toml(text)
            case "yaml":
                return _yaml(text)
            case _:
                return None
    except (RecursionError, MemoryError):
        return Fault(None, "nested too deeply to parse")


def _python(text: bytes, *, fragment: bool) -> Fault | None:
    if len(text) > _PYTHON_LIMIT:
        return None
    if (undecodable := _undecodable(text)) is not None:
        return undecodable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if fragment or len(text) > _COMPILE_LIMIT:
                from ast import parse as to_tree  # 1 ms

                to_tree(text)
            else:
                compile(text, "<answer>", "exec", dont_inherit=True)
        except IndentationError as error:  # no grammar sees these
            return Fault(error.lineno, f"does not parse ({error.msg})")
        except SyntaxError as error:
            if _is_newer_python(text) or (fragment and "outside" in str(error.msg)):
                return None
            return Fault(error.lineno, f"does not parse ({error.msg})")
        except ValueError as error:
            return Fault(None, f"does not parse ({error})")
    return None


def _undecodable(text: bytes) -> Fault | None:
    """Bytes that are not in the file's encoding: the interpreter refuses them even in a comment."""
    encoding = "utf-8"
    try:
        if any(b"coding" in line for line in text.split(b"\n", 2)[:2]):
            import tokenize  # 2 ms

            encoding, _ = tokenize.detect_encoding(io.BytesIO(text).readline)
        text.decode(encoding)
    except SyntaxError as error:
        return Fault(1, f"does not parse ({error.msg})")
    except UnicodeDecodeError as error:
        return Fault(text.count(b"\n", 0, error.start) + 1, "does not parse (not UTF-8)")
    return None


def _is_newer_python(text: bytes) -> bool:
    """Whether the grammar takes it whole and it uses what came after this interpreter."""
    source = open_source("a.py", text, by_name("python"))
    if source is None or source.tree is None or source.tree.root_node.has_error:
        return False
    return bool(source.nodes(_NEWER)) and not source.nodes(("print_statement", "exec_statement"))


def _json(text: bytes, number: int | None = None) -> Fault | None:
    """A JSON document, or the line `number` of a file of JSON lines."""
    import orjson  # 4 ms, only where JSON changed

    body = text.removeprefix(b"\xef\xbb\xbf") if number is None else text
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return Fault(number or error.lineno, f"does not parse ({error.msg})")
    return None


def _json_with_comments(text: bytes) -> Fault | None:
    """JSON as configuration tools take it, with comments and trailing commas: an object literal of JavaScript."""
    language = by_name("javascript")
    tree = parse(language, b"(" + text.strip() + b"\n)") if language is not None else None
    if tree is not None and tree.root_node.has_error:
        return Fault(None, "does not parse (not JSON, not even with comments)")
    return None


def _toml(text: bytes) -> Fault | None:
    decoded = text.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        tomllib.loads(decoded)
    except tomllib.TOMLDecodeError as error:
        if _TEMPLATED.search(decoded) or _parses_as_newer_toml(decoded):
            return None
        at = re.search(r"line (\d+)", str(error))
        return Fault(int(at.group(1)) if at else None, f"does not parse ({error})")
    return None


def _parses_as_newer_toml(text: str) -> bool:
    """TOML 1.1 lets inline tables run over lines."""
    joined = _INLINE_TABLE.sub(
        lambda match: re.sub(r",?\s*\n\s*", " ", re.sub(r",\s*\n\s*(?=[^}\s])", ", ", match.group())), text
    )
    if joined == text:
        return False
    try:
        tomllib.loads(joined)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _yaml(text: bytes) -> Fault | None:
    if len(text) > _YAML_LIMIT:
        return None
    decoded = text.decode("utf-8", "replace")
    import yaml  # 8 ms, only where a YAML file changed

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for _ in yaml.parse(decoded, Loader=loader):
            pass
    except yaml.YAMLError as error:
        if _TEMPLATED.search(decoded):
            return None
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not YAML"
        return Fault(mark.line + 1 if mark is not None else None, f"does not parse ({problem})")
    return None


_REAL = {"python", "json", "jsonl", "toml", "yaml"}
_BLOCK_WORDS = pattern_of_bytes("syntax", "block_words")
_OPENS = {b"if": b"fi", b"case": b"esac", b"do": b"done"}
_RUBY_BODIES = {"program", "body_statement", "then", "else", "do", "begin", "block_body"}
_RULE_LINE = later(rb"[^\s#=:][^#=]*::?(?![:=])")
_MAKES_SENSE = pattern_of_bytes("syntax", "makes_sense")


def fault_of(source: Source, *, before: bytes | None = None, fragment: bool = False) -> Fault | None:
    """The fault that counts in `source`, None where it parses, was no better before, or the grammar cannot be trusted.

    `before` is the whole file as it was; `fragment` marks a block of an answer.
    """
    language = source.language
    if source.unread != TOO_DEEP and is_preprocessed(source):
        return None
    if source.note == TOO_DEEP:
        return Fault(None, f"does not parse ({TOO_DEEP})") if language.name != "html" else None
    if (found := _spaced_recipe(source)) is not None:
        old = None if before is None else open_source(source.path, before, language)
        return None if old is not None and _spaced_recipe(old) else found
    if language.name in _REAL:
        found = fault_in(language.name, source.path, source.text, fragment=fragment)
        if found is not None and before is not None and fault_in(language.name, source.path, before) is not None:
            return None
        return found
    if language.name == "markdown" or source.tree is None:
        return None
    if not source.tree.root_node.has_error:
        return _crossed_tags(source) or _stray_end(source)
    # What cannot tell a fault is asked first: to compare errors, the old file must be parsed.
    if before is not None and not _is_worse(source, before):
        return None
    if language.known_gaps is not None and language.known_gaps.search(source.text):
        return _left_open(source)
    if language.trust == "judge":
        return _first_error(source)
    if language.trust == "balance":
        return _left_open(source)
    return _ends_inside(source)


def _spaced_recipe(source: Source) -> Fault | None:
    """A recipe whose lines are set off by blanks: make wants a tab, the grammar does not."""
    if source.language.name != "make" or b".RECIPEPREFIX" in source.text:
        return None
    in_rule = continued = False
    for number, line in enumerate(source.text.split(b"\n"), start=1):
        here, continued = continued, line.endswith(b"\\")
        stripped = line.strip()
        if here or not stripped or stripped.startswith(b"#"):
            continue
        if line.startswith(b" ") and in_rule and not _MAKES_SENSE.match(stripped):
            return Fault(number, "does not parse (a recipe line begins with blanks where make wants a tab)")
        if not line.startswith((b" ", b"\t")):
            in_rule = _RULE_LINE.match(line) is not None
    return None


def _crossed_tags(source: Source) -> Fault | None:
    """JSX elements whose tags do not match: the grammars take them."""
    if source.language.name not in {"javascript", "tsx"} or b"</" not in source.text:
        return None
    for element in source.nodes(("jsx_element",)):
        tags = (element.child_by_field_name("open_tag"), element.child_by_field_name("close_tag"))
        names = [tag.child_by_field_name("name") for tag in tags if tag is not None]
        texts = [name.text if name is not None else b"" for name in names]
        if len(texts) == 2 and texts[0] != texts[1]:
            return Fault(element.end_point.row + 1, "does not parse (the closing tag is not that of the opening one)")
    return None


def _stray_end(source: Source) -> Fault | None:
    """An `end` too many in Ruby, which the grammar reads as a name."""
    if source.language.name != "ruby":
        return None
    for node in source.nodes(("identifier",)):
        if node.text == b"end" and node.parent is not None and node.parent.type in _RUBY_BODIES:
            return Fault(node.start_point.row + 1, "does not parse ('end' without its block)")
    return None


def _is_worse(source: Source, before: bytes) -> bool:
    old = open_source(source.path, before)
    if old is None or old.tree is None or source.tree is None:
        return True
    return sum(1 for _ in _errors(source.tree.root_node)) > sum(1 for _ in _errors(old.tree.root_node))


def _errors(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    stack = [node]
    while stack:
        current = stack.pop()
        if current.is_error or current.is_missing:
            yield current
        elif current.has_error:
            stack.extend(reversed(current.children))


def _first_error(source: Source) -> Fault | None:
    for node in _errors(source.tree.root_node) if source.tree is not None else ():
        line = node.start_point.row + 1
        if node.is_missing:
            return Fault(line, f"does not parse (missing {node.type!r})" if node.type else "does not parse")
        near = beginning(" ".join((node.text or b"")[:10_000].decode("utf-8", "replace").split()), 40)
        return Fault(line, "does not parse" + (f" (near {near!r})" if near else ""))
    return None


def _left_open(source: Source) -> Fault | None:
    """A bracket, string or comment that never closes, or a shell block without its end."""
    text = source.text
    if source.language.name == "bash":
        return _open_shell_block(source)
    seen = scan(text, source.language)
    if seen.unclosed:
        return Fault(None, f"does not parse (the file ends inside a {seen.unclosed})")
    at = seen.open_at if seen.open_at is not None else seen.stray
    if at is not None:
        return Fault(source.line_at(at), f"does not parse ({text[at : at + 1].decode()!r} without its pair)")
    return None


def _open_shell_block(source: Source) -> Fault | None:
    if source.tree is None:
        return None
    masked = bytearray(source.text)
    for node in source.nodes((*source.language.strings, *source.language.comments)):
        masked[node.start_byte : node.end_byte] = b" " * (node.end_byte - node.start_byte)
    words = [match["word"] for match in _BLOCK_WORDS.finditer(bytes(masked))]
    for start, end in _OPENS.items():
        if words.count(start) > words.count(end):
            return Fault(None, f"does not parse ({start.decode()!r} without {end.decode()!r})")
    missing = next(
        (node for node in _errors(source.tree.root_node) if node.is_missing and node.type in {"}", ")", "]]", "]"}),
        None,
    )
    if missing is not None:
        return Fault(missing.start_point.row + 1, f"does not parse (missing {missing.type!r})")
    return _open_shell_quote(source)


def _open_shell_quote(source: Source) -> Fault | None:
    """A quote that runs to the end of the script."""
    end = len(source.text.rstrip())
    for node in _errors(source.tree.root_node) if source.tree is not None else ():
        quote = source.text[node.start_byte : node.start_byte + 1]
        if node.end_byte >= end and quote in {b'"', b"'"} and quote not in source.text[node.start_byte + 1 : end]:
            return Fault(node.start_point.row + 1, f"does not parse ({quote.decode()} never closes)")
    return None


def _ends_inside(source: Source) -> Fault | None:
    """For grammars that refuse valid code: only a text that stops in the middle."""
    if source.language.name == "html":
        tail = source.text.rstrip()[-400:]
        opened = tail.rfind(b"<")
        if opened >= 0 and b">" not in tail[opened:] and re.match(rb"<[a-zA-Z/!]", tail[opened:]):
            return Fault(source.line_at(len(source.text.rstrip()) - 1), "does not parse (the file ends inside a tag)")
        return None
    if source.language.name == "dockerfile":
        return None
    seen = scan(source.text, source.language)
    if source.language.name == "css" and seen.stray is not None:
        return Fault(source.line_at(seen.stray), "does not parse (a bracket without its pair)")
    if seen.open_at is not None or seen.unclosed == "comment":
        line = source.line_at(seen.open_at) if seen.open_at is not None else None
        return Fault(line, "does not parse (the file ends before a bracket or comment is closed)")
    return None


_CHAT = Words("foreign", "chat")
_DIFF_START = later(rb"\A\s*(?:diff --git |--- (?:a/|/dev/null)[^\n]*\n\+\+\+ |@@ -\d+(?:,\d+)? \+\d+)")
_HUNK = later(rb"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", re.MULTILINE)
_FENCE_FIRST = later(rb"\A\s*(?:```|~~~)[\w+.-]*[ \t]*\r?\n")
_DOCUMENT_FENCE = later(rb"\s*```(?:markdown|md)\b")
_FENCE_SECOND = later(rb"\s*[^\n]*\n\s*```")
_FENCE_LAST = later(rb"\n(?:```|~~~)\s*\Z")
_CONFLICT = (
    re.compile(rb"^<{7} \S", re.MULTILINE),
    re.compile(rb"^={7}\r?$", re.MULTILINE),
    re.compile(rb"^>{7} \S", re.MULTILINE),
)
_HOLDS_DIFFS = later(r"\.(?:diff|patch|rej|orig|eml|mbox|snap|golden|out|log|http)$|(?:^|/)(?:patches|quilt)/")
_PROSE = {"markdown", "prose"}
_SENTENCE = later(rb"[A-Z][\w',-]*(?: [^\s(){};=#]+){4,}[.!?:]\s*(?:\n|\Z)")  # five words and more, nothing of code


def foreign_in(path: str, text: bytes, *, old: bytes | None, source: Source | None) -> Fault | None:
    """What is no file's content, in any file of text: conflict markers, words to the user, a fence, a diff.

    What was there before is let be; what stands in a string or in a document's code block is quoted.
    """
    if _HOLDS_DIFFS.search(path) or (is_test_file(path) and (source is None or source.tree is None)):
        return None
    prose = source is not None and source.language.name in _PROSE
    found = _conflict(text, source, prose=prose)
    if found is not None and (old is None or not all(mark.search(old) for mark in _CONFLICT)):
        return found
    if old is not None and old[:200] == text[:200] and old[-200:] == text[-200:]:
        return None
    closes = text.rstrip().endswith(b"```")
    if _FENCE_FIRST.match(text) and not (prose and not (closes and _DOCUMENT_FENCE.match(text))):
        return Fault(1, "the file begins with a code fence")
    if not prose and _FENCE_LAST.search(text) and text.count(b"```") + text.count(b"~~~") == 1:
        return Fault(text.rstrip().count(b"\n") + 1, "the file ends with a code fence")
    if _DIFF_START.match(text) or (not prose and len(_HUNK.findall(text)) > 0 and _HUNK.match(text.lstrip())):
        return Fault(1, "the file holds a diff in place of its content")
    first = text[:600].decode("utf-8", "replace").strip().split("\n", 1)[0].strip()
    if source is not None and source.tree is not None and not source.language.data and source.language.name != "html":
        for at in (0, len(text.rstrip()) - len(text.rstrip().rpartition(b"\n")[2])):
            if _SENTENCE.match(text, at):
                return Fault(text.count(b"\n", 0, at) + 1, "a sentence stands where code belongs")
    if _CHAT.search(first) and (not prose or (closes and _FENCE_SECOND.match(text))):
        return Fault(1, "the file begins with a sentence of the answer")
    return None


def _conflict(text: bytes, source: Source | None, *, prose: bool) -> Fault | None:
    """The three markers of a merge conflict, in their order, where the language takes them for code."""
    start = _CONFLICT[0].search(text) if b"<<<<<<<" in text else None
    middle = _CONFLICT[1].search(text, start.end()) if start else None
    end = _CONFLICT[2].search(text, middle.end()) if middle else None
    if start is None or end is None:
        return None
    line = text.count(b"\n", 0, start.start()) + 1
    fences = read_answer(text.decode("utf-8", "replace")).fences if prose else ()
    if any(fence.line <= line <= fence.line + fence.body.count("\n") + 1 for fence in fences):
        return None
    within = source.above(start.start()) if source is not None and source.language.name != "markdown" else ()
    if source is not None and any(node.type in source.language.strings for node in within):
        return None
    return Fault(line, "a merge conflict is left in the file")
