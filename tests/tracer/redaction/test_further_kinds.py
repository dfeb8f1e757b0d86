"""What daemons and programs take at a place of its own, keys by their shape alone, and small letters in settings."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable

import pytest

from tests.tracer.redaction.test_everyday import digits, key, left, missed, password, phrase, word
from tracer.redaction.engine import ProjectRedactor

Draw = random.Random
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def small(draw: Draw) -> str:
    """Small letters that were drawn: one in a hundred reads like a word."""
    return "".join(draw.choices(string.ascii_lowercase, k=draw.randint(10, 16)))


def word_and_number(draw: Draw) -> str:
    return f"{word(draw).title()}{draw.choice('._')}{draw.randint(1000, 9999)}.{word(draw)[:3]}"


def _of(signs: str, size: int) -> Callable[[Draw], str]:
    return lambda draw: "".join(draw.choices(signs, k=size))


@pytest.mark.parametrize(
    "form",
    [
        "users joe:CL:@@",
        "BasicAuth joe @@",
        "upstream http joe:@@@proxy.example.org:3128",
        "forward-socks5 / joe:@@@10.1.2.3:1080 .",
        "authCredentials = joe:@@",
        "MONITOR ups@localhost 1 joe @@ secondary",
        "localclient:@@:10",
        "set httpd port 2812\n  use address 10.1.2.3\n  allow joe:@@",
        'set superusers="joe"\npassword joe @@',
        ".logon tdprod/joe,@@;",
        "-object secret,id=s,format=raw,data=@@ -vnc :1",
        "radtest joe @@ 127.0.0.1 1812 testing123",
        "radtest joe Bit7ter 127.0.0.1 1812 @@",
        '  shared-secret "@@";',
        'X.LoginModule required\n  user_joe="@@";',
        'credentials += Credentials("a realm", "nexus.example.org", "joe", "@@")',
        'new PasswordAuthentication("joe", "@@".toCharArray())',
        "snmp-server community @@ RO",
        "com2sec readonly default @@",
        "ftp -n 10.1.2.3\nuser joe @@\nbye",
        "PRAGMA key = '@@';",
        "conjur login -i joe -p @@",
        "mcrcon -H mc.example.org -p @@ list",
        "p4 -u joe -P @@ sync",
        "bitcoin-cli -rpcpassword=@@ getinfo",
        "trojan://@@@203.0.113.9:443?sni=x#office",
        "hysteria2://@@@203.0.113.9:443/",
        "socks5://@@@203.0.113.9:1080",
        "#cloud-config\nchpasswd:\n  list: |\n    joe:@@",
    ],
)
@pytest.mark.parametrize("made", [password, phrase, small])
def test_what_programs_and_daemons_take_at_a_place_of_its_own_is_found(form: str, made: Callable[[Draw], str]) -> None:
    assert left(form, made) == []


@pytest.mark.parametrize(
    "line",
    [
        "allow tcp:8080 from any",
        "the monitor shows 1 user and 2 hosts",
        "user_name = 'x', user_id = 3",
        "basicauth is required here",
        "image@sha256:0123 name:latest@host",
        "http://example.org/path?x=1",
        "https://git@example.org/a.git",
        "1 sha256 checksum",
    ],
)
def test_other_uses_of_these_words_stay(line: str) -> None:
    assert missed("@@", line)


@pytest.mark.parametrize(
    ("shape", "made"),
    [
        ("suiprivkey1@@", _of(_BECH32, 59)),
        ("ed25519_sk1@@", _of(_BECH32, 58)),
        ("addr_xsk1@@", _of(_BECH32, 100)),
        ("secret-extended-key-main1@@", _of(_BECH32, 200)),
        ("edsk@@", _of(_BASE58, 50)),
        ("ed25519:@@", _of(_BASE58, 87)),
        ("ed25519-priv-0x@@", lambda draw: digits(draw, 64)),
        ("0201036c6e6402@@", lambda draw: digits(draw, 240)),
        ("mzp_@@", lambda draw: digits(draw, 64)),
        ("pdl_ntfset_01hxyz0123456789abcdefghjk_@@", key),
        ("AAAAb1C2d3E:@@", lambda draw: key(draw, 140)),
        ("MC4CAQAwBQYDK2VwBCIEI@@", lambda draw: key(draw, 43)),
        ("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC@@", lambda draw: key(draw, 300)),
        ("https://eth-mainnet.g.alchemy.com/v2/@@", lambda draw: key(draw, 32)),
        ("https://mainnet.infura.io/v3/@@", digits),
        ("https://x.quiknode.pro/@@/", lambda draw: digits(draw, 40)),
        ("https://rpc.ankr.com/eth/@@", lambda draw: digits(draw, 64)),
        ("https://alert.victorops.com/integrations/generic/20131114/alert/0f1e2d3c-4b5a-4978-8796-@@/ops",
         lambda draw: digits(draw, 12)),
        ("ctx7sk-0f1e2d3c-4b5a-4978-8796-@@", lambda draw: digits(draw, 12)),
        ("tpuf_@@", lambda draw: key(draw, 32)),
    ],
)  # fmt: skip
def test_a_key_is_found_by_its_shape_alone(shape: str, made: Callable[[Draw], str]) -> None:
    assert left(shape, made) == []


def test_the_bytes_of_a_wallet_are_found() -> None:
    draw = Draw(3)
    numbers = ",".join(str(byte) for byte in draw.randbytes(64))
    assert not missed("$ cat ~/.config/solana/id.json\n[@@]", numbers)
    assert missed("[@@]", "1,2,3,4")


@pytest.mark.parametrize(
    "form",
    [
        "[6001]\ntype=auth\nusername=6001\npassword=@@",
        "username=joe\npassword=@@\ndomain=EXAMPLE",
        "> remoteuser = joe\n> remotepass = @@",
        '{"RSYNC_PASSWORD": "@@"}',
        '{"HASURA_GRAPHQL_ADMIN_SECRET": "@@"}',
        "set -x REDISCLI_AUTH '@@'",
        "<key>MSSQL_SA_PASSWORD</key>\n<string>@@</string>",
        "app.conf:7:db.user=joe\napp.conf:8:db.password=@@",
    ],
)
@pytest.mark.parametrize("made", [small, word_and_number])
def test_a_password_in_a_setting_needs_no_look_at_it(form: str, made: Callable[[Draw], str]) -> None:
    assert len(left(form, made, 200)) <= 1


@pytest.mark.parametrize("form", ["password: '@@'", "smtp_auth_password: '@@'", "change_password shop @@", 'psk="@@"'])
def test_small_letters_in_quotes_or_behind_an_option_are_a_password(form: str) -> None:
    """One in forty reads like words."""
    text = f"rabbitmqctl {form}" if form.startswith("change") else form
    assert len(left(text, small, 200)) <= 10


@pytest.mark.parametrize(
    "text",
    [
        "    user = name\n    password = hashedvalue\n    check(hashedvalue)",
        "user: String\npassword: placeholdertext",
        "self.user = user\nself.password = candidate",
        'password: "required"',
        "password = tokenvalue\nuser = name",
        "username=joe\npassword=changeme",
        "max_token => 10_000,",
        "credentials = ec2_metadata_credentials_json",
        "my $Token = qr/[\\x21\\x23-\\x27\\x2A]/;",
        'append(cmd.Env, "PWD="+cmd.Dir)',
        "exports.X_ACCEPTABLE_AUTH = exports.SOCKS5_CUSTOM_AUTH_END;",
        '<h4 id="XML_SetHashSalt">XML_SetHashSalt</h4>',
        "./sign1 sign1-tmpl.xml rsakey.pem > sign1-res.xml",
        "syn keyword\tservice\tkpasswd\nsyn keyword\tservice\tpop3pw5x9\nsyn keyword\tservice\tkrb524",
        "REG_NAME_PAT = r'(?:[^\\[\\]%:/?#]|%[a-fA-F0-9]{2})*'",
    ],
)
def test_names_of_code_and_texts_of_forms_stay(redactor: ProjectRedactor, text: str) -> None:
    assert redactor.redact_text(f"\n{text}\n") == (f"\n{text}\n", {})


def test_what_is_drawn_within_other_base64_is_no_key(redactor: ProjectRedactor) -> None:
    draw = Draw(5)
    text = f'"{key(draw, 80)}/EAA{key(draw, 200)}"'
    assert "facebook" not in redactor.redact_text(text)[0]


@pytest.mark.parametrize(
    "form", ['{"PGPASSWORD": "@@"}', 'password = "@@"', '<add key="db.password" value="@@"/>', 'secret "@@";']
)
@pytest.mark.parametrize("levels", [0, 1])
def test_a_field_of_csv_with_quotes_in_it_is_read(redactor: ProjectRedactor, form: str, levels: int) -> None:
    draw = Draw(form)
    for made in (password, phrase, word_and_number):
        value = made(draw)
        text = f'id,body\n17,"{form.replace("@@", value).replace(chr(34), chr(34) * 2)}"\n'
        for _ in range(levels):
            text = json.dumps({"file": text})
        redacted = redactor.redact_text(text)[0]
        assert value not in redacted
        assert redactor.redact_text(redacted) == (redacted, {})


@pytest.mark.parametrize(
    "header",
    [
        "-----BEGIN \x1b]8;;https://example.org/x\x1b\\OPENSSH\x1b]8;;\x1b\\ PRIVATE KEY-----",
        "-----BEGIN OPENSSH <span class='k'>PRIVATE</span> KEY-----",
        "-----BEGIN OPENSSH \x1b[32mPRIVATE\x1b[0m KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----",
    ],
)
def test_a_key_is_found_where_one_word_of_its_header_is_dressed(redactor: ProjectRedactor, header: str) -> None:
    draw = Draw(header)
    body = [key(draw, 70) for _ in range(5)]
    end = header.replace("BEGIN", "END") if "SSH2" in header else "-----END OPENSSH PRIVATE KEY-----"
    redacted = redactor.redact_text("\n".join(("before", header, *body, end, "behind\n")))[0]
    assert not [line for line in body if line[:30] in redacted]
    assert redacted.endswith("\nbehind\n")


@pytest.mark.parametrize(
    "text",
    [
        "506F 5070 5071 5072 5073 5074 5075",
        "7872 7873 7874 7875 7876 7877 4109 7966 7970 7971 7972 7973",
        "+2026-11-28 10:04:11 INFO worker started",
    ],
)
def test_rows_of_a_table_are_no_cards_and_dates_no_telephones(redactor: ProjectRedactor, text: str) -> None:
    assert redactor.redact_text(f"{text}\n") == (f"{text}\n", {})
