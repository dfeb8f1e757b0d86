"""Runs `pm record` for real in a terminal and draws it: docs/pictures/record.svg and captures.svg.

A bug in a small repository is found, fixed and committed in a recorded bash; the second picture shows the capture in
full screen. Needs bash, git and the packages of the tests (pexpect); no network.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pexpect
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from textual.pilot import Pilot  # noqa: E402 - the checkout comes first on the path

import docs.make_pictures as pictures  # noqa: E402
from collector.recorder.screen_text import PlainText  # noqa: E402
from repl.screen.app import PmApp  # noqa: E402

WIDTH, PROMPT = 104, "~/shop $ "
BUGGY = '"""A cart."""\n\n\ndef total(prices):\n    return sum(prices[1:])\n'
TEST = (
    "import unittest\nfrom cart import total\n\n\nclass Cart(unittest.TestCase):\n"
    "    def test_total(self):\n        self.assertEqual(total([1, 2, 3]), 6)\n"
)
LINES = (
    "python -m unittest -q",
    'pm think "the first price is sliced off" --kind hypothesis',
    "sed -i 's/prices\\[1:\\]/prices/' cart.py",
    "python -m unittest -q",
    "git commit -qam 'Sum all prices'",
)


def prepare(place: Path) -> tuple[Path, dict[str, str]]:
    """A home, a `pm`, and a repository with a bug."""
    home, repo, programs = place / "home", place / "shop", place / "bin"
    for folder in (home, repo, programs):
        folder.mkdir()
    (home / ".bashrc").write_text(f"PS1='{PROMPT}'\nbind 'set enable-bracketed-paste off'\n")
    start = shlex.join([sys.executable, "-c", "import sys; from repl.cli import main; sys.exit(main())"])
    (programs / "pm").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {start} "$@"\n')
    (programs / "pm").chmod(0o755)
    (repo / "cart.py").write_text(BUGGY)
    (repo / "test_cart.py").write_text(TEST)
    (repo / ".gitignore").write_text("__pycache__\n")
    environ = {
        **os.environ,
        "HOME": str(home),
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "SHELL": "bash",
        "NO_COLOR": "1",
    }
    for words in ("init -q -b main", "config user.name Ann", "config user.email ann@example.com", "add -A"):
        subprocess.run(["git", *words.split()], cwd=repo, check=True, env=environ)
    subprocess.run(["git", "commit", "-qm", "A cart"], cwd=repo, check=True, env=environ)
    return repo, environ


def record(repo: Path, environ: dict[str, str]) -> str:
    """One recorded session; what the terminal showed."""
    words = ["record", "--shell", "bash", "--consent", "output,judge", "--title", "the total of a cart is too small"]
    child = pexpect.spawn("pm", words, cwd=str(repo), env=environ, dimensions=(40, WIDTH), encoding="utf-8", timeout=60)
    seen = io.StringIO()
    child.logfile_read = seen
    for line in LINES:
        child.expect_exact(PROMPT)
        child.send(line + "\r")
    child.expect_exact(PROMPT)
    child.send("exit\r")
    child.expect_exact("[Y/n]")
    child.send("n\r")
    child.expect(pexpect.EOF)
    child.close()
    plain = PlainText()
    return plain.feed(seen.getvalue().encode()) + plain.close()


def draw(text: str) -> None:
    """The terminal as a picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text('~/shop $ pm record --title "the total of a cart is too small"', style="bold"))
    for line in text.splitlines():
        shown = Text(line, style="bold" if line.startswith(PROMPT) else "")
        shown.highlight_regex(r"\b(?:FAILED|FAIL|failed)\b", style="bold red")
        shown.highlight_regex(r"\b(?:OK|passed)\b", style="bold green")
        console.print(shown)
    drawing = pictures.standalone(console.export_svg(title="pm record"))
    (pictures.PICTURES / "record.svg").write_text(re.sub(r"<!--.*?-->\s*", "", drawing), encoding="utf-8")


async def capture(repo: Path, environ: dict[str, str]) -> None:
    """The same capture in full screen."""
    from argparse import Namespace

    from repl.context import Context
    from repl.present.output import Output
    from repl.session import Session

    arguments = Namespace(directory=str(repo), state_dir=None, config=None, help=False, no_input=False, yes=False)
    output = Output(stdout=io.StringIO(), stderr=io.StringIO())
    known = {**environ, "PM_EXECUTOR": "scripted", "PM_SCRIPT": os.devnull, "PM_REPL_THEME": "dark"}
    async with Session(Context(output=output, environ=known, arguments=arguments), interactive=True) as session:
        app = PmApp(session, greeting=["pm"])
        async with app.run_test(size=(112, 30)) as pilot:
            await show(app, pilot)


async def show(app: PmApp, pilot: Pilot[None]) -> None:
    """Open the capture and go to the edit that the thought speaks of."""
    from repl.screen.captures import CaptureScreen

    await pilot.press("f3")
    await pictures.until(pilot, lambda: app.screen is not app.home)
    await pilot.pause(0.5)
    await pilot.press("enter")
    await pictures.until(pilot, lambda: isinstance(app.screen, CaptureScreen))
    await pilot.pause(0.5)
    await pilot.press("down", "down")
    await pictures.shoot(app, pilot, "captures")


def main() -> None:
    """Record, draw, show."""
    with tempfile.TemporaryDirectory() as folder:
        repo, environ = prepare(Path(folder))
        text = record(repo, environ)
        draw(text.replace(str(Path(folder).resolve()), "~"))
        asyncio.run(capture(repo, environ))


if __name__ == "__main__":
    main()
