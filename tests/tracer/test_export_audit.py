"""The audit of what leaves: looked at piece by piece, nothing passes that is not clean."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.export.pieces import Audit, Later, Leaf, Many, Piece, pieces_of, written
from tracer.redaction.engine import build_redactor
from tracer.redaction.leaks import LeakError

TOKEN = "ghp_" + "x7Kq2Lm9Pz4Rt8Vw1Yb3Nc6Df5Gh0Js2Ua7E"
PEM = ["-----BEGIN RSA PRIVATE " + "KEY-----", "MIIEpAIBAAKCAQEA" + "q" * 48, "-----END RSA PRIVATE " + "KEY-----"]


@pytest.fixture(scope="module")
def redactor(tmp_path_factory: pytest.TempPathFactory) -> Any:
    state = tmp_path_factory.mktemp("audit")
    return build_redactor(state_dir=state, environ={}, host="", persons=[], rewrite_paths=True, truncate=False)


async def come(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


async def audited(redactor: Any, document: Any, *, redact: bool = False) -> tuple[bytes, LeakError | None]:
    """What the audit let out, and what it said in the end."""
    audit = Audit(redactor, what="the export", redact=redact)
    out: list[Piece] = []
    async for piece in pieces_of(document):
        if audit.take(piece):
            out += audit.passed()
    out += audit.passed(last=True)
    try:
        audit.close()
    except LeakError as error:
        return b"".join(map(written, out)), error
    return b"".join(map(written, out)), None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(head=_JSON, items=st.lists(_JSON, max_size=5), tail=_JSON)
async def test_pieces_are_the_bytes_of_the_whole(head: Any, items: list[Any], tail: Any) -> None:
    whole = {"head": head, "mid": [{"items": items, "n": len(items)}, 1], "tail": tail}
    seen = 0

    async def counted() -> AsyncIterator[Any]:
        nonlocal seen
        for item in items:
            seen += 1
            yield item

    document = {"head": head, "mid": [{"items": Many(counted()), "n": Later(lambda: seen)}, 1], "tail": tail}
    pieces = [piece async for piece in pieces_of(document)]
    assert json.loads(b"".join(map(written, pieces))) == whole
    assert all(json.loads(written(piece)) == piece.value for piece in pieces if isinstance(piece, Leaf))


async def test_what_is_clean_comes_out_as_it_went_in(redactor: Any) -> None:
    items = [{"text": f"line {number} " + "word " * 300} for number in range(3000)]  # about 4.5 MB
    told, error = await audited(redactor, {"items": Many(come(items)), "count": 3000})
    assert error is None
    assert json.loads(told) == {"items": items, "count": 3000}


@pytest.mark.parametrize("place", [0, 1500, 2999])
async def test_a_find_is_named_by_its_place_and_nothing_of_it_or_after_it_comes_out(redactor: Any, place: int) -> None:
    items = [{"text": f"line {number} " + "word " * 300} for number in range(3000)]
    items[place]["text"] += TOKEN
    told, error = await audited(redactor, {"items": Many(come(items))})
    assert error is not None
    assert error.why == f"1 x github-token at /items/{place}/text"
    assert TOKEN.encode() not in told
    assert f"line {place} ".encode() not in told
    assert b"line 2999 " not in told


async def test_many_finds_are_counted_and_the_first_are_named(redactor: Any) -> None:
    items = [f"{TOKEN} " + "word " * 300 for number in range(2000)]
    told, error = await audited(redactor, Many(come(items)))
    assert error is not None
    assert told in {b"", b"["}
    assert error.why.splitlines()[0] == "1 x github-token at /0"
    assert error.why.splitlines()[-1] == "and at 1995 more places"


@pytest.mark.parametrize("before", range(684, 700, 3))
async def test_a_secret_over_two_values_is_seen_wherever_a_look_ends(redactor: Any, before: int) -> None:
    """About 1.5 kB a value: the first look, at a megabyte, ends between some of them."""
    items = [f"line {number} " + "word " * 300 for number in range(before)]
    items += ["\n".join(PEM[:2]) + "\n", PEM[2]]
    assert redactor.touched_value(items)
    assert not redactor.touched_value([PEM[2]])
    _, error = await audited(redactor, Many(come([*items, *items[:700]])))
    assert error is not None


async def test_a_value_is_judged_with_the_name_it_stands_under(redactor: Any) -> None:
    document = {"password": "Xk2" + "mWq8zLp4Rv7", "items": Many(come([1]))}
    assert redactor.touched_value({"password": document["password"]})
    told, error = await audited(redactor, document)
    assert error is not None
    assert "/password" in error.why
    assert b"mWq8zLp4Rv7" not in told


async def test_with_redact_marks_stand_where_the_finds_were(redactor: Any) -> None:
    items = [{"text": f"{number} {TOKEN} " + "word " * 300} for number in range(1500)]
    told, error = await audited(redactor, {"items": Many(come(items)), "note": TOKEN}, redact=True)
    assert error is None
    assert json.loads(told) == redactor.redact_value({"items": items, "note": TOKEN}).value
    assert TOKEN.encode() not in told


async def test_one_value_of_many_megabytes_is_not_looked_at_for_each_short_one_after_it(
    redactor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    seen = type(redactor).touched_value
    monkeypatch.setattr(type(redactor), "touched_value", lambda self, value: looks.append(1) or seen(self, value))
    told, error = await audited(redactor, Many(come(["word " * 600_000, *(f"{number}" for number in range(2000))])))
    assert error is None
    assert len(json.loads(told)) == 2001
    assert len(looks) <= 3
