"""Near-duplicates are found among many, and unlike texts are not called alike."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from collector.handover.near_duplicates import Sketch, Sketching, near_duplicates


def sketch_of(text: str) -> Sketch:
    sketching = Sketching()
    sketching.take(text)
    return sketching.sketch()


def _text(seed: int, words: int = 400) -> list[str]:
    chance = random.Random(seed)
    return [f"w{chance.randrange(5000)}" for _ in range(words)]


def test_a_text_with_a_few_words_changed_is_a_near_duplicate() -> None:
    words = _text(1)
    changed = [*words[:200], "other", *words[201:]]
    sketches = {"a": sketch_of(" ".join(words)), "b": sketch_of(" ".join(changed)), "c": sketch_of(" ".join(_text(2)))}
    (pair,) = near_duplicates(sketches)
    assert (pair.one, pair.other) == ("a", "b")
    assert pair.similarity > 0.9


def test_the_estimate_is_near_the_true_share() -> None:
    words = _text(3, 2000)
    half = [*words[:1333], *_text(4, 667)]  # shares about half of the union of the runs
    (pair,) = near_duplicates({"a": sketch_of(" ".join(words)), "b": sketch_of(" ".join(half))}, at_least=0.2)
    assert 0.4 < pair.similarity < 0.6


def test_many_equal_texts_are_all_named_even_where_every_run_is_common() -> None:
    text = " ".join(_text(5))
    pairs = near_duplicates({f"t{number:04}": sketch_of(text) for number in range(1000)})
    assert len(pairs) == 999
    assert {pair.one for pair in pairs} == {"t0000"}


@pytest.mark.parametrize("at_least", [0.3, 0.5, 0.8])
def test_no_pair_is_lost_by_what_is_not_compared(at_least: float) -> None:
    chance = random.Random(6)
    kinds = [chance.sample(range(400), size) for size in (3, 12, 40)]
    texts = {tuple(sorted({*chance.choice(kinds), *chance.sample(range(400), 4)})) for _ in range(60)}
    sketches = {f"t{number:02}": text for number, text in enumerate(sorted(texts))}
    shares = {
        (one, other): len({*sketches[one]} & {*sketches[other]}) / len({*sketches[one], *sketches[other]})
        for one, other in combinations(sketches, 2)
    }
    alike = {pair for pair, share in shares.items() if share >= at_least}
    assert alike
    assert {(pair.one, pair.other) for pair in near_duplicates(sketches, at_least=at_least)} == alike


def test_texts_too_short_to_compare_are_no_duplicates() -> None:
    assert near_duplicates({"a": sketch_of("one two"), "b": sketch_of("one two"), "c": sketch_of("")}) == []
