"""Many sessions at once, one process a core; each session ends as its own trace or its own error."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import NamedTuple

from tracer.distill.locate import with_agents
from tracer.distill.model import Distilled, NativeSession, Request
from tracer.distill.session import distill
from tracer.errors import PmError

__all__ = ["Outcome", "distill_many"]

# Below this many bytes starting processes (150 ms each) costs more than it saves.
_WORTH_IT = 8 * 1024 * 1024
# From here on each of two workers is sure to want the gate of all rules.
_WORTH_A_GATE = 128 * 1024 * 1024


class Outcome(NamedTuple):
    """What became of one session: a trace, or the error that kept it from one."""

    session: NativeSession
    distilled: Distilled | None
    error: PmError | None


def distill_many(
    sessions: Sequence[NativeSession], request: Request, *, workers: int | None = None
) -> Iterator[Outcome]:
    """Distill every session, yielding each as it is done, in no order. `workers` defaults to the number of cores."""
    count = min(workers or os.cpu_count() or 1, len(sessions))
    size = sum(session.size for session in sessions)
    if count < 2 or (workers is None and size < _WORTH_IT):
        for session in sessions:
            yield _one(session, request)
        return
    # Not fork: the caller may have threads. What all workers need is loaded once, where they are forked from.
    context = multiprocessing.get_context("forkserver")
    warm = ["tracer.distill.warm", "tracer.distill.warm_gate"] if size > _WORTH_A_GATE else ["tracer.distill.warm"]
    context.set_forkserver_preload(["__main__", *warm])
    with ProcessPoolExecutor(count, mp_context=context) as pool:
        # The largest first, so that no core waits for one that was started last.
        ordered = sorted(sessions, key=lambda session: -session.size)
        waiting = [pool.submit(_one, session, request) for session in ordered]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _one(session: NativeSession, request: Request) -> Outcome:
    try:
        return Outcome(session, distill(with_agents(session), request), None)
    except PmError as error:
        return Outcome(session, None, error)
