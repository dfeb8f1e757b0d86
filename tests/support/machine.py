"""What tests see of the machine they run on: a fixed environment and the programs named here, nothing else of it.

`shut_out` is called once, before the workers are started and anything is collected. Tests that need more of the
machine (a sandbox, a container engine, a browser, Node.js for agents) carry a marker of `OPEN` and get its own PATH.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

__all__ = ["OPEN", "PYTEST", "shut_out", "use_path"]

# The command by which projects that a test makes run their tests: without our plug-ins it starts in 0.2 s, not in 1.2.
PYTEST = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q -p no:cacheprovider"

OPEN = ("browser", "container", "machine", "real_cli")
# As variables, so that workers inherit them; theirs is the sys.path that the first process began with.
_MACHINE_PATH, _TOOLS_PATH, _MODULES = "PM_TEST_MACHINE_PATH", "PM_TEST_TOOLS_PATH", "PM_TEST_MACHINE_PYTHONPATH"

# What of the environment stays: how the tests themselves are run, and where the machine's libraries and engines are.
_KEPT = ("PM_TEST_", "PYTEST_", "HYPOTHESIS_", "PLAYWRIGHT_", "TEXTUAL_SNAPSHOT_", "COVERAGE_", "LD_", "DYLD_")
_KEPT_NAMES = ("CI", "TMPDIR", "TERM", "USER", "LOGNAME", "DOCKER_HOST", "CONTAINER_HOST", "XDG_RUNTIME_DIR")
_ROOT = Path(__file__).resolve().parents[2]
_FIXED = {"LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1"}

# No language but Python, no container engine, no agent: a test that looks for one lays a program of its own on PATH.
_TOOLS = (
    "sh bash zsh fish env true false test [ expr printf echo cat head tail tee tac wc sort uniq cut paste tr rev nl "
    "sed grep egrep fgrep awk find xargs ls cp mv rm rmdir mkdir ln link touch chmod chown chgrp install mktemp mkfifo "
    "truncate split csplit join comm cmp diff patch stat readlink realpath basename dirname pwd file du df dd sync "
    "date sleep timeout seq yes id whoami groups uname hostname tty stty tput clear reset script more less locale fold "
    "kill ps pgrep nice nohup setsid time nproc od xxd hexdump base64 md5sum sha1sum sha256sum cksum shasum "
    "tar gzip gunzip zcat bzip2 xz zip unzip which logger mount umount "
    "git git-upload-pack git-receive-pack git-upload-archive ssh sshd ssh-keygen ssh-agent ssh-add scp sftp "
    "tmux vi vim vim.tiny nvim ed curl make"
).split()


def shut_out(folder: Path) -> None:
    """Leave of this process's environment what tests may see; a home and the programs they may use are in `folder`."""
    if _TOOLS_PATH not in os.environ:
        found = os.environ.get("PATH", os.defpath)
        os.environ[_TOOLS_PATH] = _link_tools(folder / "tools", f"{found}:/usr/bin:/bin:/usr/sbin:/sbin")
        os.environ |= {_MACHINE_PATH: found, _MODULES: os.environ.get("PYTHONPATH", "")}
    foreign = {Path(entry).resolve() for entry in os.environ[_MODULES].split(os.pathsep) if entry} - {_ROOT}
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() not in foreign]
    for name in list(os.environ):
        if not name.startswith(_KEPT) and name not in _KEPT_NAMES:
            del os.environ[name]
    home = folder / "no-home"  # for fixtures that outlast a test; each test has one of its own
    home.mkdir()
    os.environ.update(_FIXED, HOME=str(home))
    use_path(machine=False)


def use_path(*, machine: bool) -> None:
    """Set PATH to the machine's own, or to the programs that tests may use."""
    chosen = os.environ[_MACHINE_PATH if machine else _TOOLS_PATH]
    if os.environ.get("PATH") != chosen:
        os.environ["PATH"] = chosen
        if (sandbox := sys.modules.get("runner.processes.bubblewrap")) is not None:
            sandbox.probe.cache_clear()  # a process looks for bubblewrap once


def _link_tools(folder: Path, search: str) -> str:
    folder.mkdir()
    for name in _TOOLS:
        if program := shutil.which(name, path=search):
            (folder / name).symlink_to(program)
    for name in ("python", "python3"):  # the one that runs the tests, without the environment around it
        (folder / name).symlink_to(os.path.realpath(sys.executable))
    return str(folder)
