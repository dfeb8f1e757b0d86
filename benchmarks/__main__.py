"""Run every benchmark, or those named: `python -m benchmarks [journal reading startup loop …]`."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks

# The corpus and unseen work have their own commands: they measure judgment, not time.
_LEFT_OUT = {"harness", "criteria", "gate"}


def main(names: list[str]) -> int:
    """Run each module's `main`; returns 0, or 2 where a name is none of a benchmark."""
    found = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name[0] != "_")
    if unknown := [name for name in names if name not in found]:
        sys.stderr.write(f"benchmarks: nothing is named {', '.join(unknown)}\n  there are: {' '.join(found)}\n")
        return 2
    for name in names or [name for name in found if name not in _LEFT_OUT]:
        module = importlib.import_module(f"benchmarks.{name}")
        if hasattr(module, "main"):
            sys.stdout.write(f"\n# {name}\n")
            module.main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
