"""Rules ready to run: ours, the vendored ones of gitleaks, and a team's own, behind one keyword prefilter.

A rule is compiled when its keyword first occurs (all 222 take 63 ms, a usual line needs three). Everything runs on
bytes: google-re2 re-encodes a non-ASCII `str` at every call, a hundred times slower on a megabyte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import re2

from tracer.errors import ConfigError
from tracer.redaction.checks import CHECKS, entropy
from tracer.redaction.gate import Called, Key
from tracer.redaction.own_rules import OWN_RULES

__all__ = ["GITLEAKS", "Find", "Rule", "RuleSet", "build_rules", "compiled", "gitleaks_data", "literals"]

GITLEAKS = Path(__file__).with_name("rules") / "gitleaks.json"
_RULE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_RANK_OWN, _RANK_VENDORED, _RANK_NAMED, _RANK_GENERIC = 1, 2, 3, 4
# Rules that go by the name beside a value rather than by its shape: they name a mark only where no other rule does.
_NAMED = {"secret-field", "secret-assignment", "secret-option", "url-secret"}
_GENERIC = {"generic-api-key", "hashicorp-tf-password", "kubernetes-secret-yaml", "nuget-config-password"}

# So frequent in source code that listing every place of theirs would halve the speed: looked up one by one.
_LINE = 4096
_COMMON = (b"s.", b"key", b"sk", b"ey", b"token", b"auth")


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


def literals(words: Iterable[bytes]) -> Any:
    """An RE2 object that finds any of `words`, the first listed where two begin at one place."""
    return re2.compile(b"|".join(re2.escape(word) for word in words), _options())


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

    @cached_property
    def _pattern(self) -> Any:
        return compiled(self.regex)

    @cached_property
    def _allows(self) -> list[_Allow]:
        return [_Allow(entry) for entry in (*self.allow, *self.shared)]

    def finds(self, data: bytes) -> Iterator[Find]:
        """Every secret of this rule in `data`, left to right. Goes on behind the secret, not behind the whole match."""
        pattern, at = self._pattern, 0
        while at <= len(data) and (match := pattern.search(data, at)) is not None:
            start, end = self._secret(match, data)
            if end > start and self._holds(match, data, start, end):
                yield Find(start, end, self.rank, self.id, data[start:end])
            at = max(end, match.start() + 1)

    def _secret(self, match: Any, data: bytes) -> tuple[int, int]:
        """The range of the named group, else of the first group that took part, else of the match without line ends."""
        last = match.re.groups
        groups = (self.group,) if self.group else range(1, last + 1)
        for group in groups:
            start, end = match.span(group)
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
        if self.least_entropy and entropy(secret) <= self.least_entropy:
            return False
        if self.check is not None and not self.check(secret):
            return False

        def line() -> bytes:
            # Bounded: looking for the ends of a line of megabytes at every match would take quadratic time.
            first, last = max(match.start() - _LINE, 0), min(match.end() + _LINE, len(data))
            begin, stop = data.rfind(b"\n", first, match.start()) + 1, data.find(b"\n", match.end(), last)
            return data[begin or first : stop if stop >= 0 else last]

        return not any(allow.holds(secret, match.group(0), line) for allow in self._allows)


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
        self._common = [word for word in _COMMON if word in by_keyword]
        self._any_common = literals(self._common) if self._common else None
        words = sorted(by_keyword.keys() - set(_COMMON), key=lambda word: (-len(word), word))
        self._words = words
        self._prefilter = literals(words)
        self._inside = {word: [other for other in words if other != word and other in word] for word in words}
        self._overlaps = literals(sorted(set(_overlaps(words))))

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
        return {place: rule.regex for place, rule in enumerate(self.rules)}

    def _with_keyword(self, places: Sequence[int], data: bytes) -> list[int]:
        """Those whose keyword occurs: some expressions match without."""
        lowered = data.lower() if places else data
        rules = self.rules
        return [
            place
            for place in places
            if not rules[place].keywords or any(word in lowered for word in rules[place].keywords)
        ]

    def _by_keywords(self, lowered: bytes) -> list[int]:
        words = set(self._prefilter.findall(lowered))
        if words and self._overlaps.search(lowered) is not None:
            words = {word for word in self._words if word in lowered}
        for word in tuple(words):
            words.update(self._inside[word])
        # One search says that none is there, which is the usual case of a short text.
        if self._any_common is not None and self._any_common.search(lowered) is not None:
            words.update(word for word in self._common if word in lowered)
        return sorted({*self._always, *(place for word in words for place in self._by_keyword[word])})


def _overlaps(words: Iterable[bytes]) -> Iterator[bytes]:
    """Each word running over into another: where such a thing stands, the alternation sees only the first."""
    by_start: dict[bytes, list[bytes]] = {}
    for word in words:
        for size in range(1, len(word)):
            by_start.setdefault(word[:size], []).append(word)
    for word in words:
        for size in range(1, len(word)):
            for other in by_start.get(word[-size:], ()):
                yield word + other[size:]


@cache
def gitleaks_data() -> Mapping[str, Any]:
    """The vendored rule data (58 kB, 1 ms)."""
    data: Mapping[str, Any] = json.loads(GITLEAKS.read_bytes())
    return data


def _vendored() -> Iterator[Rule]:
    data = gitleaks_data()
    for rule in data["rules"]:
        if "regex" in rule:
            yield Rule(
                id=rule["id"],
                rank=_RANK_GENERIC if rule["id"] in _GENERIC else _RANK_VENDORED,
                regex=rule["regex"],
                keywords=tuple(word.encode() for word in rule["keywords"]),
                group=rule.get("secretGroup", 0),
                least_entropy=rule.get("entropy", 0.0),
                check=CHECKS["assigned"] if "path" in rule else None,
                allow=tuple(rule.get("allow", ())),
                shared=(data["allow"],),
            )


def _own() -> Iterator[Rule]:
    for rule in OWN_RULES:
        yield Rule(
            id=rule.id,
            rank=_RANK_NAMED if rule.id in _NAMED else _RANK_OWN,
            regex=rule.regex,
            keywords=tuple(word.encode() for word in rule.keywords),
            check=CHECKS[rule.check] if rule.check else None,
        )


def build_rules(extra: Mapping[str, str]) -> list[Rule]:
    """Our rules, the vendored ones, and `extra` (name -> RE2 pattern); raises `ConfigError` for a bad pattern."""
    rules = [*_own(), *_vendored()]
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
                next_step="RE2 has no look-around and no back references; mend the pattern or remove the rule",
            ) from error
        if matches_nothing:
            raise ConfigError(
                f"the redaction rule {name!r} matches the empty text",
                why="it would find something everywhere",
                next_step="let the pattern ask for at least one character",
            )
        rules.append(Rule(id=name, rank=_RANK_OWN, regex=pattern))
    return rules
