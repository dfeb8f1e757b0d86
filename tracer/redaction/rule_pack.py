"""The rules as they are written down: our own, the published shapes, the options of programs and those of gitleaks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

import re2

from tracer.errors import ConfigError
from tracer.redaction.gate import Called
from tracer.redaction.rule_set import (
    CHECKS,
    RANK_GENERIC,
    RANK_NAMED,
    RANK_OWN,
    RANK_VENDORED,
    Find,
    Rule,
    compiled,
)

_RULES = Path(__file__).with_name("rules")
GITLEAKS = _RULES / "gitleaks.json"
_RULE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_GENERIC = {"generic-api-key", "hashicorp-tf-password", "kubernetes-secret-yaml", "nuget-config-password"}

# Any text, lines too, between a program's name and its option: an automaton that follows it from each name on runs at
# half its speed, and what stands behind it tells enough.
_ANYTHING = re.compile(r"\.\*\??\)\{1,5\}\)")

_BASE58: Final = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
# Of Bitcoin's main and test networks, Litecoin, Dogecoin, Dash and others.
_PRIVATE_KEYS: Final = frozenset({0x80, 0xEF, 0x99, 0x9E, 0xB0, 0xBC, 0xCC, 0xD4})
_KEY_SIZES: Final = frozenset({37, 38})  # version, key, perhaps a sign that the public one is compressed, check
_ENCRYPTED_KEY_SIZE: Final = 43  # of BIP 38, likewise
_ENCRYPTED_KEYS: Final = (b"\1\x42", b"\1\x43")


def base58(value: bytes) -> bool:
    """Whether `value` is a private key as wallets import it (WIF), with the right check."""
    number = 0
    for sign in value:
        number = number * 58 + _BASE58.find(sign)
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    plain = len(data) in _KEY_SIZES and data[0] in _PRIVATE_KEYS
    if not plain and not (len(data) == _ENCRYPTED_KEY_SIZE and data.startswith(_ENCRYPTED_KEYS)):
        return False
    return hashlib.sha256(hashlib.sha256(data[:-4]).digest()).digest()[:4] == data[-4:]


def base32(value: bytes) -> bool:
    """Whether `value` is base32 that ends with the CRC of what it holds, as Stellar's keys and NATS' seeds do."""
    try:
        data = base64.b32decode(value + b"=" * (-len(value) % 8))
    except binascii.Error:
        return False
    return binascii.crc_hqx(data[:-2], 0) == int.from_bytes(data[-2:], "little")


CHECKSUMS: Final[Mapping[str, Callable[[bytes], bool]]] = {"base58": base58, "base32": base32}
"""Checks of digits that a value carries to be checked by: where they are right it was made as one."""
_CHECKS: Final = {**CHECKS, **CHECKSUMS}


@cache
def gitleaks_data() -> Mapping[str, Any]:
    """The vendored rule data (58 kB, 1 ms)."""
    data: Mapping[str, Any] = json.loads(GITLEAKS.read_bytes())
    return data


def vendored(data: Mapping[str, Any]) -> Iterator[Rule]:
    """The rules of a pack that go by text."""
    own, split = _data("own"), _ANYTHING.split
    for rule in data["rules"]:
        if "regex" in rule:
            near = "".join(own["gates"].get(rule["id"], ()))
            yield Rule(
                id=rule["id"],
                rank=RANK_GENERIC if rule["id"] in _GENERIC else RANK_VENDORED,
                regex=rule["regex"],
                keywords=tuple(word.encode() for word in rule["keywords"]),
                group=rule.get("secretGroup", 0),
                least_entropy=rule.get("entropy", 0.0),
                check=CHECKS["assigned"] if "path" in rule or rule["id"] in _GENERIC else None,
                allow=(*rule.get("allow", ()), *own["allow"].get(rule["id"], ())),
                shared=(data["allow"],),
                gate=_any_keyword(rule)
                if rule["id"] in own["by_keyword"]
                else near or "".join(split(rule["regex"], maxsplit=1)[1:]),
                near=bool(near),
            )


@cache
def _data(name: str) -> Mapping[str, Any]:
    """What a file of rules holds, read once (6 ms each for the two large ones)."""
    return tomllib.loads((_RULES / f"{name}.toml").read_text(encoding="utf-8"))


def _filled(regex: str, data: Mapping[str, Any]) -> str:
    for name, part in data["parts"].items():
        regex = regex.replace(f"<{name}>", "".join(part))
    return regex


def telling_name(part: str = "name") -> str:
    """The expression of a name that tells that its value is secret, or of its end (`name_end`), which is quicker."""
    return _filled(f"<{part}>", _data("own"))


def _own() -> Iterator[Rule]:
    data = _data("own")
    labels = [spelling for label in data["labels"] for spelling in _spellings(label)]
    password_name = _filled("<password_name>", data)
    label = "|".join(re.escape(label).replace("\\ ", "[ _-]") for label in labels)
    data = {**data, "parts": {**data["parts"], "label": label}}
    for rule in (rule for listed in data["rules"] for rule in _by_lines(listed)):
        gate = _filled("".join(rule.get("gate", "")), data)
        yield Rule(
            id=rule["id"],
            rank=RANK_NAMED if rule.get("named") else RANK_OWN,
            regex=_filled("".join(rule["regex"]), data),
            keywords=tuple(word.encode().lower() for word in _keywords(rule, labels)),
            check=_CHECKS[rule["check"]] if "check" in rule else None,
            more=_filled(rule.get("more", ""), data),
            gate=_any_keyword({"keywords": _keywords(rule, labels)}) if rule["id"] in data["by_keyword"] else gate,
            first=rule.get("first", ""),
            near=rule.get("near", "gate" in rule),
            by_password=password_name if rule.get("by_password") else "",
            names_passwords=rule.get("names_passwords", False),
        )


def _keywords(rule: Mapping[str, Any], labels: list[str]) -> list[str]:
    lists = {"<label>": labels, "<names>": _data("own")["names"]}
    return [word for keyword in rule["keywords"] for word in lists.get(keyword, [keyword])]


def _spellings(label: str) -> list[str]:
    """`label` in small letters, as a sentence begins, and in capitals, where ASCII alone does not tell."""
    return list(
        {spelling.encode().lower(): spelling for spelling in (label, label.capitalize(), label.upper())}.values()
    )


def _by_lines(rule: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """`rule` once, or for as many first lines of a block as it tells: `<above>` are those above the secret's."""
    for above in range(rule.get("lines", 1)):
        regex = "".join(rule["regex"]).replace("<above>", rf"(?:[^\n\x00]{{1,120}}\n){{{above}}}")
        yield {**rule, "regex": regex}


def _any_keyword(rule: Mapping[str, Any]) -> str:
    return f"(?i)(?:{'|'.join(map(re.escape, rule['keywords']))})"


_GROUP = re.compile(r"(?<!\\)\((?!\?)")
_BEHIND = re.compile(r"\(\?:\[\^[^\]]*\]\|\$\)$")  # what may not go on behind a shape: no part of the secret
_PREFIX = re.compile(r"(?:[A-Za-z0-9_/-]|\\\.)+")
_LONG_RUN = re.compile(r"(\[(?:A-Z|a-[fz]|0-9)+\])\{(\d\d+)")
_LONGEST_RUN = 24


def _shapes() -> Iterator[Rule]:
    """The published shapes; one without keywords of its own goes by its prefix."""
    data = _data("shapes")
    for provider, kinds in data["shapes"].items():
        for kind, shape in kinds.items():
            regex, *keywords = [shape] if isinstance(shape, str) else shape
            prefix = _PREFIX.match(regex)
            if prefix and not keywords:
                keywords = [prefix[0].replace("\\", "").lower()]
            inside = regex.startswith(("[", "<uuid>")) and all(len(word) > 1 for word in keywords)
            behind = "" if _GROUP.search(regex) or (found := _BEHIND.search(regex)) is None else found[0]
            shape_itself = _filled(regex.removesuffix(behind), data)
            yield Rule(
                id=f"{provider}-{kind}",
                rank=RANK_OWN,
                regex=f"(?:^|[^A-Za-z0-9])({'?:' if _GROUP.search(regex) else ''}{shape_itself}){behind}",
                keywords=tuple(word.encode() for word in keywords),
                gate=_any_keyword({"keywords": keywords}) if inside else "",
                first=_run_of(regex) if max(map(len, keywords)) == 1 else "",
            )


def _run_of(regex: str) -> str:
    """The longest run of letters and digits that each match of `regex`, which has no choices, holds."""
    runs = _LONG_RUN.findall(regex)
    signs, count = max(runs, key=lambda run: int(run[1])) if runs else ("", 0)
    return f"{signs}{{{min(int(count), _LONGEST_RUN)}}}" if runs else ""


_GAP = r"""(?:[ \t]+|["'][ \t]*,[ \t]*["'])"""  # as in a shell, or between the strings of a list
_VALUE = r"""(?:"([^"\n\x00]{4,})"|'([^'\n\x00]{4,})'|([^\s"'`;|&<>()\x00]{4,}))"""
_OPTION_PARTS = {" ": _GAP, "*": r"""["']?[^\s:="'\x00]*""", "~": r"[^\s\x00]+", "@": _VALUE}
_LONG_OPTION = re.compile(r"(--[a-z0-9-]+) (.*)")
_WHOLE = r""""%s([^"\n\x00]{4,})"|'%s([^'\n\x00]{4,})'"""  # an argument in quotes, of which the value is a part


def _program_options() -> Iterator[tuple[str, list[str], str, list[str]]]:
    """For each line of programs: whether they are rare, their names, a check, and the options it holds for.

    What stands behind a bare word may be prose: more is asked of a value there.
    """
    for kind, listed in _data("programs").items():
        for programs, options in listed.items():
            marked = [option for option in options if option.startswith(("-", "/")) or "=" in option]
            for check, chosen in (("password", marked), ("argument", [each for each in options if each not in marked])):
                if chosen:
                    yield kind, programs.split("|"), check, chosen


def _programs() -> Iterator[Rule]:
    """Options that take passwords, as a shell is given them."""
    for kind, listed, check, options in _program_options():
        more = f"(?:{'|'.join(map(_option, options))})"
        names = "|".join(re.escape(name).replace("\\ ", "[ \\t]+") for name in listed)
        yield Rule(
            id=_OPTION,
            rank=RANK_NAMED,
            regex=rf"""(?:^|\n-|[^\w.-])(?:{names})(?:\.exe)?[ \t"',](?:[^\n\x00`]*?[ \t"',])??{more}""",
            keywords=tuple(name.lower().encode() for name in listed),
            gate=f"(?:{names})" if kind == "rare" else "",
            check=CHECKS[check],
            more=rf"""[ \t"',]{more}""",
        )


def _option(option: str) -> str:
    if "@" not in option:
        return f"{re.escape(option)}(?:=|{_GAP}){_VALUE}"
    if (long := _LONG_OPTION.fullmatch(option)) is not None:
        return f"{re.escape(long[1])}(?:=|{_GAP}){_argument(long[2])}"
    before, blank, last = option.rpartition(" ")
    return "".join(map(_part, before + blank)) + _argument(last)


def _argument(written: str) -> str:
    """The last argument of an option; where the value is its end only, it may stand in quotes as a whole."""
    parts = "".join(map(_part, written))
    if len(written) == 1 or not written.endswith("@"):
        return parts
    inside = "".join(map(_part, written[:-1].replace("*", "\0"))).replace("\0", r"""[^\s:="'\x00]*""")
    return f"(?:{_WHOLE % (inside, inside)}|{parts})"


def _part(sign: str) -> str:
    return _OPTION_PARTS.get(sign) or re.escape(sign)


_OPTION: Final = "password-option"
_BETWEEN: Final = "\x1f"  # the arguments of a list, as they are looked at
_LISTED_PARTS = {" ": _BETWEEN, "*": f"[^{_BETWEEN}:=]*", "~": f"[^{_BETWEEN}]+", "@": f"([^{_BETWEEN}]{{4,}})"}
_BEGIN = re.compile("[ *~@=]")
_STRING = re.compile(rb"""(?:"((?:[^"\\\n\0]|\\.)*)"|'((?:[^'\\\n\0]|\\.)*)')""")
_NEXT_STRING = re.compile(rb"""\s{0,40}(?:,|\+\+?)\s{0,40}(?:\n[^\n"'\0]{0,80})?[\[({]?\s{0,40}(?=["'])""")
_MOST_ARGUMENTS, _LONGEST_FOLDER, _NEAR = 200, 100, 2048
ARGUMENTS: Final = "arguments"


@cache
def argument_lists() -> str:
    """The expression of a list of strings that begins with a program's name."""
    names = {name.split(" ")[0] for _, listed, _, _ in _program_options() for name in listed}
    return rf"""(?:["']|bin/)({"|".join(map(re.escape, sorted(names)))})["'],"""


@cache
def _lists() -> Any:
    """The same, compiled once for all redactors of a process."""
    return compiled(argument_lists())


class Arguments:
    """Finds what options take in lists of strings that are command lines: `["oc", "login", "-p", "..."]`."""

    def __init__(self) -> None:
        self._lists = _lists()

    def finds(self, data: bytes, called: Called | None) -> Iterator[Find]:
        """Every password in such a list."""
        at = 0
        while (called is None or ARGUMENTS in called) and (match := self._lists.search(data, at)) is not None:
            at = match.end() - 1
            near = data[at : at + _NEAR].partition(b"]")[0]
            entries = [each for each in _listed_options()[match[1]] if any(sign in near for sign in each.signs)]
            if entries:
                # A folder may stand before the name.
                before = max(match.start() - _LONGEST_FOLDER, 0)
                first = max(data.rfind(sign, before, match.start() + 1) for sign in (b'"', b"'"))
                yield from _in_list(data, first, entries)


def _in_list(data: bytes, first: int, entries: Iterable[_Listed]) -> Iterator[Find]:
    spans = _listed_strings(data, first) if first >= 0 else []
    joined = _BETWEEN.encode().join(data[slice(*span)] for span in spans)
    starts = list(accumulate((end - start + 1 for start, end in spans), initial=0))
    for entry in entries:
        if (program := _compiled(entry.name).match(joined)) is not None:
            for found in _compiled(entry.options).finditer(joined, program.end()):
                start, end = found.span(found.lastindex or 0)
                which = bisect_right(starts, start) - 1
                start, end = (place + spans[which][0] - starts[which] for place in (start, end))
                if entry.check(data[start:end]):
                    yield Find(start, end, RANK_NAMED, _OPTION, data[start:end])


def _listed_strings(data: bytes, at: int) -> list[tuple[int, int]]:
    """The ranges of the strings from a place on that follow one another."""
    spans: list[tuple[int, int]] = []
    while len(spans) < _MOST_ARGUMENTS and (string := _STRING.match(data, at)) is not None:
        spans.append(string.span(string.lastindex or 0))
        if (following := _NEXT_STRING.match(data, string.end())) is None:
            break
        at = following.end()
    return spans


class _Listed(NamedTuple):
    signs: frozenset[bytes]  # one of them stands in each list that holds an option
    name: bytes
    options: bytes
    check: Callable[[bytes], bool]


@cache
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    """All of them take 100 ms, of which most processes need none."""
    return re.compile(pattern)


@cache
def _listed_options() -> Mapping[bytes, list[_Listed]]:
    """What programs' names, and their options with a value, look like in a list, by the first word of the names."""
    table: dict[bytes, list[_Listed]] = {}
    for _, listed, check, options in _program_options():
        chosen = f"(?:{'|'.join(map(_listed_option, options))})".encode()
        for each in listed:
            first, _, others = each.partition(" ")
            begins = [others.split(" ")[0]] if others else [_BEGIN.split(option)[0] for option in options]
            signs = frozenset(
                # A setting may stand within an argument.
                f"{sign}{begin}".encode()
                for begin in begins
                for sign in ([""] if begin[:1].isalpha() else "\"'")
            )
            written = re.escape(each).replace("\\ ", _BETWEEN)
            name = rf"(?:[^{_BETWEEN}]*[/\\])?{written}(?={_BETWEEN})"
            entry = _Listed(signs, name.encode(), chosen, CHECKS[check])
            table.setdefault(first.encode(), []).append(entry)
    return table


def _listed_option(option: str) -> str:
    if "@" not in option:
        return f"(?<={_BETWEEN}){re.escape(option)}(?:=|{_BETWEEN}){_LISTED_PARTS['@']}"
    parts = "".join(_LISTED_PARTS.get(sign) or re.escape(sign) for sign in option)
    if _LONG_OPTION.match(option) is not None:
        parts = parts.replace(_BETWEEN, f"(?:=|{_BETWEEN})", 1)
    if not option.startswith(("-", "/")) and "=" in option:  # one of the settings in an argument
        return f"(?<=[{_BETWEEN} ,;]){parts}".replace(f"([^{_BETWEEN}]", f"([^{_BETWEEN} ,;]")
    return f"(?<={_BETWEEN}){parts}"


def build_rules(extra: Mapping[str, str]) -> list[Rule]:
    """Our rules, the vendored ones, and `extra` (name -> RE2 pattern); raises `ConfigError` for a bad pattern."""
    rules = [*_own(), *_shapes(), *_programs(), *vendored(gitleaks_data())]
    for name, pattern in extra.items():
        if _RULE_NAME.fullmatch(name) is None:
            raise ConfigError(
                f"the redaction rule {name!r} has no valid name",
                why="a rule's name stands in its marks",
                next_step="use lower-case letters, digits and dashes, 64 at most",
            )
        try:
            matches_nothing = compiled(pattern).search(b"") is not None
        except re2.error as error:
            reason = error.args[0] if error.args else b""
            raise ConfigError(
                f"the redaction rule {name!r} is not a valid RE2 pattern",
                why=reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason),
                next_step="RE2 has no look-around and no back references; correct the pattern or remove the rule",
            ) from error
        if matches_nothing:
            raise ConfigError(
                f"the redaction rule {name!r} matches the empty text",
                why="it would find something everywhere",
                next_step="let the pattern ask for at least one character",
            )
        rules.append(Rule(id=name, rank=RANK_OWN, regex=pattern))
    return rules
