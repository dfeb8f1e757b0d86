"""A first word that several commands share is explained, not called unknown."""

from __future__ import annotations

from repl.registry.parse import unknown_command


def test_a_shared_first_word_names_what_may_follow() -> None:
    error = unknown_command("capture", prefix="pm ")
    assert error.what == "'capture' needs a second word"
    assert "verify" in (error.why or "")


def test_a_word_nobody_answers_to_stays_unknown() -> None:
    assert "unknown command" in unknown_command("captures-of", prefix="pm ").what
