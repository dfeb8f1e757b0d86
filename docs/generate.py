"""Writes the pages that come from code, or with --check says which have drifted: `make docs`, `make check`."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# page -> module:function that returns its text
PAGES = {
    "docs/commands.md": "repl.registry.generate:commands_page",
    "docs/configuration.md": "repl.registry.generate:configuration_page",
    "docs/keys.md": "repl.registry.generate:keys_page",
    "repl/registry/handlers.py": "repl.registry.generate:table_source",
}


def page_text(source: str) -> str:
    """The text that `module:function` returns."""
    module, _, function = source.partition(":")
    text: str = getattr(importlib.import_module(module), function)()
    return text


def main() -> int:
    """Write all pages, or compare them; 1 if one has drifted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    drifted = []
    for name, source in PAGES.items():
        path, text = ROOT / name, page_text(source)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        drifted.append(name)
        if not check:
            path.write_text(text, encoding="utf-8")
    if drifted:
        print(("drifted, run make docs: " if check else "written: ") + ", ".join(drifted))
    return 1 if drifted and check else 0


if __name__ == "__main__":
    sys.exit(main())
