"""pii_mask: e-mail addresses, the names of this user, host and developer, and telephone and card numbers.

Names are marked as whole words and only when they tell something: `root` or `runner` is nobody. Numbers are graded:
they need their usual spacing or a word beside them that says what they are, and a line of prose, never of code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tracer.redaction.gate import Called, Key
from tracer.redaction.rule_set import Find, compiled, literals, of_bytes

_RANK = 6
_EMAIL = (
    r"[A-Za-z0-9_\x80-\xff][A-Za-z0-9._%+\x80-\xff-]{0,63}"
    r"@[A-Za-z0-9\x80-\xff](?:[A-Za-z0-9\x80-\xff-]{0,62}\.){1,8}[A-Za-z]{2,24}"
)
_AT = of_bytes(rb"[\w.%+\x80-\xff-]@[A-Za-z0-9\x80-\xff]")
_NAME_BYTES, _HOST_BYTES = 2 * 64, 2 * 8 * 64 + 32  # at most, on either side
_FILE_ENDINGS = frozenset(
    b"css dot gif gz html jpeg jpg js json mjs php png svg tar tgz toml ts tsx txt webp whl xml yaml yml".split()
)
_COMMON_ENDINGS = frozenset(
    b"com org net edu gov mil int info biz name pro dev io app ai test example invalid local localdomain internal "
    b"corp lan home localhost cloud online site tech email company agency systems software solutions".split()
)
# Accounts that machines come with, and words too ordinary to stand for one person.
_NOBODY = frozenset(
    b"root user admin administrator ubuntu debian fedora centos alpine runner node vscode build test tester tests ci "
    b"docker guest home code work worker agent default nobody python jenkins circleci gitpod codespace vagrant "
    b"ec2-user postgres mysql redis nginx apache www-data app apps data dev devel developer service system server "
    b"localhost localdomain host hostname container sandbox linux macos windows local main master demo example git "
    b"github gitlab bot robot claude codex gemini model project name none null true false".split()
)
_LEAST_NAME = 4
_BEFORE, _AFTER = r"(?:^|[^0-9A-Za-z.,+/_=-])", r"(?:$|[^0-9A-Za-z_-])"
_CARD = (
    rf"{_BEFORE}([3-6][0-9]{{3}}(?:[ -]?[0-9]{{4}}){{2}}[ -]?[0-9]{{1,7}}"
    rf"|3[47][0-9]{{2}}[ -]?[0-9]{{6}}[ -]?[0-9]{{5}}){_AFTER}"
)
_PHONE = (
    rf"{_BEFORE}(\+[1-9][0-9]{{0,2}}[ .-]?(?:\([0-9]{{1,4}}\)[ .-]?)?[0-9]{{1,4}}(?:[ .-]?[0-9]{{2,4}}){{2,4}}"
    rf"|\(?[0-9]{{3}}\)?[ .-][0-9]{{3}}[ .-][0-9]{{4}}){_AFTER}"
)
NAMES = "names"
_CARD_SAID = "card|visa|master|amex|credit|debit|payment|pan"
_PHONE_SAID = "phone|tel|mobile|cell|call|fax|whatsapp|sms|contact"
PATTERNS: Mapping[Key, str] = {"email": _EMAIL, "card": _CARD, "phone": _PHONE}
"""The expressions that are the same for everybody, by the keys that `People.finds` takes."""
FIRSTS: Mapping[Key, str] = {
    "email": r"[A-Za-z0-9._%+\x80-\xff-]@[A-Za-z0-9\x80-\xff]",
    # Four digits apart from four, or the last ones from all before; else a word says what they are.
    "card": rf"[0-9]{{4}}[ -][0-9]{{4}}|[0-9]{{10}}[ -][0-9]|(?i:{_CARD_SAID})[^\n]*[0-9]{{13}}",
    # With a country code; else a word says what it is.
    "phone": rf"\+[1-9](?:[ .()-]*[0-9]){{5}}|(?i:{_PHONE_SAID})[^\n]*[0-9]{{3}}\)?[ .-][0-9]{{3}}[ .-][0-9]{{4}}",
}
"""What else stands on a line with a find, and is quicker to look for."""
_CARD_DIGITS = 13  # the fewest that each pattern can match
_PHONE_DIGITS = 6
_CARD_WORDS = re.compile(rb"%s\b" % _CARD_SAID.encode(), re.IGNORECASE)
_PHONE_WORDS = re.compile(rb"tel\b|%s" % _PHONE_SAID.replace("tel", "tel[.:]").encode(), re.IGNORECASE)
_CODE_SIGNS = re.compile(rb"[={}\[\];<>|\\_]|\w\(|^\s*(?:#|//|\*|def |class |import |return )")
_DATE = re.compile(rb"\+(?:19|20)[0-9]{2}([-. ])(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12][0-9]|3[01])(?![0-9])")  # in a diff
_APART = re.compile(rb"[ -]")
_CODE_POINT = re.compile(rb"\b[0-9A-F]{4,5}\b")
_ROW, _LEAST_OF_ROW = 256, 10  # numbers of a table are as near to one another; and so many of them stand together
_NEAR = 48
_LINE = 400


def luhn(digits: bytes) -> bool:
    """Whether the decimal `digits` carry a right check digit, as payment cards do."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = (digit - 48) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


class Identity(NamedTuple):
    """The people and machines a project is worked on by, each name with the rule that marks it."""

    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    persons: tuple[str, ...] = ()

    def names(self) -> Mapping[bytes, str]:
        """Names with their rules; names that stand for nobody are left out."""
        listed = {name: "person-name" for name in self.persons if " " in name.strip() or _telling(name)}
        listed |= {name: "host-name" for name in self.hosts if _telling(name)}
        listed |= {name: "user-name" for name in self.users if _telling(name)}
        return {name.strip().encode("utf-8", "surrogatepass"): rule for name, rule in listed.items()}


def _telling(name: str) -> bool:
    plain = name.strip().lower()
    return len(plain) >= _LEAST_NAME and plain.encode("utf-8", "replace") not in _NOBODY and not plain.isdigit()


def identity_of(environ: Mapping[str, str], *, host: str, persons: Iterable[str]) -> Identity:
    """Who works here, from the environment, the machine's name and git's settings."""
    home = environ.get("HOME", "").rstrip("/").rpartition("/")[2]
    users = (environ.get("USER", ""), environ.get("LOGNAME", ""), environ.get("USERNAME", ""), home)
    hosts = (host, host.partition(".")[0], environ.get("HOSTNAME", ""), environ.get("COMPUTERNAME", ""))
    named = (*persons, environ.get("GIT_AUTHOR_NAME", ""), environ.get("GIT_COMMITTER_NAME", ""))
    return Identity(_distinct(users), _distinct(hosts), _distinct(named))


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name.strip()))


class People:
    """Finds what tells who somebody is. `keep_paths` leaves names that are part of a path."""

    def __init__(self, identity: Identity, *, keep_paths: bool) -> None:
        self._names = identity.names()
        self._keep_paths = keep_paths
        ordered = sorted(self._names, key=lambda name: (-len(name), name))
        self._name_pattern: Any = literals(ordered) if ordered else None
        self._email, self._card, self._phone = compiled(_EMAIL), compiled(_CARD), compiled(_PHONE)

    @property
    def words(self) -> Iterable[bytes]:
        """The names."""
        return self._names

    def finds(self, data: bytes, called: Called | None = None) -> Iterator[Find]:
        """Everything personal in `data`; ranges of different kinds may overlap. What was not `called` is not there."""
        if self._name_pattern is not None and (called is None or NAMES in called):
            yield from self._named(data)
        if called is None:
            called = self._called(data)
        if "email" in called:
            yield from self._emails(data)
        if "card" in called:
            yield from self._cards(data)
        if "phone" in called:
            yield from self._phones(data)

    @staticmethod
    def _called(data: bytes) -> Called:
        """Most texts hold too few digits for a number: counting them costs a tenth of searching."""
        count = len(data) - len(data.translate(None, b"0123456789"))
        return frozenset(
            key
            for key, here in (
                ("email", b"@" in data),
                ("card", count >= _CARD_DIGITS),
                ("phone", count >= _PHONE_DIGITS),
            )
            if here
        )

    def _cards(self, data: bytes) -> Iterator[Find]:
        for match in self._card.finditer(data):
            start, end = match.span(1)
            digits = bytes(byte for byte in data[start:end] if byte not in b" -")
            spaced = len(digits) != end - start
            if (
                _CARD_DIGITS <= len(digits) <= 19
                and luhn(digits)
                and not _is_row(data, start, end)
                and _said(data, start, end, _CARD_WORDS, spaced=spaced)
            ):
                yield Find(start, end, _RANK, "card-number", digits)

    def _phones(self, data: bytes) -> Iterator[Find]:
        for match in self._phone.finditer(data):
            start, end = match.span(1)
            spaced = _is_spaced_phone(data[start:end])
            if _DATE.match(data, start) is None and _said(data, start, end, _PHONE_WORDS, spaced=spaced):
                yield Find(start, end, _RANK, "phone-number", data[start:end])

    def _emails(self, data: bytes) -> Iterator[Find]:
        """Around each sign that may be an address's: RE2 takes 20 times as long to look for the names before it."""
        reach = 0
        for sign in _AT.finditer(data):
            at = sign.start()
            match = self._email.search(data, max(reach, at - _NAME_BYTES), at + _HOST_BYTES) if at >= reach else None
            if match is not None:
                start, reach = match.span(0)
                if _is_email(match.group(0), data[reach : reach + 1]):
                    yield Find(start, reach, _RANK, "email", match.group(0).lower())

    def _named(self, data: bytes) -> Iterator[Find]:
        for match in self._name_pattern.finditer(data):
            start, end = match.span(0)
            before, after = data[start - 1 : start] if start else b"", data[end : end + 1]
            if _in_word(before) or _in_word(after):
                continue
            if self._keep_paths and (before in {b"/", b"\\"} or after == b"/"):
                continue
            yield Find(start, end, _RANK, self._names[match.group(0)], match.group(0))


def _in_word(sign: bytes) -> bool:
    return sign.isalnum() or sign == b"_" or sign >= b"\x80"


def _is_email(address: bytes, after: bytes) -> bool:
    """Whether `address` is one: not an SSH remote, a package version, a picture's name or a matrix product."""
    local, _, domain = address.rpartition(b"@")
    ending = domain.rpartition(b".")[2].lower()
    if local == b"git" or ending in _FILE_ENDINGS or (domain[:1].isdigit() and ending in {b"py", b"md", b"so", b"rs"}):
        return False
    if ending in _COMMON_ENDINGS:
        return True
    code = (
        after in {b"(", b"["} or (after == b"." and len(ending) > 2) or local.startswith((b"self.", b"np.", b"torch."))
    )
    return not code and (ending.islower() or domain.isupper())


def _is_row(data: bytes, start: int, end: int) -> bool:
    """Whether it is numbers of a table: they follow one another, or others stand beside them."""
    groups = [int(group) for group in _APART.split(data[start:end]) if len(group) == 4]
    if len(groups) > 2 and 0 < max(groups) - min(groups) < _ROW:
        return True
    return len(_CODE_POINT.findall(data[max(start - _NEAR, 0) : end + _NEAR])) >= _LEAST_OF_ROW


def _is_spaced_phone(number: bytes) -> bool:
    """Whether the number is written as people write one: with a country code, and in groups."""
    return number.startswith(b"+") and any(sign in number for sign in (b" ", b"-", b"."))


def _said(data: bytes, start: int, end: int, words: re.Pattern[bytes], *, spaced: bool) -> bool:
    """Whether the number stands in prose and looks its part (`spaced`), or a word near it says so."""
    first, last = max(start - _LINE, 0), min(end + _LINE, len(data))
    line_start = data.rfind(b"\n", first, start) + 1 or first
    stop = data.find(b"\n", end, last)
    line_end = stop if stop >= 0 else last
    if _CODE_SIGNS.search(data, line_start, line_end):
        return False
    return spaced or words.search(data, max(start - _NEAR, line_start), start) is not None
