"""Runs `pm demo` for real and draws what the terminal showed: docs/pictures/demo.svg, the picture in the README."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 118


def main() -> None:
    """Record one run and write the picture."""
    run = subprocess.run(
        [sys.executable, "-c", "import sys; from repl.cli import main; sys.exit(main(['demo']))"],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
    )
    told = run.stdout.decode().replace(sys.executable, "python")
    text = re.sub(r"working in \S+", "working in a throw-away folder", told)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ make demo", style="bold"))
    for line in text.splitlines():
        shown = Text(line)
        shown.highlight_regex(r"\bREJECT\b", style="bold red")
        shown.highlight_words(["PASS", "COMPLETE"], style="bold green")
        console.print(shown)
    target = ROOT / "docs" / "pictures" / "demo.svg"
    target.parent.mkdir(exist_ok=True)
    drawing = console.export_svg(title="pm demo")
    # The picture stands alone: no font is fetched from anywhere, any monospaced one will do.
    drawing = re.sub(r"@font-face \{.*?\}\s*", "", drawing, flags=re.DOTALL)
    target.write_text(re.sub(r"<!--.*?-->\s*", "", drawing), encoding="utf-8")


if __name__ == "__main__":
    main()
