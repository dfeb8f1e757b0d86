"""The gate calls every pattern that matches: what is found is the same with it and without it."""

from __future__ import annotations

import itertools
import os
import pickle
import threading
from pathlib import Path
from unittest.mock import patch

import hyperscan
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tracer.redaction.positives import all_rules, positive
from tracer.redaction.engine import build_redactor
from tracer.redaction.gate import Gate, any_of, byte_pattern, loosened
from tracer.redaction.rule_set import compiled
from tracer.redaction.views import json_view, url_view

_RULES = all_rules()
_SECRET = "hunter22" + "Xy7Q" * 4


@pytest.fixture(scope="module")
def redactor(tmp_path_factory):
    """One whose gates are open."""
    ready = build_redactor(
        state_dir=tmp_path_factory.mktemp("state"),
        environ={"HOME": "/home/janedoe", "USER": "janedoe", "CI_TOKEN": "quiet lake 77"},
        host="wonderbox",
        persons=("Jane Q. Doe",),
    ).with_paths()
    ready.prepare()
    return ready


@pytest.fixture(scope="module")
def gate():
    opened = build_redactor(state_dir=Path(os.devnull), environ={}).parts.gate  # compiled once for all redactors
    if not opened.is_open:
        opened.open()
    assert opened.is_open
    assert not opened.blind  # every vendored rule can be judged
    return opened


def _without_gate(redactor, text):
    with patch.object(Gate, "called", lambda _self, _data: None):
        return redactor.redact_text(text)


def test_every_rule_is_called_by_its_positives(gate):
    for (place, rule), seed in itertools.product(enumerate(_RULES), range(2)):
        assert place in gate.called(f"words before\n{positive(rule, seed).text}\nwords after".encode()), rule.id


def test_ordinary_text_calls_for_nothing(gate):
    assert gate.called(b"def add(first, second):\n    return first + second  # sums two numbers\n" * 40) == frozenset()


_SIGNS = st.one_of(
    st.sampled_from([
        "é", "\u212a", "\u017f", "\x0b", "😀", "\x00", "\n", " ", "\\n", '\\"', "\\\\", "\\u0041", "\\u0000", "\\x2f",
        "%2F", "%3d", '"', "'", "=", ":", "/", "@", "://", "&", "?", ";", "password", "token", "secret", "key", "KEY",
        "Bearer ", "curl -u ", "example.com", "janedoe", "/home/janedoe", "quiet lake 77", "wonderbox",
        "+49 30 1234 5678", _SECRET, "c2VjcmV0IG9mIGphbmVkb2UgYXQgd29uZGVyYm94", "[REDACTED:email:0a1b2c]", "data:",
        "kind: Secret", "-----BEGIN",
    ]),
    st.text(max_size=3),
    st.integers(min_value=0, max_value=len(_RULES) - 1).map(lambda place: positive(_RULES[place]).text),
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(text=st.lists(_SIGNS, max_size=14).map("".join))
@example("pa\u017f\u017fword=" + _SECRET)
@example("password\x0b=" + _SECRET)
@example('"password": "ééééééééééééééé"')
@example("postgres://" + "ü" * 60 + ":" + "ö" * 150 + "@host")
def test_what_is_found_is_the_same_without_it(redactor, text):
    text = text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")
    assert redactor.redact_text(text) == _without_gate(redactor, text)


@settings(max_examples=120, deadline=None)
@given(
    pattern=st.sampled_from([
        r"a.b", r"[^x]{2,3}!", r"\S{3}=", r"(?s:.){0,2}z", r"\W?q", r"[^\s]?;", r"[\x80-\xff]{2}k", r"(?:[^,];){2}",
        r".{2,}w", r"[\D-]{1,2}\d", r"é{2}", r"[^a]*#", r"(?i)x[^y]+?y",
        r"(?i)[xy]{0,9}?q{1,5}", r"a*b{0,4}=", r"(?:[ab]{0,5}!){2,7}", r"^a{3,8}#", r"x?y{2,9}z|w", r"\{2,9}x",
    ]),
    text=st.text(alphabet="abé😀x!=z q;k,w1#yX\x7f\u0100", max_size=12),
)  # fmt: skip
@example(pattern=r"(?:x{25}|b{9,30}=){2}", text="x" * 60)
@example(pattern=r"a{40,}", text="a" * 40)
def test_a_pattern_on_bytes_matches_wherever_the_one_on_characters_does(pattern, text):
    data = text.encode()
    if compiled(pattern).search(data) is not None:
        gate = _gate_of(pattern)
        assert gate.called(data) == {"it"}


_GATES: dict[str, Gate] = {}


def _gate_of(pattern):
    if pattern not in _GATES:
        _GATES[pattern] = Gate({"it": pattern})
        _GATES[pattern].open()
    return _GATES[pattern]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"[a-z]{2,30}:", r"[a-z]{2,30}:"),
        (r"[^a]{2,30}?:", r"[^a]{2,}?:"),
        (r"x.y", r"x(?:.[\x80-\xbf]{0,3})y"),
        (r"\.\S+", r"\.\S+"),
        (r"(?s:.){0,200}?a", r"(?s:.){0,}?a"),
    ],
)
def test_only_what_matches_more_than_ascii_is_widened(pattern, expected):
    assert byte_pattern(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"(?i)[\w.-]{0,50}?(?:acme)[ \t]{0,20}=", r"(?i)(?:acme)[ \t]*="),
        (r"a*b{0,9}=x{1,5}", r"=x+"),
        (r"x{3,9}y{2,4}z{7}", r"x{3,}y{2,4}z{7}"),
        (r"(?:a{0,5}b){2,7}", r"(?:a*b){2,}"),
        (r"\{0,9}[{0,9}]{,3}x", r"\{0,9}[{0,9}]{,3}x"),
        (r"^a{0,9}b", r"^a*b"),
        (r"x{0,9}", r"x*"),
        (r"x{24}y{25}z{85,}w{39,40}", r"x{24}y{24,}z{24,}w{24,}"),
    ],
)
def test_limits_that_only_make_the_automaton_larger_are_dropped(pattern, expected):
    assert loosened(pattern) == expected


@pytest.mark.parametrize("pattern", [r"\pL+secret", r"\Qa.b\E", r"(?U)a+b", r"x*", r"\x{1F600}"])
def test_a_pattern_it_cannot_judge_is_always_called(pattern):
    gate = Gate({"mine": pattern, "other": "qrs"})
    gate.open()
    assert gate.blind == {"mine"}
    assert gate.called(b"nothing of the kind") == {"mine"}
    assert gate.called(b"qrs") == {"mine", "other"}


def test_it_opens_by_itself_once_enough_text_came():
    gate = Gate({"it": "needle"}, worth=1000)
    assert gate.called(b"x" * 900) is None
    assert gate.called(b"x" * 200) is None
    for thread in threading.enumerate():
        if thread.name == "redaction-gate":
            thread.join(30)
    assert gate.called(b"a needle") == {"it"}
    assert gate.called(b"hay") == frozenset()


def test_without_the_engine_everything_goes_the_long_way(redactor):
    gate = Gate({"it": "needle"})
    with patch.dict("sys.modules", {"hyperscan": None}):
        gate.open()
    assert not gate.is_open
    assert gate.called(b"a needle") is None


def test_a_machine_the_engine_cannot_work_on_goes_the_long_way():
    gate = Gate({"it": "needle"})
    with patch("tracer.redaction.gate._compiled", side_effect=hyperscan.ArchitectureError):
        gate.open()
    assert not gate.is_open


def test_another_process_takes_what_was_compiled_and_nothing_that_other_patterns_were_compiled_to():
    listed = {"it": "needle", "odd": r"\pL{3}x"}  # the second cannot be judged: it is always called
    gate, taking, other = Gate(listed), Gate(listed), Gate({**listed, "it": "thread"})
    assert gate.compiled() is None
    gate.open()
    sent = pickle.loads(pickle.dumps(gate.compiled()))
    with patch("tracer.redaction.gate._compiled", side_effect=AssertionError("compiled again")):
        taking.take(sent)
        other.take(sent)
    assert taking.called(b"a needle") == gate.called(b"a needle") == {"it", "odd"}
    assert taking.called(b"hay") == {"odd"}
    assert not other.is_open


def test_what_stands_behind_a_first_is_looked_for_where_that_is_seen():
    gate = Gate({"id": "[0-9a-f]{8}-[0-9]{4}", "run": "[0-9a-f]{8}z", "it": "needle"}, firsts={"id": "[0-9a-f]{8}"})
    gate.open()
    assert gate.called(b"0123abcd 1234") == frozenset()
    assert gate.called(b"0123abcd-1234") == {"id"}
    assert gate.called(b"needle 0123abcd-1234 0123abcdz") == {"id", "run", "it"}


def test_what_is_compiled_apart_is_called_as_well():
    listed, apart = {"it": "needle"}, ({"escape": r"\\n|%0a"}, {"wrap": r"=\r?\n"})
    gate, taking = Gate(listed, apart=apart), Gate(listed, apart=apart)
    gate.open()
    taking.take(pickle.loads(pickle.dumps(gate.compiled())))
    for each in (gate, taking):
        assert each.called(b"a needle=\n") == {"it", "wrap"}
        assert each.called(rb"a%0ab\n") == {"escape"}
        assert not each.called(b"plain")


def test_threads_share_one_gate():
    gate = Gate({"first": "one", "second": "two"})
    gate.open()
    wrong: list[object] = []

    def ask(data, expected):
        wrong.extend(data for _ in range(2000) if gate.called(data) != expected)

    threads = [
        threading.Thread(target=ask, args=arguments)
        for arguments in ((b"one", {"first"}), (b"two", {"second"}), (b"", set()), (b"one two", {"first", "second"}))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_words_of_any_bytes_are_found():
    gate = Gate({"words": any_of([b"a+b", b"\xff\x00\xc3", "ü".encode()])})
    gate.open()
    for data in (b"1a+b1", b"..\xff\x00\xc3..", "für".encode()):
        assert gate.called(data) == {"words"}
    assert gate.called(b"aab") == frozenset()


_ESCAPES = st.lists(
    st.sampled_from(["\\", "\\\\", "\\n", '\\"', "\\u0041", "\\u005c", "\\u00", "\\x5c", "\\x00", "\\q", "\0", "\n",
                     "n", "a", "%41", "%5C", "%", "%%41", "%zz", "é"]),
    max_size=12,
).map(lambda parts: "".join(parts).encode())  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(data=_ESCAPES)
def test_escapes_undone_at_once_are_those_undone_one_by_one(data):
    for view in (json_view(data), url_view(data)):
        if view is not None:
            at_once = view.data
            assert at_once == b"".join(view.part(number).data for number in range(len(view._cuts)))


def test_runs_of_signs_are_looked_for_where_wider_ones_were_seen():
    gate = Gate(
        {"hex": "[0-9a-f]{8}-x", "word": "[a-z_]{6}=y", "any": r"[0-9a-z_\n]{6}!"},
        firsts={"hex": "[0-9a-f]{8}", "word": "[a-z_]{6}", "any": r"[0-9a-z_\n]{6}"},
    )
    gate.open()
    for data, expected in {b"01\n3_?!": set(), b"01234567-x": {"hex"}, b"abcdef=y": {"word"}, b"0123\nb!": {"any"},
                           b"01234567-x abcdef=y abc_1\n!": {"hex", "word", "any"}}.items():  # fmt: skip
        assert gate.called(data) == expected, data


def test_choices_are_told_apart_where_no_flag_holds_for_all_of_them():
    gate = Gate({"either": "one|(?:two|t[|]3)|thr[|e]e", "any case": "(?i)four|five"})
    gate.open()
    for data in (b"one", b"two", b"t|3", b"thr|e"):
        assert gate.called(data) == {"either"}, data
    assert gate.called(b"FIVE") == {"any case"}
    assert gate.called(b"ONE TWO") == frozenset()


@settings(max_examples=100, deadline=None)
@given(
    digits=st.text(alphabet="0123456789abcdef", min_size=24, max_size=70),
    at=st.integers(min_value=0),
    letter=st.sampled_from("gzGZ"),
)
@example(digits="0" * 24, at=11, letter="g")
@example(digits="0" * 24, at=12, letter="g")
def test_a_run_calls_for_what_takes_all_letters_where_one_is_no_hexadecimal_digit(run_gate, digits, at, letter):
    at %= len(digits)
    assert run_gate.called(f"id={digits}".encode()) == frozenset()
    assert run_gate.called(f"id={digits[:at]}{letter}{digits[at + 1 :]}".encode()) == {"drawn"}


@pytest.fixture(scope="module")
def run_gate():
    opened = Gate({"drawn": "[A-Za-z0-9]{24}", "it": "needle"}, firsts={"drawn": "[A-Za-z0-9]{24}"})
    opened.open()
    return opened


def test_what_takes_all_letters_finds_no_hexadecimal_number_with_or_without_the_gate(redactor):
    number = "0123456789abcdef" * 4
    for text in (
        f"{number[16:32]}-{number[:40]}",
        f" 2{number[:26]}_{number[:21]} ",
        f"1234567890123456-{number[:40]}",
    ):
        assert redactor.redact_text(text) == _without_gate(redactor, text) == (text, {})
    drawn = "2" + "aZ4" * 8 + "b9_" + "Qx7" * 7
    assert redactor.redact_text(drawn)[1] == _without_gate(redactor, drawn)[1] == {"ngrok-api-key": 1}
