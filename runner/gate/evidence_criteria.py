"""Q1, Q5-Q10: claims hold, the change was made, nothing is left open, checks pass unweakened, nothing is harmed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from runner.gate.answer_text import Answer, Prose, read_answer
from runner.gate.criterion import (
    NOT_TRUSTED,
    ChangedFile,
    CommandKind,
    CommandResult,
    Evidence,
    Finding,
    Harm,
    HarmKind,
    NotVerified,
    Place,
    Question,
    SuiteEvidence,
    at,
    finding_of,
)
from runner.gate.file_roles import is_test_file
from runner.gate.languages import by_path
from runner.gate.report import has_changed, report_places
from runner.gate.wording import Words, later, pattern, tables
from runner.project_settings import ini_section, json_object, toml_table
from tracer.redaction.cuts import beginning

_ENDED_BADLY = {
    "INCOMPLETE": "the agent ended before it was done",
    "ERROR": "the agent ended in an error",
    "BLOCKED": "the agent says it is blocked",
}


def q1_files(evidence: Evidence) -> Finding:
    """Every file the task expects or the answer claims exists on disk, inside the workspace, not empty."""
    places: list[Place] = []
    change = evidence.kind == "change"
    for claim in evidence.claims:
        if claim.source == "request":
            continue
        name = "claimed" if claim.source == "answer" else "expected"
        if not claim.inside:
            places.append(_claim(claim.path, f"{name} file is outside the workspace", "work inside the workspace"))
        elif not claim.exists and claim.changed and claim.source == "answer":
            continue  # the old name of a file that this task renamed or deleted
        elif not claim.exists:
            places.append(_claim(claim.path, f"{name} file does not exist", "create the file, or do not claim it"))
        elif claim.size == 0 and claim.path.rsplit("/", 1)[-1] not in _MAY_BE_EMPTY:
            places.append(_claim(claim.path, f"{name} file is empty", "write the content that was asked for"))
        elif change and claim.source == "answer" and not claim.changed:
            told = "file claimed as changed is unchanged"
            places.append(_claim(claim.path, told, "make the change, or do not claim it"))
    return finding_of(places)


_MAY_BE_EMPTY = frozenset({"__init__.py", ".gitkeep", ".keep", ".nojekyll", "py.typed", ".env", ".gitignore"})


def _claim(path: str, message: str, suggestion: str) -> Place:
    return at("claimed_file", message, path=path, suggestion=suggestion)


def q5_evidence(evidence: Evidence) -> Finding:
    """A change task has verified changes on disk; a question has a non-empty answer."""
    change = evidence.kind == "change"
    if not evidence.answer.strip() and not (change and evidence.files):
        advice = "say in words what was found or done" if evidence.files else "answer the request"
        return finding_of([at("empty_answer", "the answer is empty", suggestion=advice)])
    if not change or has_changed(evidence):
        return finding_of(())
    return finding_of([at("no_change", "no file was changed", suggestion="make the change in the workspace")])


def q6_termination(evidence: Evidence) -> Finding:
    """The agent's own "done" is not evidence; leaving the rest to the user is no end."""
    places: list[Place] = []
    if evidence.status != "COMPLETE" or evidence.error_kind is not None:
        told = _ENDED_BADLY.get(evidence.status, f"the answer did not come whole ({evidence.error_kind or 'no end'})")
        places.append(at("status", told, suggestion="finish the task"))
    places.extend(report_places(evidence))
    answer = read_answer(evidence.answer)
    if evidence.kind == "change" and evidence.report is None:
        places += _left_open(answer.prose)
    if (cut := _stops_short(answer)) is not None:
        places.append(cut)
    return finding_of(places)


_HANDED_BACK = Words("unfinished", "handed_back")
_TICKED = later(r"^\s*[-*+]\s+(?:\[[xX]\]|✅|☑)")
_UNTICKED = later(r"^\s*[-*+]\s+(?:\[ \]|⬜|☐)")
_OPEN_END = later(r"(?:[,:，、：]|\b(?:and|or|the|a|an|to|of|with|und|oder|et|ou|y|o))\s*$", re.IGNORECASE)
_FEW_WORDS = 5


def _left_open(prose: Sequence[Prose]) -> Iterator[Place]:
    """Items of a check list that are not ticked beside ones that are, and work handed back in so many words."""
    ticked = any(_TICKED.match(line.text) for line in prose)
    for line in prose:
        if (ticked and _UNTICKED.match(line.text)) or _HANDED_BACK.search(line.text[:2000]):
            advice = "do this work yourself, now"
            yield at("early_end", "leaves work to the user", line=line.line, excerpt=line.raw, suggestion=advice)


def _stops_short(answer: Answer) -> Place | None:
    """The last line is prose and stops where more must come."""
    last = next((line for line in reversed(answer.prose) if line.raw.strip()), None)
    if last is None or last.raw.lstrip()[:1] in {"#", "|", ">"} or len(last.raw.split()) < _FEW_WORDS:
        return None
    if any(fence.line > last.line for fence in answer.fences) or not _OPEN_END.search(last.raw):
        return None
    advice = "finish the answer, and the work if it stops there too"
    told = "the answer stops in the middle of a sentence"
    return at("cut", told, line=last.line, excerpt=last.raw, suggestion=advice)


# Q7-Q9
_NAMES = pattern("evidence_criteria", "names")
_SKIP = pattern("evidence_criteria", "skip")
_ASSERT = pattern("evidence_criteria", "assert")
_EMPTY_ASSERT = pattern("evidence_criteria", "empty_assert")


@cache
def _steering() -> dict[str, dict[str, Any]]:
    """By kind of command: the `tools` whose settings steer it, its settings `files`, and the `scripts` of node."""
    rows = tomllib.loads(Path(__file__).with_name("goalposts.toml").read_text(encoding="utf-8"))
    for row in rows.values():
        row |= {"files": re.compile(rf"(?:^|/)(?:{'|'.join(row['files'])})$"), "scripts": re.compile(row["scripts"])}
    return rows


def moved_goalposts(evidence: Evidence, kind: CommandKind) -> list[Place]:
    """The tests (for `test`) and settings of the checks of `kind` that this task took back; empty where allowed.

    Where the tests were held against the base, their settings were as before and need no look.
    """
    if evidence.tests_policy in {"change", "allowed"}:
        return []
    settings = () if kind == "test" and evidence.tests is not None else _settings(evidence, kind)
    return [*(_tests(evidence) if kind == "test" else ()), *settings]


def _tests(evidence: Evidence) -> Iterator[Place]:
    @cache
    def kept() -> set[str]:
        return {name for file in evidence.files if file.after is not None for name in tests_in(_text(file.after))}

    for file in evidence.files:
        if file.before is None or not is_test_file(file.path) or file.before == file.after:
            continue
        before = tests_in(_text(file.before))
        after = tests_in(_text(file.after)) if file.after is not None else {}
        gone = [test for test in before if test not in after and test not in kept()]
        if file.after is None and (gone or not before):
            yield _place(file.path, "test file deleted" + (f" ({', '.join(gone[:5])})" if gone else ""))
            continue
        for test in gone:
            yield _place(file.path, f"test {test!r} deleted")
        yield from _weakened(file, before, after)


def _weakened(file: ChangedFile, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Place]:
    if (line := skip_in(file)) is not None:
        yield _place(file.path, "tests skipped", line)
    for test, body in after.items():
        if test not in before:
            continue
        lost = len(_ASSERT.findall(before[test])) - (len(_ASSERT.findall(body)) - len(_EMPTY_ASSERT.findall(body)))
        if lost > len(_EMPTY_ASSERT.findall(before[test])):
            yield _place(file.path, f"test {test!r} weakened ({lost} assertion{'s' if lost > 1 else ''} fewer)")


def skip_in(file: ChangedFile) -> int | None:
    """The first line that skips a test, where more of them do than before."""
    old, new = _text(file.before), _text(file.after)
    lines = (number for number, text in enumerate(new.split("\n"), 1) if _SKIP.search(text) and text not in old)
    return next(lines, 1) if len(_SKIP.findall(new)) > len(_SKIP.findall(old)) else None


def _place(path: str, message: str, line: int | None = None) -> Place:
    advice = "put it back and make the code meet it; changing tests has to be allowed (--tests change)"
    return at("goalposts", message, path=path, line=line, suggestion=advice)


def tests_in(text: str) -> dict[str, str]:
    """Each test's name and the text from it to the next one."""
    found = list(_NAMES.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {_named(match): text[match.start() : end] for match, end in zip(found, ends, strict=True)} if found else {}


def names_of_tests(text: str) -> Iterator[str]:
    """The names of its tests, also where two have the same."""
    return map(_named, _NAMES.finditer(text))


def _named(match: re.Match[str]) -> str:
    return next(value for key, value in match.groupdict().items() if value and key != "quote")


def _settings(evidence: Evidence, kind: CommandKind) -> Iterator[Place]:
    named = "|".join((*_steering()[kind]["tools"], "settings?", r"configur\w+", "config"))
    if re.search(rf"(?i)\b(?:{named})\b", evidence.request):
        return
    for file in evidence.files:
        if file.before is None or file.before == file.after or file.path.rsplit("/", 1)[-1] in evidence.request:
            continue
        if _steering()[kind]["files"].search(file.path):
            yield _place(file.path, f"settings of the {kind} command changed")
        elif changed := _changed_tables(file, kind):
            yield _place(file.path, f"settings of the {kind} command changed ({changed})")


def _changed_tables(file: ChangedFile, kind: CommandKind) -> str:
    tools, scripts_of = _steering()[kind]["tools"], _steering()[kind]["scripts"]
    name = file.path.rsplit("/", 1)[-1]
    old, new = _text(file.before), _text(file.after)
    if name == "pyproject.toml":
        before, after = toml_table(old).get("tool", {}), toml_table(new).get("tool", {})
        return ", ".join(f"tool.{tool}" for tool in tools if tool in before and before[tool] != after.get(tool))
    if name == "package.json":
        before, after = json_object(old), json_object(new)
        keys = [tool for tool in tools if tool in before and before[tool] != after.get(tool)]
        scripts, now = before.get("scripts", {}), after.get("scripts", {})
        if isinstance(scripts, dict) and isinstance(now, dict):
            keys += [f"scripts.{key}" for key in scripts if scripts_of.search(key) and scripts[key] != now.get(key)]
        return ", ".join(keys)
    if name == "setup.cfg":
        return ", ".join(tool for tool in tools if ini_section(old, tool) not in {"", ini_section(new, tool)})
    return ""


def _text(content: bytes | None) -> str:
    return (content or b"").decode("utf-8", "replace")


_NOUN: dict[CommandKind, str] = {"test": "test", "lint": "lint", "typecheck": "type-check"}
_ID: dict[CommandKind, str] = {"test": "Q7", "lint": "Q8", "typecheck": "Q9"}
_NAMED = 5
_TAIL_LINES = 5


def q7_test(evidence: Evidence) -> Finding:
    """The tests pass on a clean copy, held against what they expected before the task."""
    tests = evidence.tests
    if tests is None:
        return _check(evidence, "test")
    if tests.expectations:
        changed = list(dict.fromkeys(place.path for place in tests.expectations))
        why = f"the task changed what tests expect: {', '.join(changed[:_NAMED])}"
        following = "look at old and new and allow them, or run with --tests change"
        unsettled = NotVerified(ran=True, why=why, next=following)
        text = f"The tests pass only as the task changed them ({', '.join(changed[:_NAMED])}). Are the new ones right?"
        return Finding(passed=True, not_verified=unsettled, needs_person=True, question=Question(text=text, by="gate"))
    places = [*_test_faults(tests), *tests.bought]
    if evidence.tests_policy == "frozen":
        touched = (file for file in evidence.files if is_test_file(file.path) and file.before != file.after)
        places += [_place(file.path, "a test was changed, and --tests frozen allows none") for file in touched]
    places += [] if tests.held else moved_goalposts(evidence, "test")
    if places:
        return finding_of(places)
    if tests.asks and evidence.tests_policy != "allowed":
        why = f"{tests.asks[0].path}: {tests.asks[0].message}" if tests.asks[0].path else tests.asks[0].message
        unsettled = NotVerified(ran=True, why=why, next="look at it and allow it")
        question = Question(text=f"The tests pass, but {why}. Is that right?", by="gate")
        return Finding(passed=True, places=tests.asks, not_verified=unsettled, needs_person=True, question=question)
    if tests.not_verified is not None:
        ran = bool(tests.passed or tests.failed or tests.skipped)
        return Finding(passed=True, not_verified=tests.not_verified._replace(ran=ran))
    changed = [file.path for file in evidence.files if file.before != file.after]
    code = any((known := by_path(path)) is not None and known.functions for path in changed)
    allowed = any(map(is_test_file, changed))  # what they expect
    if "Q7" in evidence.require and code and not allowed and not tests.fixed and tests.new <= len(tests.idle):
        told = NotVerified(ran=True, why="no test shows the change", next="add a test that fails without it")
        return Finding(passed=True, not_verified=told)
    return Finding(passed=True, reason=passed_text(tests))


def _test_faults(tests: SuiteEvidence) -> Iterator[Place]:
    tail = "\n".join([line for line in tests.output_tail.strip().split("\n") if line.strip()][-_TAIL_LINES:])
    steered = f" (the task changed {', '.join(tests.harness[:_NAMED])})" if tests.harness else ""
    before = "tests fail with tests and harness as before the task"
    told = (
        (tests.broken, before, "make the code meet them as they were"),
        (tests.failing, f"tests fail in {tests.command}", "correct what the tests report; do not weaken them"),
        (tests.unfixed, "tests that failed before the task still fail", "make the code meet them"),
        (tests.removed, "tests that ran before do not run any more", "put them back"),
    )
    for names, what, advice in told:
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            message = f"{what}{steered}: {', '.join(names[:_NAMED])}{more}"
            yield Place(type="tests", message=message, excerpt=beginning(tail, 1000), suggestion=advice)
    if tests.fault:
        said = f"{tests.fault}{steered}" + (f" ({tests.told})" if tests.told else "")
        yield Place(type="tests", message=said, excerpt=beginning(tail, 1000), suggestion="correct what it reports")


def passed_text(tests: SuiteEvidence) -> str:
    """`42 passed, 3 new, 1 of them passes without the change as well; not isolated: …`."""
    text = f"{tests.passed} passed" + (f", {tests.new} new" if tests.new else "")
    if tests.idle:
        named = ", ".join(tests.idle[:_NAMED])
        text += f", {len(tests.idle)} of them prove nothing (they pass without the change: {named})"
    if tests.still_failing:
        named = ", ".join(tests.still_failing[:_NAMED])
        text += f", {len(tests.still_failing)} fail as before the task and are none of its own ({named})"
    text += "; flaky: failed once, passed when repeated" if tests.flaky else ""
    return text + (f"; not isolated: {tests.not_isolated}" if tests.not_isolated else "")


def q8_lint(evidence: Evidence) -> Finding:
    """The lint command exits 0."""
    return _check(evidence, "lint")


def q9_typecheck(evidence: Evidence) -> Finding:
    """The type-check command exits 0."""
    return _check(evidence, "typecheck")


def _check(evidence: Evidence, kind: CommandKind) -> Finding:
    results = [result for result in evidence.commands if result.kind == kind]
    not_run = evidence.not_checked.get(kind)
    if not results and not_run is None:
        reason = f"no {_NOUN[kind]} command is configured or was detected"
        if _ID[kind] in evidence.require:
            return Finding(passed=True, not_verified=NotVerified(why=reason, next=f"--{kind} CMD"))
        return Finding(passed=False, reason=reason, places=(at("command", reason),))
    faults = [fault for result in results if (fault := _fault(result)) is not None]
    moved = moved_goalposts(evidence, kind)
    if not_run == NOT_TRUSTED and not faults and moved:  # not in force, so that nothing was got round
        told = f"{NOT_TRUSTED.why}; {finding_of(moved).reason}"
        return Finding(passed=True, not_verified=NOT_TRUSTED._replace(why=told))
    if faults or moved:
        reasons = [*(reason for reason, _ in faults), *([finding_of(moved).reason] if moved else ())]
        return Finding(passed=False, reason="; ".join(reasons), places=(*(place for _, place in faults), *moved))
    if not_run is not None:
        return Finding(passed=True, not_verified=not_run)
    flaky = [result.command for result in results if result.flaky]
    return Finding(passed=True, reason=f"flaky: failed once, passed when repeated: {flaky[0]}" if flaky else "")


def _fault(result: CommandResult) -> tuple[str, Place] | None:
    if result.exit_code == 0 and not result.timed_out:
        return None
    reason = f"{result.command} exited {result.exit_code}"
    advice = "correct what the command reports; do not weaken the check"
    if result.timed_out:
        reason, advice = f"{result.command}: stopped after {result.duration_s:.0f} s", "make the command end in time"
    elif result.exit_code is None:
        reason, advice = f"{result.command}: did not end by itself", "run it yourself and correct what it shows"
    if result.failing:
        more = len(result.failing) - _NAMED
        reason += ": " + ", ".join(result.failing[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    tail = [line for line in result.output_tail.strip().split("\n") if line.strip()][-_TAIL_LINES:]
    if tail:
        reason += f" ({' | '.join(beginning(line.strip(), 200) for line in tail[-2:])})"
    place = Place(type="command", message=reason, excerpt=beginning("\n".join(tail), 1000), suggestion=advice)
    return reason, place


# Q10: only work that is in no commit can be lost, and a file may go where somebody names it.
_FILE_HARM: frozenset[HarmKind] = frozenset({"deleted", "reset", "overwritten", "outside"})
_FORBIDDEN_GIT = Words("git_orders", "forbidden")
_GIT_ORDERS = {
    kind: Words("git_orders", kind)
    for kind in ("repository", "head", "commits", "history", "ref", "stash", "config", "hook")
}
# What is said of each, and what would mend it.
_HARMS: dict[str, tuple[str, str]] = tables()["harms"]


def q10_collateral(evidence: Evidence) -> Finding:
    """Nothing of the user's is harmed that the request does not order and nobody names."""
    told, advice = "changed a file of the orchestrator ({})", "leave the state directory alone"
    ends = dict.fromkeys(evidence.protected_changes, "undone") | dict.fromkeys(evidence.lost_records, "lost for good")
    places = [at("protected", told.format(end), path=path, suggestion=advice) for path, end in ends.items()]
    for harm in [one for one in evidence.harm if not _is_allowed(one, evidence)]:
        path = harm.what if harm.kind in _FILE_HARM or harm.kind in {"config", "hook"} else None
        advised = _HARMS[harm.kind][1].format(what=harm.what, before=harm.before or "what it was")
        places.append(at(harm.kind, _harm_text(harm), path=path, suggestion=advised))
    finding = finding_of(places)
    if evidence.harm_unknown and finding.passed:
        unknown = NotVerified(why=evidence.harm_unknown, next="look at git status, git log and git stash list yourself")
        return Finding(passed=True, not_verified=unknown)
    return finding


def _harm_text(harm: Harm) -> str:
    """What happened, without the path of a file."""
    done = "created" if not harm.before else "deleted" if not harm.after else f"moved from {harm.before}"
    kind = "branch or tag " if harm.kind == "ref" else ""
    return kind + _HARMS[harm.kind][0].format(
        what=harm.what, before=harm.before or "nothing", after=harm.after or "nothing", done=done
    )


def _is_allowed(harm: Harm, evidence: Evidence) -> bool:
    if harm.kind in _FILE_HARM:
        return _is_named(harm.what, f"{evidence.request}\n{evidence.answer}")
    return bool(_GIT_ORDERS[harm.kind].search(evidence.request)) and not _FORBIDDEN_GIT.search(evidence.request)


def _is_named(path: str, text: str) -> bool:
    """Whether the file, a folder above it, or a pattern such as `*.log` that it matches, stands in the text."""
    pure = PurePosixPath(path)
    names = {path, pure.name, *(str(folder) for folder in pure.parents if folder.name)}
    alternatives = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    if re.search(rf"(?<![\w./-])(?:\./)?(?:{alternatives})/?(?![\w/-]|\.\w)", text):
        return True
    return any(fnmatch(pure.name, word) or fnmatch(path, word) for word in re.findall(r"[\w./-]*\*[\w.*/-]+", text))
