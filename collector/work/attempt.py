"""One attempt at a finalized trace's quality checks, and what follows: done, again later, or given up.

Starts are stored as facts before the work begins, so a trace that kills its worker is given up after `most_starts`
too. After a crash the status still says pending, so the next worker starts again; the checks are idempotent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Literal, NamedTuple

from collector.store.port import QaFact, TraceStore
from tracer import clock
from tracer.errors import LockedError, PmError

MOST_STARTS: Final = 5
WORKER_STEP: Final = "worker"
"""The step of facts that note a worker's starts and ends; their results are empty, so they leave no part in `qa`."""
REQUESTED_STEP: Final = "requested"
_FIRST_DELAY_S: Final = 5.0
_LONGEST_DELAY_S: Final = 600.0
_PENDING: Final = ("finalized", "qa_running")
_LOG: Final = logging.getLogger("pm.worker")

Checks = Callable[[str], Awaitable[object]]
"""Run every check of one trace that is not done yet; returns when all have their facts."""


class Attempt(NamedTuple):
    """What came of it. `again` after `delay_s`; `dead` is given up, with `error` for people."""

    outcome: Literal["done", "again", "dead", "gone"]
    delay_s: float = 0.0
    error: str = ""


def open_starts(facts: Iterable[QaFact]) -> tuple[int, int]:
    """(starts since the last end, starts ever) by the worker's facts in order; a request to check again is an end."""
    since = ever = 0
    for fact in facts:
        if fact.step == REQUESTED_STEP:
            since = 0
        elif fact.step == WORKER_STEP:
            what = fact.input_hash.partition("-")[0]
            ever += what == "start"
            since = since + 1 if what == "start" else since - 1 if what == "stop" else 0
    return since, ever


def delay_after(starts: int) -> float:
    """Seconds to wait after the `starts`-th attempt failed: 5, 10, 20 … at most 600."""
    return min(_FIRST_DELAY_S * 2.0 ** max(starts - 1, 0), _LONGEST_DELAY_S)


async def attempt_checks(
    trace_id: str,
    *,
    store: TraceStore,
    checks: Checks,
    most_starts: int = MOST_STARTS,
    delay: Callable[[int], float] = delay_after,
) -> Attempt:
    """Run the checks of one trace once; `gone` if it is not pending.

    What the checks raise is logged and leads to another attempt, until the starts are used up (`qa_failed`).
    """
    row = await store.get_trace(trace_id)
    if row is None or row.status not in _PENDING:
        return Attempt("gone")
    since, ever = open_starts(await store.qa_facts(trace_id))
    if since >= most_starts:
        return await _give_up(trace_id, store, ever, f"{since} attempts ended without a result")
    await store.append_qa_fact(trace_id, _fact(f"start-{ever + 1}"))
    if not await store.set_status(trace_id, "qa_running", expected=_PENDING):
        return Attempt("gone")
    try:
        await checks(trace_id)
    except asyncio.CancelledError:  # the worker is told to end: that is no fault of the trace
        with contextlib.suppress(PmError):
            await asyncio.shield(store.append_qa_fact(trace_id, _fact(f"stop-{ever + 1}")))
        raise
    except LockedError as error:  # by another worker, or by hand: that is no start of ours
        await store.append_qa_fact(trace_id, _fact(f"stop-{ever + 1}"))
        return Attempt("again", delay(1), error.line)
    except Exception as error:  # noqa: BLE001 - the worker's boundary: one trace must not end the work on all others
        _LOG.exception("the checks of trace %s failed", trace_id)
        told = f"{error.what} ({error.why})" if isinstance(error, PmError) and error.why else str(error) or repr(error)
        if since + 1 >= most_starts:
            return await _give_up(trace_id, store, ever + 1, told)
        return Attempt("again", delay(since + 1), told)
    await store.append_qa_fact(trace_id, _fact(f"end-{ever + 1}"))
    await store.set_status(trace_id, "complete", expected=("qa_running",))
    after = await store.get_trace(trace_id)
    if after is not None and after.status == "finalized":  # somebody asked for the checks again while they ran
        return Attempt("again", 0.0)
    return Attempt("done")


async def _give_up(trace_id: str, store: TraceStore, ever: int, why: str) -> Attempt:
    _LOG.error("gave up on the checks of trace %s: %s", trace_id, why)
    await store.set_status(trace_id, "qa_failed", expected=_PENDING)
    await store.append_qa_fact(trace_id, _fact(f"dead-{ever}"))
    return Attempt("dead", error=why)


def _fact(input_hash: str) -> QaFact:
    return QaFact(WORKER_STEP, input_hash, clock.now_epoch_ms(), {})
