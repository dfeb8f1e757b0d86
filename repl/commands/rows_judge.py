"""Registry rows: the judge of captured sessions, and the workers that check them."""

from __future__ import annotations

from repl.commands.spec import Argument, Command, Flag

__all__ = ["JUDGE_COMMANDS"]

JUDGE_COMMANDS: tuple[Command, ...] = (
    Command(
        "judge",
        "sessions",
        "score one captured session by the rubric",
        "repl.commands.judge:judge_session",
        "pm judge 7f3c1a52-0d5e-4c0b-9a55-2f6f1c1f9a10",
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
        "judge calibrate",
        "sessions",
        "measure how far the judge agrees with people",
        "repl.commands.judge:calibrate_judge",
        "pm judge calibrate labels.jsonl",
        arguments=(Argument("labels", "file of people's scores, one JSON object a line", values="file"),),
        exits=(3, 4, 5, 7, 8),
        description=(
            'A line is {"trace_id": "…", "scores": {"clarity": 4}}. Prints weighted kappa, mean difference and bias by '
            "length for each dimension. Verdicts are kept, so that a second run asks nobody."
        ),
    ),
    Command(
        "worker",
        "sessions",
        "check captured sessions from the queue in PostgreSQL",
        "repl.commands.worker:worker",
        "pm worker --parallel 4",
        surfaces=("cli",),
        flags=(
            Flag("--parallel", "captures to check at once, instead of worker.parallel", "N", kind="integer"),
            Flag("--alive-file", "renew this file every few seconds, for a health check", "FILE", values="file"),
        ),
        exits=(3, 4, 5),
        description=(
            "Start as many as you like, on any machine that reaches the database and the blobs. The first Ctrl+C "
            "finishes what is under way, the second ends at once; the jobs of a worker that dies go to another. "
            "With SQLite no worker is needed: pm serve checks captures itself."
        ),
    ),
    Command(
        "queued",
        "task",
        "list the tasks given to workers, or show one as it happens",
        "repl.commands.queued:show_queued",
        "pm queued",
        surfaces=("cli",),
        arguments=(Argument("task", "a queued task's id; all of them if left out", required=False),),
        flags=(Flag("--diff", "print what the task changed, for git apply"),),
        exits=(1, 3, 5, 6, 7, 8),
        description="Tasks of pm run --queue are in PostgreSQL with every fact: look from any machine that reaches it.",
    ),
)
