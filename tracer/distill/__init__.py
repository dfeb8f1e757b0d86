"""Native agent sessions made into compact traces (seed 000). `distill_session` is the door for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracer.distill.session import distill_session

__all__ = ["distill_session"]


def __getattr__(name: str) -> Any:
    """Imported on first use: the readers cost 60 ms that `pm version` must not pay."""
    if name == "distill_session":
        from tracer.distill.session import distill_session

        return distill_session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
