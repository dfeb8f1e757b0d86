"""Whole files: a clean copy, and the leaks in a folder, without ever showing a secret."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from tracer.errors import NotFoundError, TraceError
from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.streams import Leak, audit, redact_file

KEY = "sk-" + "proj-9Zx81kQ29pLmV4tR7"


def test_json_lines_stay_json_and_clean_lines_stay_to_the_byte(redactor: ProjectRedactor, tmp_path: Path) -> None:
    source, target = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    clean = '{"event": "X",  "data": {"n": 1.50, "s": "caf\\u00e9"}}\n'
    source.write_text(clean + json.dumps({"data": {"prompt": f"use {KEY}", "n": 10**30}}) + '\n{"torn": "' + KEY)
    path, counts = redact_file(redactor, source, target)
    lines = target.read_text().split("\n")
    assert path == target
    assert lines[0] + "\n" == clean
    assert json.loads(lines[1])["data"]["prompt"].startswith("use [REDACTED:secret-key:")
    assert lines[2].startswith('{"torn": "[REDACTED:')
    assert counts == {"secret-key": 2}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_what_is_no_secret_in_a_json_line_stays_as_it_was_written(redactor: ProjectRedactor, tmp_path: Path) -> None:
    source, target = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    rest = '","n":[1.10,1E400,0.12345678901234567890,1234567890123456789012345,-0.0,NaN]}'
    source.write_bytes(f'\ufeff{{"k":"{KEY}{rest}\r\n{{"k":"{KEY}{rest}'.encode())
    redact_file(redactor, source, target)
    mark = redactor.redact_text(KEY)[0]
    assert target.read_bytes() == f'\ufeff{{"k":"{mark}{rest}\r\n{{"k":"{mark}{rest}'.encode()


@pytest.mark.parametrize(
    ("name", "encoding", "many"),
    [
        ("a.txt", "utf-16", 400),
        ("a.txt", "utf-32", 200),
        ("a.jsonl", "utf-16-le", 400),
        *(
            pytest.param(name, encoding, 1000, marks=pytest.mark.torture)
            for name in ("a.txt", "a.jsonl")
            for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32")
        ),
    ],
)
def test_wide_text_is_redacted_in_its_encoding_and_audited(
    redactor: ProjectRedactor, tmp_path: Path, encoding: str, name: str, many: int
) -> None:
    def text(key: str) -> bytes:
        return (f'{{"k": "{key}", "ä": "\U0001f600 {"word " * 300}"}}\n' * many).encode(encoding)

    source, target = tmp_path / name, tmp_path / f"clean-{name}"
    source.write_bytes(text(KEY))
    assert sum(leak.finds for leak in audit(redactor, source)) == many
    _, counts = redact_file(redactor, source, target)
    assert counts == {"secret-key": many}
    assert target.read_bytes() == text(redactor.redact_text(KEY)[0])
    assert audit(redactor, target) == []


def test_bytes_that_only_look_like_wide_text_are_redacted_too(redactor: ProjectRedactor, tmp_path: Path) -> None:
    source = tmp_path / "a.bin"
    source.write_bytes(b"\xff\xfe\0\1\2 %s \xd8\xd8\xd8" % KEY.encode())
    redact_file(redactor, source, source)
    assert source.read_bytes().startswith(b"\xff\xfe\0\1\2 [REDACTED:secret-key:")


def test_other_text_is_redacted_with_any_bytes_around_kept(redactor: ProjectRedactor, tmp_path: Path) -> None:
    source = tmp_path / "log.txt"
    source.write_bytes(b"\xff\xfe caf\xc3\xa9\n" * 200_000 + KEY.encode() + b"\r\nend\n")
    redact_file(redactor, source, source)
    data = source.read_bytes()
    assert data.startswith(b"\xff\xfe caf\xc3\xa9\n" * 200_000 + b"[REDACTED:secret-key:")
    assert data.endswith(b"]\r\nend\n")


def test_a_missing_source_and_an_unwritable_target_are_told_apart(redactor: ProjectRedactor, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        redact_file(redactor, tmp_path / "none", tmp_path / "out")
    source = tmp_path / "s.txt"
    source.write_text("x")
    with pytest.raises(TraceError):
        redact_file(redactor, source, tmp_path / "no" / "out")
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".txt") == ["s.txt"]


def test_an_audit_names_file_line_and_rule_of_each_leak(redactor: ProjectRedactor, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.jsonl").write_text('{"ok":1}\n' + json.dumps({"d": [KEY, KEY]}) + "\n")
    (folder / "deep" / "notes.md").write_text("# notes\n\n" + "word " * 400_000 + f"\nkey {KEY}\n")
    (folder / "clean.txt").write_text(redactor.redact_text(KEY)[0])
    (folder / "binary.bin").write_bytes(b"\0" + KEY.encode())
    (folder / "me.p12").write_bytes(b"x")
    (folder / "link.jsonl").symlink_to(folder / "a.jsonl")
    assert audit(redactor, folder) == [
        Leak("a.jsonl", 2, "secret-key", 2),
        Leak("me.p12", 0, "pkcs12-file", 1),
        Leak("deep/notes.md", 4, "secret-key", 1),
    ]


def test_an_audit_reads_databases_with_what_their_journal_holds(redactor: ProjectRedactor, tmp_path: Path) -> None:
    """It said that nothing was found in agents' sessions."""
    path = tmp_path / "threads.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute('CREATE TABLE "the ""items""" (id INTEGER, item TEXT, raw BLOB)')
        database.execute('INSERT INTO "the ""items""" VALUES (1, ?, ?)', (json.dumps({"k": KEY}), KEY.encode()))
        database.execute('INSERT INTO "the ""items""" VALUES (2, \'plain\', x\'ff00\')')
        database.commit()
        before = sorted(tmp_path.iterdir())
        assert [leak for leak in audit(redactor, tmp_path) if leak.path == path.name] == [
            Leak(path.name, 0, "secret-key", 2)
        ]
        assert sorted(tmp_path.iterdir()) == before
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 5000)
    assert audit(redactor, path) == [Leak(path.name, 0, "unreadable", 1)]


def test_an_audit_of_nothing_is_an_error(redactor: ProjectRedactor, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        audit(redactor, tmp_path / "none")


def test_a_pipe_as_target_is_written_to_and_stays_one(redactor: ProjectRedactor, tmp_path: Path) -> None:
    source, pipe = tmp_path / "s.txt", tmp_path / "pipe"
    source.write_text(f"use {KEY}")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        redact_file(redactor, source, pipe)
        assert os.read(reader, 1000).startswith(b"use [REDACTED:")
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
