"""Finished changes from a registry: each release of a package that followed another of the same major version.

`npm:NAME` and `pypi:NAME` through npm and pip as they are configured. The message is what the changelog gained, else
the two versions. Built, minified and vendored files are left out; large releases are left out when commits are drawn.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from itertools import pairwise
from pathlib import Path

from benchmarks.gate.debian import GIT

_BUILT = re.compile(
    r"(?:^|/)(?:dist|build|cjs|esm|umd|es|es6|bundles?|node_modules|coverage|_esm|_cjs|_types|\.[^/]*)/"
    r"|\.min\.|\.map$|dist-info/|-lock\.json$"
)
_CHANGELOG = re.compile(r"^(?:[^/]+/)?(?:changelog|changes|history|news|release[_-]?notes)[^/]*$", re.IGNORECASE)
_LARGEST, _PAIRS, _TOLD = 400_000, 14, 25
_Tree = dict[str, bytes]


def gather(packages: list[str], home: Path) -> list[Path]:
    """The repositories of `packages` below `home`; one that is already there is taken as it is."""
    found = []
    for package in packages:
        folder = home / re.sub(r"[:/]", "-", package.replace("@", ""))
        if not folder.is_dir():
            try:
                _build(*package.split(":", 1), folder)
            except (OSError, ValueError, subprocess.SubprocessError, tarfile.TarError) as error:
                sys.stderr.write(f"{package}: left out: {error}\n")
                shutil.rmtree(folder, ignore_errors=True)
                continue
        found.append(folder)
    return found


def _build(registry: str, name: str, folder: Path) -> None:
    versions = _versions(registry, name)
    pairs = [(one, two) for one, two in pairwise(versions) if one[0] == two[0]][-_PAIRS:]
    if not pairs:
        raise ValueError("no two releases follow one another")
    folder.mkdir(parents=True)
    _run([*GIT, "init", "-q"], folder)
    last, tree = None, _Tree()
    for one, two in pairs:
        if last != one:
            tree = _fetched(registry, name, _dotted(one))
            _commit(folder, tree, "Start")
        new = _fetched(registry, name, _dotted(two))
        _commit(folder, new, _message(name, _dotted(one), _dotted(two), tree, new))
        last, tree = two, new


def _versions(registry: str, name: str) -> list[tuple[int, ...]]:
    if registry == "npm":
        listed = json.loads(_run(["npm", "view", name, "versions", "--json"]) or "[]")
    else:
        told = re.search(r"Available versions: (.*)", _run([sys.executable, "-m", "pip", "index", "versions", name]))
        listed = told[1].split(", ") if told else []
    plain = [text for text in ([listed] if isinstance(listed, str) else listed) if re.fullmatch(r"\d+\.\d+\.\d+", text)]
    return sorted({tuple(map(int, text.split("."))) for text in plain})


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _fetched(registry: str, name: str, version: str) -> _Tree:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if registry == "npm":
            _run(["npm", "pack", "--silent", f"{name}@{version}"], folder)
            with tarfile.open(next(folder.glob("*.tgz"))) as archive:
                archive.extractall(folder / "tree", filter="data")
        else:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
            _run([*pip, f"{name}=={version}"], folder)
            with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
                wheel.extractall(folder / "tree")
        inside = [path for path in (folder / "tree").iterdir() if path.is_dir()]
        root = inside[0] if registry == "npm" and len(inside) == 1 else folder / "tree"
        built = "lib/" if (root / "src").is_dir() else "\0"
        named = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
        return {
            path: file.read_bytes()
            for path, file in named.items()
            if not _BUILT.search(path) and not path.startswith(built) and file.stat().st_size < _LARGEST
        }


def _message(name: str, old: str, new: str, before: _Tree, after: _Tree) -> str:
    for path in sorted(filter(_CHANGELOG.match, after)):
        known = set(before.get(path, b"").decode("utf-8", "replace").splitlines())
        lines = after[path].decode("utf-8", "replace").splitlines()
        if told := [line for line in lines if line.strip() and line not in known][:_TOLD]:
            return "\n".join([f"Release {new}", "", *told])
    return f"Update {name} from {old} to {new}"


def _commit(folder: Path, tree: _Tree, message: str) -> None:
    _run([*GIT, "rm", "-rqf", "--ignore-unmatch", "."], folder)
    for path, content in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    _run([*GIT, "add", "-A", "-f"], folder)
    _run([*GIT, "commit", "-q", "--allow-empty", "-m", message], folder)


def _run(command: list[str], folder: Path | None = None) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=300).stdout
