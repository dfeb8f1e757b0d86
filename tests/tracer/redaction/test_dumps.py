"""Dumps of bytes (xxd, hexdump, od): what they show is looked through, in the digits and in the text beside them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

import pytest

from tests.tracer.redaction.conftest import Make
from tests.tracer.redaction.positives import MARK
from tests.tracer.redaction.test_everyday import key, password, word
from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.streams import StreamRedactor


def _lines(data: bytes, size: int = 16) -> Iterator[tuple[int, bytes]]:
    return ((at, data[at : at + size]) for at in range(0, len(data), size))


def _shown(part: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)


def _pairs(part: bytes, size: int) -> str:
    return " ".join(part[at : at + size].hex() for at in range(0, len(part), size))


def xxd(data: bytes) -> str:
    return "".join(f"{at:08x}: {_pairs(part, 2):<39}  {_shown(part)}\n" for at, part in _lines(data))


def xxd_bytes(data: bytes) -> str:
    return "".join(f"{at:08x}: {_pairs(part, 1).upper():<47}  {_shown(part)}\n" for at, part in _lines(data))


def hexdump_canonical(data: bytes) -> str:
    rows = ((at, f"{_pairs(part[:8], 1):<23}  {_pairs(part[8:], 1):<23}", part) for at, part in _lines(data))
    return "".join(f"{at:08x}  {digits}  |{_shown(part)}|\n" for at, digits, part in rows) + f"{len(data):08x}\n"


def od_text(data: bytes) -> str:
    return "".join(f"{at:06x} {_pairs(part, 1):<47}  >{_shown(part)}<\n" for at, part in _lines(data))


def _words(part: bytes) -> Iterator[int]:
    return (int.from_bytes(part[at : at + 2], "little") for at in range(0, len(part), 2))


def hexdump_words(data: bytes) -> str:
    return "".join(f"{at:07x} {' '.join(f'{each:04x}' for each in _words(part))}\n" for at, part in _lines(data))


def od_words(data: bytes) -> str:
    return "".join(f"{at:07o} {' '.join(f'{each:06o}' for each in _words(part))}\n" for at, part in _lines(data))


def od_octal(data: bytes) -> str:
    return "".join(f"{at:07o} {' '.join(f'{byte:03o}' for byte in part)}\n" for at, part in _lines(data))


def od_signs(data: bytes) -> str:
    escapes = {9: r"\t", 10: r"\n", 13: r"\r", 0: r"\0"}

    def sign(byte: int) -> str:
        return (escapes.get(byte) or (chr(byte) if 32 <= byte < 127 else f"{byte:03o}")).rjust(4)

    return "".join(f"{at:07o}{''.join(map(sign, part))}\n" for at, part in _lines(data))


FORMS = [xxd, xxd_bytes, hexdump_canonical, od_text, hexdump_words, od_words, od_octal, od_signs]
Form = Callable[[bytes], str]


def _parts(form: Form, secret: bytes) -> set[str]:
    """How four signs of the secret are written, and, where there is a text, how they are shown."""
    step = 2 if form in {hexdump_words, od_words} else 1
    slices = [secret[at : at + 4] for at in range(0, len(secret) - 3, step)]
    digits = {form(part).split("\n")[0].partition(" ")[2] for part in slices}
    written = {line.partition("  ")[0].strip() if form is not od_signs else line for line in digits}
    return written | ({part.decode() for part in slices} if form in FORMS[:4] else set())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", ["", "log: ", "> "])
def test_a_secret_in_a_dump_is_marked_in_digits_and_text(redactor: ProjectRedactor, form: Form, before: str) -> None:
    draw = random.Random(f"{form.__name__}{before}")
    for number in range(24):
        secret = password(draw) + key(draw, 8)
        lead = "x" * (number % 16) + " ".join(word(draw) for _ in range(draw.randint(0, 30)))
        text = f"{lead}\nDB_PASSWORD={secret}\n{' '.join(word(draw) for _ in range(12))}\n"
        if form in {hexdump_words, od_words} and (text.index(secret) % 2):
            text = "y" + text
        dump = "".join(before + line for line in form(text.encode()).splitlines(keepends=True))
        redacted, counts = redactor.redact_text(f"$ dump file\n{dump}$ ls\n")
        assert counts, dump
        assert [part for part in _parts(form, secret.encode()) if part in MARK.sub("", redacted)] == [], (
            secret,
            redacted,
        )
        assert redacted.endswith("\n$ ls\n")
        assert redacted.startswith("$ dump file\n")
        assert redactor.redact_text(redacted) == (redacted, {})


def test_a_dump_is_looked_through_within_json_and_in_a_stream(redactor: ProjectRedactor) -> None:
    draw = random.Random(4)
    secret = password(draw) + key(draw, 8)
    dump = xxd(("words " * 40 + f"\napi_key: {key(draw)}\npassword: {secret}\n").encode())
    assert _left(redactor.redact_text(json.dumps({"output": dump}))[0], secret) == []
    assert _left(str(redactor.redact_value({"output": dump}).value), secret) == []
    stream = StreamRedactor(redactor)
    pieces = [*(stream.feed(dump[at : at + 100]) for at in range(0, len(dump), 100)), stream.close()]
    assert _left("".join(pieces), secret) == []


def _left(text: str, secret: str) -> list[str]:
    return [part for part in _parts(xxd, secret.encode()) if part in text]


@pytest.mark.parametrize("form", FORMS)
def test_a_dump_without_secrets_stays(make: Make, form: Form) -> None:
    draw, redactor = random.Random(form.__name__), make(pii=False)  # digits in a row may be a card's number
    for data in (" ".join(word(draw) for _ in range(200)).encode(), bytes(range(128, 256)) * 4):
        assert redactor.redact_text(form(data)) == (form(data), {})


def test_numbers_that_begin_with_zeros_are_no_dump(redactor: ProjectRedactor) -> None:
    text = "00001 22 3344 total\n0000000 12 34 56 78\n000000 0.5 0.25\n0000-00-00 00:00\n"
    assert redactor.redact_text(text) == (text, {})


@pytest.mark.parametrize("form", [xxd, xxd_bytes, hexdump_canonical])
@pytest.mark.parametrize("first", [0x10000, 0x2F5A0, 0xFF000])
@pytest.mark.parametrize("many", [1, pytest.param(8, marks=pytest.mark.torture)])
def test_a_dump_is_looked_through_from_any_line_of_its_first_megabyte_on(
    redactor: ProjectRedactor, form: Form, first: int, many: int
) -> None:
    draw = random.Random(first)
    for _ in range(many):
        secret = password(draw) + key(draw, 8)
        data = bytes(first) + f"{word(draw)} {word(draw)} here\nDB_PASSWORD={secret}\n{word(draw)}\n".encode()
        dump = "".join(form(data).splitlines(keepends=True)[first // 16 :])
        redacted, counts = redactor.redact_text(f"$ dump\n{dump}$ ls\n")
        assert counts, dump
        assert [part for part in _parts(form, secret.encode()) if part in MARK.sub("", redacted)] == [], redacted
