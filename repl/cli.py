"""`pm`: from the shell's words to one exit code.

`main` answers `version` before anything is imported, looks the command up in the generated dispatch table, parses, runs
the handler, and turns whatever ends it (an error of ours, Ctrl+C, SIGTERM, a closed pipe, a defect) into the exit code
of `repl.exit_codes`. Command bodies are imported only when they run.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(words: list[str] | None = None) -> int:
    """Run `words` (the process's own arguments by default) as a command line and return the exit code."""
    words = sys.argv[1:] if words is None else words
    if words in (["version"], ["--version"], ["-V"]):
        from repl.version import VERSION

        return _print_version(VERSION)
    try:
        from repl.dispatch import run_words

        return run_words(words)
    except KeyboardInterrupt:  # before the signals were taken over: nothing has begun
        return 130


def _print_version(version: str) -> int:
    try:
        sys.stdout.write(f"pm {version}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        import os  # loaded by the interpreter anyway

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader has gone: the last flush must not fail
    return 0


if __name__ == "__main__":  # python -m repl.cli
    sys.exit(main())
