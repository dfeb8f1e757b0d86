"""Registry row: the quality checks of captured sessions."""

from __future__ import annotations

from typing import Final

from repl.commands.spec import Argument, Command, Flag

__all__ = ["QA_COMMANDS"]

_TRACE: Final = Argument("trace", "the capture's id, or its beginning; the newest if left out", required=False)
_TABLE: Final = Flag("--table", "every test before and after the fix")

QA_COMMANDS: tuple[Command, ...] = (
    Command(
        "capture qa",
        "sessions",
        "check a captured session: schema, checkout, tests in a sandbox, judge, final document",
        "repl.commands.capture_qa:qa",
        "pm capture qa 7f3c1a52 --step tests",
        arguments=(_TRACE,),
        flags=(
            Flag(
                "--step",
                "do this step again (may be repeated), and what depends on it",
                "STEP",
                repeat=True,
                choices=("schema", "checkout", "tests", "judge", "materialize"),
            ),
            Flag("--again", "do every step again"),
            _TABLE,
        ),
        exits=(1, 3, 4, 5, 7, 8, 9),
        aliases=("qa", "qa run"),
        description=(
            "Steps whose inputs have not changed are not done again. Works on the collector's own database, as the "
            "worker does. Exit 0: the tests pass on the fix; 1: they fail, or nothing could be tested; 9: no sandbox."
        ),
    ),
    Command(
        "qa show",
        "sessions",
        "what the checks of a captured session came to, without running any",
        "repl.commands.qa_show:show",
        "pm qa show 7f3c1a52 --table",
        arguments=(_TRACE,),
        flags=(_TABLE,),
        exits=(3, 7, 8),
    ),
    Command(
        "qa status",
        "sessions",
        "which checks of a captured session are done, and when",
        "repl.commands.qa_show:status",
        "pm qa status 7f3c1a52",
        arguments=(_TRACE,),
        exits=(3, 7, 8),
    ),
)
