"""Every command in the guides is run as it stands, in the project that the pages describe; what it shows is shown."""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import pm_orchestrator
from runner.gate.verdict import team_criteria
from tests.support.clis import cli_environment, cli_program
from tests.support.model_server import Call, ModelServer, Turn, counts

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [DOCS / "start.md", *sorted((DOCS / "guides").glob("*.md"))]
RIGHT = 'def total(prices):\n    """The sum of `prices`, in cents."""\n    return sum(prices)\n'
SPENT = {"usage": {"input_tokens": 4000, "output_tokens": 80}, "cost_usd": 0.02}
FIXED: dict[str, Any] = {"output": "Fixed: `total` no longer adds 1.", "files": {"prices.py": RIGHT}, **SPENT}
LAZY: dict[str, Any] = {
    "output": "I looked at prices.py. It is right.",
    "usage": {"input_tokens": 960},
    "cost_usd": 0.01,
}
TOLD: dict[str, Any] = {"output": "It returns 0 for an empty list.", "files": {}}
LESS = 'def total(prices, discount=0):\n    """The sum of `prices`, in cents, less `discount` percent."""\n'
TESTED = """import unittest

from prices import total


class TotalTest(unittest.TestCase):
    def test_prices_are_added(self):
        self.assertEqual(total([1, 2]), 3)


class DiscountTest(unittest.TestCase):
    def test_a_discount_is_taken_off(self):
        self.assertEqual(total([100, 200], 10), 270)
"""
WIDER: dict[str, Any] = {
    "output": "`total` takes a discount.",
    "files": {
        "prices.py": LESS + "    return sum(prices) * (100 - discount) // 100\n",
        "test_prices.py": TESTED,
    },
    "usage": {"input_tokens": 900},
    "cost_usd": 0.01,
}
ROOMS = ("pm_orchestrator", "tracer", "runner", "collector", "service", "repl")
WHO = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
SCRIPTS = {"start": [LAZY, FIXED], "developer": [WIDER, TOLD], "prompt-engineer": [FIXED, FIXED]}
CALLS = re.compile(r"\d+ tool calls: ")  # the scripted agent makes none


class Step(NamedTuple):
    """A command of a page, and the lines that the page shows of what it prints."""

    command: str
    shown: list[str]


def steps_of(page: Path) -> list[Step]:
    found: list[Step] = []
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:], []))
            elif line.strip():
                found[-1].shown.append(line)
    return found


def plain(line: str) -> str:
    """A line without what differs from run to run: figures and the blanks that align them."""
    return re.sub(r"\s+", " ", re.sub(r"\d+(\.\d+)?", "N", line)).strip()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    pm = bin_folder / "pm"
    pm.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pm_orchestrator "$@"\n')
    pm.chmod(0o755)
    made = re.search(r"^```bash\n(.*?)^```", (DOCS / "start.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert made is not None
    subprocess.run(["bash", "-ec", made[1]], cwd=tmp_path, check=True, timeout=30, env={**os.environ, **WHO})
    return tmp_path / "shop"


@pytest.mark.torture  # seconds a page
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_guide_runs_and_shows_what_the_guide_shows(shop: Path, page: Path) -> None:
    replies = shop.parent / "replies.jsonl"
    replies.write_text("".join(json.dumps(reply) + "\n" for reply in SCRIPTS.get(page.stem, [FIXED])))
    environ = {
        **os.environ,
        **WHO,
        "PATH": f"{shop.parent / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PM_EXECUTOR": "scripted",
        "PM_GATE_STRENGTH_TIME": "20",  # as it is for users
        "PM_SCRIPT": str(replies),
        "SHELL": "/bin/bash",
        "HOME": str(shop.parent / "home"),
    }
    session = next((ROOT / "tests/tracer/distill/data/claude/happy").rglob("*.jsonl.gz"))
    native = shop.parent / "home" / ".claude" / "projects" / session.parent.name / session.stem
    native.parent.mkdir(parents=True)
    native.write_bytes(gzip.decompress(session.read_bytes()))
    steps = steps_of(page)
    assert steps, "a guide without a command"
    if page.stem == "developer":  # it starts where the first page ended
        (shop / "prices.py").write_text(RIGHT)
        subprocess.run(["git", "commit", "-qam", "Mended"], cwd=shop, check=True, env={**os.environ, **WHO})
    played(
        [Step(step.command, [line for line in step.shown if not CALLS.search(line)]) for step in steps], shop, environ
    )


@pytest.mark.real_cli
def test_the_first_page_shows_what_claude_code_itself_does(shop: Path) -> None:
    path = str(shop / "prices.py")
    turns = [
        Turn(text=str(LAZY["output"])),
        Turn(calls=[Call("Read", {"file_path": path})], usage=counts(1300)),
        Turn(calls=[Call("Write", {"file_path": path, "content": RIGHT})], usage=counts(1300)),
        Turn(text=str(FIXED["output"]), usage=counts(1300)),
    ]
    with ModelServer(turns) as server:
        environ = cli_environment(cli_program("claude"), home=shop.parent / "home", server=server)
        path = f"{shop.parent / 'bin'}:{environ['PATH']}"
        played(steps_of(DOCS / "start.md"), shop, {**environ, "PATH": path, "PM_EXECUTOR": "claude"})
    again = [
        line for line in (shop.parent / "home" / ".claude.json").read_text().splitlines() if "firstStartTime" in line
    ]
    assert again, "what Claude Code keeps beside its folder outlived its first run"


def played(steps: Iterable[Step], shop: Path, environ: Mapping[str, str]) -> None:
    for step in steps:
        ran = subprocess.run(
            ["bash", "-c", step.command], cwd=shop, env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        told = (ran.stdout + ran.stderr).replace("· scripted ·", "· claude ·")
        # doctor ends with 1 on a machine that lacks something
        assert ran.returncode == 0 or step.command == "pm doctor", f"{step.command}: {told}"
        assert "internal" not in told
        printed = {plain(line) for line in told.splitlines()}
        missing = [line for line in step.shown if plain(line) not in printed]
        assert not missing, f"{step.command} does not show {missing}, but:\n{told}"


def test_the_files_for_ci_are_yaml_and_the_action_has_the_inputs_that_its_page_tells() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))]
    blocks = [block for text in texts for block in re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]
    assert all(isinstance(yaml.safe_load(block), (dict, list)) for block in blocks)
    told = re.findall(
        r"^\| `([a-z-]+)` \|[^|]+\|[^|]+\|$", (DOCS / "gate.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert sorted(told) == sorted(action["inputs"])
    hooks = [one["id"] for one in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))]
    used = [
        hook["id"]
        for block in blocks
        if "default_install" in block
        for hook in yaml.safe_load(block)["repos"][0]["hooks"]
    ]
    assert used == hooks


def test_no_sentence_of_a_guide_is_longer_than_forty_words() -> None:
    for page in PAGES:
        prose = re.sub(r"^```.*?^```|^[|#].*?$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for sentence in re.split(r"(?<=[.:?!])\s+(?=[A-Z`])|\n\n", prose):
            assert len(sentence.split()) <= 40, f"{page.name}: {sentence}"


def told(node: ast.Module) -> Iterator[str]:
    """The texts of a module that a user or an agent may read: no docstrings, no keys."""
    bare = {id(each.value) for each in ast.walk(node) if isinstance(each, ast.Expr)}
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in bare:
            yield each.value if " " in each.value else ""


def test_the_glossary_s_words_are_used_in_docs_messages_pages_and_prompts() -> None:
    glossary = DOCS / "glossary.md"
    table = glossary.read_text(encoding="utf-8").split("| not | but |", 1)[1]
    words = [word for row in re.findall(r"^\| ([a-z ,]+) \|", table, re.MULTILINE) for word in row.split(", ")]
    assert "fact" in words
    other = re.compile(rf"(?<![\w.-])(?:{'|'.join(words)})(?![\w-])", re.IGNORECASE)
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md", *(ROOT / "service" / "templates").glob("*.html")]
    code = re.compile(r"^```.*?^```|`[^`]*`|\{[{%].*?[%}]\}|<[^>]*>", re.MULTILINE | re.DOTALL)
    texts = [(path, code.sub(" ", path.read_text(encoding="utf-8"))) for path in pages if path != glossary]
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            texts += [(path, text) for text in told(ast.parse(path.read_text(encoding="utf-8")))]
    found = [
        f"{path.relative_to(ROOT)}: {hit[0]!r} in {text[max(0, hit.start() - 40) : hit.end() + 40]!r}"
        for path, text in texts
        for hit in other.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_the_site_s_page_for_what_is_not_there_works_at_any_depth(tmp_path: Path) -> None:
    finish, version = (runpy.run_path(str(DOCS / "site.py"))[name] for name in ("finish", "VERSION"))
    built = tmp_path / "built"
    for page in (".", "start"):
        (built / page).mkdir(exist_ok=True)
        (built / page / "index.html").write_text("")
    lost, sitemap = built / "404.html", built / "sitemap.xml"
    lost.write_text('<a href="/start/"><a href="//other"><script>{"base":"/"}</script>')
    finish(built, "https://docs.example.org/pm")
    base = f"/pm/{version}/"
    assert lost.read_text() == f'<a href="{base}start/"><a href="//other"><script>{{"base":"{base}"}}</script>'
    assert (tmp_path / "404.html").read_text() == lost.read_text()
    told = re.findall(r"<loc>(.*)</loc>", sitemap.read_text())
    assert told == [f"https://docs.example.org{base}", f"https://docs.example.org{base}start/"]
    sitemap.write_text("as it was built")
    finish(built, "")
    assert sitemap.read_text() == "as it was built", "no addresses that nobody knows; and the pages' script asks for it"


def test_every_public_name_is_on_the_page_of_the_python_api() -> None:
    shown = re.findall(r"^::: pm_orchestrator\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(shown) == sorted(pm_orchestrator.__all__)


def test_every_page_of_the_site_is_in_its_navigation_and_every_link_leads_somewhere() -> None:
    listed = set(re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text(encoding="utf-8")))
    pages = {str(path.relative_to(DOCS)): path for path in DOCS.rglob("*.md")}
    assert listed == pages.keys()
    for name, path in pages.items():
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{name} links to {target}"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The files of the plug-in author's page: its criterion, the test of it, its agent."""
    blocks = re.findall(
        r"^```python\n(.*?)^```", (DOCS / "guides" / "plug-ins.md").read_text(), re.MULTILINE | re.DOTALL
    )
    files = [tmp_path / name for name in ("acme_rules.py", "test_acme_rules.py", "agent.py")]
    for file, block in zip(files, blocks, strict=True):
        file.write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "acme_rules", raising=False)
    return files


def test_the_criterion_of_the_guide_passes_the_test_of_the_guide_and_explains_itself(shown: list[Path]) -> None:
    point = EntryPoint(name="ACME1", value="acme_rules:criterion", group="pm_orchestrator.criteria")
    (criterion,) = team_criteria([point])
    assert criterion.explain == "Whoever changes src/ tells the users in CHANGELOG.md."
    for name, check in runpy.run_path(str(shown[1])).items():
        if name.startswith("test_"):
            check()


@pytest.mark.torture  # a whole run
def test_the_agent_of_the_guide_mends_the_project_of_the_guides(shop: Path, shown: list[Path]) -> None:
    page = (DOCS / "guides" / "plug-ins.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    block = block.replace('"python3"', f'"{sys.executable}"').replace("/path/to/agent.py", str(shown[2]))
    home, path = shop.parent / "home", f"{shop.parent / 'bin'}:{os.environ['PATH']}"
    environ = {"PYTHONPATH": str(ROOT), "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "PATH": path}
    ran = subprocess.run(
        ["bash", "-eu", "-c", block],
        cwd=shop, env={**os.environ, **environ}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " + 1" not in (shop / "prices.py").read_text()
