"""The secret rules ready to run: ours, those of gitleaks and a team's own, behind one keyword filter.

A rule is compiled when its keyword first occurs. Everything runs on bytes: google-re2 re-encodes a non-ASCII `str` at
every call. Checks hold what a regular expression cannot judge: entropy, placeholders, check digits.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import re2

from tracer.redaction.gate import Called, Key, beyond_hexadecimal, loosened

_TEMPLATE = re.compile(
    rb"^[$<{%\[(*@#!&]|\$\{|\{\{|\}\}|\.\.\.|xxxx|\*\*\*|<[a-z_ -]+>"  # the first sign, or a sign inside
    rb"|%\(|%[sdr]\b|\\\(|^\\(?:x1b|033|e|u001b)\[",
    re.IGNORECASE,
)
# What something else fills in, and what a pattern counts.
_FILLED_IN = re.compile(
    rb"\$\{[^}]*\}|\$\([^)]*\)|\{\{.*?\}\}|<%.*?%>|<[A-Za-z][\w .:-]*>|\{[\w.:!,]*\}|\[[^\[\]]*\]|%\([^)]*\)[a-z]?"
    rb"|%\w+%|%[sdr]\b|\.\.\.|x{4,}|\*{3,}|\\(?:x1b|033|e|u001b)\[[\d;]*[A-Za-z]",
    re.IGNORECASE,
)
_PIECE = re.compile(rb"[A-Za-z_]+|[0-9]+|[^A-Za-z0-9_]+")
_STAND_IN = re.compile(
    rb"^(?:your|my|some|the|an?|test|fake|dummy|sample|example|insert|enter|put|add|change)[-_ .]|change_?me"
    rb"|placeholder|[-_]here$"
    rb"|^(?:password|passwd|passphrase|secret|token|undefined|required|optional|disabled|redacted|hidden|string"
    rb"|example)\d{0,3}$",
    re.IGNORECASE,
)
_NAME = re.compile(
    rb"^(?:[A-Za-z_][A-Za-z_]*|[A-Z][a-z]+\d{1,2}(?:[A-Z][a-z]+)+|_*[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"
    rb"|_*[a-z]+\d{0,2}(?:_[a-z]+\d{0,2})+|[a-z]+(?:[-_./:][a-z]+)*|0x[0-9A-Fa-f]{1,16}|\d{1,3}(?:_\d{3})+"
    rb"|[a-z]+\.[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"
    rb"|[\w.-]*\w\.(?:c|cpp|h|js|ts|py|rb|go|rs|sh|xml|json|ya?ml|toml|txt|md|html))$"
)
# A comparison has names on either side.
_CODE = re.compile(
    rb"[()\[\]{};]|::|->|^[\w.]*==|^(?:self|cls|this|os|sys|settings|config|env|process)\.|^https?:|^arn:"
)
# What closes something that began before the value, as around a log's field or a word of a diff.
_WITHOUT_END = re.compile(rb"(?<=[^()\[\]{}]{8})[)\]}>+]+[.,:;!?]*\$?$")
_CALL = re.compile(rb"^[A-Za-z_][\w.]*(?:\.[A-Za-z_]\w*)+$")
_NUMBER_IN_CALL = re.compile(rb"\.\d{2,}\.")
# `"PWD="+folder.Name)`; an expression in a language that has signs of its own for it.
_OTHER_CODE = re.compile(rb"^(?:\+\s?[A-Za-z_]+(?:\.[A-Za-z_]+)+[()]*$|(?:qr|qw)[/{(!])")
_IN_BASE64 = re.compile(rb"[A-Za-z0-9+/]{60}[+/]")
_LEAST_DRAWN = 12
_NUMBER = re.compile(rb"[0-9]+")
_OF_ONE_CLASS = re.compile(rb"[a-z]+|[A-Z]+|[0-9]+")
_CONSTANT = re.compile(rb"^[A-Z][A-Z_]*$|^[a-z]+(?:_[a-z]+)+$")
_ADDRESS = re.compile(rb"^(?:https?|file)://|\s|^[\w.]+\(.*\)$")
# One base64 value in 64 begins as a path does; the names in a path are no long mixtures of digits and letters.
_PATH = re.compile(
    rb"^\.{0,2}/(?!.*[!$^&|;,?<>].*[!#$^&*|;,?<>])"
    rb"(?!.*?(?=[+A-Za-z]*[0-9])(?=[+a-z0-9]*[A-Z])(?=[+A-Z0-9]*[a-z])[+A-Za-z0-9]{16})|^\d+(?:\.\d+){2,}$"
)
_MIXED = re.compile(rb"[A-Za-z].*[0-9].*[^\w.:/ -]|[A-Za-z].*[^\w.:/ -].*[0-9]|[0-9].*[A-Za-z].*[^\w.:/ -]")
_ALGORITHM = re.compile(rb"^[a-z]+\d{0,5}(?:-[a-z]+\d{0,5})+$")
_LEAST_SIGNS = 6
# Of `_odds`: a letter among 26, a sign that joins no words, where case changes (from, to; None: where a word begins).
_BEGIN, _ODDS_OF_LETTER, _ODDS_OF_SIGN, _ODDS_OF_CODE = 26, 3.26, 1.0, 8.0
_JOINS_WORDS = frozenset(b" _-./:0123456789")
_ODDS_OF_CASE = {
    (None, True): -0.2, (None, False): 0.2, (True, True): -0.55, (True, False): 1.3, (False, False): 0.3,
    (False, True): -0.25,
}  # fmt: skip
# How sure it has to be: where an option, a setting or quotes tell that it is no code; where signs that are none of its
# own may stand around it; beside a name in code.
_IN_SETTING, _AMONG_SIGNS, _IN_CODE = -2.0, 0.0, 4.0
# Of small letters alone, which no name and no text of a form is in: in a setting, whatever they are.
_SMALL_IN_QUOTES, _SMALL_IN_CODE, _SMALL_IN_SETTING = -6.0, 2.0, -99.0
_VARIABLE = re.compile(rb"[$@%&][A-Za-z_]\w*%?$")
_LEAST_TELLING = 4  # letters of a word that no drawn value holds by chance
_LEAST_BROKEN, _LEAST_PIECES, _LEAST_KEY, _LONGEST_TOLD = 8, 5, 16, 400
_PRINTABLE = re.compile(rb"^[\t\n\r\x20-\x7e]+$")
# What a secret that a person may have made up is for, before its name, which is the last thing before its value.
_SECRET_NAME = re.compile(rb"[a-z0-9][_-]?secret[^\w]*$", re.IGNORECASE)
_MANY_WORDS, _LEAST_SHORT = 4, 3
# What may end a value that stands in no quotes: signs between values, between commands, and letters of writings
# without blanks.
_BARE_ENDS = re.compile(rb"[,;&|]|[\xe3-\xed\xef][\x80-\xbf]{2}")
_PARTS_VALUES, _PARTS_LINES = re.compile(rb"[,;&|]+"), re.compile(rb"[;&|]")
_WIDE = re.compile(rb"[\xe3-\xed\xef][\x80-\xbf]{2}")
# What stands before a value on a line that sets it, and nothing else: also below a prompt, a time or a quote.
_SETTING = re.compile(rb"[\s>|+-]*(?:(?i:export|set|env) )?[\w.'\x80-\xff -]{1,60}[ \t]*(?:[:=]|\xef\xbc\x9a)[ \t]*\Z")
_SETTINGS_BEFORE = re.compile(rb"[\"'](?:[a-z_]{2,}=[^\s\"'&;|]{1,80} ){1,8}[a-z_]{2,}=\Z")
_SETTING_BEHIND = re.compile(rb"\r?(?:\n|\Z)|[\"']|\\+[nr\"']| [a-z_]{2,}=")
_SETTING_BESIDE = re.compile(rb"(?:^|[\s\"'])[a-z_]{2,}=[^\s\"'(){}\[\],;=]+ [\w.-]+=\Z")
_NEAR_SETTINGS, _NEAR_CODE = 400, 2000
# What sets a value, and what a line that sets another one, or begins a section of such, ends in; likewise.
_SETS = re.compile(rb"([\w.-]+)([ \t]*[=:][ \t]*)\Z")
_LIKE_SETTING = rb"(?:^|[\s>|+:\x92-])(?:\[[\w .:/@-]+\]|[A-Za-z][\w.-]*%s[^\s\"'(){}\[\],;=]+)$"
_MEMBER = (b"self.", b"this.", b"cls.")
# The name of a variable of the environment, as the last thing before its value.
_VARIABLE_SET = re.compile(
    rb"(?:^|[^A-Za-z0-9_])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*"
    rb"(?:</key>\s*(?:\n[^\n<]{0,80})?<string>|[^A-Za-z0-9]{1,12}(?:value[^A-Za-z0-9]{1,6})?)\Z"
)
_PARTS_COMMANDS = re.compile(rb"[;&|](?=[;&|]|[a-z]+\d?\Z|\Z)")
_NEXT_SETTING = re.compile(rb"[,;&|](?=(?:[A-Za-z]?[a-z_]{2,}|[A-Z_]{3,})[=:])")
_LINE_ENDS = frozenset({b"", b"\r", b"\n"})
_NEXT_NAME = re.compile(rb"[A-Za-z_][\w.-]+[=:]|[\"'({\[]")
_WORD_WITH_NUMBER = re.compile(rb"[0-9.]+|[a-z_]+[0-9]+|[^A-Za-z]*")
_WORDS = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Three words and more, put together by one and the same sign.
_PHRASE = re.compile(rb"^[A-Za-z]{3,}([-_.!@#*+=~^,])(?:[A-Za-z]{3,}\1)+[A-Za-z]{3,}\d{0,4}$")
_ENDS_IN_DIGITS = re.compile(rb"^[A-Z]?[a-z].*[a-z]\d{2,4}[!?#*]?$")
_FILE = re.compile(rb"/|\.[a-z]{2,4}$")
_RANDOM_KEY = re.compile(
    rb"^(?=.*[a-f])(?=.*[0-9])(?:[0-9a-f]{32,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$", re.IGNORECASE
)


def entropy(data: bytes) -> float:
    """Shannon entropy of `data`, in bits a byte (characters are bytes here; secrets are ASCII)."""
    total = len(data)
    return -sum(n / total * math.log2(n / total) for n in Counter(data).values()) if total else 0.0


def _broken(value: bytes) -> bool:
    """Letters, digits and other signs that change places more often than in names, as in passwords that were drawn."""
    pieces = _PIECE.findall(value) if len(value) >= _LEAST_BROKEN else ()
    return len(pieces) >= _LEAST_PIECES and sum(piece.isdigit() for piece in pieces) > 1


def _template(value: bytes) -> bool:
    """Whether `value` is made of what something else fills in."""
    if _TEMPLATE.search(value) is None:
        return False
    rest = _FILLED_IN.sub(b"", value)
    return len(rest) < _LEAST_BROKEN or not (_broken(rest) or _MIXED.search(rest) or _scrambled(value, _IN_CODE))


def _stand_in(value: bytes) -> bool:
    """Whether `value` holds the place of a secret in a template or an explanation, or is one letter repeated."""
    if len(set(value)) < 3 or _template(value):
        return True
    return _STAND_IN.search(value) is not None and not (len(value) >= _LEAST_KEY and _broken(value))


def _assigned(value: bytes) -> bool:
    """A value given to a name such as `password`: neither a stand-in nor a piece of code."""
    value = value.strip(b"\"'")
    return not (_stand_in(value) or (_NAME.match(value) and not _shuffled(value)) or _is_code(value))


def _is_code(value: bytes) -> bool:
    value = _WITHOUT_END.sub(b"", value.rstrip(b"="))  # base64 ends in them
    if _PATH.match(value) is not None or _OTHER_CODE.match(value) is not None:
        return True
    dotted = _CALL.match(value) is not None and _NUMBER_IN_CALL.search(value) is None
    called = dotted and _digits(value) * 3 < len(value)
    if dotted and any(len(word) >= _LEAST_TELLING and word.lower() in _code_words() for word in _WORDS.findall(value)):
        return True
    return (_CODE.search(value) is not None or (called and not _drawn(_letters(value)))) and not _shuffled(value)


def _shuffled(value: bytes) -> bool:
    """Small letters, large ones and digits that change places with every second sign: neither a name nor code."""
    if len(value) < _LEAST_DRAWN or _digits(value) < 2:
        return False
    return len(_OF_ONE_CLASS.findall(value)) * 2 >= len(value)


def _shuffled_signs(value: bytes) -> bool:
    """Letters, digits and other signs that change places more often than in code."""
    return _digits(value) >= _LEAST_SHORT and len(_PIECE.findall(value)) * 5 >= len(value) * 2


def _digits(value: bytes) -> int:
    return sum(48 <= byte <= 57 for byte in value)


def _letters(value: bytes) -> bytes:
    return bytes(byte for byte in value if byte >= 65 and byte != 95)


def _strong(value: bytes) -> bool:
    """As `_assigned`, and with a digit, or drawn: for places where ordinary words stand as well."""
    value = value.strip(b"\"'")
    if _digits(value):
        return _assigned(value)
    return _drawn(value) and not _stand_in(value)


def _drawn(value: bytes) -> bool:
    """Letters in either case without the order of words: names change case where a word begins, drawn values anywhere.

    A drawn value of 20 signs has no digit once in 35 times.
    """
    if len(value) < _LEAST_DRAWN or not value.replace(b"-", b"").replace(b"_", b"").isalpha():
        return False
    if any(len(word) > _LEAST_TELLING and word.lower() in _code_words() for word in _WORDS.findall(value)):
        return False
    cases = [byte < 97 for byte in value]  # the first small letter
    changes = sum(one != other for one, other in pairwise(cases))
    return changes >= len(value) // 4 and any(one and other for one, other in pairwise(cases))


def _scrambled(value: bytes, least: float) -> bool:
    """Letters, signs perhaps among them, that nobody made words of; `least`: how sure that has to be (see `_odds`)."""
    rest = _FILLED_IN.sub(b"", value)
    if len(rest) < _LEAST_BROKEN or len(set(rest)) < _LEAST_SIGNS or not rest.isascii() or _VARIABLE.match(value):
        return False
    return _odds(rest) > least + (_ODDS_OF_CODE if _CODE.search(rest) is not None or _PATH.match(rest) else 0)


def _odds(value: bytes) -> float:
    """How much likelier `value` was drawn sign by sign than made of words, as a natural logarithm.

    By what letters stand side by side in words, and by where names change from small letters to large ones.
    """
    pairs, odds, before, small = _letter_pairs(), 0.0, _BEGIN, None
    for byte in value.lower() if value.isupper() else value:
        letter = (byte | 32) - 97
        if not 0 <= letter < _BEGIN:
            odds += 0 if byte in _JOINS_WORDS else _ODDS_OF_SIGN
            before, small = _BEGIN, None
            continue
        is_small = byte > 96
        if small and not is_small:
            before = _BEGIN
        odds += pairs[before * _BEGIN + letter] - _ODDS_OF_LETTER + _ODDS_OF_CASE[small, is_small]
        before, small = letter, is_small
    return odds


@cache
def _letter_pairs() -> tuple[int, ...]:
    """How rarely each letter follows each one, and the beginning of a word; read with the first value it decides on."""
    text = Path(__file__).with_name("rules").joinpath("letter_pairs.txt").read_text(encoding="ascii")
    rows = dict(line.split(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return tuple(int(digit) for before in f"{string.ascii_lowercase}^" for digit in rows[before])


def _bearer(value: bytes) -> bool:
    """What follows the word bearer, and is no ordinary word after it."""
    if _template(value) or len(set(value)) < 3:
        return False
    return _NAME.match(value.rstrip(b"=.,:")) is None or (len(value) >= 16 and not value.islower()) or len(value) >= 24


def _provider(value: bytes) -> bool:
    """A key with a provider's prefix: words joined by dashes (a CSS class, a package) are none."""
    body = value[3:]
    if _ALGORITHM.match(body):
        return False
    return any(48 <= byte <= 57 or 65 <= byte <= 90 for byte in body) or max(map(len, re.split(rb"[-_]+", body))) >= 16


def _password(value: bytes) -> bool:
    """The password in a connection string; the words that explanations put there are none."""
    words = {b"password", b"passwd", b"pass", b"pwd", b"secret", b"token", b"pw", b"changeme", b"x-oauth-basic"}
    return value.lower() not in words and not _template(value) and len(set(value.strip())) > 1


def _basic(value: bytes) -> bool:
    """HTTP basic credentials: base64 of `name:password`."""
    try:
        text = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False
    return b":" in text and _PRINTABLE.match(text) is not None


def _given(value: bytes) -> bool:
    """What a variable or a field that is named a password holds: anything but a name, a piece of code or a stand-in."""
    return not (_stand_in(value) or _is_code(value) or _CONSTANT.match(value))


def _quoted(value: bytes) -> bool:
    """As `_strong` for a value in quotes, which may hold any sign."""
    if _template(value) or _ADDRESS.search(value) or _PATH.match(value):
        return False
    return _strong(value) or (len(set(value)) >= _LEAST_SIGNS and (_broken(value) or _MIXED.search(value) is not None))


def _chosen(value: bytes, *, quoted: bool, setting: bool) -> bool:
    """A password that somebody made of words, beside a name that says so: no name of code, no text of a form.

    `quoted`: no code can stand in it; `setting`: what it is given to is a variable of the environment, whose values
    are no code either.
    """
    value = value.strip(b"\"'")
    if _scrambled(value, _IN_SETTING if quoted or setting else _IN_CODE):
        return True
    if _small_letters(value, _SMALL_IN_SETTING if setting else _SMALL_IN_QUOTES if quoted else _SMALL_IN_CODE):
        return True
    value = _WITHOUT_END.sub(b"", value)
    if len(value) < _LEAST_BROKEN or _template(value) or _ADDRESS.search(value) or _PATH.match(value):
        return False
    if _has_code_word(value, _LEAST_TELLING if setting and _digits(value) >= _LEAST_SHORT else _LEAST_SHORT):
        return False
    phrase = _PHRASE.match(value)
    if phrase is not None:
        return quoted or setting or phrase[1] not in b"_." or value[-1:].isdigit()
    if not _digits(value) or len(set(value)) < _LEAST_SIGNS or not any(byte >= 65 for byte in value):
        return False
    if _CODE.search(value.replace(b";", b"") if quoted else value) is not None:
        return False
    return (
        quoted
        or setting
        or _CALL.match(value) is None
        or value[-2:].isdigit()
        or _NUMBER_IN_CALL.search(value) is not None
    )


def _is_phrase(value: bytes, least: int) -> bool:
    """Words put together by one sign, `least` of them and more, none of which stands in names or forms."""
    return len(_WORDS.findall(value)) >= least and _PHRASE.match(value) is not None and not _has_code_word(value)


def _has_code_word(value: bytes, least: int = _LEAST_SHORT) -> bool:
    """Whether a word of names or forms is in it; of two letters, one is in any drawn value by chance."""
    least = 1 if value.islower() else least
    return any(len(word) >= least and word.lower() in _code_words() for word in _WORDS.findall(value))


def _told(value: bytes) -> bool:
    """A password in a sentence, behind a word that says that it comes: as `_mixed`, or words with digits or signs."""
    value = value.strip(b"\"'.,:?)")
    if _mixed(value):
        return True
    if value.isupper() or not _ENDS_IN_DIGITS.match(value) or _is_code(value):
        return False
    return _chosen(value, quoted=False, setting=False)


@cache
def _code_words() -> frozenset[bytes]:
    """Words of names and of forms, which no password is made of; read with the first value that they decide on."""
    text = Path(__file__).with_name("rules").joinpath("code_words.txt").read_bytes()
    return frozenset(word for line in text.splitlines() if not line.startswith(b"#") for word in line.split())


def _small_letters(value: bytes, least: float) -> bool:
    """Small letters that hold no word of names or forms, and that nobody made words of; `least` as of `_scrambled`."""
    if len(value) < _LEAST_BROKEN or not (value.isalpha() and value.islower() and value.isascii()):
        return False
    return len(set(value)) >= _LEAST_SIGNS and _any_code_word().search(value) is None and _odds(value) > least


@cache
def _any_code_word() -> re.Pattern[bytes]:
    """A word of names or forms that no drawn letters hold by chance."""
    return re.compile(b"|".join(sorted(word for word in _code_words() if len(word) >= _LEAST_TELLING)))


def _random_key(value: bytes) -> bool:
    """Digits of a drawn number, or a UUID: neither a word in them nor a run tells anything."""
    return _RANDOM_KEY.match(value) is not None and len(set(value)) >= _LEAST_SIGNS


def _mixed(value: bytes) -> bool:
    """A value whose signs change their class too often for words: beside names in prose and tables."""
    value = value.strip(b"\"'.,:!?)")
    if not _digits(value):
        drawn = _drawn(value)
    else:
        changing = len(_OF_ONE_CLASS.findall(value)) * 2 >= len(value) >= _LEAST_BROKEN
        drawn = changing or _broken(value) or _drawn(_letters(value))
    return drawn and not (_stand_in(value) or _is_code(value))


def _long(value: bytes) -> bool:
    """A value of random signs, blanks perhaps among them."""
    return not _stand_in(value) and len(set(value)) >= 2 * _LEAST_SIGNS and entropy(value) > 3


def _set(value: bytes) -> bool:
    """As `_given` for a value that always stands in quotes, where no code is."""
    return _given(value) or _chosen(value, quoted=True, setting=False)


def _argument(value: bytes) -> bool:
    """What an option or a directive for a password is given, where no code is: as `_strong`, or words of one's own."""
    if _strong(value) or _scrambled(value, _IN_SETTING) or _small_letters(value, _SMALL_IN_QUOTES):
        return True
    if _is_phrase(value, _MANY_WORDS):
        return True
    if _is_file(value) or not _digits(value):
        return False
    return _chosen(value, quoted=True, setting=True) or (len(value) >= _LEAST_BROKEN and _broken_name(value))


def _broken_name(value: bytes) -> bool:
    """Names joined by dots that hold too many digits for an attribute's path: a bootstrap token, say."""
    if _digits(value) < _LEAST_SHORT:
        return False
    return _CALL.match(value) is not None and not _stand_in(value) and len(_PIECE.findall(value)) >= _LEAST_PIECES


def _is_file(value: bytes) -> bool:
    return _FILE.search(value) is not None


def _random(value: bytes) -> bool:
    """A drawn key of 16 signs and more, as no name and no word is."""
    return _random_key(value) or (len(value) >= _LEAST_KEY and _shuffled(value) and not _stand_in(value))


def is_told(value: bytes) -> bool:
    """A drawn value of 8 signs and more, without blanks, that no other text holds by chance: no name and no word."""
    if not _LEAST_BROKEN <= len(value) <= _LONGEST_TOLD or not value.isascii() or _ADDRESS.search(value):
        return False
    if _random_key(value):
        return True
    if not _strong(value) or _template(value):
        return False
    numbers, pieces = len(_NUMBER.findall(value)), len(_OF_ONE_CLASS.findall(value))
    if value.isalnum():
        return pieces * 3 >= len(value) * (2 if numbers < 2 else 1) and numbers > 0
    return numbers > 1 and (pieces * 2 >= len(value) or (_broken(value) and _MIXED.search(value) is not None))


CHECKS: dict[str, Callable[[bytes], bool]] = {
    "argument": _argument,
    "assigned": _assigned,
    "basic": _basic,
    "bearer": _bearer,
    "chosen": lambda value: _argument(value) or _chosen(value, quoted=True, setting=not value.islower()),
    "given": _given,
    "long": _long,
    "mixed": _mixed,
    "password": _password,
    "provider": _provider,
    "quoted": _quoted,
    "random": _random,
    "scrambled": lambda value: _scrambled(value, _AMONG_SIGNS) or _shuffled_signs(value),
    "set": _set,
    "strong": _strong,
    "told": _told,
}


RANK_OWN, RANK_VENDORED, RANK_NAMED, RANK_GENERIC = 1, 2, 3, 4

# So frequent in source code that listing every place of theirs would halve the speed: looked up one by one.
_LINE = 4096
_LEAD = 64
_COMMON = (b"key", b"token", b"auth", b"secret")
_SHORT = 2
_LONG_VALUE = 100
_MANY = 100  # so many are the gate
_MEMORY = 32 << 20  # bytes at most that an expression of all keywords may take


class Find(NamedTuple):
    """A secret in some bytes: its range, the rule, the rule's rank (lower names the mark), and its plain bytes."""

    start: int
    end: int
    rank: int
    rule: str
    secret: bytes
    replacement: bytes | None = None


@cache
def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


def compiled(pattern: str) -> Any:
    """`pattern` as an RE2 object for bytes; raises `re2.error`."""
    return re2.compile(pattern.encode("utf-8"), _options())


def of_bytes(pattern: bytes) -> Any:
    """`pattern`, whose signs are bytes rather than characters, as an RE2 object."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return re2.compile(pattern.decode("latin-1").encode("latin-1"), options)


def literals(words: Iterable[bytes]) -> Any:
    """An RE2 object that finds any of `words`, the first listed where two begin at one place.

    With 2,000 words it needs more than RE2 may take, and is 20 times as slow then.
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    return re2.compile(b"|".join(re2.escape(word) for word in words), options)


class _Allow:
    """One allow-list: what a find must look like to be no secret."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._target = entry.get("regexTarget", "secret")
        self._patterns = [compiled(regex) for regex in entry.get("regexes", ())]
        self._stopwords = [word.lower().encode("utf-8") for word in entry.get("stopwords", ())]

    def holds(self, secret: bytes, match: bytes, line: Callable[[], bytes]) -> bool:
        text = secret if self._target == "secret" else match if self._target == "match" else line()
        if any(pattern.search(text) for pattern in self._patterns):
            return True
        lowered = secret.lower()
        return any(word in lowered for word in self._stopwords)


@dataclass(frozen=True)
class Rule:
    """One way to recognise a secret. `regex` runs where one of `keywords` (lower case) occurs, always without any."""

    id: str
    rank: int
    regex: str
    keywords: tuple[bytes, ...] = ()
    group: int = 0
    least_entropy: float = 0.0
    check: Callable[[bytes], bool] | None = None
    allow: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    shared: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    more: str = ""  # finds further secrets in the rest of the line in which there was one
    gate: str = ""  # matches wherever `regex` has a find, and is quicker; else `regex` itself
    first: str = ""  # a run of signs in each match, where the gate would follow every sign else
    by_password: str = ""  # what a name holds that says password, which counts with words for its value as well
    names_passwords: bool = False  # each of its names says password
    near: bool = False  # a match begins soon before one of `gate`, and ends on the line on which that ends

    @cached_property
    def _pattern(self) -> Any:
        return compiled(self.regex)

    @cached_property
    def _more(self) -> Any:
        return compiled(self.more)

    @cached_property
    def _gate(self) -> Any:
        return compiled(loosened(self.gate))

    @cached_property
    def _beyond(self) -> Any:
        """What the gate asks for beside `first`; None: nothing."""
        others = beyond_hexadecimal(self.first)
        return compiled(others) if others else None

    @cached_property
    def _allows(self) -> list[_Allow]:
        return [_Allow(entry) for entry in (*self.allow, *self.shared)]

    def finds(self, data: bytes) -> Iterator[Find]:
        """Every secret of this rule in `data`, left to right. Goes on behind the secret, not behind the whole match."""
        for first, last in self._parts(data) if self.near else ((0, len(data)),):
            yield from self._finds(data, first, last)

    def _parts(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where a match may be: the expressions with long counts are slow, those of the gate are not."""
        first = last = at = -1
        while (match := self._gate.search(data, at + 1)) is not None:
            at, end = match.span()
            if at - _LEAD > last >= 0:
                yield first, last
                first = -1
            first = max(at - _LEAD, 0) if first < 0 else first
            if end > last:
                last = data.find(b"\n", end) + 1 or len(data)
        if first >= 0:
            yield first, last

    def _finds(self, data: bytes, at: int, last: int) -> Iterator[Find]:
        pattern = self._pattern
        while at <= last and (match := pattern.search(data, at, last)) is not None:
            start, end = self._secret(match, data)
            if end > start and self._holds(match, data, start, end):
                yield Find(start, end, self.rank, self.id, data[start:end])
            if self.more:
                stop = data.find(b"\n", end, end + _LINE)
                for also in self._more.finditer(data, end, end + _LINE if stop < 0 else stop):
                    start, end = self._secret(also, data)
                    if self._holds(also, data, start, end):
                        yield Find(start, end, self.rank, self.id, data[start:end])
            at = max(end, match.start() + 1)

    @cached_property
    def _password_name(self) -> re.Pattern[bytes]:
        return re.compile(self.by_password.encode("ascii"), re.IGNORECASE)

    @cached_property
    def _name(self) -> int:
        """The group of the name beside the value; 0: none."""
        return int(self._pattern.groupindex.get(b"by", 0))

    @cached_property
    def _bare(self) -> int:
        """The group of a value that no quotes end; 0: none."""
        return int(self._pattern.groupindex.get(b"unquoted", 0))

    def _secret(self, match: Any, data: bytes) -> tuple[int, int]:
        """The range of `group`, else of the first that took part and is no name, else of the match, no line ends."""
        groups = (self.group,) if self.group else range(1, match.re.groups + 1)
        for group in groups:
            start, end = match.span(group) if group != self._name else (0, 0)
            if group == self._bare and end > start and _BARE_ENDS.search(data, start, end) is not None:
                return start, self._bare_end(match, data, start, end)
            if end > start >= 0:
                return start, end
        start, end = match.span(0)
        while end > start and data[end - 1 : end] == b"\n":
            end -= 1
        while start < end and data[start : start + 1] == b"\n":
            start += 1
        return start, end

    def _holds(self, match: Any, data: bytes, start: int, end: int) -> bool:
        secret = data[start:end]
        if self.check is None and _IN_BASE64.fullmatch(data, max(start - 61, 0), start) is not None:
            return False  # a part of something else that is written so
        if self.by_password and secret in data[match.start() : start]:
            return False  # it is its own name
        if self._beyond is not None and self._beyond.search(match.group(0)) is None:
            return False
        if self.least_entropy:
            # One in 2,000 random values of 24 signs lies below the 3.5 bits a sign that some rules ask for.
            # Of hexadecimal digits one key in twelve does: they have 4 at most.
            spared = (self.rank != RANK_GENERIC and len(secret) < _LONG_VALUE) or _random_key(secret)
            if entropy(secret) <= (min(self.least_entropy, 3.0) if spared else self.least_entropy):
                return False
        if self.check is not None and not self.check(secret) and not self._is_password(match, data, start, end):
            return False

        def line() -> bytes:
            # Bounded: looking for the ends of a line of megabytes at every match would take quadratic time.
            first, last = max(match.start() - _LINE, 0), min(match.end() + _LINE, len(data))
            begin, stop = data.rfind(b"\n", first, match.start()) + 1, data.find(b"\n", match.end(), last)
            return data[begin or first : stop if stop >= 0 else last]

        return not any(allow.holds(secret, match.group(0), line) for allow in self._allows)

    def _is_password(self, match: Any, data: bytes, start: int, end: int) -> bool:
        if not (self.by_password or self.names_passwords):
            return False
        before = data[match.start() : start]
        quoted = before[-1:] in b"\"'`" and data[end : end + 1] == before[-1:]
        if not self._says_password(match, data, start):
            name = match.group(self._name) if self._name else before
            return quoted and _SECRET_NAME.search(name) is not None and _is_phrase(data[start:end], _MANY_WORDS)
        value = data[start:end]
        setting = not quoted and before.upper() == before and before.rstrip()[-1:] in b"=:"
        setting = setting or _VARIABLE_SET.search(before) is not None or _is_in_settings(data, start, end)
        return _chosen(value, quoted=quoted, setting=setting)

    def _says_password(self, match: Any, data: bytes, start: int) -> bool:
        name = match.group(self._name) if self._name else data[match.start() : start]
        return self.names_passwords or (bool(self.by_password) and self._password_name.search(name) is not None)

    def _bare_end(self, match: Any, data: bytes, start: int, end: int) -> int:
        """Where the value ends: a password may hold the signs that part values, the first of them ends any other.

        A line within quotes of its own, name and all, holds no others.
        """
        opening = data[match.start() : match.start() + 1]
        whole = opening in {b'"', b"'"} and data[end : end + 1] == opening
        if (wide := _WIDE.search(data, start, end)) is not None:
            end = wide.start()
        value = data[start:end]
        alone = _is_line(data, match.start(), start, end) or _is_among_settings(data, start, end)
        if not whole:
            value = (_PARTS_COMMANDS if alone else _PARTS_LINES).split(value, maxsplit=1)[0]
        parted = _PARTS_VALUES.search(value)
        says_password = parted is not None and self._says_password(match, data, start)
        if parted is None:
            length = len(value)
        elif says_password and alone:
            length = len(_NEXT_SETTING.split(value, maxsplit=1)[0].rstrip(b",;&|"))
        elif says_password or alone:
            length = _length_of_password(value, parted.start())
        else:
            length = parted.start()
        if length < _LEAST_SIGNS and says_password and (whole or alone):
            length = len(value.rstrip(b",;&|"))
        return start + (length if length >= _LEAST_SIGNS else 0)


def _is_line(data: bytes, first: int, start: int, end: int) -> bool:
    """Whether a line is a setting and nothing else: a name from `first` on, and a value from `start` to `end`."""
    begin = data.rfind(b"\n", max(first - _LEAD, 0), first + 1) + 1 or max(first - _LEAD, 0)
    return data[end : end + 1] in _LINE_ENDS and _SETTING.match(data, begin, start) is not None


def _is_among_settings(data: bytes, start: int, end: int) -> bool:
    """Whether a value stands among other settings in one pair of quotes, as a database's connection is told."""
    before = _SETTINGS_BEFORE.search(data, max(start - _NEAR_SETTINGS, 0), start)
    return before is not None and _SETTING_BEHIND.match(data, end) is not None


def _length_of_password(value: bytes, first: int) -> int:
    """How long it is: up to the next name, or to the `first` of the signs behind which there are words only."""
    length = first
    for parted in _PARTS_VALUES.finditer(value):
        if _NEXT_NAME.match(value, parted.end()) is not None:
            break
        piece = _PARTS_VALUES.split(value[parted.end() :], maxsplit=1)[0]
        # Words before it are the first part of a password of words, else it is the next value.
        of_words = parted.start() == first and value[:first].isalpha()
        drawn = _digits(piece) and (of_words or _WORD_WITH_NUMBER.fullmatch(piece) is None)
        if drawn or _scrambled(piece, _IN_CODE):
            length = parted.end() + len(piece)
    return length


def _is_in_settings(data: bytes, start: int, end: int) -> bool:
    """Whether a line is a setting without quotes, as the one above or below it is, and none of them code."""
    near = data[max(start - _NEAR_SETTINGS, 0) : start]
    if _SETTING_BESIDE.search(near) is not None and _SETTING_BEHIND.match(data, end) is not None:
        return True
    if data[end : end + 1] not in _LINE_ENDS:
        return False
    first = data.rfind(b"\n", max(start - _NEAR_SETTINGS, 0), start) + 1
    sign = _SETS.search(data, first, start)
    if sign is None or not first or sign[1].startswith(_MEMBER):
        return False
    above = data[data.rfind(b"\n", max(first - _NEAR_SETTINGS, 0), first - 1) + 1 : first - 1]
    last = data.find(b"\n", end)
    below = data[last + 1 : last + _NEAR_SETTINGS].partition(b"\n")[0] if last >= 0 else b""
    like = _like_setting(sign[2])
    if like.search(above.rstrip()) is None and like.search(below.rstrip()) is None:
        return False
    # A name of code stands elsewhere, too.
    near = data[max(start - _NEAR_CODE, 0) : start] + b"\n" + data[end : end + _NEAR_CODE]
    value = re.escape(data[start:end])
    name = rb"(?:[(.]|\b(?:def|var|let|const|func|fn) )%s\b|\b%s(?:[(.,)\[]| *=)" % (value, value)
    return re.search(name, near) is None


@cache
def _like_setting(sign: bytes) -> re.Pattern[bytes]:
    return re.compile(_LIKE_SETTING % re.escape(sign))


class RuleSet:
    """Many rules and the prefilter that says which of them a piece of text calls for."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._always = [place for place, rule in enumerate(self.rules) if not rule.keywords]
        by_keyword: dict[bytes, list[int]] = {}
        for place, rule in enumerate(self.rules):
            for keyword in rule.keywords:
                by_keyword.setdefault(keyword, []).append(place)
        self._by_keyword = by_keyword
        self._common = [word for word in by_keyword if len(word) <= _SHORT or word in _COMMON]
        self._any_common = literals(self._common) if self._common else None
        words = sorted(by_keyword.keys() - set(self._common), key=lambda word: (-len(word), word))
        self._prefilter = literals(words)
        self._inside: dict[bytes, list[bytes]] = {}

    def finds(self, data: bytes, called: Called | None = None) -> Iterator[Find]:
        """Every find of every rule whose keyword occurs in `data`; rules that were not `called` match nowhere in it."""
        if called is None:
            places = self._by_keywords(data.lower())
        elif not called:
            return
        else:
            places = self._with_keyword(sorted(key for key in called if isinstance(key, int)), data)
        for place in places:
            yield from self.rules[place].finds(data)

    @property
    def patterns(self) -> Mapping[Key, str]:
        """The rules' expressions, by the keys that `finds` takes."""
        return {place: rule.gate or rule.regex for place, rule in enumerate(self.rules)}

    @property
    def firsts(self) -> Mapping[Key, str]:
        """The runs of signs that the rules without a literal ask for, likewise."""
        return {place: rule.first for place, rule in enumerate(self.rules) if rule.first}

    def _with_keyword(self, places: Sequence[int], data: bytes) -> list[int]:
        """Those whose keyword occurs: some expressions match without."""
        lowered = data.lower() if places else data
        rules = self.rules
        return [
            place
            for place in places
            if not 0 < len(rules[place].keywords) < _MANY or any(word in lowered for word in rules[place].keywords)
        ]

    def _by_keywords(self, lowered: bytes) -> list[int]:
        words, at = set(), 0
        while (match := self._prefilter.search(lowered, at)) is not None:
            words.add(match.group(0))
            at = match.start() + 1  # a word may begin inside another
        for word in tuple(words):
            if word not in self._inside:
                self._inside[word] = [other for other in self._by_keyword if other in word]
            words.update(self._inside[word])
        # One search says that none is there, which is the usual case of a short text.
        if self._any_common is not None and self._any_common.search(lowered) is not None:
            words.update(word for word in self._common if word in lowered)
        return sorted({*self._always, *(place for word in words for place in self._by_keyword[word])})
