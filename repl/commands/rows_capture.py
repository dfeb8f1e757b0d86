"""Registry rows: captured bug-fix sessions of people, recorded here and sent to a collector."""

from __future__ import annotations

from repl.commands.spec import Argument, Command, Flag

__all__ = ["CAPTURE_COMMANDS"]

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
_PERSON = (
    Flag("--consent", "what may be kept: all, none, or of code,output,judge", "LIST"),
    Flag("--store", "redacted (default), raw (needs consent to code) or patches_only", "MODE",
         choices=("redacted", "raw", "patches_only")),
    Flag("--developer", "id to record instead of one made from git's e-mail", "ID"),
    Flag("--experience", "junior, mid or senior", "LEVEL", choices=("junior", "mid", "senior", "unknown")),
)  # fmt: skip
_TRACE = Argument("trace", "the capture's id, or its beginning; the newest if left out", required=False)

CAPTURE_COMMANDS: tuple[Command, ...] = (
    Command(
        "record",
        "sessions",
        "fix a bug in a recorded shell: commands, output, edits, tests, commits and thoughts",
        "repl.commands.record:record",
        'pm record --title "empty cart crashes the checkout"',
        surfaces=("cli",),
        flags=(
            *_BUG,
            *_PERSON,
            Flag("--shell", "bash, zsh or a path to one (else $SHELL)", "SHELL"),
            Flag("--live", "send while you work, not only at the end"),
            Flag("--no-upload", "keep it here at the end, without asking"),
            *_SERVER,
        ),
        exits=(1, 3, 4, 5, 6, 7, 8),
        description=(
            "Your own shell, prompt and settings; exit or Ctrl+D ends it. You are asked for consent once in each "
            "repository, and see what would be sent before it is. pm think notes a thought, pm record pause stops "
            "looking. Secrets are replaced before anything is written. See docs/captures.md."
        ),
    ),
    Command(
        "record pause",
        "sessions",
        "stop looking for a while",
        "repl.commands.record_control:pause",
        "pm record pause",
        exits=(7, 8),
    ),
    Command(
        "record resume",
        "sessions",
        "go on after a pause, or with a recording that was cut off",
        "repl.commands.record_control:resume",
        "pm record resume",
        surfaces=("cli",),
        arguments=(_TRACE,),
        flags=(
            Flag("--shell", "bash, zsh or a path to one (else $SHELL)", "SHELL"),
            Flag("--live", "send while you work, not only at the end"),
            Flag("--no-upload", "keep it here at the end, without asking"),
            *_SERVER,
        ),
        exits=(1, 3, 4, 5, 6, 7, 8),
    ),
    Command(
        "record stop",
        "sessions",
        "end the recorded shell, from another terminal",
        "repl.commands.record_control:stop",
        "pm record stop",
        exits=(7,),
    ),
    Command(
        "record status",
        "sessions",
        "show the recording that runs here, or the newest",
        "repl.commands.record_control:status",
        "pm record status",
        arguments=(_TRACE,),
        exits=(7, 8),
    ),
    Command(
        "record preview",
        "sessions",
        "show what would be sent of a recording",
        "repl.commands.record_control:preview",
        "pm record preview",
        arguments=(_TRACE,),
        flags=(Flag("--full", "every event, as it is sent"),),
        exits=(7, 8),
    ),
    Command(
        "record upload",
        "sessions",
        "send a recording to the collector, also one whose recorder was killed",
        "repl.commands.record_control:upload",
        "pm record upload",
        arguments=(_TRACE,),
        flags=_SERVER,
        exits=(3, 4, 5, 6, 7, 8),
    ),
    Command(
        "record discard",
        "sessions",
        "delete a recording on this machine",
        "repl.commands.record_control:discard",
        "pm record discard 3f9a1c02",
        arguments=(Argument("trace", "the capture's id, or its beginning"),),
        exits=(7, 8),
        description="What was sent stays with the collector.",
    ),
    Command(
        "think",
        "sessions",
        "note a thought in the recording that runs here",
        "repl.commands.record_control:think",
        'pm think "the cart is None after logout" --kind hypothesis',
        arguments=(Argument("text", "the thought", many=True),),
        flags=(
            Flag(
                "--kind",
                "hypothesis, plan, interpretation, decision or postmortem",
                "KIND",
                choices=("hypothesis", "plan", "interpretation", "decision", "postmortem"),
            ),
            Flag("--link", "event it speaks of; may be given again (else the last ones)", "EVENT", repeat=True),
        ),
        exits=(7, 8),
    ),
    Command(
        "snapshot",
        "sessions",
        "keep the touched files as they are now, in the recording that runs here",
        "repl.commands.record_control:snapshot",
        "pm snapshot",
        arguments=(Argument("paths", "these files too", required=False, many=True, values="file"),),
        exits=(7, 8),
    ),
    Command(
        "capture new",
        "sessions",
        "begin a capture of your own events",
        "repl.commands.capture:new",
        'pm capture new --title "empty cart crashes" --consent output,judge',
        flags=(
            *_BUG,
            *_PERSON,
            Flag("--from", "take the request from this JSON file (- for stdin)", "FILE", values="file"),
            Flag("--trace-id", "use this UUID", "UUID"),
            Flag("--offline", "keep it here for now"),
            *_SERVER,
        ),
        exits=(3, 4, 5, 7, 8),
    ),
    Command(
        "capture append",
        "sessions",
        "append events to a capture, and send what is not sent yet",
        "repl.commands.capture:append",
        "pm capture append 3f9a1c02 events.jsonl",
        arguments=(
            Argument("trace", "the capture's id, or its beginning"),
            Argument("file", "JSON lines, or {events: […]}; - for stdin", required=False, values="file"),
        ),
        flags=(Flag("--offline", "keep them here for now"), *_SERVER),
        exits=(3, 4, 5, 6, 7, 8),
        description="Events are safe here before they are sent; without a file only what is left is sent.",
    ),
    Command(
        "capture finalize",
        "sessions",
        "end a capture: send what is left, then no more",
        "repl.commands.capture:finalize",
        "pm capture finalize 3f9a1c02",
        arguments=(Argument("trace", "the capture's id, or its beginning"),),
        flags=(
            Flag("--final-state", "JSON file with the final state", "FILE", values="file"),
            Flag("--offline", "only note it here for now"),
            *_SERVER,
        ),
        exits=(3, 4, 5, 6, 7, 8),
    ),
    Command(
        "capture get",
        "sessions",
        "fetch a trace from the collector",
        "repl.commands.capture:get",
        "pm capture get 3f9a1c02 --output trace.json",
        arguments=(Argument("trace", "the trace's id; the beginning is enough for one that is here"),),
        flags=(
            Flag("--view", "full (default) or metadata", "VIEW", choices=("full", "metadata")),
            Flag("--blobs", "ref (default) or inline", "HOW", choices=("ref", "inline")),
            Flag("--output", "write here instead of stdout", "PATH", "-o", values="file"),
            *_SERVER,
        ),
        exits=(3, 4, 5, 7, 8),
    ),
    Command(
        "capture list",
        "sessions",
        "list the captures of this project",
        "repl.commands.capture:list_",
        "pm capture list",
        aliases=("captures",),
        flags=(Flag("--remote", "what the collector has, instead of what is here"), *_SERVER),
        exits=(3, 4, 5, 8),
    ),
    Command(
        "capture prune",
        "sessions",
        "delete captures here that the collector has whole for a while; unsent ones always stay",
        "repl.commands.capture_keep:prune",
        "pm capture prune --older-than 7d --yes",
        flags=(Flag("--older-than", "sent longer ago than this: 30d, 12h (else setting capture.keep_sent)", "AGE"),),
        exits=(2, 3, 8),
    ),
)
