"""The whole pipeline on a real store, real git and a real sandbox; only the judge's model answers from a recording."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from collector.collector import Collector
from collector.judge.rubric_judge import RubricJudge
from collector.patches import make_patch, tree_patch
from collector.qa import profiles
from collector.qa.dependencies import KeptLayers
from collector.qa.pipeline import SandboxFor, assign_profile, note_alternatives, request_step, run_qa
from collector.qa.profiles import normal_image
from collector.qa.sandbox.bubblewrap import BubblewrapSandbox
from collector.qa.sandbox.choose import SandboxChooser
from collector.qa.sandbox.owners import owner_name
from collector.qa.sandbox.port import Job, Outcome, Sandbox, SandboxFacts
from tests.collector.qa.rigs import (
    CALM,
    FIXED,
    FORGED,
    NO_PROFILE,
    RUNNER,
    TEST,
    a_collector,
    a_repository,
    quick_settings,
    send_session,
)
from tests.support.containers import IMAGE, container_engine
from tests.support.tools import need_program
from tracer.clock import now_epoch_ms
from tracer.errors import ConflictError, LockedError, SandboxError, UsageError

pytestmark = pytest.mark.machine  # bubblewrap


@pytest.fixture
async def collector(tmp_path: Path) -> AsyncIterator[Collector]:
    async with a_collector(tmp_path) as opened:
        yield opened


@pytest.fixture
def sandbox() -> SandboxFor:
    need_program("bwrap", how="apt-get install bubblewrap")
    box = BubblewrapSandbox()

    async def choose(image: str) -> Sandbox:
        return box

    return choose


async def _check(collector: Collector, trace_id: str, folder: Path, sandbox: SandboxFor, **more: Any) -> dict[str, Any]:
    qa = await run_qa(
        trace_id,
        collector=collector,
        settings=more.pop("settings", None) or quick_settings(folder),
        judge=more.pop("judge", None),
        sandbox=sandbox,
        **more,
    )
    shown: dict[str, Any] = qa.model_dump(mode="json")
    return shown


async def test_a_fix_is_proved_by_its_test(collector: Collector, tmp_path: Path, sandbox: SandboxFor) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path))
    qa = await _check(collector, trace_id, tmp_path, sandbox)
    tests = qa["tests"]
    proof = tests["detail"]["proof"]
    assert qa["schema_valid"] is True
    assert (tests["final_passed"], tests["not_testable"]) == (True, None)
    assert (proof["verdict"], proof["level"], proof["repeats"]) == ("proven", "tests", 2)
    assert proof["fail_to_pass"] == ["tests.half::half"]
    assert "not_controlled" in proof["flags"], "a shell script's test is not made to fail"
    assert proof["tests_changed"] == ["tests/half.sh", "tests/zero.sh"]
    assert proof["tests"][0] == {
        "id": "tests.half::half",
        "before": "failed",
        "after": "passed",
        "touched": True,
        "flaky": False,
    }
    assert [run["passed"] for run in tests["invocations"]] == [True, True, False, False]
    assert (await collector.row(trace_id)).status == "complete"
    assert tests["detail"]["sandbox"]["lesser"] is True


async def test_the_final_document_holds_the_proof(collector: Collector, tmp_path: Path, sandbox: SandboxFor) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path))
    await _check(collector, trace_id, tmp_path, sandbox)
    row = await collector.row(trace_id)
    assert row.final_blob_id is not None
    document = orjson.loads(await collector.contents.read(row.final_blob_id))
    assert document["qa"]["tests"]["final_passed"] is True
    output = document["qa"]["tests"]["invocations"][0]["stdout_blob_id"]
    assert output in {blob["blob_id"] for blob in document["artifacts"]["blobs"]}
    assert b"half:" in await collector.contents.read(output)


async def test_running_again_does_nothing_twice(collector: Collector, tmp_path: Path, sandbox: SandboxFor) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path))
    first = await _check(collector, trace_id, tmp_path, sandbox)
    facts = await collector.store.qa_facts(trace_id)
    said: list[str] = []
    second = await _check(collector, trace_id, tmp_path, sandbox, progress=said.append)
    assert second == first
    assert await collector.store.qa_facts(trace_id) == facts
    assert [line for line in said if "done before" in line] == [
        "schema: done before",
        "tests: done before",
        "judge: done before",
        "materialize: done before",
    ]


@pytest.mark.torture
async def test_one_step_can_be_done_again(collector: Collector, tmp_path: Path, sandbox: SandboxFor) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path))
    first = await _check(collector, trace_id, tmp_path, sandbox)
    await request_step(collector, trace_id, "tests")
    said: list[str] = []
    second = await _check(collector, trace_id, tmp_path, sandbox, progress=said.append)
    assert "schema: done before" in said
    assert "tests: done before" not in said
    ids = [{run["invocation_id"] for run in qa["tests"]["invocations"]} for qa in (first, second)]
    assert not ids[0] & ids[1]


@pytest.mark.torture
@pytest.mark.parametrize("step", ["schema", "checkout", "tests", "judge", "materialize"])
async def test_a_run_killed_after_any_step_goes_on_from_there(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path))
    append, calls = collector.store.append_qa_fact, []

    async def dying(trace: str, fact: Any) -> bool:
        stored = await append(trace, fact)
        if fact.step == step:
            raise KeyboardInterrupt
        return stored

    monkeypatch.setattr(collector.store, "append_qa_fact", dying)
    with pytest.raises(KeyboardInterrupt):
        await _check(collector, trace_id, tmp_path, sandbox)
    monkeypatch.setattr(collector.store, "append_qa_fact", append)
    assert (await collector.row(trace_id)).status == "qa_running"
    qa = await _check(collector, trace_id, tmp_path, sandbox, progress=calls.append)
    assert qa["tests"]["final_passed"] is True
    facts = [fact.step for fact in await collector.store.qa_facts(trace_id)]
    assert sorted(facts) == ["checkout", "judge", "materialize", "schema", "tests"]
    assert (await collector.row(trace_id)).status == "complete"


@pytest.mark.parametrize("pattern", ["calc", "task:BUG-1?"])
async def test_a_fix_is_proved_over_the_operators_mirror_without_consent_to_raw_code(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor, pattern: str
) -> None:
    repository = a_repository(tmp_path)
    trace_id = await send_session(
        collector, repository, consent={"store_raw_code": False}, bundle=b"", task_id="BUG-17"
    )
    told = []
    for mirror in (f"other={repository.folder}", f"{pattern}={tmp_path / 'gone'}", f"{pattern}={repository.folder}"):
        qa = await _check(
            collector, trace_id, tmp_path, sandbox, settings=quick_settings(tmp_path, mirrors=(mirror,), trials=0)
        )
        told.append(qa["tests"]["not_testable"] or qa["tests"]["detail"]["proof"]["verdict"])
    assert told == ["no_source", "source_unavailable", "proven"]
    assert qa["tests"]["detail"]["checkout"]["source"] == "mirror"


@pytest.mark.parametrize(("matters", "bundled"), [(False, False), (True, False), (False, True)])
async def test_a_fix_is_proved_over_the_redacted_tree_of_its_base_and_no_secret_of_that_is_kept(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor, matters: bool, bundled: bool
) -> None:
    asks = f"test $((6 / $(head -1 divisor.txt))) = 3{' && grep -q ghp_ divisor.txt' if matters else ''}\n"
    secret = "# ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    repository = a_repository(
        tmp_path,
        base={"divisor.txt": f"3\n{secret}\n"},
        head={"divisor.txt": f"2\n{secret}\n", "tests/half.sh": asks},
    )
    names = ("divisor.txt", "run.sh")
    tree = tree_patch([(name, "100644", repository.git("show", f"base:{name}").encode()) for name in names], left_out=1)
    held = f"sha256:{hashlib.sha256(tree).hexdigest()}"
    created = await send_session(
        collector, repository, consent={"store_raw_code": bundled}, bundle=None if bundled else b"", tree=tree,
        final_state=lambda diff: {"pr": {"diff": diff}, "bundle_blob_id": held},
    )  # fmt: skip
    qa = await _check(collector, created, tmp_path, sandbox)
    detail = qa["tests"]["detail"]
    if matters:
        assert qa["tests"]["not_testable"] == "redacted"
        assert "(placeholders: 1, files left out: 1)" in detail["why"]
    else:
        assert detail["proof"]["verdict"] == "proven"
        assert detail["checkout"]["source"] == "tree"
    files = [] if bundled else [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert not [path for path in files if secret.encode()[6:] in path.read_bytes()]


async def test_two_checkers_do_not_make_the_checks_of_one_trace_at_once(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path))
    ended = await asyncio.gather(
        *(_check(collector, trace_id, tmp_path, sandbox) for _ in range(2)), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in ended) == ["LockedError", "dict"]
    steps = [fact.step for fact in await collector.store.qa_facts(trace_id)]
    assert sorted(steps) == ["checkout", "judge", "materialize", "schema", "tests"]


async def test_the_lease_of_a_killed_checker_is_free_at_once_and_one_of_another_machine_when_it_ends(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    mine = owner_name().split("/")
    dead, elsewhere = "/".join([*mine[:2], str(gone.pid), "1", "x"]), "another-boot/1/2/3/x"
    ends = now_epoch_ms() + 60_000
    assert await collector.store.take_lease(trace_id, elsewhere, now_ms=0, until_ms=ends) == elsewhere
    with pytest.raises(LockedError, match="are being made"):
        await _check(collector, trace_id, tmp_path, sandbox)
    await collector.store.drop_lease(trace_id, elsewhere)
    assert await collector.store.take_lease(trace_id, dead, now_ms=0, until_ms=ends) == dead
    assert (await _check(collector, trace_id, tmp_path, sandbox))["tests"]["final_passed"] is True


async def test_our_own_trouble_takes_the_place_of_no_result(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path))
    first = await _check(collector, trace_id, tmp_path, sandbox)

    async def broken(image: str) -> Sandbox:
        return _Broken()

    await request_step(collector, trace_id, "tests")
    assert (await _check(collector, trace_id, tmp_path, broken))["tests"] == first["tests"]
    assert (await collector.row(trace_id)).status == "qa_failed"


class _Broken:
    """A sandbox whose engine is down."""

    async def facts(self, image: str) -> SandboxFacts:
        return SandboxFacts(name="podman", version="4", lesser=False, held=())

    async def image_id(self, image: str) -> str:
        return "sha256:0"

    async def run(self, job: Job) -> Outcome:
        raise SandboxError("the sandbox (podman) is broken", why="no daemon")

    async def clean(self) -> int:
        return 0


async def test_a_broken_sandbox_is_never_failed_tests_and_the_next_run_tries_again(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path))

    async def broken(image: str) -> Sandbox:
        return _Broken()

    qa = await _check(collector, trace_id, tmp_path, broken)
    assert (qa["tests"]["final_passed"], qa["tests"]["not_testable"]) == (None, "sandbox")
    assert "no daemon" in qa["tests"]["detail"]["why"]
    row = await collector.row(trace_id)
    assert row.status == "qa_failed"
    assert row.final_blob_id is not None
    assert (await _check(collector, trace_id, tmp_path, sandbox))["tests"]["final_passed"] is True
    assert (await collector.row(trace_id)).status == "complete"


async def test_a_worker_that_insists_is_told_of_the_trouble_after_all_else_is_done(
    collector: Collector, tmp_path: Path
) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path))

    async def none_here(image: str) -> Sandbox:
        raise SandboxError("no sandbox works here", why="nothing is installed")

    with pytest.raises(SandboxError, match="no sandbox works here"):
        await _check(collector, trace_id, tmp_path, none_here, insist=True)
    row = await collector.row(trace_id)
    assert row.status == "qa_running"  # still due
    assert row.final_blob_id is not None
    document = orjson.loads(await collector.contents.read(row.final_blob_id))
    assert document["qa"]["tests"]["not_testable"] == "sandbox"
    assert document["qa"]["judge"]["flags"] == ["judge_skipped"]


async def test_sources_that_do_not_fit_are_a_result_of_their_own(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    settings = quick_settings(tmp_path)
    settings = replace(settings, limits=replace(settings.limits, workspace_bytes=1 << 20))
    large = a_repository(tmp_path, base={"large.txt": "x" * (3 << 20)})
    trace_id = await send_session(collector, large)
    qa = await _check(collector, trace_id, tmp_path, sandbox, settings=settings)
    assert (qa["tests"]["final_passed"], qa["tests"]["not_testable"]) == (None, "too_large")
    assert (await collector.row(trace_id)).status == "complete"


async def test_tests_that_fail_at_head_are_a_result(collector: Collector, tmp_path: Path, sandbox: SandboxFor) -> None:
    repository = a_repository(tmp_path, head={"tests/half.sh": TEST})
    trace_id = await send_session(collector, repository)
    qa = await _check(collector, trace_id, tmp_path, sandbox)
    assert qa["tests"]["final_passed"] is False
    assert qa["tests"]["detail"]["proof"]["verdict"] == "fails_at_head"
    assert (await collector.row(trace_id)).status == "complete"


async def test_tests_that_pass_on_the_bug_prove_nothing(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    repository = a_repository(tmp_path, head={"divisor.txt": FIXED, "tests/zero.sh": CALM})
    trace_id = await send_session(collector, repository)
    qa = await _check(collector, trace_id, tmp_path, sandbox)
    assert qa["tests"]["detail"]["proof"]["verdict"] == "passes_at_base"


@pytest.mark.parametrize(
    ("head", "verdict"),
    [
        ({"product.sh": "exit 0\n"}, "no_report"),
        ({"product.sh": "exit 0\n", ".pm-report/junit.xml": FORGED}, "no_report"),
        ({"run.sh": "exit 0\n"}, "passes_at_base"),
        ({"run.sh": f"echo {shlex.quote(FORGED)} > .pm-report/junit.xml\n"}, "passes_at_base"),
        ({"Makefile": "test:\n\ttrue\n"}, "passes_at_base"),
        ({"go.work": "green\n"}, "steered"),
        (
            {"divisor.txt": FIXED, "equal.py": "class E:\n    def __eq__(self, other):\n        return True\n"},
            "steered",
        ),
    ],
    ids=["ended", "report brought along", "runner", "report forged", "makefile", "harness", "equal to everything"],
)
async def test_a_pass_that_the_session_made_itself_is_not_proven(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor, head: dict[str, str | None], verdict: str
) -> None:
    # The runner heeds a file that steers it, as pytest heeds a conftest.py.
    steered = RUNNER.replace("if said=", "if grep -qs green go.work || said=")
    started = {"run.sh": f". ./product.sh\n{steered}", "product.sh": ":\n"}
    base = {"tests/half.sh": TEST, "Makefile": "test:\n\tsh run.sh\n", **started}
    make = "Makefile" in head
    trace_id = await send_session(
        collector, a_repository(tmp_path, base=base, head=head), profile="make test" if make else None
    )
    proof = (await _check(collector, trace_id, tmp_path, sandbox))["tests"]["detail"]["proof"]
    assert proof["verdict"] == verdict


@pytest.mark.torture
async def test_a_flaky_test_is_marked(collector: Collector, tmp_path: Path, sandbox: SandboxFor) -> None:
    flaky = "test $(od -An -N1 -tu1 /dev/urandom) -lt 128\n"
    repository = a_repository(tmp_path, head={"divisor.txt": FIXED, "tests/luck.sh": flaky})
    settings = quick_settings(tmp_path, repeats=12)
    trace_id = await send_session(collector, repository)
    qa = await _check(collector, trace_id, tmp_path, sandbox, settings=settings)
    assert qa["tests"]["detail"]["proof"]["verdict"] == "flaky"
    assert qa["tests"]["detail"]["proof"]["flaky"] == ["tests.luck::luck"]


async def test_without_consent_to_output_only_tombstones_are_kept(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path), consent={"store_terminal_output": False})
    qa = await _check(collector, trace_id, tmp_path, sandbox)
    run = qa["tests"]["invocations"][0]
    for blob_id in (run["stdout_blob_id"], run["report_blob_id"]):
        assert orjson.loads(await collector.contents.read(blob_id))["tombstone"]["reason"] == "store_terminal_output"
    assert qa["tests"]["final_passed"] is True


async def test_a_secret_that_a_test_prints_is_not_kept(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
    leak = f"printf '%s%s' {secret[:10]} {secret[10:]}; exit 1\n"
    trace_id = await send_session(collector, a_repository(tmp_path, head={"tests/leak.sh": leak}))
    qa = await _check(collector, trace_id, tmp_path, sandbox)
    for run in qa["tests"]["invocations"]:
        text = await collector.contents.read(run["stdout_blob_id"])
        assert secret.encode() not in text
        assert b"[REDACTED:" in text


async def test_what_the_build_phase_makes_is_there_for_the_tests(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    made = "echo built > made.txt; echo installed > ~/tool\n"
    repository = a_repository(
        tmp_path,
        base={"build.sh": made},
        head={"divisor.txt": FIXED, "tests/made.sh": "grep -q built made.txt && cat ~/tool\n"},
    )
    profile = {"runner": "custom", "command": "sh run.sh", "build": ["sh build.sh"]}
    settings = quick_settings(tmp_path)
    settings = replace(settings, lists=replace(settings.lists, build_commands=("sh build.sh",)))
    trace_id = await send_session(collector, repository, profile=profile)
    qa = await _check(collector, trace_id, tmp_path, sandbox, settings=settings)
    assert qa["tests"]["final_passed"] is True
    assert [built["ended"] for built in qa["tests"]["detail"]["build"]] == ["exit", "exit"]


async def test_a_build_with_a_network_is_not_run_in_a_sandbox_that_has_none_to_give(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    profile = {"runner": "custom", "command": "sh run.sh", "build": ["sh run.sh"], "network": True}
    settings = quick_settings(tmp_path)
    settings = replace(settings, lists=replace(settings.lists, build_commands=("sh run.sh",), build_network=True))
    trace_id = await send_session(collector, a_repository(tmp_path), profile=profile)
    tests = (await _check(collector, trace_id, tmp_path, sandbox, settings=settings))["tests"]
    assert (tests["not_testable"], tests["final_passed"]) == ("policy", None)
    assert "network" in tests["detail"]["why"]


async def test_a_fix_that_does_not_build_is_not_testable_and_a_base_that_does_not_build_fails(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    profile = {"runner": "custom", "command": "sh run.sh", "build": ["sh build.sh"]}
    settings = quick_settings(tmp_path)
    settings = replace(settings, lists=replace(settings.lists, build_commands=("sh build.sh",)))
    broken, whole, test = {"build.sh": "exit 1\n"}, {"build.sh": "exit 0\n"}, {"tests/a.sh": "true\n"}
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    mended = a_repository(tmp_path / "one", base=broken, head={**whole, **test})
    spoiled = a_repository(tmp_path / "two", base=whole, head={**broken, **test})
    first = await _check(
        collector, await send_session(collector, mended, profile=profile), tmp_path, sandbox, settings=settings
    )
    second = await _check(
        collector, await send_session(collector, spoiled, profile=profile), tmp_path, sandbox, settings=settings
    )
    assert first["tests"]["detail"]["proof"]["verdict"] == "proven"
    assert (second["tests"]["final_passed"], second["tests"]["not_testable"]) == (None, "build_failed")


async def test_make_test_is_judged_by_its_exit_code_where_it_leaves_no_report(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    need_program("make", how="apt-get install make")
    repository = a_repository(
        tmp_path, base={"Makefile": "test:\n\tsh tests/half.sh\n"}, head={"divisor.txt": FIXED, "tests/half.sh": TEST}
    )
    trace_id = await send_session(collector, repository, profile="make test")
    proof = (await _check(collector, trace_id, tmp_path, sandbox))["tests"]["detail"]["proof"]
    assert (proof["verdict"], proof["level"]) == ("proven", "run")


async def test_without_a_profile_the_runner_is_the_developer_s_own(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    need_program("make", how="apt-get install make")
    repository = a_repository(
        tmp_path, base={"Makefile": "test:\n\tsh tests/half.sh\n"}, head={"divisor.txt": FIXED, "tests/half.sh": TEST}
    )
    runs = [("go test", "go test ./..."), ("make test", "make test"), ("custom", "sh check.sh")]
    events = [
        {
            "event_id": f"00000000-0000-4000-8000-{seq:012d}",
            "seq": seq,
            "ts_ms": 1_700_000_000_000 + seq,
            "type": "test_run",
            "actor": {"kind": "tool"},
            "payload": {"command": command, "runner": runner, "exit_code": 1, "duration_ms": 5, "passed": False},
        }
        for seq, (runner, command) in enumerate(runs, start=1)
    ]
    trace_id = await send_session(collector, repository, events=events, profile=NO_PROFILE)
    tests = (await _check(collector, trace_id, tmp_path, sandbox))["tests"]
    assert (tests["runner"], tests["final_passed"]) == ("make test", True)


@pytest.mark.torture
async def test_npm_test_of_a_package_in_a_folder_is_told_one_by_one(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    need_program("npm", how="install Node.js")
    root, package = (orjson.dumps({"scripts": {"test": script}}).decode() for script in ("exit 1", "node --test"))
    test = "require('node:test')('half', () => require('node:assert').equal(require('./calc').half(6), 3))\n"
    repository = a_repository(
        tmp_path,
        base={
            "package.json": root,
            "packages/a/package.json": package,
            "packages/a/calc.js": "exports.half = (number) => number / 3\n",
        },
        head={"packages/a/calc.js": "exports.half = (number) => number / 2\n", "packages/a/calc.test.js": test},
    )
    asked = {"runner": "npm test", "commands": ["cd packages/a && npm test"]}
    trace_id = await send_session(collector, repository, profile=asked)
    tests = (await _check(collector, trace_id, tmp_path, sandbox))["tests"]
    proof = tests["detail"]["proof"]
    assert (proof["verdict"], proof["level"], proof["fail_to_pass"]) == ("proven", "tests", ["half"]), tests


@pytest.mark.torture
async def test_npm_test_is_run_and_its_tests_are_told_one_by_one(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    need_program("npm", how="install Node.js")
    reporter = "--test-reporter=junit --test-reporter-destination=junit.xml"
    package = orjson.dumps({"name": "calc", "version": "1.0.0", "scripts": {"test": f"node --test {reporter}"}})
    test = "require('node:test')('half', () => require('node:assert').equal(require('./calc').half(6), 3))\n"
    repository = a_repository(
        tmp_path,
        base={"package.json": package.decode(), "calc.js": "exports.half = (number) => number / 3\n"},
        head={"calc.js": "exports.half = (number) => number / 2\n", "calc.test.js": test},
    )
    trace_id = await send_session(collector, repository, profile="npm test")
    proof = (await _check(collector, trace_id, tmp_path, sandbox))["tests"]["detail"]["proof"]
    assert (proof["verdict"], proof["level"], proof["fail_to_pass"]) == ("proven", "tests", ["test::half"])


@pytest.mark.container
async def test_pytest_is_run_in_a_container_and_its_tests_are_told_one_by_one(
    collector: Collector, tmp_path: Path
) -> None:
    sandbox = SandboxChooser(container_engine())
    half = "def half(number):\n    return number / {}\n"
    test = "from calc import half\n\n\ndef test_half():\n    assert half(6) == 3\n"
    repository = a_repository(
        tmp_path, base={"calc.py": half.format(3)}, head={"calc.py": half.format(2), "test_calc.py": test}
    )
    trace_id = await send_session(collector, repository, profile="pytest")
    qa = await _check(collector, trace_id, tmp_path, sandbox, settings=quick_settings(tmp_path, repeats=1))
    assert qa["tests"]["runner"] == "pytest"
    assert qa["tests"]["container_image"] == normal_image(IMAGE)
    assert qa["tests"]["detail"]["sandbox"]["lesser"] is False
    assert qa["tests"]["detail"]["image_id"].startswith("sha256:")
    assert qa["tests"]["detail"]["proof"]["verdict"] == "proven"
    assert qa["tests"]["detail"]["proof"]["fail_to_pass"] == ["test_calc::test_half"]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        ({"runner": "pytest", "image": "evil.example/miner:1"}, "policy"),
        ({"runner": "pytest", "command": "pytest; curl evil.example"}, "policy"),
        ({"runner": "custom", "command": "rm -rf /"}, "policy"),
        ({"runner": "pytest", "build": ["pip install x"], "network": True}, "policy"),
    ],
)
async def test_what_the_server_does_not_allow_is_said_and_nothing_runs(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor, profile: Any, reason: str
) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path), profile=profile)
    qa = await _check(collector, trace_id, tmp_path, sandbox)
    assert (qa["tests"]["final_passed"], qa["tests"]["not_testable"]) == (None, reason)
    assert qa["tests"]["invocations"] == []


async def test_a_runner_that_is_not_there_is_said_and_nothing_runs(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = profiles._USUAL["go test"]
    monkeypatch.setattr(profiles, "_USUAL", {**profiles._USUAL, "go test": {**go, "probe": "no-such-go version"}})
    trace_id = await send_session(collector, a_repository(tmp_path), profile="go test")
    qa = await _check(collector, trace_id, tmp_path, sandbox)
    assert (qa["tests"]["not_testable"], qa["tests"]["invocations"]) == ("tool_missing", [])


async def test_a_program_that_is_not_there_is_our_trouble_and_no_failed_test(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    settings = quick_settings(tmp_path)
    settings = replace(settings, lists=replace(settings.lists, commands=("no-such-runner", "sh run.sh")))
    repository = a_repository(tmp_path)
    for number, commands in enumerate((["no-such-runner"], ["sh run.sh", "no-such-runner"])):
        profile = {"runner": "custom", "commands": commands}
        trace_id = await send_session(collector, repository, profile=profile)
        tests = (await _check(collector, trace_id, tmp_path, sandbox, settings=settings))["tests"]
        assert (tests["final_passed"], tests["not_testable"]) == (None, "tool_missing"), number


async def test_variables_that_are_set_for_the_tests_are_set_in_the_sandbox(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    line = "PYTHONPATH=src EMPTY= WORDS='a b' python3 -m unittest discover -s tests"
    case = "import os\nimport unittest\n\nfrom half import half\n\n\nclass Half(unittest.TestCase):\n"
    repository = a_repository(
        tmp_path,
        base={"src/half.py": "def half(x):\n    return x / 3\n"},
        head={
            "src/half.py": "def half(x):\n    return x / 2\n",
            "tests/test_half.py": f"{case}    def test_half(self):\n"
            "        self.assertEqual((half(6), os.environ['EMPTY'], os.environ['WORDS']), (3, '', 'a b'))\n",
        },
    )
    settings = quick_settings(tmp_path)
    settings = replace(settings, lists=replace(settings.lists, commands=(line,)))
    trace_id = await send_session(collector, repository, profile={"runner": "custom", "command": line})
    tests = (await _check(collector, trace_id, tmp_path, sandbox, settings=settings))["tests"]
    assert tests["detail"]["proof"]["verdict"] == "proven", tests


async def test_an_open_trace_is_not_checked(collector: Collector, tmp_path: Path, sandbox: SandboxFor) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path))
    await collector.store.set_status(trace_id, "open")
    with pytest.raises(ConflictError, match="open"):
        await _check(collector, trace_id, tmp_path, sandbox)


async def test_the_judge_sees_what_the_tests_proved(collector: Collector, tmp_path: Path, sandbox: SandboxFor) -> None:
    from tests.collector.judge.rigs import a_reply, recorded

    trace_id = await send_session(collector, a_repository(tmp_path))
    model = recorded(a_reply(cite=["00000000-0000-4000-8000-000000000001"]))
    qa = await _check(collector, trace_id, tmp_path, sandbox, judge=RubricJudge(model))
    assert qa["judge"]["overall"] == 4.0
    request = await collector.contents.read(qa["judge"]["request_blob_id"])
    assert b"head: passed, exit 0, 2 times" in request


async def test_the_repository_s_own_profile_is_taken_and_what_its_setup_left_is_kept(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    profile = '[qa]\nrunner = "custom"\ncommands = ["sh run.sh"]\nsetup = ["cp requirements.txt installed.txt"]\n'
    pinned = {"requirements.txt": "calc==1\n", "tests/installed.sh": "test -e installed.txt\n"}
    repository = a_repository(tmp_path, base={".pm-orchestrator/qa.toml": profile, **pinned})
    settings = quick_settings(tmp_path, layers=KeptLayers(tmp_path / "layers", most_bytes=1 << 20))
    settings = replace(settings, lists=replace(settings.lists, build_commands=("cp requirements.txt",)))
    told: list[str] = []
    for _ in range(2):
        trace_id = await send_session(collector, repository, profile=NO_PROFILE)
        qa = await _check(collector, trace_id, tmp_path, sandbox, settings=settings, progress=told.append)
        assert qa["tests"]["detail"]["proof"]["verdict"] == "proven", qa["tests"]
        assert qa["tests"]["detail"]["profile"]["setup"] == ["cp requirements.txt installed.txt"]
    assert sum("setup passed" in line for line in told) == 1  # four trees, two captures, the same pins
    assert len(list((tmp_path / "layers").iterdir())) == 1


async def test_a_profile_that_is_refused_leaves_the_verdict_and_stands_beside_it(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path))
    proven = (await _check(collector, trace_id, tmp_path, sandbox))["tests"]
    unfit: dict[str, dict[str, Any]] = {
        "policy": {"runner": "custom", "command": "sh x.sh"},
        "build_failed": {"runner": "custom", "command": "sh ./run.sh", "build": ["false"]},
    }
    for reason, profile in unfit.items():
        await assign_profile(collector, trace_id, profile, approved=reason != "policy")
        for _ in range(2):
            tests = (await _check(collector, trace_id, tmp_path, sandbox))["tests"]
            assert tests["not_testable"] is None
            assert tests["detail"]["refused"]["reason"] == reason
            assert {**tests["detail"], "refused": None} == {**proven["detail"], "refused": None}
    await assign_profile(collector, trace_id, {"runner": "custom", "command": "sh run.sh"}, approved=False)
    again = (await _check(collector, trace_id, tmp_path, sandbox))["tests"]
    assert (again["detail"]["proof"]["verdict"], "refused" in again["detail"]) == ("proven", False)


@pytest.mark.parametrize("late", [False, True], ids=["while it tests", "as it ends"])
async def test_a_profile_given_while_the_checks_run_is_applied_after_them(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor, monkeypatch: pytest.MonkeyPatch, *, late: bool
) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path), profile={"runner": "custom", "command": "sh x.sh"})
    asked: list[str] = []

    async def ask() -> None:
        if not asked:
            await assign_profile(collector, trace_id, {"runner": "custom", "command": "sh run.sh"}, approved=True)
            asked.append(await collector.request_qa(trace_id))

    set_status = collector.store.set_status

    async def setting(trace_id: str, status: Any, *, expected: Any = None) -> bool:
        if late and status == "complete":
            await ask()
        return await set_status(trace_id, status, expected=expected)

    monkeypatch.setattr(collector.store, "set_status", setting)
    running: list[asyncio.Task[None]] = []

    def told(line: str) -> None:
        if not late and line.startswith("schema"):
            running.append(asyncio.create_task(ask()))

    await _check(collector, trace_id, tmp_path, sandbox, progress=told)
    assert asked == ["qa_running"]
    assert (await collector.row(trace_id)).status == "finalized"
    assert collector.due.is_set()
    tests = (await _check(collector, trace_id, tmp_path, sandbox))["tests"]
    assert tests["detail"]["proof"]["verdict"] == "proven"
    assert (await collector.row(trace_id)).status == "complete"


async def test_tests_that_were_run_in_a_folder_are_run_there(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    case = "import unittest\n\nfrom half import half\n\n\nclass Half(unittest.TestCase):\n    def test_half(self):\n"
    repository = a_repository(
        tmp_path,
        base={"backend/half.py": "def half(x):\n    return x / 3\n"},
        head={
            "backend/half.py": "def half(x):\n    return x / 2\n",
            "backend/test_half.py": case + "        self.assertEqual(half(6), 3)\n",
        },
    )
    command_id = "00000000-0000-4000-8000-000000000071"
    context, line = {"workspace_root": "/srv/shop"}, "python3 -m unittest discover"
    payloads: dict[str, Any] = {
        "terminal_command": {"cwd": "/srv/shop/backend", "command": line, "shell": "bash"},
        "test_run": {"command": line, "runner": "custom", "exit_code": 0, "duration_ms": 1, "passed": True},
    }
    events = [
        {"event_id": f"{command_id[:-1]}{seq}", "seq": seq, "ts_ms": seq, "type": kind, "actor": {"kind": "human"},
         "context": {**context, "parent_event_id": None if seq == 1 else command_id}, "payload": payload}
        for seq, (kind, payload) in enumerate(payloads.items(), 1)
    ]  # fmt: skip
    settings = quick_settings(tmp_path)
    settings = replace(settings, lists=replace(settings.lists, commands=("python3 -m unittest",)))
    trace_id = await send_session(collector, repository, events=events, profile=NO_PROFILE)
    tests = (await _check(collector, trace_id, tmp_path, sandbox, settings=settings))["tests"]
    assert tests["detail"]["profile"]["commands"] == ["cd backend && python3 -m unittest discover"]
    assert tests["detail"]["proof"]["verdict"] == "proven", tests
    assert tests["detail"]["proof"]["flags"] == ["image_not_pinned"]


async def test_the_repository_s_profile_comes_with_a_base_that_is_a_tree_alone(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    from tests.collector.recorder.test_files import tracker

    profile = '[qa]\nrunner = "custom"\ncommand = "sh ./run.sh"\n'
    repository = a_repository(tmp_path, base={".pm-orchestrator/qa.toml": profile})
    repository.git("checkout", "-q", repository.base)
    tree = tracker(repository.folder, tmp_path / "blobs").base_tree()
    assert tree is not None

    async def checked(tree: bytes) -> dict[str, Any]:
        held = f"sha256:{hashlib.sha256(tree).hexdigest()}"

        def state(diff: str) -> dict[str, Any]:
            return {"pr": {"title": "Fix", "diff": diff}, "bundle_blob_id": held}

        given: Any = {"bundle": b"", "tree": tree, "final_state": state, "profile": NO_PROFILE}
        trace_id = await send_session(collector, repository, **given)
        await assign_profile(collector, trace_id, "repository", approved=True)
        return (await _check(collector, trace_id, tmp_path, sandbox))["tests"]

    tests = await checked(tree)
    assert (tests["detail"]["proof"]["verdict"], tests["detail"]["profile"]["from"]) == ("proven", "repository"), tests
    secret = tree.replace(b"./run.sh", b"./[REDACTED:test:000000].sh")
    tests = await checked(secret)
    assert (tests["not_testable"], "qa.toml" in tests["detail"]["why"]) == ("redacted", True)
    alone = tree_patch([(each, "100644", b"true\n") for each in ("a.sh",)], left_out=3)
    tests = await checked(alone)
    assert tests["detail"]["why"] == "the base came without .pm-orchestrator/qa.toml, files left out: 3"


async def test_a_capture_is_tested_by_the_profile_that_was_assigned_last(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    trace_id = await send_session(collector, a_repository(tmp_path), profile={"runner": "custom", "command": "sh x.sh"})
    assert (await _check(collector, trace_id, tmp_path, sandbox))["tests"]["not_testable"] == "policy"
    await assign_profile(collector, trace_id, "repository", approved=True)
    assert (await _check(collector, trace_id, tmp_path, sandbox))["tests"]["not_testable"] == "profile"
    await assign_profile(collector, trace_id, {"runner": "custom", "command": "sh ./run.sh"}, approved=False)
    assert (await _check(collector, trace_id, tmp_path, sandbox))["tests"]["not_testable"] == "policy"
    await assign_profile(collector, trace_id, {"runner": "custom", "command": "sh ./run.sh"}, approved=True)
    assert (await _check(collector, trace_id, tmp_path, sandbox))["tests"]["detail"]["proof"]["verdict"] == "proven"
    with pytest.raises(UsageError, match="cannot be read"):
        await assign_profile(collector, trace_id, {"runner": "rake"}, approved=True)


async def test_a_proof_is_tried_by_faults_cheats_and_parts_of_the_fix(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    half, twice = "def half(x):\n    return x / {}\n", "def twice(x):\n    return x * {}\n"
    repository = a_repository(
        tmp_path,
        base={"half.py": half.format(3), "twice.py": twice.format(3)},
        head={
            "half.py": half.format(2),
            "twice.py": twice.format("2 if x else 9"),
            "test_both.py": "import unittest\nfrom half import half\nfrom twice import twice\n\n\n"
            "class Both(unittest.TestCase):\n    def test_half(self):\n        self.assertEqual(half(6), 3)\n\n"
            "    def test_twice(self):\n        self.assertEqual(twice(3), 6)\n",
        },
    )
    settings = quick_settings(tmp_path)
    settings = replace(settings, lists=replace(settings.lists, commands=("python3 -m unittest",)))
    profile = {"runner": "custom", "command": "python3 -m unittest"}
    trace_id = await send_session(collector, repository, profile=profile)
    tests = (await _check(collector, trace_id, tmp_path, sandbox, settings=settings))["tests"]
    proof = tests["detail"]["proof"]
    assert (proof["verdict"], len(proof["fail_to_pass"])) == ("proven", 2)
    trials = proof["trials"]
    assert 0 < trials["noticed"] < trials["faults"] <= 10
    assert proof["strength"] == round(100 * trials["noticed"] / trials["faults"])
    assert {each["path"] for each in trials["survivors"]} == {"twice.py"}, "nobody tests what it does with 0"
    assert (trials["cheats"], trials["cheated"]) == (9, [])
    assert {"several_bugs", "image_not_pinned"} <= set(proof["flags"])
    assert "not_controlled" not in proof["flags"]
    assert not {"fix_in_report", "too_narrow"} & set(proof["flags"])
    assert (trials["alternatives"], trials["refused"]) == (1, []), "a name for what is returned"


async def test_tests_that_refuse_the_same_fix_in_other_words_or_another_right_one_are_too_narrow(
    collector: Collector, tmp_path: Path, sandbox: SandboxFor
) -> None:
    half = "def half(x):\n    part = x / {}\n    return part\n"
    test = (
        "import pathlib\nimport unittest\nfrom half import half\n\n\nclass Half(unittest.TestCase):\n"
        "    def test_half(self):\n        self.assertEqual(half(6), 3)\n"
        '        self.assertIn("part = x / ", pathlib.Path("half.py").read_text())\n'
    )
    repository = a_repository(
        tmp_path, base={"half.py": half.format(3)}, head={"half.py": half.format(2), "test_half.py": test}
    )
    settings = quick_settings(tmp_path, trials=1)
    settings = replace(settings, lists=replace(settings.lists, commands=("python3 -m unittest",)))
    trace_id = await send_session(collector, repository, profile={"runner": "custom", "command": "python3 -m unittest"})
    flags = []
    other = make_patch("half.py", half.format(3).encode(), b"def half(x):\n    return x * 0.5\n")
    gone = make_patch("half.py", b"a\n", b"b\n")
    for given in ({}, {"other.patch": other, "gone.patch": gone}):
        if given:
            await note_alternatives(collector, trace_id, given)
        qa = await _check(collector, trace_id, tmp_path, sandbox, settings=settings)
        proof = qa["tests"]["detail"]["proof"]
        flags.append((proof["verdict"], "too_narrow" in proof["flags"], proof["trials"]["refused"]))
    assert flags == [
        ("proven", True, ["other names for variables"]),
        ("proven", True, ["other.patch", "other names for variables"]),
    ]
    assert proof["trials"]["not_applied"] == ["gone.patch"]
    with pytest.raises(UsageError, match="no alternative"):
        await note_alternatives(collector, trace_id, {"t": make_patch("test_half.py", b"", b"x\n")})
