"""Passwords in forms of many languages, in prompts, and in the settings and commands of programs and devices."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable

import pytest

from tests.tracer.redaction.positives import seed_key, wallet_key
from tests.tracer.redaction.test_everyday import RULES, key, left, missed, password, word
from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.rule_pack import GITLEAKS

LABELS: list[str] = tomllib.loads(GITLEAKS.with_name("own.toml").read_text(encoding="utf-8"))["labels"]


def chosen(draw: random.Random) -> str:
    between, end = draw.choice("-+@%#"), draw.choice(["", "!"])
    return f"{word(draw).title()}{between}{word(draw).title()}{draw.randint(10, 9999)}{end}"


MADE = [password, chosen]


@pytest.mark.parametrize("spelt", [str, str.capitalize, str.upper])
def test_a_password_is_found_behind_its_label_in_each_language(spelt: Callable[[str], str]) -> None:
    draw, missing = random.Random(11), []
    for label in LABELS:
        for form in ("{}: @@", "{}：@@", "{} = @@", "* {} → @@", "**{}:** `@@`", "{} abc déf: @@"):
            missing += [(label, form) for made in MADE if missed(form.format(spelt(label)), made(draw))]
    assert missing == []


@pytest.mark.parametrize("label", ["PIN", "PIN code", "Código PIN", "PIN-Code", "PIN kodu", "SIM PIN", "PIN番号"])
def test_a_pin_is_found_behind_its_label(label: str) -> None:
    assert left(f"{label}: @@", lambda draw: "".join(draw.sample("0123456789", draw.randint(4, 8)))) == []


@pytest.mark.parametrize(
    "line",
    [
        "Passwort: vergessen?",
        "Mật khẩu: bắt buộc",
        "contraseña: obligatoria",
        "PIN: 13",
        "GPIO_PIN: 4711",
        "Enter the password for the server: required",
        "password -> hash",
        "file_pat = 'report-2024-01-data.csv'",
        "COMPASS=northwest",
        "SERVER_AUTH = '1.3.6.1.5.5.7.3.1'",
        'private_key: "_DSAPrivateKey"',
        "key: '_EllipticCurvePrivateKey'",
        "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
        '{"PASS": "\\x1b[32m", "token": "\\033[31m"}',
        'START = b"-----BEGIN OPENSSH PRIVATE KEY-----"\nEND = b"-----END OPENSSH PRIVATE KEY-----"',
        "(`mysql -p`, `openssl -passin` and so on)",
        "a * b * c",
    ],
)
def test_words_names_and_numbers_stay(line: str) -> None:
    assert list(RULES.finds(f"\n{line}\n".encode())) == []


@pytest.mark.parametrize(
    "form",
    [
        "Enter passphrase for key '/home/ann/.ssh/id_ed25519': @@",
        "ann@host's password for git: @@",
        "[sudo] password for ann: @@",
        "A temporary password is generated for root@localhost: @@",
        "A new password has been set for ann: @@",
        "- Password → @@",
        "Passphrase => @@",
        "PGPASS=@@",
        "MYSQLPASS=@@",
        "ldap_default_authtok = @@",
    ],
)
@pytest.mark.parametrize("made", MADE)
def test_a_password_is_found_behind_prompts_and_short_names(form: str, made: Callable[[random.Random], str]) -> None:
    assert left(form, made) == []


@pytest.mark.parametrize(
    "form",
    [
        "enable password 0 @@",
        "enable secret level 5 @@",
        "ppp chap password 0 @@",
        "tacacs-server host 10.1.1.1 key @@",
        "radius-server host 10.1.1.1 auth-port 1812 key 0 @@",
        "neighbor 10.0.0.1 password @@",
        "crypto isakmp key @@ address 0.0.0.0",
        "ip ospf message-digest-key 1 md5 @@",
        'pre-shared-key ascii-text "@@";',
        "snmp-server user ann admins v3 auth sha @@ priv aes 128 x",
        '# client server secret IP\nann  *  "@@"  *',
        "d-i passwd/root-password-again password @@",
        "mysql-server mysql-server/root_password_again password @@",
        "chpasswd:\n  list: |\n    root:one-1-two-X2\n    ann:@@\n",
        "chpasswd:\n  expire: false\n  list: |\n    root:R\n    bob:R\n    eve:R\n    ann:@@\n",
        "ssh-keygen -t ed25519 -f id -N '@@'",
        "ssh-keygen -p -P @@ -f id",
        'CMD ["redis-server", "--requirepass", "@@"]',
        "redis-server --masterauth @@",
        "aws ssm put-parameter --name /a --type SecureString --value '@@' --overwrite",
        "aws ssm put-parameter --value @@ --name /a --type SecureString",
        "mc alias set it https://s3.example.org:9000 ABCDEF @@",
        "echo '@@' | kinit ann@EXAMPLE.ORG",
        "echo @@ | wrangler secret put NAME",
        "printf '%s' @@ | gh secret set NAME",
        "echo -n @@ | docker secret create name -",
        'sudo -S whoami <<< "@@"',
        "chpasswd <<< 'ann:@@'",
        "bundle config set --global gems.example.org ann:@@",
        "BUNDLE_GEMS__EXAMPLE__ORG=ann:@@",
        "composer config http-basic.repo.example.org ann @@",
        "slappasswd -s @@",
        "samba-tool user create ann @@",
        "uci set wireless.@iface[0].key='@@'",
        "rasdial office ann @@",
        "xfreerdp /v:host /u:ann /p:'@@' /cert:ignore",
        "yt-dlp -p @@ https://example.org/v",
    ],
)
def test_a_secret_is_found_in_commands_and_settings_of_programs(form: str) -> None:
    assert left(form, password) == []


@pytest.mark.parametrize(
    "form",
    [
        '{"name": "Cookie", "value": "theme=dark; sid=@@"}',
        '{"name":"set-cookie","value":"sid=@@; Path=/"}',
        'Content-Disposition: form-data; name="password"\r\n\r\n@@\r\n--x--',
        'Content-Disposition: form-data; name="api_token"\nContent-Type: text/plain\n\n@@\n--x--',
        "AZURE_DEVOPS_EXT_PAT=@@",
        "azureDevopsExtPat: '@@'",
        'gitlab_pat = "@@"',
    ],
)
def test_cookies_parts_of_forms_and_access_tokens_are_found(form: str) -> None:
    assert left(form, key) == []


def test_a_bot_s_token_is_found_in_the_address_that_holds_it() -> None:
    def made(draw: random.Random) -> str:
        return f"{draw.randint(10**9, 10**10 - 1)}:AA{key(draw, 33)}"

    assert left("https://api.telegram.org/bot@@/sendMessage", made) == []


@pytest.mark.parametrize("made", [wallet_key, seed_key])
def test_keys_of_wallets_are_found_where_their_check_is_right(made: Callable[[random.Random], str]) -> None:
    draw = random.Random(made.__name__)
    values = [made(draw) for _ in range(20)]
    assert [value for value in values if missed("it is @@ so far", value)] == []
    turned = [value[:20] + ("A" if value[20] != "A" else "B") + value[21:] for value in values]
    assert [value for value in turned if not missed("it is @@ so far", value)] == []


@pytest.mark.parametrize("many", [12, 24])
@pytest.mark.parametrize("told", ["Recovery phrase ({} words):\n@@", "seed phrase:\n\n  @@", "mnemonic:\nlog: @@"])
def test_a_seed_phrase_is_found_below_its_label(told: str, many: int) -> None:
    draw = random.Random(many)
    assert not missed(told.format(many), " ".join(word(draw) for _ in range(many)))


@pytest.mark.parametrize("made", MADE)
def test_what_a_shell_quoted_within_quotes_is_found(
    redactor: ProjectRedactor, made: Callable[[random.Random], str]
) -> None:
    draw = random.Random(made.__name__)
    for form in ("sqlcmd -S host -U sa -P '@@' -Q 'SELECT 1'", "mysql -p'@@' db", "password = '@@'"):
        value = made(draw)
        quoted = "bash -c '{}'".format(form.replace("@@", value).replace("'", "'\"'\"'"))
        redacted, _ = redactor.redact_text(f"{quoted}\n")
        assert value not in redacted
        assert redactor.redact_text(redacted) == (redacted, {})
