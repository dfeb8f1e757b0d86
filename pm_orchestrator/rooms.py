"""Where pm's own top-level packages ("rooms") are, and the import path on which they are found first.

The names of the rooms are common words: a project may have its own `runner/` or `service/`, and users set PYTHONPATH=.
so that their tests find it. `keep_foreign_out` leaves such folders out of this process's path. The environment stays
as it is, so programs that pm starts (tests, agents, editors, recorded shells) find what their user meant them to find.
"""

from __future__ import annotations

import os
import site
import sys

ROOMS = ("tracer", "runner", "collector", "service", "repl")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def keep_foreign_out() -> None:
    """Take PYTHONPATH and the starting script's folder out of `sys.path`, and foreign rooms out of `sys.modules`.

    What a sitecustomize or a module in place of a standard one (`re.py`) does before is beyond any program's reach.
    """
    given = os.environ["PYTHONPATH"].split(os.pathsep) if os.environ.get("PYTHONPATH") else []
    if not sys.flags.safe_path:
        given += sys.path[:1]
    sys.path[:] = own_path(sys.path, root=ROOT, given=given)
    for room in ROOMS:
        if room in sys.modules and own_place(room) not in getattr(sys.modules[room], "__path__", ()):
            for name in [name for name in sys.modules if name == room or name.startswith(f"{room}.")]:
                del sys.modules[name]


def own_path(path: list[str], *, root: str, given: list[str]) -> list[str]:
    """`path` without the entries `given` for other programs, and with `root` before all other site folders.

    Dropped and not moved to the end: optional imports (`websockets`, `uvloop`) would find a project's folder of that
    name. Site folders and `root` itself are kept (`pip install --target X` with PYTHONPATH=X), and so is what a .pth
    file names (a team's criteria, installed editable), but behind them. `root` comes after the standard library.
    """
    sites = {root, *site.getsitepackages(), site.USER_SITE or root}
    dropped = {os.path.abspath(entry) for entry in given} - sites - {os.path.dirname(os.__file__)}
    installed = [entry for entry in _pth_entries(sites) if entry in dropped] if dropped else []
    kept = [entry for entry in path if os.path.abspath(entry) not in dropped]
    at = next((place for place, entry in enumerate(kept) if entry in sites), len(kept))
    return [*kept[:at], root, *(entry for entry in kept[at:] if entry != root), *installed]


def _pth_entries(sites: set[str]) -> list[str]:
    """The folders that .pth files of `sites` put on the path."""
    entries: dict[str, None] = {}
    for folder in sites:
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".pth"))
        except OSError:  # not every site folder exists
            continue
        for name in names:
            try:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    lines = file.read().splitlines()
            except OSError:
                continue
            for line in lines:
                if line.strip() and not line.startswith(("#", "import ", "import\t")):
                    entries[os.path.abspath(os.path.join(folder, line.rstrip()))] = None
    return list(entries)


def own_place(room: str) -> str:
    """The folder of our room."""
    return os.path.join(ROOT, room)


def place_of(room: str) -> str | None:
    """The folder (or file) that `import room` finds or found in this process, None for nothing; it is not executed."""
    from importlib.util import find_spec  # for users of the API and after a failure

    try:
        spec = find_spec(room)
    except ValueError:  # a module made at run time has no spec
        return None
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or [])
    return own_place(room) if own_place(room) in places else next(iter(places), spec.origin)
