"""The entry point of the `pm` command: our own packages first, then `repl.cli`; a broken installation is explained.

The rooms' names are common words: a project may have its own `runner/` or `service/`, and users set PYTHONPATH=. so
that their tests find it. Such folders are left out of this process's path. The environment stays as it is, so programs
that pm starts (tests, agents, editors, recorded shells) find what their user meant them to find.

The path is set when this module is imported and not in `main`: multiprocessing runs the `pm` script again, without
calling `main`, in the server that workers are forked from.
"""

from __future__ import annotations

import gc
import os
import site
import sys

from pm_orchestrator import ROOMS, ROOT, own_place

_UNAVAILABLE = 5  # repl.exit_codes, which may be what cannot be imported


def main() -> int:
    """Run the process's command line; the exit code."""
    try:
        from repl.cli import main as run

        return run(explain=_explain)
    except Exception:  # the outermost boundary: what another distribution put over our files may raise anything
        broken = _explain()
        if broken is None:
            raise
        sys.stderr.write("pm: {}\n  {}\n  next:  {}\n".format(*broken))
        return _UNAVAILABLE
    finally:
        gc.freeze()  # at the end all memory goes at once: looking for garbage in it would take 5 ms


def _explain() -> tuple[str, str, str] | None:
    from pm_orchestrator.installation import explain  # 20 ms, only after a failure

    return explain()


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
    installed = [entry for entry in _pth_entries([entry for entry in path if entry in sites]) if entry in dropped]
    kept = [entry for entry in path if os.path.abspath(entry) not in dropped]
    at = next((place for place, entry in enumerate(kept) if entry in sites), len(kept))
    return [*kept[:at], root, *(entry for entry in kept[at:] if entry != root), *installed]


def _pth_entries(sites: list[str]) -> list[str]:
    """The folders that .pth files of `sites` put on the path."""
    entries: list[str] = []
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
            named = [line.rstrip() for line in lines if not line.startswith(("#", "import ", "import\t"))]
            entries += [os.path.abspath(os.path.join(folder, line)) for line in named if line]
    return entries


keep_foreign_out()
