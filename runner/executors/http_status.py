"""What an HTTP status of a model provider means for a retry; one table for the API and for agents that quote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runner.executors.port import ErrorKind

__all__ = ["KIND_BY_STATUS"]

KIND_BY_STATUS: Final[Mapping[int, ErrorKind]] = {
    401: "auth",
    402: "auth",
    403: "auth",
    404: "unavailable",
    408: "timeout",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
