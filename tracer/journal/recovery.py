"""Traces that were damaged or deleted while they were written, and whose writer was killed before it put them back.

A writer that ends well leaves no second copy, so one that nobody holds is a killed writer's.
"""

from __future__ import annotations

import os
from contextlib import suppress

from tracer.errors import LockedError
from tracer.journal.record_file import RecordFile
from tracer.statedir import StateDir, parse_trace_name


def recover_records(state_dir: StateDir) -> list[str]:
    """Put back what killed writers of this state directory could not, and name it.

    Costs a look at a folder where there is nothing.

    Raises:
        RecordError: a record cannot be written.

    """
    if (copies := state_dir.copies) is None or not copies.is_dir():
        return []
    found = []
    for name in sorted(name for name in os.listdir(copies) if name.endswith(".jsonl")):
        state_dir.ensure()
        trace = parse_trace_name(name)
        folder = state_dir.tracepack if trace is None else state_dir.traces
        lock = None if trace is None else state_dir.task_lock(trace.task_id)
        with suppress(LockedError):  # it is being written
            if RecordFile.recover(folder / name, lock_path=lock, copies=copies):
                found.append(f"{folder.name}/{name}")
    return found
