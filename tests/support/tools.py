"""What a test needs beside Python: present, or skipped and listed; with PM_TEST_REQUIRE=all, missing is a failure."""

from __future__ import annotations

import os
import shutil

import pytest

__all__ = ["MISSING", "need", "need_program"]

MISSING: dict[str, int] = {}


def need(available: object, name: str, *, how: str) -> None:
    """Skip (or fail) the running test unless `available`; `how` tells a user what to install."""
    if available:
        return
    wanted = os.environ.get("PM_TEST_REQUIRE", "")
    if wanted == "all" or name in wanted.split(","):
        pytest.fail(f"{name} is missing and PM_TEST_REQUIRE={wanted}; {how}", pytrace=False)
    MISSING[name] = MISSING.get(name, 0) + 1
    pytest.skip(f"needs {name}: {how}")


def need_program(*names: str, how: str) -> str:
    """The path of the first of `names` found on PATH."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    need(found, names[0], how=how)
    return str(found)
