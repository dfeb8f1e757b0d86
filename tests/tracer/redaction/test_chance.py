"""A secret of a published shape is found whatever its random part holds: no stop word, no allow list excuses it."""

from __future__ import annotations

import random
import string
import tomllib

import pytest

from tests.tracer.redaction.positives import all_rules, drawn
from tracer.redaction.rule_set import CHECKS, GITLEAKS, Rule, RuleSet

RULES = RuleSet(all_rules())
SHAPES = tomllib.loads(GITLEAKS.with_name("own.toml").read_text(encoding="utf-8"))["shapes"]
# What ordinary words, and gitleaks' own lists, take for no secret.
EXCUSES = ("client", "access", "public", "token", "admin", "Number", "Author", "module", "000", "aaa", "test", "key")


def shaped() -> list[Rule]:
    """Rules whose secret begins with what they go by: ours, and the vendored ones of that kind."""
    kinds = []
    for rule in RULES.rules:
        text = drawn(rule, random.Random(rule.id))
        found = next(iter(rule.finds(f"\n{text}\n".encode())), None)
        if found and rule.check is None and any(found.secret.lower().startswith(word) for word in rule.keywords):
            kinds.append(rule)
    return kinds


SHAPED = shaped()


def test_every_shape_of_ours_and_most_vendored_ones_go_by_their_prefix() -> None:
    assert {rule.id for rule in SHAPED} >= set(SHAPES)
    assert len(SHAPED) >= 110


@pytest.mark.timeout(900)
@pytest.mark.parametrize("many", [20, pytest.param(2000, marks=pytest.mark.torture)])
def test_random_values_of_a_shape_are_all_found(many: int) -> None:
    missed = []
    for rule in SHAPED:
        draw = random.Random(f"{rule.id}/{many}")
        for _ in range(many):
            text = drawn(rule, draw)
            if next(RULES.finds(f"\ntoken={text}\n".encode()), None) is None:
                missed.append((rule.id, text))
    assert missed == []


@pytest.mark.parametrize("name", SHAPES)
def test_words_in_the_random_part_excuse_nothing(name: str) -> None:
    rule = next(rule for rule in RULES.rules if rule.id == name)
    for word in EXCUSES:
        text = drawn(rule, random.Random(word))
        at = len(text) - len(word) - 2
        for wordy in (text, text[:at] + word + text[at + len(word) :]):
            if rule._pattern.search(f"\n{wordy}\n".encode()) is not None:
                assert any(find.rule == name for find in RULES.finds(f'{{"access_token": "{wordy}"}}'.encode())), wordy


def test_a_drawn_value_without_a_digit_is_found_beside_a_name_and_a_name_is_none() -> None:
    draw = random.Random(7)
    for _ in range(1000):  # 15 of them have no digit
        value = "".join(draw.choices(string.ascii_letters + string.digits, k=24))
        assert next(RULES.finds(f'{{"access_token": "{value}"}}'.encode()), None) is not None, value
    for name in (
        "accessTokenFromHeaderOrQuery",
        "getIdOfMyNewObject",
        "ENVIRONMENT_VARIABLE_NAME",
        "correct-horse-battery",
    ):
        assert not CHECKS["strong"](name.encode()), name
