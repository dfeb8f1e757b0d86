"""Everyday forms in which programs, settings and people write a secret: what stands beside it tells, not its looks."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

import pytest

from tests.tracer.redaction.positives import all_rules
from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.rule_set import RuleSet

RULES = RuleSet(all_rules())
_VOWELS, _OTHERS = "aeiou", "bdfgklmnprtvz"
_MIXED = string.ascii_letters + string.digits
_MANY = [10, pytest.param(2000, marks=pytest.mark.torture)]


def word(draw: random.Random) -> str:
    """A made-up word of six letters: no list of words knows it."""
    return "".join(draw.choice(_OTHERS) + draw.choice(_VOWELS) for _ in range(3))


def phrase(draw: random.Random, between: str = "-") -> str:
    return between.join(word(draw) for _ in range(3))


def dotted(draw: random.Random) -> str:
    return f"{word(draw).title()}.{word(draw).title()}{draw.randint(2000, 2030)}"


def password(draw: random.Random) -> str:
    return f"{''.join(draw.choices(_MIXED, k=9))}{draw.randint(10, 99)}{draw.choice(_MIXED)}"


def key(draw: random.Random, size: int = 40) -> str:
    return "".join(draw.choices(_MIXED, k=size))


def digits(draw: random.Random, size: int = 32) -> str:
    return f"{draw.getrandbits(size * 4):0{size}x}"


def missed(form: str, secret: str) -> bool:
    """Whether some of the secret stays where it stands in the form."""
    text = f"\n{form.replace('@@', secret)}\n".encode()
    kept = bytearray(text)
    for find in RULES.finds(text):
        kept[find.start : find.end] = b"*" * (find.end - find.start)
    return secret.encode() in bytes(kept)


def left(form: str, made: Callable[[random.Random], str], many: int = 20) -> list[str]:
    """Of `many` values drawn for the form, those that stay where they stand in it."""
    draw = random.Random(form)
    return [value for value in (made(draw) for _ in range(many)) if missed(form, value)]


@pytest.mark.parametrize(
    "form",
    [
        'password: "@@"',
        "password = '@@'",
        '{"db_password": "@@"}',
        "{'passwd': '@@'}",
        "tool --password @@ run",
        "password=@@",
        "DB_PASSWORD=@@",
        'smtpPass: "@@"',
        '<add key="db.password" value="@@"/>',
        "CREATE USER x IDENTIFIED BY '@@';",
    ],
)
@pytest.mark.parametrize("made", [phrase, dotted])
def test_a_password_made_of_words_is_found_beside_its_name(form: str, made: object) -> None:
    assert callable(made)
    assert left(form, made) == []


@pytest.mark.parametrize(
    "line",
    [
        "password = get_password()",
        "def login(password: str, token: str | None = None) -> None:",
        'password: ""',
        "key = key.strip()",
        "password = settings.database.password",
        '"password": "new-password"',
        '"password": "auth.form.password.label"',
        'password: "Enter the password"',
        "password: SecretStr",
        "if password == confirm_password:",
        "password = user_input_value",
        "private_key: x25519.X25519PrivateKey",
        "token: Annotated[str, Depends(oauth2_scheme)]",
        'password=os.environ["DB_PASSWORD"],',
        "the password is case-sensitive and must be changed",
        "    - pass --with-build-python2 to configure",
        '"cache_key": "users-by-email"',
    ],
)
def test_code_texts_of_forms_and_prose_stay(line: str) -> None:
    assert list(RULES.finds(f"\n{line}\n".encode())) == []


@pytest.mark.parametrize(
    "form",
    [
        "the password is @@ please change it",
        "- **Password:** @@",
        "the root pw is @@",
        "mot de passe : @@",
        "contraseña: @@",
        "пароль: @@",
        "密码：@@",
        "パスワード: @@",
        "Credentials: admin / @@",
        "see (DB_PASSWORD=@@).",
    ],
)
def test_a_password_told_in_a_text_is_found(form: str) -> None:
    assert left(form, lambda draw: f"{word(draw).title()}-{word(draw).title()}{draw.randint(10, 99)}") == []


@pytest.mark.parametrize(
    "form",
    [
        'PASSWORD="${PASSWORD:-@@}"',
        '#define WIFI_PASSWORD "@@"',
        'DB_PASSWORD+="@@"',
        'setPassword("@@")',
        '.password("@@")',
        "auth=('app', '@@')",
        'let password: &str = "@@";',
        'Creds { token: Some("@@"), retries: 3 }',
        '{"password": String("@@")}',
        '["password"]=>\n  string(12) "@@"',
        's:8:"password";s:12:"@@";',
        'variable "db_password" {\n  default = "@@"\n}',
        '"db_password": {"value": "@@", "type": "string"}',
        'password = "old-one-7Qx" -> "@@"',
        "if password == '@@':",
        "driver.find_element(By.ID, 'password').send_keys('@@')",
        "await page.fill('#password', '@@')",
        'expect "password:"\nsend "@@\\r"',
        'Elasticsearch(url, basic_auth=("elastic", "@@"))',
        'WiFi.begin("guest", "@@");',
        'db.auth("app", "@@")',
        "<tr><td>Password</td><td>@@</td></tr>",
        "app: password: |\napp:     @@\n",
        "log:  - name: DB_PASSWORD\nlog:    value: @@\n",
        "$CFG->dbpass = '@@';",
        "mysqlPwd: '@@'",
        "tool --db-pass @@ run",
        "tool --admin-pw @@ run",
    ],
)
def test_a_secret_in_code_is_found_in_the_forms_of_many_languages(form: str) -> None:
    assert left(form, password) == []


@pytest.mark.parametrize(
    "form",
    [
        "requirepass @@",
        "command: redis-server --requirepass @@",
        "masterauth @@",
        "user default on >@@ ~* +@all",
        "bindpw @@",
        "rootpw --plaintext @@",
        'rcon_password "@@"',
        "rocommunity @@ 10.0.0.0/8",
        "set psksecret @@",
        "tacacs-server key @@",
        "createUser app SHA @@ AES x",
        "d-i passwd/user-password password @@",
        "127.0.0.1:6379> AUTH app @@",
        "USER app\n331 need password\nPASS @@\n230 ok",
        "a1 LOGIN app @@",
        "IDENTIFY @@",
        "app:@@@tcp(db:3306)/x",
        "[smtp.example.org]:587 app:@@",
        "chpasswd:\n  list: |\n    app:@@\n",
        "WIFI:T:WPA;S:guest;P:@@;;",
        "    Key Content            : @@",
        "smbpasswd -a app -w @@",
        "net ads join -U app%@@",
        "htpasswd -b -c .htpasswd app @@",
        "skopeo copy --src-creds app:@@ docker://a docker://b",
        "curl -b 'session=@@' https://h",
        "printf '%s' @@ | gpg --batch --passphrase-fd 0 -c f",
        "CREATE USER scott IDENTIFIED BY @@;",
        "# app:{PLAIN}@@",
        "REDIS_AUTH=@@",
    ],
)
def test_what_a_program_takes_for_a_password_is_found_behind_its_word(form: str) -> None:
    assert left(form, password) == []


@pytest.mark.parametrize("many", _MANY)
@pytest.mark.parametrize(
    "form",
    [
        "AZURE_OPENAI_KEY=@@",
        "see (ALGOLIA_ADMIN_KEY=@@).",
        '#define SOME_KEY "@@"',
        "Auth token is @@",
        "use the API key @@ for now",
        "**API key**: `@@`",
    ],
)
def test_hexadecimal_keys_are_found_whatever_digits_were_drawn(form: str, many: int) -> None:
    assert left(form, digits, many) == []


@pytest.mark.parametrize("many", _MANY)
def test_bootstrap_tokens_are_found_whatever_was_drawn(many: int) -> None:
    draw = random.Random(many)
    signs = string.ascii_lowercase + string.digits
    for _ in range(many):
        token = "".join(draw.choices(signs, k=6)) + "." + "".join(draw.choices(signs, k=16))
        assert not missed("kubeadm join 10.0.0.1:6443 --token @@ --v 5", token), token


@pytest.mark.parametrize(
    ("form", "size"),
    [
        ("Authorization: @@", 40),
        ("P12_B64: MIIK@@", 300),
        ("AUTH PLAIN @@", 24),
        ("userPassword:: @@", 16),
        ("xprv9s21ZrQH143K@@", 96),
    ],
)
def test_encoded_secrets_behind_their_word_are_found(form: str, size: int) -> None:
    draw = random.Random(form)
    signs = _MIXED.replace("0", "").replace("O", "").replace("I", "").replace("l", "")
    values = ["".join(draw.choices(signs, k=size)) for _ in range(20)]
    assert [value for value in values if missed(form, value)] == []


@pytest.mark.parametrize("prefix", ["", "2026-11-02T10:00:01Z app: ", "conf/a.key:12:", "> ", "     7\t"])
def test_cut_blocks_of_keys_are_found_below_the_prefix_of_a_line(redactor: ProjectRedactor, prefix: str) -> None:
    draw = random.Random(prefix)
    lines = [key(draw, 64) for _ in range(4)]
    hexadecimal = [digits(draw) for _ in range(4)]
    begun = ["-----BEGIN OPENSSH PRIVATE KEY-----", *lines]
    ended = [*lines, "-----END RSA PRIVATE KEY-----"]
    static = ["-----BEGIN OpenVPN Static key V1-----", *hexadecimal, "-----END OpenVPN Static key V1-----"]
    for block in (begun, ended, static):
        text, _ = redactor.redact_text("\n".join(prefix + line for line in block))
        assert [line for line in (*lines, *hexadecimal) if line in text] == []


@pytest.mark.parametrize("behind", ["\nregion = eu-west-1", ", and more", '" }'])
def test_what_stands_behind_a_shape_is_no_part_of_the_secret(redactor: ProjectRedactor, behind: str) -> None:
    draw = random.Random(behind)
    one = "".join(draw.choices(string.ascii_uppercase + "234567", k=16))
    for shape in (f"AKIA{one}", f"oy2{digits(draw, 43)}", f"md-{key(draw, 22)}"):
        assert redactor.redact_text(f"got {shape}{behind}")[0].endswith(f"]{behind}"), shape
