"""The completion scripts of bash, zsh and fish: thin, because `pm __complete` knows everything.

`pm __complete WORD…` prints one candidate a line, `text<TAB>help`; the last word is the one at the cursor. Nothing that
it prints is ever evaluated by the shell.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from repl.present.text import one_line
from repl.registry.complete import candidates, sources_for
from repl.registry.parse import leading_globals

if TYPE_CHECKING:
    from repl.context import Context


def script_for(shell: str) -> str:
    return Path(__file__).with_suffix(f".{shell}").read_text(encoding="utf-8")


def complete(context: Context, arguments: Namespace) -> int:
    words = list(arguments.words)
    words = words[leading_globals(words[:-1]) :]
    for candidate in candidates(words, surface="cli", sources=sources_for(context, "cli")):
        context.output.line(f"{candidate.text}\t{one_line(candidate.help)}")
    return 0
