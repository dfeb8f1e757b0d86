"""The constrained strings and numbers that a captured trace is made of, each with the rule it is held to.

Numbers are whole in the sense of JSON Schema (`1.0` is an integer, `true` and `"1"` are none); identifiers are what
their names say. Paths of edits and snapshots stay inside the workspace, since they are replayed.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

MAX_SAFE_INTEGER: Final = 2**53 - 1
LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999
_NAME_LENGTH, _PATH_LENGTH, _TEXT_LENGTH = 1_000, 4_096, 1 << 20
_SEPARATORS: Final = re.compile(r"[/\\]")
_DRIVE: Final = re.compile(r"[A-Za-z]:")


class Closed(BaseModel):
    """The base of every block: values never change, unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


# Characters that HFS+ passes over in names.
_IGNORED: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def _whole(value: Any) -> Any:
    if type(value) is float and value.is_integer():
        return int(value)
    return value


def is_git_folder(name: str) -> bool:
    """Whether some file system takes the name for `.git`, or for a path through it: as macOS or as Windows reads it."""
    if "git" not in name.casefold() and name.isascii():
        return False
    parts = _IGNORED.sub("", name).casefold().split("\\")
    return any(part.partition(":")[0].rstrip(". ") in {".git", "git~1"} for part in parts)


def _inside(path: str) -> str:
    """`path` if it names something inside the workspace and outside `.git`."""
    if path.startswith(("/", "\\", "~")) or _DRIVE.match(path):
        raise ValueError("the path must be relative to the workspace")
    names = _SEPARATORS.split(path)
    if ".." in names:
        raise ValueError("the path must not contain '..'")
    if any(map(is_git_folder, names)):
        raise ValueError("the path must not lie in .git")
    if "" in names or "." in names:
        raise ValueError("the path must not contain empty or '.' parts")
    return path


def _no_parents(path: str) -> str:
    if ".." in path and ".." in _SEPARATORS.split(path):
        raise ValueError("the path must not contain '..'")
    return path


BlobId = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Uuid = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")]
GitSha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=_NAME_LENGTH)]
Text = Annotated[str, StringConstraints(max_length=_TEXT_LENGTH)]
SourcePath = Annotated[str, StringConstraints(min_length=1, max_length=_PATH_LENGTH), AfterValidator(_inside)]
ViewedPath = Annotated[str, StringConstraints(min_length=1, max_length=_PATH_LENGTH), AfterValidator(_no_parents)]
# Field stands before BeforeValidator: the other way round the bounds vanish from the JSON Schema.
Whole = Annotated[int, Field(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER), BeforeValidator(_whole)]
Count = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER), BeforeValidator(_whole)]
Seq = Annotated[int, Field(ge=1, le=MAX_SAFE_INTEGER), BeforeValidator(_whole)]
Millis = Annotated[int, Field(ge=0, le=LAST_MS), BeforeValidator(_whole)]
ExitCode = Annotated[int, Field(ge=-(2**31), le=2**32 - 1), BeforeValidator(_whole)]
BlobType = Literal["text/plain", "application/json", "application/gzip", "application/octet-stream"]
