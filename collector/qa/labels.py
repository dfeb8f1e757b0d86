"""Files of people's scores, one JSON object a line, for `pm judge calibrate` (docs/judge.md).

`{"trace_id": "…", "scores": {"clarity": 4, …}}`; with `judged` (scores) and `length` (characters) the line is complete
in itself and no judge is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from collector.qa.judge_port import WIRE_DIMENSIONS
from collector.qa.rubric import OPTIONAL_DIMENSION
from tracer.errors import ConfigError

__all__ = ["Label", "read_labels"]

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


def read_labels(path: Path) -> list[Label]:
    """The labels of a file.

    Raises:
        ConfigError: it cannot be read, holds no label, or a line is none.

    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"{path.name!r} cannot be read", why=error.strerror or str(error)) from error
    labels = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                labels.append(Label.model_validate_json(line))
            except ValidationError as error:
                fault = error.errors(include_url=False, include_input=False)[0]
                place = ".".join(map(str, fault["loc"])) or "line"
                raise ConfigError(
                    f"line {number} of {path.name!r} is no label",
                    why=f"{place}: {fault['msg']}",
                    next_step='one JSON object a line: {"trace_id": "…", "scores": {"clarity": 4}}',
                ) from error
    if not labels:
        raise ConfigError(f"{path.name!r} holds no label", next_step='{"trace_id": "…", "scores": {"clarity": 4}}')
    return labels
