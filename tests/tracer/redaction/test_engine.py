"""What every writer is promised: secrets out, everything else as it was, the same mark for the same secret."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from tracer.errors import ConfigError, RecordError
from tracer.redaction.engine import ProjectRedactor

MODEL_KEY = "sk-" + "ant-api03-Zx81kQ29pLmV4tR7"
PEM = (
    "-----BEGIN RSA " + "PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEAq1w2e3r4\n" * 12 + "-----END RSA " + "PRIVATE KEY-----"
)
JWT = ".".join(("eyJ" + "hbGciOiJIUzI1NiJ9", "eyJ" + "zdWIiOiIxMjM0In0", "c2lnbmF0dXJlMTIz"))
SEED_SHAPES = {
    "sk-": MODEL_KEY,
    "AIza": "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6",
    "ghp_": "ghp_" + "a1B2c3D4" * 5,
    "bearer": "q7W8e9R0t1Y2u3I4",
    "pem": PEM,
    "jwt": JWT,
    "connection string": "tr0ub4dor&3",
}
CONTEXT = {"bearer": "Authorization: Bearer {}", "connection string": "postgres://app:{}@db.example.net/main"}


@pytest.mark.parametrize("shape", SEED_SHAPES)
def test_a_secret_of_each_named_shape_is_replaced_and_counted(redactor: ProjectRedactor, shape: str) -> None:
    secret = SEED_SHAPES[shape]
    text, counts = redactor.redact_text(f"before {CONTEXT.get(shape, '{}').format(secret)} after")
    assert secret not in text
    assert text.startswith("before ")
    assert text.endswith(" after")
    assert sum(counts.values()) == 1
    assert re.search(r"\[REDACTED:[a-z0-9-]+:[0-9a-f]{6}\]", text)


def test_ordinary_text_comes_back_as_the_same_object(redactor: ProjectRedactor) -> None:
    text = "def add(a: int, b: int) -> int:\n    return a + b  # café ☕\n"
    assert redactor.redact_text(text) == (text, {})
    value = {"prompt": text, "rows": [1, 2.5, None, True, {"x": text}]}
    assert redactor.redact_value(value).value is value


@pytest.mark.parametrize(
    "text",
    [
        "zstyle ':completion:*:*:telnet:*:my-accounts' users-hosts-ports",  # as many colons as in a .pgpass, and more
        "$env:PATH='C:\\Tools\\bin'",
    ],
)
def test_what_has_the_shape_of_a_secret_alone_stays(redactor: ProjectRedactor, text: str) -> None:
    assert redactor.redact_text(text) == (text, {})


@pytest.mark.parametrize(
    "encode",
    [
        lambda secret: json.dumps({"note": f'it is "{secret}"'}),
        lambda secret: "".join(f"\\u{ord(sign):04x}" for sign in secret),
        lambda secret: quote(f"key={secret}&x=1", safe=""),
        lambda secret: "".join(f"%{ord(sign):02X}" for sign in secret),
        lambda secret: base64.b64encode(f"the key is {secret}, use it".encode()).decode(),
        lambda secret: base64.urlsafe_b64encode(f"x {secret}".encode()).decode().rstrip("="),
        lambda secret: base64.encodebytes(f"{'padding words ' * 6}{secret}{' more words' * 9}".encode()).decode(),
        lambda secret: f"a key: {secret}, kept\n".encode().hex(),
        lambda secret: f"a key: {secret}".encode().hex().upper(),
        lambda secret: "\n".join(textwrap.wrap(f"words {secret} and more".encode().hex(), 60)),
    ],
    ids=[
        "json",
        "json-unicode",
        "url",
        "url-all",
        "base64",
        "base64url",
        "base64-wrapped",
        "hex",
        "hex-upper",
        "hex-wrapped",
    ],
)
def test_one_level_of_encoding_hides_nothing_and_gives_the_same_mark(redactor: ProjectRedactor, encode) -> None:
    mark, _ = redactor.redact_text(MODEL_KEY)
    text, counts = redactor.redact_text(f"got {encode(MODEL_KEY)} back")
    assert mark in text
    assert sum(counts.values()) == 1
    assert redactor.redact_text(text) == (text, {})


def test_values_of_variables_with_telling_names_are_known_wherever_they_turn_up(make) -> None:
    environ = {
        "DEPLOY_PASSWD": "blue horse 42",
        "PLAIN": "not a secret",
        "SHORT_KEY": "abc",
        "VAULT": "named in config",
    }
    redactor = make(environ=environ, extra_names=["VAULT"])
    inside = base64.b64encode(b"x: blue horse 42 :y").decode()
    text, counts = redactor.redact_text(f"blue horse 42 / not a secret / abc / named in config / {inside}")
    assert counts == {"known-value": 3}
    assert "not a secret / abc" in text
    assert "blue" not in text
    assert "named in" not in text


AWKWARD = 'it\'s \\ a "pässwörd" & <so on>'


@pytest.mark.parametrize(
    "quoted",
    [
        json.dumps(AWKWARD),
        json.dumps(AWKWARD, ensure_ascii=False),
        json.dumps(json.dumps({"v": AWKWARD})),
        base64.b64encode(json.dumps({"v": AWKWARD}).encode()).decode(),
        quote(json.dumps({"v": AWKWARD})),
        repr(AWKWARD),
        repr(AWKWARD.encode()),
        AWKWARD.encode().hex(),
        quote(AWKWARD),
        quote_plus(AWKWARD),
        html.escape(AWKWARD),
        html.escape(AWKWARD, quote=False),
        html.escape(AWKWARD).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
        shlex.quote(AWKWARD),
        "'" + AWKWARD.replace("'", "'\\''") + "'",
    ],
)
def test_a_known_value_is_known_however_a_program_quotes_it(make, quoted: str) -> None:
    redactor = make(environ={"DB_PASSWORD": AWKWARD})
    mark, _ = redactor.redact_text(AWKWARD)
    text, counts = redactor.redact_text(f"got {quoted} back")
    assert mark in text
    assert counts == {"known-value": 1}
    assert len(text) < len(mark) + 100


def test_a_variable_that_holds_an_existing_path_is_a_place_not_a_secret(make, tmp_path: Path) -> None:
    redactor = make(environ={"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path)})
    assert redactor.redact_text(f"cd {tmp_path}")[1] == {}


def test_keys_are_redacted_too_and_the_shape_stays(redactor: ProjectRedactor) -> None:
    value = {MODEL_KEY: [1, None, {"deep": [MODEL_KEY, True]}], "n": 1.5}
    redacted, counts = redactor.redact_value(value)
    mark = redactor.redact_text(MODEL_KEY)[0]
    assert redacted == {mark: [1, None, {"deep": [mark, True]}], "n": 1.5}
    assert counts == {"secret-key": 2}


def test_a_string_is_judged_with_the_key_it_stands_under(redactor: ProjectRedactor) -> None:
    word = "hunter2" * 2
    value = {"login": {"password": word, "name": word}}
    redacted = redactor.redact_value(value).value
    assert redacted["login"]["password"].startswith("[REDACTED:secret-field:")
    assert redacted["login"]["name"] == word


def test_a_secret_that_is_split_over_chunks_is_caught(redactor: ProjectRedactor) -> None:
    chunks, counts = redactor.redact_chunks(["one " + MODEL_KEY[:7], MODEL_KEY[7:15], MODEL_KEY[15:] + " two", ""])
    assert chunks == ["one " + redactor.redact_text(MODEL_KEY)[0], "", " two", ""]
    assert counts == {"secret-key": 1}


def test_placeholders_are_never_marked_again(redactor: ProjectRedactor) -> None:
    text = f"api_key = [REDACTED:generic-api-key:a1b2c3] and password: {redactor.redact_text(MODEL_KEY)[0]}"
    assert redactor.redact_text(text) == (text, {})


def test_the_same_secret_has_the_same_mark_in_one_project_and_another_in_the_next(make, tmp_path: Path) -> None:
    first, again = make(), make()
    other = make(state_dir=tmp_path / "other")
    assert first.redact_text(MODEL_KEY) == again.redact_text(MODEL_KEY)
    assert first.redact_text(MODEL_KEY) != other.redact_text(MODEL_KEY)


def test_the_key_is_kept_for_its_owner_only(redactor: ProjectRedactor, tmp_path: Path) -> None:
    redactor.redact_text(MODEL_KEY)
    key = tmp_path / "state" / "redaction.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert [path.name for path in key.parent.iterdir()] == ["redaction.key"]


def test_processes_that_make_the_key_at_the_same_time_agree(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from tracer.redaction.marks import load_key; "
    code += "print(load_key(Path(sys.argv[1])).hex())"
    command = [sys.executable, "-c", code, str(tmp_path / "state")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    keys = {process.communicate()[0] for process in running}
    assert len(keys) == 1
    assert len(keys.pop().strip()) == 64


def test_a_damaged_key_stops_the_writer_instead_of_marking_with_another(make, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "redaction.key").write_bytes(b"short")
    with pytest.raises(RecordError, match="damaged"):
        make().redact_text(MODEL_KEY)


def test_a_bad_team_rule_is_named(make) -> None:
    with pytest.raises(ConfigError, match="'ours'"):
        make(extra_rules={"ours": "(?=x)"}).redact_text("x")


def test_a_team_rule_marks_its_shape(make) -> None:
    text, counts = make(extra_rules={"badge": r"\bBADGE-[0-9]{4}\b"}).redact_text("see BADGE-1234 now")
    assert counts == {"badge": 1}
    assert "1234" not in text


def test_lone_surrogates_and_deep_nesting_are_carried_through(redactor: ProjectRedactor) -> None:
    value: object = MODEL_KEY + "\ud800"
    for _ in range(5000):
        value = [value]
    redacted = redactor.redact_value(value).value
    for _ in range(5000):
        redacted = redacted[0]
    assert redacted == redactor.redact_text(MODEL_KEY)[0] + "\ud800"


def test_importing_and_building_load_no_rules() -> None:
    code = "import sys; from pathlib import Path; from tracer.redaction.engine import build_redactor; "
    code += "build_redactor(state_dir=Path('x'), environ={}); print('re2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
