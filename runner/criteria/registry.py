"""The criteria there are and which of them are in force.

Q1-Q6 are always in force. Q7-Q9 are where there is a command of their kind or they were selected by name; a selected
check that has no command fails rather than passing unseen. Teams' own criteria follow in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runner.criteria.command_checks import q7_test, q8_lint, q9_typecheck
from runner.criteria.evidence_checks import q1_files, q5_evidence, q6_termination
from runner.criteria.explain import EXPLAIN
from runner.criteria.model import CommandKind, Criterion
from runner.criteria.review import q2_marks, q3_omissions, q4_syntax

__all__ = ["BUILT_IN", "KIND_OF", "criteria_in_force"]

KIND_OF: dict[str, CommandKind] = {"Q7": "test", "Q8": "lint", "Q9": "typecheck"}

BUILT_IN: tuple[Criterion, ...] = (
    Criterion(id="Q1", name="Files Verified", check=q1_files, explain=EXPLAIN["Q1"]),
    Criterion(id="Q2", name="No TODO/FIXME", check=q2_marks, explain=EXPLAIN["Q2"]),
    Criterion(id="Q3", name="No Omission Markers", check=q3_omissions, explain=EXPLAIN["Q3"]),
    Criterion(id="Q4", name="No Incomplete Syntax", check=q4_syntax, explain=EXPLAIN["Q4"]),
    Criterion(id="Q5", name="Evidence Present", check=q5_evidence, explain=EXPLAIN["Q5"]),
    Criterion(id="Q6", name="No Early Termination", check=q6_termination, explain=EXPLAIN["Q6"]),
    Criterion(id="Q7", name="Test Passed", check=q7_test, mandatory=False, explain=EXPLAIN["Q7"]),
    Criterion(id="Q8", name="Lint Passed", check=q8_lint, mandatory=False, explain=EXPLAIN["Q8"]),
    Criterion(id="Q9", name="TypeCheck Passed", check=q9_typecheck, mandatory=False, explain=EXPLAIN["Q9"]),
)


def criteria_in_force(
    *,
    commands: Iterable[CommandKind] = (),
    selected: Iterable[str] | None = None,
    team: Sequence[Criterion] = (),
) -> tuple[Criterion, ...]:
    """The criteria to judge by, Q1 first.

    `commands` are the kinds that have a command, whether or not it could be run; `selected` are ids asked for by the
    person (`--criteria`): optional ones outside it are left out, optional ones inside it are in force even without
    a command, and fail then. Mandatory criteria cannot be deselected.
    """
    kinds = set(commands)
    wanted = None if selected is None else {name.upper() for name in selected}
    chosen = []
    for criterion in (*BUILT_IN, *sorted(team, key=lambda each: each.id)):
        kind = KIND_OF.get(criterion.id)
        if (
            criterion.mandatory
            or (wanted is not None and criterion.id.upper() in wanted)
            or (wanted is None and kind is not None and kind in kinds)
        ):
            chosen.append(criterion)
    return tuple(chosen)
