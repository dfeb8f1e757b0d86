"""What native sessions there are: provider, project, age, size, distilled or not, days until they are deleted."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tracer.clock import now_epoch_ms
from tracer.distill.locate.find import find_sessions, provider_root
from tracer.distill.native import PROVIDER_NAMES, NativeSession, Provider
from tracer.distill.native_files import as_object, json_file
from tracer.distill.stored import stored_traces

_DAY_MS: Final = 86_400_000
_DEFAULT_DAYS: Final = 30
_SPAN: Final = re.compile(r"(\d{1,5})\s*([hdwm])")
# Gemini's own grammar, in which `m` is a month.
_SPAN_DAYS: Final = {"h": 1 / 24, "d": 1.0, "w": 7.0, "m": 30.0}


class NativeRow(NamedTuple):
    """One session. `distilled` is `yes`, `no` or `changed` (it grew since); `days_left` is None for never deleted."""

    session: NativeSession
    distilled: str
    trace: str | None
    days_left: int | None

    def to_dict(self) -> dict[str, Any]:
        """As `pm sessions --json` prints it."""
        session = self.session
        return {
            "provider": session.provider,
            "session_id": session.session_id,
            "project": session.cwd,
            "path": str(session.path),
            "modified_ms": session.modified_ms,
            "size": session.size,
            "cli_version": session.cli_version,
            "distilled": self.distilled,
            "trace": self.trace,
            "days_left": self.days_left,
        }


def list_native(
    folders: list[Path],
    *,
    provider: Provider | None = None,
    project: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[NativeRow]:
    """Every native session found, newest first; `folders` are where its trace may lie."""
    known: dict[tuple[str, str], tuple[Path, int]] = {}
    for folder in folders:
        for path, meta in stored_traces(folder):
            written = path.stat().st_mtime_ns // 1_000_000
            known[str(meta.get("provider")), str(meta.get("session_id"))] = (path, written)
    kept: dict[Provider, float | None] = {}
    rows: list[NativeRow] = []
    for session in find_sessions(provider, project=project, environ=environ):
        name = session.provider
        if name not in kept:
            kept[name] = retention_days(name, environ)
        trace = known.get((PROVIDER_NAMES[name], session.session_id))
        state = "no" if trace is None else "changed" if session.modified_ms > trace[1] else "yes"
        left = None
        if (days := kept[name]) is not None:
            left = max(0, int((session.modified_ms + days * _DAY_MS - now_epoch_ms()) // _DAY_MS))
        rows.append(NativeRow(session, state, str(trace[0]) if trace else None, left))
    return rows


def retention_days(provider: Provider, environ: Mapping[str, str] | None = None) -> float | None:
    """After how many days the provider deletes a session (its setting, else its default); None where it never does."""
    environ = os.environ if environ is None else environ
    if provider in {"codex", "copilot", "opencode"}:
        return None
    if provider == "claude":
        settings = json_file(provider_root("claude", environ).parent / "settings.json")
        days = settings.get("cleanupPeriodDays", _DEFAULT_DAYS)
        return float(days) if isinstance(days, int | float) and not isinstance(days, bool) else float(_DEFAULT_DAYS)
    settings = json_file(provider_root("gemini", environ).parent / "settings.json")
    retention = as_object(settings.get("general")).get("sessionRetention")
    if not isinstance(retention, dict):
        return float(_DEFAULT_DAYS)
    if retention.get("enabled") is False:
        return None
    span = _SPAN.fullmatch(str(retention.get("maxAge", f"{_DEFAULT_DAYS}d")))
    return int(span.group(1)) * _SPAN_DAYS[span.group(2)] if span else float(_DEFAULT_DAYS)
