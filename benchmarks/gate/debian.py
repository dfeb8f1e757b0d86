"""Real commits from source packages of Debian: each patch of the series, on top of the one before, is a commit.

The messages are those of the patches (DEP-3 headers); many of them are commits of the upstream project. It needs
`deb-src` lines in apt's sources and `dpkg-source`; the host is the one that apt is configured for.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "init.defaultBranch=main",
       "-c", "core.autocrlf=false", "-c", "gc.auto=0", "-c", "core.hooksPath=/dev/null")  # fmt: skip
_FIELD = re.compile(r"^(?P<name>[A-Z][\w-]*): ?(?P<text>.*)$")
_STARTS = re.compile(r"^(?:---|\+\+\+|diff |Index: |={20,}|@@ )")
UPSTREAM = "upstream"  # author of what is a commit of the upstream project
_TAKEN_OVER = re.compile(
    r"(?im)^(?:From [0-9a-f]{40}\b|Origin: ?(?:upstream|backport)|.*\bcherry picked from commit [0-9a-f]{7})"
)
_OWN = re.compile(r"(?im)^(?:Forwarded|Patch-Name|Last-Update):|^(?:From|Author): .*@(?:debian|ubuntu)\.")


def gather(packages: list[str], home: Path) -> list[Path]:
    """The repositories of `packages` below `home`; one that is already there is taken as it is."""
    found = []
    for package in packages:
        folder = home / package
        try:
            if not (folder / ".git").is_dir():
                _build(package, folder)
        except (OSError, subprocess.SubprocessError) as error:
            sys.stderr.write(f"{package}: left out: {error}\n")
            shutil.rmtree(folder, ignore_errors=True)
            continue
        found.append(folder)
    return found


def _build(package: str, folder: Path) -> None:
    cellar = folder.parent / ".sources" / package
    cellar.mkdir(parents=True, exist_ok=True)
    if not list(cellar.glob("*.dsc")):
        _run(["apt-get", "source", "-qq", "--download-only", package], cellar)
    tree = cellar / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    control = next(cellar.glob("*.dsc")).name
    _run(["dpkg-source", "--no-check", "--skip-patches", "-x", control, tree.name], cellar)
    patches = cellar / "patches"
    shutil.rmtree(patches, ignore_errors=True)
    if not (tree / "debian" / "patches" / "series").is_file():
        raise FileNotFoundError(f"no patches in {control}")
    shutil.move(tree / "debian" / "patches", patches)
    shutil.rmtree(tree / "debian")
    for ignored in tree.rglob(".gitignore"):
        ignored.unlink()
    _git(tree, "init", "-q")
    _git(tree, "add", "-A", "-f")
    _git(tree, "commit", "-qm", "Upstream source")
    for line in (patches / "series").read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split("#")[0].split()
        if words and not _commit(tree, patches / words[0], words[1:]):
            break
    shutil.move(tree, folder)


def _commit(tree: Path, patch: Path, options: list[str]) -> bool:
    """Whether the patch applied; it is then a commit, unless it says nothing."""
    text = patch.read_text(encoding="utf-8", errors="replace")
    level = next((option for option in options if option.startswith("-p")), "-p1")
    command = ["patch", "-s", "-f", "--no-backup-if-mismatch", "-r", "-", level, "-i", str(patch)]
    if subprocess.run(command, cwd=tree, capture_output=True, check=False, timeout=60).returncode:
        return False
    _git(tree, "add", "-A", "-f")
    author = UPSTREAM if _TAKEN_OVER.search(text) and not _OWN.search(text) else "packager"
    said = message(text) or _from_name(patch.stem)
    _git(tree, "commit", "-q", "--allow-empty", "--author", f"{author} <bench@localhost>", "-m", said)
    return True


def message(patch: str) -> str:
    """What the header of a patch describes, without its fields about origin and people."""
    title, kept, taking = "", [], True
    for line in patch.splitlines():
        if _STARTS.match(line):
            break
        if field := _FIELD.match(line):
            taking = field["name"] in {"Description", "Subject"}
            if taking and not title:
                title = re.sub(r"^(?:\[[^\]]*\] ?)+", "", field["text"]).strip()
        elif taking and not line.startswith(("From ", "#!", "##")):
            kept.append(re.sub(r"^ \.?", "", line).rstrip())
    return "\n".join([title, *kept]).strip()


def _from_name(stem: str) -> str:
    return re.sub(r"[-_]+", " ", re.sub(r"^\d+[-_]?", "", stem)).strip() or stem


def _git(tree: Path, *arguments: str) -> None:
    _run([*GIT, *arguments], tree)


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=600)
