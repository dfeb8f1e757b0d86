"""`pm gate`: a change that anybody made is judged as a task's is; `--status` says whether that still holds."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from repl.present.text import count_text, escape
from runner.workspace.changes import Changes, is_excluded
from runner.workspace.git.repository import Beside
from runner.workspace.git.since import Tree, note_output
from tracer.durable import output_file
from tracer.errors import LimitError, NotAcceptedError, UsageError
from tracer.facts import CheckChoice, TestRun
from tracer.unified_diff import count_files
from tracer.verification import tests_text, unverified_text

if TYPE_CHECKING:
    from repl.context import Context
    from runner.change_gate import Gated
    from tracer.settings.layers import Settings

_FORMATS = ("text", "json", "sarif", "junit", "github", "gitlab")


class Wanted(NamedTuple):
    """The change to judge, and where it came from."""

    tree: str
    base: str
    changes: Changes
    by: str
    of_task: bool = False
    since: str | None = None


def gate(context: Context, arguments: Namespace) -> int | Coroutine[Any, Any, int]:
    """A plain value for `--fast` and `--status`: they do without an event loop, which takes 50 ms to load."""
    if sum(bool(one) for one in (arguments.since, arguments.staged, arguments.session)) > 1:
        raise UsageError("--since, --staged and --session exclude each other", next_step="give one of them")
    for flag in ("since", "baseline", "write_baseline"):
        if getattr(arguments, flag) == "":
            raise UsageError(
                f"--{flag.replace('_', '-')} is given without a value",
                why="an empty variable, such as one that this kind of pipeline does not set?",
                next_step="leave the flag out, or give it a value",
            )
    if arguments.write_baseline:
        if arguments.status or arguments.output or arguments.baseline:
            raise UsageError(
                "--write-baseline gives no verdict", next_step="pm gate --baseline FILE, once it is written"
            )
        arguments.fast = True
    if arguments.format == "json" and context.output.human:
        context.output.form = "json"
    if arguments.status:
        return _status(context, arguments)
    if arguments.fast and not arguments.session:
        return _fast(context, arguments)
    return _full(context, arguments)


def _fast(context: Context, arguments: Namespace) -> int:
    began = time.monotonic()
    with Beside() as beside:
        asked = beside.start(_against_git, context, arguments)
        from runner.change_gate import judge_fast  # 50 ms, while git compares

    wanted, settings = asked()
    known = _known(context, arguments)
    options, whole = settings.family("criteria.options"), bool(arguments.write_baseline)
    gated = judge_fast(wanted.changes, options=options, known=known, whole=whole)
    return _close(context, arguments, wanted, gated, began=began)


async def _full(context: Context, arguments: Namespace) -> int:
    import asyncio

    from repl.task_request import task_request
    from runner.change_gate import judge_change, judge_fast
    from runner.workspace.workspace import open_workspace
    from tracer.blobs import DirectoryBlobs

    began = time.monotonic()
    state = context.state_dir.ensure()
    workspace = open_workspace(
        context.folder, state_dir=state.root, blobs=DirectoryBlobs(state.blobs, second=state.second_blobs)
    )
    if arguments.session:
        from repl.commands.gate.hook import session_base

        settings, base = context.settings(), session_base(state, context.environ)
        tree = await asyncio.to_thread(Tree(context.folder, state_dir=state.root).now)
        wanted = Wanted(tree, base, await workspace.changes(base), "gate --session", of_task=True)
    else:
        wanted, settings = await asyncio.to_thread(_against_git, context, arguments)
    known = _known(context, arguments)
    if arguments.fast:
        options, whole = settings.family("criteria.options"), bool(arguments.write_baseline)
        gated = judge_fast(wanted.changes, options=options, known=known, of_task=wanted.of_task, whole=whole)
        return _close(context, arguments, wanted, gated, began=began)
    given = {kind: " && ".join(getattr(arguments, kind) or ()) for kind in ("test", "lint", "typecheck")}
    found = {} if not arguments.since else _commands_of_base(context, arguments, settings)
    request = task_request(
        "",
        settings=settings,
        folder=context.folder,
        executor="gate",
        environ=context.environ,
        interactive=False,
        overrides={**{kind: command for kind, command in given.items() if command}, "kind": "change"},
    )
    if found:
        checks = request.checks
        request = request._replace(checks=CheckChoice({**checks.data, "configured": {**found, **checks.configured}}))
    gated = await judge_change(
        workspace,
        wanted.changes,
        base=wanted.base,
        request=request,
        state_dir=state.root,
        known=known,
        of_task=wanted.of_task,
    )
    return _close(context, arguments, wanted, gated, began=began)


def _against_git(context: Context, arguments: Namespace) -> tuple[Wanted, Settings]:
    state = context.state_dir.ensure()
    tree = Tree(context.folder, state_dir=state.root)
    settings = _policy_at(context, arguments, tree) if arguments.since else context.settings()
    against = arguments.since or "HEAD"
    whole = arguments.write_baseline and not arguments.since and not arguments.staged
    since = tree.since(None if whole else against, staged=arguments.staged)
    left_out = tuple(settings.get("check.exclude") or ())
    files = tuple(file for file in since.changes.files if not is_excluded(file.path, left_out))
    by = f"gate --since {arguments.since}" if arguments.since else "gate --staged" if arguments.staged else "gate"
    return Wanted(since.tree, since.base, since.changes._replace(files=files), by, since=against), settings


def _policy_at(context: Context, arguments: Namespace, tree: Tree) -> Settings:
    """The settings with the project's file as the base has it: a change does not soften the gate it has to pass.

    `--trust-base` vouches for that file and for the commands found in the base; so does the trust in the folder,
    where it is bound to this very file.
    """
    import tempfile

    from tracer.settings.layers import load_settings, trust_store
    from tracer.settings.trust import folder_trusted, trusted_file

    root, name = Path(os.path.realpath(context.state_root)), "config.toml"
    text, store = tree.text_at(arguments.since, root / name), trust_store(context.environ)
    same = text is None or trusted_file(store, root, name, text)
    with tempfile.TemporaryDirectory(prefix="pm-policy-") as folder:
        (Path(folder) / name).write_bytes(text or b"")
        return load_settings(
            project=Path(folder),
            environ=context.environ,
            extra_file=arguments.config,
            flags=context.setting_flags(),
            vouched=arguments.trust_base or (same and folder_trusted(store, root)),
        )


def _commands_of_base(context: Context, arguments: Namespace, settings: Settings) -> dict[str, str]:
    """The commands that the base names, where it is trusted, and no others: those of the change may be softer."""
    from runner.checks.commands import KINDS, PROJECT_FILES, plan_commands

    if not settings.trusted:
        return {}
    tree = Tree(context.folder, state_dir=context.state_root)
    names = tree.names_at(arguments.since)
    top = Path(os.path.realpath(context.folder))
    texts = {name: tree.text_at(arguments.since, top / name) for name in PROJECT_FILES if name in names}
    planned = plan_commands(
        names=names,
        texts={name: (text or b"").decode("utf-8", "replace") for name, text in texts.items()},
        trusted=True,
    )
    return {**dict.fromkeys(KINDS, ""), **{one.kind: one.command for one in planned}}


def _known(context: Context, arguments: Namespace) -> frozenset[str]:
    """The findings of the baseline file; with `--since` of the base's, which the change cannot extend."""
    if not arguments.baseline:
        return frozenset()
    from runner.change_gate import read_marks

    path = Path(os.path.realpath(context.folder / arguments.baseline))
    if arguments.since and (tree := Tree(context.folder, state_dir=context.state_root)).holds(path):
        text = tree.text_at(arguments.since, path)
        if text is None:
            context.output.note(escape(f"{arguments.since} holds no {arguments.baseline}: no finding is known"))
            return frozenset()
        return read_marks(path, text)
    return read_marks(path)


def _close(context: Context, arguments: Namespace, wanted: Wanted, gated: Gated, *, began: float) -> int:
    """Keep the verdict, show it in each form that is wanted, and end with its exit code."""
    from runner.change_gate import fact_of, record

    output, verdict, code = context.output, gated.verdict, gated.exit_code
    if arguments.write_baseline:
        _write_baseline(context, arguments, verdict.issues if wanted.changes.files else ())
        return 0
    files = [one._asdict() for one in count_files(wanted.changes.diff, wanted.changes.paths)]
    if not wanted.changes.files:
        why = f"nothing differs from {arguments.since or 'HEAD'}" if not wanted.of_task else "nothing was changed"
        raise LimitError(f"not verified: {why}", why="there is no change to judge", next_step="pm gate --since REV")
    against = {"since": wanted.since} if wanted.since else {}
    fact = fact_of(gated, tree=wanted.tree, base=wanted.base, by=wanted.by, **against)
    fields = {
        **fact,
        "files": files,
        "criteria_results": list(verdict.criteria_results),
        "issues": list(verdict.issues),
        "notes": [*verdict.notes, *wanted.changes.notes],
        "duration_ms": round((time.monotonic() - began) * 1000),
    }
    record(context.state_dir, fact)
    for form, path in (_output(text) for text in arguments.output or ()):
        _write(context, context.folder / path, _formed(form, fields))
    told = closing_line(gated, files=len(files))
    if arguments.format in {None, "text", "json"}:
        for issue in verdict.issues:
            output.line(issue_line(issue))
        for note in fields["notes"]:
            output.note(escape(note))
        output.line(told)
    else:
        output.data(_formed(arguments.format, fields).encode())
        output.note(told)
    summary = context.environ.get("GITHUB_STEP_SUMMARY")
    if arguments.format == "github" and summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(_formed("summary", fields))
    if code == 0:
        output.result("gate", fields)
        return 0
    failed = next((str(one["id"]) for one in verdict.criteria_results if not one["passed"]), "Q7")
    refused = NotAcceptedError(told, next_step=f"pm criteria explain {failed}")
    output.failure("gate", refused if code == 1 else LimitError(told), code, fields)
    return code


def closing_line(gated: Gated, *, files: int) -> str:
    """`VERIFIED · 3 files · tests passed (42)`, or what keeps it from that."""
    count = count_text(files, "file")
    tests = TestRun(gated.verdict.tests) if gated.verdict.tests else None
    if gated.verification == "failed":
        failed = [str(one["id"]) for one in gated.verdict.criteria_results if not one["passed"]]
        return f"FAILED {' '.join(failed)} · {count_text(len(gated.verdict.issues), 'place')} in {count}"
    if gated.verification == "verified":
        return f"VERIFIED · {count} · {tests_text(tests) or 'tests passed'}"
    unverified = escape(unverified_text(gated.not_verified))
    return f"{'NOTHING FOUND' if gated.passed else 'NOT VERIFIED'} · {count} · {unverified}"


def issue_line(issue: Mapping[str, Any]) -> str:
    """`src/login.py:2: Q2 TODO found: # TODO: check`, the form that editors and terminals make clickable."""
    place = str(issue.get("path", "answer"))
    if issue.get("line"):
        place += f":{issue['line']}"
    text = f"{place}: {issue['criterion']} {issue.get('message', issue['type'])}"
    if issue.get("excerpt"):
        text += f": {issue['excerpt']}"
    return escape(text)


def _output(text: str) -> tuple[str, str]:
    form, _, path = text.partition(":")
    if form not in _FORMATS or not path:
        raise UsageError(f"{text!r} is no output", next_step="--output sarif:pm-gate.sarif")
    return form, path


def _formed(form: str, fields: Mapping[str, Any]) -> str:
    from repl.present.gate_formats import formed  # 15 ms, only where a program reads it

    return formed(form, fields)


def _write(context: Context, path: Path, text: str) -> None:
    try:
        with output_file(path, 0o644) as file:
            file.write(text.encode())
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}", why=str(error)) from error
    note_output(path)
    context.output.detail(str(path))


def _write_baseline(context: Context, arguments: Namespace, issues: Sequence[Mapping[str, Any]]) -> None:
    """No verdict: what is found is known from now on, so there is nothing that could fail."""
    from runner.change_gate import write_marks

    path = context.folder / arguments.write_baseline
    count = write_marks(path, issues)
    note_output(path)
    context.output.line(f"{count_text(count, 'finding')} written to {escape(arguments.write_baseline)}")
    context.output.result("gate", {"path": str(path), "known": count, "issues": list(issues)})


def _status(context: Context, arguments: Namespace) -> int:
    """What the record says of the change from HEAD to the files as they are."""
    from runner.change_gate import records, standing

    known = list(records(context.state_dir))
    tree = Tree(context.folder, state_dir=context.state_root)
    now = tree.now(staged=arguments.staged)
    found = standing(known, now, head=tree.at("HEAD"))
    if found is None:
        raise LimitError("no verdict is on record", next_step="pm gate")
    fact, holds = found.fact, not found.lacking
    fields = {**fact, "holds": holds, "tree_now": now}
    word = str(fact.get("verification", "not_verified")).replace("_", " ").upper()
    told = f"{word} ({fact.get('by', '?')}, {fact.get('timestamp', '?')})"
    if not holds:
        context.output.line(f"stale: {told}")
        context.output.note(f"  {found.lacking}: pm gate")
        context.output.failure("gate", LimitError(f"stale: {told}", why=found.lacking, next_step="pm gate"), 6, fields)
        return 6
    context.output.line(f"holds: {told}")
    context.output.result("gate", fields)
    return 0
