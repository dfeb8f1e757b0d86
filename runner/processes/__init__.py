"""Programs are started and ended here and nowhere else.

Whatever is started gets a session of its own, a listed environment, closed or given input and bounded memory for its
output; when the call returns, raises or is cancelled, its whole process tree has ended. `run_command` is for one
command and its output, `Process` for agents whose lines are read as they come, `end_orphans` for what a killed `pm`
left behind.
"""

from __future__ import annotations

from runner.processes.bounded import BoundedOutput, Line, LineSplitter
from runner.processes.command import ProcessResult, run_command
from runner.processes.environment import agent_environment, command_environment
from runner.processes.orphans import CHECK_OF, end_orphans
from runner.processes.stream import Ending, Process, uninterrupted

__all__ = [
    "CHECK_OF",
    "BoundedOutput",
    "Ending",
    "Line",
    "LineSplitter",
    "Process",
    "ProcessResult",
    "agent_environment",
    "command_environment",
    "end_orphans",
    "run_command",
    "uninterrupted",
]
