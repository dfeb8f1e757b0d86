"""Makes up a secret for any rule from its own expression, so that no secret-looking literal stands in the repository.

The expression is read by Python's parser after its case flags are dropped (that only narrows what is made up), a
text is drawn from it, and kept once the rule itself finds a secret in it: entropy and allow-lists included.
"""

from __future__ import annotations

import base64
import binascii
import random
import re
import string
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from re import _constants as ops  # the parser's node names; there is no public reader of expressions
from re import _parser as parser
from typing import Any, NamedTuple

import pytest

from tracer.redaction.rule_pack import CHECKSUMS, build_rules
from tracer.redaction.rule_set import CHECKS, Rule

__all__ = ["Positive", "all_rules", "drawn", "positive"]

_FLAGS = re.compile(r"\(\?-?[is]+\)")
_FLAG_GROUP = re.compile(r"\(\?-?[is]+:")
_PRINTABLE = string.ascii_letters + string.digits + "-_.~+/=,:;!#%&*@ "
_CATEGORIES = {
    ops.CATEGORY_DIGIT: string.digits,
    ops.CATEGORY_WORD: string.ascii_letters + string.digits + "_",
    ops.CATEGORY_SPACE: " ",
    ops.CATEGORY_NOT_SPACE: string.ascii_letters + string.digits,
    ops.CATEGORY_NOT_DIGIT: string.ascii_letters,
    ops.CATEGORY_NOT_WORD: "-",
}
_TRIES = 4000


MARK = re.compile(r"\[REDACTED:[a-z0-9-]+:[0-9a-f]{6}\]")  # its digits are others in each state folder


class Positive(NamedTuple):
    """A text in which `rule` finds `secret`."""

    rule: str
    text: str
    secret: str


def all_rules() -> list[Rule]:
    """Every rule the engine runs on text, ours and the vendored."""
    return build_rules({})


@cache  # made where a test asks for them: each worker collects the modules
def positives() -> list[Positive]:
    """One of every rule."""
    return [positive(rule) for rule in all_rules()]


def canaries_of(place: int, step: int = 6) -> pytest.MarkDecorator:
    """Those that a test tries, as its `canaries`: each `step`th from `place` on, or all."""
    some, every = slice(place, None, step), pytest.param(slice(None), marks=pytest.mark.torture)
    return pytest.mark.parametrize("canaries", [some, every], ids=["some", "all"], indirect=True)


_MADE: dict[tuple[str, str, int], Positive] = {}  # several modules ask for the same ones as they are collected


def positive(rule: Rule, seed: int = 0) -> Positive:
    """One made-up positive of `rule`, the same for the same seed."""
    key = (rule.id, rule.regex, seed)
    if key not in _MADE:
        _MADE[key] = _made(rule, seed)
    return _MADE[key]


def wallet_key(draw: random.Random) -> str:
    """A private key as wallets import it (WIF)."""
    data = b"\x80" + draw.randbytes(32) + b"\1" * draw.randrange(2)
    number = int.from_bytes(data + sha256(sha256(data).digest()).digest()[:4], "big")
    signs = ""
    while number:
        number, sign = divmod(number, 58)
        signs = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[sign] + signs
    return signs


def seed_key(draw: random.Random) -> str:
    """A secret seed of Stellar, with its CRC."""
    data = b"\x90" + draw.randbytes(32)
    return base64.b32encode(data + binascii.crc_hqx(data, 0).to_bytes(2, "little")).decode()


_WITH_CHECKSUM = {CHECKSUMS["base58"]: wallet_key, CHECKSUMS["base32"]: seed_key}


_ABOVE = re.compile(r"\{1,120\}\\n\)\{(\d)\}")


def _made(rule: Rule, seed: int) -> Positive:
    if rule.check is CHECKS["basic"]:  # base64 of `name:password`, which no expression tells
        secret = base64.b64encode(f"app:pw{seed}-x7Q".encode()).decode()
        return Positive(rule.id, f"Basic {secret}" if rule.id == "basic-auth" else f'"auth": "{secret}"', secret)
    if rule.check in _WITH_CHECKSUM:
        secret = _WITH_CHECKSUM[rule.check](random.Random(seed))
        return Positive(rule.id, f"got {secret}", secret)
    tree = _tree(rule.regex)
    which = rule.keywords[0] if rule.rank > 2 else ""  # several rules that go by a name share one
    above = _ABOVE.search(rule.regex)  # of a block: else what is a secret below one line is filler below another
    # Nor is what a program's option is given part of what its bare words are given, which have a rule of their own.
    bare = "bare" if rule.check is CHECKS["argument"] and rule.id == "password-option" else ""
    draw = random.Random(f"{rule.id}/{which}{seed}{above[1] if above else ''}{bare}")
    for _ in range(_TRIES):
        text = _named("".join(_text(tree, draw)), rule)
        if not text.isascii():  # labels in all languages have their test; in base64 such letters are not always decoded
            continue
        for find in rule.finds(f"\n{text}\n".encode()):
            return Positive(rule.id, text, find.secret.decode())
    raise AssertionError(f"no positive found for {rule.id}: {rule.regex}")


def drawn(rule: Rule, draw: random.Random) -> str:
    """A text drawn from the rule's expression, whether or not the rule takes it for a secret."""
    return "".join(_text(_tree(rule.regex), draw, at_once=True)).strip()


@cache
def _tree(regex: str) -> Any:
    return parser.parse(_plain(regex))


def _named(text: str, rule: Rule) -> str:
    """`text` with a keyword of the rule before it where it has none: without one, no gitleaks rule looks."""
    lowered = text.lower().encode()
    return text if any(word in lowered for word in rule.keywords) else f"{rule.keywords[0].decode()}\n{text}"


def _plain(regex: str) -> str:
    return _FLAG_GROUP.sub("(?:", _FLAGS.sub("", regex)).replace(r"\z", r"\Z").replace("[:alnum:]", "A-Za-z0-9")


def _text(nodes: Any, draw: random.Random, *, at_once: bool = False) -> Iterator[str]:
    """`at_once`: signs that are repeated are drawn together: quicker, and other ones for the same seed."""
    for op, value in nodes:
        match op:
            case ops.LITERAL:
                yield chr(value)
            case ops.NOT_LITERAL:
                yield draw.choice([sign for sign in _PRINTABLE if sign != chr(value)])
            case ops.ANY:
                yield draw.choice(string.ascii_letters + string.digits)
            case ops.IN:
                yield draw.choice(_members_of(value))
            case ops.BRANCH:
                yield from _text(draw.choice(value[1]), draw, at_once=at_once)
            case ops.SUBPATTERN:
                yield from _text(value[-1], draw, at_once=at_once)
            case ops.MAX_REPEAT | ops.MIN_REPEAT:
                least, most, inner = value
                more = min(most - least, 30) if op is ops.MAX_REPEAT else 0
                times = least + draw.choice((0, more // 2, more))
                if at_once and len(inner) == 1 and inner[0][0] is ops.IN:
                    yield "".join(draw.choices(_members_of(inner[0][1]), k=times))
                else:
                    for _ in range(times):
                        yield from _text(inner, draw, at_once=at_once)
            case ops.AT:
                pass
            case _:
                raise AssertionError(f"no idea how to draw from {op}")


_MEMBERS: dict[int, str] = {}  # by the list of a tree, which is kept


def _members_of(nodes: Any) -> str:
    if id(nodes) not in _MEMBERS:
        _MEMBERS[id(nodes)] = _members(nodes)
    return _MEMBERS[id(nodes)]


def _members(nodes: Any) -> str:
    negated = any(op is ops.NEGATE for op, _ in nodes)
    members = ""
    for op, value in nodes:
        if op is ops.LITERAL:
            members += chr(value)
        elif op is ops.RANGE:
            members += "".join(map(chr, range(value[0], value[1] + 1)))
        elif op is ops.CATEGORY:
            members += _CATEGORIES[value]
    if negated:
        return "".join(sign for sign in _PRINTABLE if sign not in members)
    return members
