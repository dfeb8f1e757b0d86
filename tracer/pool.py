"""A pool of processes of this program, for work that one core would take long over."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import multiprocessing.forkserver
import os
import signal
import site
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import tracer

_STARTING: Final = threading.Lock()


@contextmanager
def process_pool(
    count: int, *, preload: Sequence[str], begin: Callable[[], object] | None = None
) -> Iterator[ProcessPoolExecutor]:
    """`count` processes while the block runs; at its end what has not begun is dropped, what has is waited for.

    They end with this process, however it ends. Not fork: the caller may have threads. What all need (`preload`) is
    loaded once, where they are forked from; each calls `begin` before its first work.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", *preload])
    with _own_modules_only():
        multiprocessing.forkserver.ensure_running()
    with ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(begin,)) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(begin: Callable[[], object] | None) -> None:
    """Ctrl+C is the parent's to deal with; one that was killed leaves nobody who waits for more work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            multiprocessing.connection.wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    if begin is not None:
        begin()


@contextmanager
def _own_modules_only() -> Iterator[None]:
    """An environment in which the fork server finds our modules and the standard library's, and none of a project's.

    The server is started by `python -c`, which looks into the current folder first: a project's own `tracer/` or
    `selectors.py` would be imported. multiprocessing lets nobody change that command line, hence variables of this
    process; a program that another thread starts within this millisecond inherits them.
    """
    root = str(Path(tracer.__path__[0]).parent)
    # A site folder is found without being told, and in PYTHONPATH it would stand before the standard library.
    told = "" if root in {*site.getsitepackages(), site.USER_SITE} else root
    with _STARTING:
        before = {name: os.environ.get(name) for name in ("PYTHONSAFEPATH", "PYTHONPATH")}
        os.environ.update({"PYTHONSAFEPATH": "1", "PYTHONPATH": told})
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
