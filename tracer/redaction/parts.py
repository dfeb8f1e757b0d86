"""What a project's redactors share: key, known values, names and rules, each loaded when first needed.

Importing and building cost nothing; the first text costs about 30 ms (google-re2 alone takes 17 ms to import).
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracer.redaction.known import KnownValues
    from tracer.redaction.people import Identity
    from tracer.redaction.ruleset import RuleSet
    from tracer.redaction.scan import Scanner

__all__ = ["Parts"]

_GIT_TIMEOUT_S = 5


@cache
def _standard_rules() -> RuleSet:
    """Our rules and the vendored ones: the same for every project."""
    from tracer.redaction.ruleset import RuleSet, build_rules

    return RuleSet(build_rules({}))


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
    def _rules(self) -> RuleSet:
        if not self.extra_rules:
            return _standard_rules()
        from tracer.redaction.ruleset import RuleSet, build_rules

        return RuleSet(build_rules(self.extra_rules))

    @cached_property
    def _identity(self) -> Identity:
        from tracer.redaction.people import identity_of

        host = platform.node() if self.host is None else self.host
        persons = _git_persons(self.project_root, self.environ) if self.persons is None else self.persons
        return identity_of(self.environ, host=host, persons=persons)

    def _scanner(self, *, rewrite_paths: bool) -> Scanner:
        from tracer.redaction.people import People
        from tracer.redaction.places import Places
        from tracer.redaction.scan import Scanner

        finders: list[Any] = [self.known, self._rules]
        if self.pii:
            finders.append(People(self._identity, keep_paths=not rewrite_paths))
        if rewrite_paths:
            finders.append(Places(project_root=self.project_root, home=self.home))
        return Scanner(finders)


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
