"""Small things that every record goes through: its time, and the paths in its texts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tracer.distill.support import NoRedactor
from tracer.clock import from_epoch_ms
from tracer.distill.cleaner import Cleaner
from tracer.distill.native_files import epoch_ms


@given(st.integers(0, 253_402_300_799_999))
def test_a_time_as_the_providers_write_it_is_read_to_the_millisecond(moment):
    assert epoch_ms(from_epoch_ms(moment)) == moment


@pytest.mark.parametrize(
    "text",
    ["2026-11-21T10:30:60.000Z", "2026-11-21T10:30:-1.000Z", "2026-13-21T10:30:10.000Z", "2026-11-21T10:30:1_.000Z",
     "1969-11-21T10:30:10.000Z", "2026-11-21T10:30:10.+00Z", "2026-11-21T10:3\u0660:10.000Z"],
)  # fmt: skip
def test_what_is_no_time_is_none(text):
    assert epoch_ms(text) is None


PATHS = st.text(st.sampled_from("/home/dev/proj.$-_x \n"), max_size=60)


@given(st.lists(PATHS | st.sampled_from(["/home/dev/proj", "/home/dev/proj/", "x/home/dev/proj", "/home/dev"])))
def test_a_path_is_shortened_where_it_stands_alone(pieces):
    """As a pattern says that looks before the path first; the one in use looks there last."""
    text = "".join(pieces)
    expected = re.sub(r"(?<![\w.$-])/home/dev/proj(?![\w-]|\.\w)", "$PROJECT_ROOT", text)
    expected = re.sub(r"(?<![\w.$-])/home/dev(?![\w-]|\.\w)", "$HOME", expected)
    assert Cleaner(NoRedactor(), project_roots=("/home/dev/proj",)).clean(text) == expected
