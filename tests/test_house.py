"""The rules of shape (docs/architecture.md, "Shape"), held over the syntax trees of the product's modules.

Exceptions stand in `pyproject.toml` under `[tool.pm-house]`, each with its reason; one that is no longer needed fails.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("tracer", "runner", "collector", "service", "repl", "pm_orchestrator")
_PRAGMA = re.compile(r"  # (?:noqa|type: ignore)\b.*$")  # what tells a tool stands behind the line, as for ruff
MOST_LINES, MOST_BYTES, MOST_IN_FOLDER, MOST_COLUMNS, PREFIX_USES = 600, 25_000, 18, 120, 4


class Module(NamedTuple):
    """One product module.

    `imports` holds every product module that it imports, at whatever depth, also for types only; `names` those that it
    names in a string to be imported when needed (`module:function` of a command, `import_module("module")`).
    """

    name: str
    path: Path
    text: str
    tree: ast.Module
    imports: frozenset[str]
    names: frozenset[str]


@cache
def modules() -> Mapping[str, Module]:
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
    }
    found = {}
    for name, path in paths.items():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        imports, named = _known(_imported(tree), paths), _known(_named(tree), paths)
        found[name] = Module(name, path, text, tree, imports - {name}, named - {name})
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _named(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
            yield node.value.partition(":")[0]
        elif isinstance(node, ast.Call) and any(
            word in ast.unparse(node.func) for word in ("import_module", "find_spec")
        ):
            yield from (given.value for given in node.args if isinstance(given, ast.Constant))


def _known(names: Iterable[str], paths: Mapping[str, Path]) -> frozenset[str]:
    """The modules among `names`, which may name what a module holds."""
    both = ((name, name.rpartition(".")[0]) for name in names)
    return frozenset(next((one for one in pair if one in paths), "") for pair in both) - {""}


@cache
def exceptions(kind: str) -> Mapping[str, str]:
    """The exceptions of one rule: pattern of modules or folders -> reason."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pm-house"]
    return dict(settings.get(kind, {}))


def _compare(broken: Iterable[str], kind: str) -> None:
    found, excused = set(broken), exceptions(kind)
    assert sorted(name for name in found if not any(fnmatch(name, pattern) for pattern in excused)) == []
    unneeded = sorted(pattern for pattern in excused if not any(fnmatch(name, pattern) for name in found))
    assert unneeded == [], "these exceptions are no longer needed"
    assert all(reason.strip() for reason in excused.values())


def test_a_module_is_one_concept_of_a_size_that_can_be_read() -> None:
    large = [
        module.name
        for module in modules().values()
        if module.text.count("\n") > MOST_LINES or len(module.text.encode()) > MOST_BYTES
    ]
    _compare(large, "large")


def test_a_module_with_one_importer_is_a_port_a_lazy_boundary_or_too_large_to_join_it() -> None:
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for module in modules().values():
        for imported in module.imports:
            importers[imported].add(module.name)
    by_name = {name for module in modules().values() for name in module.names}
    broken = []
    for name, users in importers.items():
        if len(users) > 1 or name in by_name or _is_package(name) or _is_port(modules()[name]):
            continue
        user = modules()[next(iter(users))]
        if not _is_lazy(name, user) and _fit_together(modules()[name], user):
            broken.append(name)
    _compare(broken, "single-importer")


def _is_lazy(name: str, user: Module) -> bool:
    """Whether `user` imports it inside functions alone."""
    top = [node for node in user.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return name not in _known(_imported(ast.Module(top, [])), {one: module.path for one, module in modules().items()})


def _fit_together(one: Module, other: Module) -> bool:
    lines = one.text.count("\n") + other.text.count("\n")
    return lines <= MOST_LINES and len((one.text + other.text).encode()) <= MOST_BYTES


def _is_package(name: str) -> bool:
    return name.endswith("__init__")


def _is_port(module: Module) -> bool:
    """It defines what others implement: a Protocol."""
    return any(
        isinstance(node, ast.ClassDef)
        and any(
            "Protocol" in {getattr(base, "id", ""), getattr(getattr(base, "value", None), "id", "")}
            for base in node.bases
        )
        for node in module.tree.body
    )


def test_a_prefix_used_four_times_is_a_folder() -> None:
    families = Counter(
        (module.path.parent, module.path.stem.partition("_")[0])
        for module in modules().values()
        if not module.path.stem.startswith("_")
    )
    broken = [
        f"{folder.relative_to(ROOT)}/{prefix}_" for (folder, prefix), uses in families.items() if uses >= PREFIX_USES
    ]
    _compare(broken, "prefixes")


def test_a_folder_can_be_seen_at_a_glance() -> None:
    sizes = Counter(module.path.parent for module in modules().values() if not _is_package(module.name))
    large = [folder for folder, size in sizes.items() if size > MOST_IN_FOLDER]
    _compare([str(folder.relative_to(ROOT)) for folder in large], "folders")


def test_package_init_files_are_empty() -> None:
    filled = [module.name for module in modules().values() if _is_package(module.name) and module.text.strip()]
    assert filled == ["pm_orchestrator.__init__"]


def test_no_line_is_longer_than_120_columns_in_code_and_data() -> None:
    texts = [path for room in ROOMS for suffix in ("*.py", "*.toml") for path in (ROOT / room).rglob(suffix)]
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in texts
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
        if len(_PRAGMA.sub("", line)) > MOST_COLUMNS
    ]
    assert long == []


def test_there_is_no_import_circle() -> None:
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in modules()[name].imports:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            circle = []
            while not circle or circle[-1] != name:
                circle.append(stack.pop())
            if len(circle) > 1:
                circles.append(sorted(circle))

    for name in modules():
        if name not in index:
            visit(name)
    assert circles == []


def test_no_product_module_is_named_like_a_test() -> None:
    assert [name for name in modules() if name.rpartition(".")[2].startswith("test_")] == []


def test_docstrings_say_something() -> None:
    empty = [
        f"{module.path.relative_to(ROOT)}:{node.lineno}"
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and (ast.get_docstring(node) or "").rstrip(".") == "See the port"
    ]
    assert empty == []
