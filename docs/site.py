"""Builds the documentation site into site/VERSION, and site/index.html that leads to it: `make docs-site`.

SITE_URL is where site/ will be (https://docs.example.org/pm). With it search engines are told of each page by its whole
address, and the page for what is not there, which a host shows at any depth, finds its style below the host's root.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from repl.version import VERSION  # noqa: E402 - the checkout, not the installed


def finish(built: Path, address: str) -> None:
    """Make `built` a version of the site at `address`, which may be empty; site/404.html is for what is not there."""
    lost = built / "404.html"
    base = f"{urlsplit(address).path}/{VERSION}"
    lost.write_text(re.sub(r'"/(?!/)', f'"{base}/', lost.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copy(lost, built.parent / "404.html")
    pages = sorted(each.parent.relative_to(built).as_posix() for each in built.rglob("index.html"))
    rows = "".join(f"<url><loc>{address}/{VERSION}/{page}/</loc></url>\n".replace("/./", "/") for page in pages)
    if address:  # else the builder's stays, which is empty: its script asks for one on each page
        space = "http://www.sitemaps.org/schemas/sitemap/0.9"
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{space}">\n{rows}</urlset>\n'
        (built / "sitemap.xml").write_text(text, encoding="utf-8")


def main() -> int:
    """Build, move below the version's name, and keep the versions that are there."""
    site, built = ROOT / "site", ROOT / "site" / "built"
    shutil.rmtree(built, ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=False)
    if done.returncode:
        return done.returncode
    for script in built.rglob("*.py"):
        script.unlink()
    finish(built, os.environ.get("SITE_URL", "").rstrip("/"))
    shutil.rmtree(site / VERSION, ignore_errors=True)
    built.rename(site / VERSION)
    versions = sorted((each.name for each in site.iterdir() if each.is_dir()), reverse=True)
    rows = [{"version": name, "title": name, "aliases": ["latest"] if name == VERSION else []} for name in versions]
    (site / "versions.json").write_text(json.dumps(rows), encoding="utf-8")
    (site / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={VERSION}/">\n', encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
