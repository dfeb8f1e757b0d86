"""`pm serve`: the task API and the pages of this project, on loopback, behind a token; `pm mcp`: its gate and records.

Agents reach the gate over stdio, or over streamable HTTP as the pages are reached.
"""

from __future__ import annotations

import socket
from argparse import Namespace
from pathlib import Path
from urllib.parse import urlsplit

from repl.commands.setup.running import Running, announced, running_service
from repl.context import Context
from repl.task_request import task_request
from repl.version import VERSION
from runner.core.request import Request
from tracer.errors import UnavailableError, UsageError
from tracer.settings.layers import Settings, mistyped_variables

_HOST = "127.0.0.1"
_PORT = 8765


async def serve(context: Context, arguments: Namespace) -> None:
    from collector.opening import shown_store
    from collector.qa.settings import qa_settings
    from collector.work.worker import collector_with_worker, is_shared
    from repl.session import Session
    from service.app import create_app  # fastapi: 600 ms, paid by this command alone
    from service.schemas import NewTask
    from service.security import Session as Browser
    from service.security import read_or_make_token
    from service.server import run_server

    state_dir = context.state_dir
    state_dir.ensure()
    session = Session(context, interactive=True, person=False)
    token_file = Path(arguments.token_file) if arguments.token_file else state_dir.root / "serve-token"
    token = read_or_make_token(token_file, new=arguments.new_token)

    def request_of(body: NewTask) -> Request:
        return task_request(
            body.prompt,
            settings=session.settings,
            folder=session.folder,
            executor=body.executor or session.executor_name(),
            environ=context.environ,
            interactive=True,
            overrides=body.model_dump(exclude={"prompt", "executor"}),  # named as the settings are
        )

    host = arguments.host or _HOST
    listener = _bind(host, _PORT if arguments.port is None else arguments.port)
    port = listener.getsockname()[1]
    application = create_app(
        state_dir=state_dir,
        supervisor=session.supervisor,
        task_request=request_of,
        collector=lambda: collector_with_worker(state_dir, session.settings, environ=context.environ),
        allowed=qa_settings(session.settings).lists,
        token=token,
        token_file=token_file,
        version=VERSION,
        hosts=[host, *_public(session.settings), *(session.settings.get("service.hosts") or ())],
        metrics=bool(session.settings.get("service.metrics")),
        otel_endpoint=session.settings.get("service.otel_endpoint") or "",
        access_log=Path(log).expanduser() if (log := session.settings.get("service.access_log")) else None,
    )
    public = (session.settings.get("service.public_url") or _address(host, port)).rstrip("/")

    def started() -> None:
        context.output.line(f"serving {session.folder.name} at {_address(host, port)}")
        context.output.line(f"open    {public}/login?code={Browser(token).link_code()}   (works once, for an hour)")
        context.output.line(f"token   {token_file}   (Authorization: Bearer)")
        if is_shared(session.settings):
            context.output.note("captures are checked by pm admin worker; start at least one")

    for line in mistyped_variables(context.environ):
        context.output.note(line)
    running = Running(_address(host, port), shown_store(state_dir, session.settings), str(token_file.absolute()))
    with listener, announced(state_dir.root, running):
        proxies = session.settings.get("service.trusted_proxies") or ()
        await run_server(application, listener, proxies=proxies, started=started)
    context.output.result("serve", {"address": _address(host, port)})


async def link(context: Context, arguments: Namespace) -> None:
    from service.security import Session, read_or_make_token

    running = running_service(context.state_root)
    token_file = Path(running.token_file) if running else context.state_dir.root / "serve-token"
    token = read_or_make_token(token_file, new=arguments.new_token)
    given = arguments.host is not None or arguments.port is not None
    address = running.address if running and not given else _address(arguments.host or _HOST, arguments.port or _PORT)
    public = (context.settings().get("service.public_url") or address).rstrip("/")
    shown = f"{public}/login?code={Session(token).link_code()}"
    context.output.line(shown)
    context.output.result("serve link", {"link": shown})


async def mcp(context: Context, arguments: Namespace) -> None:
    from service.mcp_server import mcp_server

    state_dir = context.state_dir.ensure()
    server = mcp_server(state_dir, version=VERSION)
    if not arguments.http:
        await server.run_stdio_async()
        context.output.ended = True
        return
    from service.security import Gate, Session, read_or_make_token
    from service.server import run_server

    token_file = Path(arguments.token_file) if arguments.token_file else state_dir.root / "serve-token"
    listener = _bind(_HOST, arguments.port or 0)
    address = f"{_address(_HOST, listener.getsockname()[1])}/mcp"
    application = server.streamable_http_app()
    application.add_middleware(Gate, session=Session(read_or_make_token(token_file)))
    context.output.line(f"serving {address}")
    context.output.line(f"token   {token_file}   (Authorization: Bearer)")
    await run_server(application, listener)
    context.output.result("mcp", {"address": address})


def _address(host: str, port: int) -> str:
    """The address to show: a service that listens everywhere is opened from its own machine by loopback."""
    host = _HOST if host in {"0.0.0.0", "::"} else host  # noqa: S104 - nothing is bound here
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _public(settings: Settings) -> list[str]:
    """The host of the address under which others reach the service."""
    return [host] if (host := urlsplit(settings.get("service.public_url") or "").hostname) else []


def _bind(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65_535:
        raise UsageError(f"{port} is no port", next_step="pm serve --port 8765")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UnavailableError(
            f"cannot listen on {host} port {port}", why=str(error), next_step="pm serve --port 0 takes any free port"
        ) from error
