"""Times as records hold them, read."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.clock import epoch_ms, from_epoch_ms


@given(st.integers(0, 253_402_300_799_999))
def test_a_time_that_we_write_is_read_to_the_millisecond(moment: int) -> None:
    assert epoch_ms(from_epoch_ms(moment)) == moment


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-03-21T14:56:01", 1774104961000),
        ("2026-03-21 14:56:01.5", 1774104961500),
        ("2026-03-21T15:56:01+01:00", 1774104961000),
        ("2026-03-21", 1774051200000),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_other_times_are_read_too_and_are_utc_without_a_zone(
    text: str, ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert epoch_ms(text) == ms
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "soon", "NoneZ", "2026-02-30T10:30:10.000Z", "2026-11-21T10:30:60.000Z"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert epoch_ms(text) is None
