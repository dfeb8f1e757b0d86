"""An S3 endpoint on loopback (moto), with one bucket, for tests of the bucket store."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from tests.support.tools import need

__all__ = ["BUCKET", "s3_environment"]

BUCKET = "captures"


@contextmanager
def s3_environment() -> Iterator[dict[str, str]]:
    """The `AWS_…` variables of a running endpoint that has the bucket `captures`."""
    need(find_spec("moto"), "moto", how="pip install 'moto[server]'")
    from moto.server import ThreadedMotoServer

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        endpoint = f"http://127.0.0.1:{port}"
        request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }
    finally:
        server.stop()
