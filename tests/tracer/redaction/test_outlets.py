"""Every kind of secret, in every dress, through every outlet: what goes in whole comes out unreadable.

`make torture` tries all kinds, and those of the generator that knows no rule (`generator`, which PM_TEST_SEED gives
another seed); `make test` a few of them.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import re
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from repl.present.output import Output
from service.pages.task import render
from service.problems import problem_of
from tests.tracer.redaction import generator
from tests.tracer.redaction.positives import Positive, all_rules, positive
from tests.tracer.redaction.test_dresses import DRESSES, leaks
from tracer.conversation import ConversationTracer
from tracer.errors import PmError
from tracer.export.pieces import Audit, Many, pieces_of, written
from tracer.redaction.engine import ProjectRedactor, build_redactor, strings
from tracer.redaction.streams import StreamRedactor, redact_file

FILLER = "ordinary words of a log line\n" * 300


@pytest.fixture(scope="module")
def redactor(tmp_path_factory: pytest.TempPathFactory) -> ProjectRedactor:
    made = build_redactor(
        state_dir=tmp_path_factory.mktemp("state"),
        environ={"HOME": "/home/janedoe", "USER": "janedoe"},
        host="wonderbox",
        persons=(),
    )
    made.prepare()
    return made


def value(make: Callable[[str], object]) -> Callable[[ProjectRedactor, str, Path], str]:
    return lambda redactor, text, _: "".join(one for one, _ in strings(redactor.redact_value(make(text)).value))


def chunks(redactor: ProjectRedactor, text: str, _: Path) -> str:
    cut = len(text) // 2
    return "".join(redactor.redact_chunks([text[:cut], text[cut:]])[0])


def stream(redactor: ProjectRedactor, text: str, _: Path) -> str:
    made = StreamRedactor(redactor)
    cut = len(text) // 3
    return "".join((made.feed(FILLER + text[:cut]), made.feed(f"{text[cut:]}\n{FILLER}"), made.close()))


def file(redactor: ProjectRedactor, text: str, folder: Path) -> str:
    source = folder / "a.log"
    source.write_bytes(text.encode("utf-8", "surrogatepass"))
    return redact_file(redactor, source, folder / "b.log").path.read_bytes().decode("utf-8", "surrogatepass")


def rows(redactor: ProjectRedactor, text: str, _: Path) -> str:
    changed, _counts = redactor.redact_rows([("one",), (text,)])
    return "".join(changed.get(1, [text]))


def trace(redactor: ProjectRedactor, text: str, folder: Path) -> str:
    """What a conversation's trace holds of it on the disk."""

    async def record() -> str:
        tracer = ConversationTracer(state_dir=folder, session_id="s", task_id="task-001", redactor=redactor)
        await tracer.log_user_request(text)
        await tracer.close()
        path = tracer.get_trace_file_path()
        entry = tracer.read_trace(path)[0]
        path.unlink()
        return str(entry.data["prompt"])

    return asyncio.run(record())


def exported(redactor: ProjectRedactor, text: str, _: Path) -> str:
    """What an export with `--redact` lets out."""

    async def export() -> str:
        async def items() -> AsyncIterator[Any]:
            yield {"output": text}

        audit = Audit(redactor.untruncated(), what="the export", redact=True)
        out = [
            each async for piece in pieces_of({"items": Many(items())}) if audit.take(piece) for each in audit.passed()
        ]
        out += audit.passed(last=True)
        audit.close()
        return str(json.loads(b"".join(map(written, out)))["items"][0]["output"])

    return asyncio.run(export())


def json_lines(redactor: ProjectRedactor, text: str, folder: Path) -> str:
    source = folder / "a.jsonl"
    source.write_text(json.dumps({"type": "user", "message": {"content": [{"text": text}]}}) + "\n")
    made = json.loads(redact_file(redactor, source, folder / "b.jsonl").path.read_text())
    return str(made["message"]["content"][0]["text"])


def terminal(_redactor: ProjectRedactor, text: str, _: Path) -> str:
    """An error's lines, as its reader sees them: control characters are spelt out."""
    stderr = io.StringIO()
    Output(stdout=stderr, stderr=stderr).error(PmError("it failed", why=text))
    return stderr.getvalue()


def json_error(_redactor: ProjectRedactor, text: str, _: Path) -> str:
    stdout = io.StringIO()
    Output(stdout=stdout, stderr=stdout, form="json").failure("run", PmError("it failed", next_step=text), 1)
    return str(json.loads(stdout.getvalue())["error"]["next"])


def http(_redactor: ProjectRedactor, text: str, _: Path) -> str:
    return str(json.loads(bytes(problem_of(PmError(text)).body))["detail"])


def page(_redactor: ProjectRedactor, text: str, _: Path) -> str:
    return render("sign_in.html", next="/", problem=text, project="p")


OUTLETS: dict[str, Callable[[ProjectRedactor, str, Path], str]] = {
    "field": value(lambda text: {"data": {"output": text}}),
    "key": value(lambda text: {"data": {text: 1}}),
    "list": value(lambda text: [[{"deep": [text]}]]),
    "chunks": chunks,
    "stream": stream,
    "file": file,
    "rows": rows,
}


@cache  # made where a test asks for them: each worker collects this module
def all_kinds() -> list[Positive]:
    """A secret for each rule, in one line. Runs of blanks and quotes, which only an expression thinks of, are left out,
    and signs that a line of code ends with: there a wrapped line and one that ends look the same.
    """
    made = []
    for rule in all_rules():
        text = re.sub(r"\s+", " ", positive(rule).text)
        find = next(iter(rule.finds(f"\n{text}\n".encode())), None)
        if find is not None and len(find.secret) >= 12 and re.search(r"[\\<>&%:(,'\"`]", text[10:]) is None:
            made.append(Positive(rule.id, text, find.secret.decode()))
    return made


@pytest.fixture
def kinds(request: pytest.FixtureRequest) -> list[Positive]:
    return all_kinds()[request.param]


def test_the_kinds_are_many() -> None:
    assert len({canary.rule for canary in all_kinds()}) >= 250
    assert len(DRESSES) >= 16
    assert len(OUTLETS) == 7


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kinds",
    [slice(None, None, 100), pytest.param(slice(None), marks=pytest.mark.torture)],
    ids=["some", "all"],
    indirect=True,
)
@pytest.mark.parametrize("outlet", OUTLETS)
def test_no_kind_gets_out_in_any_dress(
    redactor: ProjectRedactor, tmp_path: Path, kinds: list[Positive], outlet: str
) -> None:
    leaked = []
    for dress, (put_on, take_off) in DRESSES.items():
        for canary in kinds:
            dressed = f"out:\n{put_on(f' {canary.text} ')}\n"
            if leaks(canary, take_off(OUTLETS[outlet](redactor, dressed, tmp_path))):
                leaked.append((dress, canary.rule))
    assert leaked == []


# Beside those above what has a redactor of its own; pages and terminals show control characters, and none acts.
ALL_OUTLETS = OUTLETS | {
    "trace": trace,
    "JSON Lines": json_lines,
    "export": exported,
    "terminal": terminal,
    "error in JSON": json_error,
    "answer over HTTP": http,
    "page": page,
}


def test_the_generator_has_more_than_was_asked_for() -> None:
    assert len(generator.KINDS) >= 120
    assert len(generator.DRESSES) >= 16
    assert len(ALL_OUTLETS) >= 7


@pytest.mark.timeout(900)
@pytest.mark.parametrize("many", [150, pytest.param(5000, marks=pytest.mark.torture)])
def test_nothing_that_is_drawn_from_providers_documents_gets_out(
    redactor: ProjectRedactor, tmp_path: Path, many: int
) -> None:
    seed = os.environ.get("PM_TEST_SEED", "17")
    rng, leaked = random.Random(seed), []
    for _ in range(many):
        drawn, outlet = generator.draw(rng), rng.choice(list(ALL_OUTLETS))
        if generator.leaks(ALL_OUTLETS[outlet](redactor, drawn.text, tmp_path), drawn.secret):
            leaked.append((drawn.kind, drawn.dress, outlet, drawn.text))
    assert leaked == [], f"PM_TEST_SEED={seed}"
