"""Forms that strangers found left: logins in pairs, joined words, second alphabets, and what stands beside a secret."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from html import escape

import pytest

from tests.tracer.redaction.test_everyday import RULES, digits, left, missed, password, phrase, word
from tracer.redaction.engine import ProjectRedactor


@pytest.mark.parametrize(
    "form",
    [
        "('app', '@@')  # credentials",
        '("app", "@@"),  // the creds',
        "# credentials of the test system\nuser = ('app', '@@')",
        "auth=('app', '@@')",
        'HTTPBasicAuth("app", "@@")',
        'credentials = ["app", "@@"]',
        'creds: tuple[str, str] = ("app", "@@")',
        "user, password = 'app', '@@'",
        '"auth": ["app", "@@"]',
        "login => ['app', '@@'],",
    ],
)
@pytest.mark.parametrize("made", [password, phrase])
def test_the_second_of_a_pair_is_a_password_where_a_word_beside_it_tells(
    form: str, made: Callable[[random.Random], str]
) -> None:
    assert left(form, made) == []


@pytest.mark.parametrize(
    "line",
    [
        'login = ["username", "password"]',
        "fields = ('name', 'email')  # credentials",
        "credentials: Tuple[str, str] = (user, password_value)",
        "user, password = get_user(), get_password()",
        '"auth": ["read:user", "user:email"]',
    ],
)
def test_a_pair_of_names_is_no_login(line: str) -> None:
    assert missed(line.replace("@@", ""), line)


@pytest.mark.parametrize("between", ["_", "."])
@pytest.mark.parametrize(
    ("form", "number"),
    [("password=@@", True), ("  db_password: @@", True), ("DB_PASSWORD: @@", False), ("export APP_PASSWORD=@@", False)],
)
def test_joined_words_are_a_password_in_settings(form: str, number: bool, between: str) -> None:
    assert left(form, lambda draw: phrase(draw, between) + (str(draw.randint(1, 999)) if number else "")) == []


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_an_attribute_is_found_however_often_it_was_quoted(redactor: ProjectRedactor, levels: int) -> None:
    value = password(random.Random(levels))
    text = f'<node user="app" password="{value}"/>'
    for _ in range(levels):
        text = json.dumps({"message": text})
    assert value not in redactor.redact_text(text)[0]


@pytest.mark.parametrize("host", ["db.example.org:5432/shop", "mail.example.org", "10.1.2.3/x", "h1:27017,h2:27017/"])
def test_the_host_behind_a_password_stays(redactor: ProjectRedactor, host: str) -> None:
    draw = random.Random(host)
    for value in (password(draw), f"{password(draw)}@{password(draw)}"):
        redacted, counts = redactor.redact_text(f"postgres://app:{value}@{host}")
        assert redacted.startswith("postgres://app:[REDACTED:connection-string:")
        assert redacted.endswith(f"]@{host}")
        assert counts == {"connection-string": 1}
        assert redactor.redact_text(redacted) == (redacted, {})


@pytest.mark.parametrize(
    "form",
    [
        "totp: @@",
        "TOTP secret: @@",
        "your 2FA key is @@",
        "otpauth://totp/Shop:ann?secret=@@&issuer=Shop",
    ],
)
@pytest.mark.parametrize("size", [16, 32])
def test_a_secret_for_one_time_passwords_is_found_whatever_was_drawn(form: str, size: int) -> None:
    draw = random.Random(form)
    values = ["".join(draw.choices(string.ascii_uppercase + "234567", k=size)) for _ in range(200)]
    assert [value for value in values if missed(form, value)] == []
    grouped = [" ".join(value[at : at + 4] for at in range(0, size, 4)).lower() for value in values]
    assert "otpauth" in form or [value for value in grouped if missed(form, value)] == []


def test_the_signature_of_a_message_is_found() -> None:
    for form in ("X-Hub-Signature-256: sha256=@@", "x-gitea-signature: @@", '"X-Hub-Signature": "sha1=@@"'):
        assert not missed(form, digits(random.Random(form), 64))


@pytest.mark.parametrize(
    "told", ["seed phrase is: @@", "recovery words are: @@", "mnemonic: @@", "the mnemonic is `@@`"]
)
def test_a_seed_phrase_is_found_behind_the_words_that_introduce_it(told: str) -> None:
    draw = random.Random(told)
    assert not missed(told, " ".join(word(draw) for _ in range(12)))


@pytest.mark.parametrize(
    "told", ["заметка: пароль: @@", "パスワード： @@", "密码：@@ 请保密", "ο κωδικός password: @@ ναι"]
)
@pytest.mark.parametrize("way", ["plain", "wrapped", "hex", "within"])
def test_what_decodes_to_other_letters_is_looked_through(redactor: ProjectRedactor, told: str, way: str) -> None:
    draw = random.Random(told)
    for shift in range(3):
        value = password(draw)
        raw = ("." * shift + told.replace("@@", value)).encode()
        text = {
            "plain": base64.b64encode(raw).decode(),
            "wrapped": base64.encodebytes(("слово " * 20).encode() + raw).decode(),
            "hex": raw.hex(),
            "within": json.dumps({"data": base64.b64encode(raw).decode()}),
        }[way]
        redacted, counts = redactor.redact_text(f"got {text.strip()}.\nend\n")
        assert counts, told
        assert redacted.endswith(".\nend\n")
        cores = [base64.b64encode(b"\0" * at + value.encode())[4:-4].decode() for at in range(3)]
        assert [core for core in (*cores, value.encode().hex()) if core in redacted.replace("\n", "")] == []
        assert redactor.redact_text(redacted) == (redacted, {})


@pytest.mark.parametrize("command", ["twine upload -u joe -p '@@' dist/*", "sqlcmd -S db1 -U sa -P '@@' -Q 1"])
@pytest.mark.parametrize("cell", ["td", "th"])
def test_a_command_in_a_cell_begins_there_whatever_the_cell_before_holds(
    redactor: ProjectRedactor, command: str, cell: str
) -> None:
    draw = random.Random(f"{command}{cell}")
    for number in range(10):
        secret = f"{word(draw)}{draw.randint(100, 9999)}{word(draw).title()}!"
        program, _, rest = escape(command.replace("@@", secret)).partition(" ")
        row = f'<tr><{cell}>{number}</{cell}><{cell}><span class="n">{program}</span> {rest}</{cell}></tr>\n'
        redacted = redactor.redact_text(row)[0]
        assert secret not in redacted, redacted
        assert redactor.redact_text(redacted) == (redacted, {})


@pytest.mark.parametrize(
    "form",
    [
        "psql 'host=db1 user=app password=@@ dbname=shop'",
        'conn = connect("dbname=shop user=app password=@@")',
        "pg_dump -d 'host=db1 password=@@ port=5432' > dump.sql",
    ],
)
@pytest.mark.parametrize("sign", "&|,")
def test_a_password_among_the_settings_of_a_connection_holds_any_sign(form: str, sign: str) -> None:
    assert left(form, lambda draw: f"{word(draw).title()}{sign}{word(draw)}{draw.randint(100, 9999)}", 50) == []
    kept = f"run {form.replace('@@', 'hunter22')} && make all"
    found = [find.secret for find in RULES.finds(f"\n{kept}\n".encode())]
    assert set(found) <= {b"hunter22"}
