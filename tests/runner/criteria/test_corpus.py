"""The labelled corpus is what it promises to be, and the rules hold what was measured on its test half."""

from __future__ import annotations

import pytest

from benchmarks.criteria.__main__ import failed
from benchmarks.criteria.baseline import word_scan
from benchmarks.criteria.corpus import load
from runner.gate.languages import by_name, grammar

GRAMMARS = (
    "python javascript typescript tsx go rust java kotlin c cpp c# ruby php swift scala bash sql html css yaml "
    "toml json dockerfile"
).split()
LANGUAGES = (
    "python javascript jsx typescript tsx go rust java kotlin c cpp c# ruby php swift scala shell sql html css yaml "
    "toml json markdown dockerfile makefile answer"
).split()


def test_the_corpus_has_at_least_400_cases_half_of_them_to_pass_each_with_its_reason() -> None:
    cases = [*load("test"), *load("dev")]
    assert len(cases) >= 400
    assert sum(not case.expect for case in cases) * 2 >= len(cases)
    assert all(case.why.strip() for case in cases)
    assert {case.language for case in cases} >= set(LANGUAGES)


def test_the_word_scan_is_wrong_on_at_least_two_fifths_of_the_test_half() -> None:
    cases = load("test")
    assert sum(word_scan(case.evidence) != bool(case.expect) for case in cases) >= 0.4 * len(cases)


@pytest.mark.parametrize("part", ["test", "later"])
def test_the_rules_keep_their_limits(part: str) -> None:
    cases = load(part)
    got = [(case, bool(failed(case))) for case in cases]
    false_rejects = [case.name for case, rejected in got if rejected and not case.expect]
    misses = [case.name for case, rejected in got if case.expect and not rejected]
    assert len(false_rejects) <= 0.01 * sum(not case.expect for case in cases), false_rejects
    assert len(misses) <= 0.05 * sum(bool(case.expect) for case in cases), misses


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_grammar_is_installed_for(name: str) -> None:
    language = by_name(name)
    assert language is not None
    assert grammar(language) is not None
