"""The task's prompt and the prompts of subagents, each kept once: redacted, named by the hash of what is stored."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from tracer.distill.clean import Cleaner, cut
from tracer.distill.records import short_id

__all__ = ["Prompts"]

_AGENT_LIMIT: Final = 1000
_SHOWN_CHARS: Final = 8000
_HELD_CHARS: Final = 16 * 1024 * 1024


class Prompts:
    """Prompts of one session. `texts` maps sha256 to the redacted text that belongs into the blob store."""

    def __init__(self, cleaner: Cleaner) -> None:
        self._cleaner = cleaner
        self._task: str | None = None
        self.task_sha256: str | None = None
        self.texts: dict[str, str] = {}
        self._agents: dict[str, dict[str, Any]] = {}
        self._held = 0

    def take_task(self, text: str) -> bool:
        """Keep `text` as the task's prompt if there is none yet, else say no."""
        if self._task is None:
            self._task = text
            self.task_sha256 = self.store(text)
            return True
        return False

    def store(self, text: str) -> str:
        """Redact and keep `text` (the first 16 million characters of all prompts); the sha256 of the redacted UTF-8."""
        redacted = self._cleaner.clean(text)
        sha256 = hashlib.sha256(redacted.encode()).hexdigest()
        if sha256 not in self.texts and self._held < _HELD_CHARS:
            self.texts[sha256] = redacted
            self._held += len(redacted)
        return sha256

    def agent(self, agent_id: str, *, kind: str | None = None, prompt: str | None = None) -> None:
        """Note a subagent; what is known already stays."""
        agent_id = short_id(agent_id)
        entry = self._agents.get(agent_id)
        if entry is None:
            if len(self._agents) >= _AGENT_LIMIT:
                return
            entry = self._agents[agent_id] = {
                "id": self._cleaner.clean(agent_id),
                "type": None,
                "prompt_sha256": None,
            }
        if kind and entry["type"] is None:
            entry["type"] = self._cleaner.clean(kind[:200])
        if prompt and entry["prompt_sha256"] is None:
            sha256 = entry["prompt_sha256"] = self.store(prompt)
            if prompt != self._task:
                entry["prompt"] = cut(self.texts.get(sha256, ""), _SHOWN_CHARS)

    def to_list(self) -> list[dict[str, Any]]:
        """As `meta.agents` holds them."""
        return list(self._agents.values())
