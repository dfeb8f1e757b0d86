"""Which agent command lines are here: path, version, login state, and what is wrong with one, in words for users.

Nothing is asked over a network and no key is read beyond whether it is set. A version comes from the npm package the
program belongs to where there is one (no start of the program), else from `--version`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from runner.executors.agents.claude import ClaudeDialect
from runner.executors.agents.codex import CodexDialect
from runner.executors.agents.dialect import Dialect, Version, parse_version
from runner.executors.agents.gemini import GeminiDialect
from runner.executors.agents.session_files import codex_home, home_of
from runner.executors.credentials import ApiKey
from runner.processes.environment import agent_environment
from runner.processes.probe import run_probe

Login = Literal["yes", "no", "unknown"]
DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect for dialect in (ClaudeDialect(), CodexDialect(), GeminiDialect())
}
_VERSION_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Program:
    """An installed command line; `version` None where it could not be told."""

    path: str
    version: Version | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """What doctor shows of one executor. `problem` is "" when it can be used; `kind` is the problem's."""

    name: str
    path: str | None = None
    version: str | None = None
    login: Login = "unknown"
    login_detail: str = ""
    problem: str = ""
    why: str = ""
    next_step: str = ""
    kind: Literal["unavailable", "auth"] = "unavailable"

    @property
    def usable(self) -> bool:
        """Installed, new enough and not known to be logged out."""
        return not self.problem


def detect(
    name: str, environ: Mapping[str, str] | None = None, *, programs: Mapping[str, str] | None = None
) -> Detection:
    """Look for the command line of executor `name` (claude, codex or gemini).

    Raises:
        KeyError: `name` is none of these.

    """
    environ = os.environ if environ is None else environ
    dialect = DIALECTS[name]
    configured = (programs or {}).get(name)
    program = find_program(dialect, environ, configured)
    if program is None:
        return Detection(
            name=name,
            problem=f"{name} is not installed",
            why=f"looked on PATH for {configured or name!r}",
            next_step=f"npm install -g {dialect.package}, or choose another --executor",
        )
    login, detail = login_state(name, environ)
    version = str(program.version) if program.version else None
    found = Detection(name=name, path=program.path, version=version, login=login, login_detail=detail)
    why = f"found {program.path}"
    if program.version is not None and program.version < dialect.oldest:
        problem = f"{name} {version} is too old: {dialect.oldest} or newer is needed"
        return replace(found, problem=problem, why=why, next_step=f"npm install -g {dialect.package}@latest")
    if login == "no":
        problem = f"{name} is not logged in"
        return replace(found, problem=problem, why=why, next_step=dialect.login_hint, kind="auth")
    return found


def find_program(dialect: Dialect, environ: Mapping[str, str], configured: str | None = None) -> Program | None:
    """The program of a dialect: the configured path, else the first on PATH; None where there is none."""
    path = shutil.which(configured or dialect.name, path=environ.get("PATH"))
    if path is None:
        return None
    real = Path(os.path.realpath(path))
    try:
        status = real.stat()
    except OSError:
        return None
    version = _package_version(real, dialect.package) or _asked_version(path, status.st_mtime_ns, status.st_size)
    return Program(path, version)


def _package_version(real: Path, package: str) -> Version | None:
    """The version in the npm package's own description, found above the program's real path."""
    for folder in list(real.parents)[:4]:
        try:
            told = json.loads((folder / "package.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(told, dict) and told.get("name") == package:
            return parse_version(str(told.get("version", "")))
    return None


@lru_cache(maxsize=16)
def _asked_version(path: str, _changed_ns: int, _size: int) -> Version | None:
    """What `--version` prints; remembered for as long as the file stays the same."""
    env = agent_environment(None, values={"GEMINI_CLI_NO_RELAUNCH": "true"})
    try:
        done = run_probe([path, "--version"], limit_s=_VERSION_LIMIT_S, env=env)
    except OSError:
        return None
    return parse_version(done.stdout.decode("utf-8", "replace"))


def login_state(name: str, environ: Mapping[str, str]) -> tuple[Login, str]:
    """Whether a command line has credentials, and where; the system's key store cannot be looked into."""
    match name:
        case "claude":
            return _claude_login(environ)
        case "codex":
            return _codex_login(environ)
        case _:
            return _gemini_login(environ)


def _named(environ: Mapping[str, str], *names: str) -> str | None:
    return next((name for name in names if environ.get(name)), None)


def key_told(name: str, environ: Mapping[str, str]) -> str:
    """`key from ANTHROPIC_API_KEY, ending in cdef`: what a refusal is about; empty where nothing is known of it."""
    login, detail = login_state(name, environ)
    if login != "yes":
        return ""
    value = environ.get(detail)
    return f"key from {detail}, ending in {ApiKey(value).ending}" if value else f"log-in from {detail}"


def _claude_login(environ: Mapping[str, str]) -> tuple[Login, str]:
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
    cloud = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
    if found := _named(environ, *names, *cloud):
        return "yes", found
    folder = Path(environ.get("CLAUDE_CONFIG_DIR") or home_of(environ) / ".claude")
    if (folder / ".credentials.json").is_file():
        return "yes", str(folder / ".credentials.json")
    if os.uname().sysname == "Darwin":
        return "unknown", "the key chain is not looked into"
    if "apiKeyHelper" in _text_of(folder / "settings.json"):
        return "yes", "apiKeyHelper"
    return "no", "no key in the environment, no stored login"


def _codex_login(environ: Mapping[str, str]) -> tuple[Login, str]:
    home = codex_home(environ)
    if (home / "auth.json").is_file():
        return "yes", str(home / "auth.json")
    if found := _named(environ, "CODEX_API_KEY", "OPENAI_API_KEY"):
        return "yes", found
    settings = _text_of(home / "config.toml")
    if "model_provider" in settings or "cli_auth_credentials_store" in settings:
        return "unknown", str(home / "config.toml")
    return "no", "no auth.json, no key in the environment, no provider of your own"


def _gemini_login(environ: Mapping[str, str]) -> tuple[Login, str]:
    if found := _named(
        environ, "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"
    ):
        return "yes", found
    folder = home_of(environ) / ".gemini"
    if (folder / "oauth_creds.json").is_file():
        return "yes", str(folder / "oauth_creds.json")
    for place in (folder / ".env", Path(".gemini", ".env"), Path(".env")):  # read by Gemini CLI itself
        if "GEMINI_API_KEY" in _text_of(place):
            return "yes", str(place)
    if "selectedType" in _text_of(folder / "settings.json"):
        return "unknown", str(folder / "settings.json")
    return "no", "no key in the environment, no stored login"


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes()[:1_000_000].decode("utf-8", "replace")
    except OSError:
        return ""
