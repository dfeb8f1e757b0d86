"""Passwords without a digit, lists of arguments, headers in settings, and what a shell or a form escaped once more."""

from __future__ import annotations

import base64
import json
import random
import shlex
import string
import uuid
from collections.abc import Callable
from urllib.parse import quote_plus

import pytest

from tests.tracer.redaction.test_everyday import digits, key, left, missed, password, word
from tracer.redaction.engine import ProjectRedactor

Draw = random.Random


def letters(draw: Draw) -> str:
    """Drawn letters in either case; of few enough to look like a name, one in fifty does."""
    return "".join(draw.choices(string.ascii_letters, k=draw.randint(12, 18)))


def letters_and_signs(draw: Draw) -> str:
    values = string.ascii_letters + "!%^*-+.?~"
    return f"{draw.choice(values[:52])}{''.join(draw.choices(values, k=18))}{draw.choice(values[:52])}"


def words_and_number(draw: Draw) -> str:
    return f"{word(draw).title()}{draw.choice('.-')}{word(draw)}{draw.randint(10, 9999)}"


def drawn_token(draw: Draw) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


@pytest.mark.parametrize(
    "form",
    [
        "[client]\npassword=@@",
        '{"POSTGRES_PASSWORD": "@@"}',
        "  MYSQL_ROOT_PASSWORD: @@",
        "bindpw @@",
        "signing.password=@@",
        '<user username="admin" password="@@" roles="x"/>',
        "tool create --admin-password @@ --tier small",
        "rabbitmqctl change_password app @@",
        "user joe\npassword @@",
        'psk="@@"',
    ],
)
@pytest.mark.parametrize("made", [letters, letters_and_signs])
def test_a_drawn_password_without_a_digit_is_found(form: str, made: Callable[[Draw], str]) -> None:
    """One in a few hundred looks like a name, or like code, by chance."""
    assert len(left(form, made, 300)) <= 6


@pytest.mark.parametrize(
    "line",
    [
        "password = StandardCharsets",
        "password: PasswordTextField",
        'password: "Wachtwoord"',
        'password: "AnyXmlHttpRequest"',
        "const password = ZodMiniUUID;",
        "db_password = vaultKvReadV",
        'password: "Kata sandi Anda"',
        "mysql --password=$MYSQLROOTPWD",
        "password=%(mysqlpwd)s",
        "spring.datasource.password=#{systemProperties}",
    ],
)
def test_names_and_words_without_a_digit_stay(line: str) -> None:
    assert missed("@@", line)


@pytest.mark.parametrize(
    "form",
    ["gcloud sql instances create i --root-password=@@ --tier=x", "bw login joe@x.org @@", "net user app @@ /add"],
)
def test_a_password_of_words_and_a_number_is_found_behind_an_option(form: str) -> None:
    assert left(form, words_and_number, 40) == []


@pytest.mark.parametrize("sign", [",", ".", "&", ":", "="])
@pytest.mark.parametrize(
    ("program", "before", "after"),
    [
        (["oc", "login"], ["-u", "joe", "-p"], []),
        (["docker", "login"], ["-u", "joe", "--password"], ["r.example.org"]),
        (["/usr/bin/mysqldump"], ["-u", "root", "-p*"], ["shop"]),
        (["openssl", "rsa"], ["-in", "k", "-passin", "pass:*"], ["-out", "o"]),
        (["skopeo", "copy"], ["--dest-creds=joe:*"], ["docker://a", "docker://b"]),
        (["composer", "config"], ["http-basic.example.org", "joe"], []),
        (["sudo", "-n", "helm", "registry", "login"], ["r.example.org", "-p"], []),
        (["mc", "alias", "set"], ["store", "https://s3.example.org", "joe"], []),
    ],
)
def test_a_list_of_strings_is_read_as_a_command_line(
    redactor: ProjectRedactor, program: list[str], before: list[str], after: list[str], sign: str
) -> None:
    draw = Draw(f"{program}{sign}")
    for _ in range(20):
        value = f"{word(draw).title()}{sign}{word(draw)}{draw.randint(10, 9999)}"
        option = [each.replace("*", value) for each in before]
        words = [*program, *option, *(() if option != before else (value,)), *after]
        call = f"subprocess.run({words!r}, check=True)"
        for text in (json.dumps({"argv": words}), call, json.dumps(words, indent=2)):
            redacted = redactor.redact_text(text)[0]
            assert not any(part in redacted for part in (value, value.rpartition(sign)[2])), redacted


@pytest.mark.parametrize(
    "line", ['["npm", "yarn", "--version2"]', '["mysql", "redis", "--port", "54321"]', '["docker"]']
)
def test_lists_that_are_no_command_lines_stay(redactor: ProjectRedactor, line: str) -> None:
    assert redactor.redact_text(line) == (line, {})


@pytest.mark.parametrize(
    "form",
    [
        'proxy_set_header Cookie "JSESSIONID=@@";',
        'req.setHeader("Cookie", "ASP.NET_SessionId=@@");',
        'add_header Set-Cookie "sid=@@; Path=/; HttpOnly";',
        'proxy_set_header Authorization "GenieKey @@";',
        'request.setHeader("Authorization", "Splunk @@");',
        'proxy_set_header Ocp-Apim-Subscription-Key "@@";',
        'RequestHeader set X-Vault-Token "@@"',
    ],
)
@pytest.mark.parametrize("made", [drawn_token, digits, key])
def test_a_header_is_found_in_a_servers_settings_and_in_calls(form: str, made: Callable[[Draw], str]) -> None:
    assert left(form, made, 40) == []


@pytest.mark.parametrize(
    "line",
    [
        'proxy_set_header Host "backend.example.org";',
        'req.setHeader("Cookie", "theme=dark");',
        'app.set("cookie", "session options here");',
        'setHeader("X-Auth-Token", "missing token value")',
    ],
)
def test_other_headers_stay(line: str) -> None:
    assert missed("@@", line)


@pytest.mark.parametrize(
    "form",
    [
        "mysql -u root -p@@ shop",
        "  password: '@@'\n  user: app",
        'export DB_PASSWORD="@@"',
        "curl -H 'X-Auth-Token: @@' x",
    ],
)
def test_what_a_shell_or_a_form_escaped_once_more_is_found(redactor: ProjectRedactor, form: str) -> None:
    draw = Draw(form)
    for _ in range(10):
        value = password(draw)
        text = f"ls -la\n{form.replace('@@', value)}\nmake all\n"
        quoted = "".join(sign if sign.isalnum() or sign in "@%+=:,./-_\n" else f"\\{sign}" for sign in text)
        for dressed in (quoted, quote_plus(quote_plus(text)), shlex.quote(text)):
            redacted = redactor.redact_text(dressed)[0]
            assert value not in redacted, redacted
            assert redactor.redact_text(redacted) == (redacted, {})


@pytest.mark.parametrize(
    ("form", "made"),
    [
        ("https://calendar.google.com/calendar/ical/ann%40x.org/private-@@/basic.ics", digits),
        ("remotepass = @@", password),
        ("fernet_key = @@=", lambda draw: key(draw, 43)),
        ("src/app.conf:12:db1:5432:shop:app:@@", password),
        ('<machineKey validationKey="@@" validation="SHA1" />', lambda draw: digits(draw, 128).upper()),
        ('{"alg": "HS256",\n  "k": "@@"}', lambda draw: key(draw, 43)),
        ("waka_@@", drawn_token),
    ],
)
def test_further_kinds_are_found(form: str, made: Callable[[Draw], str]) -> None:
    assert left(form, made, 100) == []


@pytest.mark.parametrize("form", ["DJANGO_SECRET_KEY=@@", "    SECRET_KEY: @@", "export SECRET_KEY_BASE=@@"])
def test_a_secret_key_of_any_signs_is_found_in_settings(form: str) -> None:
    signs = string.ascii_lowercase + string.digits + "!@#%^*(-_=+)"
    assert left(form, lambda draw: "".join(draw.choices(signs, k=50)), 100) == []


def test_a_value_whose_line_ends_where_nothing_follows_is_looked_at(redactor: ProjectRedactor) -> None:
    """The line that was joined to it came out empty, and its first sign was asked for."""
    value = base64.b64encode(b"joe:kLWljsnoaPCK").decode()[:17] + "\x1b]8;;\x1b\\UNLdA=="
    link = "\x1b]8;;file:///srv/a.txt\x1b\\"
    text = (
        f"hi all, the dep{link}l\x1b]8;;\x1b\\oy to {link}staging\x1b]8;;\x1b\\ went fine this morni{link}"
        "ng\x1b]8;;\x1b\\\n"
        f"//registry.{link}example.org/:_auth={value}\n```\ncan som{link}eone\x1b]8;;\x1b\\ look at the flaky test?\n"
        f"I think the {link}timeout\x1b]8;;\x1b\\ is too short"
    )
    assert "UNLdA" not in redactor.redact_text(text)[0]
