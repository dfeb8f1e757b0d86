"""How commands reach the collector: address and key from flags, environment and settings; and captures' redactor."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tracer.errors import ConfigError, CredentialsError

if TYPE_CHECKING:
    from collector.client.api import CollectorClient
    from collector.client.spool import Spool
    from repl.context import Context
    from tracer.redaction.engine import ProjectRedactor

_TOKEN: Final = "PM_CAPTURE_TOKEN"  # noqa: S105 - the variable's name


def server_address(context: Context, arguments: Namespace, spool: Spool | None = None) -> str:
    """`--server`, else where the capture is or was to go by that flag, else the setting as it is now.

    Raises ConfigError: it is no address.
    """
    from collector.client.api import checked_address

    settings = context.settings()
    given = getattr(arguments, "server", None)
    begun = str(spool.header.get("server") or "") if spool is not None else ""
    address = given or begun or str(settings.get("capture.server"))
    return checked_address(address, allow_http=bool(settings.get("capture.allow_http")))


def named_server(context: Context, arguments: Namespace) -> str:
    """The address of `--server`, empty without the flag: what is sent later goes where the setting points then.

    Raises ConfigError: what would be used is no address.
    """
    address = server_address(context, arguments)
    return address if arguments.server else ""


def client_for(
    context: Context, arguments: Namespace, *, spool: Spool | None = None, patience_s: float = 10.0
) -> CollectorClient:
    """A client of that collector with the key that is at hand (none is no error here).

    Raises ConfigError: the address or the key file cannot be used. Raises CredentialsError: the key file that was named
    is not there.
    """
    from collector.client.api import CollectorClient

    address = server_address(context, arguments, spool)
    return CollectorClient(
        address,
        token=_token(context, arguments, address),
        patience_s=patience_s,
        allow_http=bool(context.settings().get("capture.allow_http")),
    )


def _token(context: Context, arguments: Namespace, address: str) -> str:
    """`--token-file`, PM_CAPTURE_TOKEN, `capture.key_file`, else this project's serve token for a local collector."""
    named = getattr(arguments, "token_file", None)
    if not named and context.environ.get(_TOKEN):
        return str(context.environ[_TOKEN]).strip()
    named = named or context.settings().get("capture.key_file")
    if named:
        return _read_token(context.path(str(named)))
    own = context.state_root / "serve-token"
    local = any(host in address for host in ("//127.", "//localhost", "//[::1]"))
    return _read_token(own) if local and own.exists() else ""


def _read_token(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(
            f"the key file {str(path)!r} cannot be read", why=str(error), next_step="check --token-file"
        ) from error
    if mode & 0o077:
        raise ConfigError(
            f"{str(path)!r} can be read by others", why=f"its mode is {mode & 0o777:o}", next_step=f"chmod 600 {path}"
        )
    if not text or len(text.split()) != 1:
        raise CredentialsError(f"{str(path)!r} holds no key", next_step="one line with the key, nothing else")
    return text


def capture_redactor(context: Context) -> ProjectRedactor:
    """The redactor of captures: this project's, with absolute paths told from the project and home folders."""
    return context.redactor(project_root=context.state_root.parent, rewrite_paths=True)
