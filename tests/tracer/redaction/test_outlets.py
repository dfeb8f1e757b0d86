"""Every kind of secret, in every dress, through every outlet: what goes in whole comes out unreadable.

`make torture` tries all kinds; `make test` a few of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tracer.redaction.positives import Positive, all_rules, positive
from tests.tracer.redaction.test_dresses import DRESSES, leaks
from tracer.redaction.engine import ProjectRedactor, build_redactor, strings
from tracer.redaction.streams import StreamRedactor, redact_file

pytestmark = pytest.mark.xdist_group("redaction-gate")  # compiled once, not by each worker
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
    return "".join((made.feed(FILLER + text[:cut]), made.feed(text[cut:] + FILLER), made.close()))


def file(redactor: ProjectRedactor, text: str, folder: Path) -> str:
    source = folder / "a.log"
    source.write_bytes(text.encode("utf-8", "surrogatepass"))
    return redact_file(redactor, source, folder / "b.log").path.read_bytes().decode("utf-8", "surrogatepass")


def rows(redactor: ProjectRedactor, text: str, _: Path) -> str:
    changed, _counts = redactor.redact_rows([("one",), (text,)])
    return "".join(changed.get(1, [text]))


OUTLETS: dict[str, Callable[[ProjectRedactor, str, Path], str]] = {
    "field": value(lambda text: {"data": {"output": text}}),
    "key": value(lambda text: {"data": {text: 1}}),
    "list": value(lambda text: [[{"deep": [text]}]]),
    "chunks": chunks,
    "stream": stream,
    "file": file,
    "rows": rows,
}


def kinds() -> list[Positive]:
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


KINDS = kinds()


def test_the_kinds_are_many() -> None:
    assert len({canary.rule for canary in KINDS}) >= 250
    assert len(DRESSES) >= 16
    assert len(OUTLETS) == 7


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kinds", [KINDS[::100], pytest.param(KINDS, marks=pytest.mark.torture)], ids=["some", "all"])
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
