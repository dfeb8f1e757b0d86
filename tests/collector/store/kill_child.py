"""Starts the processes that are killed: `pm serve`, forked from a process that has imported it (importing takes 2 s).

Reads a port a line, answers with the new process's id; each is the leader of a session of its own.
"""

from __future__ import annotations

import os
import signal
import sys

import collector.store.postgres.store
import repl.commands.setup.serve
import service.app
import service.server
from repl.cli import main

__all__ = ["collector", "repl", "service"]


def _serve(port: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    silent = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(silent, descriptor)
    os._exit(main(["serve", "--port", port]))


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the killed need no wait
    for line in iter(sys.stdin.readline, ""):
        child = os.fork()
        if child == 0:
            _serve(line.strip())
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
