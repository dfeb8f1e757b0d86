"""Files of the working tree in a recording: edits as unified diffs on save, snapshots at checkpoints.

What is kept of a file is its stored form (redacted unless raw): diffs, hashes and snapshots are of that form, so a
replay fits to the byte. Binary, large and unreadable files are named without hashes; links, submodules left out.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

from collector.client.spool import Draft
from collector.patches import make_patch, tree_patch
from runner.workspace.git.repository import Git, GitError, parse_raw
from tracer.blobs import DirectoryBlobs, blob_id_of, text_of
from tracer.capture.wire import PROFILE_FILE
from tracer.clock import new_id, now_epoch_ms
from tracer.redaction.marks import MARKER
from tracer.statedir import STATE_DIR_NAME
from tracer.unified_diff import quoted

PLAIN: Final = "100644"
EXECUTABLE: Final = "100755"
Look = tuple[int, int, int, int]


class Seen(NamedTuple):
    """What stands at a path: `kind` is `file`, `gone`, `other` (a link, a folder) or `unknown`; `mode` is git's."""

    look: Look | None
    size: int
    kind: str
    mode: str = PLAIN


def look_at(full: str) -> Seen:
    """What stands there now."""
    try:
        facts = os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        return Seen(None, 0, "gone")
    except OSError:
        return Seen(None, 0, "unknown")
    if not stat.S_ISREG(facts.st_mode):
        return Seen(None, 0, "other")
    look = (facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)
    return Seen(look, facts.st_size, "file", EXECUTABLE if facts.st_mode & stat.S_IXUSR else PLAIN)


def read_bytes(full: str) -> bytes:
    """The file's bytes; never through a link, and never waiting for a pipe."""
    descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


class Places:
    """The folders of the working tree `top`, as they were when they were first asked about."""

    def __init__(self, top: str) -> None:
        self._top = os.path.realpath(top)
        self._elsewhere = {"": False}

    def elsewhere(self, path: str) -> bool:
        """Whether `path` is behind a link or in another repository."""
        return self._leads_away(os.path.dirname(path))  # noqa: PTH120 - many paths, each time

    def behind_link(self, path: str) -> bool:
        """Whether a folder above `path` is a link now."""
        folder = os.path.dirname(path)  # noqa: PTH120 - as above
        return bool(folder) and os.path.realpath(os.path.join(self._top, folder)) != os.path.join(self._top, folder)  # noqa: PTH118

    def _leads_away(self, folder: str) -> bool:
        if folder not in self._elsewhere:
            full = os.path.join(self._top, folder)  # noqa: PTH118 - as above
            away = self._leads_away(os.path.dirname(folder))  # noqa: PTH120 - as above
            self._elsewhere[folder] = away or os.path.islink(full) or os.path.lexists(os.path.join(full, ".git"))  # noqa: PTH114, PTH118
        return self._elsewhere[folder]


class Content(NamedTuple):
    """What stands on disk: its facts, and its stored form; `why` says what kept it from being stored."""

    look: Look | None
    data: bytes | None
    why: str = ""
    size: int = 0
    mode: str = PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A file as last recorded: the blob of its stored form, None where it does not exist; `why` as in `Content`.

    `mode` (git's) is None where it is not known; `size` is that of a content that is not kept.
    """

    blob_id: str | None
    look: Look | None = None
    why: str = ""
    mode: str | None = None
    size: int = 0


Reason = Literal["pre_test", "post_test", "manual_checkpoint"]
INLINE: Final = 256 << 10
_MARKER: Final = MARKER.decode()
_TRIES: Final = 3
_DIFF_TREE: Final = ("diff-tree", "-r", "-z", "--no-renames", "--no-commit-id", "--root")
_MOST_FILES: Final = 1000
_LARGEST_TREE: Final = 32 << 20  # redacting a megabyte takes half a second, here and at the collector
_NOT_BEFORE: Final = "not kept before"
_HEAD: Final = 10_000
_MODE_TOLD: Final = re.compile(r"\Adiff --git [^\n]*\n(?:old mode \d+\n)?new (?:file )?mode (100644|100755)\n")
_MODES: Final = (PLAIN, EXECUTABLE)


def body(name: str, data: bytes, blobs: DirectoryBlobs) -> dict[str, Any]:
    """A content as a payload's field: inline (`patch`) where it is short text, else as a blob (`patch_blob_id`)."""
    text = text_of(data, probe=INLINE) if len(data) <= INLINE else None
    return {name: text} if text is not None else {f"{name}_blob_id": blobs.put_bytes(data)}


@dataclass(kw_only=True)
class FileTracker:
    """The files of one recording, for one thread; `store` turns a file's bytes into their stored form."""

    git: Git
    base: str
    blobs: DirectoryBlobs
    store: Callable[[bytes], bytes]
    left_out: Callable[[str], bool]
    limit: int
    snapshots: bool = True
    text_only: bool = True
    known: dict[str, Known] = field(default_factory=dict)
    untouched_ns: int | None = None

    def __post_init__(self) -> None:
        self._places = Places(str(self.git.top))

    def learn(self, event: Mapping[str, Any]) -> None:
        """Take over what an event in the spool says of a file (our own, another process's, or before a crash)."""
        payload = event.get("payload")
        if not isinstance(payload, dict) or event.get("type") not in {"file_edit", "file_snapshot"}:
            return
        path = payload.get("file_path")
        if not isinstance(path, str) or _MARKER in path:  # under another name than it has on disk
            return
        if event["type"] == "file_edit":
            why, size = str(payload.get("content_left_out") or ""), payload.get("byte_length") or 0
            self._take(path, payload.get("post_hash"), why="" if why == _NOT_BEFORE else why, size=size)
            if told := _MODE_TOLD.search(str(payload.get("patch") or "")[:_HEAD]):
                self.known[path] = replace(self.known[path], mode=told[1])
        elif "content_blob_id" in payload:
            self._take(path, payload["content_blob_id"])
        elif isinstance(payload.get("content"), str):
            self._take(path, blob_id_of(payload["content"].encode("utf-8", "surrogatepass")))

    def _take(self, path: str, blob_id: str | None, *, why: str = "", size: int = 0) -> None:
        before = self.known.get(path)
        if before is None or before.blob_id != blob_id or before.why != why:
            self.known[path] = Known(blob_id=blob_id, why=why, size=size, mode=before.mode if before else None)

    def _told(self, path: str) -> str:
        """The stored form of a file's name: a secret may stand there too."""
        return os.fsdecode(self.store(os.fsencode(path)))

    def _binary(self, path: str) -> bytes:
        """The diff of a file whose content is not kept."""
        return b"diff --git a/%s b/%s\nBinary files a/%s and b/%s differ\n" % ((quoted(self._told(path)),) * 4)

    def changed_paths(self) -> list[str]:
        """What git says differs from the base commit, and every file known so far.

        Untracked files count unless nobody touched them since `untouched_ns` (their ctime).
        """
        tracked = self._named_by("diff", "--name-only", "--no-renames", "-z", self.base, "--")
        untracked = self._named_by("ls-files", "--others", "--exclude-standard", "-z") - self.known.keys()
        if self.untouched_ns is not None:
            looks = {path: look_at(self._full(path)).look for path in untracked}
            untracked = {path for path, look in looks.items() if (look[2] if look else 0) >= self.untouched_ns}
        return sorted({*self.known, *tracked, *untracked})

    def as_of(self, paths: Iterable[str], until_ms: int) -> list[str]:
        """Without the files that changed later (their ctime); one from the future is of a clock that is not ours."""
        until_ns, now_ns = (until_ms + 1) * 1_000_000, (now_epoch_ms() + 1) * 1_000_000
        looks = ((path, look_at(self._full(path)).look) for path in paths)
        return [path for path, look in looks if not (look and until_ns <= look[2] < now_ns)]

    def untracked(self) -> tuple[int, int]:
        """How many untracked files there are that would be recorded, and their bytes."""
        named = self._named_by("ls-files", "--others", "--exclude-standard", "-z")
        sizes = [look_at(self._full(path)).size for path in named if not self.left_out(path)]
        return len(sizes), sum(sizes)

    @cached_property
    def _has_modes(self) -> bool:
        """Whether the file system's modes mean anything: git looks when a repository is made."""
        try:
            return self.git.line("config", "--type=bool", "--default=true", "core.fileMode") != "false"
        except GitError:
            return True

    def _named_by(self, *words: str) -> set[str]:
        try:
            said = self.git.run(*words, chosen_index=False)
        except GitError:
            return set()
        return {path for path in map(_text, said.split(b"\0")) if path}

    def _full(self, path: str) -> str:
        return os.path.join(self.git.top, path)  # noqa: PTH118 - many files, each time

    def difference(self) -> bytes:
        """The unified diff from the base commit to what was last recorded of every file, in the stored form."""
        parts = []
        for path, known in sorted(self.known.items()):
            before, why, mode = self._at_base(path)
            if why or known.why:
                continue
            after = self.blobs.read(known.blob_id) if known.blob_id is not None else None
            parts.append(make_patch(self._told(path), before, after, modes=(mode, known.mode or mode)))
        return b"".join(parts)

    def base_tree(self) -> bytes | None:
        """The base commit's tree as a diff from nothing, in the stored form; None where that is too much or cannot be.

        Without what is not kept: large and binary files, what is never recorded, links and submodules.
        """
        listed: list[tuple[str, str, bytes]] = []
        left_out = size = 0
        try:
            for entry in self.git.run("ls-tree", "-r", "-l", "-z", "--full-tree", self.base).split(b"\0")[:-1]:
                facts, _, name = entry.partition(b"\t")
                told, _, object_id, length = facts.split()
                path, mode = _text(name), told.decode("ascii")
                known = path and "\n" not in path and mode in _MODES and not self.left_out(path)
                if known and int(length) <= self.limit:
                    listed.append((path, mode, object_id))
                    size += int(length)
                elif path == PROFILE_FILE or not path.startswith(f"{STATE_DIR_NAME}/"):  # its settings are no code
                    left_out += 1
            if size > _LARGEST_TREE:
                return None
            wanted = b"".join(b"%s %s\n" % (object_id, os.fsencode(path)) for path, _, object_id in listed)
            mark = new_id()  # the sizes that git tells are those before its filters
            said = self.git.run("cat-file", f"--batch={mark}", "--filters", stdin=wanted)
            contents = [part.removesuffix(b"\n") for part in said.split(f"{mark}\n".encode())[1:]]
            entries = list(zip(listed, contents, strict=True))
        except (GitError, ValueError):
            return None
        files: list[tuple[str, str, bytes]] = []
        for (path, mode, _), data in entries:
            if self._unfit(data):
                left_out += 1
            else:
                files.append((self._told(path), mode, self.store(data)))
        return tree_patch(files, left_out=left_out)

    def committed(self, parent: str, commit: str) -> set[str]:
        """The files that a commit changed."""
        return self._named_by(*_DIFF_TREE, "--name-only", *([parent] if parent else []), commit)

    def commit_diff(self, parent: str, commit: str) -> tuple[bytes, list[str]]:
        """A commit's diff in the stored form (large and binary files only named), and its files never recorded."""
        parts: list[bytes] = []
        left_out: list[str] = []
        for entry in parse_raw(self.git.run(*_DIFF_TREE, *([parent] if parent else []), commit))[:_MOST_FILES]:
            path = _text(entry.path)
            if path and self.left_out(path):
                left_out.append(path)
            if not path or self.left_out(path):
                continue
            before, why = self._object(entry.ids[0])
            after, why_after = self._object(entry.ids[1])
            if why or why_after:
                parts.append(self._binary(path))
            else:
                old, new = (mode if mode in _MODES else PLAIN for mode in entry.modes)
                parts.append(make_patch(self._told(path), before, after, modes=(old, new)))
        return b"".join(parts), left_out

    def _object(self, object_id: str) -> tuple[bytes | None, str]:
        if not object_id.strip("0"):
            return None, ""
        try:
            if int(self.git.run("cat-file", "-s", object_id)) > self.limit:
                return None, "large"
            data = self.git.run("cat-file", "blob", object_id)
        except (GitError, ValueError):
            return None, "unreadable"
        return self._fitted(data)

    def not_ignored(self, paths: Iterable[str]) -> list[str]:
        """`paths` without ignored, never recorded and foreign ones (other repositories, links); none if git fails."""
        places = Places(str(self.git.top))  # folders change from one look to the next
        wanted = sorted({path for path in paths if path and not self.left_out(path) and not places.elsewhere(path)})
        if not wanted:
            return []
        try:
            said = self.git.run(
                "check-ignore", "-z", "--stdin",
                stdin=b"".join(b"./" + os.fsencode(path) + b"\0" for path in wanted),
                env={"GIT_LITERAL_PATHSPECS": "0"},  # the command refuses it; "./" keeps names from being magic
                ok_codes=(0, 1),
                chosen_index=False,
            )  # fmt: skip
        except GitError:
            return []
        ignored = {_text(name.removeprefix(b"./")) for name in said.split(b"\0") if name}
        return [path for path in wanted if path not in ignored]

    def observe(self, paths: Iterable[str], *, actor: Mapping[str, Any], context: Mapping[str, Any]) -> list[Draft]:
        """Drafts for the files among `paths` that differ from what was last recorded."""
        wanted = (path for path in paths if not self.left_out(path))
        return [draft for path in wanted for draft in self._observed(path, actor, context)]

    def snapshot(self, paths: Iterable[str], reason: Reason, *, context: Mapping[str, Any]) -> list[Draft]:
        """A snapshot draft of each of `paths` in the form last recorded; files that are gone or not kept have none."""
        drafts: list[Draft] = []
        for path in paths if self.snapshots else ():
            known = self.known.get(path)
            if known is not None and known.blob_id is not None:
                drafts.append(self._snapshot(path, self.blobs.read(known.blob_id), reason, context))
        return drafts

    def first_snapshot(self, path: str, *, context: Mapping[str, Any]) -> list[Draft]:
        """A snapshot of a file that nothing touched yet; none where it is not kept."""
        content = self._read(path, None) if not self.left_out(path) else None
        if content is None or content.data is None or not self.snapshots:
            return []
        self._note(path, content)
        return [self._snapshot(path, content.data, "manual_checkpoint", context)]

    def _observed(self, path: str, actor: Mapping[str, Any], context: Mapping[str, Any]) -> list[Draft]:
        known = self.known.get(path)
        content = self._read(path, known)
        if content is None:
            return []
        if known is None:
            before, why_before, mode = self._at_base(path)
        else:
            before = self.blobs.read(known.blob_id) if known.blob_id is not None else None
            why_before, mode = known.why, known.mode or self._at_base(path)[2]
        if not self._has_modes:
            content = content._replace(mode=mode)
        same = before == content.data and (before is None or mode == content.mode)
        learnt = known is not None and known.look is None and known.size == content.size
        if same and why_before == content.why and (not content.why or learnt):
            if known is not None or before is not None:
                self._note(path, content)
            return []
        if content.why or why_before:  # one side is not kept: there is nothing to compare
            return self._unkept(path, content, before, actor, context)
        drafts: list[Draft] = []
        if known is None and before is not None:
            self.blobs.put_bytes(before)
            if self.snapshots:
                first = self._snapshot(path, before, "manual_checkpoint", context)
                drafts.append(_with(first, checkpoint="before_first_edit"))
        self._note(path, content)
        payload = {
            "file_path": self._told(path),
            "edit_kind": "patch",
            "patch_format": "unified_diff",
            **body("patch", make_patch(self._told(path), before, content.data, modes=(mode, content.mode)), self.blobs),
            "pre_hash": blob_id_of(before) if before is not None else None,
            "post_hash": blob_id_of(content.data) if content.data is not None else None,
        }
        drafts.append(Draft(type="file_edit", payload=payload, actor=actor, context=context))
        return drafts

    def _note(self, path: str, content: Content) -> None:
        blob_id = self.blobs.put_bytes(content.data) if content.data is not None else None
        self.known[path] = Known(
            blob_id=blob_id, look=content.look, why=content.why, mode=content.mode, size=content.size
        )

    def _unkept(
        self, path: str, content: Content, before: bytes | None, actor: Mapping[str, Any], context: Mapping[str, Any]
    ) -> list[Draft]:
        """The edit of a file that is not kept: named, with its size, no patch; a later snapshot holds it again."""
        self._note(path, content)
        payload = {
            "file_path": self._told(path),
            "edit_kind": "patch",
            "patch_format": "unified_diff",
            "patch": self._binary(path).decode(),
            "pre_hash": blob_id_of(before) if before is not None else None,
            "post_hash": None,
            "content_left_out": content.why or _NOT_BEFORE,
            "byte_length": content.size,
        }
        drafts = [Draft(type="file_edit", payload=payload, actor=actor, context=context)]
        if content.data is not None and self.snapshots:
            later = self._snapshot(path, content.data, "manual_checkpoint", context)
            drafts.append(_with(later, checkpoint="content_kept_again"))
        return drafts

    def _snapshot(self, path: str, data: bytes, reason: Reason, context: Mapping[str, Any]) -> Draft:
        payload = {"file_path": self._told(path), **body("content", data, self.blobs), "snapshot_reason": reason}
        return Draft(type="file_snapshot", payload=payload, actor={"kind": "tool", "id": "pm record"}, context=context)

    def _read(self, path: str, known: Known | None) -> Content | None:
        """The file now; None where it looks as it did when it was last recorded, or is no file of ours to record."""
        full = self._full(path)
        for _try in range(_TRIES):
            look, size, kind, mode = look_at(full)
            if kind == "unknown":
                return None
            if kind == "other" or (look is not None and self._places.behind_link(path)):
                look = None  # a link or a folder took its place, or that of a folder above it
            if known is not None and look is not None and look == known.look:
                return None
            if look is None:
                return Content(None, None)
            if size > self.limit:
                return Content(look, None, f"larger than {self.limit:,} bytes", size)
            try:
                data = read_bytes(full)
            except FileNotFoundError:
                continue
            except OSError as error:
                return Content(look, None, f"cannot be read: {error.strerror}", size)
            if look_at(full).look != look:
                continue  # it was being written
            return Content(look, *self._fitted(data), size, mode)
        return None  # written all the time: the next look finds it

    def _at_base(self, path: str) -> tuple[bytes | None, str, str]:
        """The stored form of the file in the base commit, None where it is not there; why it is not kept; its mode."""
        name = f"{self.base}:{path}"
        try:
            entry = self.git.run("ls-tree", "-l", "-z", "--full-tree", self.base, "--", path).split(b"\t")[0].split()
        except GitError:
            return None, "", PLAIN
        mode = entry[0].decode("ascii") if entry else ""
        if mode not in _MODES:  # no file: nothing, a link, a folder, a submodule
            return None, "", PLAIN
        if int(entry[3]) > self.limit:
            return None, f"larger than {self.limit:,} bytes", mode
        try:
            data = self.git.run("cat-file", "--filters", name)
        except GitError:
            return None, "", PLAIN
        return *self._fitted(data), mode

    def _fitted(self, data: bytes) -> tuple[bytes | None, str]:
        """The stored form of a content, or why it is not kept."""
        why = self._unfit(data)
        return (None, why) if why else (self.store(data), "")

    def _unfit(self, data: bytes) -> str:
        """Why this content is not kept, or nothing. What is no text cannot be redacted."""
        if b"\0" in data:
            return "binary"
        return "no UTF-8 text" if self.text_only and text_of(data) is None else ""


def _with(draft: Draft, **more: Any) -> Draft:
    return replace(draft, payload={**draft.payload, **more})


def _text(name: bytes) -> str:
    """A path as text; one that is not UTF-8 becomes empty: it cannot be named in JSON."""
    return text_of(name) or ""
