"""Patches and snapshots are redacted with one map, so that what is stored still replays."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.intake.redact_code import TraceMap
from collector.patches import PatchError, apply_patch, make_patch, parse_patch
from tracer.redaction.engine import ProjectRedactor, build_redactor

TOKEN = "ghp_" + "x7Kq2Lm9Pz4Rt8Vw1Yb3Nc6Df5Gh0Js2Ua7E"
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx7Kq2Lm9Pz4Rt8Vw1Yb3Nc6D\n"
    "f5Gh0Js2Ua7E\n-----END RSA PRIVATE KEY-----"
)
PLAIN = ["import os\n", "def f():\n", "    return 1\n", "\n", "x = 2\r\n"]
SECRET = [
    f'token = "{TOKEN}"\n',
    f"# {TOKEN}\n",
    f'KEY = """{PEM}"""\n',
    "mail = 'jane.roe@acme-corp.com'\n",
    f"{PEM}\n",
]


@pytest.fixture(scope="module")
def redactor(tmp_path_factory) -> ProjectRedactor:
    return build_redactor(
        state_dir=tmp_path_factory.mktemp("state"), environ={"MY_PASSWORD": "correct-horse-9"}, host="", persons=[]
    )


def _hash(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _clean(data: bytes) -> bool:
    return TOKEN.encode() not in data and b"MIIEow" not in data and b"jane.roe" not in data


files = st.lists(st.sampled_from(PLAIN + SECRET), max_size=8).map(lambda parts: "".join(parts).encode())


@given(history=st.lists(files, min_size=2, max_size=5))
@settings(max_examples=120)
def test_redacted_patches_lead_through_the_redacted_contents(redactor: ProjectRedactor, history: list[bytes]) -> None:
    trace = TraceMap(redactor)
    trace.learn(history)
    state = trace.snapshot(history[0])
    assert _clean(state)
    for before, after in pairwise(history):
        patch = make_patch("f.py", before, after)
        if not patch:
            continue
        redacted = trace.patch(patch)
        assert _clean(redacted)
        hashes = trace.edit(original=patch, redacted=redacted, pre_hash=_hash(before), post_hash=_hash(after))
        (file,) = parse_patch(redacted)
        try:
            state = apply_patch(state, file)
        except PatchError:  # a block cut by the hunk's edge: then nothing may be claimed about the result
            assert hashes.post_hash is None
            assert hashes.extra
            return
        assert hashes.post_hash in {None, _hash(state)}


def test_an_edit_beside_a_secret_replays_and_its_hashes_are_of_what_is_stored(redactor: ProjectRedactor) -> None:
    before = f'token = "{TOKEN}"\nx = 1\n'.encode()
    after = before.replace(b"x = 1", b"x = 2")
    trace = TraceMap(redactor)
    stored = trace.snapshot(before)
    patch = make_patch("f.py", before, after)
    redacted = trace.patch(patch)
    hashes = trace.edit(original=patch, redacted=redacted, pre_hash=_hash(before), post_hash=_hash(after))
    replayed = apply_patch(stored, parse_patch(redacted)[0])
    assert hashes.pre_hash == _hash(stored)
    assert hashes.post_hash == _hash(replayed or b"")
    assert hashes.extra["pre_hash_keyed"].startswith("hmac-sha256:")
    assert _hash(before)[7:] not in str(hashes.extra)


def test_a_file_made_with_a_secret_in_it_has_the_hash_of_the_redacted_file(redactor: ProjectRedactor) -> None:
    after = f"a\n{TOKEN}\n".encode()
    trace = TraceMap(redactor)
    patch = make_patch("f", None, after)
    redacted = trace.patch(patch)
    hashes = trace.edit(original=patch, redacted=redacted, pre_hash=None, post_hash=_hash(after))
    assert hashes.post_hash == _hash(apply_patch(None, parse_patch(redacted)[0]) or b"")


def test_where_the_content_before_is_not_known_no_hash_is_claimed(redactor: ProjectRedactor) -> None:
    before, after = b"a\n", f"a\n{TOKEN}\n".encode()
    trace = TraceMap(redactor)
    patch = make_patch("f", before, after)
    hashes = trace.edit(original=patch, redacted=trace.patch(patch), pre_hash=_hash(before), post_hash=_hash(after))
    assert hashes.post_hash is None
    assert set(hashes.extra) == {"pre_hash_keyed", "post_hash_keyed", "patch_keyed"}
    later = make_patch("f", after, after + b"b\n")  # clean, but of a content that is stored otherwise
    again = trace.edit(original=later, redacted=later, pre_hash=_hash(after), post_hash=_hash(after + b"b\n"))
    assert again.post_hash is None
    assert again.extra["pre_hash_keyed"] == hashes.extra["post_hash_keyed"]


def test_a_clean_edit_keeps_its_bytes_and_hashes(redactor: ProjectRedactor) -> None:
    patch = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
    trace = TraceMap(redactor)
    assert trace.patch(patch) == patch
    hashes = trace.edit(original=patch, redacted=patch, pre_hash=_hash(b"a\n"), post_hash=_hash(b"b\n"))
    assert hashes == (_hash(b"a\n"), _hash(b"b\n"), {})


def test_a_secret_seen_once_is_replaced_where_no_rule_would_see_it(redactor: ProjectRedactor) -> None:
    trace = TraceMap(redactor)
    trace.learn([b'api_key = "hR4tq9Zw3Lm8Xc7Vb2"\n'])
    first = trace.content(b'api_key = "hR4tq9Zw3Lm8Xc7Vb2"\n')
    second = trace.content(b"echo hR4tq9Zw3Lm8Xc7Vb2\n")
    assert b"hR4t" not in first + second
    assert first.split(b"[")[1].split(b"]")[0] == second.split(b"[")[1].split(b"]")[0]


def test_the_section_text_of_a_hunk_is_redacted_too(redactor: ProjectRedactor) -> None:
    patch = f"--- a/f\n+++ b/f\n@@ -1 +1 @@ def f(t='{TOKEN}')\n-a\n+b\n".encode()
    assert _clean(TraceMap(redactor).patch(patch))


def test_what_is_no_patch_is_redacted_as_text(redactor: ProjectRedactor) -> None:
    assert _clean(TraceMap(redactor).patch(f"no diff {TOKEN}".encode()))
