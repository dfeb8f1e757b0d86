"""What metrics and traces tell of a request: the template of the route that took it, and the status of the answer."""

from __future__ import annotations

from typing import Final

from starlette.types import Message, Scope, Send

__all__ = ["ROUTE", "StatusNoted", "route_of"]

ROUTE: Final = "pm.route"
"""The key of the scope under which the ingest lane says its route."""


class StatusNoted:
    """A `send` that passes everything on; `status` is that of the answer, 500 as long as there is none."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 500

    async def __call__(self, message: Message) -> None:
        """Pass `message` on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


def route_of(scope: Scope) -> str:
    """`/api/tasks/{task_id}`; `other` for what no route took."""
    known = scope.get(ROUTE)
    if isinstance(known, str):
        return known
    return str(getattr(scope.get("route"), "path", "other"))
