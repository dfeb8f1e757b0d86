"""Registry rows: captured sessions (record, send, verify, export), quality checks, the judge and the collector."""

from __future__ import annotations

from typing import Final

from repl.registry.rows.sessions import SESSION_PROVIDERS
from repl.registry.spec import Argument, Command, Flag

# Data, as many values in a line as fit.
# fmt: off

_SERVER = (
    Flag("--server", "the collector's address (setting capture.server)", "URL"),
    Flag("--token-file", "file with the collector's key, mode 0600 (else PM_CAPTURE_TOKEN)", "FILE", values="file"),
)
_BUG = (
    Flag("--title", "what the bug is, in a line", "TEXT"),
    Flag("--description", "the bug report", "TEXT"),
    Flag("--repro", "how to make it happen", "TEXT"),
    Flag("--expected", "what should happen", "TEXT"),
    Flag("--actual", "what happens", "TEXT"),
    Flag("--link", "address of the report; may be given again", "URL", repeat=True),
    Flag("--label", "label; may be given again", "TEXT", repeat=True),
    Flag("--task-id", "the task's id in your tracker", "ID"),
)
_CONSENT = Flag("--consent", "what may be kept: all, none, or of code,output,judge", "LIST")
_PERSON = (
    _CONSENT,
    Flag(
        "--store", "redacted (default), raw (needs consent to code) or patches_only", "MODE",
        choices=("redacted", "raw", "patches_only"),
    ),
    Flag("--developer", "id to record instead of one made from git's e-mail", "ID"),
    Flag("--experience", "junior, mid or senior", "LEVEL", choices=("junior", "mid", "senior", "unknown")),
)
_TRACE = Argument("trace", "the capture's id, or its beginning; the newest if left out", required=False)
_KNOWN = Argument("trace", "the capture's id, or its beginning")
_SENT = Argument("trace", "the trace's id; the beginning is enough for one that is here")
_SHELL = (
    Flag("--shell", "bash, zsh or a path to one (else $SHELL)", "SHELL"),
    Flag("--live", "send while you work, not only at the end"),
    Flag("--no-upload", "keep it here at the end, without asking"),
)

CAPTURE_COMMANDS: tuple[Command, ...] = (
    Command(
        "record", "record", "fix a bug in a shell that is recorded, for a collector",
        "repl.commands.captures.record:record", 'pm record --title "empty cart crashes the checkout"',
        surfaces=("cli",),
        flags=(
            *_BUG, *_PERSON, *_SHELL,
            Flag("--plugin", "print an editor's plug-in, and record nothing", "EDITOR", choices=("nvim",)),
            *_SERVER,
        ),
        exits=(1, 3, 4, 5, 6, 7, 8),
        description=(
            "Keeps commands, output, edits, tests and commits. "
            "Your own shell, prompt and settings; exit or Ctrl+D ends it. You are asked for consent once in each "
            "repository, and see what would be sent before it is. pm think notes a thought, pm record pause stops "
            "looking. Secrets are replaced before anything is written. See docs/captures.md."
        ),
    ),
    Command(
        "record pause", "record", "stop looking for a while", "repl.commands.captures.record:pause",
        "pm record pause", exits=(7, 8),
    ),
    Command(
        "record resume", "record", "go on after a pause, or with a recording that was cut off",
        "repl.commands.captures.record:resume", "pm record resume", surfaces=("cli",), arguments=(_TRACE,),
        flags=(*_SHELL, *_SERVER),
        exits=(1, 3, 4, 5, 6, 7, 8),
    ),
    Command(
        "record stop", "record", "end the recorded shell, from another terminal",
        "repl.commands.captures.record:stop", "pm record stop", exits=(7,),
    ),
    Command(
        "record status", "record", "show the recording that runs here, or the newest",
        "repl.commands.captures.record:status", "pm record status", arguments=(_TRACE,), exits=(7, 8),
    ),
    Command(
        "record preview", "record", "show what would be sent of a recording", "repl.commands.captures.record:preview",
        "pm record preview", arguments=(_TRACE,), flags=(Flag("--full", "every event, as it is sent"),), exits=(7, 8),
    ),
    Command(
        "record profile", "record", "propose from a recording how the repository is tested",
        "repl.commands.captures.record:profile", "pm record profile --write", arguments=(_TRACE,),
        flags=(Flag("--write", "write it to .pm-orchestrator/qa.toml of the repository"),), exits=(7, 8),
        surfaces=("cli",),
    ),
    Command(
        "record upload", "record", "send a recording, also one whose recorder was killed",
        "repl.commands.captures.record:upload", "pm record upload", arguments=(_TRACE,), flags=_SERVER,
        exits=(3, 4, 5, 6, 7, 8),
    ),
    Command(
        "record discard", "record", "delete a recording on this machine", "repl.commands.captures.record:discard",
        "pm record discard 3f9a1c02", arguments=(_KNOWN,),
        exits=(7, 8), description="What was sent stays with the collector.",
    ),
    Command(
        "think", "record", "note a thought in the recording that runs here", "repl.commands.captures.record:think",
        'pm think "the cart is None after logout" --kind hypothesis',
        arguments=(Argument("text", "the thought", many=True),),
        flags=(
            Flag(
                "--kind", "hypothesis, plan, interpretation, decision or postmortem", "KIND",
                choices=("hypothesis", "plan", "interpretation", "decision", "postmortem"),
            ),
            Flag("--link", "event it speaks of; may be given again (else the last ones)", "EVENT", repeat=True),
        ),
        exits=(7, 8),
    ),
    Command(
        "snapshot", "record", "keep the touched files as they are in the recording here",
        "repl.commands.captures.record:snapshot", "pm snapshot",
        arguments=(Argument("paths", "these files too", required=False, many=True, values="file"),), exits=(7, 8),
    ),
    Command(
        "capture new", "capture", "begin a capture of your own events", "repl.commands.captures.capture:new",
        'pm capture new --title "empty cart crashes" --consent output,judge',
        flags=(
            *_BUG, *_PERSON,
            Flag("--from", "take the request from this JSON file (- for stdin)", "FILE", values="file"),
            Flag("--trace-id", "use this UUID", "UUID"),
            Flag("--offline", "keep it here for now"),
            *_SERVER,
        ),
        exits=(3, 4, 5, 7, 8),
    ),
    Command(
        "capture append", "capture", "append events to a capture and send them",
        "repl.commands.captures.capture:append", "pm capture append 3f9a1c02 events.jsonl",
        arguments=(
            _KNOWN,
            Argument("file", "JSON lines, or {events: […]}; - for stdin", required=False, values="file"),
        ),
        flags=(Flag("--offline", "keep them here for now"), *_SERVER), exits=(3, 4, 5, 6, 7, 8),
        description="Events are safe here before they are sent; without a file only what is left is sent.",
    ),
    Command(
        "capture finalize", "capture", "end a capture: send what is left, then no more",
        "repl.commands.captures.capture:finalize", "pm capture finalize 3f9a1c02",
        arguments=(_KNOWN,),
        flags=(
            Flag("--final-state", "JSON file with the final state", "FILE", values="file"),
            Flag("--offline", "only note it here for now"),
            *_SERVER,
        ),
        exits=(3, 4, 5, 6, 7, 8),
    ),
    Command(
        "capture get", "capture", "fetch a trace from the collector", "repl.commands.captures.capture:get",
        "pm capture get 3f9a1c02 --output trace.json",
        arguments=(_SENT,),
        flags=(
            Flag("--view", "full (default) or metadata", "VIEW", choices=("full", "metadata")),
            Flag("--blobs", "ref (default) or inline", "HOW", choices=("ref", "inline")),
            Flag("--output", "write here instead of stdout (-)", "PATH", "-o", values="file"),
            *_SERVER,
        ),
        exits=(3, 4, 5, 7, 8),
    ),
    Command(
        "capture delete", "capture", "delete a capture at its collector, on request",
        "repl.commands.captures.capture:delete", "pm capture delete 3f9a1c02",
        arguments=(_SENT,),
        flags=(Flag("--erase-now", "answer when its contents are gone too, not within the hour"), *_SERVER),
        exits=(2, 3, 4, 5, 7, 8),
        description="Only its id and the time stay there. What is on this machine stays: see pm record discard.",
    ),
    Command(
        "capture withdraw", "capture", "take consent back for a capture that was sent",
        "repl.commands.captures.capture:withdraw", "pm capture withdraw 3f9a1c02 --consent output,judge",
        arguments=(_SENT,),
        flags=(Flag("--consent", "of code,output,judge: what is no longer agreed to (else all)", "LIST"), *_SERVER),
        exits=(3, 4, 5, 7, 8),
        description="What it covered is removed at the collector now, and is in no later export.",
    ),
    Command(
        "capture revocations", "capture", "list captures deleted or narrowed by consent",
        "repl.commands.captures.export:revoked", "pm capture revocations -o revocations.json",
        flags=(Flag("--output", "write the list here, for who has sets", "FILE", "-o", values="file"),),
        exits=(3, 5, 8), surfaces=("cli",),
    ),
    Command(
        "capture check-set", "capture", "find what of an exported set was revoked since",
        "repl.commands.captures.export:check", "pm capture check-set set-1 --revocations revocations.json",
        arguments=(Argument("folder", "the set's folder", values="folder"),),
        flags=(Flag("--revocations", "a newer list than the one in the set", "FILE", values="file"),),
        exits=(1, 2), surfaces=("cli",), description="Exit 1: rows are revoked, or a shard was changed.",
    ),
    Command(
        "capture list", "capture", "list the captures of this project", "repl.commands.captures.capture:list_",
        "pm capture list", aliases=("captures",),
        flags=(Flag("--remote", "what the collector has, instead of what is here"), *_SERVER), exits=(3, 4, 5, 8),
    ),
    Command(
        "admin prune captures", "admin",
        "delete old captures here that the collector has whole",
        "repl.commands.captures.capture:prune", "pm admin prune captures --older-than 7d --yes",
        flags=(Flag("--older-than", "sent longer ago than this: 30d, 12h (else setting capture.keep_sent)", "AGE"),),
        exits=(2, 3, 8), aliases=("admin keep captures",),
    ),
)


_FORMATS = ("atif", "chat", "harbor", "swebench", "otlp", "json")

CAPTURE_EXPORT_COMMANDS: tuple[Command, ...] = (
    Command(
        "capture verify", "capture",
        "prove a captured session by replaying its edits",
        "repl.commands.captures.verify:verify", "pm capture verify 3f9a1c02",
        arguments=(
            Argument("trace", "the trace's id or its beginning, or a file that holds a final document",
                     required=False, values="file"),
        ),
        flags=(
            Flag("--all", "every capture of the collector, a line each: after a restore"),
            Flag("--tree", "write the rebuilt final tree into this new folder", "DIR", values="folder"),
            Flag("--limit", "show at most so many findings (default 20)", "N", kind="integer", least=1),
        ),
        exits=(7, 8),
        description=(
            "Every hash is checked and the final tree rebuilt; 8 where something differs, or a content that the "
            "collector is to hold is missing. What cannot be told (redacted, no bundle of the base commit, a file's "
            "contents that are elsewhere) is counted apart and is no failure."
        ),
    ),
    Command(
        "capture export", "capture", "export one captured session, or a set by condition",
        "repl.commands.captures.export:export",
        "pm capture export --where 'qa.final_passed and overall >= 4' --format chat -o set-1",
        arguments=(Argument("trace", "one trace's id, or its beginning", required=False),),
        flags=(
            Flag("--format", "atif, chat, harbor, swebench, otlp or json", "FORMAT", choices=_FORMATS),
            Flag("--where", "make a set of all traces that fulfil this (with -o: the proven ones)", "CONDITION"),
            Flag("--fields", "list the fields that a condition can name"),
            Flag("--output", "write here: a file for one trace, a new folder for a set", "PATH", "-o", values="file"),
            Flag("--redact", "replace in the copy what the leak audit finds, instead of refusing"),
            Flag("--split", "percent of repositories for train/validation/test (default 80/10/10)", "A/B/C"),
            Flag("--shard-rows", "at most so many rows in a file (default 1000)", "N", kind="integer", least=1),
        ),
        exits=(7, 8),
        description=(
            "Every string is looked at for secrets before anything is written; a find stops the export and is named by "
            "its place. The developer's consent is applied again. A set has shards, a manifest, a report of "
            "near-duplicates, and keeps all traces of a repository in one split. harbor makes a task folder of each "
            "proven fix, swebench a row; both need the base, as bundle or tree."
        ),
    ),
    Command(
        "capture from-task", "capture", "make a finished task a captured session",
        "repl.commands.captures.imports:from_task", "pm capture from-task 15 --consent code,output",
        arguments=(Argument("task", "the task; the newest one if left out", required=False, values="task"),),
        flags=(_CONSENT,), exits=(7, 8), description="Done again for the same task it changes nothing.",
    ),
    Command(
        "capture from-session", "capture", "make an agent's own session a captured session",
        "repl.commands.captures.imports:from_session", "pm capture from-session --latest --provider claude",
        flags=(
            Flag("--provider", "whose session it is", "NAME", choices=SESSION_PROVIDERS),
            Flag("--session", "this session: its file, its id, or how the id begins", "PATH", values="file"),
            Flag("--latest", "the newest session of this project"),
            Flag("--project-root", "the project the session worked in (default: this one)", "DIR", values="folder"),
            _CONSENT,
        ),
        exits=(7, 8), description="Done again for the same session it changes nothing.",
    ),
)


COLLECTOR_COMMANDS: tuple[Command, ...] = (
    Command(
        "admin tokens new", "admin", "make a token for the collector and show it once",
        "repl.commands.captures.collector:new", "pm admin tokens new --label laptop",
        flags=(
            Flag("--label", "what it is for, shown by pm admin tokens list", "TEXT"),
            Flag("--role", "contributor, reviewer, exporter, metrics or operator (default)", "ROLE",
                 choices=("contributor", "reviewer", "exporter", "metrics", "operator")),
            Flag("--developer", "hold it to this developer's captures; a contributor needs one", "ID"),
            Flag("--project", "hold it to captures of this repository (repo_id)", "ID"),
            Flag("--expires", "it ends after so many days", "DAYS", kind="integer"),
            Flag("--trace", "an ingest key for this capture (the beginning of its id is enough), no admin token", "ID"),
        ),
        exits=(3, 5, 7, 8), surfaces=("cli",),
        description=(
            "A contributor creates, sends, reads and deletes its developer's captures, a reviewer reads and has checks "
            "run again, an exporter reads, metrics opens /metrics alone, an operator does everything; the serve token "
            "of pm serve is an operator's."
        ),
    ),
    Command(
        "admin tokens list", "admin", "list the collector's admin tokens, never their text",
        "repl.commands.captures.collector:listed", "pm admin tokens list",
        flags=(Flag("--all", "revoked ones and the ingest keys of captures too"),), exits=(3, 5, 8), surfaces=("cli",),
    ),
    Command(
        "admin tokens revoke", "admin", "make a token worthless", "repl.commands.captures.collector:revoke",
        "pm admin tokens revoke 3f0c4a52-7d1e-4c55-9b11-0a2f6f1f8a10",
        arguments=(Argument("token", "its id, as pm admin tokens list shows it"),), exits=(3, 5, 7, 8),
        surfaces=("cli",), description="A service that runs believes a token it has just seen for two seconds more.",
    ),
    Command(
        "admin audit", "admin", "show who read, exported or deleted which capture",
        "repl.commands.captures.collector:audit", "pm admin audit --limit 50",
        flags=(Flag("--limit", "so many of the newest (default 100)", "N", kind="integer", least=1),),
        exits=(3, 5, 8), surfaces=("cli",), description="Nothing changes or removes a line of it.",
    ),
    Command(
        "schema trace", "admin", "print the JSON Schema of a captured trace",
        "repl.commands.captures.collector:schema", "pm schema trace > trace.schema.json", surfaces=("cli",),
        aliases=("admin schema trace",),
    ),
    Command(
        "schema report", "admin", "print the JSON Schema of the report that agents end with",
        "repl.commands.captures.collector:schema", "pm schema report", surfaces=("cli",),
        aliases=("admin schema report",),
    ),
    Command(
        "admin prune uploads", "admin", "remove uploads that no capture names", "repl.commands.captures.collector:gc",
        "pm admin prune uploads", exits=(3, 5, 8), surfaces=("cli",), aliases=("admin keep uploads",),
        description="What was uploaded in the last day stays: the event that names it may be on its way.",
    ),
)


_TABLE: Final = Flag("--table", "every test before and after the fix")

QA_COMMANDS: tuple[Command, ...] = (
    Command(
        "capture qa", "capture",
        "check a captured session: schema, tests, judge",
        "repl.commands.captures.qa:qa", "pm capture qa 7f3c1a52 --step tests", arguments=(_TRACE,),
        flags=(
            Flag(
                "--step", "do this step again (may be repeated), and what depends on it", "STEP", repeat=True,
                choices=("schema", "checkout", "tests", "judge", "materialize"),
            ),
            Flag("--again", "do every step again"),
            Flag("--profile", "test by the repository's qa.toml, what was recorded, or a file's [qa]; approves it",
                 "repository|recorded|FILE", values="file"),
            Flag("--alternative", "another right fix, as a diff of the base, that the tests must accept too", "PATCH",
                 repeat=True, values="file"),
            Flag("--where", "check every finalized capture that fulfils this condition", "CONDITION"),
            _TABLE,
        ),
        exits=(1, 3, 4, 5, 7, 8, 9), aliases=("qa",),
        description=(
            "Steps whose inputs have not changed are not done again. Works on the collector's own database, as the "
            "worker does. Exit 0: the tests pass on the fix; 1: they fail, or nothing could be tested; 9: no sandbox."
        ),
    ),
    Command(
        "capture qa show", "capture", "what the checks of a captured session came to",
        "repl.commands.captures.qa:show", "pm capture qa show 7f3c1a52 --table", arguments=(_TRACE,),
        flags=(_TABLE,), exits=(3, 7, 8),
    ),
    Command(
        "capture qa status", "capture", "which checks of a captured session are done, and when",
        "repl.commands.captures.qa:status", "pm capture qa status 7f3c1a52", arguments=(_TRACE,),
        exits=(3, 7, 8),
    ),
)


JUDGE_COMMANDS: tuple[Command, ...] = (
    Command(
        "capture judge", "capture", "score one captured session by the rubric",
        "repl.commands.captures.judge:judge_session", "pm capture judge 7f3c1a52-0d5e-4c0b-9a55-2f6f1c1f9a10",
        arguments=(Argument("trace", "the captured session's id"),),
        flags=(
            Flag("--packet", "print what the judge would read, and send nothing"),
            Flag("--record", "also write the answers to this recording", "FILE", values="file"),
        ),
        exits=(3, 4, 5, 7, 8),
        description=(
            "Six scores from 0 to 5, each with its reason and the events it rests on; the result is stored with the "
            "session. The same session is not scored twice by the same judge. Needs the developer's consent "
            "(allow_llm_judge) and an API key or judge.recording."
        ),
    ),
    Command(
        "capture judge calibrate", "capture", "measure how far the judge agrees with people",
        "repl.commands.captures.judge:calibrate_judge", "pm capture judge calibrate labels.jsonl",
        arguments=(
            Argument("labels", "file of people's scores, else those of the pages", required=False, values="file"),
        ),
        exits=(3, 4, 5, 7, 8),
        description=(
            'A line is {"trace_id": "…", "scores": {"clarity": 4}}. Prints weighted kappa, mean difference and bias by '
            "length for each dimension. Verdicts are kept, so that a second run asks nobody."
        ),
    ),
    Command(
        "admin worker", "admin", "check captured sessions from the queue in PostgreSQL",
        "repl.commands.captures.worker:worker", "pm admin worker --parallel 4", surfaces=("cli",),
        flags=(
            Flag("--parallel", "captures to check at once, instead of worker.parallel", "N", kind="integer", least=1),
            Flag("--alive-file", "renew this file every few seconds, for a health check", "FILE", values="file"),
        ),
        exits=(3, 4, 5),
        description=(
            "Start as many as you like, on any machine that reaches the database and the blobs. The first Ctrl+C "
            "finishes what is under way, the second ends at once; the jobs of a worker that dies go to another. "
            "With SQLite no worker is needed: pm serve checks captures itself."
        ),
    ),
)
