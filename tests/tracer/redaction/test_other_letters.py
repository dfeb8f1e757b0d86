"""A password behind its label in other letters than ASCII's, in each dress that writes letters by their bytes."""

from __future__ import annotations

import base64
import quopri
import random
import re
from collections.abc import Callable

import pytest

from tests.tracer.redaction.test_everyday import password
from tests.tracer.redaction.test_labels import LABELS, chosen
from tracer.redaction.engine import ProjectRedactor

_OTHERS = [label for label in LABELS if not label.isascii()]


def _escaped(form: str) -> Callable[[str], str]:
    return lambda text: "".join(form % byte if byte > 126 else chr(byte) for byte in text.encode())


def _read(form: str, base: int) -> Callable[[str], str]:
    return lambda text: re.sub(form, lambda match: chr(int(match[1], base)), text)


def _wide(encoding: str) -> Callable[[str], str]:
    return lambda text: text.encode(encoding).decode("latin-1")


def _mail(text: str) -> str:
    return quopri.encodestring(text.encode()).decode()


def _joined(text: str) -> str:
    return text.replace("=\n", "")


def _struck(text: str) -> str:
    return re.sub(r"[^\W\d]", r"\g<0>\b\g<0>", text)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(text: str) -> str:
    """What each run of signs decodes to, wherever its groups begin."""
    runs = re.findall(r"[A-Za-z0-9+/]{8,}", text)
    parts = (run[at:][: (len(run) - at) // 4 * 4] for run in runs for at in range(4))
    return "\n".join(base64.b64decode(part).decode("latin-1") for part in parts)


_DRESSES: dict[str, tuple[Callable[[str], str], Callable[[str], str]]] = {
    "hexadecimal": (_escaped(r"\x%02x"), _read(r"\\x([0-9a-f]{2})", 16)),
    "all hexadecimal": (lambda text: "".join(rf"\x{byte:02X}" for byte in text.encode()), _read(r"\\x(..)", 16)),
    "octal": (_escaped(r"\%03o"), _read(r"\\([0-3][0-7]{2})", 8)),
    "mail": (_mail, _joined),
    "struck": (_struck, lambda text: re.sub(".\b", "", text)),
    "base64": (_base64, _decoded),
    **{
        encoding: (_wide(encoding), lambda text: text.replace("\0", ""))
        for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
    },
}


@pytest.mark.parametrize("dress", _DRESSES)
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.torture)])
def test_a_password_is_found_behind_a_label_in_other_letters(redactor: ProjectRedactor, dress: str, every: int) -> None:
    put, undone = _DRESSES[dress]
    draw, left = random.Random(dress), []
    for label in _OTHERS[list(_DRESSES).index(dress) % every :: every]:
        for made in (password, chosen):
            secret = made(draw)
            form = draw.choice(["{}: {}", "{}：{}", "{} = {}"]).format(draw.choice([label, label.capitalize()]), secret)
            text = put(f"{'.' * draw.randint(0, 3)}note\n{form}\nend of it\n")
            redacted, counts = redactor.redact_text(text)
            if secret in undone(redacted) or not counts:
                left.append((label, form))
            assert redactor.redact_text(redacted) == (redacted, {}), form
    assert left == []


@pytest.mark.parametrize("dress", _DRESSES)
def test_ordinary_letters_in_a_dress_stay(redactor: ProjectRedactor, dress: str) -> None:
    text = _DRESSES[dress][0]("Größe: mittel\nの大きさ: ordinary\nимя: значение\nстрока: welcome\n" * 3)
    assert redactor.redact_text(text) == (text, {})


def test_a_lone_byte_is_a_letter_of_latin_1(redactor: ProjectRedactor) -> None:
    secret = password(random.Random(1))
    redacted, counts = redactor.redact_text(rf'{{"text": "contrase\xf1a: {secret}", "\xe9t\xe9": 1}}')
    assert counts
    assert secret not in redacted
