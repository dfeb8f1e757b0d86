"""The public API of pm: every name that programs outside this repository may import (docs/python.md).

The names are loaded on first use (PEP 562): the `pm` command imports this package before anything else, and
`pm version` must not pay for a trace reader. This is the one `__init__` file that is not empty.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # type checkers take this name for true; `typing` itself costs a fifth of `pm version`
if TYPE_CHECKING:
    from runner.gate.criterion import (
        ChangedFile,
        ClaimedPath,
        CommandResult,
        Criterion,
        Evidence,
        Finding,
        ModelReply,
        Models,
        NotVerified,
        Place,
    )
    from tracer.conversation import ConversationTracer
    from tracer.distill.native import Distilled
    from tracer.distill.one import distill_session
    from tracer.distill.traced import traced
    from tracer.errors import ConfigError, LockedError, NotFoundError, PmError, RecordError, TraceError, UsageError
    from tracer.facts import Entry
    from tracer.insights.agentic_trace import Trace as AgenticTrace
    from tracer.insights.agentic_trace import read_agentic
    from tracer.insights.report import Comparison, Insights, compare, insights
    from tracer.journal.reading import read_entries as read_trace
    from tracer.redaction.engine import ProjectRedactor, build_redactor

__all__ = [
    "AgenticTrace",
    "ChangedFile",
    "ClaimedPath",
    "CommandResult",
    "Comparison",
    "ConfigError",
    "ConversationTracer",
    "Criterion",
    "Distilled",
    "Entry",
    "Evidence",
    "Finding",
    "Insights",
    "LockedError",
    "ModelReply",
    "Models",
    "NotFoundError",
    "NotVerified",
    "Place",
    "PmError",
    "ProjectRedactor",
    "RecordError",
    "TraceError",
    "UsageError",
    "build_redactor",
    "compare",
    "distill_session",
    "insights",
    "read_agentic",
    "read_trace",
    "traced",
]

# Our own top-level packages, and the folder that holds them and this one. Not part of the API, like all that follows.
ROOMS = ("tracer", "runner", "collector", "service", "repl")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Where each public name is defined: `module`, or `module:name` where it is called differently there.
_HOMES = {
    "AgenticTrace": "tracer.insights.agentic_trace:Trace",
    "ChangedFile": "runner.gate.criterion",
    "ClaimedPath": "runner.gate.criterion",
    "CommandResult": "runner.gate.criterion",
    "Comparison": "tracer.insights.report",
    "ConfigError": "tracer.errors",
    "ConversationTracer": "tracer.conversation",
    "Criterion": "runner.gate.criterion",
    "Distilled": "tracer.distill.native",
    "Entry": "tracer.facts",
    "Evidence": "runner.gate.criterion",
    "Finding": "runner.gate.criterion",
    "Insights": "tracer.insights.report",
    "LockedError": "tracer.errors",
    "ModelReply": "runner.gate.criterion",
    "Models": "runner.gate.criterion",
    "NotFoundError": "tracer.errors",
    "NotVerified": "runner.gate.criterion",
    "Place": "runner.gate.criterion",
    "PmError": "tracer.errors",
    "ProjectRedactor": "tracer.redaction.engine",
    "RecordError": "tracer.errors",
    "TraceError": "tracer.errors",
    "UsageError": "tracer.errors",
    "build_redactor": "tracer.redaction.engine",
    "compare": "tracer.insights.report",
    "distill_session": "tracer.distill.one",
    "insights": "tracer.insights.report",
    "read_agentic": "tracer.insights.agentic_trace",
    "read_trace": "tracer.journal.reading:read_entries",
    "traced": "tracer.distill.traced",
}


def own_place(room: str) -> str:
    """The folder of our room."""
    return os.path.join(ROOT, room)


def place_of(room: str) -> str | None:
    """The folder (or file) that `import room` finds or found in this process, None for nothing; it is not executed."""
    from importlib.util import find_spec  # for users of the API and after a failure

    try:
        spec = find_spec(room)
    except ValueError:  # a module made at run time has no spec
        return None
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or [])
    return own_place(room) if own_place(room) in places else next(iter(places), spec.origin)


def _load(name: str) -> object:
    """The public name `name`, imported now and kept.

    Raises:
        AttributeError: it is not public.
        ImportError: this process has another package where one of ours should be.

    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # loaded by the interpreter anyway

    module, _, attribute = _HOMES[name].partition(":")
    room = module.partition(".")[0]
    if (found := place_of(room)) != own_place(room):
        raise ImportError(
            f"cannot import {name!r} from {__name__!r}: it needs pm's package {room!r} at {own_place(room)!r}, "
            f"and this process finds {found or 'none'!r} under that name",
            name=room,
            path=found,
        )
    value: object = getattr(import_module(module), attribute or name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # type checkers would take every misspelt name for one of ours
    __getattr__ = _load


def __dir__() -> list[str]:
    return __all__
