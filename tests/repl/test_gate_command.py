"""`pm gate`: what anybody changed, judged as a task is; its record, its status, its forms, and the policy it reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from repl.present.gate_formats import formed
from runner.change_gate import standing
from tests.repl.support import Ran, pm
from tests.support.machine import PYTEST

SCHEMA = Path(__file__).parent / "data" / "sarif" / "sarif-2.1.0-rtm.5.json"
TESTS = "from calc import half\n\n\ndef test_half():\n    assert half(4) == 2\n"
OLD_MARK = "# TODO: an old one\n"
BROKEN, MENDED = "def half(x):\n    return x / 3\n", "def half(x):\n    return x / 2\n"
WITH_TESTS = ("--test", PYTEST, "--config", "../quick.toml")


def git(folder: Path, *words: str) -> str:
    named = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def shop(project: Path) -> Path:
    git(project, "init", "-q", "-b", "main")
    (project.parent / "quick.toml").write_text("[gate]\nstrength_time = 0\n")
    (project / "calc.py").write_text(OLD_MARK + BROKEN)
    (project / "test_calc.py").write_text(TESTS)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "start")
    return project


def gate(folder: Path, *words: str, **environ: str) -> Ran:
    return pm("gate", *words, cwd=folder, **environ)


@pytest.mark.parametrize(
    ("content", "words", "code", "told"),
    [
        (OLD_MARK + MENDED, WITH_TESTS, 0, "VERIFIED · 1 file · tests passed (1, 1 fixed)"),
        (OLD_MARK + MENDED, (), 6, "folder not trusted (pm config trust)"),
        (OLD_MARK + MENDED, ("--fast",), 0, "NOTHING FOUND"),
        pytest.param(OLD_MARK + BROKEN + "# touched\n", WITH_TESTS, 1, "FAILED Q7", marks=pytest.mark.torture),
        (OLD_MARK + MENDED + "# TODO: more\n", ("--fast",), 1, "calc.py:4: Q2 TODO found"),
        (OLD_MARK + "def half(x:\n", ("--fast",), 1, "FAILED Q4"),
        (OLD_MARK + BROKEN, ("--fast",), 6, ""),
    ],
)
def test_what_differs_from_head_gets_the_verdict_and_exit_code_of_a_task(
    shop: Path, content: str, words: tuple[str, ...], code: int, told: str
) -> None:
    (shop / "calc.py").write_text(content)
    ended = gate(shop, *words)
    assert (ended.code, told in ended.out) == (code, True), ended


def test_the_verdict_holds_until_a_file_is_edited(shop: Path) -> None:
    assert gate(shop, "--status").code == 6
    (shop / "calc.py").write_text(MENDED)
    assert gate(shop, "--fast").code == 0
    assert gate(shop, "--status").code == 0
    (shop / "new.txt").write_text("untracked counts too\n")
    stale = gate(shop, "--status", "--json")
    assert (stale.code, json.loads(stale.out)["holds"]) == (6, False)
    (shop / "new.txt").unlink()
    assert gate(shop, "--status").code == 0
    lines = (shop / ".pm-orchestrator" / "gate.jsonl").read_text().splitlines()
    fact = json.loads(lines[-1])
    git(shop, "add", "-A")
    assert fact["tree"] == git(shop, "write-tree").strip()
    assert (fact["event"], fact["judgment"], fact["fast"]) == ("GATE", "PASS", True)


def test_a_torn_record_is_no_verdict_and_the_next_one_stands_on_a_line_of_its_own(shop: Path) -> None:
    (shop / "calc.py").write_text(MENDED)
    gate(shop, "--fast")
    record = shop / ".pm-orchestrator" / "gate.jsonl"
    with record.open("a") as file:
        file.write('{"event":"GATE","tree":"0000')
    assert gate(shop, "--status").code == 0
    gate(shop, "--fast")
    assert json.loads(record.read_text().splitlines()[-1])["judgment"] == "PASS"


def test_staged_is_judged_as_the_index_holds_it_and_the_index_stays(shop: Path) -> None:
    (shop / "calc.py").write_text(MENDED + "# TODO: staged\n")
    git(shop, "add", "-A")
    (shop / "calc.py").write_text(MENDED)
    before = (shop / ".git" / "index").read_bytes()
    assert gate(shop, "--fast", "--staged").code == 1
    assert gate(shop, "--fast").code == 0
    assert (shop / ".git" / "index").read_bytes() == before
    assert git(shop, "for-each-ref", "refs/pm-orchestrator") == ""


@pytest.mark.parametrize("words", [("--all",), ("calc.py",)])
def test_a_hook_of_git_judges_what_this_commit_takes_along(shop: Path, words: tuple[str, ...]) -> None:
    hook = shop / ".git" / "hooks" / "pre-commit"
    hook.write_text('#!/bin/sh\nenv | grep ^GIT_INDEX_FILE >../index\ncp "$GIT_INDEX_FILE" ../taken\n')
    hook.chmod(0o755)
    (shop / "calc.py").write_text(MENDED + "# TODO: taken along\n")
    git(shop, "commit", "-qm", "all", *words)
    git(shop, "reset", "-q", "--soft", "HEAD~1")
    git(shop, "restore", "--staged", "calc.py")
    assert (shop.parent / "index").read_text().strip() != "GIT_INDEX_FILE=.git/index"
    assert gate(shop, "--fast", "--staged").code == 6
    assert gate(shop, "--fast", "--staged", GIT_INDEX_FILE=str(shop.parent / "taken")).code == 1


def _fact(change: str, verification: str, *, since: bool = True, fast: bool = False) -> dict[str, Any]:
    base, _, tree = change.partition(">")
    told = {"base": f"git:{base}" + ("" if since else "@blob"), "tree": tree, "verification": verification}
    return {**told, "fast": fast, **({"since": "HEAD"} if since else {"task_id": "task-001"})}


def _session(change: str, verification: str) -> dict[str, Any]:
    return _fact(change, verification, since=False)


_TROUBLE = {"tree": "", "verification": "not_verified"}


@pytest.mark.parametrize(
    ("known", "holds", "verification"),
    [  # the oldest first; of the change from "h" to "t"
        ([_fact("h>t", "failed"), _fact("t>t", "verified")], True, "failed"),
        ([_fact("h>t", "failed"), _session("t>t", "verified")], True, "failed"),
        ([_fact("h>t", "failed"), _fact("h>t", "verified")], True, "verified"),
        ([_fact("h>t", "failed"), _fact("h>t", "not_verified", fast=True)], True, "failed"),
        ([_fact("h>t", "not_verified", fast=True), _fact("h>t", "verified")], True, "verified"),
        ([_fact("main>t", "failed"), _fact("h>t", "verified")], True, "failed"),
        ([_fact("main>t", "not_verified"), _fact("h>t", "verified")], True, "verified"),
        ([_session("h>t", "failed"), _fact("h>t", "verified")], True, "verified"),
        ([_session("h>t", "failed"), _fact("h>t", "not_verified", fast=True)], True, "failed"),
        ([_session("h>t", "verified")], True, "verified"),
        ([_session("a>t", "verified")], False, "verified"),
        ([_fact("h>a", "failed"), _session("a>t", "verified")], False, "failed"),
        ([_fact("h>a", "verified"), _session("a>t", "verified")], True, "verified"),
        ([_session("h>a", "verified"), _session("a>t", "failed")], True, "failed"),
        ([_session("t>a", "verified"), _session("a>t", "verified")], False, "verified"),
        ([_fact("h>x", "verified")], False, "verified"),
        ([_fact("h>t", "verified"), _TROUBLE], False, "not_verified"),
        ([_fact("h>t", "failed"), _TROUBLE | {"task_id": "task-001"}, _session("t>t", "verified")], True, "failed"),
        ([_TROUBLE, _fact("h>t", "verified")], True, "verified"),
    ],
)
def test_no_verdict_on_an_empty_or_narrower_change_stands_for_a_wider(
    known: list[dict[str, Any]], holds: bool, verification: str
) -> None:
    found = standing(known[::-1], "t", head="h")
    assert found is not None
    assert (not found.lacking, found.fact["verification"]) == (holds, verification)


def test_a_verdict_on_what_is_committed_by_now_holds(shop: Path) -> None:
    assert standing([], "t", head="t") is None
    (shop / "calc.py").write_text(MENDED)
    assert gate(shop, "--fast").code == 0
    git(shop, "commit", "-qam", "mended")
    assert gate(shop, "--status").out.startswith("holds: NOT VERIFIED (gate,")


def test_what_pm_wrote_for_its_user_is_no_change_until_it_is_edited(shop: Path) -> None:
    (shop / "calc.py").write_text(MENDED)
    outputs = ("--output", "junit:gate.xml", "--output", "gitlab:quality.json")
    assert gate(shop, "--fast", *outputs).code == 0
    assert gate(shop, "--status").code == 0
    again = json.loads(gate(shop, "--fast", "--since", "main", *outputs, "--json").out)
    assert [one["path"] for one in again["files"]] == ["calc.py"]
    with (shop / "quality.json").open("a") as file:
        file.write("by hand\n")
    assert gate(shop, "--status").code == 6
    edited = json.loads(gate(shop, "--fast", "--json").out)
    assert [one["path"] for one in edited["files"]] == ["calc.py", "quality.json"]
    (shop / "quality.json").unlink()  # a deletion shows, whatever is known of the file
    assert gate(shop, "--status").code == 0


def test_known_findings_reject_nothing_and_new_ones_do(shop: Path) -> None:
    (shop / "more.py").write_text("# TODO: this one is known\nX = 1\n")
    assert gate(shop, "--write-baseline", "known.json").code == 0
    (shop / "more.py").write_text("# a line above\n# TODO: this one is known\nX = 1\n")
    assert gate(shop, "--fast").code == 1
    assert gate(shop, "--fast", "--baseline", "known.json").code == 0
    (shop / "more.py").write_text("# TODO: this one is known\n# TODO: this one is new\nX = 1\n")
    again = gate(shop, "--fast", "--baseline", "known.json", "--json")
    assert [issue["line"] for issue in json.loads(again.out)["issues"]] == [2]
    (shop / "known.json").write_text("[]")
    assert gate(shop, "--fast", "--baseline", "known.json").code == 3
    assert gate(shop, "--baseline", "known.json", "--write-baseline", "known.json").code == 2
    (shop / "legacy.py").write_text("".join(f"# TODO: old {n}\nX{n} = 1\n" for n in range(300)))  # more than are listed
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "a clean checkout with old findings")
    written = gate(shop, "--write-baseline", "all.json")
    assert (written.code, written.out) == (0, "303 findings written to all.json\n")
    assert gate(shop, "--write-baseline", "none.json", "--staged").out == "0 findings written to none.json\n"


def test_a_pull_request_cannot_extend_its_own_baseline(shop: Path) -> None:
    git(shop, "checkout", "-qb", "topic")
    (shop / "more.py").write_text("# TODO: mine\nX = 1\n")
    gate(shop, "--write-baseline", "known.json")
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "all is known")
    judged = ("--fast", "--since", "main", "--baseline")
    refused = gate(shop, *judged, "known.json")
    assert (refused.code, "main holds no known.json" in refused.err) == (1, True)
    git(shop, "branch", "-f", "main")  # once it is merged, it is known
    (shop / "copy.py").write_text("X = 3\n")
    assert gate(shop, *judged, "known.json").code == 0
    (shop.parent / "theirs.json").write_text((shop / "known.json").read_text())  # the pipeline's own, outside
    git(shop, "branch", "-f", "main", "main~1")
    assert gate(shop, *judged, "../theirs.json").code == 0


def test_each_form_says_the_same_to_its_reader(shop: Path, tmp_path: Path) -> None:
    (shop / "calc.py").write_text(MENDED + "# TODO: 100 % later, see a:b\n")
    (shop / "a b.py").write_text("# FIXME\nX = 1\n")
    outputs = [word for name in ("json", "sarif", "junit", "gitlab") for word in ("--output", f"{name}:../out.{name}")]
    summary = tmp_path / "summary.md"
    ended = gate(shop, "--fast", "--format", "github", *outputs, GITHUB_STEP_SUMMARY=str(summary))
    assert ended.code == 1
    assert "::error file=calc.py,line=3,title=Q2::Q2: TODO found" in ended.out
    assert "| ❌ | Q2 No TODO/FIXME |" in summary.read_text()
    assert "\n2 files, tree `" in summary.read_text()
    told = {name: (shop.parent / f"out.{name}").read_text() for name in ("json", "sarif", "junit", "gitlab")}
    places = {(issue["path"], issue["line"]) for issue in json.loads(told["json"])["issues"]}
    assert places == {("a b.py", 1), ("calc.py", 3)}
    sarif = json.loads(told["sarif"])
    jsonschema.validate(sarif, json.loads(SCHEMA.read_text()))
    located = [one["locations"][0]["physicalLocation"] for one in sarif["runs"][0]["results"]]
    assert {(one["artifactLocation"]["uri"], one["region"]["startLine"]) for one in located} == {
        ("a%20b.py", 1),
        ("calc.py", 3),
    }
    suite = ET.fromstring(told["junit"])[0]
    assert (suite.get("failures"), suite.get("errors")) == ("1", "1")
    assert {
        (one["location"]["path"], one["location"]["lines"]["begin"]) for one in json.loads(told["gitlab"])
    } == places
    assert len({one["fingerprint"] for one in json.loads(told["gitlab"])}) == 2


def test_the_summary_counts_in_english_and_shows_no_success_for_what_only_informs() -> None:
    informs = {"id": "Q11", "name": "Tests Can Fail", "outcome": "pass", "advisory": True, "reason": "0 of 4 faults"}
    fields = {"verification": "verified", "not_verified": [], "files": [{}], "tree": "0" * 40}
    told = formed("summary", {**fields, "criteria_results": [informs]})
    assert "| ℹ️ | Q11 Tests Can Fail | 0 of 4 faults |" in told
    assert "\n1 file, tree `" in told


@pytest.mark.torture
def test_a_change_cannot_soften_the_policy_that_it_has_to_pass(shop: Path) -> None:
    state = shop / ".pm-orchestrator"
    gate(shop, "--fast")
    (state / "config.toml").write_text(f'[run]\ntest = "{PYTEST}"\n[gate]\nstrength_time = 0\n')
    git(shop, "add", "-f", ".pm-orchestrator/config.toml")
    git(shop, "commit", "-qm", "policy")
    git(shop, "checkout", "-qb", "topic")
    (shop / "calc.py").write_text(MENDED)
    pm("config", "trust", "--yes", cwd=shop)
    assert gate(shop, "--since", "main").code == 0  # the base's policy is the one that is trusted here
    (state / "config.toml").write_text('[run]\ntest = "true"\n[gate]\ntests = "change"\n')
    (shop / "calc.py").write_text(BROKEN + "# no better\n")
    git(shop, "commit", "-qam", "soften")
    pm("config", "trust", "--yes", cwd=shop)
    assert gate(shop, "--since", "main").code == 6  # what the base names runs only on the user's word
    failed = gate(shop, "--since", "main", "--trust-base", "--json")
    assert (failed.code, json.loads(failed.out)["tests"]["command"]) == (1, PYTEST)


@pytest.mark.parametrize(
    "words",
    [
        ("--since", "nowhere"),
        ("--since", "--all"),
        ("--since", ""),
        ("--baseline", ""),
        ("--write-baseline", ""),
        ("--since", "main", "--staged"),
    ],
)
def test_a_base_that_is_none_is_a_usage_error(shop: Path, words: tuple[str, ...]) -> None:
    assert gate(shop, "--fast", *words).code == 2


def test_a_commit_that_git_does_not_know_is_put_right_by_what_helps_here(shop: Path) -> None:
    assert "next:  git branch -a" in gate(shop, "--fast", "--since", "origin/main").err
    (shop / ".git" / "shallow").write_text(git(shop, "rev-parse", "HEAD"))
    assert "next:  git fetch --unshallow" in gate(shop, "--fast", "--since", "origin/main").err


def test_before_the_first_commit_and_without_git(project: Path) -> None:
    (project / "a.py").write_text("X = 1\n")
    assert "is in no git repository" in gate(project, "--fast").err
    git(project, "init", "-q")
    assert gate(project, "--fast").code == 0
