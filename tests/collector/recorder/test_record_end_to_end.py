"""A recorded bug fix, from the first prompt to the proof: real shells, a real collector, kills and restarts."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest

from collector.client.spool import Spool
from tests.collector.recorder.support import Desk, Recording, desk, git
from tests.repl.support import Ran, command_line, environment, pm_process
from tests.support.tools import need, need_program

pytestmark = [pytest.mark.torture, pytest.mark.timeout(300)]

UNIT = (
    "import unittest\nfrom cart import total\n\n\nclass Cart(unittest.TestCase):\n"
    "    def test_total(self):\n        self.assertEqual(total([1, 2, 3]), 6)\n"
)
TESTS = "python -m unittest -q test_cart_unit"


@pytest.fixture
def at(tmp_path: Path) -> Desk:
    return desk(tmp_path, test_cart_unit_dot_py=UNIT)


@contextmanager
def serving(at: Desk, *, port: int = 0) -> Iterator[str]:
    """`pm serve` of the desk's project; its address."""
    process = subprocess.Popen(
        command_line("serve", "--port", str(port)),
        cwd=at.repo,
        env=environment(**at.environ("bash")),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        address = re.search(r"http://\S+", first)
        assert address, first + process.stdout.read()
        yield address[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()


def run(at: Desk, *words: str, **extra: str) -> Ran:
    return pm_process(*words, cwd=at.repo, **at.environ("bash", **extra))


def fix_the_bug(recording: Recording) -> None:
    recording.run(TESTS)
    recording.run("pm think 'total leaves the first price out' --kind hypothesis")
    recording.run("grep -n prices cart.py")
    recording.run("sed -i 's/prices\\[1:\\]/prices/' cart.py")
    recording.run(TESTS)
    recording.run("pm think 'summing all of them is enough' --kind decision")
    recording.run("git commit -qam 'Sum all prices'")


def document(at: Desk, address: str, trace_id: str, path: Path) -> dict[str, object]:
    got = run(at, "capture", "get", trace_id, "--server", address, "-o", str(path))
    assert got.code == 0, got.err
    schema = json.loads(run(at, "schema", "trace").out)
    found: dict[str, object] = json.loads(path.read_bytes())
    jsonschema.Draft202012Validator(schema).validate(found)
    return found


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize(
    ("consent", "store"), [("all", "redacted"), ("all", "raw"), ("output,judge", "redacted"), ("none", "patches_only")]
)
def test_a_bug_is_fixed_in_a_recorded_shell_and_the_record_proves_it(
    at: Desk, tmp_path: Path, shell: str, consent: str, store: str
) -> None:
    need_program(shell, how=f"install {shell}")
    with serving(at) as address:
        with Recording(at, shell, "--store", store, "--server", address, consent=consent) as recording:
            fix_the_bug(recording)
            recording.terminal.send(b"exit\r")
            recording.terminal.wait_for(f"Send this to {address}?", seconds=30)
            assert "commits   Sum all prices" in recording.terminal.text()
            recording.terminal.send(b"y\r")
            assert recording.terminal.ends(seconds=40) == 0
        trace_id = at.spool.trace_id
        whole = document(at, address, trace_id, tmp_path / "trace.json")
    assert at.spool.sent.finalized
    events = [event["type"] for event in whole["events"]]  # type: ignore[index, attr-defined]
    assert {"terminal_command", "test_run", "thought", "file_edit", "commit", "navigation"} <= set(events)
    runs = [event["payload"]["passed"] for event in whole["events"] if event["type"] == "test_run"]  # type: ignore[index, attr-defined]
    assert runs == [False, True]
    verified = run(at, "capture", "verify", trace_id, "--json")
    told = json.loads(verified.out)
    assert verified.code == 0, verified.out + verified.err
    assert told["mismatches"] == 0
    if store != "patches_only":
        assert told["checked"] > 0
    if consent == "all":
        assert told["reaches"] == git(at.repo, "rev-parse", "HEAD")
        assert told["status"] == "verified"


UNFINISHED = (
    "head -c 2000 /dev/urandom > icon.png",
    "sed -i 's/prices\\[1:\\]/prices/' cart.py",
    "echo 'print(1)' >> test_cart_unit.py",
    "git add cart.py icon.png; echo '# more' >> cart.py",
    "touch kept.tmp; ln -s cart.py link; git add -A kept.tmp link",
    "git commit -qm 'Sum all prices'",
    "echo note > note.txt",
)


NO_TEXT = ("echo a >> cart.py; head -c 2000 /dev/urandom > icon.png", "git checkout -q cart.py")
LINKED = (
    "mv lib lib2; ln -s lib2 lib; rm other; mkdir other; echo d > other/deep; rm cart.py; ln -s test_cart.py cart.py",
    "git add -A; git commit -qm 'Links and folders'",
    "rm cart.py; echo 'print(1)' > cart.py; chmod +x cart.py",
)


def test_a_session_that_changes_modes_leads_to_its_commit(at: Desk) -> None:
    with serving(at) as address:
        with Recording(at, "bash", "--no-upload", "--server", address, consent="all") as recording:
            recording.run("chmod +x cart.py; git commit -qam 'A program'")
            recording.run("git mv cart.py shop.py; printf '#!/bin/sh\\n' > run; chmod +x run; git add -A")
            recording.run("git commit -qm 'Another name'")
            assert recording.leave() == 0
        assert run(at, "record", "upload", "--server", address).code == 0
    verified = run(at, "capture", "verify", at.spool.trace_id, "--json")
    told = json.loads(verified.out)
    assert (verified.code, told["status"]) == (0, "verified"), verified.out
    assert told["reaches"] == git(at.repo, "rev-parse", "HEAD")


CONVERTED = (
    "printf 'x = 1\\r\\n' >> cart.py",
    "git commit -qam 'Windows' 2> /dev/null",
    "printf 'z = 1\\r\\n' >> test_cart.py",
)


@pytest.mark.parametrize("store", ["redacted", "patches_only"])
@pytest.mark.parametrize("lines", [CONVERTED, CONVERTED[:1]], ids=["committed", "nothing committed"])
@pytest.mark.parametrize(
    "converting",
    ["git config core.autocrlf true", "printf '*.py text eol=crlf\\n' > .gitattributes"],
    ids=["autocrlf", "attributes"],
)
def test_a_session_in_files_whose_line_ends_git_converts_is_proved(
    at: Desk, converting: str, lines: tuple[str, ...], store: str
) -> None:
    with serving(at) as address:
        git(at.repo, "config", "core.safecrlf", "false")
        subprocess.run(
            ["sh", "-c", f"{converting}; rm cart.py test_cart.py; git checkout -q -- ."], cwd=at.repo, check=True
        )
        with Recording(at, "bash", "--no-upload", "--store", store, "--server", address, consent="all") as recording:
            for line in lines:
                recording.run(line)
            assert recording.leave() == 0
        assert run(at, "record", "upload", "--server", address).code == 0
    verified = run(at, "capture", "verify", at.spool.trace_id, "--json")
    told = json.loads(verified.out)
    assert (verified.code, told["status"], told["mismatches"]) == (0, "verified", 0), verified.out
    assert b"\r\n" in (at.repo / "cart.py").read_bytes().splitlines(keepends=True)[0]


@pytest.mark.parametrize(
    "lines",
    [UNFINISHED, UNFINISHED[:3], LINKED, LINKED[:2], LINKED[:1], NO_TEXT],
    ids=["committed in part", "nothing committed", "links undone", "links committed", "links not committed", "no text"],
)
def test_a_session_with_unfinished_business_is_proved_too(at: Desk, lines: tuple[str, ...]) -> None:
    (at.repo / "lib").mkdir()
    (at.repo / "lib" / "a.py").write_text("a = 1\n")
    (at.repo / "other").write_text("o\n")
    git(at.repo, "add", "-A")
    git(at.repo, "commit", "-qm", "A library")
    with serving(at) as address:
        with Recording(at, "bash", "--no-upload", "--server", address, consent="all") as recording:
            for line in lines:
                recording.run(line)
            assert recording.leave() == 0
        assert run(at, "record", "upload", "--server", address).code == 0
    verified = run(at, "capture", "verify", at.spool.trace_id, "--json")
    told = json.loads(verified.out)
    assert (verified.code, told["status"], told["mismatches"]) == (0, "verified", 0), verified.out
    assert {found["reason"] for found in told["findings"]} <= {
        "binary", "left out by the recorder", "a link or a submodule"
    }  # fmt: skip


def test_what_is_recorded_live_is_there_before_the_shell_ends_and_a_restart_loses_nothing(
    at: Desk, tmp_path: Path
) -> None:
    with free_port() as port:
        address = f"http://127.0.0.1:{port}"
    with serving(at, port=port):
        recording = Recording(at, "bash", "--live", "--server", address)
        recording.__enter__()
        recording.run("echo first")
        sent_by(at, 2, recording)
    recording.run("echo while it is away")
    fix_the_bug(recording)
    with serving(at, port=port):
        sent_by(at, at.spool.last_event(), recording)
        recording.run("echo last")
        recording.terminal.send(b"exit\r")
        assert recording.terminal.ends(seconds=60) == 0
        whole = document(at, address, at.spool.trace_id, tmp_path / "trace.json")
    assert [event["seq"] for event in whole["events"]] == list(range(1, at.spool.last_event() + 1))  # type: ignore[index, attr-defined]
    assert at.spool.sent.finalized


def sent_by(at: Desk, seq: int, recording: Recording) -> None:
    deadline = time.monotonic() + 60
    while at.spool.sent.seq < seq:
        recording.terminal.pump()
        assert time.monotonic() < deadline, at.spool.sent


def everything_of(spool: Spool) -> list[str]:
    return [json.loads(line.raw)["event_id"] for line in spool.lines()]


@pytest.mark.parametrize("seed", range(6))
def test_kill_9_of_the_recorder_at_any_point_leaves_a_capture_that_is_sent_whole(
    at: Desk, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    with serving(at) as address:
        with Recording(at, "bash", "--server", address, consent="all") as recording:
            for line in (TESTS, "echo 'x = 1' >> cart.py", "seq 1 3000", "git commit -qam one", "pm think over"):
                recording.terminal.send(line.encode() + b"\r")
                deadline = time.monotonic() + chance.uniform(0, 0.8)
                while time.monotonic() < deadline:
                    recording.terminal.pump(0.02)
            os.kill(recording.terminal.child.pid, signal.SIGKILL)
            recording.terminal.ends()
        before = everything_of(at.spool)
        sent = run(at, "record", "upload", "--server", address)
        assert sent.code == 0, sent.err
        whole = document(at, address, at.spool.trace_id, tmp_path / "trace.json")
    ids = [event["event_id"] for event in whole["events"]]  # type: ignore[index, attr-defined]
    assert ids[: len(before)] == before
    assert ids == everything_of(at.spool)
    assert len(ids) == len(set(ids))
    verified = run(at, "capture", "verify", at.spool.trace_id, "--json")
    assert json.loads(verified.out)["mismatches"] == 0, verified.out


@pytest.mark.parametrize("seed", range(4))
def test_kill_9_of_the_upload_at_any_point_costs_sending_again_and_no_more(at: Desk, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with serving(at) as address:
        with Recording(at, "bash", "--no-upload", "--server", address, consent="all") as recording:
            fix_the_bug(recording)
            assert recording.leave() == 0
        for _ in range(3):
            process = subprocess.Popen(
                command_line("record", "upload"), cwd=at.repo, env=environment(**at.environ("bash"))
            )
            time.sleep(chance.uniform(0.2, 0.9))
            process.kill()
            process.wait()
        assert run(at, "record", "upload").code == 0
        whole = document(at, address, at.spool.trace_id, tmp_path / "trace.json")
    assert [event["event_id"] for event in whole["events"]] == everything_of(at.spool)  # type: ignore[index, attr-defined]


def test_it_works_in_tmux(at: Desk) -> None:
    tmux = need_program("tmux", how="install tmux")
    socket = f"pm-test-{os.getpid()}"
    environ = {**os.environ, **at.environ("bash"), "TERM": "xterm-256color"}
    environ.pop("TMUX", None)

    def call(*words: str) -> str:
        done = subprocess.run([tmux, "-L", socket, *words], env=environ, capture_output=True, text=True, check=False)
        return done.stdout

    try:
        start = f"{at.bin}/pm record --consent output --title x --no-upload"
        call("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "-c", str(at.repo), start)
        wait_for(lambda: "mine>" in call("capture-pane", "-p"))
        call("send-keys", "echo in tmux; stty size", "Enter")
        wait_for(lambda: at.events("terminal_output"))
        call("split-window", "-v", "-t", ":0.0")
        call("send-keys", "-t", ":0.0", "stty size; echo smaller", "Enter")
        wait_for(lambda: len(at.events("terminal_output")) >= 2)
        shown = call("capture-pane", "-p", "-t", ":0.0")
        call("send-keys", "-t", ":0.0", "exit", "Enter")
        wait_for(lambda: at.spool.final is not None)
    finally:
        call("kill-server")
    assert at.output_of("echo in tmux") == "in tmux\n30 100\n"
    assert at.output_of("stty size; echo smaller") != "30 100\nsmaller\n"
    assert "7717" not in shown


def test_it_works_over_ssh(at: Desk, tmp_path: Path) -> None:
    server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or need_program(
        "sshd", how="install openssh-server"
    )
    need_program("ssh", how="install openssh-client")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    shutil.copy(tmp_path / "user.pub", tmp_path / "authorized")
    with free_port() as port:
        pass
    config = (
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/authorized\n"
    )
    config += "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
    (tmp_path / "sshd_config").write_text(config, encoding="ascii")
    checked = subprocess.run(
        [server, "-t", "-f", str(tmp_path / "sshd_config")], check=False, capture_output=True, text=True
    )
    need(checked.returncode == 0, "an sshd that starts", how=f"mend this: {checked.stderr.strip()}")
    daemon = subprocess.Popen([server, "-D", "-e", "-f", str(tmp_path / "sshd_config")], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: _answers(port))
        words = " ".join(f"{name}={value!r}" for name, value in at.environ("bash").items())
        remote = f"cd {at.repo} && env {words} {at.bin}/pm record --consent output --title x --no-upload"
        import pexpect

        child = pexpect.spawn(
            "ssh",
            ["-tt", "-p", str(port), "-i", str(tmp_path / "user"), "-o", "StrictHostKeyChecking=no",
             "-o", f"UserKnownHostsFile={tmp_path}/known", "127.0.0.1", remote],
            timeout=60,
        )  # fmt: skip
        child.expect("mine>")
        child.send("echo over ssh\r")
        wait_for(lambda: at.events("terminal_output"))
        child.send("exit\r")
        child.expect(pexpect.EOF)
        child.close()
    finally:
        daemon.terminate()
        daemon.wait()
    assert at.output_of("echo") == "over ssh\n"


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def free_port() -> Iterator[int]:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def wait_for(check: object, *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not check():  # type: ignore[operator]
        assert time.monotonic() < deadline, "never came true"
        time.sleep(0.1)
