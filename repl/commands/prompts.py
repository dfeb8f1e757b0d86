"""`pm prompts show SHA`: the redacted text of a prompt that traces name by its hash."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import TYPE_CHECKING

from tracer.blobs import DirectoryBlobs
from tracer.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from repl.commands.context import Context

__all__ = ["show"]

_DIGITS = re.compile(r"(?:sha256:)?([0-9a-fA-F]{4,64})")


def show(context: Context, arguments: Namespace) -> int:
    """Print the prompt; a unique beginning of the hash will do."""
    match = _DIGITS.fullmatch(arguments.sha256)
    if match is None:
        raise UsageError(f"{arguments.sha256!r} is no hash", why="give at least 4 hexadecimal digits")
    wanted, blobs = match.group(1).lower(), DirectoryBlobs(context.state_dir.blobs)
    known = [blob for blob in blobs.ids() if blob.removeprefix("sha256:").startswith(wanted)]
    if len(known) != 1:
        what = "no prompt" if not known else f"{len(known)} stored texts"
        raise NotFoundError(f"{what} with hash {wanted!r}", next_step="the meta line of a trace has it: prompt_sha256")
    text = blobs.read(known[0])
    if context.output.human:
        context.output.data(text if text.endswith(b"\n") else text + b"\n")
    shown = {"sha256": known[0].removeprefix("sha256:"), "prompt": text.decode("utf-8", "replace")}
    context.output.result("prompts show", shown)
    return 0
