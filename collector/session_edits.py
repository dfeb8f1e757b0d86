"""What an agent's edit tools were told, as edits of files: replacements, whole files, Codex's patch language. Pure.

Each gives the content after it as a function of the content before; where that is not known, a diff whose line numbers
nobody can tell is made, and marked so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from collector.imported import FileStates, Unknown, edit_payload
from collector.patches import make_patch

__all__ = ["Change", "changes_of", "payload_of"]

_PATHS: Final = ("file_path", "filePath", "path", "absolute_path", "notebook_path")
_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"


class Change(NamedTuple):
    """One file's change: `content` is the whole new file, `pieces` are (old, new, everywhere); else it `removes` it."""

    path: str
    content: str | None = None
    pieces: tuple[tuple[str, str, bool], ...] = ()
    removes: bool = False
    moved_to: str | None = None


def changes_of(arguments: Any) -> list[Change]:
    """The changes that a call with these arguments asks for; empty where it is no edit that can be told."""
    if isinstance(arguments, str):
        return _codex(arguments) if _BEGIN in arguments else []
    if not isinstance(arguments, Mapping):
        return []
    for value in (arguments.get("input"), arguments.get("patch"), arguments.get("command"), arguments.get("cmd")):
        text = value[-1] if isinstance(value, list) and value else value
        if isinstance(text, str) and _BEGIN in text:
            return _codex(text)
    path = next((arguments[key] for key in _PATHS if isinstance(arguments.get(key), str)), None)
    if path is None:
        return []
    if isinstance(arguments.get("content"), str):
        return [Change(path, content=arguments["content"])]
    edits = arguments.get("edits")
    asked: list[Any] = edits if isinstance(edits, list) else [arguments]
    pieces = tuple(
        (each["old_string"], each["new_string"], each.get("replace_all") is True)
        for each in asked
        if isinstance(each, Mapping)
        and isinstance(each.get("old_string"), str)
        and isinstance(each.get("new_string"), str)
    )
    return [Change(path, pieces=pieces)] if pieces else []


def payload_of(path: str, change: Change, files: FileStates) -> dict[str, Any]:
    """The payload of the edit of `path` (relative), with hashes where the contents are known."""
    before = files.content(path)
    if change.removes:
        if isinstance(before, bytes):
            return files.written(path, None)
        files.set(path, None)
        head = f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n"
        return {**edit_payload(path, head.encode()), "content_before": "unknown"}
    if change.content is not None:
        return files.written(path, change.content.encode("utf-8", "replace"))
    if isinstance(before, bytes):
        after = _replaced(before.decode("utf-8", "replace"), change.pieces)
        if after is not None:
            return files.written(path, after.encode())
    elif before is None and change.pieces[0][0] == "":
        return files.written(path, change.pieces[0][1].encode("utf-8", "replace"))
    files.set(path, Unknown())
    old = "\n".join(piece[0] for piece in change.pieces)
    new = "\n".join(piece[1] for piece in change.pieces)
    patch = make_patch(path, old.encode("utf-8", "replace"), new.encode("utf-8", "replace"))
    return {**edit_payload(path, patch), "line_numbers": "unknown"}


def _replaced(text: str, pieces: tuple[tuple[str, str, bool], ...]) -> str | None:
    """`text` with the replacements made; None where one of them does not occur."""
    for old, new, everywhere in pieces:
        if old == "" or old not in text:
            return None
        text = text.replace(old, new) if everywhere else text.replace(old, new, 1)
    return text


def _codex(text: str) -> list[Change]:
    """Codex's patch language: `*** Add File`, `*** Update File` with hunks, `*** Delete File`."""
    body = text.partition(_BEGIN)[2].partition(_END)[0]
    changes: list[Change] = []
    path, kind, moved = "", "", None
    lines: list[str] = []

    def close() -> None:
        if kind == "Add File":
            changes.append(Change(path, content="".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))))
        elif kind == "Delete File":
            changes.append(Change(path, removes=True))
        elif kind == "Update File" and (pieces := _hunks(lines)):
            changes.append(Change(path, pieces=pieces, moved_to=moved))

    for line in body.split("\n"):
        head, mark, name = line.partition(": ")
        word = head.removeprefix("*** ")
        if mark and head.startswith("*** ") and word in {"Add File", "Update File", "Delete File"}:
            close()
            path, kind, moved, lines = name.strip(), word, None, []
        elif mark and head == "*** Move to":
            moved = name.strip()
        else:
            lines.append(line)
    close()
    return changes


def _hunks(lines: list[str]) -> tuple[tuple[str, str, bool], ...]:
    pieces: list[tuple[str, str, bool]] = []
    old: list[str] = []
    new: list[str] = []
    for line in [*lines, "@@"]:
        if line.startswith("@@"):
            if old != new:
                pieces.append(("".join(f"{each}\n" for each in old), "".join(f"{each}\n" for each in new), False))
            old, new = [], []
        elif line.startswith("***"):
            continue
        else:
            if not line.startswith("+"):
                old.append(line[1:])
            if not line.startswith("-"):
                new.append(line[1:])
    return tuple(pieces)
