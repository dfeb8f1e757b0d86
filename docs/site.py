"""Builds the documentation site into site/VERSION, and site/index.html that leads to it: `make docs-site`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from repl.version import VERSION  # noqa: E402 - the checkout, not the installed


def main() -> int:
    """Build, move below the version's name, and keep the versions that are there."""
    site, built = ROOT / "site", ROOT / "site" / "built"
    shutil.rmtree(built, ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=False)
    if done.returncode:
        return done.returncode
    for script in built.rglob("*.py"):
        script.unlink()
    shutil.rmtree(site / VERSION, ignore_errors=True)
    built.rename(site / VERSION)
    versions = sorted((each.name for each in site.iterdir() if each.is_dir()), reverse=True)
    rows = [{"version": name, "title": name, "aliases": ["latest"] if name == VERSION else []} for name in versions]
    (site / "versions.json").write_text(json.dumps(rows), encoding="utf-8")
    (site / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={VERSION}/">\n', encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
