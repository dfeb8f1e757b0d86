"""Completion at `pm>`: commands from the registry, and `@` files of the project without what git ignores."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock, Thread

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from repl.present.text import one_line
from repl.registry.complete import Candidate, Sources, candidates, rank
from tracer.clock import monotonic

_MOST = 20_000
_KEEP_S = 10.0
_GIT_S = 3.0
_SKIPPED = frozenset({".git", ".pm-orchestrator", "node_modules", "__pycache__", ".venv"})


class ProjectFiles:
    """Relative paths of a folder's files; `listed` never waits: it answers with what is known and looks again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: list[str] = []
        self._at = -_KEEP_S
        self._looking = Lock()

    def listed(self) -> list[str]:
        """What is known now; a stale list is renewed in a thread, the first one is waited for briefly."""
        if monotonic() - self._at >= _KEEP_S and self._looking.acquire(blocking=False):
            thread = Thread(target=self._look, name="project-files", daemon=True)
            thread.start()
            if not self._found:
                thread.join(0.5)
        return self._found

    def _look(self) -> None:
        try:
            self._found = (self._from_git() or self._from_folder())[:_MOST]
            self._at = monotonic()
        finally:
            self._looking.release()

    def _from_git(self) -> list[str]:
        from runner.workspace.git.repository import listed_files  # not before the first completion

        names = listed_files(self._folder, limit_s=_GIT_S) or []
        shown = (os.fsencode(name).decode("utf-8", "backslashreplace") for name in names)
        return [name for name in shown if not name.startswith(".pm-orchestrator/")]

    def _from_folder(self) -> list[str]:
        found: list[str] = []
        for root, folders, names in os.walk(self._folder):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED)
            base = os.path.relpath(root, self._folder)
            found.extend(name if base == "." else f"{base}/{name}" for name in sorted(names))
            if len(found) >= _MOST:
                break
        return found


_COMPLETER_MOST = 50


def slash_candidates(text: str, sources: Sources) -> tuple[str, list[Candidate]]:
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

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        text = document.text_before_cursor
        word = text.rsplit(None, 1)[-1] if text and not text[-1].isspace() else ""
        if word.startswith("@"):
            yield from self._file_completions(word)
        elif text.startswith("/"):
            typed, found = slash_candidates(text, self._sources)
            slash = " " not in text
            for candidate in found[:_COMPLETER_MOST]:
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
        for score, path in ranked[:_COMPLETER_MOST]:
            if score < 4:
                yield Completion(f"@{path}", start_position=-len(word), display=one_line(path, 60))
