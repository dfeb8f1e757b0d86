"""The thoughts of a capture by the events they speak of, read once and then as the file grows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

import orjson

__all__ = ["Thought", "Thoughts"]

_MARK: Final = b'"type":"thought"'


class Thought(NamedTuple):
    """One thought; `links` are the ids of the events it speaks of."""

    event_id: str
    seq: int
    kind: str
    text: str
    links: tuple[str, ...]


class Thoughts:
    """The thoughts in the event file `path`. `read_on` takes what is new; lookups are by an event's id."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end = 0
        self._reading = Lock()
        self._about: dict[str, list[Thought]] = {}
        self._own: dict[str, Thought] = {}

    def read_on(self) -> bool:
        """Read whole lines that are new; whether a thought was among them. Blocks: for a thread."""
        found = False
        with self._reading:  # two readers at once would both count the same lines
            for thought in self._new():
                found = True
                self._own[thought.event_id] = thought
                for link in thought.links:
                    self._about.setdefault(link, []).append(thought)
        return found

    def about(self, event_id: str) -> tuple[Thought, ...]:
        """The thoughts that speak of the event, or the event itself where it is one."""
        own = self._own.get(event_id)
        return (own,) if own is not None else tuple(self._about.get(event_id, ()))

    def _new(self) -> Iterator[Thought]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._end)
                for raw in file:
                    if not raw.endswith(b"\n"):
                        return
                    self._end += len(raw)
                    if _MARK in raw:
                        thought = _thought(raw)
                        if thought is not None:
                            yield thought
        except OSError:
            return


def _thought(raw: bytes) -> Thought | None:
    try:
        event: dict[str, Any] = orjson.loads(raw)
        payload = event["payload"]
        links = tuple(str(link) for link in payload.get("links_to") or ())
        text = str(payload.get("content") or payload.get("content_blob_id") or "")
        return Thought(str(event["event_id"]), int(event["seq"]), str(payload.get("kind", "")), text, links)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        return None
