"""How well the gate judges work that nobody tuned it to (docs/criteria.md, "Measured on unseen work")."""

from __future__ import annotations


def main() -> None:
    """The time of `pm gate --fast`; the measures of judgment have a command of their own: `-m benchmarks.gate`."""
    from benchmarks.gate.fast import main as fast

    fast()
