"""Which sandbox is taken, what is passed over, and that what is missing is always said."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from collector.qa.sandbox.bubblewrap import BubblewrapSandbox
from collector.qa.sandbox.choose import SandboxChooser, choose_sandbox
from collector.qa.sandbox.container import ContainerSandbox, Way, run_arguments
from collector.qa.sandbox.owners import is_stale, labels
from collector.qa.sandbox.port import GUARANTEES, Limits
from collector.qa.sandbox.script import held_from, process_limit
from tests.collector.qa.support import job_of
from tests.support.containers import IMAGE, container_engine
from tests.support.tools import need_program
from tracer.errors import SandboxError

_LIMITS = Limits(memory_bytes=1000, pids=64)
_SEEN = """uid 65534
CapBnd:\t0000000000000000
CapEff:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
memory 1000
pids 64
cpu 100000 100000
devices 0
map 0 1879048192 65536
processes 4096 4096 processes
"""


def test_everything_that_was_seen_is_held() -> None:
    assert set(held_from(_SEEN, _LIMITS)) == set(GUARANTEES)
    assert process_limit(_SEEN) == 4096


@pytest.mark.parametrize(
    ("seen", "instead", "lost"),
    [
        ("memory 1000", "memory max", "memory"),
        ("memory 1000", "memory 9223372036854771712", "memory"),
        ("memory 1000", "memory", "memory"),
        ("pids 64", "pids max", "pids"),
        ("cpu 100000 100000", "cpu max 100000", "cpu"),
        ("cpu 100000 100000", "cpu -1", "cpu"),
        ("devices 0", "devices 1", "network"),
        ("uid 65534", "uid 0", "not_root"),
        ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "no_new_privileges"),
        ("Seccomp:\t2", "Seccomp:\t0", "seccomp"),
        ("CapBnd:\t0000000000000000", "CapBnd:\t00000000a80425fb", "capabilities"),
        ("map 0 1879048192 65536", "map 0 0 4294967295", "user_mapping"),
        ("devices 0", "devices 0\nwritable /etc", "read_only"),
    ],
)
def test_what_was_not_seen_is_not_held(seen: str, instead: str, lost: str) -> None:
    assert set(GUARANTEES) - set(held_from(_SEEN.replace(seen, instead), _LIMITS)) == {lost}


def test_silence_holds_nothing() -> None:
    assert held_from("", _LIMITS) == ()


def test_a_run_asks_for_every_limit_and_mounts_nothing_of_ours(tmp_path: Path) -> None:
    words = run_arguments(
        "docker",
        job_of(tmp_path, "true", image=IMAGE),
        name="x",
        marks={},
        word_arguments=["script"],
        way=Way(),
    )
    for wanted in (
        *("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none", "--user=65534:65534"),
        *("--memory=268435456", "--memory-swap=268435456", "--pids-limit=64", "--cpus=1", "--pull=never"),
    ):
        assert wanted in words
    assert not [word for word in words if word.startswith(("-v", "--volume", "--mount", "--privileged", "--device"))]


def test_only_a_build_has_a_network_and_only_the_one_that_was_named(tmp_path: Path) -> None:
    job = job_of(tmp_path, "true", image=IMAGE, network="qa-build")
    words = run_arguments("podman", job, name="x", marks={}, word_arguments=["script"], way=Way())
    assert [word for word in words if word.startswith("--network")] == ["--network=qa-build"]


async def test_bubblewrap_never_shares_this_machine_s_network(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no network of its own"):
        await BubblewrapSandbox().run(job_of(tmp_path, "true", image=IMAGE, network="bridge"))


@pytest.mark.container
async def test_a_build_s_network_is_there_and_gone_again_in_the_tests(tmp_path: Path) -> None:
    sandbox = ContainerSandbox(container_engine())
    look = "grep -c eth0 /proc/net/dev"
    assert (await sandbox.run(job_of(tmp_path, look, image=IMAGE, network="bridge"))).stdout == b"1\n"
    assert (await sandbox.run(job_of(tmp_path, look, image=IMAGE))).stdout == b"0\n"


def _program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which both engines are installed and broken."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("podman", "docker"):
        _program(folder, name, "echo 'cannot connect to the daemon' >&2; exit 125")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.mark.machine
async def test_a_lesser_sandbox_says_what_it_lacks_and_why_nothing_better_was_taken(no_engine: Path) -> None:
    need_program("bwrap", how="apt-get install bubblewrap")
    facts = await (await choose_sandbox("auto", image=IMAGE)).facts(IMAGE)
    assert (facts.name, facts.lesser) == ("bubblewrap", True)
    assert {"memory", "cpu"} <= set(facts.lacks)
    assert [note for note in facts.notes if note.startswith("podman: ") and "cannot connect" in note]
    assert facts.as_json()["lacks"] == list(facts.lacks)


@pytest.mark.parametrize("mode", ["container", "podman", "docker"])
async def test_a_lesser_one_is_not_taken_where_it_is_not_allowed(no_engine: Path, mode: str) -> None:
    with pytest.raises(SandboxError) as raised:
        await choose_sandbox(mode, image=IMAGE)  # type: ignore[arg-type]
    assert "cannot connect to the daemon" in raised.value.why


@pytest.mark.container
async def test_an_engine_without_limits_is_lesser_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = container_engine()
    real = shutil.which(engine)
    folder = tmp_path / "bin"
    folder.mkdir()
    refuse = 'for word in "$@"; do case "$word" in --memory*|--cpus*) echo "no cgroups" >&2; exit 126;; esac; done'
    _program(folder, engine, f'{refuse}\nexec {real} "$@"')
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    facts = await ContainerSandbox(engine).facts(IMAGE)
    assert facts.lesser is True
    assert {"memory", "cpu"} <= set(facts.lacks)
    assert not {"network", "capabilities", "not_root"} & set(facts.lacks)
    with pytest.raises(SandboxError) as raised:
        await choose_sandbox("container", image=IMAGE)
    assert f"{engine}: lacks memory" in raised.value.why
    outcome = await (await choose_sandbox(engine, image=IMAGE)).run(job_of(tmp_path, "exit 3", image=IMAGE))
    assert outcome.exit_code == 3


@pytest.mark.container
async def test_an_image_that_is_not_here_is_the_sandbox_s_trouble_and_named() -> None:
    with pytest.raises(SandboxError, match="localhost/no-such-image:1"):
        await ContainerSandbox(container_engine()).facts("localhost/no-such-image:1")


@pytest.mark.machine
async def test_a_chooser_looks_once_for_many_runs(no_engine: Path) -> None:
    need_program("bwrap", how="apt-get install bubblewrap")
    chooser = SandboxChooser("auto")
    assert await chooser(IMAGE) is await chooser(IMAGE)


def test_a_container_of_a_living_owner_is_not_stale_and_one_past_its_time_is() -> None:
    mine = labels(lives_s=60.0, label="x")
    assert is_stale(mine) is False
    assert is_stale({**mine, "pm-orchestrator.deadline": "1"}) is True
    assert is_stale({}) is True


def test_a_dead_owner_is_told_here_and_left_to_its_deadline_elsewhere() -> None:
    mine = labels(lives_s=60.0, label="x")
    boot, namespace, pid, _ = mine["pm-orchestrator.owner"].split("/")
    assert is_stale({**mine, "pm-orchestrator.owner": f"{boot}/{namespace}/{pid}/1"}) is True  # the id was used again
    assert is_stale({**mine, "pm-orchestrator.owner": f"{boot}/{namespace}/4194304/1"}) is True
    assert is_stale({**mine, "pm-orchestrator.owner": f"{boot}/pid:[1]/{pid}/1"}) is False
    assert is_stale({**mine, "pm-orchestrator.owner": f"other/{namespace}/{pid}/1"}) is False
