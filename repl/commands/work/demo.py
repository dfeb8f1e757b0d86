"""`pm demo`: the self-heal fixture with scripted answers in a throw-away folder: no key, no network, nothing kept.

A broken module is handed in with its tests, the first answer leaves a TODO and the tests fail, which rejects it with
reasons; the second answer passes, its tests on a clean copy.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from repl.context import Context
from repl.present.outcome import outcome_error, outcome_fields
from repl.present.progress import Progress
from repl.present.watch import watch_task
from repl.session import Session
from tracer.errors import InternalError
from tracer.journal.reading import read_entries
from tracer.lookup import trace_files
from tracer.trace_text import trace_text

_PROMPT = "Fix broken_module.py"


def fixture_folder() -> Path:
    """The fixture: beside the package in a wheel, in `fixtures/` in a checkout.

    Raises InternalError: it was not shipped.
    """
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "demo_fixture", package.parent / "fixtures" / "self-heal-wrapper"):
        if (folder / "script.jsonl").is_file():
            return folder
    raise InternalError("the demo's fixture is missing", next_step="install pm again")


async def demo(context: Context, arguments: Namespace) -> None:
    fixture = fixture_folder()
    if arguments.show_script:
        context.output.data((fixture / "script.jsonl").read_bytes())
        context.output.ended = True
        return
    folder = Path(tempfile.mkdtemp(prefix="pm-demo-"))
    try:
        for name in ("broken_module.py", "test_login.py"):
            shutil.copy(fixture / name, folder / name)
        await _heal(context, folder, fixture / "script.jsonl", keep=arguments.keep)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)


async def _heal(context: Context, folder: Path, script: Path, *, keep: bool) -> None:
    output = context.output
    tests = shlex.join([sys.executable, "-m", "unittest"])
    flags = {"executor": "scripted", "script": str(script), "kind": "change", "test": tests}
    # Without the user's own pm settings: the demo shows the same to everyone.
    environ = {name: value for name, value in context.environ.items() if not name.startswith("PM_")}
    inner = Context(
        output=output,
        environ={**environ, "XDG_CONFIG_HOME": str(folder / ".config")},
        arguments=Namespace(directory=str(folder), state_dir=str(folder / ".pm-orchestrator"), config=None, **flags),
        command="demo",
    )
    output.note(f"demo: the module is broken, the first answer will not do; working in {folder}")
    async with Session(inner) as session:
        task_id = await session.submit(_PROMPT)
        progress = Progress(task_id)
        outcome = await watch_task(session, output, task_id, progress=progress)
        output.note(progress.closing(outcome))
    entries = read_entries(trace_files(inner.state_dir, outcome.task_id)[0])
    output.lines(trace_text(entries).rstrip("\n").split("\n"))
    error = outcome_error(outcome, max_iterations=progress.max_iterations)
    if error is not None:
        raise error
    output.note(f"kept in {folder}" if keep else "the folder is removed again; --keep leaves it to look around")
    output.note('  next:  pm run "your own request"   or   pm doctor')
    output.result("demo", outcome_fields(outcome))
