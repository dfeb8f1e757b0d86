"""Scores kept by content, so that a second calibration asks nobody: same packet, model, rubric and votes.

Only numbers and flags are kept, nothing that the session said: they may outlive a session that was deleted on request.
A file `<folder>/<sha256>.json` appears whole or not at all; a damaged one counts as missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from collector.qa.judge_port import Judge, JudgeResult
from collector.qa.packet import Packet
from tracer.durable import ensure_folder, publish
from tracer.errors import RecordError

__all__ = ["RememberedScores"]


class _Kept(BaseModel):
    """A verdict on disk."""

    model_config = ConfigDict(extra="forbid")

    model: str
    rubric_version: str
    scores: dict[str, float | None]
    overall: float | None
    flags: tuple[str, ...]
    correctness_confidence: float | None
    votes: int
    spread: dict[str, float]


class RememberedScores:
    """A judge with a memory for scores in `folder`; a remembered result has no rationale. Errors are not remembered."""

    def __init__(self, judge: Judge, folder: Path) -> None:
        self._judge = judge
        self._folder = folder

    @property
    def identity(self) -> str:
        """See `Judge.identity`."""
        return self._judge.identity

    async def judge(self, packet: Packet) -> JudgeResult:
        """See `Judge.judge`; a RecordError where the verdict cannot be kept."""
        name = hashlib.sha256(f"{packet.content_hash}\n{self.identity}".encode()).hexdigest()
        path = self._folder / f"{name}.json"
        kept = await asyncio.to_thread(_read, path)
        if kept is not None:
            return kept
        result = await self._judge.judge(packet)
        await asyncio.to_thread(_write, path, result)
        return result

    async def close(self) -> None:
        """Close the judge."""
        await self._judge.close()


def _read(path: Path) -> JudgeResult | None:
    try:
        kept = _Kept.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return JudgeResult(**{name: getattr(kept, name) for name in _Kept.model_fields}, rationale="")


def _write(path: Path, result: JudgeResult) -> None:
    data = _Kept(**{name: getattr(result, name) for name in _Kept.model_fields}).model_dump_json().encode()
    try:
        ensure_folder(path.parent)
        with contextlib.suppress(FileExistsError):  # another process judged the same packet: its verdict stays
            publish(path, data)
    except OSError as error:
        raise RecordError(
            "a verdict could not be kept", why=error.strerror or str(error), next_step="free space in the state folder"
        ) from error
