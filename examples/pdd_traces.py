"""PDD's agentic tasks leave traces: `install()` once, before PDD runs its first task.

    python examples/pdd_traces.py sync parser      # pdd sync parser, with traces in .pdd/agentic-traces/

Every way that PDD asks an agent goes through `pdd.agentic_common.run_agentic_task`. Importing it imports modules that
take the function by name, so it is replaced in those too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pm_orchestrator import traced


def outcome(result: Any) -> Mapping[str, Any]:
    """What PDD knows better than the session, of its (success, output, cost, provider)."""
    success, _output, cost, provider = result
    return {"success": success, "cost_usd": cost or None, "provider": provider or None}


def with_trace(run_agentic_task: Callable[..., Any]) -> Callable[..., Any]:
    """`run_agentic_task` that distills the session of each task; its label becomes the trace's `operation:module`."""

    def task(instruction: str, cwd: Path, *, label: str = "", **more: Any) -> Any:
        operation, _, module = label.partition(":")
        run = traced(
            label=f"{operation or 'task'}:{module or Path(cwd).name}",
            project_root=cwd,
            output_dir=Path(cwd) / ".pdd" / "agentic-traces",
            outcome=outcome,
        )
        return run(run_agentic_task)(instruction, cwd, label=label, **more)

    return task


def install() -> None:
    """Put the traced function in the place of PDD's, wherever a module of PDD's has it."""
    original = import_module("pdd.agentic_common").run_agentic_task
    traced_task = with_trace(original)
    for name, module in list(sys.modules.items()):
        if name.startswith("pdd.") and getattr(module, "run_agentic_task", None) is original:
            module.run_agentic_task = traced_task  # type: ignore[attr-defined]


if __name__ == "__main__":
    install()
    sys.argv[0] = "pdd"
    import_module("pdd.cli").cli()
