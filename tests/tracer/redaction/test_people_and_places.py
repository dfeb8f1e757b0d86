"""pii_mask and path rewriting: who somebody is and where a project lives, and what only looks like it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tracer.redaction import personal_data
from tracer.redaction.rule_set import compiled


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("write to jane.doe+x@mail.example.org today", "email"),
        ("signed off by janedoe", "user-name"),
        ("ssh wonderbox uptime", "host-name"),
        ("Author: Jane Q. Doe", "person-name"),
        ("call +49 170 123 45 67 after six", "phone-number"),
        ("my phone is 415 555 0132 at home", "phone-number"),
        ("card 4111 1111 1111 1111 was charged", "card-number"),
        ("the credit card number is 4111111111111111", "card-number"),
        ("mail%20jane.doe%40example.com", "email"),
    ],
)
def test_what_tells_who_somebody_is_is_masked(make, text: str, rule: str) -> None:
    redacted, counts = make().redact_text(text)
    assert counts == {rule: 1}
    assert f"[REDACTED:{rule}:" in redacted


@pytest.mark.parametrize(
    "text",
    [
        "git clone git@github.com:org/project.git",
        "npm install left-pad@1.3.0 icon@2x.png pkg@4.17.21.tgz",
        "y = self.x@self.weights[0]",
        "phone = '415 555 0132'",
        "CARD = 4111111111111111  # test",
        "build 4111111111111111 done",
        "id 1234 5678 9012 3456 is not a card by its check digit",
        "xjanedoe janedoe_2 janedoes",
        "version 2.10.100.2000 at 10:20:30.400 on 2026-11-21",
        "see /home/janedoe/project/a.py",
    ],
)
def test_what_only_looks_like_it_stays(make, text: str) -> None:
    assert make().redact_text(text) == (text, {})


def test_names_that_machines_come_with_are_nobody(make) -> None:
    redactor = make(environ={"USER": "root", "HOME": "/home/root"}, host="localhost", persons=("bot",))
    assert redactor.redact_text("root runs bot on localhost")[1] == {}


def test_the_developers_name_comes_from_git(make, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "config", "user.name", "Ada Byron"], check=True)
    redactor = make(project_root=tmp_path, persons=None, environ={"PATH": "/usr/bin:/bin"})
    assert redactor.redact_text("by Ada Byron")[1] == {"person-name": 1}


def test_absolute_paths_are_told_from_the_project_or_the_home_folder(make) -> None:
    redactor = make(project_root=Path("/home/janedoe/proj")).with_paths()
    text, counts = redactor.redact_text(
        "/home/janedoe/proj/src/a.py:3 file:///home/janedoe/.config/x /home/janedoe/proj. "
        r'{"p":"\/home\/janedoe\/proj\/b"} ~/.claude/projects/-home-janedoe-proj/s.jsonl'
    )
    assert text == (
        "$PROJECT_ROOT/src/a.py:3 file://$HOME/.config/x $PROJECT_ROOT. "
        r'{"p":"$PROJECT_ROOT\/b"} ~/.claude/projects/$PROJECT_ROOT/s.jsonl'
    )
    assert counts == {}
    assert redactor.redact_text(text) == (text, {})


def test_paths_of_others_are_no_part_of_ours(make) -> None:
    redactor = make(project_root=Path("/home/janedoe/proj"), home=Path("/home/other")).with_paths()
    text = "/home/otherwise/x /home/other.bak /srv/home/others"
    assert redactor.redact_text(text) == (text, {})


def test_a_conversation_keeps_its_paths(make) -> None:
    value = {"workspace": "/home/janedoe/proj"}
    assert make(project_root=Path("/home/janedoe/proj")).redact_value(value) == (value, {})


@pytest.mark.parametrize(
    "text",
    [
        "joe@example.com,ann@example.com;<bob@example.com>",
        "a" * 70 + "@example.com",
        "é" * 64 + "@example.com x@y z",
        "one@two@three.example.com",
        "@" * 40 + "joe@example.com",
        "joe@" + "a.b" * 40 + ".com",
        "no address @ all, nor@ here",
    ],
)
def test_addresses_are_looked_for_around_their_sign_and_are_those_of_the_whole_text(text: str) -> None:
    data = text.encode()
    people = personal_data.People(personal_data.Identity(), keep_paths=True)
    found = [(find.start, find.end) for find in people.finds(data, frozenset({"email"}))]
    assert found == [match.span(0) for match in compiled(personal_data.PATTERNS["email"]).finditer(data)]
