"""`traced`: the agentic trace of whatever an agent did during a block or a function of another program."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from tracer.clock import monotonic, now_epoch_ms
from tracer.distill.locate.find import find_sessions
from tracer.distill.native import PROVIDER_NAMES, Distilled
from tracer.distill.one import distill_session
from tracer.errors import NotFoundError, PmError

_F = TypeVar("_F", bound=Callable[..., Any])
_NAMES: Final[Mapping[str, str]] = {name: provider for provider, name in PROVIDER_NAMES.items()}


class traced:  # noqa: N801 - used as a decorator and as a context manager, as those of the standard library
    """Distill the session that an agent command line writes meanwhile; trouble with that ends nothing.

    A context manager (`with traced("claude", label="sync:parser") as run:`) and a decorator of functions, async ones
    too. Afterwards `run.made` is what was written, else `run.why_not` says why nothing was. `success` is whether the
    block ended without an exception; set `run.success`, `run.cost_usd`, `run.provider` or `run.session_id` where you
    know better. A decorator takes them from the result by `outcome`, which is given the result and returns a mapping
    of those names. `provider` is claude, codex or gemini (or anthropic, openai, google); without it the newest session
    of any is taken.
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
        self.provider = provider
        self.session_id: str | None = None
        self.success: bool | None = None
        self.cost_usd: float | None = None
        self.made: Distilled | None = None
        self.why_not = ""

    def __enter__(self) -> Self:
        self._since_ms, self._began = now_epoch_ms(), monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if self.success is None:
            self.success = kind is None
        try:
            self.made = self._distilled()
        except (PmError, OSError) as trouble:
            self.why_not = trouble.line if isinstance(trouble, PmError) else str(trouble)
        if self._done is not None:
            self._done(self)

    def _distilled(self) -> Distilled:
        provider = _NAMES.get(self.provider or "", self.provider)
        root = Path(self._given["project_root"] or Path.cwd())
        if self.session_id is not None:
            session = None
        else:
            found = find_sessions(provider, project=root)  # type: ignore[arg-type]
            written = [one for one in found if one.modified_ms >= self._since_ms]
            if not written:
                raise NotFoundError("no session was written meanwhile", why=f"by an agent that ran in {root}")
            session, provider = written[0].path, written[0].provider
        return distill_session(
            session,
            provider=provider,  # type: ignore[arg-type]
            session_id=self.session_id,
            since_ms=self._since_ms,
            success=self.success,
            cost_usd=self.cost_usd,
            duration_sec=round(monotonic() - self._began, 3),
            **{**self._given, "project_root": root},
        )

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
            for name, value in self._outcome(result).items():
                setattr(self, name, value)
