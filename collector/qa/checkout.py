"""The code under test as git trees: the base, the base with the patch's own tests and what runs them, and the head.

Everything stays in a repository of our own: nothing foreign is checked out, run or followed; what leaves is a tar made
by git. A bundle comes first; a remote only from an allowed host, without redirects, credentials, submodules, filters.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pydantic import JsonValue

from collector.final.bundle_trees import FILE_MODES, CommitTree, Trees, is_tree_file
from collector.final.replay import Content, FileState, Replay
from collector.final.trace_source import Source
from collector.qa.controls import failing_tests, likely_first
from collector.qa.profiles import Refusal
from collector.store.blobs import Contents
from runner.checks.bought.by_sight import looks_for_runner, never_unequal
from runner.checks.bought.retelling import Retold
from runner.checks.harness import sort_changes
from runner.checks.reports import CaseResult
from runner.gate.criterion import ChangedFile
from runner.gate.file_roles import is_test_file
from runner.workspace.git.repository import Git, GitError, GitStopped, RawEntry, parse_raw
from tracer.capture.events import CommitEvent, PrMetadataEvent
from tracer.capture.fields import is_git_folder
from tracer.errors import LimitError, NotFoundError, TraceError, UnavailableError
from tracer.redaction.cuts import beginning
from tracer.redaction.marks import PLACEHOLDER


class SessionEnd(NamedTuple):
    """`files` are what edits and snapshots lead to (`refusal`: why that cannot be told).

    `diffs` are blobs to apply in order: the last one of the pull request (`pull_request`), else those of the commits.
    """

    files: Mapping[str, FileState]
    refusal: Refusal | None = None
    diffs: tuple[str, ...] = ()
    pull_request: bool = False


async def session_end(source: Source, base: Callable[[str], Content]) -> SessionEnd:
    """Replay a session over `base` (the content of a path at the base commit)."""
    replay = Replay(base)
    commits: list[str] = []
    pull_request = ""
    async for event in source.events():
        await replay.take(event, source.read, is_redacted=lambda data: PLACEHOLDER.search(data) is not None)
        match event:
            case CommitEvent(payload=commit) if commit.diff_blob_id:
                commits.append(commit.diff_blob_id)
            case PrMetadataEvent(payload=request) if request.diff_blob_id:
                pull_request = request.diff_blob_id
            case _:
                continue
    result = replay.result()
    refusal = None
    if result.mismatches:
        first = next(finding for finding in result.findings if finding.kind == "mismatch")
        refusal = Refusal("patch_does_not_apply", f"event {first.seq}, {first.path}: {first.reason}")
    return SessionEnd(
        result.files, refusal, (pull_request,) if pull_request else tuple(commits), pull_request=bool(pull_request)
    )


_T = TypeVar("_T")
_FETCH_LIMIT_S: Final = 600.0
_MOST_BYTES: Final = 4 << 30
_LOOK_EVERY_S: Final = 0.5
_MOST_PATHS: Final = 200
_MOST_READ: Final = 1 << 20
_NO_SOURCE: Final = (
    "the trace has neither a bundle nor a remote address: record with --consent code,output, "
    "or from a clone whose remote qa.remotes allows, or name a mirror of the repository in qa.mirrors"
)
_SHA: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
# Of the user's own git settings none may speak: a rewritten address or a stored password would be a way out.
_ALONE: Final = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_ASKPASS": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The trees by id, and what differs between base and head.

    What is tested has the patch's tests on both sides, and what runs them as it was before: `steering` is what the
    patch changed there. `bought` are places where the patch makes tests pass whatever the code does. `tests` are the
    changed test files that the head has, `product` what else it changed; `source` tells where the code came from,
    `patch` what led to the head; `redacted`: what redaction may have taken from either.
    """

    base: str
    tested_base: str
    head: str
    tested_head: str
    changed: tuple[str, ...]
    steering: tuple[str, ...] = ()
    bought: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    product: tuple[ChangedFile, ...] = ()
    source: str
    patch: str
    redacted: str = ""

    def as_json(self) -> dict[str, JsonValue]:
        """For the record of a test run."""
        return {
            "base_tree": self.base,
            "tested_base_tree": self.tested_base,
            "head_tree": self.head,
            "tested_head_tree": self.tested_head,
            "source": self.source,
            "patch": self.patch,
            # a name that is no UTF-8 has no form in JSON
            "files_changed": [os.fsencode(path).decode("utf-8", "replace") for path in self.changed[:_MOST_PATHS]],
            "files_changed_count": len(self.changed),
        }

    @property
    def unchanged(self) -> bool:
        """Whether the session changed nothing."""
        return self.base == self.head


def remote_refusal(url: str, allowed: tuple[str, ...]) -> str:
    """Why `url` may not be fetched, or an empty text.

    An entry of `allowed` is a host pattern (`github.com`, `*.example.org`), fetched over https alone, or the beginning
    of an address (`http://127.0.0.1:3000/`) for servers of one's own.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "its address cannot be read"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "only https addresses are fetched"
    if parts.username is not None or parts.password is not None:
        return "an address with a name or password in it is not fetched"
    if any(character <= " " or character == "\\" for character in url):
        return "its address cannot be read"
    for entry in allowed:
        if "://" in entry:
            if url.startswith(entry if entry.endswith("/") else f"{entry}/"):
                return ""
        elif parts.scheme == "https" and port in {None, 443} and fnmatchcase(parts.hostname, entry.lower()):
            return ""
    return f"the host {parts.hostname!r} is not on this server's list (qa.remotes)"


class _Head(NamedTuple):
    tree: str
    patch: str
    redacted: bool = False


class CodeStore:
    """The repository of one run, in `folder` (an empty one, the caller's to remove)."""

    def __init__(self, folder: Path, *, commit: str) -> None:
        self._folder = folder
        self._trees = Trees(folder, commit=commit)
        self._git = self._trees.git
        # A project may leave its tests out of `git archive`; what stands here outweighs its own attributes.
        attributes = self._git.git_dir / "info" / "attributes"
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_text("* -export-ignore -export-subst\n", encoding="ascii")

    async def fetch_source(
        self,
        repo: Mapping[str, object],
        final_state: Mapping[str, object] | None,
        *,
        contents: Contents,
        remotes: tuple[str, ...],
        mirror: str = "",
    ) -> Refusal | str:
        """Bring the base commit here; whence, or why not.

        From the redacted tree that came with the final state (it comes with a fix that fits no other), its bundle, the
        operator's mirror, or the remote.
        """
        url, commit = repo.get("remote_url"), str(repo.get("commit_base"))
        for holder in (None if mirror else final_state, repo):
            bundle_id = (holder or {}).get("bundle_blob_id")
            if not isinstance(bundle_id, str):
                continue
            try:
                bundle = await contents.open(bundle_id)
                if holder is not repo and not await self._blocking(lambda: is_tree_file(bundle)):  # noqa: B023
                    bundle.close()
                    continue
                await self._blocking(lambda: self._trees.add_bundle(bundle, what="the bundle"))  # noqa: B023
                await self._blocking(lambda: self._trees.commit(commit, what="the base commit"))
            except (NotFoundError, TraceError) as error:
                return Refusal("no_source", error.line)
            return "tree" if self._trees.is_tree_alone else "bundle"
        if mirror:
            return await self._fetch(mirror, commit, shown="mirror")
        if not isinstance(url, str) or not url:
            return Refusal("no_source", _NO_SOURCE)
        why = remote_refusal(url, remotes)
        if why:
            return Refusal("no_source", why)
        return await self._fetch(url, commit, shown=f"remote {urlsplit(url).hostname}")

    async def _fetch(self, url: str, commit: str, *, shown: str) -> Refusal | str:
        if _SHA.fullmatch(commit) is None:
            return Refusal("no_source", "the base is no commit id")
        settings = ("-c", f"protocol.{urlsplit(url).scheme or 'file'}.allow=always", "-c", "http.followRedirects=false")
        checks = ("-c", "fetch.fsckObjects=true", "-c", "credential.helper=", "-c", "http.proxySSLVerify=true")
        try:
            await self._blocking(
                lambda: self._git.run(
                    *(*settings, *checks, "fetch", "--quiet", "--no-tags", "--depth=1", "--no-write-fetch-head"),
                    *("--no-recurse-submodules", "--no-auto-maintenance", "--end-of-options", url, commit),
                    env=_ALONE,
                ),
                limit_s=_FETCH_LIMIT_S,
            )
            await self._blocking(lambda: self._trees.commit(commit, what="the base commit"))
        except (GitError, TraceError) as error:
            text = str(error)
            if any(word in text for word in ("not our ref", "no such remote ref", "not found", "is not in the bundle")):
                return Refusal("no_source", f"the {shown} does not have the base commit")
            raise UnavailableError(
                f"the {shown} cannot be fetched from", why=beginning(text.splitlines()[0], 300)
            ) from error
        return shown

    async def checkout(
        self,
        *,
        commit_base: str,
        final_state: Mapping[str, object] | None,
        contents: Contents,
        session_end: Callable[[Callable[[str], Content]], Awaitable[SessionEnd]],
        source: str = "",
        steering: Collection[str] = (),
    ) -> Checkout | Refusal:
        """The three trees; the head is the final commit, else the final diff, else what `session_end` tells.

        `steering` are paths that the test command starts: both sides have them as the patch left them, so that no
        difference between them can be bought there.
        """
        base = await self._blocking(lambda: self._trees.commit(commit_base, what="the base commit"))
        found = await self._head(base, final_state or {}, contents)
        if found is None:
            end = await session_end(base.read)
            if end.files and not end.pull_request:
                found = end.refusal or await self._built(base, end.files, "the session's edits")
            elif end.diffs:
                found = await self._patched(base, end.diffs, contents, "the session's own diffs")
        if found is None:
            return Refusal("no_patch", "the trace tells no final commit, no final diff and no edits")
        if isinstance(found, Refusal):
            return found
        head, patch, redacted = found
        words = ("diff-tree", "-r", "--raw", "-z", "--no-renames", base.tree_id, head)
        changed = parse_raw(await self._blocking(lambda: self._git.run(*words)))
        paths = tuple(os.fsdecode(entry.path) for entry in changed)
        named = next((path for path in paths if any(map(is_git_folder, path.split("/")))), None)
        if named is not None:
            return Refusal("patch_does_not_apply", f"{named!r} is .git on other file systems")
        found_tests = await self._blocking(lambda: self._tested(base.tree_id, head, changed, steering))
        return Checkout(
            base=base.tree_id,
            head=head,
            changed=paths,
            **found_tests,
            source=source,
            patch=patch,
            redacted=self._trees.lacks or ("something in the fix was replaced by redaction" if redacted else ""),
        )

    @property
    def left_out(self) -> int:
        """How many files of the base did not come."""
        return self._trees.left_out

    async def read_base(self, commit: str, paths: Sequence[str]) -> dict[str, bytes]:
        """Those of the files that the base commit has."""
        tree = await self._blocking(lambda: self._trees.commit(commit, what="the base commit"))
        found = {path: await self._blocking(partial(tree.read, path)) for path in paths}
        return {path: content for path, content in found.items() if isinstance(content, bytes)}

    async def read_tree(self, tree: str, paths: Sequence[str]) -> dict[str, bytes]:
        """Those of the files that the tree has."""
        there = await self.listed(tree)
        found = {path: there[path] for path in paths if path in there}
        return {
            path: await self._blocking(partial(self._git.run, "cat-file", "blob", each)) for path, each in found.items()
        }

    async def listed(self, tree: str) -> dict[str, str]:
        """The regular files of a tree by path, with the ids of their contents."""
        lines = (await self._blocking(lambda: self._git.run("ls-tree", "-r", "-z", tree))).split(b"\0")
        parts = [line.partition(b"\t") for line in lines if line[:6].decode() in FILE_MODES]
        return {os.fsdecode(path): head.split()[2].decode() for head, _, path in parts}

    async def failing(self, tree: str, tests: Sequence[str], *, fixed: Collection[str]) -> dict[str, bytes]:
        """Files of the tree in which tests that may be among `fixed` fail: of `tests`, else of all that it has."""
        found = failing_tests(await self.read_tree(tree, tests), fixed)
        return found if found or not fixed else failing_tests(await self._other_tests(tree, fixed), fixed)

    async def retold(
        self, tree: str, tests: Sequence[str], cases: Sequence[CaseResult], product: Sequence[ChangedFile]
    ) -> Retold:
        """These tests with their files, to be given other values: of `tests`, else of all."""

        def told(files: Mapping[str, bytes]) -> Retold:
            texts = {path: text.decode("utf-8", "replace") for path, text in files.items()}
            return Retold(cases, texts, product, asked="")

        found = told(await self.read_tree(tree, tests))
        return found if found.spans else told(await self._other_tests(tree, [case.id for case in cases]))

    async def _other_tests(self, tree: str, fixed: Collection[str]) -> dict[str, bytes]:
        others = likely_first([path for path in await self.listed(tree) if is_test_file(path)], fixed)
        return await self.read_tree(tree, others)

    async def diff(self, base: str, head: str, paths: Sequence[str]) -> str:
        """The unified diff of these files; binary ones whole."""
        words = ("diff-tree", "-p", "--binary", "--full-index", "--no-renames", base, head, "--", *paths)
        return (await self._blocking(lambda: self._git.run(*words))).decode("utf-8", "surrogateescape") if paths else ""

    async def with_files(self, tree: str, files: Mapping[str, bytes]) -> str:
        """The tree with other contents of these files; new ones are plain."""

        def made() -> str:
            lines = self._git.run("ls-tree", "-z", tree, "--", *files).split(b"\0")[:-1]
            there = {os.fsdecode(line.partition(b"\t")[2]): line[:6].decode() for line in lines}
            ids = {name: self._git.run("hash-object", "-w", "--stdin", stdin=data) for name, data in files.items()}
            entries = {name: (there.get(name, FILE_MODES[0]), os.fsdecode(ids[name].strip())) for name in files}
            return self._with(tree, entries)

        return await self._blocking(made)

    async def patched(self, tree: str, diff: bytes) -> str | None:
        """The tree with a diff applied; None where git refuses it."""
        git = self._git.with_index(self._folder / "patch-index")
        try:
            await self._blocking(lambda: git.run("read-tree", tree))
            await self._blocking(partial(_apply, git, diff))
            return await self._blocking(lambda: git.line("write-tree"))
        except GitError:
            return None

    async def write_tar(self, tree: str, target: Path, *, paths: Sequence[str] = ()) -> int:
        """Write a tree, or these of its paths alone, as a tar; its size in bytes."""
        words = ("archive", "--format=tar", f"--output={target}", tree, "--", *paths)
        await self._blocking(lambda: self._git.run(*words[: None if paths else -1]))
        return target.stat().st_size

    async def _head(self, base: CommitTree, state: Mapping[str, object], contents: Contents) -> _Head | Refusal | None:
        commit, bundle = state.get("commit_head"), state.get("bundle_blob_id")
        if isinstance(bundle, str):
            try:
                data = await contents.open(bundle)
                await self._blocking(lambda: self._trees.add_bundle(data, what="the final bundle"))
            except (NotFoundError, TraceError) as error:
                return Refusal("no_source", error.line)
        diff_id = _diff_of(state)
        if isinstance(commit, str) and commit != base.commit:
            try:
                tree = await self._blocking(lambda: self._trees.commit(commit, what="the final commit"))
            except TraceError:
                tree = None
            if tree is not None:
                return _Head(tree.tree_id, "the final commit")
        return await self._patched(base, (diff_id,), contents, "the final diff") if diff_id else None

    async def _patched(
        self, base: CommitTree, diff_ids: Sequence[str], contents: Contents, what: str
    ) -> _Head | Refusal:
        """The base with diffs applied to an index alone: git refuses what would leave the tree, and nothing is run."""
        git = self._git.with_index(self._folder / "patch-index")
        await self._blocking(lambda: git.run("read-tree", base.tree_id))
        redacted = False
        for diff_id in diff_ids:
            try:
                diff = await contents.read(diff_id)
            except (NotFoundError, TraceError) as error:
                return Refusal("no_patch", error.line)
            redacted = redacted or PLACEHOLDER.search(diff) is not None
            try:
                await self._blocking(partial(_apply, git, diff))
            except GitError as error:
                return Refusal("redacted" if redacted else "patch_does_not_apply", beginning(str(error), 1000))
        return _Head(await self._blocking(lambda: git.line("write-tree")), what, redacted)

    async def _built(self, base: CommitTree, files: Mapping[str, FileState], what: str) -> _Head | Refusal:
        try:
            tree = await self._blocking(lambda: self._trees.rebuilt(base, files))
        except GitError as error:  # a path that git itself refuses, such as one inside .git
            return Refusal("patch_does_not_apply", str(error).splitlines()[0])
        if tree is None:
            hidden = any(state.redacted for state in files.values())
            return Refusal("redacted" if hidden else "no_patch", f"{what} leave a file whose content cannot be told")
        return _Head(tree, what, any(state.redacted for state in files.values()))

    def _tested(self, base: str, head: str, changed: list[RawEntry], steering: Collection[str]) -> dict[str, Any]:
        """Both sides as they are tested: one set of tests, and nothing of the patch's that steers them.

        What the command starts itself is as the patch left it on both sides, so that nothing is bought there either.
        """
        entries = {os.fsdecode(entry.path): entry for entry in changed}
        found = sort_changes(self._file(name, entry) for name, entry in entries.items() if name not in steering)
        put_back = (*found.harness, *found.steering)
        tests = [file.path for file in (*found.tests, *found.new_tests)]
        laid_over = [*tests, *(name for name in steering if name in entries)]
        on_base = {name: (entries[name].modes[1], entries[name].ids[1]) for name in laid_over}
        on_head = {file.path: (entries[file.path].modes[0], entries[file.path].ids[0]) for file in put_back}
        for name, content in found.written.items():
            made = os.fsdecode(self._git.run("hash-object", "-w", "--stdin", stdin=content).strip())
            on_head[name] = (entries[name].modes[1], made)
        places = (*looks_for_runner(found.product), *never_unequal(found.product))
        return {
            "tested_base": self._with(base, on_base),
            "tested_head": self._with(head, on_head),
            "steering": tuple(on_head),
            "bought": tuple(f"{place.path}:{place.line}: {place.message}" for place in places),
            "tests": tuple(name for name in tests if int(entries[name].modes[1])),
            "product": found.product,
        }

    def _file(self, name: str, entry: RawEntry) -> ChangedFile:
        """The file on both sides; what is no regular file, or too large to be read, has no text."""
        before, after = map(self._side, entry.modes, entry.ids)
        return ChangedFile(path=name, before=before, after=after, too_large=before == after)

    def _side(self, mode: str, object_id: str) -> bytes | None:
        if not int(mode):
            return None
        readable = mode in FILE_MODES and int(self._git.line("cat-file", "-s", object_id)) <= _MOST_READ
        return self._git.run("cat-file", "blob", object_id) if readable else b""

    def _with(self, tree: str, entries: Mapping[str, tuple[str, str]]) -> str:
        """The tree with these modes and contents by path; mode 0 takes a file away."""
        if not entries:
            return tree
        lines = [
            b"%s %s\t%s\0" % (mode.replace("000000", "0").encode(), object_id.encode(), os.fsencode(path))
            for path, (mode, object_id) in entries.items()
        ]
        git = self._git.with_index(self._folder / "tests-index")
        git.run("read-tree", tree)
        git.run("update-index", "-z", "--index-info", stdin=b"".join(lines))
        return git.line("write-tree")

    async def _blocking(self, call: Callable[[], _T], *, limit_s: float | None = None) -> _T:
        """Run git in a thread; ended when we are cancelled, at the time limit, or when the disk fills."""
        running = asyncio.create_task(asyncio.to_thread(call))
        watching = asyncio.create_task(self._watch(limit_s))
        try:
            await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            if not running.done():
                self._git.stopper.stop()
        try:
            return await running
        except GitStopped as error:
            if watching.done() and not watching.cancelled() and watching.result() == "size":
                raise LimitError("the sources are too large", why=f"more than {_MOST_BYTES >> 30} GB") from error
            raise UnavailableError("git did not end in time", why=str(error)) from error

    async def _watch(self, limit_s: float | None) -> str:
        """What the call was stopped for: `size` or `time`."""
        try:
            async with asyncio.timeout(limit_s):
                while await asyncio.to_thread(_size_of, self._folder) < _MOST_BYTES:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(_LOOK_EVERY_S)
        except TimeoutError:
            return "time"
        return "size"


def _apply(git: Git, diff: bytes) -> None:
    if diff.strip():
        git.run("apply", "--cached", "--whitespace=nowarn", "-", stdin=diff, env=_ALONE)


def _diff_of(state: Mapping[str, object]) -> str:
    pr = state.get("pr")
    found = pr.get("diff_blob_id") if isinstance(pr, Mapping) else None
    return found if isinstance(found, str) else ""


def _size_of(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118 - thousands of objects
            except OSError:
                continue
    return total
