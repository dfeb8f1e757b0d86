"""The trees of a checkout, from bundles, diffs, edits and remotes; strangers' tricks stay what they are: content."""

from __future__ import annotations

import os
import subprocess
import tarfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from collector.collector import Collector
from collector.final.replay import Content
from collector.final.trace_source import StoreSource
from collector.qa.checkout import Checkout, CodeStore, SessionEnd, remote_refusal, session_end
from collector.qa.profiles import Refusal
from tests.collector.qa.rigs import Repository, a_collector, a_repository, send_session
from tracer.capture.canonical import canonical_json
from tracer.errors import UnavailableError


@pytest.fixture
async def collector(tmp_path: Path) -> AsyncIterator[Collector]:
    async with a_collector(tmp_path) as opened:
        yield opened


async def _checkout(
    collector: Collector, trace_id: str, folder: Path, *, remotes: tuple[str, ...] = ()
) -> tuple[CodeStore, Checkout] | Refusal:
    row = await collector.row(trace_id)
    folder.mkdir(exist_ok=True)
    code = CodeStore(folder, commit=row.metadata["repo"]["commit_base"])
    source = await code.fetch_source(row.metadata["repo"], None, contents=collector.contents, remotes=remotes)
    if isinstance(source, Refusal):
        return source

    async def end(base: Callable[[str], Content]) -> SessionEnd:
        opened = await StoreSource.open(trace_id, store=collector.store, contents=collector.contents)
        return await session_end(opened, base)

    found = await code.checkout(
        commit_base=row.metadata["repo"]["commit_base"],
        final_state=row.final_state,
        contents=collector.contents,
        session_end=end,
        source=source,
    )
    return found if isinstance(found, Refusal) else (code, found)


async def _files(code: CodeStore, tree: str, folder: Path) -> dict[str, str]:
    target = folder / "out.tar"
    await code.write_tar(tree, target)
    with tarfile.open(target) as tar:
        return {
            member.name: tar.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in tar
            if member.isreg()
        }


def _tree(repository: Repository, commit: str) -> str:
    return repository.git("rev-parse", f"{commit}^{{tree}}").strip()


async def _two(collector: Collector, trace_id: str, folder: Path) -> tuple[CodeStore, Checkout]:
    found = await _checkout(collector, trace_id, folder)
    assert not isinstance(found, Refusal), found
    return found


async def test_the_final_diff_on_the_base_is_the_head_to_the_byte(collector: Collector, tmp_path: Path) -> None:
    repository = a_repository(tmp_path)
    code, found = await _two(collector, await send_session(collector, repository), tmp_path / "git")
    assert (found.base, found.head) == (_tree(repository, repository.base), _tree(repository, repository.head))
    assert found.changed == ("divisor.txt", "tests/half.sh", "tests/zero.sh")
    assert (found.source, found.patch) == ("bundle", "the final diff")
    assert await _files(code, found.tested_base, tmp_path) == {
        **await _files(code, found.head, tmp_path),
        "divisor.txt": "3\n",
    }


async def test_a_final_commit_in_the_bundle_comes_before_the_diff(collector: Collector, tmp_path: Path) -> None:
    repository = a_repository(tmp_path)
    trace_id = await send_session(
        collector,
        repository,
        bundle=repository.bundle("base", "main"),
        final_state=lambda diff: {"commit_head": repository.head, "pr": {"diff": diff.replace("+2", "+9")}},
    )
    _, found = await _two(collector, trace_id, tmp_path / "git")
    assert (found.head, found.patch) == (_tree(repository, repository.head), "the final commit")


def _edit(seq: int, path: str, patch: str) -> dict[str, Any]:
    return {
        "event_id": f"00000000-0000-4000-8000-{seq:012d}",
        "seq": seq,
        "ts_ms": 1_700_000_000_000 + seq,
        "type": "file_edit",
        "actor": {"kind": "human"},
        "payload": {"file_path": path, "edit_kind": "patch", "patch": patch},
    }


async def test_without_a_final_state_the_session_s_edits_lead_to_the_head(collector: Collector, tmp_path: Path) -> None:
    repository = a_repository(tmp_path)
    events = [
        _edit(1, "divisor.txt", "--- a/divisor.txt\n+++ b/divisor.txt\n@@ -1 +1 @@\n-3\n+1\n"),
        _edit(2, "divisor.txt", "--- a/divisor.txt\n+++ b/divisor.txt\n@@ -1 +1 @@\n-1\n+2\n"),
    ]
    trace_id = await send_session(collector, repository, events=events, final_state=lambda _: None)
    code, found = await _two(collector, trace_id, tmp_path / "git")
    assert (await _files(code, found.head, tmp_path))["divisor.txt"] == "2\n"
    assert found.patch == "the session's edits"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"final_state": lambda _: None}, "no_patch"),
        ({"final_state": lambda diff: {"pr": {"diff": diff.replace("-3", "-7")}}}, "patch_does_not_apply"),
        ({"final_state": lambda _: {"pr": {"diff": "no diff at all\n"}}}, "patch_does_not_apply"),
        (
            {"final_state": lambda diff: {"pr": {"diff": diff.replace("-3", "-[REDACTED:github-pat:0a1b2c]")}}},
            "redacted",
        ),
        ({"bundle": b""}, "no_source"),
        ({"bundle": b"# v2 git bundle\nrubbish"}, "no_source"),
    ],
    ids=["nothing", "other base", "no diff", "redacted", "no bundle", "broken bundle"],
)
async def test_what_cannot_be_tested_says_why(
    collector: Collector, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path), **changes)
    found = await _checkout(collector, trace_id, tmp_path / "git")
    assert isinstance(found, Refusal)
    assert found.reason == reason


@pytest.mark.parametrize(
    "path", ["../outside.txt", "/tmp/outside.txt", ".git/hooks/post-checkout", "deep/../../outside.txt", "link/in.txt"]
)
async def test_a_diff_that_leaves_the_tree_is_refused(collector: Collector, tmp_path: Path, path: str) -> None:
    diff = f"diff --git a/{path} b/{path}\nnew file mode 100755\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+bad\n"
    repository = a_repository(tmp_path)
    (repository.folder / "link").symlink_to("/tmp")
    repository.git("checkout", "-q", "base")
    repository.git("add", "-A")
    repository.git("commit", "-q", "--amend", "-m", "with a link")
    linked = Repository(repository.folder, repository.git("rev-parse", "HEAD").strip(), repository.head)
    linked.git("branch", "-f", "linked")
    trace_id = await send_session(
        collector, linked, bundle=linked.bundle("linked"), final_state=lambda _: {"pr": {"diff": diff}}
    )
    found = await _checkout(collector, trace_id, tmp_path / "git")
    assert isinstance(found, Refusal), found
    assert found.reason == "patch_does_not_apply"
    assert not list(tmp_path.rglob("outside.txt"))


async def test_hooks_filters_and_submodules_of_the_source_never_run(collector: Collector, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    repository = a_repository(
        tmp_path,
        base={
            ".gitattributes": "* filter=evil\ntests export-ignore\nrun.sh export-subst\n",
            ".gitmodules": f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch {marker}"\n',
            ".lfsconfig": "[lfs]\n\turl = http://127.0.0.1:1/\n",
        },
    )
    code, found = await _two(collector, await send_session(collector, repository), tmp_path / "git")
    files = await _files(code, found.head, tmp_path)
    assert "tests/half.sh" in files  # left out of `git archive` by the project, but it is what we test
    assert not marker.exists()


class _Backend(BaseHTTPRequestHandler):
    """git's own server over HTTP on loopback, by CGI."""

    root = Path()

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length") or 0)
        environ = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type") or "",
            "CONTENT_LENGTH": str(length),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
        }
        done = subprocess.run(
            ["git", "http-backend"], input=self.rfile.read(length), capture_output=True, env=environ, check=True
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def _served(repository: Repository, folder: Path) -> Iterator[str]:
    """The address of a server that has the repository as calc.git."""
    subprocess.run(["git", "clone", "-q", "--bare", str(repository.folder), str(folder / "calc.git")], check=True)
    _Backend.root = folder
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Backend)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_remote_on_the_list_is_fetched_at_the_base_commit(collector: Collector, tmp_path: Path) -> None:
    repository = a_repository(tmp_path)
    served = tmp_path / "served"
    served.mkdir()
    with _served(repository, served) as address:
        url = f"{address}calc.git"
        trace_id = await send_session(collector, repository, bundle=b"", remote_url=url)
        refused = await _checkout(collector, trace_id, tmp_path / "refused")
        found = await _checkout(collector, trace_id, tmp_path / "git", remotes=(address,))
    assert isinstance(refused, Refusal)
    assert "qa.remotes" in refused.detail
    assert not isinstance(found, Refusal), found
    assert found[1].head == _tree(repository, repository.head)


async def test_a_remote_that_is_away_is_trouble_not_a_result(collector: Collector, tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/calc.git"
    trace_id = await send_session(collector, a_repository(tmp_path), bundle=b"", remote_url=url)
    with pytest.raises(UnavailableError):
        await _checkout(collector, trace_id, tmp_path / "git", remotes=("http://127.0.0.1:9/",))


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc",
        "/etc",
        "ext::sh -c reboot",
        "ssh://git@good.example/x",
        "git@good.example:x",
        "git://good.example/x",
        "http://good.example/x",
        "https://user:word@good.example/x",
        "https://good.example@evil.example/x",
        "https://good.example.evil.example/x",
        "https://good.example:8443/x",
        "https://evil.example/good.example",
        "https://good.example\\@evil.example/x",
        "https://good.example /x",
        "-u/x",
        "https://[::1",
        "",
    ],
)
def test_only_https_from_a_host_on_the_list_is_fetched(url: str) -> None:
    assert remote_refusal(url, ("good.example",))


def test_hosts_may_be_patterns_and_addresses_may_be_named_whole() -> None:
    assert not remote_refusal("https://git.good.example/x/y.git", ("*.good.example",))
    assert not remote_refusal("http://127.0.0.1:3000/x.git", ("http://127.0.0.1:3000/",))
    assert remote_refusal("http://127.0.0.1:30001/x.git", ("http://127.0.0.1:3000",))


async def test_another_user_s_git_settings_are_not_asked(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text('[url "http://127.0.0.1:9/stolen/"]\n\tinsteadOf = http://127.0.0.1\n', encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_bytes(settings.read_bytes())
    repository = a_repository(tmp_path)
    served = tmp_path / "served"
    served.mkdir()
    with _served(repository, served) as address:
        trace_id = await send_session(collector, repository, bundle=b"", remote_url=f"{address}calc.git")
        found = await _checkout(collector, trace_id, tmp_path / "git", remotes=(address,))
    assert not isinstance(found, Refusal), found


def test_a_file_whose_name_is_no_text_can_be_recorded() -> None:
    names = (os.fsdecode(b"caf\xe9.txt"), "ünï.txt")
    found = Checkout(
        base="1", tested_base="1", head="2", tested_head="2", changed=names, source="bundle", patch="the final diff"
    )
    assert orjson.loads(canonical_json(found.as_json()))["files_changed"] == ["caf\ufffd.txt", "ünï.txt"]
