"""The create request of a capture; ids are keyed by the project, and addresses lose their passwords."""

from __future__ import annotations

import hashlib
import hmac
import os
import platform
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import ValidationError

from collector.client.spool import Spool, captures_folder
from collector.intake.parse import refusal
from collector.recorder.consent import Consent
from runner.workspace.git.repository import Git, GitError, find_repository
from tracer.capture.wire import CreateTrace
from tracer.clock import new_id
from tracer.errors import UsageError
from tracer.redaction.engine import ProjectRedactor

_DATA: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_LOCK_FILES: Final[Sequence[str]] = _DATA["lock_files"]
_LANGUAGES: Final = {ending: name for name, endings in _DATA["languages"].items() for ending in endings}
_MOST_LANGUAGES: Final = 5
_SHA: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_SCP_ADDRESS: Final = re.compile(r"(?:[^@/\s]+@)?([^:/\s]+):(?!//)(.+)")


def open_repository(folder: Path) -> Git:
    """The git repository around `folder`."""
    try:
        git = find_repository(folder)
    except GitError as error:
        raise UsageError("git cannot be asked here", why=str(error), next_step="pm doctor") from error
    if git is None:
        raise UsageError(
            f"{str(folder)!r} is in no git repository",
            why="a capture begins at a commit",
            next_step="git init, git add and git commit   or work in a repository with -C",
        )
    if not head_commit(git):
        raise UsageError(
            "the repository has no commit yet", why="a capture begins at a commit", next_step="git add and git commit"
        )
    return git


def head_commit(git: Git) -> str:
    """The commit that is checked out, or an empty text."""
    said = asked(git, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return said if _SHA.fullmatch(said) else ""


def keyed(key: bytes, what: str, value: str) -> str:
    """A name for `value` that is the same within the project and tells nothing outside it."""
    return hmac.new(key, f"{what}\0{value}".encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()[:16]


def repo_block(git: Git, *, commit: str) -> dict[str, Any]:
    """`repo`: id, address without credentials, default branch, base commit, fingerprint."""
    remote = _without_credentials(asked(git, "config", "--get", "remote.origin.url"))
    default = asked(git, "symbolic-ref", "--short", "--quiet", "refs/remotes/origin/HEAD").removeprefix("origin/")
    return {
        "repo_id": _repo_id(remote) or git.top.name or "repository",
        "remote_url": remote or None,
        "default_branch": default or asked(git, "symbolic-ref", "--short", "--quiet", "HEAD") or None,
        "commit_base": commit,
        "repo_fingerprint": {
            "tree_hash": asked(git, "rev-parse", f"{commit}^{{tree}}") or None,
            "dependencies_lock_hash": _lock_hash(git.top),
        },
    }


def developer_block(
    git: Git, *, key: bytes, developer: str, experience: str, consent: Mapping[str, bool]
) -> dict[str, Any]:
    """`developer`: the id given, else one keyed from git's e-mail; never the e-mail itself."""
    person = asked(git, "config", "--get", "user.email") or asked(git, "config", "--get", "user.name")
    return {
        "developer_id": developer or f"dev-{keyed(key, 'developer', person)}",
        "experience_level": experience or "unknown",
        "consent_flags": dict(consent),
    }


def environment_block(git: Git, environ: Mapping[str, str]) -> dict[str, Any]:
    """`environment`: system, editor, languages by file count, container, time zone."""
    editor = _editor(environ)
    return {
        "os": f"{platform.system()} {platform.release()}".strip() or None,
        "ide": {"name": editor[0], "version": editor[1]} if editor else None,
        "language": _languages(git),
        "containerized": _in_container(environ),
        "timezone": _timezone(environ),
    }


def environment_hash(environ: Mapping[str, str], *, key: bytes) -> str:
    """A keyed hash of the whole environment: equal for equal ones, and telling nothing of its values."""
    text = "\0".join(f"{name}={value}" for name, value in sorted(environ.items()))
    return hmac.new(key, text.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


def asked(git: Git, *words: str) -> str:
    """What git answers in one line; empty where it refuses."""
    try:
        return git.line(*words)
    except GitError:
        return ""


def _without_credentials(address: str) -> str:
    parts = urlsplit(address) if "://" in address else None
    if parts is not None:
        if parts.scheme == "file":
            return ""  # a place on this machine
        host = parts.hostname or ""
        try:
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            return ""
        return urlunsplit((parts.scheme, host + port, parts.path, "", ""))
    return address if _SCP_ADDRESS.fullmatch(address) else ""


def _repo_id(remote: str) -> str:
    """`host/owner/name` of an address."""
    scp = _SCP_ADDRESS.fullmatch(remote)
    if scp and "://" not in remote:
        host, path = scp[1], scp[2]
    else:
        parts = urlsplit(remote)
        host, path = parts.hostname or "", parts.path
    name = f"{host}/{path.strip('/')}".strip("/").removesuffix(".git")
    return name if host else ""


def _lock_hash(top: Path) -> str | None:
    digest, found = hashlib.sha256(), False
    for name in _LOCK_FILES:
        try:
            data = (top / name).read_bytes()
        except OSError:
            continue
        found = True
        digest.update(f"{name}\0{hashlib.sha256(data).hexdigest()}\n".encode())
    return f"sha256:{digest.hexdigest()}" if found else None


def _languages(git: Git) -> list[str]:
    try:
        listed = git.run("ls-tree", "-r", "-z", "--name-only", "HEAD")
    except GitError:
        return []
    counts: Counter[str] = Counter()
    for name in listed.split(b"\0"):
        language = _LANGUAGES.get(os.path.splitext(name.decode("utf-8", "replace"))[1].lower())  # noqa: PTH122 - 100,000 names
        if language:
            counts[language] += 1
    return [name for name, _count in counts.most_common(_MOST_LANGUAGES)]


def _editor(environ: Mapping[str, str]) -> tuple[str, str | None] | None:
    program = environ.get("TERM_PROGRAM", "")
    if program in {"vscode", "cursor", "zed", "WarpTerminal"} or program.startswith("JetBrains"):
        return program, environ.get("TERM_PROGRAM_VERSION") or None
    if environ.get("TERMINAL_EMULATOR", "").startswith("JetBrains"):
        return "JetBrains", None
    chosen = (environ.get("VISUAL") or environ.get("EDITOR") or "").split()
    return (Path(chosen[0]).name, None) if chosen and Path(chosen[0]).name else None


def _in_container(environ: Mapping[str, str]) -> bool:
    if environ.get("container") or Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return True
    try:
        groups = Path("/proc/1/cgroup").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return any(word in groups for word in ("docker", "kubepods", "containerd", "libpod"))


def _timezone(environ: Mapping[str, str]) -> str | None:
    if environ.get("TZ"):
        return environ["TZ"].lstrip(":")[:100] or None
    try:
        target = str(Path("/etc/localtime").resolve())
    except OSError:
        return None
    _, found, name = target.partition("/zoneinfo/")
    return name if found and name else None


StoreMode = Literal["redacted", "raw", "patches_only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """The bug report, as far as it is known."""

    title: str
    description: str = ""
    repro_steps: str = ""
    expected: str = ""
    actual: str = ""
    links: Sequence[str] = ()
    labels: Sequence[str] = ()
    task_id: str = ""

    def block(self) -> dict[str, Any]:
        """As `task` of the create request."""
        return {
            "task_id": self.task_id or None,
            "bug_report": {
                "title": self.title,
                "description": self.description,
                "repro_steps": self.repro_steps or None,
                "expected": self.expected or None,
                "actual": self.actual or None,
                "links": list(self.links),
            },
            "labels": list(self.labels),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who records: an id of their own choosing, and how experienced they are."""

    developer_id: str = ""
    experience: str = ""
    consent: Consent = field(default_factory=Consent)


def create_request(
    git: Git, *, bug: Bug, person: Person, store: str, mode: str, environ: Mapping[str, str], key: bytes
) -> dict[str, Any]:
    """The body of POST /traces but for `trace_id`."""
    check_store(store, person.consent)
    return {
        "repo": repo_block(git, commit=head_commit(git)),
        "task": bug.block(),
        "developer": developer_block(
            git, key=key, developer=person.developer_id, experience=person.experience, consent=person.consent.flags()
        ),
        "environment": environment_block(git, environ),
        "ingestion": {"mode": mode, "client_session_id": new_id(), "dedupe_policy": "event_id"},
        "store": store,
    }


def check_store(store: str, consent: Consent) -> None:
    """Refuse raw mode that nobody consented to."""
    if store == "raw" and not consent.code:
        raise UsageError(
            "raw mode keeps code and output as they are, and nobody consented to that",
            why=f"consent: {consent.describe()}",
            next_step="--consent code,output,judge   or leave --store raw out",
        )


def begin_capture(
    state_root: Path,
    request: Mapping[str, Any],
    *,
    server: str,
    kind: Literal["client", "recording"],
    redactor: ProjectRedactor,
    trace_id: str = "",
    **more: Any,
) -> Spool:
    """A new spool for `request`, redacted unless it asks for raw mode."""
    body = dict(request)
    try:
        CreateTrace.model_validate(body)
    except ValidationError as error:  # an empty label, too long an id: told now, not when it is sent
        raise refusal(error) from error
    if body.get("store") != "raw":
        body["task"] = redactor.redact_value(body.get("task")).value
    own_id = str(body.pop("trace_id", None) or "")
    header = {"trace_id": trace_id or own_id or new_id(), "server": server, "kind": kind, "request": body, **more}
    return Spool.create(captures_folder(state_root), header)
