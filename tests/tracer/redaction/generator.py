"""Draws secrets as providers' documents show them, dressed as programs print, store and send text.

It knows no rule of ours: the kinds are data (providers.toml), the dresses are written from the formats' descriptions.
Another generator, for kinds that are made from the rules themselves, is `positives`.
"""

from __future__ import annotations

import base64
import html
import json
import random
import re
import string
import tomllib
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

KINDS: dict[str, str] = tomllib.loads(Path(__file__).with_name("providers.toml").read_text(encoding="utf-8"))
Dress = Callable[[str, random.Random], str]

_HEX, _MIXED = "0123456789abcdef", string.ascii_letters + string.digits
_SIGNS = {
    "an": _MIXED,
    "az": string.ascii_letters,
    "b": _MIXED + "+/",
    "d": string.digits,
    "hx": _HEX,
    "lo": string.ascii_lowercase + string.digits,
    "u": _MIXED + "_-",
    "ca": string.ascii_uppercase,
    "ux": string.digits + "ABCDEF",
    "up": string.ascii_uppercase + string.digits,
    "b32": string.ascii_uppercase + "234567",
    "age": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "dj": string.ascii_lowercase + string.digits + "!@#%^&*(-_=+)",
    "wp": _MIXED + "!@#%^*()-_=+|{}[];:,.?~",
}
_DRAWN = re.compile(r"<(uuid|jwt|login|(?:apw|pw|bb|bu|b32|age|an|az|ca|dj|hx|lo|up|ux|wp|b|d|u)\d+)>")
_MARK = re.compile(r"\[REDACTED:[a-z0-9-]+:[0-9a-f]{6}\]")
_SEEN = 12  # so many signs of a secret in a row are a leak


class Drawn(NamedTuple):
    """A dressed text with a secret in it."""

    kind: str
    dress: str
    text: str
    secret: str


def draw(rng: random.Random) -> Drawn:
    """A kind in a dress, and in a line of its own or among words."""
    while True:
        kind, dress = rng.choice(list(KINDS)), rng.choice(list(DRESSES))
        whole, secret = made(kind, rng)
        if re.search(r"[ =\n]|^[{\"<]", whole) is None:
            whole = rng.choice(["{}", "it answered {} just now", "note: {}", 'got "{}" back', "f({})"]).format(whole)
        text = DRESSES[dress](whole, rng)
        if leaks(text, secret):  # else the dress cuts it in another way than readers here know
            return Drawn(kind, dress, text, secret)


def made(kind: str, rng: random.Random) -> tuple[str, str]:
    """A text of the kind, and the secret in it."""
    told = _DRAWN.sub(lambda match: _value(match[1], rng), KINDS[kind])
    before, _, rest = told.rpartition("«")
    secret, _, after = rest.partition("»")
    return f"{before}{secret}{after}", secret


def _value(name: str, rng: random.Random) -> str:
    match = re.fullmatch(r"(\w+?)(\d*)", name)
    assert match is not None
    kind, size = match[1], int(match[2] or 0)
    if name.startswith("b32"):
        kind, size = "b32", int(name[3:])
    if kind in _SIGNS:
        return "".join(rng.choices(_SIGNS[kind], k=size))
    if kind == "uuid":
        return "-".join("".join(rng.choices(_HEX, k=many)) for many in (8, 4, 4, 4, 12))
    if kind == "login":
        return _b64(f"svc:{_password(_MIXED, 16, rng)}".encode())
    if kind == "jwt":
        parts = ({"alg": "RS256", "typ": "JWT"}, {"iss": "https://id.example", "sub": "".join(rng.choices(_HEX, k=9))})
        return ".".join([*(_b64url(json.dumps(part).encode()) for part in parts), _b64url(rng.randbytes(256))])
    if kind in {"bb", "bu"}:
        return {"bb": _b64, "bu": _b64url}[kind](rng.randbytes(size))
    return _password(_MIXED + ("!#*+.=^_-" if kind == "pw" else ""), size, rng)


def _password(signs: str, size: int, rng: random.Random) -> str:
    """As managers of passwords draw them: two digits and both cases at least."""
    while True:
        made = "".join(rng.choices(signs, k=size))
        if made[0].isalpha() and made[-1].isalnum() and sum(map(str.isdigit, made)) > 1 and made.lower() != made:
            return made


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _each(form: str) -> Dress:
    return lambda text, rng: "".join(form.format(sign=sign, code=ord(sign), tone=rng.randrange(8)) for sign in text)


def _parted(between: str, size: int) -> Dress:
    return lambda text, _rng: between.join(_pieces(text, size))


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _as(form: str) -> Dress:
    """`form` with the text for its @, whose own line ends stay."""
    return lambda text, _rng: form.replace("@", text)


def _by(change: Callable[[str], str]) -> Dress:
    return lambda text, _rng: change(text)


_LEADS = ["", "note: ", "the job on runner seven then printed ", "2026-11-23 09:12:44,118 DEBUG app.http "]


def _wrapped(width: int, indent: str = "", end: str = "\n", *, counted: bool = False) -> Dress:
    """Each line wrapped at `width`; `counted`: the indent is part of it, as where text is filled."""

    def wrap(text: str, rng: random.Random) -> str:
        lines = (rng.choice(_LEADS) + "x " * rng.randrange(12) + text).split("\n")
        parts = ([line[:width], *_pieces(line[width:], width - counted * len(indent))] for line in lines)
        return "\n".join(map((end + indent).join, parts))

    return wrap


def _soft_breaks(text: str, rng: random.Random) -> str:
    """Quoted-printable."""
    lines = []
    for line in (rng.choice(_LEADS) + text).replace("=", "=3D").split("\n"):
        rest = line
        while len(rest) > 75:
            size = 75 - (2 if rest[73] == "=" else 1 if rest[74] == "=" else 0)  # no escape is broken
            lines.append(rest[:size] + "=\r\n")
            rest = rest[size:]
        lines.append(rest + "\n")
    return "".join(lines)[:-1]


def _json(text: str) -> str:
    return json.dumps({"msg": text})


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _words_of_mail(text: str, _rng: random.Random) -> str:
    """Encoded words of a header."""
    return "Subject: " + "\r\n ".join(f"=?utf-8?B?{_b64(piece.encode())}?=" for piece in _pieces(text, 42))


def _boxed(text: str, _rng: random.Random) -> str:
    """In a frame, as terminals' programs draw it."""
    rows = [f"│ {piece.ljust(58)} │" for piece in _pieces(text, 58)]
    return "\n".join([f"╭{'─' * 60}╮", *rows, f"╰{'─' * 60}╯"])


DRESSES: dict[str, Dress] = {
    "plain": _as("@"),
    "coloured": _each("\x1b[1;3{tone}m{sign}\x1b[0m"),
    "coloured by words": _parted("\x1b[0m\x1b[38;2;9;9;9m", 5),
    "coloured in JSON": lambda text, rng: _json(_each("\x1b[3{tone}m{sign}")(text, rng)),
    "linked": _parted("\x1b]8;id=1;https://h\x1b\\", 30),
    "titled": _parted("\x1b]0;build\x07", 30),
    "struck twice": _by(lambda text: re.sub(r"(.)", "\\1\b\\1", text)),  # a line's end is never struck
    "underlined": _by(lambda text: re.sub(r"(.)", "_\b\\1", text)),
    "entities": _each("&#{code};"),
    "entities in hexadecimal": _each("&#x{code:x};"),
    "entities by name": _by(lambda text: html.escape(text).replace("_", "&lowbar;").replace(":", "&colon;")),
    "entities twice in JSON": _by(lambda text: _json(html.escape(html.escape(text)))),
    "highlighted": _parted('</span><span class="hljs-number">', 9),
    "tags": _parted("<b></b>", 6),
    "JSON": _by(_json),
    "JSON in JSON": _by(lambda text: _json(_json(text))),
    "JSON in JSON in JSON": _by(lambda text: _json(_json(_json(text)))),
    "code points": _each("\\u{code:04x}"),
    "code points in braces": _each("\\u{{{code:x}}}"),
    "hexadecimal escapes": _each("\\x{code:02x}"),
    "octal escapes": _each("\\{code:03o}"),
    "URL": _by(lambda text: f"https://h/p?x={_quoted(text)}"),
    "URL twice": _by(lambda text: f"https://h/p?x={_quoted(_quoted(text))}"),
    "URL in JSON": _by(lambda text: _json(f"https://h/?d={_quoted(text)}")),
    "form": _by(lambda text: f"body={urllib.parse.quote_plus(text)}&n=1"),
    "percent escapes": _each("%{code:02x}"),
    "wrapped at 72": _wrapped(72),
    "wrapped at 76": _wrapped(76),
    "wrapped at 80": _wrapped(80),
    "wrapped at 80, with returns": _wrapped(80, end="\r\n"),
    "wrapped, by 4": _wrapped(72, "    "),
    "wrapped, by 2": _wrapped(76, "  "),
    "wrapped, by 8": _wrapped(80, " " * 8),
    "wrapped, by a tab": _wrapped(80, "\t"),
    "filled, by 4": _wrapped(72, "    ", counted=True),
    "filled, by 2": _wrapped(80, "  ", counted=True),
    "filled, by 6": _wrapped(76, " " * 6, counted=True),
    "quoted-printable": _soft_breaks,
    "UTF-16": _by(lambda text: text.encode("utf-16-le").decode("latin-1")),
    "UTF-16 the other way": _by(lambda text: text.encode("utf-16-be").decode("latin-1")),
    "UTF-32": _by(lambda text: text.encode("utf-32-le").decode("latin-1")),
    "base64": _by(lambda text: _b64(f"cfg {text}\n".encode())),
    "base64 of mail": _by(lambda text: base64.encodebytes(f"the job's {text} and so on".encode()).decode()),
    "base64 of URLs": _by(lambda text: _b64url(f"v={text}".encode())),
    "base64 twice": _by(lambda text: _b64(_b64(f"k: {text}".encode()).encode())),
    "hexadecimal": _by(lambda text: f"x {text}".encode().hex()),
    "continued": _parted("\\\n", 30),
    "continued by PowerShell": _parted("`\n", 30),
    "YAML folded": lambda text, rng: 'k: "' + _parted("\\\n    ", 40)(text, rng) + '"',
    "added": _by(lambda text: f"@@ -1 +1,2 @@\n+{text}"),
    "removed": _as("--- a/x\n+++ b/x\n-@"),
    "log": _as("2026-11-23T09:00:00.123Z [worker-3] ERROR c.a.Http - @"),
    "workflow's log": _as("2026-11-23T09:00:00.1234567Z ##[debug]@"),
    "container's log": _by(lambda text: json.dumps({"log": f"{text}\n", "stream": "stdout"})),
    "table": _as("| name | value |\n|---|---|\n| it | `@` |"),
    "quotation": _as("> @"),
    "without width": _parted("\u200b", 4),
    "soft hyphens": _parted("\u00ad", 6),
    "words of mail": _words_of_mail,
    "framed": _boxed,
    "TeX": _by(lambda text: re.sub(r"([_&%#$])", r"\\\1", text)),
    "added strings": lambda text, rng: 'note = "' + _parted('" +\n  "', 40)(text, rng) + '"',
}


def leaks(text: str, secret: str) -> bool:
    """Whether a part of the secret can be read in `text`, in whatever way."""
    size = min(_SEEN, len(secret))
    parts = {secret[at : at + size] for at in range(len(secret) - size + 1)}
    return any(part in reading for reading in _readings(_MARK.sub("\x01", text)) for part in parts)


_CONTROLS = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|(?:\x1b|\\+u001b)\[[0-9;]*[A-Za-z]|.\x08|\x00|[\u200b\u00ad]", re.DOTALL
)


def _readings(text: str) -> Iterator[str]:
    """The text with each kind of dress taken off."""
    bare = _CONTROLS.sub("", text)
    yield from (text, bare, re.sub(r"\r?\n[ \t]*", "", bare))
    unfolded = re.sub(r"[\\=`]?\r?\n[ \t]*", "", bare)
    yield from (unfolded, unfolded.replace("=3D", "="))
    yield html.unescape(html.unescape(re.sub(r"<[^<>]*>", "", bare)))
    yield urllib.parse.unquote(urllib.parse.unquote(bare.replace("+", " ")))
    undone = re.sub(r"\\+u\{?0{0,2}([0-9a-f]{2})\}?|\\x([0-9a-f]{2})", lambda m: chr(int(m[1] or m[2], 16)), bare)
    undone = re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match[1], 8)), undone)
    yield from (undone, undone.replace("\\", ""), html.unescape(html.unescape(undone.replace("\\", ""))))
    yield from (re.sub(r" *│\n│ ", "", bare), re.sub(r'" \+\n *"', "", bare))
    yield from _decoded("".join(re.findall(r"\?B\?([A-Za-z0-9+/=]+)\?=", bare)))
    for run in re.findall(r"[A-Za-z0-9+/_-]{12,}", re.sub(r"\s", "", text)):
        yield from _decoded(run)


def _decoded(run: str) -> Iterator[str]:
    if re.fullmatch(r"(?:[0-9a-f]{2})+", run):
        yield bytes.fromhex(run).decode("latin-1")
    for _ in range(2):
        run = re.sub(r"[\n=]", "", run).replace("-", "+").replace("_", "/")
        if re.fullmatch(r"[A-Za-z0-9+/]+", run) is None or len(run) % 4 == 1:
            return
        run = base64.b64decode(run + "=" * (-len(run) % 4)).decode("latin-1")
        yield run
