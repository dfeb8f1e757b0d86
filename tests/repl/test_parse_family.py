"""A first word that several commands share is explained, not called unknown."""

from __future__ import annotations

from repl.registry.parse import unknown_command


def test_a_shared_first_word_names_what_may_follow() -> None:
    error = unknown_command("capture")
    assert error.what == "'capture' needs a second word"
    assert "verify" in (error.why or "")


def test_a_word_nobody_answers_to_stays_unknown() -> None:
    assert "unknown command" in unknown_command("captures-of").what


def test_of_three_words_the_third_is_asked_for() -> None:
    error = unknown_command("admin", second="tokens")
    assert (error.what, error.why) == ("'admin tokens' needs a third word", "new, list, revoke")
    assert error.next_step == "pm admin tokens new --help"
