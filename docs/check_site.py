"""Looks at the built site as a reader's browser does: python docs/check_site.py, after `make docs-site`.

Every link and anchor leads somewhere, no page asks another host for anything or logs an error, and axe finds nothing on
the pages that readers begin with. Needs Chromium.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urljoin, urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

SITE = Path(__file__).resolve().parent.parent / "site"
MAIN = ("", "start/", "install/", "guides/developer/", "guides/operator/", "commands/work/", "api/", "http-reference/")


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        given = dict(attrs)
        self.names |= {str(given[key]) for key in ("id", "name") if given.get(key)}
        self.links += [str(given[key]) for key in ("href", "src") if given.get(key)]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        """Nothing: the checks say what matters."""


def links(root: Path) -> list[str]:
    """Links of the pages below `root` that lead nowhere."""
    parsed: dict[Path, _Links] = {}
    for path in root.rglob("*.html"):
        parsed[path] = _Links()
        parsed[path].feed(path.read_text(encoding="utf-8"))
    wrong = []
    for path, page in parsed.items():
        here = f"/{path.relative_to(root).as_posix()}"
        for link in page.links:
            parts = urlsplit(urljoin(here, link))
            if parts.scheme or parts.netloc:
                continue
            base = root.parent if path.name == "404.html" else root  # a host shows it at any depth
            target = base / unquote(parts.path).lstrip("/")
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                wrong.append(f"{here} links to {link}")
            elif parts.fragment and target in parsed and unquote(parts.fragment) not in parsed[target].names:
                wrong.append(f"{here} links to {link}, which has no such place")
    return wrong


def looked_at(page: Page, address: str, paths: list[str]) -> list[str]:
    """What a browser finds on the pages."""
    wrong: list[str] = []
    page.on("console", lambda message: message.type == "error" and wrong.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
    own = address.rsplit("/", 2)[0]
    page.on("request", lambda sent: sent.url.startswith("http") and own not in sent.url and wrong.append(sent.url))
    for path in paths:
        page.goto(address + path, wait_until="networkidle")
        if path in MAIN:
            found = Axe().run(page).response["violations"]
            wrong += [f"{path or '/'}: {each['id']}: {each['nodes'][0]['html']}" for each in found]
    return wrong


def main() -> int:
    """1 where something is wrong, each in a line."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    root = max((each for each in SITE.iterdir() if each.is_dir()), key=lambda each: each.stat().st_mtime)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE)))
    Thread(target=server.serve_forever, daemon=True).start()
    paths = sorted(
        f"{each.parent.relative_to(root).as_posix()}/".removeprefix("./") for each in root.rglob("index.html")
    )
    wrong = links(root)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        address = f"http://127.0.0.1:{server.server_port}/{root.name}/"
        wrong += looked_at(browser.new_page(), address, paths)
        wrong += looked_at(browser.new_page(color_scheme="dark"), address, list(MAIN))
        browser.close()
    server.shutdown()
    print("\n".join([*wrong, f"{len(paths)} pages, {len(wrong)} faults"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
