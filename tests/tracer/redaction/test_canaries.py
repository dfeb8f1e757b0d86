"""No secret gets through: a made-up positive of every rule, in every field, encoding, chunk boundary and cut.

`make test` tries each rule's in one of these places, `make torture` in all.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tracer.redaction.positives import MARK, Positive, canaries_of, positives
from tracer.redaction.engine import ProjectRedactor, build_redactor
from tracer.redaction.leaks import LeakError, verify_clean
from tracer.redaction.rule_pack import gitleaks_data
from tracer.redaction.streams import StreamRedactor


@pytest.fixture(scope="module")
def redactor(tmp_path_factory: pytest.TempPathFactory) -> ProjectRedactor:
    return build_redactor(
        state_dir=tmp_path_factory.mktemp("state"),
        environ={"HOME": "/home/janedoe", "USER": "janedoe", "CI_TOKEN": "quiet lake 77"},
        host="wonderbox",
        persons=(),
    )


def leaks(canary: Positive, text: str) -> bool:
    """Whether the secret, or a run of it that would be worth guessing the rest of, stands in `text`, blanks apart."""
    secret, text = canary.secret, MARK.sub("", text)
    parts = [secret[at : at + 12] for at in range(max(len(secret) - 11, 1))]
    return any(part in text for part in parts if len(part) < 12 or len(part.replace(" ", "").strip()) > 5)


def test_every_vendored_rule_that_goes_by_text_has_a_canary() -> None:
    wanted = {rule["id"] for rule in gitleaks_data()["rules"] if "regex" in rule}
    assert len(gitleaks_data()["rules"]) >= 222
    assert wanted - {canary.rule for canary in positives()} == set()


@canaries_of(0)
def test_a_canary_survives_in_no_field(redactor: ProjectRedactor, canaries: list[Positive]) -> None:
    for canary in canaries:
        text = f"\n{canary.text}\n"
        value = {"data": {"prompt": text, "rows": [text, {"deep": [text]}], text: 1}, "n": 3, "none": None}
        redacted, counts = redactor.redact_value(value)
        assert not leaks(canary, json.dumps(redacted).replace("\\n", "\n").replace('\\"', '"')), canary.rule
        assert sum(counts.values()) >= 4, canary.rule
        assert redactor.redact_value(redacted) == (redacted, {}), canary.rule
        assert redactor.touched_value(redacted) == {}, canary.rule


ENCODINGS: dict[str, Callable[[str], str]] = {
    "json": lambda text: json.dumps({"result": text}),
    "url": lambda text: "q=" + quote(text, safe="") + "&x=1",
    "base64": lambda text: base64.b64encode(f"some words before {text} some words after".encode()).decode(),
    "hex": lambda text: f"some words before {text} some words after".encode().hex(),
}


def _survives_in_no_encoding(redactor: ProjectRedactor, canaries: list[Positive], encoding: str) -> None:
    for canary in canaries:
        encoded = ENCODINGS[encoding](f"\n{canary.text}\n")
        text, counts = redactor.redact_text(f"out: {encoded}\n")
        assert sum(counts.values()) >= 1, canary.rule
        assert not leaks(canary, text), canary.rule
        for shift in range(3):
            core = base64.b64encode(b"\0" * shift + canary.secret.encode())[4:-4].decode()
            assert not core or core not in text, canary.rule
        assert redactor.redact_text(text) == (text, {}), canary.rule


@canaries_of(1)
def test_a_canary_survives_in_no_json(redactor: ProjectRedactor, canaries: list[Positive]) -> None:
    _survives_in_no_encoding(redactor, canaries, "json")


@canaries_of(2)
def test_a_canary_survives_in_no_url(redactor: ProjectRedactor, canaries: list[Positive]) -> None:
    _survives_in_no_encoding(redactor, canaries, "url")


@canaries_of(3)
def test_a_canary_survives_in_no_base64(redactor: ProjectRedactor, canaries: list[Positive]) -> None:
    _survives_in_no_encoding(redactor, canaries, "base64")


@canaries_of(4)
def test_a_canary_survives_in_no_hexadecimal_digits(redactor: ProjectRedactor, canaries: list[Positive]) -> None:
    _survives_in_no_encoding(redactor, canaries, "hex")


@canaries_of(5)
def test_a_canary_survives_at_no_chunk_boundary(redactor: ProjectRedactor, canaries: list[Positive]) -> None:
    for canary in canaries:
        text = f"before\n{canary.text}\nafter"
        start = text.index(canary.secret)
        for cut in range(start, start + len(canary.secret), max(len(canary.secret) // 4, 1)):
            chunks, counts = redactor.redact_chunks([text[:cut], text[cut:]])
            assert not leaks(canary, "".join(chunks)), canary.rule
            assert sum(counts.values()) >= 1, canary.rule


@canaries_of(0, 30)
def test_a_canary_survives_at_no_cut_of_a_long_text(redactor: ProjectRedactor, canaries: list[Positive]) -> None:
    filler = "ordinary words of a log line\n"
    middle = filler * 40_000
    for canary in canaries:
        half = 64 * 1024 - len(canary.text) // 2 - 8
        head = (filler * 3000)[:half] + f"\n{canary.text}\n"
        tail = f"\n{canary.text}\n" + (filler * 3000)[:half]
        text, counts = redactor.redact_text(head + middle + tail)
        assert counts["truncate_large"] == 1
        assert not leaks(canary, text), canary.rule
        assert len(text) < 200_000


@pytest.mark.torture
def test_secrets_in_a_stream_are_caught_wherever_it_is_cut(redactor: ProjectRedactor) -> None:
    # A shorter secret stands elsewhere by chance, and a key block that does not end goes on to the end of the next one.
    canaries = [canary for canary in positives() if len(canary.secret) >= 8 and "BEGIN" not in canary.text]
    text = "\n".join(f"{'filler ' * 40}\n{canary.text}\n" for canary in canaries)
    # Drawn alike, a piece of one is what another rule's expression has before its secret.
    canaries = [canary for canary in canaries if not leaks(canary, text.replace(canary.text, ""))]
    whole = redactor.untruncated().redact_text(text)[0]
    for size in (3000, 50_000):
        stream = StreamRedactor(redactor)
        pieces = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
        joined = "".join((*pieces, stream.close()))
        assert [c.rule for c in canaries if leaks(c, joined)] == []
        verify_clean(redactor, joined)
        assert sum(stream.counts.values()) >= len(canaries) - 5
    assert [c.rule for c in canaries if leaks(c, whole)] == []


def test_the_second_look_refuses_what_the_first_did_not_see(redactor: ProjectRedactor) -> None:
    canary = positives()[1]
    with pytest.raises(LeakError, match="nothing was written") as refused:
        verify_clean(redactor, f"line one\n{canary.text}\n")
    assert "line 2" in refused.value.why
    assert canary.secret not in f"{refused.value} {refused.value.why}"
    assert redactor.touched_value({"a": [canary.text + "\n"]}) != {}


words = st.text(alphabet=st.characters(codec="utf-8"), max_size=60)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


def shape(value: object) -> object:
    if isinstance(value, str):
        return "text"
    if isinstance(value, dict):
        return {"map": [shape(inner) for inner in value.values()]}
    return [shape(inner) for inner in value] if isinstance(value, list) else value


@settings(max_examples=120)
@given(value=json_values, canary=st.deferred(lambda: st.sampled_from(positives())), before=words, after=words)
def test_redaction_is_idempotent_keeps_the_shape_and_lets_no_secret_through(
    redactor: ProjectRedactor, value: object, canary: Positive, before: str, after: str
) -> None:
    planted = {"v": value, "t": [f"{before}\n{canary.text}\n{after}"]}
    redacted, counts = redactor.redact_value(planted)
    assert shape(redacted) == shape(planted)
    assert canary.secret not in redacted["t"][0]
    assert sum(counts.values()) >= 1
    assert redactor.redact_value(redacted) == (redacted, {})


@settings(max_examples=60)
@given(before=words, after=words)
def test_equal_secrets_make_equal_marks_in_any_surroundings(redactor: ProjectRedactor, before: str, after: str) -> None:
    mark = redactor.redact_text("quiet lake 77")[0]
    assert mark in redactor.redact_text(f"{before} quiet lake 77 {after}")[0]
