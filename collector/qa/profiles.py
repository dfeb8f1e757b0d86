"""What is run by a trace's QA profile: image, commands, probe and reports, checked against the allowed lists. Pure.

A command is words, never a shell line, unless the list allows exactly that line or everything (`*`): an allowed
beginning cannot carry more behind a semicolon. A profile is assigned by somebody, sent with the trace, read from
`.pm-orchestrator/qa.toml` of the base, or made from the test runs that were recorded; the first of these there is.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import JsonValue, ValidationError

from collector.errors import ForbiddenError
from collector.qa.sandbox.script import WORKSPACE
from collector.recorder.command_lines import read_line
from runner.checks.command_line import is_script, narrowed, plan_launch
from runner.project_settings import package_scripts
from tracer.capture.wire import PROFILE_FILE, QaProfile, Runner
from tracer.clock import from_epoch_ms
from tracer.errors import UsageError
from tracer.redaction.cuts import beginning
from tracer.redaction.marks import PLACEHOLDER

REPORT_FOLDER: Final = ".pm-report"
_REPORT: Final = f"{WORKSPACE}/{REPORT_FOLDER}/report"
_SHELL: Final = re.compile(r"[;&|<>$`\\\n\r\0(){}*?!#~\[\]]")
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
_PATTERN: Final = re.compile(r"[\w.*?/-]+")
# A folder below the workspace, and a line that begins with a change to it: what follows is checked by itself.
_PART: Final = r"(?!\.\.?(?:/|\s|\Z))[\w.][\w.-]*"
_FOLDER: Final = re.compile(rf"{_PART}(?:/{_PART})*")
_CHANGING: Final = re.compile(rf"cd ({_FOLDER.pattern}) && ")
_WRAPPING: Final = 3  # words before a test's own that are taken for a wrapper of it: `uv run pytest`


class Refusal(NamedTuple):
    """Why nothing is run: `reason` is for `not_testable`, `detail` names what was asked for."""

    reason: str
    detail: str


def not_testable(runner: str, refusal: Refusal, *, detail: Mapping[str, JsonValue] | None = None) -> dict[str, Any]:
    """The `qa.tests` of a trace whose tests could not be run."""
    told: dict[str, JsonValue] = {**(detail or {}), "why": beginning(refusal.detail, 2000)}
    return {"runner": runner, "final_passed": None, "not_testable": refusal.reason, "detail": told}


def code_withdrawn(metadata: Mapping[str, Any]) -> Refusal | None:
    """Why a trace's code is gone, where its developer withdrew consent to it."""
    withdrawn = metadata.get("withdrawn") or {}
    if "store_raw_code" not in withdrawn.get("flags", ()):
        return None
    day = from_epoch_ms(withdrawn["at_ms"])[:10]
    return Refusal("consent", f"its code is gone: consent to it (store_raw_code) was withdrawn on {day}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowLists:
    """What the server allows. `images` are patterns (`*`), commands are beginnings in whole words."""

    images: tuple[str, ...]
    commands: tuple[str, ...]
    build_commands: tuple[str, ...] = ()
    build_network: bool = False
    default_images: tuple[tuple[Runner, str], ...] = ()


Scripts = Mapping[str, Mapping[str, str]]
"""The scripts of a repository's packages, by the folder of each (empty: its root)."""
_PACKAGE: Final = "package.json"


def package_files(commands: Iterable[str]) -> tuple[str, ...]:
    """Where the package.json may be of the folders that the commands change to: there, and in each folder above."""
    folders = [above for folder, _ in map(_apart, commands) for above in _upward(folder)]
    return tuple(dict.fromkeys(posixpath.join(folder, _PACKAGE) for folder in [*folders, ""]))


def scripts_of(files: Mapping[str, bytes]) -> Scripts:
    """The scripts of each package.json among the files."""
    found = {posixpath.split(path): content for path, content in files.items()}
    return {folder: package_scripts(content) for (folder, name), content in found.items() if name == _PACKAGE}


def _upward(folder: str) -> list[str]:
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:length]) for length in range(len(parts), -1, -1)]


class _Placed(NamedTuple):
    """The folder that a command is run in, the rest of it, and the scripts that it may start there."""

    folder: str
    rest: str
    scripts: Mapping[str, str]


def _placed(text: str, scripts: Scripts) -> _Placed:
    """A script is that of the nearest package, which may stand above, and is run in its folder."""
    folder, rest = _apart(text)
    package = next((above for above in _upward(folder) if above in scripts), folder)
    if package != folder and (_is_for_shell(rest) or not is_script(rest.split())):
        return _Placed(folder, rest, {})
    return _Placed(package, rest, scripts.get(package, {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is run: `commands` as they were asked for, `command` as it is started.

    `told_by_output`: tests are named in the output. `reporting`: the runner is known, so that every run must report.
    `setup` is run once for the same lock files. `scripts` are those of the base. `origin` says whose profile it is.
    """

    runner: Runner
    image: str
    command: tuple[str, ...]
    commands: tuple[str, ...]
    probe: str
    reports: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    build: tuple[tuple[str, ...], ...] = ()
    build_network: bool = False
    setup: tuple[tuple[str, ...], ...] = ()
    setup_network: bool = False
    timeout_s: float | None = None
    told_by_output: bool = False
    reporting: bool = False
    scripts: Scripts = field(default_factory=dict)
    origin: str = ""

    @property
    def shown(self) -> str:
        """The commands for people."""
        return "; ".join(self.commands)

    @property
    def steering(self) -> frozenset[str]:
        """The files of the tree that the commands start, as far as they name them."""
        return steering_of(self.commands)

    def only(self, files: Sequence[str]) -> Plan | None:
        """The plan for these test files alone, where a runner can be told."""
        found = alone(self.commands, files, scripts=self.scripts)
        return replace(self, commands=found[0], command=found[1]) if found is not None else None

    def as_json(self) -> dict[str, JsonValue]:
        """For the record, and for who sets up the same environment elsewhere."""
        return {
            "from": self.origin,
            "image": self.image,
            "commands": list(self.commands),
            "setup": [shlex.join(words) for words in self.setup],
            "build": [shlex.join(words) for words in self.build],
            "command": list(self.command),
            "reports": list(self.reports),
            "environment": dict(self.environment),
            "told_by_output": self.told_by_output,
        }


def steering_of(commands: Sequence[str]) -> frozenset[str]:
    """As `Plan.steering`, of commands alone."""
    found: set[str] = set()
    for folder, rest in map(_apart, commands):
        words = rest.split()
        make = ("GNUmakefile", "makefile", "Makefile") if "make" in words else ()
        for name in (*(word.removeprefix("./") for word in words), *make):
            found |= {name, f"{folder}/{name}"} if folder else {name}
        if not {"npm", "npx", "yarn", "pnpm"}.isdisjoint(words):
            found |= {posixpath.join(above, _PACKAGE) for above in _upward(folder)}
    return frozenset(found)


def alone(
    commands: Sequence[str], files: Sequence[str], *, scripts: Scripts
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The commands for these test files alone, and how they are started; None where no runner can be told."""
    texts: list[str] = []
    for folder, rest, own in (_placed(text, scripts) for text in commands):
        within = f"{folder}/" if folder else ""
        below = [path.removeprefix(within) for path in files if path.startswith(within)]
        text = narrowed(rest, below, scripts=own)
        texts += [_in_folder(folder, text)] if text is not None else []
    return (tuple(texts), _started(texts, scripts).command) if texts else None


_USUAL: Final[Mapping[Any, Mapping[str, Any]]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
"""How each runner's tests are usually run."""


class Seen(NamedTuple):
    """A test run of the session: its command line, the runner it was taken for, whether it passed.

    `cwd` is the folder it was started in, `root` the workspace's.
    """

    command: str
    runner: Runner
    passed: bool
    cwd: str = ""
    root: str = ""


def seen_runs(events: Iterable[Mapping[str, Any]]) -> Iterator[Seen]:
    """The test runs among a session's events; where each was started its command tells."""
    folders: dict[str, str] = {}
    for event in events:
        payload, context = event["payload"], event.get("context") or {}
        if event["type"] == "terminal_command":
            folders[event["event_id"]] = str(payload.get("cwd") or "")
        elif event["type"] == "test_run":
            cwd = folders.get(str(context.get("parent_event_id")), "")
            root = str(context.get("workspace_root") or "")
            yield Seen(str(payload["command"]), payload["runner"], bool(payload["passed"]), cwd, root)


def recorded_profile(runs: Sequence[Seen]) -> dict[str, Any] | None:
    """What the developer's own test runs propose: of each program that passed, else the last, the fewest words."""
    found: list[tuple[str, str, Seen]] = []
    known: set[str] = set()
    for run in runs:
        test = read_line(run.command).test
        words = test.words if test is not None else tuple(run.command.split())
        plain = _SHELL.search(run.command) is None and len(run.command.split()) <= len(words) + _WRAPPING
        if plain or test is not None:
            folder = _folder_of(run, test.entered if test is not None else ())
            program = f"{run.runner} {words[0].rpartition('/')[2]} {folder}"
            text = run.command.strip() if plain or test is None else test.line
            found.append((program, _in_folder(folder, text), run))
            known |= {program} if test is not None or run.runner != "custom" else set()
    found = [each for each in found if each[0] in known] or found
    chosen = [each for each in found if each[2].passed] or [each for each in found if each[0] == found[-1][0]]
    widest: dict[str, Seen] = {}
    for program, text, run in chosen:
        if program not in widest or len(text.split()) <= len(widest[program].command.split()):
            widest[program] = run._replace(command=text)
    if not widest:
        return None
    kinds = {run.runner for run in widest.values()}
    return {
        "runner": kinds.pop() if len(kinds) == 1 else "custom",
        "commands": [run.command for run in widest.values()],
    }


def _folder_of(run: Seen, entered: Sequence[str]) -> str:
    """The folder of the workspace that the tests ran in; empty: its root, or nobody can tell."""
    at = run.cwd or run.root
    for folder in entered:
        if run.root and f"{folder}/".startswith(f"{run.root}/"):
            at = folder
        elif folder.startswith(("~", "-")) or "$" in folder:
            return ""
        else:
            at = posixpath.normpath(posixpath.join(at, folder))
    inside = at.removeprefix(f"{run.root}/") if run.root else at
    return inside if _FOLDER.fullmatch(inside) else ""


def _in_folder(folder: str, text: str) -> str:
    return f"cd {folder} && {text}" if folder else text


def _apart(text: str) -> tuple[str, str]:
    """The folder of the workspace that a command line changes to first (empty: none), and the rest of it."""
    found = _CHANGING.match(text)
    return (found[1], text[found.end() :]) if found is not None else ("", text)


def repository_profile(data: bytes, *, name: str = PROFILE_FILE) -> dict[str, Any] | Refusal:
    """The `[qa]` table of a repository's qa.toml, or of another file."""
    try:
        table = tomllib.loads(data.decode("utf-8")).get("qa")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Refusal("profile", f"{name} cannot be read: {error}")
    if not isinstance(table, dict):
        return Refusal("profile", f"{name} has no [qa] table")
    if PLACEHOLDER.search(repr(table).encode()):
        return Refusal("redacted", f"something in {name} was replaced by redaction")
    return table


def profile_text(profile: Mapping[str, Any]) -> str:
    """A profile as qa.toml."""
    lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in profile.items() if value)
    return "\n".join(("[qa]", *lines, ""))


def normal_image(name: str) -> str:
    """The full name of an image: `python:3.12` is `docker.io/library/python:3.12`."""
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif "." not in first and ":" not in first and first != "localhost":
        name = f"docker.io/{name}"
    return name if "@" in name or ":" in name.rpartition("/")[2] else f"{name}:latest"


def plan_of(
    asked: Any,
    lists: AllowLists,
    *,
    scripts: Scripts | None = None,
    approved: bool = False,
    name: str = "qa_profile",
) -> Plan | Refusal:
    """What is run for the `qa_profile` of a trace (a name, an object, or None for pytest).

    What an operator has `approved` needs to be on no list. `scripts` are those of the base. `name` is what the profile
    is called where it cannot be read.
    """
    profile = read_profile(asked, name=name)
    if isinstance(profile, Refusal):
        return profile
    usual, texts = _USUAL[profile.runner], commands_of(profile)
    if not all(texts):
        return Refusal("policy", "a custom profile needs a command")
    every = ("*",)
    known = not (approved and profile.image) and lists.images
    image = normal_image(profile.image or dict(lists.default_images).get(_image_runner(profile, texts[0]), ""))
    if known and not any(fnmatchcase(image, _image_pattern(pattern)) for pattern in lists.images):
        return Refusal("policy", f"the image {image!r} is not on this server's list (qa.images)")
    commands = every if approved else lists.commands
    wrong = next((text for text in texts if _allowed(text, commands) is None), None)
    if wrong is not None:
        return Refusal("policy", f"the command {wrong!r} is not on this server's list (qa.commands)")
    ready: dict[str, tuple[tuple[str, ...], ...]] = {}
    for phase, lines in (("setup", profile.setup), ("build", profile.build)):
        found = [_allowed(line, every if approved else lists.build_commands) for line in lines]
        if None in found:
            line = lines[found.index(None)]
            return Refusal("policy", f"the {phase} command {line!r} is not on this server's list (qa.build_commands)")
        ready[phase] = tuple(words for words in found if words is not None)
    if profile.network and not lists.build_network:
        return Refusal("policy", "the build asks for the network, and this server gives it none (qa.build_network)")
    reports = [*profile.reports, *usual["reports"]]
    folders = {folder: None for text in texts for folder in (_apart(text)[0], _placed(text, scripts or {}).folder)}
    reports += [f"{folder}/{report}" for folder in folders if folder for report in reports]
    bad = next((report for report in reports if _PATTERN.fullmatch(report) is None or ".." in report), None)
    if bad is not None:
        return Refusal("policy", f"{bad!r} is no place for a report")
    started = _started(texts, scripts or {})
    return Plan(
        runner=profile.runner,
        image=image,
        command=started.command,
        commands=tuple(texts),
        probe=usual["probe"],
        reports=(f"{REPORT_FOLDER}/*", *dict.fromkeys(reports)),
        environment=tuple({**usual["environment"], **started.variables}.items()),
        build=ready["build"],
        build_network=profile.network,
        setup=ready["setup"],
        setup_network=lists.build_network,
        timeout_s=profile.timeout,
        told_by_output=started.told_by_output,
        reporting=started.reporting,
        scripts=scripts or {},
    )


def commands_of(profile: QaProfile) -> list[str]:
    """The test commands: the runner's usual one where none is given."""
    return [text.strip() for text in profile.commands or [profile.command or _USUAL[profile.runner]["command"]]]


def check_given(profile: Mapping[str, Any], lists: AllowLists, *, approved: bool) -> None:
    """Let a profile through that somebody gives for a trace; with `approved`, it needs to be on no list.

    Raises ForbiddenError: an operator's approval is needed. Raises UsageError: it cannot be read, or run here.
    """
    refusal = plan_of(profile, lists, approved=approved, name="the profile that was given")
    if not isinstance(refusal, Refusal):
        return
    if not approved and isinstance(plan_of(profile, lists, approved=True), Plan):
        raise ForbiddenError(
            "this profile needs an operator's approval",
            why=refusal.detail,
            next_step="have an operator assign it: over HTTP, or pm capture qa TRACE --profile FILE",
        )
    what = "the profile cannot be run here" if refusal.reason == "policy" else "the profile cannot be read"
    raise UsageError(what, why=refusal.detail, next_step="docs/qa.md lists its keys")


def _image_runner(profile: QaProfile, text: str) -> Runner:
    """Whose default image holds the program that a custom command starts."""
    if profile.runner != "custom":
        return profile.runner
    words = [word for word in _apart(text)[1].split() if word != "env" and _ASSIGNED.match(word) is None]
    return next((runner for runner, usual in _USUAL.items() if words and words[0] in usual["starts"]), "custom")


class _Started(NamedTuple):
    command: tuple[str, ...]
    variables: Mapping[str, str]
    told_by_output: bool
    reporting: bool


def _started(texts: Sequence[str], scripts: Scripts) -> _Started:
    """The commands with their runners made to report: words, or one line for the shell."""
    placed = [_placed(text, scripts) for text in texts]
    found = [
        plan_launch(each.rest, report=f"{_REPORT}{number or ''}", bash=None, starter="", scripts=each.scripts)
        for number, each in enumerate(placed)
    ]
    lines = [_in_folder(each.folder, launch.argv[-1]) for each, launch in zip(placed, found, strict=True)]
    command: tuple[str, ...]
    if len(lines) > 1:  # all of them, also where one fails
        command = ("sh", "-c", " ".join(("s=0;", *(f"( {line}\n) || s=$?;" for line in lines), "exit $s")))
    else:
        command = ("sh", "-c", lines[0]) if _is_for_shell(texts[0]) else tuple(shlex.split(lines[0]))
    return _Started(
        command,
        {name: value for launch in found for name, value in launch.variables.items()},
        any(launch.told_by_output for launch in found),
        all(launch.runners for launch in found),
    )


def _image_pattern(entry: str) -> str:
    """An entry of the list in full; a `*` stands for any tag too (`acme/*`), and alone for any image."""
    if entry == "*":
        return entry
    full = normal_image(entry)
    return full.removesuffix(":latest") if "*" in entry and not entry.endswith(":latest") else full


def read_profile(asked: Any, *, name: str = "qa_profile") -> QaProfile | Refusal:
    """A profile as it was asked for: a runner's name, an object, or None for pytest."""
    if asked is None:
        return QaProfile(runner="pytest")
    try:
        return QaProfile.model_validate({"runner": asked} if isinstance(asked, str) else asked)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        return Refusal("profile", f"{name} cannot be read: {place}: {first['msg']}")


def _is_for_shell(text: str) -> bool:
    """Whether more than words stands there: a sign of the shell's, or variables set for the command."""
    return _SHELL.search(text) is not None or _ASSIGNED.match(text) is not None


def _allowed(text: str, allowed: Sequence[str]) -> tuple[str, ...] | None:
    """The words to run; None where no entry allows them."""
    folder, rest = _apart(text.strip())
    if folder and not _is_for_shell(rest) and _allowed(rest, allowed) is not None:
        return ("sh", "-c", text)
    text = text.strip()
    if not _is_for_shell(text):
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
