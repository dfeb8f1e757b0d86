"""The judge's ports: `Judge` scores a packet, `JudgeModel` answers one request of it. Values are frozen.

A verdict is always one of: six scores with an overall, or nulls with the flag that says why. Trouble on the way to the
model is an error, never a score: `JudgeBusyError` is worth another try, every other `PmError` is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol

from collector.judge.packet import Packet
from tracer.capture.document import Scores
from tracer.errors import UnavailableError

WIRE_DIMENSIONS: Final = tuple(Scores.model_fields)  # in the order of seed 002
Outcome = Literal["answered", "refused", "length"]


class JudgeBusyError(UnavailableError):
    """The model cannot answer now (rate, load, network); `retry_after_s` is what it asks for, if it does."""

    def __init__(self, what: str, *, why: str = "", next_step: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(what, why=why, next_step=next_step)
        self.retry_after_s = retry_after_s


class Exchange(NamedTuple):
    """One request as it was sent and the response as it came, both JSON; kept as blobs for audit."""

    request: bytes
    response: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request: the packet, which vote this is, and what an earlier attempt of this vote said and got told."""

    packet: Packet
    vote: int = 0
    attempt: int = 0
    earlier: str = ""
    repair: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """What came back: the text (not yet checked), how it ended, and both bodies."""

    text: str
    outcome: Outcome
    exchange: Exchange
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeResult:
    """A verdict. `overall` is the mean of the six to one decimal, None where one of them is None.

    `spread` is the largest minus the smallest vote by dimension, `citations` the events each score rests on, `reason`
    says in words why scores are null.
    """

    model: str
    rubric_version: str
    scores: Mapping[str, float | None]
    overall: float | None
    rationale: str
    flags: tuple[str, ...]
    correctness_confidence: float | None = None
    votes: int = 1
    spread: Mapping[str, float] = field(default_factory=dict)
    citations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exchanges: tuple[Exchange, ...] = ()
    reason: str = ""


class JudgeModel(Protocol):
    """Something that answers a question of the judge. `identity` names it wholly: the cache key holds it."""

    @property
    def identity(self) -> str:
        """Model and kind of adapter."""
        ...

    async def ask(self, question: Question) -> ModelAnswer:
        """One answer.

        Raises:
            JudgeBusyError: not now.
            CredentialsError: no key, or a refused one.
            UnavailableError: never, as things are (no such model, a request it cannot take).

        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class Judge(Protocol):
    """Scores packets."""

    @property
    def identity(self) -> str:
        """Model, rubric version and votes: what a verdict depends on beside the packet."""
        ...

    async def judge(self, packet: Packet) -> JudgeResult:
        """The verdict on one packet; raises as `JudgeModel.ask`."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...
