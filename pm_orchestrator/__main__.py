"""`python -m pm_orchestrator`: the same as `pm`."""

from __future__ import annotations

import sys

from pm_orchestrator.launch import main

if __name__ == "__main__":
    sys.exit(main())
