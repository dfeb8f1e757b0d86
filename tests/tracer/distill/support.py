"""Native sessions of every version, unpacked into a private home, with what really happened in them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parent / "data"
SCENARIOS = sorted(str(path.parent.relative_to(DATA)) for path in DATA.glob("*/*/truth.json.gz"))


class Native(NamedTuple):
    """One scenario: where its files are now, and the truth about it."""

    provider: Any
    home: Path
    truth: dict[str, Any]

    @property
    def path(self) -> Path:
        """The main session file."""
        found = [
            path
            for path in self.home.rglob("*.json*")
            if ({"projects", "sessions", "chats", "session-state"} & set(path.parts))
            and not path.name.startswith("agent-")
            and path.name != "projects.json"
        ]
        assert len(found) == 1, found
        return found[0]

    @property
    def environ(self) -> dict[str, str]:
        """The environment that makes the locators look here."""
        return {"HOME": str(self.home)}


def unpack(scenario: str, home: Path) -> Native:
    """Unpack `scenario` (`provider/name[@version]`) below `home`."""
    for packed in (DATA / scenario / "native").rglob("*.gz"):
        relative = packed.relative_to(DATA / scenario / "native").with_suffix("")
        target = home / f".{relative}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.decompress(packed.read_bytes()))
    truth = json.loads(gzip.decompress((DATA / scenario / "truth.json.gz").read_bytes()))
    return Native(scenario.split("/", 1)[0], home, truth)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The trace's lines as objects."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def of_type(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The lines of one type."""
    return [line for line in lines if line["type"] == kind]


class NoRedactor:
    """Leaves everything as it is, so that tests compare bytes."""

    def redact_text(self, text: str) -> tuple[str, Mapping[str, int]]:
        return text, {}

    def redact_value(self, value: Any) -> Any:
        raise NotImplementedError
