"""Completion at `pm>`: commands and their arguments from the registry, `@` files of the project."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from typing_extensions import override

from repl.commands.complete import Candidate, Sources, candidates, rank
from repl.present.escape import one_line

__all__ = ["LineCompleter", "slash_candidates"]

_MOST = 50


def slash_candidates(text: str, sources: Sources) -> tuple[str, list[Candidate]]:
    """(the word being typed, what can replace it) for a line that begins with `/`."""
    body = text[1:]
    try:
        words = shlex.split(body)
    except ValueError:
        return "", []
    if not body or body[-1].isspace():
        words.append("")
    return words[-1], candidates(words, surface="slash", sources=sources)


class LineCompleter(Completer):
    """`files` lists the project's files that are not ignored, as relative paths."""

    def __init__(self, *, sources: Sources, files: Callable[[], list[str]]) -> None:
        self._sources = sources
        self._files = files

    @override
    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        word = text.rsplit(None, 1)[-1] if text and not text[-1].isspace() else ""
        if word.startswith("@"):
            yield from self._file_completions(word)
        elif text.startswith("/"):
            typed, found = slash_candidates(text, self._sources)
            slash = " " not in text
            for candidate in found[:_MOST]:
                shown = f"{'/' if slash else ''}{candidate.text}" + (f" {candidate.hint}" if candidate.hint else "")
                yield Completion(
                    candidate.text,
                    start_position=-len(typed),
                    display=one_line(shown, 40),
                    display_meta=one_line(candidate.help, 60),
                )

    def _file_completions(self, word: str) -> Iterable[Completion]:
        typed = word[1:]
        ranked = sorted((rank(typed, path), path) for path in self._files())
        for score, path in ranked[:_MOST]:
            if score < 4:
                yield Completion(f"@{path}", start_position=-len(word), display=one_line(path, 60))
