"""Redaction measured: leaks on planted canaries, marks in ordinary source code, and speed on trace text.

`python -m benchmarks.redaction` prints the table; `--write` puts it into docs/redaction.md. Canaries are made up at
run time from each rule's own expression. The source code is that of Python's library and of the installed packages.
`python -m benchmarks.redaction logs` prints the speed on each kind of log (`benchmarks._redaction_logs`) instead.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import re
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import orjson

from benchmarks._redaction_logs import KINDS, made
from tests.tracer.redaction.positives import Positive, all_rules, positive
from tests.tracer.redaction.test_scale import HOSTILE
from tracer.redaction.engine import ProjectRedactor, build_redactor
from tracer.redaction.streams import StreamRedactor

_PAGE = Path(__file__).parent.parent / "docs" / "redaction.md"
_START, _END = "<!-- measured: python -m benchmarks.redaction --write -->", "<!-- /measured -->"
_MARK = re.compile(r"\[REDACTED:[a-z0-9-]+:[0-9a-f]{6}\]")
_SEEDS = 3
_SOURCE_BYTES = 40_000_000
_SPEED_BYTES = 12_000_000
_LINE_BYTES = 13_000
_FILLER = "ordinary words of a log line\n"
_PEOPLE = {"email", "user-name", "host-name", "person-name", "phone-number", "card-number"}


class Planted(NamedTuple):
    """Where canaries were planted, how many, and how many could be read afterwards (their rules)."""

    where: str
    count: int
    leaked: tuple[str, ...]


def _redactor(folder: Path) -> ProjectRedactor:
    environ = {"HOME": "/home/janedoe", "USER": "janedoe", "CI_TOKEN": "quiet lake 77"}
    return build_redactor(state_dir=folder, environ=environ, host="wonderbox", persons=("Jane Q. Doe",))


def _leaks(canary: Positive, text: str) -> bool:
    """Whether 12 characters of the secret in a row can still be read, plain or in base64."""
    text = _MARK.sub("", text).replace("\\n", "\n").replace('\\"', '"')
    secret = canary.secret
    parts = (secret[at : at + 12] for at in range(max(len(secret) - 11, 1)))
    if any(part.strip() and part in text for part in parts):  # a run of blanks stands everywhere
        return True
    cores = (base64.b64encode(b"\0" * shift + secret.encode())[4:-4].decode() for shift in range(3))
    return any(core and core in text for core in cores)


def _field(redactor: ProjectRedactor, text: str) -> Iterator[str]:
    value = {"prompt": text, "rows": [text, {"deep": {"deeper": [text]}}], text: 1, "n": None}
    yield json.dumps(redactor.redact_value(value).value)


def _encoded(redactor: ProjectRedactor, text: str) -> Iterator[str]:
    yield redactor.redact_text(json.dumps({"a": text}))[0]
    yield redactor.redact_text("q=" + quote(text, safe=""))[0]
    for shift in range(3):
        yield redactor.redact_text(base64.b64encode(b"words "[: shift + 3] + text.encode()).decode())[0]
    wrapped = base64.encodebytes(("word " * 20 + text + " word" * 20).encode()).decode()
    yield redactor.redact_text(wrapped)[0]


def _cuts(text: str, secret: str) -> range:
    start = text.index(secret)
    return range(start + 1, start + len(secret), max(len(secret) // 6, 1))


def _chunked(redactor: ProjectRedactor, text: str, secret: str) -> Iterator[str]:
    for cut in _cuts(text, secret):
        yield "".join(redactor.redact_chunks([text[:cut], text[cut:]])[0])
        stream = StreamRedactor(redactor)
        lead = _FILLER * 400
        yield "".join((stream.feed(lead + text[:cut]), stream.feed(text[cut:] + lead), stream.close()))


def _truncated(redactor: ProjectRedactor, text: str, secret: str) -> Iterator[str]:
    half = 64 * 1024 - text.index(secret) - len(secret) // 2
    head = (_FILLER * 3000)[:half] + text
    tail = text + (_FILLER * 3000)[: 64 * 1024 - len(text) // 2]
    yield redactor.redact_text(head + _FILLER * 40_000 + tail)[0]


def planted(redactor: ProjectRedactor) -> list[Planted]:
    """Every rule's canaries in every place; what leaked is named."""
    made = (positive(rule, seed) for rule in all_rules() for seed in range(_SEEDS))
    canaries = [canary for canary in made if len(canary.secret.strip()) > 1]  # one letter stands everywhere
    rows = []
    for where in (
        "every field (value, list, nested, key)",
        "JSON, URL, base64 (aligned 3 ways, wrapped)",
        "split over chunks, list and stream",
        "at the cuts of a text over 1 MB",
    ):
        count, leaked = 0, set()
        for canary in canaries[:: _SEEDS if "cuts" in where else 1]:
            text = f"\n{canary.text}\n"
            results = {
                "every": lambda text=text: _field(redactor, text),
                "JSON,": lambda text=text: _encoded(redactor, text),
                "split": lambda text=text, canary=canary: _chunked(redactor, text, canary.secret),
                "at": lambda text=text, canary=canary: _truncated(redactor, text, canary.secret),
            }[where.split()[0]]()
            for result in results:
                count += 1
                if _leaks(canary, result):
                    leaked.add(canary.rule)
        rows.append(Planted(where, count, tuple(sorted(leaked))))
    return rows


def _source_files() -> list[Path]:
    """Python files of the library and the installed packages, in an order that mixes them and never changes."""
    roots = {Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib")}
    files = {path for root in roots for path in root.rglob("*.py")}
    return sorted(files, key=lambda path: hashlib.sha256("/".join(path.parts[-3:]).encode()).digest())


def source_texts(limit: int) -> list[str]:
    """About `limit` bytes of source code."""
    texts, size = [], 0
    for path in _source_files():
        data = path.read_bytes()
        try:
            texts.append(data.decode())
        except UnicodeDecodeError:
            continue
        size += len(data)
        if size >= limit:
            break
    return texts


def false_marks(redactor: ProjectRedactor) -> tuple[float, Counter[str]]:
    """Megabytes of source code looked at, and the marks in it by rule."""
    counts: Counter[str] = Counter()
    size = 0
    for text in source_texts(_SOURCE_BYTES):
        size += len(text.encode())
        counts.update(find.rule for find in redactor.untruncated().marks(text.encode("utf-8", "surrogatepass")))
    return size / 1e6, counts


def _trace_lines(texts: list[str]) -> list[bytes]:
    """Trace lines as an agent's session makes them: tool results of source code, with a thought beside each."""
    lines, joined = [], "".join(texts)
    for at in range(0, len(joined), _LINE_BYTES):
        data = {"output": joined[at : at + _LINE_BYTES], "status": "COMPLETE", "files_modified": ["src/a.py"]}
        entry = {"timestamp": "2026-01-01T00:00:00.000Z", "event": "LLM_RESPONSE", "task_id": "task-001", "data": data}
        lines.append(orjson.dumps(entry))
    return lines


def speed(redactor: ProjectRedactor) -> tuple[float, float]:
    """MB of trace text a second of one core (CPU time), and the same as a part of `orjson.loads` on the same lines."""
    lines = _trace_lines(source_texts(_SPEED_BYTES))
    values = [orjson.loads(line) for line in lines]
    for value in values[:50]:
        redactor.redact_value(value)

    def seconds(work) -> float:
        started = time.process_time()
        work()
        return time.process_time() - started

    redacting = min(seconds(lambda: [redactor.redact_value(value) for value in values]) for _ in range(3))
    loading = min(seconds(lambda: [orjson.loads(line) for line in lines]) for _ in range(3))
    return sum(map(len, lines)) / 1e6 / redacting, loading / redacting


def hostile(redactor: ProjectRedactor) -> tuple[str, float]:
    """The kind of hostile text whose time grows most, and how many times it grows when the text grows eightfold."""
    whole = redactor.untruncated()

    def seconds(text: str) -> float:
        started = time.process_time()
        whole.redact_text(text)
        return time.process_time() - started

    growth = {}
    for kind, make in HOSTILE.items():
        small = min(seconds(make(2000)) for _ in range(3))
        growth[kind] = min(seconds(make(16_000)) for _ in range(2)) / max(small, 0.001)
    worst = max(growth, key=lambda kind: growth[kind])
    return worst, growth[worst]


def table() -> str:
    """The table of docs/redaction.md."""
    with tempfile.TemporaryDirectory() as name:
        redactor = _redactor(Path(name) / "state")
        rows = [
            (
                f"canaries: {row.where}",
                f"{row.count} planted, {len(row.leaked)} leaked {' '.join(row.leaked)}",
                "0 leaked",
            )
            for row in planted(redactor)
        ]
        rules = len({rule.id for rule in all_rules()})
        megabytes, counts = false_marks(redactor)
        secrets = sum(count for rule, count in counts.items() if rule not in _PEOPLE)
        others = ", ".join(f"{count} {rule}" for rule, count in counts.most_common() if rule not in _PEOPLE)
        people = ", ".join(f"{count} {rule}" for rule, count in counts.most_common() if rule in _PEOPLE)
        rate, part = speed(redactor)
        kind, growth = hostile(redactor)
    rows += [
        (
            f"marks of secret_scan in {megabytes:.0f} MB of Python source",
            f"{secrets / megabytes:.2f} a MB ({others})",
            "< 1 a MB",
        ),
        ("marks of pii_mask in the same source", people, "addresses that stand there"),
        ("speed on trace text, all rules, one core", f"{rate:.0f} MB/s ({part:.3f} x `orjson.loads`)", ">= 40 MB/s"),
        ("hostile text, 8 times as long", f"{growth:.1f} times the time ({kind})", "about 8: linear"),
    ]
    lines = [
        f"{rules} rules ({_SEEDS} canaries each); CPython {platform.python_version()}, CPU time.",
        "",
        "| what | measured | target |",
        "|---|---|---|",
    ]
    return "\n".join([*lines, *(f"| {' | '.join(cell.strip() for cell in row)} |" for row in rows)]) + "\n"


_ROUNDS = 4
_PIECE = 1 << 20


def logs() -> Iterator[str]:
    """MB of each kind of log a second of one core (CPU time, best of four), as `pm redact` takes them."""
    with tempfile.TemporaryDirectory() as name:
        redactor = _redactor(Path(name) / "state")
        redactor.prepare()
        for kind in KINDS:
            data = made(kind)
            values = [orjson.loads(line) for line in data.splitlines()] if kind == "trace text" else []
            best = float("inf")
            for _round in range(_ROUNDS):
                started = time.process_time()
                if values:
                    for value in values:
                        redactor.redact_value(value)
                else:
                    stream = StreamRedactor(redactor)
                    for at in range(0, len(data), _PIECE):
                        stream.feed_bytes(data[at : at + _PIECE])
                    stream.close_bytes()
                best = min(best, time.process_time() - started)
            yield f"{len(data) / 1e6 / best:6.1f} MB/s  {kind}\n"


def main() -> None:
    """Print the table; with `--write`, into the page as well."""
    if "logs" in sys.argv:
        sys.stdout.writelines(logs())
        return
    text = table()
    sys.stdout.write(text)
    if "--write" in sys.argv:
        page = _PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(_START)
        after = rest.partition(_END)[2]
        _PAGE.write_text(f"{before}{_START}\n{text}{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
