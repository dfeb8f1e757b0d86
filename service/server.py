"""Runs the application under uvicorn: signals end it gracefully, and tasks it leaves behind are resumable."""

from __future__ import annotations

from fastapi import FastAPI

__all__ = ["serve"]


async def serve(app: FastAPI, *, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; open streams are told to end and given a second.

    Raises:
        SystemExit: uvicorn could not bind the address (it has said so on stderr).

    """
    import uvicorn  # 40 ms: only `pm serve` pays it

    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    await uvicorn.Server(config).serve()
