"""Starts the person's own bash or zsh so that it marks its prompts and commands, and is otherwise as it always is.

Their start-up files run first and as usual; then hooks of ours are added beside theirs (bash: PS0 and PROMPT_COMMAND,
zsh: precmd and preexec). No prompt variable is touched and nothing of it is exported to other programs. The files are
made in a folder of the recording and hold nothing but the nonce.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tracer.durable import ensure_folder, replace
from tracer.errors import RecordError, UsageError

__all__ = ["Shell", "ShellName", "find_shell", "prepare"]

ShellName = Literal["bash", "zsh"]
_OLDEST_BASH: Final = (4, 4)  # PS0

_BASH: Final = r"""# made by pm record: your own start-up file first, then marks around prompts and commands
if [ -f ~/.bashrc ]; then . ~/.bashrc; fi
__pm_nonce=@NONCE@
__pm_precmd() {
  local IFS=' '
  __pm_status=$1
  printf '\033]7717;%s;A;%s;%s;%s\007' "$__pm_nonce" "$1" "${*:2}" "$PWD" 2>/dev/null >/dev/tty || :
}
__pm_again() { return "$__pm_status"; }
__pm_preexec() {
  printf '\033]7717;%s;C;%s\007' "$__pm_nonce" "bash"
  HISTTIMEFORMAT= builtin history 1 2>/dev/null || :
  printf '\033]7717;%s;/\007' "$__pm_nonce"
}
# In braces: `set -x` shows nothing of it. One call that does not fail: `set -e` and traps see no failure that is none.
PS0="${PS0-}"'$({ trap - DEBUG; } >/dev/null 2>&1; { __pm_preexec; } 2>/dev/null)'
if ((BASH_VERSINFO[0] > 5 || (BASH_VERSINFO[0] == 5 && BASH_VERSINFO[1] >= 1))); then
  PROMPT_COMMAND=('{ __pm_precmd "$?" "${PIPESTATUS[@]}"; } 2>/dev/null' "${PROMPT_COMMAND[@]}")
else
  __pm_hook='{ __pm_precmd "$?" "${PIPESTATUS[@]}"; __pm_again && :; } 2>/dev/null'
  PROMPT_COMMAND="$__pm_hook${PROMPT_COMMAND:+; $PROMPT_COMMAND}"
  unset __pm_hook
fi
"""

_ZSH_SOURCE: Final = r"""# made by pm record: your own file, as if it had been read from its own place
__pm_home="@ZDOTDIR@"
ZDOTDIR="$__pm_home"
if [[ -f "$ZDOTDIR/@FILE@" ]]; then . "$ZDOTDIR/@FILE@"; fi
"""
_ZSH_BACK: Final = r"""__pm_home="${ZDOTDIR:-$HOME}"
ZDOTDIR="@OURS@"
"""
_ZSH_RC: Final = r"""# made by pm record: your own file first, then marks around prompts and commands
if [[ "$HISTFILE" == "@OURS@"/* ]]; then HISTFILE="$__pm_home/.zsh_history"; fi
ZDOTDIR="$__pm_home"
if [[ -f "$ZDOTDIR/.zshrc" ]]; then . "$ZDOTDIR/.zshrc"; fi
typeset -g __pm_nonce=@NONCE@
# In braces: `set -x` shows nothing of it. Never a failure: `set -e` and traps see none; zsh keeps $? between hooks.
__pm_precmd() { {
  local __pm_status=$? __pm_pipe="${(j: :)pipestatus[@]}"
  printf '\033]7717;%s;A;%s;%s;%s\007' "$__pm_nonce" "$__pm_status" "$__pm_pipe" "$PWD" >/dev/tty || :
} 2>/dev/null }
__pm_preexec() { {
  local flag=zsh
  if [[ -o histignorespace && "$1" == ' '* ]]; then flag=withheld; fi
  printf '\033]7717;%s;C;%s\007%s\033]7717;%s;/\007' "$__pm_nonce" "$flag" "$1" "$__pm_nonce" >/dev/tty || :
} 2>/dev/null }
typeset -ga precmd_functions preexec_functions
precmd_functions=(__pm_precmd "${precmd_functions[@]}")
preexec_functions=("${preexec_functions[@]}" __pm_preexec)
if [[ -n "@UNSET@" && "$__pm_home" == "$HOME" ]]; then unset ZDOTDIR; fi
unset __pm_home
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A shell to record: its kind, its program, and how to start it."""

    name: ShellName
    program: str
    arguments: tuple[str, ...] = ()
    environ: Mapping[str, str] | None = None


def find_shell(wanted: str, environ: Mapping[str, str]) -> Shell:
    """The shell called `wanted` (`bash`, `zsh` or a path), else `$SHELL`.

    Raises:
        UsageError: another shell, or none of that name.

    """
    chosen = wanted or environ.get("SHELL") or "bash"
    name = Path(chosen).name
    program = chosen if "/" in chosen else shutil.which(chosen, path=environ.get("PATH"))
    if name not in {"bash", "zsh"}:
        raise UsageError(
            f"pm record does not know the shell {name!r}", why="it knows bash and zsh", next_step="--shell bash"
        )
    if not program or not Path(program).is_file():
        raise UsageError(f"there is no {chosen!r} here", next_step="--shell /path/to/bash")
    shell = Shell(name="bash" if name == "bash" else "zsh", program=program)
    if shell.name == "bash" and _bash_version(program) < _OLDEST_BASH:
        raise UsageError(
            f"{program!r} is older than bash 4.4",
            why="it cannot mark commands",
            next_step="--shell zsh, or a newer bash",
        )
    return shell


def prepare(shell: Shell, folder: Path, *, nonce: str, environ: Mapping[str, str]) -> Shell:
    """Write the start-up files into `folder`; the shell with its arguments and environment.

    Raises:
        RecordError: they cannot be written.

    """
    try:
        ensure_folder(folder)
        if shell.name == "bash":
            path = folder / "bashrc"
            replace(path, _BASH.replace("@NONCE@", nonce).encode())
            return Shell(
                name="bash", program=shell.program, arguments=("--rcfile", str(path), "-i"), environ=dict(environ)
            )
        return _prepare_zsh(shell, folder, nonce=nonce, environ=environ)
    except OSError as error:
        raise RecordError(
            f"the shell's start-up files cannot be written in {str(folder)!r}", why=error.strerror or str(error)
        ) from error


def _prepare_zsh(shell: Shell, folder: Path, *, nonce: str, environ: Mapping[str, str]) -> Shell:
    home = environ.get("ZDOTDIR") or environ.get("HOME") or "/"

    def filled(text: str, name: str) -> bytes:
        unset = "" if environ.get("ZDOTDIR") else "1"
        for mark, value in (("@ZDOTDIR@", _quoted(home)), ("@OURS@", _quoted(str(folder))), ("@FILE@", name)):
            text = text.replace(mark, value)
        return text.replace("@NONCE@", nonce).replace("@UNSET@", unset).encode("utf-8", "surrogateescape")

    replace(folder / ".zshenv", filled(_ZSH_SOURCE + _ZSH_BACK, ".zshenv"))
    replace(folder / ".zshrc", filled(_ZSH_RC, ".zshrc"))
    return Shell(name="zsh", program=shell.program, arguments=("-i",), environ={**environ, "ZDOTDIR": str(folder)})


def _quoted(path: str) -> str:
    """`path` for the inside of double quotes."""
    return re.sub(r'(["\\$`])', r"\\\1", path)


def _bash_version(program: str) -> tuple[int, int]:
    try:
        said = subprocess.run(
            [program, "--norc", "--noprofile", "-c", 'echo "${BASH_VERSINFO[0]} ${BASH_VERSINFO[1]}"'],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        ).stdout.split()
        return int(said[0]), int(said[1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return (0, 0)
