"""A file as it stands now, and as it was last recorded: what is compared to tell of an edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from collector.recorder.places import PLAIN, Look

__all__ = ["Content", "Known"]


class Content(NamedTuple):
    """What stands on disk: its facts, and its stored form; `why` says what kept it from being stored."""

    look: Look | None
    data: bytes | None
    why: str = ""
    size: int = 0
    mode: str = PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A file as last recorded: the blob of its stored form, None where it does not exist; `why` as in `Content`.

    `mode` is git's, None where it is not known; `size` is that of a content that is not kept.
    """

    blob_id: str | None
    look: Look | None = None
    why: str = ""
    mode: str | None = None
    size: int = 0
