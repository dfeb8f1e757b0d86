"""Registry rows: give work, follow it, look at the results."""

from __future__ import annotations

from typing import Literal, cast

from repl.registry.spec import Argument, Command, Flag, Values
from tracer.settings.declared import SETTINGS, Setting

# Data, as many values in a line as fit.
# fmt: off

TASK = Argument("task", "task-015, a unique start of it, or its number: 15", values="task")
_MAYBE_TASK = TASK._replace(required=False)
STATUSES = ("RUNNING", "AWAITING_RESPONSE", "UNFINISHED", "COMPLETE", "INCOMPLETE", "ERROR", "CANCELLED")
_KINDS: dict[str, Literal["text", "integer", "number", "duration"]] = {
    "integer": "integer",
    "number": "number",
    "duration": "duration",
}


def _flag(setting: Setting) -> Flag:
    """The flag that a setting declares."""
    switch = setting.kind == "switch"
    return Flag(
        setting.flag,
        setting.help + (f" (default {setting.default})" if setting.default not in {None, True, False} else ""),
        "" if switch else setting.metavar,
        values=cast("Values", setting.values),
        choices=setting.choices,
        kind=_KINDS.get(setting.kind, "text"),
        setting=setting.key,
        negatable=switch,
    )


_HOST = Argument("host", "the agent", choices=("claude", "codex", "gemini", "copilot", "kiro", "cursor"))
_SCOPES = (
    Flag("--project", "for whoever works in this project (what holds without --user)"),
    Flag("--user", "for all your projects"),
)
RUN_FLAGS = tuple(_flag(setting) for setting in SETTINGS if setting.flag)
_LIMIT_FLAGS = tuple(flag for flag in RUN_FLAGS if flag.name in {"--max-iterations", "--timeout", "--budget-usd"})
_OUTCOMES = (1, 3, 4, 5, 6, 8)

TASK_COMMANDS: tuple[Command, ...] = (
    Command(
        "run", "work", "submit a request, follow it, end with its verdict", "repl.commands.work.run:run",
        'pm run "add input validation to the signup form"',
        arguments=(
            Argument("prompt", "the request; - reads stdin, @FILE reads a file", many=True, values="file", text=True),
        ),
        flags=(*RUN_FLAGS, Flag("--isolate", "the same as --isolation worktree")), exits=_OUTCOMES,
        description="Every flag has an environment name (PM_EXECUTOR for --executor) and a config key (run.executor).",
    ),
    Command(
        "ask", "work", "submit a question: nothing has to be changed for its answer", "repl.commands.work.run:question",
        "/ask is half() used anywhere", surfaces=("slash",), arguments=(Argument("prompt", "the question", many=True),),
        exits=_OUTCOMES,
    ),
    Command(
        "resume", "work", "continue a task from its trace alone", "repl.commands.work.run:resume",
        "pm resume 15 --max-iterations 6", arguments=(_MAYBE_TASK,),
        flags=(
            *_LIMIT_FLAGS,
            Flag("--parallel", "subtasks worked on at once", "N", kind="integer", least=1),
            Flag("--into", "give the subtasks' result to this new branch", "BRANCH"),
        ),
        exits=(*_OUTCOMES, 7),
    ),
    Command(
        "respond", "work", "answer a task that asks, or waits at its limit", "repl.commands.work.run:respond",
        "pm respond 15 hint keep the public API",
        arguments=(
            TASK,
            Argument(
                "action", "hint, accept, allow, continue or stop",
                choices=("hint", "accept", "allow", "continue", "stop"),
            ),
            Argument("text", "the hint, or the answer to its question", required=False, many=True),
        ),
        flags=(Flag("--max-iterations", "further iterations to allow", "N", kind="integer", least=1),),
        exits=(*_OUTCOMES, 7), person_only=True,
    ),
    Command(
        "stop", "work", "stop a running task at its next safe point; resumable", "repl.commands.work.run:stop",
        "pm stop 15", arguments=(_MAYBE_TASK,), exits=(7, 8), person_only=True,
    ),
    Command(
        "undo", "work", "put back what a task changed; again puts its work in again", "repl.commands.work.review:undo",
        "pm undo 15", arguments=(_MAYBE_TASK,),
        flags=(Flag("--iteration", "only what this iteration changed, counted from 0", "N", kind="integer", least=0),),
        exits=(6, 7, 8),
        description=(
            "Your later edits stay. Where they and the task changed the same lines, your file stays as it is, the\n"
            "version from before the task is written beside it, and the exit code is 6. HEAD, branches, the stash,\n"
            "settings, hooks and the index come back too, and .git itself where it was deleted."
        ),
        person_only=True,
    ),
    Command(
        "review", "work", "look through what a task changed; keep, discard and commit it",
        "repl.commands.work.review:review", "pm review 15 --discard src/cart.py:2", arguments=(_MAYBE_TASK,),
        flags=(
            Flag("--keep", "keep these files, folders or hunks (. is all)", "FILE|HUNK", values="file", many=True),
            Flag("--discard", "put these back as they were before the task", "FILE|HUNK", values="file", many=True),
            Flag("--commit", "commit what is kept, and nothing else that was changed or staged"),
            Flag("--message", "the commit's message, in place of the proposed one", "MSG", "-m"),
        ),
        exits=(6, 7, 8),
        description=(
            "Each change has an id, src/cart.py:2, to keep or discard it by; --keep puts a discarded one in again.\n"
            "Your later edits stay; where they are in the same lines nothing changes, and the exit code is 6.\n"
            "--keep FILE takes later edits of a file into the commit as well. Nothing is final but the commit."
        ),
        person_only=True,
    ),
    Command(
        "plan", "work", "show a task's subtasks; approve or edit a plan that waits", "repl.commands.work.plan:plan",
        "pm plan 15 --edit", arguments=(_MAYBE_TASK,),
        flags=(
            Flag("--approve", "run the plan that waits, as it is"),
            Flag("--edit", "change it in $VISUAL or $EDITOR; what you save runs"),
            Flag("--file", "run the plan in this file instead", "FILE", values="file"),
            Flag("--again", "plan again with these words", "TEXT"),
        ),
        exits=(*_OUTCOMES, 7),
        description=(
            "pm run --approve-plan leaves a plan waiting. A plan without subtasks runs the task in one piece.\n"
            "A plan is JSON with subtasks (description, dependencies), or a numbered or bulleted list."
        ),
        person_only=True,
    ),
    Command(
        "retry", "work", "start a new task with the same request", "repl.commands.work.run:retry", "pm retry 15",
        arguments=(TASK,), flags=RUN_FLAGS, exits=(*_OUTCOMES, 7),
    ),
    Command(
        "tasks", "look", "list the tasks of this project", "repl.commands.look.tasks:tasks",
        "pm tasks rejected since:7d finding:deleted",
        arguments=(Argument("filter", "status: agent: cost:>1 failed, or words of it", required=False, many=True),),
        flags=(
            Flag("--status", "only this status", "S", values="status", choices=STATUSES),
            Flag("--since", "only tasks with events since then: 7d, 2h or 2026-01-31", "D"),
            Flag("--limit", "at most so many (200)", "N", kind="integer", least=1),
        ),
        exits=(8,),
    ),
    Command(
        "admin prune tasks", "admin", "delete the traces of old finished tasks",
        "repl.commands.look.prune:prune", "pm admin prune tasks --older-than 30d --keep 50",
        flags=(
            Flag("--older-than", "only tasks without an event since then: 30d, 12h", "AGE"),
            Flag("--keep", "keep so many of the newest", "N", kind="integer", least=0),
        ),
        exits=(8,), aliases=("admin keep tasks",),
        description="Nothing is deleted without --yes. Unfinished tasks are never deleted.",
    ),
    Command(
        "admin prune blobs", "admin", "delete blobs no record names and leftovers of crashes",
        "repl.commands.look.prune:gc", "pm admin prune blobs --yes", exits=(8,), aliases=("admin keep blobs",),
        description="Nothing is deleted without --yes.",
    ),
    Command(
        "show", "look", "show one task: status, cost, files, answer, what to do next", "repl.commands.look.tasks:show",
        "pm show 15", arguments=(_MAYBE_TASK,), exits=(7, 8),
    ),
    Command(
        "diff", "look", "show what a task changed", "repl.commands.look.diff:diff", "pm diff 15 --iteration 0",
        arguments=(_MAYBE_TASK,),
        flags=(
            Flag("--iteration", "only this iteration's change, counted from 0", "N", kind="integer", least=0),
            Flag("--side-by-side", "old on the left, new on the right"),
        ),
        exits=(7, 8),
    ),
    Command(
        "files", "look", "list the files a task changed, by iteration", "repl.commands.look.diff:files", "pm files 15",
        arguments=(_MAYBE_TASK,),
        flags=(Flag("--iteration", "only this iteration, counted from 0", "N", kind="integer", least=0),), exits=(7, 8),
    ),
    Command(
        "criteria", "gate", "list what answers are judged by", "repl.commands.work.criteria:criteria", "pm criteria Q2",
        arguments=(
            Argument("id", "explain one of them", required=False, values="criterion"),
            Argument("switch", "in a session: on or off for an optional one", required=False, choices=("on", "off")),
        ),
        exits=(3, 7),
    ),
    Command(
        "criteria explain", "gate", "say what a criterion looks for and what it leaves alone",
        "repl.commands.work.criteria:explain", "pm criteria explain Q3",
        arguments=(Argument("id", "the criterion", values="criterion"),), exits=(7,),
    ),
    Command(
        "check", "gate", "judge files or an answer without running a task", "repl.commands.work.check:check",
        "pm check src",
        arguments=(
            Argument("path", "files or folders (all of the project)", required=False, many=True, values="file"),
        ),
        flags=(Flag("--output", "judge the answer in this file too, - for standard input", "FILE", values="file"),),
        exits=(1, 3, 7),
        description="For hooks and CI: exit 1 when something was found. check.exclude names what is left out.",
    ),
    Command(
        "gate", "gate", "judge a change that anybody made, as a task is judged", "repl.commands.gate.gate:gate",
        "pm gate --since main",
        flags=(
            Flag("--since", "what differs from this commit; the policy is the one it holds", "REV"),
            Flag("--staged", "what git's index holds, against HEAD"),
            Flag("--session", "what the hooked session has changed since its prompt"),
            Flag("--fast", "run no commands: structure, syntax and words alone"),
            Flag("--test", "test command; again for further ones", "CMD", repeat=True),
            Flag("--lint", "lint command", "CMD", repeat=True),
            Flag("--typecheck", "type-check command", "CMD", repeat=True),
            Flag("--trust-base", "with --since: run the commands that the base names"),
            Flag("--baseline", "findings in this file (with --since: the base's) are known", "FILE", values="file"),
            Flag("--write-baseline", "write what is found, in the whole tree, as known", "FILE", values="file"),
            Flag(
                "--format", "how the verdict is printed", "F",
                choices=("text", "json", "sarif", "junit", "github", "gitlab"),
            ),
            Flag("--output", "write it to a file too, in one of these forms", "F:FILE", repeat=True),
            Flag("--status", "tell which verdict holds for the files as they are"),
        ),
        exits=(1, 3, 6, 8),
        description=(
            "Without --since, --staged or --session: what differs from HEAD on disk. Exit 0 verified, 1 failed,\n"
            "6 not verified (--fast: 0 where nothing was found). --status: 0 while one holds,\n"
            "whichever it is, 6 once it is stale. --write-baseline: 0, without a verdict and without commands."
        ),
    ),
    Command(
        "gate install", "gate", "have an agent's own sessions judged when they stop",
        "repl.commands.gate.install:install", "pm gate install claude --user",
        arguments=(_HOST,), flags=_SCOPES, exits=(3, 8),
        description="The change is shown first; what is in the file stays. --yes writes without asking.",
    ),
    Command(
        "gate uninstall", "gate", "take those hooks out again", "repl.commands.gate.install:uninstall",
        "pm gate uninstall claude --user", arguments=(_HOST,), flags=_SCOPES, exits=(3, 8),
    ),
    Command(
        "gate hook", "gate", "what the hooks run: the host's payload on stdin, its JSON on stdout",
        "repl.commands.gate.hook:hook", "pm gate hook claude", arguments=(_HOST,), exits=(1,), surfaces=("cli",),
        hidden=True,
    ),
    Command(
        "demo", "setup", "watch a bad answer be rejected and corrected; no key",
        "repl.commands.work.demo:demo", "pm demo",
        flags=(
            Flag("--keep", "keep the folder to look around in"),
            Flag("--show-script", "print the script of its answers: the format of run --script"),
        ),
        exits=(1, 8),
    ),
)
