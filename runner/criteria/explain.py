"""What each criterion looks for, what it leaves alone, and what mends a failure: the text of `pm criteria explain`."""

from __future__ import annotations

__all__ = ["EXPLAIN"]

EXPLAIN: dict[str, str] = {
    "Q1": """\
Every file that the answer claims to have created or changed, and every file the task expects, is looked up on disk.
Fails: a claimed file that does not exist, is empty, lies outside the workspace, or was not changed.
Leaves alone: files that are only mentioned, read, suggested or said to be unchanged.
Mend it: make the change, or do not claim it.""",
    "Q2": """\
No TODO, FIXME, TBD, HACK or XXX that stands for missing work, and no work named as missing.
Fails: such a mark in a comment, a docstring or the answer's own prose; "not implemented yet", "placeholder
implementation" and the like, in seven languages; todo!(), NotImplementedError, NotImplementedException, ??? and
thrown "not implemented" where a function should do something.
Leaves alone: to-do apps, identifiers, strings, message catalogues, quotations, diffs, transcripts, abstract methods,
base classes, test doubles, a refusal such as HTTP 501; marks that were there before in parts this task did not touch.
Mend it: do the work that the mark stands for, then remove the mark.""",
    "Q3": """\
Nothing is left out.
Fails: "rest of the code unchanged", "existing code here", "your logic goes here", a bare "..." comment, 残り省略,
其余代码省略, 나머지 생략, resto igual, Rest unverändert, reste inchangé; `...`, `pass` or an empty body where behaviour
was asked for; an empty test.
Leaves alone: Ellipsis, spread, rest and variadics; Protocols, interfaces, overloads, stub files, exception classes,
hooks, null objects, test doubles; an empty body whose comment gives the reason; dots in text that people read.
Mend it: write the code out in full.""",
    "Q4": """\
Everything delivered parses: changed files whole, and code blocks that are offered as the result.
Python by its compiler, JSON, TOML and YAML by real parsers, other languages by their grammar, where only faults that
were not there before count. SQL, C, C++, CSS, HTML and Dockerfile fail only where the text ends inside something.
Fails also: a code block that never closes, an answer cut off by the output limit.
Leaves alone: diffs, quoted errors, transcripts, excerpts and fragments.
Mend it: make it parse; give the answer in smaller steps where it was cut off.""",
    "Q5": """\
A task that asks for a change has changes on disk; a question has an answer that is not empty.
`--kind` says which it is; `auto` goes by what happened: files changed or claimed make it a change, else an answer is
enough unless the request names a file to change. "Nothing needs to change" is accepted, with its reason, once the
tests pass; otherwise the person is asked.
Mend it: make the change in the workspace.""",
    "Q6": """\
The agent's own "done" is no evidence, and leaving work to the person is no end.
Fails: completion claimed while nothing changed; a plan, advice ("you should change ...") or a request for leave ("shall
I change it?") in place of a change that was ordered; "you will need to implement the rest", "let me know if I should
continue", an answer that ended INCOMPLETE; files of the orchestrator changed (and undone).
Leaves alone: a claim with evidence beside it, instructions for use, ideas beyond the request, advice where advice was
asked for, a question which of two ways is meant.
Mend it: do the rest, now.""",
    "Q7": """\
The test command ends with 0 (given by --test, configured, or detected in a trusted folder).
Fails: another exit code, no end in time; tests deleted, skipped or weakened and test settings changed by this task,
unless the request asks for it or --allow-test-changes.
Not verified, and told beside the verdict: a tool that is not installed, a detected command in a folder without trust.
A failing run is repeated once; a run that then passes is flaky, passes, and is said so.
Mend it: mend the code that the failing tests name.""",
    "Q8": """\
The lint command ends with 0 (given by --lint, configured, or detected in a trusted folder), its settings untouched.
Mend it: mend what it reports.""",
    "Q9": """\
The type check ends with 0 (given by --typecheck, configured, or detected in a trusted folder), its settings untouched.
Mend it: mend what it reports.""",
}
