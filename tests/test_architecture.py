"""docs/architecture.md and the tests agree: each invariant has a test, each numbered test an invariant."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_invariant_has_a_test_and_every_numbered_test_an_invariant() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.split("## Invariants", 1)[1].split("\n## ", 1)[0]
    listed = {int(number) for number in re.findall(r"^(\d+)\. ", section, re.MULTILINE)}
    tested = {
        int(number)
        for path in (ROOT / "tests").rglob("test_*.py")
        for number in re.findall(r"def test_invariant_(\d\d)_", path.read_text())
    }
    assert listed == tested
    assert listed == set(range(1, 19))


def test_the_picture_of_the_rooms_has_the_order_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    picture = (ROOT / "docs" / "architecture.md").read_text().split("```mermaid\n", 1)[1].split("```", 1)[0]
    assert picture.splitlines()[0] == "flowchart TD"
    assert picture.splitlines()[-1].strip() == " --> ".join(contracts[0]["layers"])
    assert re.findall(r'^  (\w+)\["\1[:,] ', picture, re.MULTILINE) == contracts[0]["layers"]


def test_modules_named_by_the_seed_table_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = "tracer|runner|repl|collector|service|pm_orchestrator"
    for path in re.findall(rf"`((?:{rooms}|fixtures|tests)/[\w/.-]+)`", page):
        if "not built yet" not in page.split(path)[1].split("\n")[0]:
            assert (ROOT / path).exists(), path
