"""The template of the route that took a request: what metrics and traces name it by."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

__all__ = ["ROUTE", "route_of"]

ROUTE: Final = "pm.route"
"""The key of the scope under which the ingest lane says its route."""


def route_of(scope: Scope) -> str:
    """`/api/tasks/{task_id}`; `other` for what no route took."""
    known = scope.get(ROUTE)
    if isinstance(known, str):
        return known
    return str(getattr(scope.get("route"), "path", "other"))
