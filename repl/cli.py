"""`pm`: from the shell's words to one exit code (`repl.exit_codes`); command bodies are imported only when they run."""

from __future__ import annotations

import gc
import sys

# The modules of a start make 15 collections of garbage that is none, a sixth of the time to the first prompt.
gc.set_threshold(50_000, 20, 20)

TYPE_CHECKING = False  # `typing` costs a fifth of `pm version`
if TYPE_CHECKING:
    from collections.abc import Callable


def main(words: list[str] | None = None, *, explain: Callable[[], tuple[str, str, str] | None] = lambda: None) -> int:
    """Run `words` (the process's own arguments by default) as a command line and return the exit code.

    `explain` is asked when a defect ends the command: what is wrong with the installation, or None.
    """
    words = sys.argv[1:] if words is None else words
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        _open_missing()
    if words in (["version"], ["--version"], ["-V"]):
        from repl.version import VERSION

        return _print_version(VERSION)
    try:
        from repl.dispatch import run_words

        return run_words(words, explain=explain)
    except KeyboardInterrupt:  # before the signals were taken over: nothing has begun
        return 130


def _open_missing() -> None:
    """Put nothing in the place of a closed stream (`pm tasks >&-`): the next file opened would take its number."""
    import os  # loaded by the interpreter anyway

    while (number := os.open(os.devnull, os.O_RDWR)) < 3:  # the lowest free one each time
        os.set_inheritable(number, True)  # noqa: FBT003 - the standard library's own order
    os.close(number)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _print_version(version: str) -> int:
    try:
        sys.stdout.write(f"pm {version}\n")
        sys.stdout.flush()
    except OSError as error:
        import os  # loaded by the interpreter anyway

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader has gone, or the disk is full: no second failure
        return 0 if isinstance(error, BrokenPipeError) else 8
    return 0
