"""Text that crashed the shell's grammar (a large character after a brace) is parsed like any other."""

from __future__ import annotations

import subprocess
import sys

from tests.repl.support import environment

# In a process of its own: what went wrong was no exception but the end of the process.
_PARSE = """
from runner.gate.source import open_source
for text in ("{\\U0010ffff", "k:{\\U0001f600 x", "echo {\\U0001f40d} # TODO", "a{\\u00e9}"):
    source = open_source("run.sh", text.encode())
    assert source is not None and source.tree is not None
    assert source.tree.root_node.text.decode() == text, text
print("alive")
"""


def test_large_characters_after_a_brace_do_not_end_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PARSE], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "alive\n", (done.returncode, done.stderr)
