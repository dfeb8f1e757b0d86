"""`pm serve` as users start it, for the collector's benchmark; `PM_BENCH_GROUP=1` turns group commit off."""

from __future__ import annotations

import os
import sys
from functools import partial

from collector import opening
from repl.cli import main

if group := os.environ.get("PM_BENCH_GROUP"):
    opening.open_sqlite = partial(opening.open_sqlite, group=int(group))

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
