"""`traced`: the agentic trace of whatever an agent did during a block or a function of another program."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from tracer.clock import monotonic, now_epoch_ms
from tracer.distill.locate.find import find_sessions
from tracer.distill.native import PROVIDER_NAMES, Distilled, NativeSession, provider_named
from tracer.distill.one import distill_session
from tracer.errors import NotFoundError, PmError

_F = TypeVar("_F", bound=Callable[..., Any])
_TOLD: Final = ("success", "cost_usd", "provider", "session_id")


class traced:  # noqa: N801 - used as a decorator and as a context manager, as those of the standard library
    """Distill the session that an agent command line writes meanwhile; trouble with that ends nothing.

    A context manager (`with traced("claude", label="sync:parser") as run:`) and a decorator of functions, async ones
    too. Afterwards `run.made` is what was written, and `run.why_not` says what trouble there was, of `outcome` and
    `done` too. `success` is whether the block ended without an exception; set `run.success`, `run.cost_usd`,
    `run.provider` or `run.session_id` where you know better. A decorator takes them from the result by `outcome`, which
    is given the result and returns a mapping of those names. `provider` is claude, codex or gemini (or anthropic,
    openai, google); without it sessions of any are taken.

    Every session that was written meanwhile has a trace: `run.made` is the newest one's (of `run.provider` where that
    is set), `run.others` are those of the rest, which tell of themselves. A `session_id` names one and leaves the rest
    out: set it where several blocks run side by side in one folder.
    """

    def __init__(
        self,
        provider: str | None = None,
        *,
        label: str | None = None,
        project_root: str | os.PathLike[str] | None = None,
        prompt_file: str | os.PathLike[str] | None = None,
        output_dir: str | os.PathLike[str] | None = None,
        outcome: Callable[[Any], Mapping[str, Any]] | None = None,
        done: Callable[[traced], None] | None = None,
    ) -> None:
        self._given: dict[str, Any] = {
            "label": label,
            "project_root": project_root,
            "prompt_file": prompt_file,
            "output_dir": output_dir,
        }
        self._outcome, self._done = outcome, done
        self._only = self.provider = provider
        self.session_id: str | None = None
        self.success: bool | None = None
        self.cost_usd: float | None = None
        self.made: Distilled | None = None
        self.others: tuple[Distilled, ...] = ()
        self.why_not = ""

    def __enter__(self) -> Self:
        self._since_ms, self._began = now_epoch_ms(), monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if self.success is None:
            self.success = kind is None
        self._attempt(self._distill)
        if self._done is not None:
            self._attempt(partial(self._done, self))

    def _attempt(self, step: Callable[[], object]) -> None:
        """Do what may fail: trouble is told, and ends nobody's run."""
        try:
            step()
        except Exception as trouble:  # noqa: BLE001 - a provider's files, and functions of the caller's: anything
            line = trouble.line if isinstance(trouble, PmError) else f"{type(trouble).__name__}: {trouble}"
            self.why_not = "; ".join(filter(None, (self.why_not, line)))

    def _distill(self) -> None:
        root = Path(self._given["project_root"] or Path.cwd())
        more: dict[str, Any] = {**self._given, "project_root": root, "since_ms": self._since_ms}
        own: dict[str, Any] = {"success": self.success, "cost_usd": self.cost_usd}
        own["duration_sec"] = round(monotonic() - self._began, 3)
        if self.session_id is not None:
            provider = provider_named(self.provider) if self.provider else None
            self.made = distill_session(provider=provider, session_id=self.session_id, **more, **own)
            return
        found = find_sessions(provider_named(self._only) if self._only else None, project=root)
        written = [one for one in found if one.modified_ms >= self._since_ms]
        newest = next((one for one in written if self._is_asked(one)), None)
        for one in written:
            if one is not newest:
                self._attempt(partial(self._distill_other, one, more))
        if newest is None:
            if self.provider:
                provider_named(self.provider)
            raise NotFoundError("no session was written meanwhile", why=f"by an agent that ran in {root}")
        if self.others:  # what the caller knows is of all of them
            own = {"success": self.success}
        self.made = distill_session(newest.path, provider=newest.provider, **more, **own)

    def _is_asked(self, session: NativeSession) -> bool:
        return not self.provider or self.provider in {session.provider, PROVIDER_NAMES[session.provider]}

    def _distill_other(self, session: NativeSession, more: Mapping[str, Any]) -> None:
        self.others += (distill_session(session.path, provider=session.provider, **more),)

    def __call__(self, function: _F) -> _F:
        """`function` with a trace of its own for every call."""

        def fresh() -> traced:
            return traced(self.provider, **self._given, outcome=self._outcome, done=self._done)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                run = fresh().__enter__()
                try:
                    result = await function(*args, **kwargs)
                    run.tell(result)
                except BaseException as error:
                    await asyncio.to_thread(run.__exit__, type(error), error, None)
                    raise
                await asyncio.to_thread(run.__exit__, None, None, None)
                return result

            return awaited  # type: ignore[return-value]

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with fresh() as run:
                result = function(*args, **kwargs)
                run.tell(result)
            return result

        return called  # type: ignore[return-value]

    def tell(self, result: Any) -> None:
        """Take what `outcome` reads in the result of the function."""
        if self._outcome is not None:
            self._attempt(partial(self._take, self._outcome, result))

    def _take(self, outcome: Callable[[Any], Mapping[str, Any]], result: Any) -> None:
        for name, value in outcome(result).items():
            if name in _TOLD:
                setattr(self, name, value)
