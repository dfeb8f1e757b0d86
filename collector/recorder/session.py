"""One recorded session: the shell in a pseudo-terminal, file watcher, scribe and, if live, the sender.

Every byte passes both ways, marks taken out. However it ends, the terminal is restored, the shell gets its hang-up and
the spool is whole; after a kill `close_interrupted` closes it later. Without a terminal, input is fed as if typed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import re
import secrets
import select
import signal
import struct
import subprocess
import termios
import threading
import tty
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from collector.client.api import CollectorClient
from collector.client.send import send_spool
from collector.client.spool import Spool
from collector.recorder.editor import EDITOR_SOCKET, EditorSocket
from collector.recorder.scribe import Item, Scribe
from collector.recorder.shell_marks import Cut, Mark, Shell, Token, prepare
from collector.recorder.watcher import Watcher
from collector.recorder.writer import ScribeOptions
from runner.workspace.git.repository import Git
from tracer.clock import now_epoch_ms
from tracer.errors import LockedError, PmError
from tracer.lock import FileLock

_PIECE: Final = 64 << 10
_TYPED: Final = 16
_DRAIN_S: Final = 0.3
_HANG_UP_S: Final = 2.0
_NUDGE_S: Final = 0.3
_SETTLE_S: Final = 5.0
_LOOK_AGAIN_S: Final = 0.01
_CONTINUED_S: Final = 0.1
_UNANSWERED_S: Final = 1.0
_DEFAULT_SIZE: Final = (24, 80)
_END_OF_INPUT: Final = b"\x04"


_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LONGEST_TYPED: Final = 4096  # more is in no terminal's input queue
_SURE: Final = 4  # bytes that stand in other output by chance no more
_LOOK_READ_S: Final = 0.05


class Line(NamedTuple):
    """A line that was typed while a command ran, as the terminal showed it."""

    shown: bytes


class Echo:
    """Finds in a command's output what the terminal showed of the lines that were typed meanwhile."""

    def __init__(self) -> None:
        self._expected = b""
        self._line = b""

    def typed(self, data: bytes) -> bytes:
        """More was typed; what goes back to the output, where it ends or edits its line in another way than Enter."""
        if _CONTROL.search(data) or len(self._expected) + len(self._line) + len(data) > _LONGEST_TYPED:
            back = self._line
            self.forget()
            return back
        self._expected += data.replace(b"\r", b"\n").replace(b"\n", b"\r\n")
        return b""

    def forget(self) -> None:
        """The command has ended: what was typed is edited by the shell now."""
        self._expected = self._line = b""

    def cut(self, data: bytes) -> Iterator[bytes | Line]:
        """`data` without what was typed; each line, once it is whole, in its place."""
        while data and self._expected:
            at, length = self._place(data)
            if not length:
                break
            if at:
                yield data[:at]
            self._line += self._expected[:length]
            data, self._expected = data[at + length :], self._expected[length:]
            *whole, self._line = self._line.split(b"\r\n")
            for line in whole:
                yield Line(line + b"\r\n")
        if data:
            yield data

    def _place(self, data: bytes) -> tuple[int, int]:
        """Where the longest beginning of what is expected stands, and its length; 0: nowhere for sure."""
        for length in range(min(len(self._expected), len(data)), 0, -1):
            beginning = self._expected[:length]
            at = data.find(beginning)
            if at == 0 or (at > 0 and (length >= _SURE or data.endswith(beginning))):
                return at, length
        return 0, 0


class PtyShell:
    """One shell. `on_token` gets output and marks in order, and up to 16 bytes typed since the prompt."""

    def __init__(
        self,
        shell: Shell,
        *,
        cwd: str,
        nonce: str,
        on_token: Callable[[Token, bytes], None],
        settled: Callable[[], bool],
    ) -> None:
        self._shell = shell
        self._cwd = cwd
        self._cut = Cut(nonce)
        self._on_token = on_token
        self._in, self._out = 0, 1
        self._saved: list[Any] | None = None
        self._master = -1
        self._pid = 0
        self._waiting = b""
        self._script = b""
        self._settled = settled
        self._next_line: asyncio.TimerHandle | None = None
        self._running = False
        self._typed_at = 0.0
        self._typed = b""
        self._echo = Echo()
        self._held: list[bytes | Line] = []
        self._place = ""
        self._prompted = False
        self._script_over = False
        self._ended: asyncio.Future[int] | None = None

    async def run(
        self, *, started: Callable[[], object], beside: Callable[[], Coroutine[Any, Any, None]] | None = None
    ) -> int:
        """The shell's exit status (128 + n for a signal); `started` is called once it is there; `beside` runs along."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._start()
        started()
        companion = loop.create_task(beside()) if beside is not None else None
        loop.add_signal_handler(signal.SIGCHLD, self._child_changed)
        loop.add_signal_handler(signal.SIGWINCH, self._resize)
        loop.add_signal_handler(signal.SIGUSR1, self.hang_up)
        try:
            self._raw()
            loop.add_reader(self._master, self._from_shell)
            try:
                loop.add_reader(self._in, self._from_person)
            except PermissionError:  # a file or /dev/null: always ready, and nothing one can wait for
                while not self._script_over:
                    self._from_person()
            self._child_changed()  # it may be gone already
            status = await self._ended
            await self._drain()
            return status
        finally:
            if companion is not None:
                companion.cancel()
                await asyncio.gather(companion, return_exceptions=True)
            loop.remove_reader(self._in)
            for number in (signal.SIGCHLD, signal.SIGWINCH, signal.SIGUSR1):
                loop.remove_signal_handler(number)
            self._cooked()
            await self._end()

    def hang_up(self) -> None:
        """Tell the shell that its terminal is gone: what a closed window does."""
        if self._pid:
            for send in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    send(self._pid, signal.SIGHUP)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    send(self._pid, signal.SIGCONT)

    def say(self, text: str) -> None:
        """A line of our own on the user's terminal, whatever mode it is in."""
        with contextlib.suppress(OSError):
            _write_all(self._out, b"\r\n" + text.encode("utf-8", "replace") + b"\r\n")

    # -- starting and ending ----------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, self._size())
        process = subprocess.Popen(
            [self._shell.program, *self._shell.arguments],
            cwd=self._cwd,
            env=dict(self._shell.environ or {}),
            preexec_fn=lambda: os.login_tty(slave),  # noqa: PLW1509 - one call into libc between fork and exec; no thread runs yet
            close_fds=True,
        )
        self._place = os.ttyname(slave)
        os.close(slave)
        self._pid = process.pid
        process.returncode = 0  # reaped here, by _child_changed
        os.set_blocking(self._master, False)

    def _child_changed(self) -> None:
        try:
            pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            pid, status = self._pid, 0
        if pid == 0 or self._ended is None or self._ended.done():
            return
        if os.WIFSTOPPED(status):
            self._suspend()
            return
        self._pid = 0
        self._ended.set_result(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))

    def _suspend(self) -> None:
        """The shell stopped itself (`suspend`): stop too, and go on together."""
        self._cooked()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._raw()
        self._resize()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGCONT)

    async def _drain(self) -> None:
        """Take what the shell had still written; others may keep its terminal open for longer."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _DRAIN_S
        while self._master >= 0 and loop.time() < until:  # noqa: ASYNC110 - the loop's own readers do the work
            await asyncio.sleep(0.02)
        shown, tokens = self._cut.close()
        self._show(shown)
        self._hand_on(tokens)
        self._release()

    async def _end(self) -> None:
        self._close_master()
        if not self._pid:
            return
        self.hang_up()
        until = asyncio.get_running_loop().time() + _HANG_UP_S
        while self._pid and asyncio.get_running_loop().time() < until:
            self._reap()
            await asyncio.sleep(0.02)
        if self._pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            await asyncio.to_thread(self._reap, 0)

    def _reap(self, options: int = os.WNOHANG) -> None:
        try:
            pid, _status = os.waitpid(self._pid, options)
        except ChildProcessError:
            pid = self._pid
        if pid:
            self._pid = 0

    # -- the user's terminal ----------------------------------------------------------------------------------------

    def _raw(self) -> None:
        if os.isatty(self._in):
            self._saved = termios.tcgetattr(self._in)
            tty.setraw(self._in, termios.TCSADRAIN)

    def _cooked(self) -> None:
        if self._saved is not None:
            with contextlib.suppress(termios.error, OSError):  # the window may be gone
                termios.tcsetattr(self._in, termios.TCSADRAIN, self._saved)
            self._saved = None

    def _resize(self) -> None:
        if self._master >= 0:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._master, termios.TIOCSWINSZ, self._size())

    def _size(self) -> bytes:
        for descriptor in (self._out, self._in):
            with contextlib.suppress(OSError):
                found = fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8))
                if found[:4] != bytes(4):
                    return found
        return struct.pack("HHHH", *_DEFAULT_SIZE, 0, 0)

    # -- bytes ------------------------------------------------------------------------------------------------------

    def _from_person(self) -> None:
        try:
            data = os.read(self._in, _PIECE)
        except OSError as error:
            if error.errno in {errno.EINTR, errno.EAGAIN}:
                return
            data = b""
        if not data:  # the end of a script, or a window that is gone
            asyncio.get_running_loop().remove_reader(self._in)
            if os.isatty(self._in):
                self.hang_up()
                return
            self._script_over = True
            asyncio.get_running_loop().call_later(_NUDGE_S, self._end_script)
        if len(self._typed) < _TYPED:
            self._typed = (self._typed + data)[:_TYPED]
        if os.isatty(self._in):
            self._waiting += data
            self._to_shell()
            return
        self._script += data
        if self._prompted and self._next_line is None:
            self._type_after(0)

    def _to_shell(self) -> None:
        """Write what the shell takes now; it reads at its own pace."""
        loop = asyncio.get_running_loop()
        if self._master < 0:
            return
        try:
            written = os.write(self._master, self._waiting)
        except BlockingIOError:
            written = 0
        except OSError:
            self._waiting = b""
            written = 0
        if self._running and self._shows_typed() and (back := self._echo.typed(self._waiting[:written])):
            self._hand_on_output(back)
        self._waiting = self._waiting[written:]
        if self._waiting:
            loop.add_writer(self._master, self._to_shell)
        else:
            loop.remove_writer(self._master)

    def _from_shell(self) -> None:
        try:
            data = os.read(self._master, _PIECE)
        except BlockingIOError:
            return
        except OSError:  # EIO: the last holder of its terminal is gone
            data = b""
        if not data:
            self._close_master()
            return
        shown, tokens = self._cut.feed(data)
        self._show(shown)
        self._hand_on(tokens)

    def _show(self, shown: bytes) -> None:
        if shown:
            try:
                _write_all(self._out, shown)
            except OSError:  # nobody looks any more; what happens is recorded all the same
                self.hang_up()

    def _hand_on(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            if isinstance(token, Mark):
                self._release()
                self._echo.forget()
                self._on_token(token, self._typed)
                self._running = token.kind == "command"
            else:
                self._hand_on_output(token)
            if isinstance(token, Mark) and token.kind == "prompt":
                self._typed = b""
                self._prompted = True  # a script is typed from here on: before, the shell's terminal would swallow it
                if self._script:
                    self._type_after(0)

    def _hand_on_output(self, data: bytes) -> None:
        """Hand on what a command prints; from a line that was typed on once it is known who reads that."""
        for piece in self._echo.cut(data) if self._running else (data,):
            if isinstance(piece, Line) and not self._held:
                asyncio.get_running_loop().call_later(_LOOK_READ_S, self._release)
            if isinstance(piece, Line) or self._held:
                self._held.append(piece)
            else:
                self._on_token(piece, self._typed)

    def _release(self) -> None:
        """Hand on what was held: an answer to the command with it, not a line that waits for the shell to read it."""
        held, self._held = self._held, []
        answered = bool(held) and not self._unread()
        for piece in held:
            if not isinstance(piece, Line):
                self._on_token(piece, self._typed)
            elif answered:
                self._on_token(piece.shown, self._typed)

    def _shows_typed(self) -> bool:
        """Whether the terminal takes whole lines and shows them: no program edits them itself."""
        with contextlib.suppress(termios.error):
            modes = termios.tcgetattr(self._master)[3]
            return bool(modes & termios.ICANON and modes & termios.ECHO)
        return False

    def _unread(self) -> int:
        """How many bytes of whole lines nobody has read yet."""
        with contextlib.suppress(OSError):
            terminal = os.open(self._place, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                return int(struct.unpack("i", fcntl.ioctl(terminal, termios.FIONREAD, bytes(4)))[0])
            finally:
                os.close(terminal)
        return 0

    def _type_after(self, pause_s: float, *, until: float = 0) -> None:
        if self._next_line is not None:
            self._next_line.cancel()
        self._next_line = asyncio.get_running_loop().call_later(pause_s, self._type_line, until)

    def _type_line(self, until: float) -> None:
        """Type the script's next line once what came before it is recorded, as a user would who looks first.

        A line that begins no command (a here-document) is followed at once, a running command's input after a while.
        """
        now = asyncio.get_running_loop().time()
        until = until or now + _SETTLE_S
        self._next_line = None
        if self._master < 0:
            return
        if (now < until and not self._settled()) or (self._running and now < self._typed_at + _UNANSWERED_S):
            self._type_after(_LOOK_AGAIN_S, until=until)
            return
        line, end, self._script = self._script.partition(b"\n")
        self._waiting += line + end
        self._typed_at = now
        self._to_shell()
        if self._script:
            self._type_after(_CONTINUED_S)

    def _end_script(self) -> None:
        """Type Ctrl+D until the shell is gone: between a command and the next prompt it means nothing."""
        if self._master < 0 or self._ended is None or self._ended.done():
            return
        if self._prompted and not self._waiting and not self._script:
            self._waiting = _END_OF_INPUT
            self._to_shell()
        asyncio.get_running_loop().call_later(_NUDGE_S, self._end_script)

    def _close_master(self) -> None:
        if self._master >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._master)
            loop.remove_writer(self._master)
            os.close(self._master)
            self._master = -1


def _write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, waiting for a terminal that another program left non-blocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


RECORDING = "PM_RECORDING"
_LIVE_S = 2.0
_LONGEST_LIVE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a session ended: the shell's status, and why recording ended before it, if it did."""

    status: int
    marked: bool
    failed: PmError | None
    live_trouble: PmError | None = None


async def record_session(
    spool: Spool,
    git: Git,
    shell: Shell,
    *,
    cwd: str,
    options: ScribeOptions,
    environ: Mapping[str, str],
    client: CollectorClient | None = None,
) -> Ended:
    """Run the shell and record it (LockedError: another process does); `client` sends as it goes."""
    lock = FileLock(spool.folder / "recorder.lock")
    lock.acquire(what="this recording")
    with contextlib.ExitStack() as ending:
        ending.callback(lock.release)
        spool.reopen()
        nonce = secrets.token_hex(16)
        marked = False
        editors = EditorSocket(
            spool.folder, take=lambda line, answer: scribe.put(Item("told", now_epoch_ms(), (line, answer)))
        )
        ending.callback(editors.close)
        trouble = await editors.start()
        more = {RECORDING: str(spool.folder), EDITOR_SOCKET: editors.path}
        ready = prepare(shell, spool.folder / "shell", nonce=nonce, environ={**environ, **more})

        def on_token(token: Token, typed: bytes) -> None:
            nonlocal marked
            if isinstance(token, Mark):
                marked = True
                scribe.put(Item("mark", now_epoch_ms(), token, typed))
            else:
                scribe.put(Item("output", now_epoch_ms(), token))

        terminal = PtyShell(ready, cwd=cwd, nonce=nonce, on_token=on_token, settled=lambda: scribe.settled())  # noqa: PLW0108 - made below
        if trouble:
            terminal.say(trouble)
        scribe = Scribe(spool, git, options, tell=terminal.say, gave_up=lock.release)
        loop = asyncio.get_running_loop()

        def saved(paths: Sequence[str]) -> None:
            """Hand on in two turns of the loop: the marks that the shell wrote before are read in between."""
            loop.call_soon_threadsafe(loop.call_soon, scribe.put, Item("files", now_epoch_ms(), paths))

        watcher = Watcher(top=git.top, left_out=options.left_out, saved=saved, tell=terminal.say)
        live = _Live(spool, client, begun=scribe.begun) if client is not None else None
        scribe.look_first()

        def started() -> None:
            scribe.start()
            watcher.start()

        try:
            status = await terminal.run(started=started, beside=live)
        finally:
            watcher.stop()
            scribe.put(Item("end", now_epoch_ms()))
            scribe.join()
        return Ended(status=status, marked=marked, failed=scribe.failed, live_trouble=live.trouble if live else None)


class _Live:
    """Sends what is new every two seconds; trouble makes it try less often, and never disturbs the shell."""

    def __init__(self, spool: Spool, client: CollectorClient, *, begun: threading.Event) -> None:
        self._begun = begun
        self._spool = Spool.open(spool.folder)  # one of its own: the scribe's belongs to another thread
        self._client = client
        self.trouble: PmError | None = None

    async def __call__(self) -> None:
        pause = _LIVE_S
        while True:
            await asyncio.sleep(pause)
            try:
                if self._begun.is_set() and self._spool.last_event() > self._spool.sent.seq:
                    self._spool.header = Spool.open(self._spool.folder).header  # the bundle's id may have come since
                    await send_spool(self._spool, self._client, final=False)
            except PmError as error:
                self.trouble = error
                pause = min(pause * 2, _LONGEST_LIVE_S)
            else:
                self.trouble, pause = None, _LIVE_S


def close_interrupted(spool: Spool, git: Git, options: ScribeOptions, *, tell: Callable[[str], None]) -> bool:
    """Close a recording whose recorder was killed: last edits, commits, final state. False where one is running."""
    if spool.final is not None:
        return True
    lock = FileLock(spool.folder / "recorder.lock")
    try:
        lock.acquire(what="this recording")
    except LockedError:
        return False
    try:
        scribe = Scribe(spool, git, options, tell=tell)
        scribe.look_first()
        scribe.start()
        scribe.put(Item("end", now_epoch_ms()))
        scribe.join()
        if scribe.failed is not None:
            raise scribe.failed
    finally:
        lock.release()
    return True


def request_stop(spool: Spool) -> bool:
    """Ask the running recorder to end its shell; False where none runs on this machine."""
    holder = spool.recorder
    if holder is None or holder.pid <= 0:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(holder.pid, signal.SIGUSR1)
        return True
    return False
