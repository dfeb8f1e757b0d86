"""What is run by a trace's QA profile: image, commands, probe and reports, checked against the allowed lists. Pure.

A command is words, never a shell line, unless the list allows exactly that line or everything (`*`): an allowed
beginning cannot carry more behind a semicolon.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from collector.qa.sandbox.script import WORKSPACE
from runner.checks.command_line import Launch, narrowed, plan_launch
from tracer.capture.wire import QaProfile, Runner

REPORT_FOLDER: Final = ".pm-report"
_REPORT: Final = f"{WORKSPACE}/{REPORT_FOLDER}/report"
_SHELL: Final = re.compile(r"[;&|<>$`\\\n\r\0(){}*?!#~\[\]]")
_PATTERN: Final = re.compile(r"[\w.*?/-]+")


class Refusal(NamedTuple):
    """Why nothing is run: `reason` is for `not_testable`, `detail` names what was asked for."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowLists:
    """What the server allows. `images` are patterns (`*`), commands are beginnings in whole words."""

    images: tuple[str, ...]
    commands: tuple[str, ...]
    build_commands: tuple[str, ...] = ()
    build_network: bool = False
    default_images: tuple[tuple[Runner, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is run. `shown` is the command for people.

    `told_by_output`: tests are named in the output. `reporting`: the runner is known, so that every run must report.
    """

    runner: Runner
    image: str
    command: tuple[str, ...]
    shown: str
    probe: str
    reports: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    build: tuple[tuple[str, ...], ...] = ()
    build_network: bool = False
    told_by_output: bool = False
    reporting: bool = False

    @property
    def steering(self) -> frozenset[str]:
        """The files of the tree that the command starts, as far as it names them."""
        make = ("GNUmakefile", "makefile", "Makefile") if self.command[0] == "make" else ()
        package = ("package.json",) if self.command[0] in {"npm", "npx", "yarn", "pnpm"} else ()
        return frozenset((*(word.removeprefix("./") for word in self.shown.split()), *make, *package))

    def only(self, files: Sequence[str]) -> Plan | None:
        """The plan for these test files alone, where the runner can be told."""
        text = narrowed(self.shown, files)
        return None if text is None else replace(self, shown=text, command=_started(text, self.command).command)


class _Usual(NamedTuple):
    command: str
    probe: str
    reports: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


_USUAL: Final[Mapping[str, _Usual]] = {
    runner: _Usual(row["command"], row["probe"], tuple(row["reports"]), tuple(row["environment"].items()))
    for runner, row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}


def normal_image(name: str) -> str:
    """The full name of an image: `python:3.12` is `docker.io/library/python:3.12`."""
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif "." not in first and ":" not in first and first != "localhost":
        name = f"docker.io/{name}"
    return name if "@" in name or ":" in name.rpartition("/")[2] else f"{name}:latest"


def plan_of(asked: Any, lists: AllowLists) -> Plan | Refusal:
    """What is run for the `qa_profile` of a trace (a name, an object, or None for pytest)."""
    profile = _profile(asked)
    if isinstance(profile, Refusal):
        return profile
    image = normal_image(profile.image or dict(lists.default_images).get(profile.runner, ""))
    if not any(fnmatchcase(image, _image_pattern(pattern)) for pattern in lists.images):
        return Refusal("policy", f"the image {image!r} is not on this server's list (qa.images)")
    usual = _USUAL[profile.runner]
    text = (profile.command or usual.command).strip()
    if not text:
        return Refusal("policy", "a custom profile needs a command")
    command = _allowed(text, lists.commands)
    if command is None:
        return Refusal("policy", f"the command {text!r} is not on this server's list (qa.commands)")
    build = []
    for line in profile.build:
        words = _allowed(line, lists.build_commands)
        if words is None:
            return Refusal("policy", f"the build command {line!r} is not on this server's list (qa.build_commands)")
        build.append(words)
    if profile.network and not lists.build_network:
        return Refusal("policy", "the build asks for the network, and this server gives it none (qa.build_network)")
    reports = (*profile.reports, *usual.reports)
    wrong = next((report for report in reports if _PATTERN.fullmatch(report) is None or ".." in report), None)
    if wrong is not None:
        return Refusal("policy", f"{wrong!r} is no place for a report")
    return _with_reports(profile, image, command, tuple(build), tuple(dict.fromkeys(reports)), text)


def _with_reports(
    profile: QaProfile,
    image: str,
    command: tuple[str, ...],
    build: tuple[tuple[str, ...], ...],
    reports: tuple[str, ...],
    text: str,
) -> Plan:
    usual, started = _USUAL[profile.runner], _started(text, command)
    return Plan(
        runner=profile.runner,
        image=image,
        command=started.command,
        shown=text,
        probe=usual.probe,
        reports=(f"{REPORT_FOLDER}/*", *reports),
        environment=tuple({**dict(usual.environment), **started.launch.variables}.items()),
        build=build,
        build_network=profile.network,
        told_by_output=started.launch.told_by_output,
        reporting=bool(started.launch.runners),
    )


class _Started(NamedTuple):
    command: tuple[str, ...]
    launch: Launch


def _started(text: str, command: Sequence[str]) -> _Started:
    """The command with its runner made to report: words, or one line for the shell as it is allowed."""
    launch = plan_launch(text, report=_REPORT, bash=None, starter="")
    shell = tuple(command[:2]) == ("sh", "-c")
    return _Started(("sh", "-c", launch.argv[-1]) if shell else tuple(shlex.split(launch.argv[-1])), launch)


def _image_pattern(entry: str) -> str:
    """An entry of the list in full; a `*` stands for any tag too (`acme/*`), and alone for any image."""
    if entry == "*":
        return entry
    full = normal_image(entry)
    return full.removesuffix(":latest") if "*" in entry and not entry.endswith(":latest") else full


def _profile(asked: Any) -> QaProfile | Refusal:
    if asked is None:
        return QaProfile(runner="pytest")
    try:
        return QaProfile.model_validate({"runner": asked} if isinstance(asked, str) else asked)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        return Refusal("profile", f"qa_profile cannot be read: {place}: {first['msg']}")


def _allowed(text: str, allowed: Sequence[str]) -> tuple[str, ...] | None:
    """The words to run; None where no entry allows them."""
    text = text.strip()
    if _SHELL.search(text) is None:
        try:
            words = tuple(shlex.split(text))
        except ValueError:
            words = ()
        for entry in allowed:
            start = tuple(entry.split())
            if words and (entry == "*" or words[: len(start)] == start):
                return words
    if text and ("*" in allowed or text in allowed):
        return ("sh", "-c", text)
    return None
