"""A drawn value that is told once with its name is secret wherever it stands again in the same text."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import pytest

from tests.tracer.redaction.test_everyday import digits, key
from tests.tracer.redaction.test_everyday import password as drawn
from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.streams import StreamRedactor

_TOLD = ["password=@@", 'api_key: "@@"', "DB_PASSWORD='@@'", "curl -u app:@@ https://h", "postgres://app:@@@db/x"]
_AGAIN = ["got @@ back", "::add-mask::@@", "tried '@@', then", "[@@]", "see https://h/x/@@/y", "@@"]
PLACEHOLDER = re.compile(r"\[REDACTED:[a-z0-9-]+:[0-9a-f]{6}\]")


def password(draw: random.Random) -> str:
    """One that nobody takes for a name with a number."""
    return f"{draw.randint(2, 9)}{drawn(draw)}"


@pytest.mark.parametrize("told", _TOLD)
@pytest.mark.parametrize("made", [password, lambda draw: digits(draw, 40)])
def test_the_second_place_of_a_told_value_gets_the_same_mark(
    redactor: ProjectRedactor, told: str, made: Callable[[random.Random], str]
) -> None:
    draw = random.Random(told)
    for again in _AGAIN:
        value = made(draw)
        for lines in ([told, again], [again, told], [again, "words", told, again]):
            text = "\n".join(lines).replace("@@", value)
            redacted, counts = redactor.redact_text(text)
            assert value not in redacted, text
            if again != "@@":  # a line of its own may be the rest of the one above
                assert sum(counts.values()) == len(lines) - ("words" in lines)
                assert told.startswith("curl") or len(set(PLACEHOLDER.findall(redacted))) == 1, redacted
            assert redactor.redact_text(redacted) == (redacted, {})


def test_it_is_found_in_another_string_of_a_value_and_told_in_an_encoded_text(redactor: ProjectRedactor) -> None:
    value = password(random.Random(2))
    texts = [f"then {value} came", json.dumps({"a": json.dumps({"password": value})})]
    assert value not in str(redactor.redact_value({"rows": texts}).value)


def test_a_stream_remembers_what_was_told_long_ago(redactor: ProjectRedactor) -> None:
    values = [password(random.Random(at)) for at in range(20)]
    stream = StreamRedactor(redactor)
    lines = [
        *(f"password={value}\n" for value in values),
        "words\n" * 4000,
        *(f"got {value}\n" for value in values),
        "words\n" * 4000,
    ]
    redacted = "".join([*map(stream.feed, lines), stream.close()])
    assert [value for value in values if value in redacted] == []


@pytest.mark.parametrize(
    "word", ["correct-horse-battery", "Winter-Harbor42", "my_test_value1", "kApiInt32Size", "abc1"]
)
def test_what_other_texts_hold_as_well_is_left_where_no_name_stands(redactor: ProjectRedactor, word: str) -> None:
    redacted, _ = redactor.redact_text(f"DB_PASSWORD='{word}'\nand {word} again")
    assert f"and {word} again" in redacted


def test_a_part_of_a_longer_word_is_another_value(redactor: ProjectRedactor) -> None:
    value = key(random.Random(3), 12)
    redacted, _ = redactor.redact_text(f"password={value}\nx{value} {value}x a{value}b\n")
    assert redacted.endswith(f"\nx{value} {value}x a{value}b\n")


def test_rows_do_not_tell_of_one_another(redactor: ProjectRedactor) -> None:
    value = password(random.Random(4))
    changed, _ = redactor.redact_rows([(f"password={value}",), (f"got {value}",)])
    assert list(changed) == [0]
