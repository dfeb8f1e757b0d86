"""`pm mcp`: the gate and this project's records for agents, over stdio or streamable HTTP."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from repl.context import Context
from repl.version import VERSION


async def mcp(context: Context, arguments: Namespace) -> int:
    from service.mcp_server import mcp_server

    state_dir = context.state_dir.ensure()
    server = mcp_server(state_dir, version=VERSION)
    if not arguments.http:
        await server.run_stdio_async()
        context.output.ended = True
        return 0
    from repl.commands.setup.serve import HOST, bind
    from service.security import Gate, Session, read_or_make_token
    from service.server import run_server

    token_file = Path(arguments.token_file) if arguments.token_file else state_dir.root / "serve-token"
    listener = bind(HOST, arguments.port or 0)
    address = f"http://{HOST}:{listener.getsockname()[1]}"
    application = server.streamable_http_app()
    application.add_middleware(Gate, session=Session(read_or_make_token(token_file)))
    context.output.line(f"serving {address}/mcp")
    context.output.line(f"token   {token_file}   (Authorization: Bearer)")
    await run_server(application, listener)
    context.output.result("mcp", {"address": f"{address}/mcp"})
    return 0
