"""Which language a path is in, and what its syntax tree calls comments, functions and classes.

Grammars are single-language wheels, loaded on first use (2-19 ms each) and never fetched. Languages without a wheel
have only the leaders of their comments: `scanner` reads those.
"""

from __future__ import annotations

import importlib
import re
import warnings
from dataclasses import dataclass, field
from functools import cache, partial

import tree_sitter

_C_LIKE = ("function_definition",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """One language. `trust` says what an ERROR of its grammar is worth.

    `judge`: a new ERROR fails; `balance`: only with brackets or keywords left open; `advise`: only where the file
    ends inside something. `line` and `block` are comment leaders for the scanner, `quotes` its string quotes.
    `literals` are functions without a name that are not among `functions`.
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
    known_gaps: re.Pattern[bytes] | None = field(default=None)


_slashed = partial(Language, line=("//",), block=(("/*", "*/"),))
_script = partial(
    _slashed,
    comments=("comment", "html_comment"),
    functions=(
        "function_declaration",
        "generator_function_declaration",
        "method_definition",
        "function_expression",
        "arrow_function",
    ),
    strings=("string", "template_string", "regex", "jsx_text"),
    quotes=('"', "'", "`"),
)
_JVM_COMMENTS = ("line_comment", "block_comment")
_SWIFT_GAPS = re.compile(rb"^\s*#(?:if|else)|\bmacro\b|~Copyable|\bconsume\b|\bborrowing\b", re.MULTILINE)

# What the TypeScript grammar refuses although the compiler takes it.
_TYPESCRIPT_GAPS = re.compile(
    rb"export type \*|import\(\s*['\"]|\bexport default (?:async )?function\s*\(|<(?:in|out) |, (?:in|out) \w"
    rb"|\bin out \w"
)
_JAVASCRIPT_GAPS = re.compile(
    rb"export\s*\{[^}]*\b(?:function|class|new|delete|void|null|enum|catch|finally)\b[^}]*\}|^\s*let \w+\s*$",
    re.MULTILINE,
)

BODIES = frozenset({
    "statement_list", "statements", "block", "function_body", "compound_statement", "statement_block", "body_statement",
})  # fmt: skip
"""Nodes around the statements of a function, in any language."""
CONDITIONAL = frozenset({
    "if_statement", "else_clause", "elif_clause", "match_statement", "case_clause", "switch_case", "switch_default",
    "if_expression", "match_arm", "when_entry", "conditional", "if", "else", "unless", "expression_case",
    "default_case", "catch_clause", "except_clause", "case", "when",
})  # fmt: skip
"""Nodes whose statements run in some cases only, in any language."""
_ALL: tuple[Language, ...] = (
    Language(
        name="python", module="python", functions=_C_LIKE, classes=("class_definition",), strings=("string",),
        line=("#",), quotes=('"""', "'''", '"', "'"),
    ),
    _script(name="javascript", module="javascript", classes=("class_declaration", "class"),
    known_gaps=_JAVASCRIPT_GAPS),
    _script(
        name="typescript", module="typescript", function="language_typescript",
        classes=("class_declaration", "class", "abstract_class_declaration"), known_gaps=_TYPESCRIPT_GAPS,
    ),
    _script(
        name="tsx", module="typescript", function="language_tsx",
        classes=("class_declaration", "class", "abstract_class_declaration"), known_gaps=_TYPESCRIPT_GAPS,
    ),
    _slashed(
        name="go", module="go", literals=("func_literal",), functions=("function_declaration", "method_declaration"),
        classes=("type_declaration",),
        strings=("interpreted_string_literal", "raw_string_literal", "rune_literal"), quotes=('"', "`", "'"),
    ),
    _slashed(
        name="rust", module="rust", comments=_JVM_COMMENTS, literals=("closure_expression",),
        functions=("function_item",),
        classes=("impl_item", "trait_item", "struct_item", "enum_item", "mod_item"),
        strings=("string_literal", "raw_string_literal", "char_literal"), quotes=('"',),
    ),
    _slashed(
        name="java", module="java", comments=_JVM_COMMENTS, literals=("lambda_expression",),
        functions=("method_declaration",),
        classes=("class_declaration", "interface_declaration", "enum_declaration", "record_declaration"),
        strings=("string_literal", "character_literal"), known_gaps=re.compile(rb"^import module\b", re.MULTILINE),
    ),
    _slashed(
        name="kotlin", module="kotlin", comments=_JVM_COMMENTS, literals=("lambda_literal", "anonymous_function"),
        functions=("function_declaration",),
        classes=("class_declaration", "object_declaration"), strings=("string_literal",), trust="balance",
        quotes=('"""', '"', "'"),
    ),
    _slashed(
        name="c", module="c", functions=_C_LIKE, classes=("struct_specifier",),
        strings=("string_literal", "char_literal"),
        trust="advise",
    ),
    _slashed(
        name="cpp", module="cpp", literals=("lambda_expression",), functions=_C_LIKE,
        classes=("class_specifier", "struct_specifier"),
        strings=("string_literal", "raw_string_literal", "char_literal"), trust="advise",
    ),
    _slashed(
        name="c_sharp", module="c_sharp", literals=("lambda_expression", "anonymous_method_expression"),
        functions=("method_declaration", "local_function_statement"),
        classes=("class_declaration", "struct_declaration", "interface_declaration", "record_declaration"),
        strings=("string_literal", "verbatim_string_literal", "raw_string_literal", "interpolated_string_expression"),
        known_gaps=re.compile(rb"^\s*#\s*(?:if|else)", re.MULTILINE),
    ),
    Language(
        name="ruby", module="ruby", literals=("do_block", "block", "lambda"),
        functions=("method", "singleton_method"), classes=("class", "module"),
        strings=("string", "heredoc_body", "regex", "string_array", "symbol_array"), line=("#",),
        block=(("=begin", "=end"),),
    ),
    Language(
        name="php", module="php", function="language_php", literals=("anonymous_function",),
        functions=("method_declaration", "function_definition"),
        classes=("class_declaration", "interface_declaration", "trait_declaration", "enum_declaration"),
        strings=("string", "encapsed_string", "heredoc", "nowdoc", "text"), line=("//", "#"),
        block=(("/*", "*/"), ("<!--", "-->")),
    ),
    _slashed(
        name="swift", module="swift", comments=("comment", "multiline_comment"), literals=("lambda_literal",),
        functions=("function_declaration",),
        classes=("class_declaration", "protocol_declaration"),
        strings=("line_string_literal", "multi_line_string_literal", "raw_string_literal"), trust="balance",
        quotes=('"""', '"'), known_gaps=_SWIFT_GAPS,
    ),
    _slashed(
        name="scala", module="scala", comments=("comment", "block_comment"), literals=("lambda_expression",),
        functions=("function_definition",),
        classes=("class_definition", "object_definition", "trait_definition"),
        strings=("string", "interpolated_string"),
        trust="balance", quotes=('"""', '"'),
    ),
    Language(
        name="bash", module="bash", functions=_C_LIKE,
        strings=("string", "raw_string", "heredoc_body", "ansi_c_string"),
        trust="balance", line=("#",),
    ),
    Language(name="sql", module="sql", comments=("comment", "marginalia"), trust="advise", line=("--",),
    block=(("/*", "*/"),)),
    Language(name="html", module="html", trust="advise", block=(("<!--", "-->"),), quotes=()),
    Language(name="css", module="css", trust="advise", block=(("/*", "*/"),)),
    _slashed(name="scss", trust="advise"),
    Language(name="yaml", module="yaml", line=("#",), data=True),
    Language(name="toml", module="toml", line=("#",), data=True),
    _slashed(name="json", module="json", data=True, quotes=('"',)),
    Language(name="jsonl", data=True),
    Language(name="markdown"),
    Language(name="make", line=("#",), quotes=()),
    Language(name="dockerfile", module="dockerfile", trust="advise", line=("#",)),
    Language(name="hash", line=("#",)),
    _slashed(name="slash"),
    Language(name="lua", line=("--",), block=(("--[[", "]]"),)),
    Language(name="dash", line=("--",), block=(("{-", "-}"),), quotes=('"',)),
    Language(name="percent", line=("%",), quotes=('"',)),
    Language(name="semicolon", line=(";",), quotes=('"',)),
    Language(name="ini", line=("#", ";"), quotes=(), data=True),
    Language(name="rem", line=("REM ", "rem ", "::"), quotes=()),
    Language(name="powershell", line=("#",), block=(("<#", "#>"),)),
    Language(name="prose"),
)  # fmt: skip
_BY_NAME = {language.name: language for language in _ALL}
_BY_EXTENSION = {
    extension: name
    for name, extensions in {
        "python": "py pyw pyi",
        "javascript": "js jsx mjs cjs es6",
        "typescript": "ts mts cts",
        "tsx": "tsx",
        "go": "go",
        "rust": "rs",
        "java": "java",
        "kotlin": "kt kts",
        "c": "c",
        "cpp": "h cc cpp cxx hpp hh hxx h ino ipp tpp cu cuh",
        "c_sharp": "cs csx",
        "ruby": "rb rake gemspec ru",
        "php": "php phtml",
        "swift": "swift",
        "scala": "scala sc sbt",
        "bash": "sh bash zsh ksh bats",
        "sql": "sql",
        "html": "html htm xhtml vue svelte xml svg",
        "css": "css",
        "scss": "scss less sass",
        "yaml": "yaml yml",
        "toml": "toml",
        "json": "json jsonc json5 geojson webmanifest ipynb code-workspace",
        "jsonl": "jsonl ndjson",
        "markdown": "md mdx markdown",
        "make": "mk mak",
        "hash": "r jl ex exs pl pm tcl nim cmake graphql gql tf hcl fish conf coffee cr nix",
        "slash": "dart groovy gradle proto zig sol v d m mm glsl wgsl hlsl fs fsx thrift cue odin",
        "lua": "lua",
        "dockerfile": "dockerfile containerfile",
        "dash": "hs elm adb ads",
        "percent": "tex erl hrl",
        "semicolon": "clj cljs edn lisp el scm asm s",
        "ini": "ini cfg env properties editorconfig",
        "rem": "bat cmd",
        "powershell": "ps1 psm1",
        "prose": "txt rst adoc org",
    }.items()
    for extension in extensions.split()
}
_BY_FILE = {
    "makefile": "make", "gnumakefile": "make", "dockerfile": "dockerfile", "containerfile": "dockerfile",
    "rakefile": "ruby", "gemfile": "ruby", "podfile": "ruby", "vagrantfile": "ruby", "brewfile": "ruby",
    "jenkinsfile": "slash", "cmakelists.txt": "hash", "procfile": "hash", ".gitignore": "hash", ".dockerignore": "hash",
    ".env": "ini", ".editorconfig": "ini", ".bashrc": "bash", ".zshrc": "bash", ".profile": "bash",
    "cargo.lock": "toml",
    "poetry.lock": "toml", "uv.lock": "toml", "requirements.txt": "hash", "justfile": "hash", "pipfile": "toml",
    ".eslintrc": "json", ".babelrc": "json", ".prettierrc": "prose", "readme": "prose", "license": "prose",
}  # fmt: skip
_BY_TAG = {
    "py": "python", "python3": "python", "py3": "python", "js": "javascript", "jsx": "javascript", "node": "javascript",
    "mjs": "javascript", "ts": "typescript", "golang": "go", "rs": "rust", "kt": "kotlin", "c++": "cpp", "cc": "cpp",
    "h": "cpp", "hpp": "cpp", "cs": "c_sharp", "c#": "c_sharp", "csharp": "c_sharp", "rb": "ruby", "sh": "bash",
    "shell": "bash",
    "zsh": "bash", "yml": "yaml", "md": "markdown", "makefile": "make", "docker": "dockerfile", "vue": "html",
    "svelte": "html",
    "xml": "html", "postgresql": "sql", "mysql": "sql", "sqlite": "sql", "ndjson": "jsonl", "jsonc": "json",
    "json5": "json",
    "objc": "slash", "dart": "slash", "groovy": "slash", "proto": "slash", "elixir": "hash", "perl": "hash",
    "r": "hash",
    "julia": "hash", "terraform": "hash", "hcl": "hash", "haskell": "dash", "powershell": "powershell", "lua": "lua",
    "ini": "ini",
    "scss": "scss", "less": "scss",
}  # fmt: skip


def by_path(path: str, head: bytes = b"") -> Language | None:
    """The language of a file by its name, else by its `#!` line; None where neither tells."""
    name = path.rsplit("/", 1)[-1].lower()
    if name in _BY_FILE:
        return _BY_NAME[_BY_FILE[name]]
    _, dot, extension = name.rpartition(".")
    if name.startswith("dockerfile.") or (name.startswith("makefile.") and extension not in _BY_EXTENSION):
        return _BY_NAME["dockerfile" if name[0] == "d" else "make"]
    if extension in {"j2", "jinja", "jinja2", "tmpl", "tpl", "erb", "ejs", "hbs", "mustache"}:
        return None
    if dot and extension in _BY_EXTENSION:
        return _BY_NAME[_BY_EXTENSION[extension]]
    if head.startswith(b"#!"):
        first = head.split(b"\n", 1)[0]
        for word, found in (
            (b"python", "python"),
            (b"node", "javascript"),
            (b"ruby", "ruby"),
            (b"php", "php"),
            (b"sh", "bash"),
        ):
            if word in first:
                return _BY_NAME[found]
    return None


def by_name(tag: str) -> Language | None:
    """The language of a fence's tag, None where it is not known."""
    return _BY_NAME.get(_BY_TAG.get(tag, tag if tag not in {"hash", "slash", "dash", "prose"} else ""))


@cache
def grammar(language: Language) -> tree_sitter.Language:
    """The grammar, loaded once in a process."""
    module = importlib.import_module(f"tree_sitter_{language.module}")
    with warnings.catch_warnings():
        # The Dockerfile wheel hands over an int, which the core still takes with a DeprecationWarning.
        warnings.simplefilter("ignore", DeprecationWarning)
        return tree_sitter.Language(getattr(module, language.function)())
