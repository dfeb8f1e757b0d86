"""What a project's redactors share: key, known values, names and rules, each loaded when first needed.

Importing and building cost nothing; the first text costs about 30 ms (google-re2 alone takes 17 ms to import).
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tracer.redaction.gate import Gate, Key
    from tracer.redaction.known import KnownValues
    from tracer.redaction.people import Identity
    from tracer.redaction.ruleset import RuleSet
    from tracer.redaction.scan import Scanner

__all__ = ["Parts"]

_GIT_TIMEOUT_S = 5
_WORTH_OF_WORDS = 200_000  # a few words compile in 10 ms


class _Gated(NamedTuple):
    rules: RuleSet
    gate: Gate


@cache
def _standard() -> _Gated:
    """Our rules and the vendored ones: the same for every project."""
    return _gated({})


def _gated(extra_rules: Mapping[str, str]) -> _Gated:
    from tracer.redaction.gate import Gate
    from tracer.redaction.people import PATTERNS
    from tracer.redaction.ruleset import RuleSet, build_rules
    from tracer.redaction.scan import BASE64_KEY, HEX_KEY
    from tracer.redaction.views import BASE64_TEXT, HEX_TEXT

    rules = RuleSet(build_rules(extra_rules))
    encoded: dict[Key, str] = {BASE64_KEY: BASE64_TEXT.decode("ascii"), HEX_KEY: HEX_TEXT.decode("ascii")}
    return _Gated(rules, Gate({**rules.patterns, **PATTERNS, **encoded}))


@dataclass(frozen=True, kw_only=True)
class Parts:
    """See `build_redactor` for the fields."""

    state_dir: Path
    environ: Mapping[str, str] = field(repr=False)
    extra_names: tuple[str, ...]
    extra_rules: Mapping[str, str]
    project_root: Path | None
    home: Path | None
    host: str | None
    persons: tuple[str, ...] | None
    pii: bool

    @cached_property
    def key(self) -> bytes:
        """The project's key; raises `RecordError`."""
        from tracer.redaction.key import load_key

        return load_key(self.state_dir)

    @cached_property
    def known(self) -> KnownValues:
        """The values that variables with telling names hold."""
        from tracer.redaction.known import KnownValues, known_values

        return KnownValues(known_values(self.environ, self.extra_names))

    @cached_property
    def scanner(self) -> Scanner:
        """For records that keep their paths."""
        return self._scanner(rewrite_paths=False)

    @cached_property
    def path_scanner(self) -> Scanner:
        """For records whose paths are told from the project's and the home folder."""
        return self._scanner(rewrite_paths=True)

    @cached_property
    def _gated(self) -> _Gated:
        return _gated(self.extra_rules) if self.extra_rules else _standard()

    @cached_property
    def _identity(self) -> Identity:
        from tracer.redaction.people import identity_of

        host = platform.node() if self.host is None else self.host
        persons = _git_persons(self.project_root, self.environ) if self.persons is None else self.persons
        return identity_of(self.environ, host=host, persons=persons)

    def _scanner(self, *, rewrite_paths: bool) -> Scanner:
        from tracer.redaction import known, people, places
        from tracer.redaction.gate import Gate, any_of
        from tracer.redaction.scan import Scanner

        finders: list[Any] = [self.known, self._gated.rules]
        words: dict[Key, Iterable[bytes]] = {known.KEY: self.known.words}
        if self.pii:
            persons = people.People(self._identity, keep_paths=not rewrite_paths)
            finders.append(persons)
            words[people.NAMES] = persons.words
        if rewrite_paths:
            paths = places.Places(project_root=self.project_root, home=self.home)
            finders.append(paths)
            words[places.KEY] = paths.words
        own = Gate({key: any_of(listed) for key, listed in words.items() if listed}, worth=_WORTH_OF_WORDS)
        return Scanner(finders, patterns=self._gated.gate, words=own)


def _git_persons(folder: Path | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The developer's name from git's settings; none where git or a setting is missing."""
    try:
        answer = subprocess.run(
            ["git", "config", "--get", "user.name"],
            cwd=folder,
            env=dict(environ),
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    name = answer.stdout.decode("utf-8", "replace").strip()
    return (name,) if answer.returncode == 0 and name else ()
