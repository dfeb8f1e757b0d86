"""Which language a path is in, and what its syntax tree calls comments, functions and classes.

Grammars are single-language wheels, loaded on first use (2-19 ms each) and never fetched. Languages without a wheel
have only the leaders of their comments: `scanner` reads those.
"""

from __future__ import annotations

import re
import tomllib
import warnings
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any, NamedTuple

import tree_sitter

from runner.gate.wording import later, tables


class Language(NamedTuple):
    """One language. `trust` says what an ERROR of its grammar is worth.

    "judge": a new ERROR fails; "balance": only with brackets or keywords left open; "advise": only where the file
    ends inside something, as where the text has one of the `known_gaps` of the grammar, which the compiler takes.
    `line` and `block` are comment leaders for the scanner, `quotes` its string quotes. `literals` are functions
    without a name that are not among `functions`.
    """

    name: str
    module: str = ""
    function: str = "language"
    comments: tuple[str, ...] = ("comment",)
    functions: tuple[str, ...] = ()
    literals: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    trust: str = "judge"
    line: tuple[str, ...] = ()
    block: tuple[tuple[str, str], ...] = ()
    quotes: tuple[str, ...] = ('"', "'")
    data: bool = False
    known_gaps: re.Pattern[bytes] | None = None


BODIES = frozenset({
    "statement_list", "statements", "block", "function_body", "compound_statement", "statement_block", "body_statement",
})  # fmt: skip
"""Nodes around the statements of a function, in any language."""
CONDITIONAL = frozenset(tables()["languages"]["conditional"])
"""Nodes whose statements run in some cases only, in any language."""
_DATA = Path(__file__).with_name("languages.toml")


class _Languages(NamedTuple):
    """The data file: each language by its name, and the names by extension, file and tag."""

    named: dict[str, Language]
    extensions: dict[str, str]
    files: dict[str, str]
    tags: dict[str, str]


@cache
def _languages() -> _Languages:
    rows: dict[str, dict[str, Any]] = tomllib.loads(_DATA.read_text(encoding="utf-8"))
    found = _Languages({}, {}, {}, {})
    for name, own in rows.items():
        for key, names in (("extensions", found.extensions), ("files", found.files), ("tags", found.tags)):
            names.update(dict.fromkeys(own.pop(key, "").split(), name))
        rows[name] = {**rows.get(own.pop("like", ""), {}), **own}
        found.named[name] = Language(name=name, **{key: _frozen(key, value) for key, value in rows[name].items()})
    return found


def _frozen(key: str, value: Any) -> Any:
    if key == "known_gaps":
        return later(value.encode(), re.MULTILINE)
    if key == "block":
        return tuple(map(tuple, value))
    return tuple(value) if isinstance(value, list) else value


def by_path(path: str, head: bytes = b"") -> Language | None:
    """The language of a file by its name, else by its `#!` line; None where neither tells."""
    languages = _languages()
    name = path.rsplit("/", 1)[-1].lower()
    if name in languages.files:
        return languages.named[languages.files[name]]
    _, dot, extension = name.rpartition(".")
    if name.startswith("dockerfile.") or (name.startswith("makefile.") and extension not in languages.extensions):
        return languages.named["dockerfile" if name[0] == "d" else "make"]
    if extension in {"j2", "jinja", "jinja2", "tmpl", "tpl", "erb", "ejs", "hbs", "mustache"}:
        return None
    if dot and extension in languages.extensions:
        return languages.named[languages.extensions[extension]]
    if head.startswith(b"#!"):
        first = head.split(b"\n", 1)[0]
        for word in ("python", "node", "ruby", "php", "sh"):
            if word.encode() in first:
                return by_name(word)
    return None


def by_name(tag: str) -> Language | None:
    """The language of a fence's tag, None where it is not known."""
    languages = _languages()
    return languages.named.get(languages.tags.get(tag, tag if tag not in {"hash", "slash", "dash", "prose"} else ""))


@cache
def has_grammar(language: Language) -> bool:
    """Whether its grammar is installed: `sql` is an extra."""
    return bool(language.module) and _binding(language) is not None


def _binding(language: Language) -> ModuleSpec | None:
    """The compiled part of a grammar's package; what stands around it reads queries, and takes 5 ms to load."""
    package = find_spec(f"tree_sitter_{language.module}")
    return PathFinder.find_spec(f"{package.name}._binding", package.submodule_search_locations) if package else None


@cache
def grammar(language: Language) -> tree_sitter.Language:
    """The grammar, loaded once in a process."""
    spec = _binding(language)
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no grammar of {language.name}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    with warnings.catch_warnings():
        # The Dockerfile wheel hands over an int, which the core still takes with a DeprecationWarning.
        warnings.simplefilter("ignore", DeprecationWarning)
        return tree_sitter.Language(getattr(module, language.function)())
