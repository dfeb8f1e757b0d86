"""The entry point of the `pm` command: our own packages first, then `repl.cli`; a broken installation is explained.

The path is set when this module is imported and not in `main`: multiprocessing runs the `pm` script again, without
calling `main`, in the server that workers are forked from.
"""

from __future__ import annotations

import sys

from pm_orchestrator.rooms import keep_foreign_out

_UNAVAILABLE = 5  # repl.exit_codes, which may be what cannot be imported

keep_foreign_out()


def main() -> int:
    """Run the process's command line; the exit code."""
    try:
        from repl.cli import main as run

        return run(explain=_explain)
    except Exception:  # the outermost boundary: what another distribution put over our files may raise anything
        broken = _explain()
        if broken is None:
            raise
        sys.stderr.write("pm: {}\n  {}\n  next:  {}\n".format(*broken))
        return _UNAVAILABLE


def _explain() -> tuple[str, str, str] | None:
    from pm_orchestrator.installation import explain  # 20 ms, only after a failure

    return explain()
