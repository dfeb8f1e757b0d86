"""What runs, written down before it runs, so that the next `pm` can end what a killed one left behind.

One small file per started program under `control/processes/`: its mark, its id with start time, and the same of the
`pm` that owns it. On disk after a crash: before the start, a file whose mark nothing carries, or one that was not yet
given its name (both removed later); after it, the file that finds the program. Nothing is ever ended by a bare number.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from runner.processes.process_table import boot_id, entry_of, start_of, still_runs
from runner.processes.tree import ProcessTree, end_tree, tree_members
from tracer.errors import RecordError

CHECK_OF: Final = "check of "  # labels of what is no agent begin so
_FOLDER = Path("control") / "processes"
_MARK_LENGTH = 32
_ASIDE = ".new"  # a record that is being written, by the process whose number stands before it


class Orphan(NamedTuple):
    """A program that was found without its `pm` and ended; `ended` is False where it could not be killed."""

    label: str
    pid: int
    ended: bool

    def told(self) -> str:
        """What happened, in one line for users."""
        of_task = f" of {self.label}" if self.label else ""
        what = f"a {self.label}" if self.label.startswith(CHECK_OF) else f"an agent{of_task}"
        how = "was ended" if self.ended else "could not be ended"
        return f"{what} that a killed pm left running {how} (process {self.pid})"


class ProcessRecord:
    """The file that names one running program; `remove` when its tree has ended.

    `intend` and `started` raise RecordError where it cannot be written.
    """

    def __init__(self, state_dir: Path, *, mark: str, label: str) -> None:
        self._path = state_dir / _FOLDER / f"{mark}.json"
        self._facts: dict[str, Any] = {
            "mark": mark,
            "label": label,
            "boot": boot_id(),
            "owner": os.getpid(),
            "owner_start": start_of(os.getpid()),
            "pid": None,
            "start": "",
        }

    def intend(self) -> None:
        """Say what is about to be started."""
        self._write()

    def started(self, pid: int, start: str) -> None:
        """Add the id and start time of the running program."""
        self._facts |= {"pid": pid, "start": start}
        self._write()

    def remove(self) -> None:
        """Forget the program: it has ended. What cannot be removed goes with the next start."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        # No fsync: the file must outlive this process, and a crash of the machine ends the program as well.
        aside = self._path.with_suffix(f".{os.getpid()}{_ASIDE}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            aside.write_text(json.dumps(self._facts), encoding="utf-8")
            aside.chmod(0o600)
            aside.replace(self._path)
        except OSError as error:
            raise RecordError(
                f"cannot record in {str(self._path.parent)!r} what is started",
                why=error,
                next_step="free space or make the state directory writable, then resume",
            ) from error


async def end_orphans(state_dir: Path, *, grace_s: float = 2.0) -> list[Orphan]:
    """End every program whose `pm` no longer lives, and return them; safe to call from several processes at once."""
    found = []
    for path in (state_dir / _FOLDER).glob(f"*{_ASIDE}"):
        writer = path.stem.rpartition(".")[2]
        if not writer.isdigit() or entry_of(int(writer)) is None:  # it was killed before the record had its name
            path.unlink(missing_ok=True)
    for path in sorted((state_dir / _FOLDER).glob("*.json")):
        facts = await asyncio.to_thread(_read, path)
        if facts is None or _alive(facts, "owner", "owner_start"):
            continue
        tree = ProcessTree(mark=str(facts["mark"]), leader=None, start="")
        if _alive(facts, "pid", "start"):
            tree = tree._replace(leader=int(facts["pid"]), start=str(facts["start"]))
        if await asyncio.to_thread(tree_members, tree):
            ended = await end_tree(tree, grace_s=grace_s)
            found.append(Orphan(str(facts.get("label", "")), int(facts["pid"] or 0), ended))
            if not ended:
                continue
        path.unlink(missing_ok=True)
    return found


def _alive(facts: dict[str, Any], pid_key: str, start_key: str) -> bool:
    return bool(facts[pid_key]) and still_runs(facts[pid_key], facts[start_key], boot=facts["boot"])


def _read(path: Path) -> dict[str, Any] | None:
    """The record, or None for a file that is gone or is not one of ours (which is then removed)."""
    try:
        facts = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        facts = None
    kinds = {"mark": str, "boot": str, "owner": int, "owner_start": str, "start": str}
    if isinstance(facts, dict) and all(isinstance(facts.get(key), kind) for key, kind in kinds.items()):
        facts["pid"] = facts["pid"] if isinstance(facts.get("pid"), int) else None
        if len(facts["mark"]) >= _MARK_LENGTH:  # a short mark could be anybody's
            return facts
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return None
