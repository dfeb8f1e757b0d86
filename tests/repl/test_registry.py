"""The registry is the one list of commands, and everything derived from it agrees with it."""

from __future__ import annotations

import inspect
import os
import shlex
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from repl.cli import main
from repl.commands.setup.about import group_lines, help_lines, overview_lines
from repl.exit_codes import ExitCode
from repl.registry.commands import (
    COMMANDS,
    FRONT,
    GROUPS,
    commands_for,
    find_command,
)
from repl.registry.complete import (
    Candidate,
    candidates,
    rank,
    resolve_slash,
)
from repl.registry.parse import parse_arguments, parse_command_line
from tests.repl.support import command_line, environment, pm
from tests.support.tools import need_program
from tracer.errors import UsageError
from tracer.settings.declared import SETTINGS


def test_no_two_commands_share_a_name_or_alias() -> None:
    names = [name for command in COMMANDS for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))


def test_every_command_has_a_handler_that_takes_context_and_arguments() -> None:
    for command in COMMANDS:
        module, _, function = command.handler.partition(":")
        handler = getattr(import_module(module), function)
        assert len(inspect.signature(handler).parameters) == 2, command.name


def test_every_command_has_a_group_a_summary_and_known_exit_codes() -> None:
    for command in COMMANDS:
        assert command.group in GROUPS, command.name
        assert command.summary, command.name
        assert not command.summary.endswith("."), command.name
        assert command.surfaces, command.name
        assert all(code in list(ExitCode) for code in command.exits), command.name
        assert command.palette_text, command.name


def test_every_example_parses_as_its_own_command() -> None:
    for command in COMMANDS:
        words = shlex.split(command.example.split(" > ")[0].split(" | ")[0])
        if words[0] == "pm":
            found, _ = parse_command_line(words[1:])
        else:
            assert words[0].startswith("/")
            name = command.name.split(" ")
            assert words[0][1:] == name[0] or words[0][1:] in command.aliases, command.name
            found = command
            parse_arguments(command, words[len(name) :])
        assert found.name == command.name, command.name


def test_every_visible_command_stands_in_its_group_and_the_completion_of_its_surfaces() -> None:
    for command in COMMANDS:
        for surface in command.surfaces:
            words = command.name.split()
            listed = any(line.split()[: len(words)] == words for line in group_lines(command.group, surface))
            offered = candidates([*words[:-1], words[-1]], surface=surface)
            assert listed is not command.hidden, command.name
            assert any(candidate.text == words[-1] for candidate in offered) is not command.hidden, command.name


@pytest.mark.parametrize("surface", ["cli", "slash"])
def test_the_overview_and_each_group_fit_a_screen_and_every_group_is_named(surface: str) -> None:
    pages = [overview_lines(surface), *(group_lines(group, surface) for group in GROUPS)]
    assert max(len(page) for page in pages) <= 24
    assert max(len(line) for page in pages for line in page) <= 80
    shown = " ".join(pages[0])
    assert all(group in shown for group in GROUPS if group != "session" or surface == "slash")
    assert all(
        find_command(name) for names in FRONT.values() for name in names if name not in {"undo", "review", "gate"}
    )


@pytest.mark.parametrize("words", [["capture"], ["capture", "--help"], ["admin", "-h"], ["help", "capture"]])
def test_the_name_of_a_group_alone_shows_its_commands(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("new", "list"))


def test_every_help_page_shows_usage_example_flags_and_exit_codes() -> None:
    for command in COMMANDS:
        page = "\n".join(help_lines(command, "cli"))
        assert command.usage.split(" ")[0] in page, command.name
        assert command.example in page, command.name
        assert "Exit codes" in page, command.name
        assert all(flag.name.lstrip("-") in page for flag in command.flags), command.name


def test_an_unknown_command_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        parse_command_line(["verison"])
    assert "version" in caught.value.why


def test_an_unknown_flag_names_the_nearest() -> None:
    command = find_command("version")
    assert command is not None
    with pytest.raises(UsageError, match="did you mean --quiet"):
        parse_arguments(command, ["--quite"])


def test_flags_are_never_abbreviated() -> None:
    command = find_command("version")
    assert command is not None
    with pytest.raises(UsageError):
        parse_arguments(command, ["--verb"])


def test_global_flags_mean_the_same_before_and_after_the_command() -> None:
    before, first = parse_command_line(["-C", "/tmp", "--json", "version"])
    after, second = parse_command_line(["version", "-C", "/tmp", "--json"])
    assert before is after
    assert vars(first) == vars(second)


def test_matches_are_ranked_exact_prefix_substring_subsequence() -> None:
    assert [rank("tra", text) for text in ("tra", "trace", "extra", "t-r-a", "art")] == [0, 1, 2, 3, 4]


def test_a_slash_name_runs_by_unique_prefix_and_never_by_likeness() -> None:
    command, _ = resolve_slash("versi")
    assert command is not None
    assert command.name == "version"
    command, like = resolve_slash("verzion")
    assert command is None
    assert like == ["version"]


def test_values_are_asked_of_the_sources_by_kind() -> None:
    asked: list[str] = []

    def sources(kind: str, _prefix: str) -> list[Candidate]:
        asked.append(kind)
        return [Candidate("trace")]

    assert candidates(["help", ""], surface="cli", sources=sources)[-1].text == "trace"
    assert asked == ["command"]


def test_every_setting_of_run_has_a_flag_an_environment_name_and_a_config_key() -> None:
    for setting in SETTINGS:
        if setting.section == "run":
            assert setting.flag == "--" + setting.key.removeprefix("run.").replace("_", "-")
            assert setting.env == "PM_" + setting.key.removeprefix("run.").upper()


def test_hidden_commands_are_shown_nowhere() -> None:
    assert all(not command.hidden for surface in ("cli", "slash") for command in commands_for(surface))


def test_words_behind_two_dashes_are_never_flags() -> None:
    command, arguments = parse_command_line(["run", "--executor", "scripted", "--", "--explain", "-v"])
    assert command.name == "run"
    assert (arguments.executor, arguments.prompt, arguments.verbose) == ("scripted", ["--explain", "-v"], False)


@pytest.mark.parametrize(
    "words",
    [
        ("distill", "--session", ""),
        ("distill", "--session=", "--label", "new:x"),
        ("capture", "from-session", "--session", ""),
        ("show", ""),
        ("undo", ""),
        ("review", "1", "--discard", "a.py", ""),
        ("redact", "--scrub", ""),
        ("check", ""),
        ("record", "discard", ""),
        ("admin", "prune", "tasks", "--older-than", ""),
        ("--state-dir", "", "tasks"),
    ],
)
def test_an_empty_name_is_refused_and_not_taken_for_the_newest_or_for_all(
    words: tuple[str, ...], project: Path
) -> None:
    ran = pm(*words, cwd=project)
    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert " is empty" in ran.err.splitlines()[0]


@pytest.mark.parametrize(
    "words", [("config", "set", "run.test", ""), ("run", "--title", "", "x"), ("distill", "--label", "")]
)
def test_an_empty_text_is_a_value(words: tuple[str, ...]) -> None:
    assert parse_command_line([*words])[0].name in {"config set", "run", "distill"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("admin", "prune", "tasks", "--older-than", "-1d"), "'-1d' is not an age"),
        (("admin", "prune", "tasks", "--older-than=-1d"), "'-1d' is not an age"),
        (("tasks", "--since", "-2h"), "'-2h' is neither a span nor a date"),
        (("run", "--timeout", "-5m", "x"), "'-5m' is no time"),
        (("run", "--timeout", "-v", "x"), "expected one argument"),
    ],
)
def test_a_value_below_zero_is_refused_with_its_reason(words: tuple[str, ...], why: str, project: Path) -> None:
    ran = pm(*words, cwd=project)
    assert ran.code == ExitCode.USAGE
    assert why in ran.err


@pytest.mark.parametrize(
    "words",
    [
        (*family, f"{flag.name}={flag.least - 1}")
        for command in COMMANDS
        for flag in command.flags
        if flag.kind == "integer" and flag.least is not None
        for family in [command.name.split()]
    ],
    ids=" ".join,
)
def test_a_number_below_the_least_is_refused(words: tuple[str, ...]) -> None:
    command = find_command(" ".join(words[:-1]))
    assert command is not None
    given = [argument.choices[0] if argument.choices else "x" for argument in command.arguments if argument.required]
    flag, number = words[-1].split("=")
    with pytest.raises(UsageError, match=rf"{flag}: {number} is below {int(number) + 1}"):
        parse_arguments(command, [words[-1], *given])


def test_every_number_has_a_least_value_or_a_rule_of_its_own() -> None:
    numbers = [flag for command in COMMANDS for flag in command.flags if flag.kind == "integer" and not flag.setting]
    assert {flag.name for flag in numbers if flag.least is None} == {"--expires"}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["run", "--ex"], "--executor"),
        (["trace", "--event", "JUDG"], "QUALITY_JUDGMENT"),
        (["tasks", "--status", ""], "UNFINISHED"),
        (["-C", "/tmp", "tra"], "trace"),
        (["config", "se"], "set"),
        (["config", "get", "run.max"], "run.max_iterations"),
    ],
)
def test_the_completion_script_gets_its_candidates(words: list[str], offered: str, project: Path) -> None:
    ran = pm("__complete", "--", *words, cwd=project)
    assert ran.code == 0, ran.err
    assert offered in [line.split("\t")[0] for line in ran.out.splitlines()]


def test_the_bash_script_completes_in_a_real_shell(project: Path) -> None:
    bash = need_program("bash", how="install bash")
    start = " ".join(shlex.quote(word) for word in command_line())
    (project / "pm").write_text(f'#!/bin/sh\nexec {start} "$@"\n')
    (project / "pm").chmod(0o755)
    text = pm("completion", "bash", cwd=project).out
    words = 'COMP_WORDS=(pm trace --ev); COMP_CWORD=2; _pm; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        [bash, "-c", f"{text}\n{words}"],
        cwd=project,
        capture_output=True,
        check=True,
        env={**environment(), "PATH": f"{project}:{os.environ['PATH']}"},
    )
    assert done.stdout.decode().split() == ["--event"]
