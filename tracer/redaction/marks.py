"""What stands where a secret stood, `[REDACTED:<rule>:<6 hex>]`, and the project key that makes it.

The key is 32 random bytes in the state directory, readable by its owner only: equal secrets stay equal within a
project, and nobody without the key can test a guess.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
from pathlib import Path

from tracer.durable import ensure_folder, publish
from tracer.errors import RecordError

KEY_NAME = "redaction.key"
KEY_BYTES = 32


def load_key(state_dir: Path) -> bytes:
    """The key of the project whose state is in `state_dir`, made on first use.

    Raises `RecordError` when it can neither be read nor written, or is damaged: going on without it would write
    marks that no later run can compare.
    """
    path = state_dir / KEY_NAME
    try:
        try:
            key = path.read_bytes()
        except FileNotFoundError:
            _create(path)
            key = path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"the redaction key {path} cannot be used",
            why=str(error),
            next_step="make the state folder readable and writable for this user",
        ) from error
    if len(key) != KEY_BYTES:
        raise RecordError(
            f"the redaction key {path} is damaged",
            why=f"it has {len(key)} bytes instead of {KEY_BYTES}",
            next_step="delete it: a new one is made, and marks in older traces no longer compare with new ones",
        )
    return key


def _create(path: Path) -> None:
    ensure_folder(path.parent)
    with contextlib.suppress(FileExistsError):  # another process was quicker
        publish(path, os.urandom(KEY_BYTES))


MARKER = b"[REDACTED:"
PLACEHOLDER = re.compile(rb"\[REDACTED:([a-z0-9][a-z0-9-]{0,63}):[0-9a-f]{6}\]")
_HEX_DIGITS = 6


def placeholder(rule: str, secret: bytes, *, key: bytes) -> bytes:
    """The mark for `secret` (its plain bytes, encodings undone), found by `rule`."""
    digest = hmac.new(key, secret, hashlib.sha256).hexdigest()
    return b"%s%s:%s]" % (MARKER, rule.encode("ascii"), digest[:_HEX_DIGITS].encode("ascii"))
