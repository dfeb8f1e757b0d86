"""Agreement of the judge with people: label files, cached scores, weighted kappa, bias by length."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import correlation, fmean, linear_regression, pvariance
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from collector.judge.models import read_lines
from collector.judge.packet import Packet
from collector.judge.port import WIRE_DIMENSIONS, Judge, JudgeResult
from collector.judge.verdict import OPTIONAL_DIMENSION
from tracer.catalog import labels
from tracer.durable import ensure_folder, publish
from tracer.errors import ConfigError, RecordError
from tracer.statedir import StateDir

_NAMES = frozenset({*WIRE_DIMENSIONS, OPTIONAL_DIMENSION, "overall"})
_Score = Annotated[float, Field(ge=0, le=5)]


class Label(BaseModel):
    """One session as a person scored it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    trace_id: Annotated[str, Field(min_length=1, max_length=100)]
    scores: Annotated[dict[str, _Score], Field(min_length=1)]
    judged: dict[str, _Score | None] | None = None
    length: Annotated[int, Field(ge=0)] | None = None

    @field_validator("scores", "judged")
    @classmethod
    def _known(cls, value: dict[str, float] | None) -> dict[str, float] | None:
        unknown = sorted(set(value or {}) - _NAMES)
        if unknown:
            raise ValueError(f"no such dimension: {', '.join(unknown)}")
        return value


_FORM: Final = 'one JSON object a line: {"trace_id": "…", "scores": {"clarity": 4}}'


def read_labels(path: Path) -> list[Label]:
    """The labels of a file."""
    found = read_lines(path, Label, what="label file", form=_FORM)
    if not found:
        raise ConfigError(f"{path.name!r} holds no label", next_step=_FORM)
    return found


def given_labels(state_dir: StateDir) -> list[Label]:
    """What people gave in the browser: of each capture the mean of every author's newest scores."""
    found = labels.newest(labels.read_labels(state_dir, kind="capture"))
    means = {subject: labels.mean_scores(given) for subject, given in found.items()}
    usable = {
        subject: {name: score for name, score in mean.items() if name in _NAMES} for subject, mean in means.items()
    }
    told = [Label(trace_id=subject, scores=scores) for subject, scores in usable.items() if scores]
    if not told:
        raise ConfigError(
            "no capture has a score", next_step="give scores on the pages of pm serve, or name a label file"
        )
    return told


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
            "a verdict could not be kept", why=error, next_step="free space in the state folder"
        ) from error


FEW: Final = 30
"""Below this many sessions the figures say little."""


class Graded(NamedTuple):
    """One session: a person's scores, the judge's (None where refused), and the packet's length in characters."""

    trace_id: str
    person: Mapping[str, float]
    judge: Mapping[str, float | None]
    length: int


class Agreement(NamedTuple):
    """One dimension; None where the data cannot tell. `missing`: sessions a person scored and the judge did not."""

    dimension: str
    compared: int
    missing: int
    kappa: float | None
    difference: float | None
    length_rank: float | None
    length_slope: float | None


class Calibration(NamedTuple):
    """All dimensions that a person scored, and their sessions."""

    sessions: int
    agreements: tuple[Agreement, ...]


def calibrate(rows: Sequence[Graded]) -> Calibration:
    """Agreement by dimension, in the order of the schema; `overall` last where people gave one."""
    names = [
        name for name in (*WIRE_DIMENSIONS, OPTIONAL_DIMENSION, "overall") if any(name in row.person for row in rows)
    ]
    return Calibration(len(rows), tuple(_agreement(name, rows) for name in names))


def _agreement(name: str, rows: Sequence[Graded]) -> Agreement:
    scored = [row for row in rows if name in row.person]
    both = [(row.person[name], judged, row.length) for row in scored if (judged := row.judge.get(name)) is not None]
    person, judge = [pair[0] for pair in both], [pair[1] for pair in both]
    differences = [mine - theirs for theirs, mine, _ in both]
    lengths = [math.log2(max(length, 1)) for _, _, length in both]
    return Agreement(
        dimension=name,
        compared=len(both),
        missing=len(scored) - len(both),
        kappa=weighted_kappa(person, judge),
        difference=fmean(differences) if both else None,
        length_rank=spearman(lengths, differences),
        length_slope=_slope(lengths, differences),
    )


def weighted_kappa(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Cohen's kappa with quadratic weights; None with fewer than two pairs or where both never vary."""
    if len(first) < 2:
        return None
    observed = fmean((a - b) ** 2 for a, b in zip(first, second, strict=True))
    expected = pvariance(first) + pvariance(second) + (fmean(first) - fmean(second)) ** 2
    return None if expected == 0 else 1 - observed / expected


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Rank correlation, ties by their mean rank; None where one side does not vary."""
    if len(first) < 3:
        return None
    return None if len(set(first)) < 2 or len(set(second)) < 2 else correlation(_ranks(first), _ranks(second))


def _slope(lengths: Sequence[float], differences: Sequence[float]) -> float | None:
    return None if len(lengths) < 3 or len(set(lengths)) < 2 else linear_regression(lengths, differences).slope


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda index: values[index])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for index in order[start : end + 1]:
            ranks[index] = (start + end) / 2
        start = end + 1
    return ranks
