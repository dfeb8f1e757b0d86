"""The file a trace becomes: name, mode, folder, one session one file, secrets and paths gone, seed 000's shape."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from runner.effects import distill_run
from tests.tracer.distill.support import NoRedactor, lines_of, of_type, unpack
from tests.tracer.distill.test_shapes import SID, Claude, write
from tracer.blobs import DirectoryBlobs
from tracer.distill.locate.find import find_sessions
from tracer.distill.many import distill_many
from tracer.distill.native import Request
from tracer.distill.one import distill_session
from tracer.distill.stored import trace_name
from tracer.statedir import StateDir


@pytest.fixture
def native(tmp_path):
    return unpack("claude/bugfix@2.1.197", tmp_path / "home")


def made(native, tmp_path, **options):
    return distill_session(native.path, project_root=tmp_path, redactor=NoRedactor(), **options)


def test_the_name_holds_time_operation_module_and_provider():
    assert (
        trace_name(ts="2026-03-21T14:57:45", label="one_session_sync:task_scheduler", provider="google")
        == "trace_20260321_1457_one_session_sync__task_scheduler_google.jsonl"
    )
    assert trace_name(ts="2026-03-21T14:57:45", label="a b:c/d.e-f", provider="openai", number=3) == (
        "trace_20260321_1457_a_b__c_d.e-f_openai_3.jsonl"
    )


def test_labels_of_letters_beyond_ascii_have_names_of_their_own():
    names = {
        label: trace_name(ts="2026-03-21T14:57:45", label=f"new:{label}", provider="anthropic")
        for label in ("名前", "住所", "é", "e\u0301", "ö" * 90 + "1", "ö" * 90 + "2")
    }
    assert len(set(names.values())) == 5
    assert names["é"] == names["e\u0301"] == "trace_20260321_1457_new___-4a9955_anthropic.jsonl"
    assert all(name.isascii() and len(name) < 150 for name in names.values())


def test_the_seeds_ways_of_looking_find_the_trace(native, tmp_path):
    made(native, tmp_path, label="one_session_sync:calc", success=False)
    folder = tmp_path / ".pm-orchestrator" / "agentic-traces"
    for command in (
        f"ls {folder}/*one_session_sync*",
        f"ls {folder}/*anthropic*",
        f"grep -l '\"success\":false' {folder}/*.jsonl",
    ):
        found = subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout.split()
        assert found == [str(folder / "trace_20261121_1030_one_session_sync__calc_anthropic.jsonl")]


@pytest.mark.parametrize("folder", [None, "elsewhere"])
def test_the_file_is_private_and_its_folder_ignores_itself(native, tmp_path, folder):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    path = made(native, tmp_path, output_dir=tmp_path / folder if folder else None).path
    assert subprocess.run(["git", "-C", tmp_path, "check-ignore", "-q", path], check=False).returncode == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not [name for name in path.parent.iterdir() if name.suffix == ".tmp"]


def test_a_project_with_a_pdd_folder_keeps_its_traces_there(native, tmp_path):
    (tmp_path / ".pdd").mkdir()
    (tmp_path / ".gitignore").write_text("mine\n")
    path = made(native, tmp_path).path
    assert path.parent == tmp_path / ".pdd" / "agentic-traces"
    assert (path.parent / ".gitignore").read_text() == "*\n"
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


def test_the_same_session_distilled_twice_is_one_file(native, tmp_path):
    first, second = made(native, tmp_path), made(native, tmp_path)
    assert (first.status, second.status) == ("created", "unchanged")
    assert first.path == second.path
    assert len(list(first.path.parent.glob("*.jsonl"))) == 1


def test_what_is_remembered_of_a_folder_gives_way_to_what_lies_there(native, tmp_path):
    first = made(native, tmp_path)
    meta, *rest = first.path.read_text().splitlines(keepends=True)
    first.path.write_text("".join([meta.replace(first.meta["session_id"], "f" * 36), *rest]))
    second = made(native, tmp_path)
    assert (second.status, second.path == first.path) == ("created", False)
    second.path.unlink()
    assert made(native, tmp_path).status == "created"


def test_a_window_that_leaves_nothing_out_is_the_whole_session(native, tmp_path):
    whole, window = made(native, tmp_path), made(native, tmp_path, since_ms=1000)
    assert (window.status, window.path) == ("unchanged", whole.path)


def test_a_session_that_grew_replaces_its_trace_under_the_same_name(native, tmp_path):
    first = made(native, tmp_path)
    records = native.path.read_text().splitlines()
    added = json.loads(next(line for line in records if '"thinking"' in line))
    added["uuid"], added["message"]["id"] = "new", "new"
    added["message"]["content"][0]["thinking"] = "One more thought"
    added["timestamp"] = "2026-11-21T12:00:00.000Z"
    native.path.write_text("\n".join([*records, json.dumps(added)]) + "\n")
    second = made(native, tmp_path)
    assert (second.status, second.path) == ("updated", first.path)
    assert lines_of(second.path)[-1]["text"] == "One more thought"
    assert len(list(first.path.parent.glob("*.jsonl"))) == 1


def test_a_label_given_later_renames_and_one_left_out_keeps(native, tmp_path):
    made(native, tmp_path)
    renamed = made(native, tmp_path, label="fix:calc")
    again = made(native, tmp_path)
    assert renamed.path.name == "trace_20261121_1030_fix__calc_anthropic.jsonl"
    assert (again.path, again.meta["label"]) == (renamed.path, "fix:calc")
    assert len(list(again.path.parent.glob("*.jsonl"))) == 1


def test_two_sessions_of_one_minute_get_two_names(tmp_path):
    out = tmp_path / "out"
    for number, scenario in enumerate(("claude/bugfix@2.0.76", "claude/happy@2.0.76", "claude/bugfix@1.0.128")):
        native = unpack(scenario, tmp_path / str(number))
        made(native, tmp_path, output_dir=out, label="a:b")
    assert sorted(path.name for path in out.glob("*.jsonl")) == [
        "trace_20261121_1030_a__b_anthropic.jsonl",
        "trace_20261121_1030_a__b_anthropic_2.jsonl",
        "trace_20261121_1030_a__b_anthropic_3.jsonl",
    ]


def test_many_writers_of_one_session_leave_one_file(native, tmp_path):
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: made(native, tmp_path).path, range(8)))
    (path,) = paths
    assert list(path.parent.glob("*.jsonl")) == [path]


def test_the_prompt_is_kept_by_hash_and_named_by_its_file(native, tmp_path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "calc.prompt").write_text("Fix calc\n")
    meta = made(native, tmp_path, prompt_file=tmp_path / "prompts" / "calc.prompt").meta
    blobs = DirectoryBlobs(tmp_path / ".pm-orchestrator" / "blobs")
    assert meta["prompt_file"] == "prompts/calc.prompt"
    assert blobs.read(f"sha256:{meta['prompt_sha256']}") == b"Fix calc\n"
    plain = made(native, tmp_path).meta
    assert plain["prompt_file"] is None
    assert blobs.read(f"sha256:{plain['prompt_sha256']}").decode() == native.truth["prompt"]


def test_secrets_and_paths_are_gone_wherever_they_stood_and_are_counted(tmp_path):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    claude = Claude()
    output = "noise\n" * 2000 + f"error: token {token} refused\n" + "more\n" * 2000 + f"last {token}"
    path = write(
        tmp_path / f"{SID}.jsonl",
        [
            claude.said(0, f"Use {token}"),
            claude.thought(1, f"The token is {token} in /home/dev/proj/a.py and /home/dev/.netrc", "m1"),
            claude.call(2, "A", "Bash", {"command": "x" * 495 + f" {token}"}, "m1"),
            claude.result(3, "A", output, {"stdout": output, "stderr": ""}),
            claude.call(4, "B", "Fetch", {"url": f"https://x/?t={token}"}, "m2"),
            claude.block(5, {"type": "text", "text": f"Done with {token}"}, "m3", stop="end_turn"),
        ],
    )
    result = distill_session(path, provider="claude", project_root=tmp_path, output_dir=tmp_path / "out")
    everything = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file != path)
    assert token.encode() not in everything
    assert token[:20].encode() not in everything
    (thought,) = of_type(lines_of(result.path), "thought")
    assert "$PROJECT_ROOT/a.py" in thought["text"]
    assert "$HOME/.netrc" in thought["text"]
    assert sum(result.meta["redactions"].values()) >= 5


def test_a_cut_shows_no_half_of_a_secret_where_marks_made_the_rest_short(tmp_path):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    key = "-----BEGIN RSA PRIVATE " + "KEY-----\n" + "MIIEowIBAAKCAQEAq1w2e3r4MIIEowIB\n" * 124
    key += "-----END RSA PRIVATE " + "KEY-----"
    claude = Claude()
    records = [claude.said(0, "Do it")]
    for shift in range(0, 450, 4):
        name, fill = f"t{shift}", "f" * shift
        records.append(claude.call(1, name, "Bash", {"command": f"{fill} {key} {token}{'.' * 9000}"}, name))
        records.append(claude.result(2, name, f"{'n' * 5000}\n{token}\n{key}{fill}"))
        records.append(claude.call(3, f"u{name}", "Fetch", {"url": f"{fill[:30]} {key} {token}{'.' * 9000}"}, name))
        records.append(claude.result(4, f"u{name}", f"{'n ' * 3000}{token} {key}".replace("\n", " ") + fill))
    path = write(tmp_path / f"{SID}.jsonl", records)
    result = distill_session(path, provider="claude", project_root=tmp_path, output_dir=tmp_path / "out")
    trace = result.path.read_text()
    for at in range(len(token) - 11):
        assert token[at : at + 12] not in trace


def test_secrets_in_what_identifies_a_session_are_gone_and_it_is_still_one_file(tmp_path):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    claude = Claude()
    records = [claude.said(0, "Do it"), claude.thought(1, "Hm", "m1"), claude.said(2, "Ask", isSidechain=True)]
    records[1]["message"]["model"] = records[1]["version"] = records[2]["agentId"] = token
    for record in records:
        record["sessionId"] = token
    path = write(tmp_path / "s.jsonl", records)
    made = [
        distill_session(path, provider="claude", project_root=tmp_path, output_dir=tmp_path / "out") for _ in range(2)
    ]
    everything = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file != path)
    assert token.encode() not in everything
    assert [one.status for one in made] == ["created", "unchanged"]
    assert made[0].meta["session_id"].startswith("[REDACTED:github-token:")
    assert made[0].meta["model"] == made[0].meta["cli_version"] == made[0].meta["agents"][0]["id"]


def test_a_session_that_begins_with_anothers_records_has_a_trace_of_its_own(tmp_path):
    other = "0" * 8 + SID[8:]
    first = [Claude().said(0, "Do it"), Claude().thought(1, "First", "m1")]
    second = [*first, Claude().thought(2, "Second", "m2")]
    second[2]["sessionId"] = other
    out = tmp_path / "out"
    for name, records in ((SID, first), (other, second)):
        path = write(tmp_path / f"{name}.jsonl", records)
        distill_session(path, provider="claude", project_root=tmp_path, output_dir=out, redactor=NoRedactor())
    kept = {lines_of(path)[0]["session_id"]: len(lines_of(path)) for path in out.glob("*.jsonl")}
    assert kept == {SID: 2, other: 3}


def test_many_sessions_use_several_processes_and_one_bad_file_spoils_none(tmp_path):
    for number, scenario in enumerate(("claude/bugfix@2.0.76", "codex/happy@0.50.0", "gemini/happy")):
        unpack(scenario, tmp_path / "home")
        assert number < 3
    bad = tmp_path / "home" / ".claude" / "projects" / "-x" / f"{SID}.jsonl"
    write(bad, [{"type": "user", "message": 5}])
    sessions = find_sessions(environ={"HOME": str(tmp_path / "home")})
    request = Request(project_root=tmp_path, output_dir=tmp_path / "out")
    outcomes = list(distill_many(sessions, request, workers=2))
    assert sorted(outcome.distilled.meta["provider"] for outcome in outcomes if outcome.distilled) == [
        "anthropic",
        "google",
        "openai",
    ]
    assert [outcome.session.path for outcome in outcomes if outcome.error] == [bad]


_WARMED = """
import sys
from pathlib import Path
import tracer.distill.warm_gate
from tracer.redaction.engine import build_redactor
redactor = build_redactor(state_dir=Path(sys.argv[1]), environ={"HOME": sys.argv[1], "USER": "janedoe"})
from tracer.redaction.gate import Gate
compiled = []
Gate.open, whole = lambda gate: compiled.append(gate) or whole(gate), Gate.open
redactor.prepare()
print(len(compiled), redactor.redact_text("ghp_" + "aB3" * 12 + " by janedoe")[1])
"""


def test_what_much_to_read_has_loaded_beforehand_serves_every_project(tmp_path):
    """Only the project's own words are compiled after it, not the rules."""
    told = subprocess.run([sys.executable, "-c", _WARMED, str(tmp_path)], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "1 {'github-token': 1, 'user-name': 1}"


def test_the_runner_gets_the_path_to_link_and_never_an_exception(native, tmp_path):
    state_dir = StateDir(tmp_path / ".pm-orchestrator")
    asked = {"label": "run:task-001", "prompt": "mend the cart", "prompt_file": ""}
    common = {"workspace": "/home/dev/proj", "state_dir": state_dir, "success": True, **asked}
    path, _ = distill_run("claude", f"claude:{native.truth['session_id']}", environ=native.environ, **common)
    assert path == ".pm-orchestrator/agentic-traces/trace_20261121_1030_run__task-001_anthropic.jsonl"
    meta = lines_of(tmp_path / path)[0]
    assert (meta["label"], meta["prompt_file"]) == ("run:task-001", None)
    assert meta["prompt_sha256"] == sha256(b"mend the cart").hexdigest() != meta["sent_prompt_sha256"]
    common |= {"label": "sync:cart", "prompt_file": "prompts/cart.md"}
    path, _ = distill_run("claude", f"claude:{native.truth['session_id']}", environ=native.environ, **common)
    assert path == ".pm-orchestrator/agentic-traces/trace_20261121_1030_sync__cart_anthropic.jsonl"
    assert lines_of(tmp_path / path)[0]["prompt_file"] == "prompts/cart.md"
    missing, why_not = distill_run("claude", "nowhere", environ=native.environ, **common)
    assert missing is None
    assert "nowhere" in why_not
    assert distill_run("scripted", "scripted:1", **common)[0] is None


def test_importing_the_package_costs_none_of_its_readers():
    code = "import sys, tracer.distill; print([m for m in sys.modules if m.startswith('tracer.distill.')])"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.strip() == "[]"
