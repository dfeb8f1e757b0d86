"""From settings and a session's own choices to the request a supervisor takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repl.executor_choice import choose_reviewer
from runner.core.request import Request
from runner.executors.executor_port import ExecutorSettings, PermissionAsker
from tracer.drafts import executor_choice
from tracer.errors import UsageError
from tracer.facts import CheckChoice, Limits
from tracer.settings.layers import Settings

_KINDS = ("test", "lint", "typecheck")
_MOST_PLAN = 8 << 20
_RANGE = re.compile(r"[Qq](\d+)\s*-\s*[Qq]?(\d+)")
_ONE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def expand_criteria(parts: tuple[str, ...]) -> list[str]:
    """`("Q1-Q3", "Q7")` → `["Q1", "Q2", "Q3", "Q7"]`; names of team criteria pass as they are.

    Raises UsageError: neither an id nor a range of them.
    """
    found: list[str] = []
    for part in parts:
        spread = _RANGE.fullmatch(part.strip())
        if spread:
            first, last = int(spread[1]), int(spread[2])
            if not 1 <= first <= last <= 12:
                raise UsageError(f"{part!r} is no range of criteria", next_step="write Q1-Q6 or Q1-Q9")
            found.extend(f"Q{number}" for number in range(first, last + 1))
        elif _ONE.fullmatch(part.strip()) and not (
            re.fullmatch(r"[Qq]\d+", part.strip()) and not "1" <= part.strip()[1:] <= "9"
        ):
            found.append(part.strip().upper() if re.fullmatch(r"[Qq]\d", part.strip()) else part.strip())
        else:
            raise UsageError(f"{part!r} is no criterion", next_step="pm criteria lists them")
    return list(dict.fromkeys(found))


def task_request(
    prompt: str,
    *,
    settings: Settings,
    folder: Path,
    executor: str,
    environ: Mapping[str, str],
    interactive: bool,
    overrides: Mapping[str, Any] | None = None,
) -> Request:
    """The request for `prompt` in `folder`; `overrides` are values chosen in the session (keys without `run.`).

    Raises UsageError: criteria that are none, or a reviewer that is none.
    """

    def value(name: str) -> Any:
        chosen = (overrides or {}).get(name)
        return settings.get(name if "." in name else f"run.{name}") if chosen is None else chosen

    chosen, fallback = value("criteria"), tuple(value("fallback") or ())
    review = choose_reviewer(
        str(value("review") or ""),
        settings=settings,
        environ=environ,
        workers=(executor, *fallback),
        model=value("model"),
    )
    ask = value("on_limit") == "ask" or (value("on_limit") == "auto" and interactive)
    script = value("script")
    return Request(
        prompt=prompt,
        workspace=str(folder),
        title=value("title") or "",
        kind=value("kind"),
        executor=executor_choice(
            executor,
            model=value("model"),
            script=str((folder / Path(script).expanduser()).absolute()) if script else None,
            permissions=value("permissions"),
            thinking=bool(value("thinking")),
            continue_session=bool(value("continue_session")),
            fallback=fallback,
        ),
        checks=_checks(settings, value, expand_criteria(tuple(chosen)) if chosen else None, review),
        limits=Limits(
            max_iterations=value("max_iterations"),
            timeout_s=value("timeout"),
            budget_usd=value("budget_usd"),
            on_limit="ask" if ask else "fail",
            parallel=value("parallel"),
        ),
        chunk=value("chunk"),
        plan=plan_file(folder, value("plan")),
        approve_plan=bool(value("approve_plan")),
        into=value("into") or "",
        partial=bool(value("partial")),
        isolation=value("isolation"),
        label=value("label") or "",
        prompt_file=(overrides or {}).get("prompt_file") or "",
    )


def plan_file(folder: Path, name: str | None) -> dict[str, Any] | None:
    """The plan in the file called `name`, relative to `folder`; None where none is named.

    Raises UsageError: it cannot be read, is too long, or holds no plan that can be carried out.
    """
    if not name:
        return None
    path = folder / Path(name).expanduser()
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_PLAN + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read the plan {str(path)!r}", why=why or "", next_step="check --plan FILE") from error
    if len(raw) > _MOST_PLAN:
        raise UsageError(f"the plan {str(path)!r} holds more than {_MOST_PLAN >> 20} MB", next_step="shorten it")
    from runner.core.chunk_plan import read_plan  # 10 ms, only where there is a plan

    return read_plan(text)


def _checks(
    settings: Settings, value: Any, criteria: list[str] | None, review: Mapping[str, Any] | None
) -> CheckChoice:
    given = {kind: value(kind) for kind in _KINDS if value(kind) and settings.origin(f"run.{kind}").layer == "flag"}
    configured = {kind: value(kind) for kind in _KINDS if value(kind) and kind not in given}
    untrusted = {kind: command for kind in _KINDS if (command := settings.untrusted().get(f"run.{kind}"))}
    return CheckChoice(
        {
            "criteria": criteria,
            "given": given,
            "configured": configured,
            "detect": settings.trusted,
            **({"untrusted": untrusted} if untrusted else {}),
            "tests": value("gate.tests"),
            "require": _required(value("gate.require")),
            "base_tests": bool(value("gate.base_tests")),
            "harness": list(value("gate.harness") or ()),
            "needs": list(value("gate.link") or ()),
            "strength": _percent(value("gate.strength")),
            "strength_time": value("gate.strength_time"),
            "options": settings.family("criteria.options"),
            "link": list(settings.get("chunk.link") or ()),
            **({} if review is None else {"review": review}),
            **({"coverage": value("coverage")} if value("coverage") else {}),
        }
    )


def _percent(wanted: Any) -> float | None:
    """Raises UsageError: more than everything."""
    if wanted is not None and wanted > 100:
        raise UsageError(f"--strength {wanted:g} is more than 100 percent", next_step="--strength 80")
    return None if wanted is None else float(wanted)


def _required(checks: Any) -> list[str]:
    """The criteria of the checks that `--require` names.

    Raises UsageError: another name.
    """
    known = {"tests": "Q7", "test": "Q7", "lint": "Q8", "typecheck": "Q9"}
    for name in checks or ():
        if name not in known:
            raise UsageError(f"{name!r} is no check", next_step="--require tests, lint or typecheck")
    return [known[name] for name in checks or ()]


def executor_settings(
    settings: Settings,
    *,
    state_dir: Path,
    environ: Mapping[str, str],
    script: str | None,
    model: str | None,
    fallback: tuple[str, ...] = (),
    ask_person: PermissionAsker | None = None,
) -> ExecutorSettings:
    """What an executor is made from; without `ask_person`, what the permissions do not settle is refused.

    `script`, `model` and `fallback` are the task's own, which a resumed one finds in its record.
    """
    key_file = settings.get("anthropic.key_file")
    return ExecutorSettings(
        state_dir=state_dir,
        environ=dict(environ),
        script=Path(script) if script else None,
        model=model,
        base_url=settings.get("anthropic.base_url"),
        key_file=Path(key_file).expanduser() if key_file else None,
        programs={name: str(path) for name, path in settings.family("executors").items()},
        agents={name: tuple(command) for name, command in settings.family("agents").items()},
        allow_commands=tuple(settings.get("anthropic.allow_commands") or ()),
        sandbox=str(settings.get("sandbox.mode")),
        network=bool(settings.get("sandbox.network")),
        silence_s=settings.get("run.silence"),
        fallback=fallback,
        extra_environment=tuple(settings.get("environment.allow") or ()),
        ask_person=ask_person,
    )
