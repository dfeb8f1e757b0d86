"""Values set aside while a document's beginning is still being found out: on disk, numbered from 0, read in any order.

Memory holds eight bytes a value. The file has no name and is gone with its `Aside`.
"""

from __future__ import annotations

import tempfile
from array import array
from types import TracebackType
from typing import Any, Final, Self

import orjson

__all__ = ["Aside"]

_IN_MEMORY: Final = 8 << 20


class Aside:
    """JSON values in the order in which they were put."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by __exit__
        self._ends = array("q", [0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def put(self, value: Any) -> None:
        """Keep a value; its number is how many came before it."""
        self._file.seek(self._ends[-1])
        self._ends.append(self._ends[-1] + self._file.write(orjson.dumps(value)))

    def get(self, number: int) -> Any:
        """The value of that number."""
        self._file.seek(self._ends[number])
        return orjson.loads(self._file.read(self._ends[number + 1] - self._ends[number]))
