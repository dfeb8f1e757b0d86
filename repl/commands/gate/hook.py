"""`pm gate hook HOST`: what a host's hooks run. It never blocks for our own trouble, and never is silent about it."""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from repl.dispatch import INSIDE_RUN
from repl.present.progress import short_id
from repl.present.text import count_text
from runner.change_gate import fact_of, judge_fast, record, records
from runner.hosts import HOSTS, Call, Host, Reply, read_call
from tracer.errors import LockedError, NotFoundError, PmError
from tracer.facts import CheckChoice, CriterionResult, Issue
from tracer.redaction.cuts import beginning
from tracer.statedir import StateDir
from tracer.verification import tests_text, unverified_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repl.context import Context
    from runner.core.request import Request
    from runner.core.task import TaskOutcome
    from runner.gate.criterion import CommandKind
    from runner.hosted import HostSession

_MOST = 64 << 20
_PATIENCE_S = 20.0
_OWN = "/pm-gate:"  # a command of our plugin: it judges, and changes something only where something is found
_PART_BLOCKS = 1  # the whole is judged when the session stops: a part is sent back once


async def hook(context: Context, arguments: Namespace) -> int:
    host = HOSTS[arguments.host]
    if context.environ.get(INSIDE_RUN):
        return _answer(context, host.reply())  # pm started this agent, and judges it itself
    event = ""
    try:
        raw = await asyncio.to_thread(sys.stdin.buffer.read, _MOST)
        payload = json.loads(raw)
        call = read_call(host, payload if isinstance(payload, dict) else {})
        event = call.event
        reply = await _Hook(context, host, call).run()
    except (PmError, OSError, ValueError, RecursionError) as error:
        told = error.line if isinstance(error, PmError) else f"{type(error).__name__}: {error}"
        reply = _trouble(context, host, event, told)
    except Exception as error:  # noqa: BLE001 - a defect of ours must not keep the host's agent from its end
        reply = _trouble(context, host, event, f"a defect of pm: {error!r}")
    return _answer(context, reply)


def _trouble(context: Context, host: Host, event: str, why: str) -> Reply:
    """Say, and put on record as far as that can be done, that nothing was verified."""
    why = beginning(" ".join(why.split()), 500)
    try:
        record(context.state_dir, unverified_fact(host, why))
    except (PmError, OSError) as error:
        why += f"; nor could that be recorded ({error})"
    return host.reply(message=f"pm gate: NOT VERIFIED: {why}", event=event)


def unverified_fact(host: Host, why: str, **more: Any) -> dict[str, Any]:
    """A line of the gate's record for what was not judged."""
    unverified = [{"criterion": "", "why": why, "next": "pm gate"}]
    return {"by": f"hook {host.name}", "tree": "", "verification": "not_verified", "not_verified": unverified, **more}


def _answer(context: Context, reply: Reply) -> int:
    if reply.stdout is not None:
        context.output.data(json.dumps(reply.stdout).encode() + b"\n")
    if reply.stderr:
        context.output.stderr.write(f"{reply.stderr}\n")
    context.output.ended = True
    return reply.code


class _Hook:
    """One call of a hook."""

    def __init__(self, context: Context, host: Host, call: Call) -> None:
        from runner.hosted import HostSession

        self._context, self._host, self._call = context, host, call
        if call.folder and Path(call.folder).is_dir() and not context.arguments.directory:
            context.arguments.directory = call.folder
        self._session: HostSession = HostSession(host.name, call.session or call.folder, environ=context.environ)
        # An agent may have gone to another folder by now; the prompt's is where it was asked.
        self._state: StateDir = (self._session.state_dir if call.role != "prompt" else None) or context.state_dir
        self._blocks = host.most_blocks(int(context.settings().get("gate.blocks")), context.environ)

    async def run(self) -> Reply:
        if self._call.role == "settings":  # it may come while another hook is at work
            return await asyncio.to_thread(self._settings_changed)
        lock = self._session.lock()
        try:
            lock.acquire(what="this session", patience_s=_PATIENCE_S if self._call.role == "prompt" else 0)
        except LockedError:
            if self._call.role == "prompt":
                raise  # a stop that its user broke off is still being judged: there is no baseline
            return self._host.reply(event=self._call.event)  # its twin is at work, and answers
        try:
            self._session.read()  # what its twin has just written
            match self._call.role:
                case "prompt":
                    return await self._prompt()
                case "stop":
                    return await self._stop()
                case "part":
                    return await self._part()
            return self._host.reply(event=self._call.event)
        finally:
            lock.release()

    async def _prompt(self) -> Reply:
        hosted, task_id = self._hosted(), self._session.task_id
        asked = await asyncio.to_thread(hosted.open_request, task_id) if task_id else None
        if asked is not None and f"\n{asked.strip()}".endswith(f"\n{self._call.prompt.strip()}"):
            # Our own words, which Copilot submits to send its agent back; or those of a hook that is there twice.
            return self._host.reply(event=self._call.event)
        await hosted.begin(self._session, await asyncio.to_thread(self._request))
        self._session.keep(hooked=[str(path) for path in self._hook_files() if self._holds_hooks(path)])
        last = self._last(task_id)
        ended = last is not None and "judgment" not in last  # its hook was killed, so that nobody was told
        told = f"pm gate: NOT VERIFIED: the answer to {task_id} was not judged to its end (pm gate)" if ended else ""
        return self._host.reply(message=told, event=self._call.event)

    def _last(self, task_id: str) -> dict[str, Any] | None:
        """The newest line on record about a task."""
        return next((one for one in records(self._state) if task_id and one.get("task_id") == task_id), None)

    def _hosted(self, answer: Any = None) -> Any:
        from repl.task_request import executor_settings
        from runner.hosted import Hosted

        settings, environ = self._context.settings(), self._context.environ
        executors = executor_settings(
            settings, state_dir=self._state.root, environ=environ, script=None, model=None, fallback=()
        )
        return Hosted(self._state, redaction=self._context.redaction(), answer=answer, executors=executors)

    def _request(self) -> Request:
        """The request, with the commands that are found before the agent can change what they are found by."""
        from repl.task_request import task_request
        from runner.checks.commands import detect_commands

        settings, folder = self._context.settings(), self._state.project
        kind = "question" if self._call.prompt.startswith(_OWN) else "auto"
        overrides = {"chunk": "never", "kind": kind, "isolation": "folder", "fallback": (), "budget_usd": None}
        request = task_request(
            self._call.prompt,
            settings=settings,
            folder=folder,
            executor=self._host.name,
            environ=self._context.environ,
            interactive=False,
            overrides={**overrides, "continue_session": True},
        )
        checks = request.checks
        planned = detect_commands(
            folder, given=_commands(checks.given), configured=_commands(checks.configured), trusted=checks.detect
        )
        found = {one.kind: one.command for one in planned if one.held_back is None}
        limits = request.limits._replace(
            max_iterations=self._blocks + 1, timeout_s=None, budget_usd=None, on_limit="questions", max_attempts=1000
        )
        choice = request.executor.changed(options={"hosted": True, "session": self._call.session})
        return request._replace(
            executor=choice, limits=limits, checks=CheckChoice({**checks.data, "configured": found, "given": {}})
        )

    async def _stop(self) -> Reply:
        from runner.hosted import answer_of

        task_id, event = self._session.task_id, self._call.event
        hosted = self._hosted(answer_of(self._host, self._call))
        if not task_id or await asyncio.to_thread(hosted.open_request, task_id) is None:
            return await asyncio.to_thread(self._unasked, task_id)
        # A kill from here on leaves this line as the newest one.
        begun = unverified_fact(self._host, "the hook did not end", task_id=task_id)
        await asyncio.to_thread(record, self._state, begun)
        judged = await hosted.judge(task_id)
        outcome: TaskOutcome = judged.outcome
        await asyncio.to_thread(record, self._state, self._fact(outcome))
        short = short_id(task_id)
        if judged.again:
            count = int(self._session.known.get("blocks") or 0) + 1
            self._session.keep(blocks=count)
            message = f"pm gate: {task_id} was sent back, {count} of at most {self._blocks}"
            return self._host.reply(block=judged.again, message=message, event=event)
        gone = [path for path in self._session.known.get("hooked") or () if not self._holds_hooks(Path(path))]
        lost = f"   its hooks are gone from {gone[0]}: pm gate install {self._host.name}" if gone else ""
        return self._host.reply(message=f"pm gate: {_told(outcome)}   pm show {short}{lost}", event=event)

    def _hook_files(self) -> list[Path]:
        folder, environ = self._state.project, self._context.environ
        return list(dict.fromkeys(self._host.path(folder, environ, user=user) for user in (False, True)))

    def _holds_hooks(self, path: Path) -> bool:
        try:
            return f"gate hook {self._host.name}" in path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return False

    def _settings_changed(self) -> Reply:
        """The host asks before it takes over a change of its settings: none ends our hooks before the answer came."""
        task_id, path = self._session.task_id, Path(self._call.file)
        if not task_id or self._hosted().open_request(task_id) is None:
            return self._host.reply(event=self._call.event)  # its user may do so, and is judged by nobody
        found: Any = None
        with suppress(OSError, ValueError):
            found = json.loads(path.read_bytes())
        told = found if isinstance(found, dict) else {}
        taken_out = str(path) in (self._session.known.get("hooked") or ()) and not self._holds_hooks(path)
        if not taken_out and told.get("disableAllHooks") is not True and INSIDE_RUN not in (told.get("env") or {}):
            return self._host.reply(event=self._call.event)
        why = f"pm gate: {path} would end its hooks before {task_id} is judged: refused"
        return self._host.reply(block=why, message=why, event=self._call.event)

    def _unasked(self, task_id: str) -> Reply:
        """A stop without a prompt of its own: nothing new to judge, or no baseline to judge it by."""
        last = self._last(task_id)
        if last is not None and last.get("tree") in {self._tree(), None}:
            told = f"pm gate: NOT VERIFIED: {task_id} was let go, and nothing has changed since (pm show {task_id})"
            return self._host.reply(message=told if last["verification"] == "failed" else "", event=self._call.event)
        why = "no baseline was taken at the prompt" if not task_id else f"{task_id} is not on record any more"
        why = why if last is None else f"files changed after {task_id} was judged"
        record(self._state, unverified_fact(self._host, why))
        return self._host.reply(message=f"pm gate: NOT VERIFIED: {why} (pm gate)", event=self._call.event)

    async def _part(self) -> Reply:
        """A part of the session (subagent, teammate) has ended: what changed so far, by structure and syntax alone."""
        from runner.hosted import base_of
        from runner.workspace.workspace import open_workspace
        from tracer.blobs import DirectoryBlobs

        name, event = self._call.part or self._call.event, self._call.event
        parts = dict(self._session.known.get("parts") or {})
        if not self._session.task_id or parts.get(name, 0) >= _PART_BLOCKS:
            return self._host.reply(event=event)
        base = base_of(self._state, self._session.task_id)
        blobs = DirectoryBlobs(self._state.blobs, second=self._state.second_blobs)
        workspace = open_workspace(self._state.project, state_dir=self._state.root, blobs=blobs)
        changes = await workspace.changes(base)
        if not changes.files:
            return self._host.reply(event=event)
        options = self._context.settings().family("criteria.options")
        gated = judge_fast(changes, options=options, known=frozenset())
        by = f"hook {self._host.name} {event}"
        record(self._state, fact_of(gated, tree=self._tree(), base=base, by=by, task_id=self._session.task_id))
        if gated.verification != "failed":
            return self._host.reply(event=event)
        self._session.keep(parts={**parts, name: parts.get(name, 0) + 1})
        return self._host.reply(block=_rejection(gated.verdict), event=event)

    def _fact(self, outcome: TaskOutcome) -> dict[str, Any]:
        from runner.hosted import base_of

        base = base_of(self._state, outcome.task_id)
        listed = [one.to_dict() for one in outcome.not_verified]
        judgment = outcome.judgments[-1] if outcome.judgments else "REJECT"
        told = {"judgment": judgment, "verification": outcome.verification, "not_verified": listed}
        more = {"by": f"hook {self._host.name}", "tree": self._tree(), "base": base}
        ended = {"task_id": outcome.task_id, "fast": False, "status": outcome.status, "reason": outcome.reason}
        return {**told, **more, **ended}

    def _tree(self) -> str:
        """The tree as it is now; empty where git cannot tell."""
        from runner.workspace.git.since import Tree

        try:
            return Tree(self._state.project, state_dir=self._state.root).now()
        except PmError:
            return ""


def _commands(listed: Mapping[str, Any]) -> Mapping[CommandKind, str]:
    return cast("Mapping[CommandKind, str]", listed)


def _told(outcome: TaskOutcome) -> str:
    """How a hosted task stands, in one line."""
    unverified = unverified_text(outcome.not_verified)
    if outcome.status == "COMPLETE" and not outcome.files:
        return "answered, nothing was changed"
    if outcome.status == "COMPLETE" and outcome.verification == "verified":
        return f"VERIFIED, {tests_text(outcome.tests) or 'tests passed'}"
    if outcome.status == "COMPLETE":
        return f"nothing found, {unverified or 'no test command'}"
    if outcome.question is not None:
        return f"NOT VERIFIED: {beginning(' '.join(outcome.question.text.split()), 300)}"
    last = outcome.judgments.count("REJECT")
    why = unverified if outcome.reason == "not_verified" else f"rejected {count_text(last, 'time')}"
    return f"NOT VERIFIED: {why or outcome.reason}"


def _rejection(verdict: Any) -> str:
    from runner.core.decide_loop import modification_prompt

    results = [CriterionResult(one) for one in verdict.criteria_results]
    issues = [Issue(one) for one in verdict.issues]
    return modification_prompt(request="(the part you were given)", criteria_results=results, issues=issues)


def session_base(state_dir: StateDir, environ: Any) -> str:
    """The baseline of the hooked session that was last at work here."""
    from runner.hosted import base_of, newest_task

    base = base_of(state_dir, newest_task(state_dir, environ=environ))
    if not base:
        raise NotFoundError("the session has no baseline", next_step="pm gate --since REV")
    return base
