"""stdout is data, stderr is narration, every way a command can end has its code, and nothing recorded obeys."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repl.exit_codes import ExitCode, code_of
from repl.present.text import escape, one_line
from repl.version import VERSION
from tests.repl.support import command_line, environment, pm
from tracer import errors


def test_the_version_is_the_one_of_the_distribution() -> None:
    import tomllib

    root = Path(__file__).resolve().parents[2]
    table = tomllib.loads((root / "pyproject.toml").read_text())
    assert "version" in table["project"]["dynamic"]
    assert f'VERSION = "{VERSION}"' in (root / table["tool"]["hatch"]["version"]["path"]).read_text()


def test_version_prints_one_line(project: Path) -> None:
    assert pm("version", cwd=project) == pm("--version", cwd=project)
    assert pm("version", cwd=project).out == f"pm {VERSION}\n"


def test_json_of_a_good_run_is_exactly_one_result(project: Path) -> None:
    ran = pm("version", "--json", cwd=project)
    assert json.loads(ran.out)["type"] == "result"
    assert ran.out.count("\n") == 1


def test_json_of_a_failed_run_is_exactly_one_error_and_people_read_stderr(project: Path) -> None:
    ran = pm("--json", "help", "nothing-like-it", cwd=project)
    record = json.loads(ran.out)
    assert record["type"] == "error"
    assert record["error"] == {
        "code": "not_found",
        "exit": 7,
        "message": "no command or topic 'nothing-like-it'",
        "why": "",
        "next": "pm help",
    }
    assert ran.code == ExitCode.NOT_FOUND
    assert ran.err.startswith("pm: no command or topic")


def test_json_of_a_usage_error_is_an_error_record_too(project: Path) -> None:
    ran = pm("version", "--nope", "--json", cwd=project)
    assert json.loads(ran.out)["error"]["exit"] == ran.code == ExitCode.USAGE


def test_the_record_of_an_unknown_command_names_what_was_typed(project: Path) -> None:
    for words, command in (
        (("--json", "frobnicate"), "frobnicate"),
        (("-C", str(project), "frobnicate", "--json"), "frobnicate"),
        (("--json", "--frobnicate"), "repl"),
    ):
        ran = pm(*words, cwd=project)
        assert (ran.code, json.loads(ran.out)["command"]) == (2, command)


def test_an_error_quotes_no_secret_from_the_command_line_or_from_a_file(project: Path) -> None:
    token, known = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "correct-horse-9"
    script = project / "script.jsonl"
    script.write_text(json.dumps({"output": "x", f"{token} {known}": 1}) + "\n")
    for words in (
        (token,),
        ("help", token),
        ("config", "get", f"{token}/{known}"),
        ("run", "Do it", "--executor", "scripted", "--script", str(script)),
        ("redact", f"/nowhere/{known}/{token}", "-o", "x"),
    ):
        for form in ((), ("--json",)):
            ran = pm(*form, *words, cwd=project, MY_SECRET=known)
            assert ran.code != 0
            assert "[REDACTED:" in ran.err
            assert token not in ran.out + ran.err
            assert known not in ran.out + ran.err
    assert "'plain-name'" in pm("help", "plain-name", cwd=project).err


def test_both_json_forms_at_once_are_refused(project: Path) -> None:
    assert pm("version", "--json", "--jsonl", cwd=project).code == ExitCode.USAGE


def test_a_closed_pipe_ends_quietly_with_zero(project: Path) -> None:
    for words in (["version"], ["help"], ["help", "exit-codes"]):
        process = subprocess.Popen(
            command_line(*words), cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
        )
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", [("version",), ("tasks",), ()], ids=["version", "tasks", "prompt"])
def test_a_stream_that_was_closed_at_the_start_costs_only_what_it_would_show(
    project: Path, words: tuple[str, ...], closed: str
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command_line(*words)],
        cwd=project,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=40,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert not list(project.rglob("pm-report-*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [("help",), ("tasks", "--json"), ("version",)], ids=" ".join)
def test_a_full_disk_under_the_output_is_said_and_no_defect_of_ours(project: Path, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command_line(*words), cwd=project, env=environment(), stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == ExitCode.TRACE
    assert b"Traceback" not in done.stderr
    assert b"internal error" not in done.stderr
    with Path("/dev/full").open("wb") as full:  # narration may be lost: the work goes on
        done = subprocess.run(
            command_line(*words), cwd=project, env=environment(), stderr=full, stdout=subprocess.PIPE, check=False
        )
    assert done.returncode == 0


def test_every_error_of_the_tree_has_an_exit_code_of_its_own_name() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.PmError)]
    kinds.remove(errors.PmError)
    assert {code_of(kind.code) for kind in kinds} >= {ExitCode.USAGE, ExitCode.NOT_FOUND, ExitCode.SANDBOX}
    assert all(kind.code in {code.name.lower() for code in ExitCode} for kind in kinds)


def test_plain_output_is_ascii(project: Path) -> None:
    ran = pm("help", "--plain", cwd=project)
    ran.out.encode("ascii")
    assert "usage: pm COMMAND ..." in ran.out


def test_a_terminal_that_is_not_utf8_gets_ascii(project: Path) -> None:
    done = subprocess.run(
        [*command_line("help")[:1], "-c", *command_line("help")[4:]],
        cwd=project,
        capture_output=True,
        check=True,
        env=environment(PYTHONIOENCODING="ascii", PYTHONUTF8="0"),
    )
    done.stdout.decode("ascii")


@given(st.text())
def test_escaped_text_holds_no_control_but_newline_and_tab(text: str) -> None:
    safe = escape(text)
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in safe)
    safe.encode()


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    assert "\n" not in one_line(text)
    assert len(one_line(text, 10)) <= 10


def test_ordinary_and_foreign_script_is_left_alone() -> None:
    text = "naïve 日本語 עברית 🎉\ttab\n"
    assert escape(text) == text


def test_a_defect_leaves_a_report_and_exit_10(project: Path, tmp_path: Path) -> None:
    start = "import sys, repl.commands.setup.about as a; a.overview_lines = None"
    start += "; from repl.cli import main; sys.exit(main())"
    words = command_line("help", "--json")
    done = subprocess.run(
        [*words[:-3], start, *words[-2:]],
        cwd=project,
        capture_output=True,
        check=False,
        env=environment(TMPDIR=str(tmp_path)),
    )
    record = json.loads(done.stdout)
    assert (done.returncode, record["error"]["code"]) == (10, "internal")
    report = next(tmp_path.glob("pm-report-*.txt"), None)
    assert report is not None
    assert str(report) in done.stderr.decode()
    assert report.stat().st_mode & 0o777 == 0o600
    assert b"Traceback" not in done.stderr
