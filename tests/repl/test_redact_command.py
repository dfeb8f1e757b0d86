"""`pm redact` as a user types it."""

from __future__ import annotations

import io
import json
import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import pytest

from collector.opening import open_collector
from repl.commands.captures.server import capture_redactor
from repl.context import Context
from repl.dispatch import Terminated
from repl.present.output import Output
from repl.session import Session
from tests.repl.support import pm
from tracer.conversation import default_redactor
from tracer.errors import TraceError
from tracer.redaction.redactor import RedactionSettings

KEY = "sk-" + "proj-9Zx81kQ29pLmV4tR7"


def test_a_copy_without_secrets_goes_to_stdout_and_the_count_to_stderr(project: Path) -> None:
    (project / "log.txt").write_text(f"used {KEY}\n")
    ran = pm("redact", "log.txt", cwd=project)
    assert ran.code == 0
    assert ran.out.startswith("used [REDACTED:secret-key:")
    assert "1 x secret-key" in ran.err
    assert (project / "log.txt").read_text() == f"used {KEY}\n"


def test_an_audit_fails_until_the_file_is_redacted_in_its_place(project: Path) -> None:
    (project / "t.jsonl").write_text(json.dumps({"a": KEY}) + "\n")
    found = pm("redact", "--audit", ".", "--json", cwd=project)
    assert found.code == 1
    error = json.loads(found.out)["error"]
    assert (error["code"], error["exit"]) == ("not_accepted", 1)
    (leak,) = json.loads(found.out)["leaks"]
    assert leak.pop("modified")[:2] == "20"
    assert leak == {"path": "t.jsonl", "line": 1, "rule": "secret-key", "finds": 1}
    assert KEY not in found.out + found.err
    assert pm("redact", "t.jsonl", "--in-place", cwd=project).code == 0
    clean = pm("redact", "--audit", ".", cwd=project)
    assert (clean.code, clean.out) == (0, f"nothing found in {project}\n")


def old(path: Path) -> None:
    os.utime(path, ns=(10**18, 10**18))


def test_folders_are_scrubbed_where_nothing_writes_and_the_copies_stay_until_told(project: Path) -> None:
    state = project / "state"
    for name in ("claude", "codex"):
        (project / name).mkdir()
        (project / name / "a.jsonl").write_text(json.dumps({"a": KEY, "n": 1.0}) + "\n")
        old(project / name / "a.jsonl")
    (project / "claude" / "clean.md").write_text("nothing\n")
    (project / "claude" / "live.jsonl").write_text(json.dumps({"a": KEY}) + "\n")  # written a moment ago
    (project / "claude" / "held.log").write_text(f"key {KEY}\n")
    (project / "claude" / "keys.p12").write_bytes(b"\0")  # no text: who wrote it must delete it
    old(project / "claude" / "held.log")
    with (project / "claude" / "held.log").open("a"):
        ran = pm("redact", "--scrub", "claude", "codex", "--json", cwd=project, XDG_STATE_HOME=str(state))
    told = json.loads(ran.out)
    assert ran.code == 1
    assert KEY not in ran.out + ran.err
    left = {Path(row["path"]).name for row in told["files"] if row["left"]}
    assert left == {"live.jsonl", "held.log", "keys.p12"}
    for name in ("claude", "codex"):
        file = project / name / "a.jsonl"
        assert json.loads(file.read_text())["a"].startswith("[REDACTED:secret-key:")
        assert file.stat().st_mtime_ns == 10**18
    copies = Path(told["copies"])
    assert sorted(KEY in path.read_text() for path in copies.rglob("*") if path.is_file()) == [True, True]
    old(project / "claude" / "live.jsonl")
    (project / "claude" / "keys.p12").unlink()
    again = pm("redact", "--scrub", "claude", "--yes", "--json", cwd=project, XDG_STATE_HOME=str(state))
    assert (again.code, json.loads(again.out)["copies"]) == (0, None)
    assert list(state.rglob("*.log")) == []


def test_an_audit_reports_on_the_folders_that_exist_and_names_the_others(project: Path) -> None:
    for name in ("claude", "gemini"):
        (project / name).mkdir()
        (project / name / "a.log").write_text(f"key {KEY}\n")
    named = f"{project / 'codex'} does not exist"
    words = ("redact", "--audit", "claude", "codex", "gemini")
    ran = pm(*words, cwd=project)
    assert ran.code == 1
    assert [line.partition(":1 ")[0] for line in ran.out.splitlines()] == [
        str(project / name / "a.log") for name in ("claude", "gemini")
    ]
    assert named in ran.err
    told = json.loads(pm(*words, "--json", cwd=project).out)
    assert len(told["leaks"]) == 2
    assert told["missing"] == [str(project / "codex")]
    for name in ("claude", "gemini"):
        (project / name / "a.log").write_text("nothing\n")
    ran = pm(*words, cwd=project)
    assert (ran.code, ran.out) == (7, f"nothing found in {project / 'claude'}, {project / 'gemini'}\n")
    assert named in ran.err
    told = json.loads(pm(*words, "--json", cwd=project).out)
    assert (told["error"]["code"], told["leaks"]) == ("not_found", [])
    assert pm("redact", "--audit", "codex", cwd=project).code == 7


@pytest.fixture
def leaking(project: Path) -> Path:
    """A folder of three files with a secret, written long ago."""
    folder = project / "leaking"
    folder.mkdir()
    for name in ("a.log", "b.log", "c.log"):
        (folder / name).write_text(f"key {KEY}\n")
        old(folder / name)
    return folder


@pytest.mark.parametrize(
    "flags",
    [
        ("--audit", "--scrub"),
        ("--audit", "-o", "F"),
        ("--scrub", "--in-place"),
        ("-o", "F", "--in-place"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(project: Path, leaking: Path, flags: tuple[str, ...]) -> None:
    ran = pm("redact", "leaking", *flags, cwd=project)
    named = " and ".join(flag for flag in flags if flag.startswith("-"))
    assert (ran.code, ran.out) == (2, "")
    assert f"{named} exclude each other" in ran.err
    assert (leaking / "a.log").read_text() == f"key {KEY}\n"
    assert not (project / "F").exists()


def copies_of_scrubs() -> list[Path]:
    return sorted(Path(os.environ["XDG_STATE_HOME"], "pm-orchestrator", "scrubbed").glob("*"))


def test_a_scrub_rewrites_nothing_where_one_of_its_folders_does_not_exist(project: Path, leaking: Path) -> None:
    ran = pm("redact", "--scrub", "leaking", "nope", "--yes", cwd=project)
    assert (ran.code, ran.out) == (7, "")
    assert "nope does not exist" in ran.err
    assert f"next:  pm redact --scrub {leaking}" in ran.err
    assert (leaking / "a.log").read_text() == f"key {KEY}\n"
    assert copies_of_scrubs() == []


def ended_early(monkeypatch: pytest.MonkeyPatch, ending: BaseException) -> None:
    """Let the second file of a scrub end with `ending`."""
    from tracer.redaction import streams

    real, seen = streams.scrub, []

    def scrub(redactor: object, source: Path, backup: Path, *, held: object = ()) -> object:
        seen.append(source)
        if len(seen) == 2:
            raise ending
        return real(redactor, source, backup, held=held)  # type: ignore[arg-type]

    monkeypatch.setattr(streams, "scrub", scrub)


@pytest.mark.parametrize("flags", [(), ("--yes",), ("--quiet",)])
@pytest.mark.parametrize(
    ("ending", "code"), [(KeyboardInterrupt(), 130), (Terminated(), 143), (TraceError("disk full"), 8)]
)
def test_copies_of_a_scrub_that_ended_early_are_named(
    project: Path,
    leaking: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: BaseException,
    code: int,
    flags: tuple[str, ...],
) -> None:
    ended_early(monkeypatch, ending)
    ran = pm("redact", "--scrub", "leaking", *flags, cwd=project)
    assert ran.code == code
    (copies,) = copies_of_scrubs()
    assert f"the copies with the secrets are in {copies}; " in ran.err
    assert [path.read_text() for path in copies.rglob("*.log")] == [f"key {KEY}\n"]


def test_the_json_record_of_a_scrub_that_ended_early_names_its_copies(
    project: Path, leaking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_early(monkeypatch, KeyboardInterrupt())
    told = json.loads(pm("redact", "--scrub", "leaking", "--yes", "--json", cwd=project).out)
    assert told["error"]["code"] == "interrupted"
    assert [row["path"] for row in told["files"]] == [str(leaking / "a.log")]
    assert [told["copies"]] == list(map(str, copies_of_scrubs()))


def test_copies_that_an_earlier_scrub_left_are_named_by_the_next_audit_and_scrub(project: Path, leaking: Path) -> None:
    copies = Path(os.environ["XDG_STATE_HOME"], "pm-orchestrator", "scrubbed", "2026-01-01T000000.000Z")
    (copies / "home").mkdir(parents=True)
    (copies / "home" / "a.log").write_text(f"key {KEY}\n")  # as a killed one leaves it
    (copies.with_name("empty") / "home").mkdir(parents=True)
    named = f"copies with secrets that an earlier scrub left are in {copies}; "
    audited = pm("redact", "--audit", "leaking", cwd=project)
    assert (audited.code, audited.err.count("an earlier scrub")) == (1, 1)
    assert named in audited.err
    assert json.loads(pm("redact", "--audit", "leaking", "--json", cwd=project).out)["earlier_copies"] == [str(copies)]
    assert named in pm("redact", "--scrub", "leaking", "--yes", cwd=project).err
    again = json.loads(pm("redact", "--scrub", "leaking", "--yes", "--json", cwd=project).out)
    assert (again["copies"], again["earlier_copies"]) == (None, [str(copies)])


def test_what_changes_while_it_is_scrubbed_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracer.redaction import streams
    from tracer.redaction.engine import build_redactor

    file = tmp_path / "a.log"
    file.write_text(f"key {KEY}\n")
    old(file)
    pieces = streams.redacted_pieces

    def meanwhile(redactor: object, source: Path, counts: object) -> object:
        yield from pieces(redactor, source, counts)  # type: ignore[arg-type]
        with source.open("a") as more:
            more.write("more\n")

    monkeypatch.setattr(streams, "redacted_pieces", meanwhile)
    made = streams.scrub(build_redactor(state_dir=tmp_path, environ={}), file, tmp_path / "copy" / "a.log")
    assert made.left == "something is writing to it"
    assert file.read_text() == f"key {KEY}\nmore\n"


def test_a_file_behind_a_link_is_redacted_itself_and_other_names_of_it_are_told(project: Path) -> None:
    (project / "kept").mkdir()
    file = project / "kept" / "log.txt"
    file.write_text(f"key {KEY}\n")
    (project / "link.txt").symlink_to(file)
    ran = pm("redact", "link.txt", "--in-place", cwd=project)
    assert ran.code == 0
    assert (project / "link.txt").is_symlink()
    assert "[REDACTED:" in file.read_text()
    assert KEY not in file.read_text()
    file.write_text(f"key {KEY}\n")
    (project / "second.txt").hardlink_to(file)
    assert "1 other name" in pm("redact", "second.txt", "--in-place", cwd=project).err


@pytest.mark.parametrize("place", [".", "missing/clean.txt"])
def test_a_copy_that_cannot_be_written_names_the_place_that_was_given(project: Path, place: str) -> None:
    (project / "log.txt").write_text(f"key {KEY}\n")
    ran = pm("redact", "log.txt", "-o", place, cwd=project)
    assert ran.code == 8
    assert ".tmp" not in ran.err
    assert f": '{(project / place).resolve()}'" in ran.err


def test_a_missing_file_is_not_found_and_no_file_is_a_usage_error(project: Path) -> None:
    assert pm("redact", "none.txt", cwd=project).code == 7
    assert pm("redact", cwd=project).code == 2


def test_a_variable_that_the_configuration_names_is_secret_in_copies_and_in_records(project: Path) -> None:
    (project / ".pm-orchestrator").mkdir()
    (project / ".pm-orchestrator" / "config.toml").write_text('[redaction]\nextra_names = ["TEAM_PIN"]\n')
    (project / "log.txt").write_text("the pin is blue-horse now\n")
    ran = pm("redact", "log.txt", cwd=project, TEAM_PIN="blue-horse")
    assert "[REDACTED:known-value:" in ran.out
    script = project / "script.jsonl"
    script.write_text(json.dumps({"output": "It is blue-horse."}) + "\n")
    words = ("run", "which pin?", "--kind", "question", "--executor", "scripted", "--script", str(script))
    assert pm(*words, cwd=project, TEAM_PIN="blue-horse").code == 0
    trace = pm("trace", "--raw", cwd=project).out
    assert "LLM_RESPONSE" in trace
    assert "blue-horse" not in trace


STAFF = '[redaction.extra_rules]\nstaff-id = "EMP-[0-9]{6}"\n'


def test_a_rule_of_ones_own_holds_in_copies_records_and_distilled_sessions(project: Path) -> None:
    (project / ".pm-orchestrator").mkdir()
    (project / ".pm-orchestrator" / "config.toml").write_text(STAFF)
    (project / "log.txt").write_text("by EMP-123456 today, not by EMP-12\n")
    ran = pm("redact", "log.txt", cwd=project)
    assert "by [REDACTED:staff-id:" in ran.out
    assert "EMP-12\n" in ran.out
    script = project / "script.jsonl"
    script.write_text(json.dumps({"output": "It was EMP-123456."}) + "\n")
    words = ("run", "who?", "--kind", "question", "--executor", "scripted", "--script", str(script))
    assert pm(*words, cwd=project).code == 0
    trace = pm("trace", "--raw", cwd=project).out
    assert "It was [REDACTED:staff-id:" in trace
    assert "EMP-123456" not in trace
    session = project / "00000000-0000-4000-8000-000000000000.jsonl"
    said = {"type": "user", "uuid": "u", "message": {"role": "user", "content": "Ask."}}
    block = {"type": "text", "text": "Ask EMP-123456."}
    told = {"type": "assistant", "uuid": "a", "message": {"id": "m", "role": "assistant", "content": [block]}}
    session.write_text(json.dumps(said) + "\n" + json.dumps(told) + "\n")
    assert pm("distill", "--session", str(session), "--provider", "claude", "-o", "out", cwd=project).code == 0
    (made,) = (project / "out").glob("*.jsonl")
    assert "Ask [REDACTED:staff-id:" in made.read_text()


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ('staff-id = "EMP-(?=7)"', "'staff-id' is not a valid RE2 pattern"),
        ('"Staff Id" = "EMP"', "has no valid name"),
        ('staff-id = "[0-9]*"', "'staff-id' matches the empty text"),
    ],
)
def test_a_rule_that_cannot_be_used_stops_the_command_and_is_named(project: Path, rules: str, says: str) -> None:
    (project / ".pm-orchestrator").mkdir()
    config = project / ".pm-orchestrator" / "config.toml"
    config.write_text(f"[redaction.extra_rules]\n{rules}\n")
    (project / "log.txt").write_text("plain\n")
    ran = pm("redact", "log.txt", "-o", "clean.txt", cwd=project)
    assert ran.code == 3
    assert says in ran.err
    assert str(config) in ran.err
    assert not (project / "clean.txt").exists()


def test_rules_in_the_environment_that_are_none_are_refused(project: Path) -> None:
    (project / "log.txt").write_text("plain\n")
    ran = pm("redact", "log.txt", cwd=project, PM_REDACTION_EXTRA_RULES='["EMP"]')
    assert ran.code == 3
    assert "PM_REDACTION_EXTRA_RULES holds no redaction rules" in ran.err


def in_project(project: Path) -> Context:
    return Context(
        output=Output(stdout=io.StringIO(), stderr=io.StringIO()),
        environ=dict(os.environ),
        arguments=Namespace(directory=str(project)),
    )


async def test_a_rule_that_is_taken_out_of_the_settings_is_forgotten_when_they_are_read_again(project: Path) -> None:
    (project / ".pm-orchestrator").mkdir()
    config = project / ".pm-orchestrator" / "config.toml"
    before = dict(os.environ)
    config.write_text('[redaction]\nextra_names = ["STAFF_CODE"]\n' + STAFF)
    session = Session(in_project(project))

    def marks() -> Mapping[str, int]:
        return default_redactor(session.state_dir, session.supervisor.redaction).redact_text("EMP-123456")[1]

    assert marks() == {"staff-id": 1}
    assert session.supervisor.redaction.extra_names == ("STAFF_CODE",)
    config.write_text("")
    session.reload()
    assert marks() == {}
    assert session.supervisor.redaction == RedactionSettings()
    assert dict(os.environ) == before  # what agents and checks inherit


async def test_captures_and_the_collector_heed_a_rule_of_ones_own(project: Path) -> None:
    (project / ".pm-orchestrator").mkdir()
    (project / ".pm-orchestrator" / "config.toml").write_text(STAFF)
    context = in_project(project)
    redacted, counts = capture_redactor(context).redact_text("EMP-123456")
    assert (redacted[:19], counts) == ("[REDACTED:staff-id:", {"staff-id": 1})
    async with open_collector(context.state_dir, context.settings(), environ={}) as collector:
        assert collector.redactors.for_root(None).redact_text("EMP-123456")[1] == {"staff-id": 1}


def test_an_export_heeds_a_rule_that_came_after_the_record(project: Path) -> None:
    script = project / "script.jsonl"
    script.write_text(json.dumps({"output": "It was EMP-123456."}) + "\n")
    words = ("run", "who?", "--kind", "question", "--executor", "scripted", "--script", str(script))
    assert pm(*words, cwd=project).code == 0
    (project / ".pm-orchestrator" / "config.toml").write_text(STAFF)
    assert pm("export", "-o", "task.md", cwd=project).code == 0
    text = (project / "task.md").read_text()
    assert "[REDACTED:staff-id:" in text
    assert "EMP-123456" not in text


def test_a_copy_of_a_file_in_a_plain_folder_makes_no_project_and_equal_secrets_stay_equal(project: Path) -> None:
    (project / "a.txt").write_text('password = "hunter2secret"\n')
    copies = [pm("redact", "a.txt", cwd=project).out for _ in range(2)]
    assert "hunter2" not in copies[0]
    assert copies[0] == copies[1]
    assert [path.name for path in project.iterdir()] == ["a.txt"]
