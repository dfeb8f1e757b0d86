"""What a user asks for: one value from the command line to the record and back. Pure; it holds no credential."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from runner.gate.request_kind import settled_kind
from tracer.drafts import Draft, user_request
from tracer.facts import CheckChoice, Continues, ExecutorChoice, Limits, Unverified, UserRequest
from tracer.verification import untested

_TITLE = 80


class Request(NamedTuple):
    """A task. `workspace` is absolute; `continues` says which earlier file this one follows.

    `kind`: `auto` is settled by the words of `prompt` when the request is recorded.
    `chunk`: `auto` splits an explicit list of work, and asks a model about a long request; `always` splits wherever a
    plan of two or more subtasks can be made; a given `plan` (`runner.core.chunk_plan.read_plan`) runs in any case.
    `approve_plan`: the plan waits for the user; `into`: the new branch that gets the result instead of the user's
    files; `partial`: what was merged is delivered although not all is COMPLETE.
    `isolation`: `folder`, `worktree`, or `auto`: a worktree where another task works in the folder.
    `label` (`operation:module`) names its agentic traces; `prompt_file` is the file that `prompt` came from.
    """

    prompt: str = ""
    workspace: str = ""
    title: str = ""
    kind: str = "auto"
    executor: ExecutorChoice = ExecutorChoice({})
    checks: CheckChoice = CheckChoice({})
    limits: Limits = Limits()
    chunk: str = "auto"
    plan: Mapping[str, Any] | None = None
    approve_plan: bool = False
    into: str = ""
    partial: bool = False
    isolation: str = "auto"
    label: str = ""
    prompt_file: str = ""
    continues: Continues | None = None

    @classmethod
    def of(cls, fact: UserRequest) -> Request:
        """The request that a task's first USER_REQUEST holds."""
        given = {name: value for name in cls._fields if (value := getattr(fact, name))}
        return cls(**given)

    @property
    def untested(self) -> tuple[Unverified, ...]:
        """What could not be verified where it passes without tests."""
        return untested(self.kind, self.checks)

    def draft(self) -> Draft:
        """The USER_REQUEST that records it."""
        return user_request(
            self.prompt,
            title=self.title or first_line(self.prompt),
            kind=settled_kind(self.kind, self.prompt),
            workspace=self.workspace,
            limits=self.limits.to_dict(),
            executor=dict(self.executor.data),
            checks=dict(self.checks.data),
            chunk=self.chunk,
            optional={
                "plan": self.plan,
                "approve_plan": self.approve_plan,
                "into": self.into,
                "partial": self.partial,
                "isolation": "" if self.isolation == "auto" else self.isolation,
                "label": self.label,
                "prompt_file": self.prompt_file,
            },
        )


def first_line(text: str, *, limit: int = _TITLE) -> str:
    """The first non-empty line of `text`, cut to `limit` characters, as a title."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
