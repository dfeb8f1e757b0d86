"""Values whose place leaves no doubt: letters in no order, words in a command, a line that sets one thing."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable

import pytest

from tests.tracer.redaction.test_apart import four_words, numbered
from tests.tracer.redaction.test_everyday import key, left, missed, phrase, word
from tracer.redaction.engine import ProjectRedactor

Draw = random.Random


def jumbled(draw: Draw) -> str:
    """Letters whose case changes more often than where words begin."""
    pieces = ["".join(draw.choices("bcdfghjkqvxz", k=draw.randint(2, 3))).title() for _ in range(5)]
    return "".join(pieces) + draw.choice(string.ascii_uppercase)


def parted(draw: Draw) -> str:
    """A password in which a comma, or another sign that parts values, stands early."""
    start = "".join(draw.choices(string.ascii_letters, k=draw.randint(2, 4)))
    upper, lower = draw.choice(string.ascii_uppercase), draw.choice(string.ascii_lowercase)
    return f"{start},{lower}{upper}{draw.choice('=:#%')}{draw.randint(10, 99)}{lower}{draw.choice(['', ',7'])}"


def short(draw: Draw) -> str:
    """Two words, two signs and a number: an attribute's path looks the same, but no command takes one."""
    return f"{word(draw)}{draw.choice('.-_')}{word(draw)}_{draw.randint(10, 99)}"


@pytest.mark.parametrize(
    "form",
    [
        'password: "@@"',
        "db_pass = '@@'",
        "ALTER USER app WITH PASSWORD '@@';",
        '#define WIFI_PASSWORD "@@"',
        '{"username": "ann", "password": "@@"}',
        'Client.new(user: "ann", password: "@@")',
        "DB_PASSWORD=@@",
    ],
)
def test_letters_in_no_order_are_a_password_in_quotes_and_settings(form: str) -> None:
    assert left(form, jumbled, 100) == []


@pytest.mark.parametrize(
    "line",
    [
        'password: "isValidOrNot"',
        "db_pass = 'userPassWordField'",
        'password = "getMyPassword"',
        "'password' => 'EqualToOther',",
        'password: "XMLHttpRequest"',
        "password = settings.dbPass",
    ],
)
def test_names_in_quotes_stay(line: str) -> None:
    assert missed(line.replace("@@", ""), line)


@pytest.mark.parametrize(
    "form",
    [
        'ConvertTo-SecureString "@@" -AsPlainText -Force',
        "rabbitmqctl change_password app '@@'",
        "wpa_passphrase net @@",
        'dotnet user-secrets set "Db:Password" "@@"',
        "net user app @@ /add",
        "poetry config http-basic.shop app @@",
        "set default wpa2-pre-shared-key=@@",
    ],
)
@pytest.mark.parametrize("made", [four_words, short])
def test_words_are_a_password_where_a_command_takes_one(form: str, made: Callable[[Draw], str]) -> None:
    if "shared-key" not in form or made is four_words:
        assert left(form, made, 40) == []


@pytest.mark.parametrize(
    "form",
    [
        "password: @@",
        "db_password = @@",
        "Passwort: @@",
        "密码：@@",
        "Parola d'ordine: @@",
        "  pass=@@",
        "export DB_PASSWORD=@@",
    ],
)
def test_a_password_that_is_a_whole_setting_may_hold_a_comma_anywhere(form: str) -> None:
    assert left(form, parted, 100) == []


@pytest.mark.parametrize("form", ['"SMTP_PASSWORD=@@"', "'--password=@@'"])
def test_a_password_within_quotes_of_its_setting_may_hold_a_comma_anywhere(form: str) -> None:
    assert left(form, parted, 100) == []


def test_what_a_program_documents_is_found() -> None:
    draw = Draw(5)
    signs = string.ascii_letters + string.digits
    for _ in range(50):
        number, drawn = draw.randint(1, 9), "".join(draw.choices(signs, k=28))
        share = base64.b64encode(draw.randbytes(33)).decode()
        encrypted = "{AQAAABAAAAAw" + base64.b64encode(draw.randbytes(64)).decode() + "}"
        for form, value in (
            (f"Unseal Key {number}: @@", share),
            ("Recovery Key 1: @@", draw.randbytes(33).hex()),
            ("X-Vault-Token: @@", f"s.{''.join(draw.choices(string.ascii_letters, k=24))}"),
            ("see @@ there", f"sig_{drawn}"),
            ("PASSWORD elastic = @@", drawn[:20]),
            ("<password>@@</password>", encrypted),
            ("A temporary password is generated for root@localhost: @@", f"{drawn[:5]}>{drawn[5:9]}7x"),
            ("app.use(session({ resave: false, secret: '@@' }))", four_words(draw)),
            ("sudo -S true <<< '@@'", f"Abc:{numbered(draw)}"),
            ("secret\n-[ RECORD 1 ]---\npassword | @@\n", f"{drawn[:4]}:{drawn[4:9]}7"),
        ):
            assert not missed(form, value), (form, value)


@pytest.mark.parametrize("before", ["password | ", "token      | "])
def test_the_name_of_a_column_before_another_stays(redactor: ProjectRedactor, before: str) -> None:
    text = f"{before}character varying: not null\n{before}description:\n"
    assert redactor.redact_text(text) == (text, {})


@pytest.mark.parametrize("value", ["keyboard cat", "change-me", "secret"])
def test_the_example_of_a_session_stays(redactor: ProjectRedactor, value: str) -> None:
    text = f"app.use(session({{ secret: '{value}', resave: false }}));\n"
    assert redactor.redact_text(text) == (text, {})


def test_the_value_behind_an_old_one_and_in_a_dump_of_php_is_told_by_the_name(redactor: ProjectRedactor) -> None:
    draw = Draw(2)
    for _ in range(20):
        value = phrase(draw, ".") + "_" + str(draw.randint(10, 99))
        for text in (
            f'password = "{json.dumps(word(draw))[1:-1]}" -> "{value}"\n',
            f'["password"]=>\n  string({len(value)}) "{value}"\n',
            f"SSHPASS={value} sshpass -e scp a b:\n",
        ):
            assert value not in redactor.redact_text(text)[0]


def _numbered(before: str) -> Callable[[str], str]:
    def put(text: str) -> str:
        lines = text.splitlines(keepends=True)
        return "".join(before.format(at=at, seconds=at % 60) + line for at, line in enumerate(lines, 8))

    return put


_BEFORE = {
    "number and arrow": _numbered("{at:6}→"),
    "number": _numbered("{at:6}\t"),
    "file": _numbered("src/app.conf:{at}:"),
    "syslog": _numbered("Mar  4 10:00:{seconds:02} web1 app[812]: "),
    "container": _numbered("web-1  | 2026-03-04T10:00:{seconds:02}.1{at}Z "),
    "pod": _numbered("[pod/web-5d9c7b8f6-x2k4q/app] "),
    "build": _numbered("build\tRun tests\t2026-03-04T10:00:{seconds:02}.1234567Z "),
    "quote": _numbered(">> "),
    "added": _numbered("+"),
    "arrow within JSON": lambda text: json.dumps({"content": _numbered("{at:6}→")(text)}),
}
_BELOW = {
    "element": "<AdministratorPassword>\n  <Value>@@</Value>\n  <PlainText>true</PlainText>\n",
    "dump": '  ["password"]=>\n  string(14) "@@"\n',
    "form": 'Content-Disposition: form-data; name="password"\n\n@@\n--b\n',
    "list": "<dict>\n  <key>ApiSecret</key>\n  <string>@@</string>\n",
    "netrc": "machine h.example\n  login ann\n  password @@\n",
    "key": "Private-Lines: 2\n@@\n@@\nPrivate-MAC: 0\n",
}


@pytest.mark.parametrize("before", _BEFORE)
@pytest.mark.parametrize("below", _BELOW)
def test_a_value_below_its_name_is_found_whatever_stands_before_each_line(
    redactor: ProjectRedactor, before: str, below: str
) -> None:
    draw = Draw(before + below)
    for _ in range(10):
        secret = {"key": base64.b64encode(draw.randbytes(48)).decode(), "list": key(draw)}.get(below, short(draw))
        text = _BEFORE[before]("first line\n" + _BELOW[below].replace("@@", secret) + "last line\nend\n")
        redacted, counts = redactor.redact_text(text)
        assert counts, text
        assert secret not in redacted
        assert below == "key" or "end" in redacted
        assert redactor.redact_text(redacted) == (redacted, {})


@pytest.mark.parametrize("before", _BEFORE)
def test_names_at_the_end_of_lines_of_a_log_tell_of_no_words(redactor: ProjectRedactor, before: str) -> None:
    text = _BEFORE[before]("the password:\nwas changed\nsecret:\n  name: app-settings\nkey:\n  - first\n")
    assert redactor.redact_text(text) == (text, {})


@pytest.mark.parametrize("width", [60, 64, 72, 76, 80])
@pytest.mark.parametrize("between", ["", '    "permissions": "FULL",\n', '    "a": "1",\n    "b": "2",\n'])
def test_a_padded_key_is_found_where_its_line_was_cut(redactor: ProjectRedactor, width: int, between: str) -> None:
    draw = Draw(width)
    for _ in range(10):
        one, two = (base64.b64encode(draw.randbytes(64)).decode() for _ in range(2))
        for text in (
            f'  {{\n    "keyName": "key1",\n{between}    "value": "{one}"\n  }},\n',
            f"KeyName  Value\nkey1       FULL           {one}\nkey2       FULL           {two}\n",
        ):
            cut = "\n".join(
                line[at : at + width] for line in text.split("\n") for at in range(0, len(line) or 1, width)
            )
            redacted = redactor.redact_text(cut)[0].replace("\n", "")
            assert [
                each for each in (one, two) if each in text and (each[:40] in redacted or each[-40:] in redacted)
            ] == []
