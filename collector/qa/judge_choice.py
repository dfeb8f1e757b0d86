"""Which judge the settings ask for: a recording, the Messages API, or none and why."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from collector.qa.judge import RubricJudge
from collector.qa.judge_anthropic import AnthropicJudgeModel
from collector.qa.judge_pace import Pace, PacedModel
from collector.qa.judge_port import JudgeModel
from collector.qa.judge_recorded import RecordedJudgeModel, RecordingModel, read_recording
from runner.executors.credentials import find_api_key

__all__ = ["ChosenJudge", "SettingSource", "choose_judge", "choose_model"]

_OFF = "the judge is switched off (judge.mode)"
_NO_KEY = "no judge is set up: no API key (PM_API_KEY, ANTHROPIC_API_KEY or a key file) and no judge.recording"


class SettingSource(Protocol):
    """Settings by key, such as `runner.settings.layers.Settings`."""

    def get(self, key: str) -> Any:
        """The value in force."""
        ...


class ChosenJudge(NamedTuple):
    """The judge, or None and why there is none."""

    judge: RubricJudge | None
    why: str = ""


def choose_model(settings: SettingSource, environ: Mapping[str, str]) -> tuple[JudgeModel | None, str]:
    """The model the settings name, or None and why.

    Raises:
        ConfigError: a recording that cannot be used, a base URL that is none.
        CredentialsError: a key file that others can read.

    """
    if settings.get("judge.mode") == "off":
        return None, _OFF
    recording = settings.get("judge.recording")
    if recording:
        replies = read_recording(Path(str(recording)).expanduser())
        told = "\n".join(reply.model_dump_json() for reply in replies)
        return RecordedJudgeModel(replies, name=f"recorded:{hashlib.sha256(told.encode()).hexdigest()[:16]}"), ""
    key_file = settings.get("anthropic.key_file")
    key = find_api_key(environ, key_file=Path(key_file).expanduser() if key_file else None)
    if key is None and settings.get("judge.mode") != "on":
        return None, _NO_KEY
    return AnthropicJudgeModel(
        model=str(settings.get("judge.model")),
        key=key,
        base_url=settings.get("judge.base_url") or settings.get("anthropic.base_url"),
        timeout_s=float(settings.get("judge.timeout")),
    ), ""


def choose_judge(
    settings: SettingSource, environ: Mapping[str, str], *, pace: Pace | None = None, record: Path | None = None
) -> ChosenJudge:
    """The judge the settings ask for (raises as `choose_model`).

    `pace` holds back its requests, `record` is a file that its answers are written to.
    """
    model, why = choose_model(settings, environ)
    if model is None:
        return ChosenJudge(None, why)
    if record is not None:
        model = RecordingModel(model, record)
    return ChosenJudge(RubricJudge(PacedModel(model, pace) if pace else model, votes=int(settings.get("judge.votes"))))
