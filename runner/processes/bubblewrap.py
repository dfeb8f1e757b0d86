"""The operating system's sandbox around a program, by bubblewrap: all of it, or an error that says so.

Inside: the workspace is writable, the system read-only, home folders hidden (or read-only), temporary folders fresh,
other processes invisible, no network unless asked for. git's hooks and settings, and pm's own state, stay read-only
even in the workspace, so that nothing the program leaves there runs later with the user's rights.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from runner.processes.environment import command_environment
from runner.processes.probe import run_probe
from tracer.errors import SandboxError

_PROGRAM = "bwrap"
_PROBE_LIMIT_S = 15
# With the network, names are resolved through what these hold; everything else in /run stays hidden (sockets of
# container daemons, desktop buses and key agents are ways out).
_RESOLVER_PATHS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/nscd")
# Writes inside, tries to write outside, and looks at what can be written and which network devices there are.
_PROBE_SCRIPT = """touch "$1" && { touch "$2" 2>/dev/null; test ! -w /; } && ! grep -qv -e 'lo:' -e '|' /proc/net/dev"""
_HIDDEN = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - hidden inside, not written to
_MASKED_STATE = ("serve-token", "config.local.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPolicy:
    """What a program may reach.

    `home` hidden: home folders are empty inside but for `readable` and `writable` (e.g. an agent's own settings);
    `state_dir` is pm's, read-only inside; with `read_only` the workspace is too. Paths are absolute; those that do not
    exist are left out.
    """

    workspace: Path
    read_only: bool = False
    state_dir: Path | None = None
    network: bool = False
    home: Literal["hidden", "read-only"] = "hidden"
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()


class SandboxCapability(NamedTuple):
    """Whether the sandbox works on this machine; `why` says what is missing, `next_step` what would mend it."""

    available: bool
    why: str = ""
    next_step: str = ""


def wrap(argv: Sequence[str], policy: SandboxPolicy) -> list[str]:
    """The command line that runs `argv` inside the sandbox.

    Raises:
        SandboxError: there is no working sandbox here; the program must not run without one.

    """
    capability = probe()
    if not capability.available:
        raise SandboxError(
            "the sandbox is not available, so nothing was run",
            why=capability.why,
            next_step=capability.next_step,
        )
    return _command_line(argv, policy)


def wrap_agent(
    argv: Sequence[str],
    *,
    workspace: str,
    read_only: bool,
    state_dir: Path | None,
    readable: tuple[Path, ...],
    own: Iterable[Path],
) -> list[str]:
    """As `wrap`, for an agent: it reaches the network, where its model is, and the home folder can be read.

    `own` is what its kind keeps in the home folder: it is writable, and what is missing of it is made, folders (what
    has no suffix) and empty JSON files. A file that the agent would make itself beside its folder is lost with the
    sandbox, and the folder then misses it: Claude Code told its user so at each later start.

    Raises:
        SandboxError: as `wrap`.

    """
    kept = tuple(own)
    for path in kept:
        if not path.suffix:
            path.mkdir(parents=True, exist_ok=True)
        elif not path.exists():
            path.touch(mode=0o600)
            path.write_text("{}\n", encoding="utf-8")
    policy = SandboxPolicy(
        workspace=Path(os.path.realpath(workspace)),
        read_only=read_only,
        state_dir=state_dir,
        network=True,
        home="read-only",
        readable=readable,
        writable=kept,
    )
    return wrap(argv, policy)


def needed_to_start(argv: Sequence[str], *, search: str | None) -> tuple[list[str], tuple[Path, ...]]:
    """The command with its program's absolute path, and what must be `readable` for it to start inside.

    That is what the sandbox would hide: the folder the program was installed in (of a link, both ends), and the files
    that the command names. `search` is the PATH to look the program up in.
    """
    program = shutil.which(argv[0], path=search) or argv[0]
    if not Path(program).is_absolute():
        return list(argv), ()
    named = [Path(word) for word in argv[1:] if Path(word).is_absolute() and Path(word).exists()]
    ends = (Path(program), Path(os.path.realpath(program)))
    found = dict.fromkeys(path for path in (*map(_install_folder, ends), *named) if _is_hidden(path))
    return [program, *argv[1:]], tuple(found)


def _install_folder(program: Path) -> Path:
    """The outermost `node_modules` it lies in, what lies above its `bin`, else its folder."""
    packages = [folder for folder in program.parents if folder.name == "node_modules"]
    prefix = program.parent.parent if program.parent.name == "bin" else program.parent
    return packages[-1] if packages else prefix if str(prefix) not in _HIDDEN else program.parent


def _is_hidden(path: Path) -> bool:
    return str(path) not in _HIDDEN and any(path.is_relative_to(folder) for folder in _HIDDEN)


@lru_cache(maxsize=1)
def probe() -> SandboxCapability:
    """Try the sandbox once per process: it must run a program, keep it from writing outside, and cut the network."""
    if sys.platform != "linux":
        return SandboxCapability(
            available=False, why="bubblewrap exists for Linux only", next_step="run pm in a Linux container or machine"
        )
    if shutil.which(_PROGRAM) is None:
        return SandboxCapability(
            available=False, why="bubblewrap (bwrap) is not installed", next_step="apt-get install bubblewrap"
        )
    with tempfile.TemporaryDirectory(prefix="pm-probe-") as folder:
        inside, outside = Path(folder, "workspace"), Path(folder, "outside")
        inside.mkdir()
        argv = ["/bin/sh", "-c", _PROBE_SCRIPT, "sh", str(inside / "made"), str(outside)]
        try:
            command = _command_line(argv, SandboxPolicy(workspace=inside))
            done = run_probe(command, limit_s=_PROBE_LIMIT_S, env=command_environment())
        except OSError as error:
            return SandboxCapability(
                available=False, why=f"bubblewrap could not be tried: {error}", next_step="run `bwrap --version`"
            )
        if done.returncode == 0 and (inside / "made").exists() and not outside.exists():
            return SandboxCapability(available=True)
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return SandboxCapability(
        available=False,
        why=f"bubblewrap does not work here: {said[-1] if said else f'it ended with code {done.returncode}'}",
        next_step="allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1)",
    )


def bubblewrap_command(argv: Sequence[str], *, options: Iterable[str], network: bool) -> list[str]:
    """The command line of bubblewrap for `argv`: namespaces of its own, and what `options` make visible inside."""
    return [
        *(shutil.which(_PROGRAM) or _PROGRAM, "--die-with-parent", "--new-session"),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *(() if network else ("--unshare-net",)),
        *(*options, "--", *argv),
    ]


def _command_line(argv: Sequence[str], policy: SandboxPolicy) -> list[str]:
    inside = ("--setenv", "TMPDIR", "/tmp", "--chdir", str(policy.workspace))  # noqa: S108 - a fresh one inside
    options = ("--unshare-user", "--cap-drop", "ALL", *_system(policy), *_places(policy), *inside)
    return bubblewrap_command(argv, options=options, network=policy.network)


def _system(policy: SandboxPolicy) -> Iterator[str]:
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    for folder in _HIDDEN:
        if Path(folder).is_dir() and not Path(folder).is_symlink():
            yield from ("--tmpfs", folder)
    if policy.network:
        for path in _RESOLVER_PATHS:
            yield from ("--ro-bind-try", path, path)
    if policy.home == "hidden":
        homes = {Path("/home"), Path("/root"), Path(os.path.expanduser("~"))}  # noqa: PTH111 - never raises
        for home in sorted(path for path in homes if path.is_dir() and path != Path("/")):
            yield from ("--tmpfs", str(home))


def _places(policy: SandboxPolicy) -> Iterator[str]:
    for path in policy.readable:
        yield from ("--ro-bind-try", str(path), str(path))
    for path in policy.writable:
        yield from ("--bind-try", str(path), str(path))
    state = policy.state_dir if policy.state_dir is not None and policy.state_dir.is_dir() else None
    below = state is not None and policy.workspace.is_relative_to(state)  # a subtask's own working tree
    if state is not None and below:
        yield from _state_places(state)
    bind = "--ro-bind" if policy.read_only else "--bind"
    yield from (bind, str(policy.workspace), str(policy.workspace))
    yield from _git_places(policy.workspace, bind)
    if state is not None and not below:
        yield from _state_places(state)


def _state_places(state: Path) -> Iterator[str]:
    yield from ("--ro-bind", str(state), str(state))
    for name in _MASKED_STATE:
        if (state / name).exists():
            yield from ("--ro-bind", os.devnull, str(state / name))


def _git_places(workspace: Path, bind: str) -> Iterator[str]:
    """Of every repository that the workspace uses: writable so that commits work, but not what git would run."""
    for git_dir in _git_dirs(workspace):
        if not git_dir.is_relative_to(workspace):
            yield from (bind, str(git_dir), str(git_dir))
        for name in ("hooks", "config", "config.worktree", "info/attributes"):
            if (git_dir / name).exists():
                yield from ("--ro-bind", str(git_dir / name), str(git_dir / name))


def _git_dirs(workspace: Path) -> list[Path]:
    link = workspace / ".git"
    if link.is_dir():
        return [link]
    try:
        own = (workspace / link.read_text(encoding="utf-8").removeprefix("gitdir:").strip()).resolve()
        back = (own / "gitdir").read_text(encoding="utf-8").strip()
        if Path(back).resolve() != link.resolve():  # the file may be the agent's: only a folder that agrees is opened
            return []
        common = (own / (own / "commondir").read_text(encoding="utf-8").strip()).resolve()
    except (OSError, UnicodeDecodeError):
        return []
    return [common] if own.is_relative_to(common) else [common, own]
