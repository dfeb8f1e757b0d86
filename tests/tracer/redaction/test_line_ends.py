"""A secret that ends its line takes nothing of the next one along; one that goes on in the next line is whole."""

from __future__ import annotations

import base64
import random
import re
import string
from collections.abc import Callable

import pytest

from tests.tracer.redaction.test_everyday import digits, key, password, phrase, word
from tracer.redaction.engine import ProjectRedactor

WIDTHS = [60, 64, 70, 72, 74, 75, 76, 78, 79, 80, 100, 120, 132]
VALUES: dict[str, Callable[[random.Random], str]] = {
    "a token of fixed length": lambda draw: f"got ghp_{key(draw, 36)}",
    "a setting": lambda draw: f"DB_PASSWORD={password(draw)}",
    "words": lambda draw: f"export APP_PASSWORD={phrase(draw)}",
    "an option": lambda draw: f"--admin-password {word(draw).title()}{draw.randint(1000, 9999)}",
    "padded base64": lambda draw: f"API_SECRET={base64.b64encode(draw.randbytes(32)).decode()}",
    "hexadecimal digits": lambda draw: f"X_TOKEN: {digits(draw, 64)}",
    "a URL": lambda draw: f"http://app:{password(draw)}@db.example.org/shop",
}
BELOW: dict[str, Callable[[random.Random], str]] = {
    "a prompt": lambda draw: f"{draw.choice('$#%>')} {word(draw)}",
    "a user's prompt": lambda draw: f"{word(draw)}@{word(draw)}:~$ {word(draw)}",
    "a time": lambda draw: f"2026-1{draw.randint(0, 2)}-0{draw.randint(1, 9)} 10:11:12 {word(draw)}",
    "a setting": lambda draw: f"{word(draw).upper()}_{word(draw).upper()}={draw.randint(1, 9999)}",
    "a key": lambda draw: f"{word(draw)}: {word(draw)}.{word(draw)}",
    "an indented key": lambda draw: f"    {word(draw)}: {word(draw)}",
    "a sentence": lambda draw: f"{word(draw).title()} {word(draw)}, {word(draw)}.",
    "a number": lambda draw: f"{draw.randint(1, 999)} {word(draw)}",
    "an entry": lambda draw: f"- {word(draw)}",
    "a sign": lambda draw: draw.choice(["}", ");", "---"]),
    "a remark": lambda draw: f"// {word(draw)}",
    "a heading": lambda draw: f"[{word(draw)}]",
    "a file": lambda draw: f"/{word(draw)}/{word(draw)} is there",
}


@pytest.mark.parametrize("below", BELOW)
@pytest.mark.parametrize("value", VALUES)
def test_the_line_below_a_secret_stays_at_every_width(redactor: ProjectRedactor, value: str, below: str) -> None:
    draw = random.Random(f"{value}/{below}")
    for width in draw.sample(WIDTHS, 4):
        told, line = VALUES[value](draw), BELOW[below](draw)
        if len(told) >= width:
            continue
        above = ("on it went " * 12)[: width - len(told) - 1]
        text = f"the first\n{above} {told}\n{line}\nthe last\n"
        redacted, counts = redactor.redact_text(text)
        assert counts, text
        assert redacted.endswith(f"\n{line}\nthe last\n"), text
        assert told[-8:] not in redacted.replace("db.example.org/shop", "")


@pytest.mark.parametrize("indent", ["", "    "])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_wrapped_secret_is_whole_wherever_it_is_cut(redactor: ProjectRedactor, width: int, indent: str) -> None:
    draw = random.Random(f"{width}/{indent}")
    for at in range(1, 40, 3):
        secret = key(draw, 41)
        begun = ("on it went " * 12)[: width - at - 10] + " API_KEY="
        text = (
            f"the first\n{begun}{secret[: width - len(begun)]}\n{indent}{secret[width - len(begun) :]} and so on\nend\n"
        )
        redacted, _ = redactor.redact_text(text)
        shown = re.sub(r"\[REDACTED:[^\]]*\]|\s", "", redacted)
        assert not {secret[place : place + 8] for place in range(34)} & {
            shown[place : place + 8] for place in range(len(shown) - 7)
        }, text


def test_phrases_that_are_cut_behind_their_sign_are_whole(redactor: ProjectRedactor) -> None:
    draw = random.Random(string.ascii_letters)
    for _ in range(20):
        first, second, third = (word(draw) for _ in range(3))
        begun = ("on it went " * 12)[: 80 - 14 - 13] + " DB_PASSWORD="
        text = f"{begun}{first}-{second}-\n{third} and so on\n"
        redacted, counts = redactor.redact_text(text)
        assert counts, text
        assert third not in redacted, text


@pytest.mark.parametrize("first", ["", "\n", "a line\n"])
def test_an_empty_line_below_padded_base64_ends_it(redactor: ProjectRedactor, first: str) -> None:
    draw = random.Random(first)
    for size in (32, 31):
        value = base64.b64encode(draw.randbytes(size)).decode()
        redacted, counts = redactor.redact_text(f"{first}token = {value}\n\n{value}\n")
        assert redacted.count("]\n") == 2
        assert value not in redacted
        assert sum(counts.values()) == 2
