"""The marks of the script inside a sandbox, however its bytes are cut."""

from __future__ import annotations

import io
import tarfile

from hypothesis import given
from hypothesis import strategies as st

from collector.qa.sandbox.script import FrameReader, reports_of

_WORD = "0123456789abcdef"


@given(st.binary(max_size=400), st.binary(max_size=200), st.lists(st.integers(1, 60), max_size=40))
def test_output_and_archive_are_parted_at_every_cut(output: bytes, archive: bytes, cuts: list[int]) -> None:
    stream = b"noise" + f"{_WORD} start\n".encode() + output + f"\n{_WORD} end 3 1\n".encode() + archive
    reader, said, kept = FrameReader(_WORD), b"", b""
    for size in [*cuts, len(stream)]:
        chunk, stream = stream[:size], stream[size:]
        text, tar = reader.feed(chunk)
        said, kept = said + text, kept + tar
    assert (said + reader.rest(), kept, reader.stage) == (output, archive, "ended")
    assert reader.end is not None
    assert (reader.end.exit_code, reader.end.killed_for_memory) == (3, 1)


@given(st.binary(max_size=300))
def test_without_last_words_all_output_comes_out(output: bytes) -> None:
    reader = FrameReader(_WORD)
    text, _ = reader.feed(f"{_WORD} start\n".encode() + output)
    assert (text + reader.rest(), reader.end) == (output, None)


def test_nothing_before_the_start_is_taken_for_output() -> None:
    reader = FrameReader(_WORD)
    assert reader.feed(b"engine says hello\n" * 1000) == (b"", b"")
    assert reader.stage == "setup"
    assert reader.rest() == b""


@given(st.binary(max_size=2000))
def test_an_archive_of_rubbish_holds_no_reports(data: bytes) -> None:
    assert isinstance(reports_of(data), dict)


def test_only_regular_files_are_reports() -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        link = tarfile.TarInfo("a.xml")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        device = tarfile.TarInfo("b.xml")
        device.type = tarfile.CHRTYPE
        tar.addfile(device)
        real = tarfile.TarInfo("c.xml")
        real.size = 2
        tar.addfile(real, io.BytesIO(b"ok"))
    assert reports_of(target.getvalue()) == {"c.xml": b"ok"}
