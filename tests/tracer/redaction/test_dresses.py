"""No secret gets through however it is dressed: colours, tags, entities, escapes, wraps, wide characters."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from unittest import mock
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tracer.redaction.positives import MARK, Positive, all_rules, positive
from tracer.redaction import views
from tracer.redaction.engine import ProjectRedactor, build_redactor
from tracer.redaction.views import (
    Layer,
    Undone,
    any_view,
    collapsed,
    control_view,
    form_view,
    joined_views,
    json_view,
    layers_of,
    mail_view,
    markup_view,
    url_view,
)

Dress = Callable[[str], str]
# Known by a shape of their own, in one line: what goes by a word in another line is lost where lines are left out.
SHAPED = [
    canary
    for canary in map(positive, all_rules())
    if len(canary.secret) >= 20 and re.fullmatch(r"[\w.+/~-]+", canary.text) and canary.text.endswith(canary.secret)
]


@pytest.fixture(scope="module")
def redactor(tmp_path_factory: pytest.TempPathFactory) -> ProjectRedactor:
    return build_redactor(
        state_dir=tmp_path_factory.mktemp("state"),
        environ={"HOME": "/home/janedoe", "USER": "janedoe"},
        host="wonderbox",
        persons=(),
    )


def each(form: str) -> Dress:
    return lambda text: "".join(form.format(sign=sign, code=ord(sign), tone=at % 8) for at, sign in enumerate(text))


def parted(between: str, size: int) -> Dress:
    return lambda text: between.join(text[at : at + size] for at in range(0, len(text), size))


def wrapped(width: int) -> Dress:
    return lambda text: parted("\n", width)("word " * 9 + text + " and more words on the same line")


def wide(encoding: str) -> Dress:
    return lambda text: text.encode(encoding).decode("latin-1")


def without(pattern: str) -> Dress:
    return lambda text: re.sub(pattern, "", text)


def escapes_undone(text: str) -> str:
    text = re.sub(r"\\(?:u\{([0-9a-f]+)\}|[ux]([0-9a-f]{2,4}))", lambda m: chr(int(m[1] or m[2], 16)), text)
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def again(step: Dress, times: int) -> Dress:
    def repeated(text: str) -> str:
        for _ in range(times):
            text = step(text)
        return text

    return repeated


def unjson(text: str) -> str:
    return re.sub(r"\\+([\"\\/])", r"\1", re.sub(r"\\+n", "\n", text))


def one_quoted(text: str) -> str:
    return quote(text, safe="")


COLOUR, UNCOLOUR = each("\x1b[3{tone}m{sign}"), without(r"\x1b\[[0-9;]*m")
UNTAG = without(r"<[^<>]*>")
DRESSES: dict[str, tuple[Dress, Dress]] = {
    "coloured": (COLOUR, UNCOLOUR),
    "coloured in JSON": (lambda text: json.dumps(COLOUR(text)), without(r"\\u001b\[[0-9;]*m")),
    "coloured in JSON in JSON": (again(json.dumps, 2), unjson),
    "colours spelt out": (each("\\e[3{tone}m{sign}"), without(r"\\e\[[0-9;]*m")),
    "colours made visible": (each("^[[3{tone}m{sign}"), without(r"\^\[\[[0-9;]*m")),
    "linked": (parted("\x1b]8;;http://x\x1b\\", 9), without(r"\x1b\][^\x1b]*\x1b\\")),
    "titled": (parted("\x1b]0;title\x07", 9), without(r"\x1b\][^\x07]*\x07")),
    "struck twice": (each("{sign}\b{sign}"), without(r".\x08")),
    "underlined": (each("_\b{sign}"), without(r".\x08")),
    "entities": (each("&#{code};"), html.unescape),
    "entities in hexadecimal": (each("&#x{code:x};"), html.unescape),
    "entities twice": (lambda text: html.escape(each("&#{code};")(text)), again(html.unescape, 2)),
    "tags": (parted("</b><b>", 3), UNTAG),
    "highlighted": (parted('</span><span class="s1">', 5), UNTAG),
    "URL": (each("%{code:02x}"), unquote),
    "URL twice": (lambda text: one_quoted(each("%{code:02x}")(text)), again(unquote, 2)),
    "URL in JSON": (lambda text: json.dumps(one_quoted(f"a b={text}")), unquote),
    "JSON in URL": (lambda text: one_quoted(json.dumps({"a": text})), unquote),
    "JSON in JSON": (again(lambda text: json.dumps({"a": text}), 2), unjson),
    "JSON in JSON in JSON": (again(lambda text: json.dumps({"a": text}), 3), unjson),
    "code points": (each("\\u{code:04x}"), escapes_undone),
    "code points in braces": (each("\\u{{{code:x}}}"), escapes_undone),
    "hexadecimal escapes": (each("\\x{code:02x}"), escapes_undone),
    "octal escapes": (each("\\{code:03o}"), escapes_undone),
    "UTF-16": (wide("utf-16-le"), without("\0")),
    "UTF-16 the other way": (wide("utf-16-be"), without("\0")),
    "UTF-32": (wide("utf-32-le"), without("\0")),
    "UTF-16 in JSON": (lambda text: json.dumps(wide("utf-16-le")(text)), without(r"\\u0000")),
    "continued": (parted("\\\n", 9), without(r"\\\n")),
    "soft breaks of mail": (parted("=\n", 30), without("=\n")),
    "without width": (parted("\u200b", 1), without("\u200b")),
    "soft hyphens": (parted("\u00ad", 7), without("\u00ad")),
    "wrapped at 60": (wrapped(60), without("\n")),
    "wrapped at 80, with returns": (lambda text: wrapped(80)(text).replace("\n", "\r\n"), without(r"\r\n")),
    "wrapped and indented": (lambda text: parted("\n    ", 60)("word " * 9 + text + " more"), without("\n    ")),
    "form": (lambda text: "payload=" + quote_plus(json.dumps({"a": f"b {text}"})), unquote_plus),
    "wrapped base64 in JSON": (
        lambda text: json.dumps(base64.encodebytes(f"some words {text} more words".encode()).decode()),
        lambda text: "".join(
            base64.b64decode(run + "=" * (-len(run) % 4)).decode("latin-1")
            for run in re.findall(r"[A-Za-z0-9+/]{16,}", text.replace("\\n", ""))
        ),
    ),
}


def leaks(canary: Positive, text: str) -> bool:
    text, secret = MARK.sub("", text), canary.secret
    return any(secret[at : at + 12] in text for at in range(len(secret) - 11))


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize(
    "canaries", [SHAPED[::9], pytest.param(SHAPED, marks=pytest.mark.torture)], ids=["some", "all"]
)
def test_a_dressed_canary_is_caught(redactor: ProjectRedactor, canaries: list[Positive], dress: str) -> None:
    put_on, take_off = DRESSES[dress]
    for canary in canaries:
        dressed = f"out:\n{put_on(f' {canary.text} ')}\n"
        assert leaks(canary, take_off(dressed)), (dress, canary.rule)  # the dress can be taken off
        text, counts = redactor.redact_text(dressed)
        assert sum(counts.values()) >= 1, (dress, canary.rule)
        assert not leaks(canary, take_off(text)), (dress, canary.rule)
        assert redactor.redact_text(text) == (text, {}), (dress, canary.rule)
        value, _ = redactor.redact_value({"output": dressed.removeprefix("out:\n")})
        assert not leaks(canary, take_off(value["output"])), (dress, canary.rule)


PASSWORD = "oQpkn2t1HixmzfZf"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        # An ordinary word is cut; a sign that is no letter is; what stands beside the secret is.
        (
            f"{'the job ended, and what it told is: Error: request fai':.>60}\n    led: ghp_{'aB3dE6gH9' * 4}",
            "aB3dE6gH9",
        ),
        (f"{'started with postgres://app:' + PASSWORD:.>60}\n    @db.internal:5432/app", PASSWORD),
        (
            f"{'GET / HTTP/1.1 Cookie: sessionid=':.>60}\n    ys5c0ncyr7t8xm8gqcor44qzi11b7pio; theme=dark",
            "ys5c0ncyr7t8",
        ),
        (f"{'settings: password: ' + chr(39):.>72}\nGE$Aoq%/l5Fv0w6Cg/@:iWO'", "l5Fv0w6Cg"),
        # A longer line before it, of which it looks like the rest.
        (f"{'x' * 85}\nEAAG{'zmWNURa5xd' * 7}aB3dE6\nSKTPgDaGEpPVC6{'zmWNURa5xd' * 5}", "SKTPgDaGEpPVC6"),
        # As YAML folds what stands in quotes; mail's escapes beside its soft breaks; a form without escapes; a diff.
        ('k: "token is sk-aB3dE6gH9aB3dE6gH9a\\\n    B3dE6gH9zQ4rT7zQ4rT7"', "zQ4rT7"),
        ("value=3Dnpm_aB3dE6gH9aB3dE6gH=\r\n9aB3dE6gH9zQ4rT7zQ4r", "zQ4rT7"),
        ("body=mysql+-h+db+-u+svc+-pcvRKX4K6gfjhBXBs+app&n=1", "cvRKX4K6gfjh"),
        ("--- a/x\n+++ b/x\n-redis-cli -a nDJVmEjh7lxMaU8D info", "nDJVmEjh7lxM"),
        # Other escapes, encoded words, frames, strings put together, a header's folds.
        (r"\texttt{sk\_live\_aB3dE6gH9aB3dE6gH9aB3dE6gH9}", "aB3dE6gH9aB"),
        ("Subject: =?utf-8?B?Z2hwX2FCM2RFNmdIOWFC?=\r\n =?utf-8?B?M2RFNmdIOWFCM2RFNmdIOWFCM2Q=?=", "M2RFNmdIOWFC"),
        (f"│ it was ghp_{'aB3dE6gH9' * 2} │\n│ {'aB3dE6gH9' * 2}          │", "aB3dE6gH9aB"),
        ('note = "ghp_aB3dE6gH9aB3dE6g" +\n    "H9aB3dE6gH9aB3dE6gH9"', "H9aB3dE6gH9"),
        (f"{'X-Note: it was ghp_aB3dE6gH9':.>75}\r\n aB3dE6gH9aB3dE6gH9aB3dE6gH9", "aB3dE6gH9aB"),
        (f"{'GET /cb?access_token=':.>76}\n  j6ap1acHLmspje8KkA0UNgxVxgv7azmg2TyRtpC&state=x", "j6ap1acHLmsp"),
        # Passwords that happen to look like a name, or like code.
        ("SMTP_PW=YJW0iV8j61g.ikYy", "YJW0iV8j61g"),
        ("PRIVATE-TOKEN: Qdnj80TiKjqYeoliPnZn", "Qdnj80TiKjq"),
        ("SMTP_PW=Vjro4IEXl!srh==3", "Vjro4IEXl"),
        ("vault_password: KQf1533.Igyc54bt", "KQf1533"),
        ("DB_PASSWORD=cJQJTkmXSF.oz61h", "cJQJTkmXSF"),
        (
            '{"m": "SECRET_KEY = &amp;#x27;k&amp;amp;-ek+-7ckwdtz@s3-^@%flo%g7_j_43po2!5*)*xfk%ea_-7a&amp;#x27;"}',
            "-7ckwdtz",
        ),
        ("the value was [-none-]{+DD_API_KEY=20b4b37563728b81122c84f089285c12+} here", "20b4b3756372"),
        ("* [HTTP/2] [1] [x-note: HEROKU_API_KEY=f4e54a64-8896-d820-82e7-38252a82b39b]", "f4e54a64-8896"),
        # Where lines are wrapped a blank may be lost with the line's end; a form may hold words alone.
        (f"{'printed x docker login -u svc':.>72}\n     -p e2Q0DSVDCdJaWUgE registry.example", "e2Q0DSVDCdJa"),
        ("Authorization: Bearer\n   cJWgb-QUImqBlUFZmylEVEZUVr_7CVtK_8qmk4O383H", "cJWgb-QUImqB"),
        ("body=machine+ci.example+login+svc+password+PAuVG9zLyIVAV9c6&n=1", "PAuVG9zLyIVA"),
        ("body=docker+login+-u+svc+-p+bvniDKTydnWFBS70+registry.example&n=1", "bvniDKTydnWF"),
        # Other letters beside the secret, in its groups of base64; a number above its hexadecimal digits.
        (base64.urlsafe_b64encode(f"x sqp_{'0a1b2c3d' * 5} ÿ".encode()).decode(), "MGExYjJjM2Qw"),
        (base64.b64encode(f"éghp_{'aB3dE6gH9' * 4}".encode()).decode(), "YUIzZEU2Z0g5"),
        (f"request 64\n{('sk-lf-' + '0a1b2c3d-4e5f-' * 2).encode().hex()}\nend", "3061316232633364"),
        # Mail's escapes of blanks alone; an element in JSON in JSON, whose name tells what it holds.
        (f"mongosh=20-u=20root=20-p=20{PASSWORD}=20--quiet", PASSWORD),
        (json.dumps(json.dumps({"a": f'<property name="db.password">{PASSWORD}</property>'})), PASSWORD),
        (f"psql=20postgresql://app:{PASSWORD}@db:5432/shop", PASSWORD),
        # Continued lines as a terminal gives those that end in two signs.
        (f"curl -u svc:{PASSWORD[:7]}\\\r\r\n{PASSWORD[7:]} https://ci.example", PASSWORD[7:]),
        (f"<m><![CDATA[db.example.org:5432:app:svc:{PASSWORD}]]></m>", PASSWORD),
        (f"-Private-Lines: 2\n-{'b3JkZXI4' * 8}\n-{'b3JkZXI4' * 3}\n", "b3JkZXI4b3Jk"),
        (f'$env:SSHPASS="{PASSWORD}"', PASSWORD),
        # A soft break at a width that lines are wrapped at as well.
        (f"{'it was sk-' + 'aB3dE6gH9' * 4:>71}=\r\n{'zQ4rT7' * 4}", "zQ4rT7"),
        # Names behind a drive's or a variable's colon, and lines that were wrapped and then quoted, or are a remark.
        ("$env:GITEA_TOKEN='ff973f99a5a1caafc9e1f0598f4f9aac213f3c10'", "ff973f99a5a1"),
        ("${env:storePassword} = 'wajDebw56tdi'", "wajDebw56tdi"),
        (f"{'> it was sk-' + 'aB3dE6gH9' * 7 + 'z':<76}\n> {'zQ4rT7' * 4}\n> and so on", "zQ4rT7"),
        (f"{'# it was sk-' + 'aB3dE6gH9' * 7 + 'z':<76}\n# {'zQ4rT7' * 4}\n", "zQ4rT7"),
    ],
)
def test_nothing_hides_what_a_stranger_found_hidden(redactor: ProjectRedactor, text: str, secret: str) -> None:
    assert secret not in redactor.redact_text(text)[0]
    assert secret not in str(redactor.redact_value({"output": text}).value)
    assert secret not in str(redactor.redact_value({text: 1}).value)


def test_a_log_whose_lines_are_as_wide_as_a_wrap_is_no_wrapped_text(redactor: ProjectRedactor) -> None:
    line = "2026-11-22 10:00:00 status half-configured libsystemd0:amd64 252.38-1"
    assert not list(joined_views(f"{line:.<72}\n{line:.<72}\n".encode()))


@pytest.mark.parametrize("shift", range(60))
def test_a_blank_at_which_a_line_was_cut_is_one_with_the_indent(redactor: ProjectRedactor, shift: int) -> None:
    """Twelve words, of which one line ends between two and another within one, wherever the text begins."""
    words = "wfd bnt dmtke ybq kdvss irr xnt thooj rlocfymy uuznlkgq zmjdotmd nknbkots"
    text = f"{'w' * shift} and the mnemonic: {words} of the wallet"
    wrapped = "\n    ".join(text[at : at + 60] for at in range(0, len(text), 60))
    assert not {"thooj", "rlocfymy"} & {*redactor.redact_text(f"out:\n{wrapped}\n")[0].split()}


def test_the_calls_of_a_stack_are_no_wrapped_text() -> None:
    calls = "".join(f"\tat {name:x<60}.java:{len(name)}20)\n" for name in ("com.a", "org.b", "net.c"))
    assert {len(line) for line in calls.splitlines()} == {74}
    assert not list(joined_views(calls.encode()))


def test_numbers_in_a_log_are_no_mail() -> None:
    assert mail_view(b"INFO [core.cache] read id=20fc2bc3 took=20ms\n" * 9) is None
    assert mail_view(b"the=20password is hunter2") is not None


def _below(layer: Layer) -> list[bytes]:
    return [view.data for view in layers_of(layer, None, first=False)]


def test_a_decoded_text_is_put_together_where_decoding_ends_a_line() -> None:
    first, rest = "it was sk-" + "aB3dE6gH9" * 7 + "abc", "zQ4rT7" * 4
    assert len(first) == 76
    ended = url_view(f"{first}%0A{rest}%20".encode())
    assert ended is not None
    assert any(f"{first}{rest}".encode() in data for data in _below(ended))
    wide = url_view(f"{first[:-1]}%63\n{rest}\n".encode())  # 76 only once decoded: nobody wraps so
    assert wide is not None
    assert not _below(wide)
    seen = control_view(f"{first}\x1b[0m\n\x1b[1m{rest}\n".encode())
    assert seen is not None
    assert any(f"{first}{rest}".encode() in data for data in _below(seen))


def test_what_a_mark_uncovers_beside_it_is_seen_far_into_a_text(redactor: ProjectRedactor) -> None:
    text = "ordinary words of a log line\n" * 9000
    hidden = f"{text}sk-{'aB3dE6gH9' * 4}\n{text}joe@example.com\n{text}"
    redacted, counts = redactor.untruncated().redact_text(hidden)
    assert counts == {"secret-key": 1, "email": 1}
    assert redactor.untruncated().redact_text(redacted) == (redacted, {})


@pytest.mark.parametrize(
    "text",
    [
        "x" * 20 + " token: ghp_" + "aB3dE6gH9" * 4 + "\n2026-11-22 10:00 next line\n",
        "KEY=sk-" + "aB3dE6gH9" * 4 + "\nDone\n",
        "x" * 61 + " sk-" + "aB3dE6gH9" * 4 + "\nfinished\n",
    ],
)
def test_a_mark_does_not_take_the_next_line_along(redactor: ProjectRedactor, text: str) -> None:
    redacted, counts = redactor.redact_text(text)
    assert counts
    assert redacted.split("\n")[1:] == text.split("\n")[1:]


@pytest.mark.parametrize("sign", ["=\r\n", "\\\n"])
def test_lines_around_a_continued_secret_hide_no_part_of_it(redactor: ProjectRedactor, sign: str) -> None:
    line = "2026-11-23 10:00:00 INFO worker did what is ordinary\n"
    secret = base64.b64encode(b"user:" + b"aB3dE6gH9" * 9).decode().rstrip("=") + "="
    redacted, _ = redactor.redact_text(f"{line}Authorization: Basic {secret[:48]}\\\n{secret[48:]}\n{line}")
    assert secret[48:60] not in redacted
    key = "sk-ant-oat01-" + "aB3dE6gH9" * 10
    redacted, _ = redactor.redact_text(f"{line}{key[:72]}{sign}{key[72:]}\n{line}")
    assert key[72:84] not in redacted


def test_lines_below_names_do_not_move_what_stands_behind_them(redactor: ProjectRedactor) -> None:
    names = "a=%41+b%20c+dd:\n  b=%41+c%20d+ee\n" * 3
    redacted, _ = redactor.redact_text(f"{names}text=the%20password+is%3A+hunter%3D22Xk9+ok\nthe next line\n")
    assert "22Xk9" not in redacted
    assert redacted.endswith("+ok\nthe next line\n")


PIECES = st.lists(
    st.sampled_from([
        "\x1b[31m", "\x1b]0;t\x07", "\x1b", "a\b", "&amp;", "&#65;", "&", "<b>", "</b>", "<", "<!-- c -->", "%41", "%",
        "\\n", "\\u0041", "\\101", "\\", "\\x5c", "_", ".", "\\\n", "=\n", "\r\n", "\n", ":", "\n  ",
        "x" * 59, "y" * 80, "Ab1" * 4, " ", "\0",
        "\u200b", "\u00ad", "é",
    ]),
    max_size=14,
).map(lambda parts: "".join(parts).encode())  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(data=PIECES, part=st.sampled_from([0, 3, 8192]))
def test_a_view_knows_the_way_back_and_does_not_grow(data: bytes, part: int) -> None:
    made = (make(data) for make in (json_view, url_view, form_view, mail_view, control_view, markup_view, any_view))
    for view in (*filter(None, made), *joined_views(data)):
        with mock.patch.object(views, "_PART", part):
            assert len(view.data) <= len(data) + 1
        if isinstance(view, Undone):
            escapes = view._escape.finditer(view._shown.data)
            changes = ((*escape.span(), view._decode(escape[0])) for escape in escapes)
            one_by_one = collapsed(view._shown.data, changes)
            assert view._text == view._shown.data
            assert view.data == one_by_one.data
            for at in range(len(view.data)):
                assert view.original(at, at + 1) == view._shown.original(*one_by_one.original(at, at + 1))
        for at in range(len(view.data)):
            start, end = view.original(at, at + 1)
            assert 0 <= start <= end <= len(data)
        assert view.original(0, len(view.data)) == (
            view.original(0, 1)[0],
            view.original(len(view.data) - 1, len(view.data))[1],
        )
