"""Writes the pages that come from code, or with --check says which have drifted: `make docs`, `make check`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs.http_reference import http_page  # noqa: E402 - the checkout, not the installed
from docs.man import man_page  # noqa: E402 - the checkout, not the installed
from docs.reference import command_pages, configuration_page, keys_page  # noqa: E402 - the checkout, not the installed


def main() -> int:
    """Write all pages, or compare them; 1 if one has drifted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    pages = {f"docs/commands/{name}.md": text for name, text in command_pages().items()}
    pages |= {"docs/configuration.md": configuration_page(), "docs/http-reference.md": http_page()}
    pages |= {"docs/keys.md": keys_page(), "docs/pm.1": man_page()}
    drifted = []
    for name, text in pages.items():
        path = ROOT / name
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
