"""The words that stand for a record without naming it."""

from __future__ import annotations

LAST = "--last"  # the newest task of a project
