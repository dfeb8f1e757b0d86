"""Names and values that stand apart: what is between them, in code, in objects of JSON and in answers of clouds."""

from __future__ import annotations

import base64
import random
import string
import uuid
from collections.abc import Callable

import pytest

from tests.tracer.redaction.test_everyday import key, left, missed, password, word
from tracer.redaction.engine import ProjectRedactor

Draw = random.Random


def signs(draw: Draw) -> str:
    """A password with any sign in it that no string of code has to escape."""
    body = "".join(draw.choices(string.ascii_letters + string.digits + "!#&*+,.:;=?@^_~-", k=8))
    return f"{draw.choice(string.ascii_letters)}{body}{draw.randint(10, 99)}"


def numbered(draw: Draw) -> str:
    return f"{word(draw)}{draw.randint(100, 9999)}"


def four_words(draw: Draw) -> str:
    return "-".join(word(draw) for _ in range(4))


@pytest.mark.parametrize(
    "form",
    [
        'val password: Option[String] = Some("@@")',
        'const ADMIN_PASSWORD: &str = "@@";',
        'static DB_PASSWORD: &\'static str = "@@";',
        "private password: string | null = '@@';",
        'std::string db_password{"@@"};',
        'HMAC_SECRET = b"@@"',
        'hmac_secret = rb"@@"',
        'NSString *password = @"@@";',
        'var jwtSecret = []byte("@@")',
        'client_secret: SecretStr = SecretStr("@@")',
        'Secret dbPassword = Secret.fromString("@@");',
        "const secretKey = new TextEncoder().encode('@@');",
        "password: Buffer.from('@@')",
        "const secret = process.env.JWT_SECRET || '@@';",
        "const password = env.DB_PASSWORD ?? '@@'",
        'password = os.getenv("DB_PASSWORD") or "@@"',
        '{:host "db" :user "app" :password "@@"}',
        'password "@@"',
        '"password": String("@@")',
    ],
)
@pytest.mark.parametrize("made", [password, signs, numbered])
def test_a_literal_is_found_in_what_it_is_put_in(form: str, made: Callable[[Draw], str]) -> None:
    assert left(form, made, 40) == []


@pytest.mark.parametrize(
    "form", ['apiSecret = "@@"', 'client_secret: "@@"', '{"webhookSecret": "@@"}', 'const ADMIN_PASSWORD: &str = "@@";']
)
def test_words_without_a_digit_are_found_in_quotes_behind_an_unmistakable_name(form: str) -> None:
    assert left(form, four_words, 40) == []


@pytest.mark.parametrize(
    "line",
    [
        "def login(user: str, password: str, other: str = 'fallback-mode-2'):",
        "password: Option[String] = None",
        'const password = process.env.DB_PASSWORD || "";',
        'password = os.environ["DB_PASSWORD"] or "default"',
        'secretName: "my-app-tls-cert"',
        '"secret": "web-frontend-lorem-ipsum"',
        'token = get_token("user-1-token")',
        'password = getpass("Enter password 1: ")',
        "password: &Path = Path::new(name)",
        'type the password "foo bar 1" twice',
    ],
)
def test_types_and_calls_beside_a_name_stay(line: str) -> None:
    assert missed("@@", line)


@pytest.mark.parametrize("form", ["password: &main @@", "db_password: !!str @@", "password: &a !!str '@@'"])
@pytest.mark.parametrize("made", [password, numbered])
def test_a_value_is_found_behind_an_anchor_and_a_tag_of_yaml(form: str, made: Callable[[Draw], str]) -> None:
    assert left(form, made, 40) == []


@pytest.mark.parametrize(
    "form",
    [
        '{"name": "DB_PASSWORD", "value": "@@"}',
        '{"value": "@@", "name": "ADMIN_PASSWORD", "scope": "prod"}',
        '{"Name": "/app/db/password", "Type": "String", "Version": 2, "Value": "@@"}',
        '{\n  "value": "@@",\n  "enabled": true,\n  "key": "smtp_password"\n}',
        '> {\n>   "variableName": "SMTP_PASSWORD",\n>   "secured": false,\n>   "value": "@@"\n> }',
        '{"admin_password": {"sensitive": true, "type": "string", "value": "@@"}}',
        'log: "db_password": {\nlog:   "type": "string",\nlog:   "value": "@@"\nlog: }',
        '{"Name": "/app/dsn", "Type": "SecureString", "Value": "@@"}',
        '"conn": {"sensitive": true, "type": "string", "value": "@@"}',
    ],
)
@pytest.mark.parametrize("made", [password, signs, numbered])
def test_the_value_of_an_object_is_found_by_the_name_in_it(form: str, made: Callable[[Draw], str]) -> None:
    assert left(form, made, 40) == []


def test_values_of_other_objects_stay() -> None:
    for line in (
        '{"name": "password", "type": "string"}, {"name": "region", "value": "eu-west-1a2b"}',
        '{"name": "password_policy", "value": "min-length-12"}',
        '{"key": "item:7", "value": "a1b2c3d4e5"}',
    ):
        assert missed("@@", line)


def storage_key(draw: Draw) -> str:
    return base64.b64encode(draw.randbytes(64)).decode()


@pytest.mark.parametrize(
    "form",
    [
        "KeyName    Permissions    Value\n---------  -------------  ------\nkey1       FULL           @@",
        '{\n  "keyName": "key2",\n  "permissions": "FULL",\n  "value": "@@"\n}',
        "key1\tFULL\t@@",
    ],
)
def test_the_keys_of_a_storage_account_are_found(form: str) -> None:
    assert left(form, storage_key, 200) == []


@pytest.mark.parametrize(
    "form",
    [
        "Input Password    id:password    @@",
        "    Input Password    ${FIELD}    @@",
        "Type Secret    css=#pw    @@",
        "${DB_PASSWORD}    @@",
        "${password}=    Set Variable    @@",
        "    ${admin_password} =    Set Suite Variable    @@",
    ],
)
@pytest.mark.parametrize("made", [password, numbered])
def test_a_field_of_a_test_by_keywords_is_found(form: str, made: Callable[[Draw], str]) -> None:
    assert left(form, made, 40) == []


@pytest.mark.parametrize("form", ["SecretID:         @@", "Secret ID    = @@", '{"SecretID": "@@"}'])
def test_the_secret_half_of_an_access_token_is_found(form: str) -> None:
    assert left(form, lambda draw: str(uuid.UUID(int=draw.getrandbits(128), version=4)), 200) == []


def test_what_stands_beside_the_id_of_an_access_key_is_found() -> None:
    def access_key(draw: Draw) -> str:
        return "".join(draw.choices(string.ascii_letters + string.digits + "+/", k=40))

    marked = "".join(Draw(3).choices(string.ascii_uppercase + "234567", k=16))
    for form in (f"CREDENTIALS\tASIA{marked}\t2026-11-06T01:09:52+00:00\t@@", f"AKIA{marked} @@", f"AKIA{marked},@@"):
        assert left(form, access_key, 200) == []
    session = f"CREDENTIALS\tASIA{marked}\t2026-11-06T01:09:52+00:00\t{key(Draw(1))}\t@@"
    assert left(session, lambda draw: key(draw, 300), 40) == []


def joined(draw: Draw) -> str:
    """Words, and signs and digits between or behind them."""
    one, two, number = word(draw).title(), word(draw).title(), draw.randint(10, 9999)
    sign, other = draw.choice("-_.+@#%=:,"), draw.choice("-_.")
    return draw.choice(
        [
            f"{one}{sign}{number}{two}",
            f"{word(draw)}{other}{word(draw)}{sign.replace(',', other)}{number}",
            f"{one}{number}",
            f"{word(draw)[:1]}{draw.randint(1, 9)}{word(draw)}{draw.randint(0, 9)}{word(draw)[:2]}",
        ]
    )


def ending(draw: Draw) -> str:
    return f"{word(draw).title()}{draw.randint(1950, 2029)}{draw.choice('-_.+@#%=:')}"


@pytest.mark.parametrize(
    "form",
    [
        "Wachtwoord: @@",
        "Passwort: @@",
        "contraseña: @@",
        "密码：@@",
        "密码：@@，请保密",
        "비밀번호: @@입니다",
        "**Password:** `@@`",
        "- Password → @@",
        "--password=@@",
        "--db-password @@ run",
        "password = @@",
        "DB_PASSWORD: @@",
        ':password "@@"',
        'Environment="SMTP_PASSWORD=@@" "PORT=8080"',
        "-PrepoPassword=@@ publish",
        "[password] => @@",
        "db_password: >-\n  @@\n",
        "d-i passwd/root-password-again password @@",
    ],
)
@pytest.mark.parametrize("made", [joined, ending])
def test_a_password_is_found_whatever_signs_join_its_parts(form: str, made: Callable[[Draw], str]) -> None:
    assert left(form, made, 100) == []


def test_a_command_in_quotes_holds_a_password_with_any_sign() -> None:
    for form in ('Environment="SMTP_PASSWORD=@@" "PORT=8080"', "docker run -e 'DB_PASSWORD=@@' app"):
        draw = Draw(form)
        values = [f"{word(draw).title()}{draw.choice(';&|')}{signs(draw)}" for _ in range(100)]
        assert [value for value in values if missed(form, value)] == []


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("//h/share /mnt cifs username=app,password=", ",uid=1000,rw 0 0"),
        ("//h/share /mnt cifs username=app,password=", ",rw 0 0"),
        ("{user: app, password: ", ",port:5432}"),
        ("export DB_PASSWORD=", ";echo done"),
        ("DB_PASSWORD=", "&&make"),
        ("host=h&password=", "&region=eu"),
        ("密码：", "，请保密"),
    ],
)
def test_what_stands_behind_a_password_that_no_quotes_end_stays(
    redactor: ProjectRedactor, before: str, behind: str
) -> None:
    draw = Draw(before)
    for value in (password(draw), numbered(draw), f"{word(draw).title()},{numbered(draw).title()}{word(draw).title()}"):
        redacted, _ = redactor.redact_text(f"{before}{value}{behind}\n")
        assert redacted.endswith(f"]{behind}\n"), redacted


@pytest.mark.parametrize(
    "line",
    [
        "密码：至少8位以上",
        "パスワード：8文字以上で入力してください。",
        "Passwort: mindestens 8 Zeichen",
        "contraseña: obligatoria",
        "password: required, min-length-8, max-length-64",
        "**Password:** see above",
        "login(username=name, password=password, timeout=30)",
        "--password=PASSWORD, the password to use",
    ],
)
def test_what_forms_say_of_a_password_stays(redactor: ProjectRedactor, line: str) -> None:
    assert redactor.redact_text(line) == (line, {})
