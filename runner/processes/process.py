"""One running program whose output is read as it comes.

`async with Process(...)` starts it and leaves nothing behind: on every way out, cancellation included, the whole tree
has ended before control goes on. Standard output comes as lines of bounded length, standard error as a bounded tail;
time and silence limits end the tree and say so in `Ending.kind`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeVar

from runner.processes.bounded import BoundedOutput, Line, LineSplitter
from runner.processes.environment import command_environment
from runner.processes.orphans import ProcessRecord
from runner.processes.process_table import MARK, entry_of
from runner.processes.tree import ProcessTree, end_tree, wait_until_empty
from tracer.clock import monotonic, short_token

EndingKind = Literal["exit", "signal", "timeout", "idle", "output", "ended"]
_T = TypeVar("_T")
_CHUNK = 1 << 16
_LAST_OUTPUT_S = 2.0


class Ending(NamedTuple):
    """How the program ended. `ended`: we were asked to end it; `output`: it wrote more than it may.

    `exit_code` is None unless kind is `exit`; `signal` is set where a signal ended the leader.
    """

    kind: EndingKind
    exit_code: int | None
    signal: int | None
    duration_s: float


class Process:
    """A program to run with `async with`; `argv` is never given to a shell.

    Args:
        argv: program and arguments.
        cwd: working folder.
        env: whole environment; `command_environment()` by default.
        stdin: bytes to write before closing; None closes it at once; "open" leaves it to `write` and `close_stdin`.
        timeout_s: seconds the program may run; None for no limit.
        idle_timeout_s: seconds it may run without writing anything; None for no limit.
        line_limit: bytes of one line that are kept; the rest of that line is counted and dropped.
        merge_stderr: standard error joins standard output in the order written.
        grace_s: seconds between asking to end and killing.
        linger_s: seconds that children may outlive the leader before they are ended.
        state_dir: where the program is registered, so that the next `pm` can end it; None for no record.
        label: what the record calls it, e.g. the task id.

    Raises:
        FileNotFoundError: the program, or `cwd`, does not exist (`filename` says which).
        PermissionError: it may not be executed.

    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str,
        env: Mapping[str, str] | None = None,
        stdin: bytes | Literal["open"] | None = None,
        timeout_s: float | None = None,
        idle_timeout_s: float | None = None,
        line_limit: int = 16 << 20,
        stderr_keep_bytes: int = 64 << 10,
        merge_stderr: bool = False,
        grace_s: float = 2.0,
        linger_s: float = 0.5,
        state_dir: Path | None = None,
        label: str = "",
    ) -> None:
        self._argv = list(argv)
        self._cwd = str(cwd)
        self._env = dict(command_environment() if env is None else env)
        self._stdin = stdin
        self._timeout_s = timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._line_limit = line_limit
        self._merge_stderr = merge_stderr
        self._grace_s = grace_s
        self._linger_s = linger_s
        self._mark = short_token(32)
        self._record = ProcessRecord(state_dir, mark=self._mark, label=label) if state_dir is not None else None
        self._stderr = BoundedOutput(stderr_keep_bytes)
        self._stop: asyncio.Future[EndingKind] | None = None
        self._last_output = 0.0
        self._excused = 0

    async def __aenter__(self) -> Self:
        self._stop = asyncio.get_running_loop().create_future()
        if self._record is not None:
            self._record.intend()
        try:
            self._popen = self._spawn()
        except BaseException:
            if self._record is not None:
                self._record.remove()
            raise
        self._begun = self._last_output = monotonic()
        entry = entry_of(self._popen.pid)
        self._tree = ProcessTree(self._mark, self._popen.pid, entry.start if entry else "")
        self._supervisor = asyncio.create_task(self._supervise())
        try:
            if self._record is not None:
                self._record.started(self._popen.pid, self._tree.start)
            await self._connect()
        except BaseException:
            await self.end()
            for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
                if pipe is not None:
                    pipe.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()
        for task in self._helpers:
            task.cancel()
        await uninterrupted(asyncio.gather(*self._helpers, return_exceptions=True))
        for transport in self._transports:
            transport.close()

    @property
    def pid(self) -> int:
        """The leader's process id."""
        return self._popen.pid

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._argv,
            cwd=self._cwd,
            env={**self._env, MARK: self._mark},
            stdin=subprocess.DEVNULL if self._stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if self._merge_stderr else subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        self._helpers: list[asyncio.Task[None]] = []
        self._transports: list[asyncio.BaseTransport] = []
        self.stdout = asyncio.StreamReader(limit=_CHUNK)
        assert self._popen.stdout is not None  # noqa: S101 - asked for above
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.stdout), self._popen.stdout
        )
        self._transports.append(transport)
        if self._popen.stderr is not None:
            reader = asyncio.StreamReader(limit=_CHUNK)
            transport, _ = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), self._popen.stderr
            )
            self._transports.append(transport)
            self._stderr_task = asyncio.create_task(self._drain_stderr(reader))
            self._helpers.append(self._stderr_task)
        if self._popen.stdin is not None:
            writing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, self._popen.stdin)
            self._transports.append(writing)
            self.stdin = asyncio.StreamWriter(writing, protocol, None, loop)
            if isinstance(self._stdin, bytes):
                self._helpers.append(asyncio.create_task(self._feed_stdin(self._stdin)))

    async def _drain_stderr(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(_CHUNK):
            self._last_output = monotonic()
            self._stderr.add(chunk)

    async def _feed_stdin(self, data: bytes) -> None:
        await self.write(data)
        self.stdin.close()

    async def write(self, data: bytes) -> None:
        """Write to the program's input (`stdin="open"`); a program that has ended is not an error here."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.stdin.write(data)
            await self.stdin.drain()

    def close_stdin(self) -> None:
        """Tell the program that no more input comes."""
        self.stdin.close()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Standard output as it comes, up to its end."""
        while chunk := await self._next_chunk():
            self._last_output = monotonic()
            yield chunk

    async def _next_chunk(self) -> bytes:
        reading = asyncio.ensure_future(self.stdout.read(_CHUNK))
        waiting: list[asyncio.Future[Any]] = [reading, self._supervisor]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():  # all has ended: what is still open is held by something that got away
                await asyncio.wait([reading], timeout=_LAST_OUTPUT_S)
            return reading.result() if reading.done() else b""
        finally:
            reading.cancel()

    async def lines(self) -> AsyncIterator[Line]:
        """Standard output line by line, framed on the byte newline alone, each of bounded length."""
        splitter = LineSplitter(self._line_limit)
        async for chunk in self.chunks():
            for line in splitter.feed(chunk):
                yield line
        for line in splitter.finish():
            yield line

    async def stderr_tail(self, limit: int = 8192) -> bytes:
        """The last bytes of standard error; after the program's end, complete."""
        if self._supervisor.done() and self._popen.stderr is not None:
            await asyncio.wait([self._stderr_task], timeout=_LAST_OUTPUT_S)
        return self._stderr.tail(limit)

    @contextmanager
    def excused(self) -> Iterator[None]:
        """While it waits for somebody else, such as a user, its silence is not held against it."""
        self._excused += 1
        try:
            yield
        finally:
            self._excused -= 1
            self._last_output = monotonic()

    @property
    def stderr_output(self) -> BoundedOutput:
        """What has come on standard error so far: head and tail, and how much there was in all."""
        return self._stderr

    async def wait(self) -> Ending:
        """How it ended, once the whole tree has. Does not read standard output: do that first."""
        return await asyncio.shield(self._supervisor)

    async def end(self, kind: EndingKind = "ended") -> Ending:
        """Ask the tree to end, kill what stays after the grace time, and say how the leader ended.

        A cancellation meanwhile is taken up only after the tree has ended.
        """
        if self._stop is not None and not self._stop.done():
            self._stop.set_result(kind)
        return await uninterrupted(self._supervisor)

    async def _supervise(self) -> Ending:
        assert self._stop is not None  # noqa: S101 - set in __aenter__
        exited = asyncio.create_task(self._leader_exit())
        watch = asyncio.create_task(self._watch_limits())
        waiting: list[asyncio.Future[Any]] = [exited, watch, self._stop]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        watch.cancel()
        await asyncio.wait([watch])
        emptied = True
        if exited.done() and not self._stop.done():
            if not await wait_until_empty(self._tree, limit_s=self._linger_s):
                emptied = await end_tree(self._tree, grace_s=self._grace_s)
        else:
            emptied = await end_tree(self._tree, grace_s=self._grace_s)
        await exited
        code = self._popen.wait()
        if not self._stop.done():
            self._stop.set_result("signal" if code < 0 else "exit")
        kind = self._stop.result()
        if self._record is not None and emptied:
            self._record.remove()
        return Ending(
            kind=kind,
            exit_code=code if kind == "exit" else None,
            signal=-code if code < 0 else None,
            duration_s=monotonic() - self._begun,
        )

    async def _leader_exit(self) -> None:
        """Wait for the leader without reaping it: its number stays ours until the tree has ended."""
        try:
            handle = os.pidfd_open(self._popen.pid)
        except (AttributeError, OSError):  # not Linux, or an old kernel
            await asyncio.to_thread(os.waitid, os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
            return
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()
        loop.add_reader(handle, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)

    async def _watch_limits(self) -> None:
        assert self._stop is not None  # noqa: S101 - set in __aenter__
        while True:
            now = monotonic()
            left: list[tuple[float, EndingKind]] = []
            if self._timeout_s is not None:
                left.append((self._begun + self._timeout_s - now, "timeout"))
            if self._idle_timeout_s is not None:
                self._last_output = now if self._excused else self._last_output
                left.append((self._last_output + self._idle_timeout_s - now, "idle"))
            if not left:
                await asyncio.Event().wait()
            soonest, kind = min(left)
            if soonest <= 0:
                if not self._stop.done():
                    self._stop.set_result(kind)
                return
            await asyncio.sleep(soonest)


async def uninterrupted(awaitable: Awaitable[_T]) -> _T:
    """Await to the end even when cancelled meanwhile, then let the cancellation go on."""
    task = asyncio.ensure_future(awaitable)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
