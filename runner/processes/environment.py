"""What a started program may know of our environment: a list of names, never everything.

Commands (tests, lint, type checks) get no provider's key; an agent gets the documented variables of its own provider
and of no other. `extra_names` extends either list and is the only way a secret-looking name of another kind passes.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Mapping
from typing import Literal

Provider = Literal["anthropic", "openai", "google"]

# Where things are, how text is shown, how the network is reached: what any development tool needs.
_GENERAL = (  # noqa: SIM905 - one name a line would fill two screens
    "PATH HOME USER LOGNAME SHELL TERM COLORTERM LANG LANGUAGE LC_* TZ TMPDIR TMP TEMP PWD HOSTNAME DISPLAY "
    "NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE CI COLUMNS LINES XDG_* __CF_USER_TEXT_ENCODING "
    "HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy "
    "SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO "
    "VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV PYENV_* PYTHONPATH PYTHONHOME PYTHONHASHSEED "
    "PYTHONDONTWRITEBYTECODE PYTHONUTF8 PYTHONIOENCODING UV_* PIP_* POETRY_* NODE_PATH NODE_OPTIONS NODE_ENV "
    "NVM_* VOLTA_HOME FNM_* COREPACK_* npm_config_cache npm_config_prefix npm_config_registry "
    "JAVA_HOME JDK_HOME GRADLE_* MAVEN_* M2_HOME ANDROID_HOME ANDROID_SDK_ROOT GOPATH GOROOT GOBIN GOCACHE "
    "GOMODCACHE GOFLAGS GOPROXY GOSUMDB GOPRIVATE GOTOOLCHAIN CARGO_HOME CARGO_TARGET_DIR RUSTUP_* RUSTFLAGS "
    "RUST_BACKTRACE RUST_LOG GEM_HOME GEM_PATH BUNDLE_PATH BUNDLE_GEMFILE RBENV_* DOTNET_* PHP_INI_SCAN_DIR "
    "COMPOSER_HOME CC CXX CFLAGS CXXFLAGS LDFLAGS LD_LIBRARY_PATH DYLD_LIBRARY_PATH PKG_CONFIG_PATH "
    "CMAKE_* MAKEFLAGS HOMEBREW_PREFIX NIX_* IS_SANDBOX"
).split()

# The documented variables of each provider's command line.
_PROVIDERS: Mapping[Provider, tuple[str, ...]] = {
    "anthropic": (
        "ANTHROPIC_*",
        "CLAUDE_CODE_*",
        "CLAUDE_CONFIG_DIR",
        "API_TIMEOUT_MS",
        "MAX_THINKING_TOKENS",
        "MAX_MCP_OUTPUT_TOKENS",
        "MCP_TIMEOUT",
        "MCP_TOOL_TIMEOUT",
        "BASH_*_TIMEOUT_MS",
        "BASH_MAX_OUTPUT_LENGTH",
        "DISABLE_*",
        "USE_BUILTIN_RIPGREP",
    ),
    "openai": ("OPENAI_*", "CODEX_*", "AZURE_OPENAI_*"),
    "google": ("GEMINI_*", "GOOGLE_*"),
}

# Cloud credentials pass only where the agent is told to reach its model through that cloud.
_CLOUDS: Mapping[str, tuple[str, ...]] = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_*",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUD_ML_REGION", "GOOGLE_CLOUD_*", "VERTEX_*"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_*",),
}

# An address with a password in it, as package indexes have; proxies keep theirs, without it nothing is reached.
_PASSWORD_IN_ADDRESS = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)


def command_environment(
    source: Mapping[str, str] | None = None,
    *,
    extra_names: Iterable[str] = (),
) -> dict[str, str]:
    """The environment of a test, lint or type-check command: no provider's variables.

    `source` is `os.environ` by default; `extra_names` are names or patterns (`PGHOST`, `MYAPP_*`) that may pass too.
    """
    return _chosen(os.environ if source is None else source, _GENERAL, extra_names)


def agent_environment(
    provider: Provider | None,
    source: Mapping[str, str] | None = None,
    *,
    extra_names: Iterable[str] = (),
    values: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The environment of an agent: as for a command, and its own provider's documented variables.

    `provider` None (an agent of unknown make) passes those of no provider: name them in `extra_names`.
    """
    source = os.environ if source is None else source
    trusted = list(extra_names)
    if provider is not None:
        trusted += _PROVIDERS[provider]
    if provider == "anthropic":
        trusted += [name for switch, names in _CLOUDS.items() if source.get(switch) for name in names]
    return {**_chosen(source, _GENERAL, trusted), **(values or {})}


def _chosen(source: Mapping[str, str], general: Iterable[str], trusted: Iterable[str]) -> dict[str, str]:
    allowed, trusted = tuple(general), tuple(trusted)
    return {
        name: value
        for name, value in source.items()
        if _matches(name, trusted) or (_matches(name, allowed) and not _is_secret(name, value))
    }


def _is_secret(name: str, value: str) -> bool:
    if name.lower().endswith("_proxy"):
        return False
    return _SECRET_NAME.search(name) is not None or _PASSWORD_IN_ADDRESS.search(value) is not None


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(name == pattern or ("*" in pattern and fnmatch.fnmatchcase(name, pattern)) for pattern in patterns)
