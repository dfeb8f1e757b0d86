"""Files that are cut, shuffled, doubled, damaged or meant to harm end in a readable trace or a clear error."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tracer.distill.support import SCENARIOS, NoRedactor, lines_of, of_type, unpack
from tracer.distill.locate.find import find_sessions, session_at, session_by_id
from tracer.distill.native_files import (
    Source,
    Unreadable,
    decode_record,
    read_lines,
)
from tracer.distill.one import distill_session
from tracer.errors import NotFoundError, PmError, TraceError, UsageError

JSONL = [name for name in SCENARIOS if "@0.20.2" not in name and "@0.35.3" not in name]


@pytest.fixture(scope="module")
def natives(tmp_path_factory):
    """The bytes, name and truth of every scenario's main file."""
    found = {}
    for scenario in SCENARIOS:
        native = unpack(scenario, tmp_path_factory.mktemp("native"))
        found[scenario] = (native.path.read_bytes(), native.path.name, native)
    return found


def distilled(provider: str, name: str, content: bytes):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        result = distill_session(
            path, provider=provider, project_root=folder, output_dir=Path(folder) / "out", redactor=NoRedactor()
        )
        return lines_of(result.path)


def sent_thoughts(native) -> list[str]:
    return [step["text"] for step in native.truth["steps"] if step["kind"] == "thought"]


@given(scenario=st.sampled_from(SCENARIOS), share=st.floats(0, 1))
@example(scenario=SCENARIOS[0], share=0.0)
@settings(max_examples=80)
def test_a_file_cut_at_any_byte_gives_every_thought_before_the_cut(natives, scenario, share):
    content, name, native = natives[scenario]
    try:
        lines = distilled(native.provider, name, content[: int(len(content) * share)])
    except TraceError:
        return  # nothing of the conversation was left; random bytes show what the error says
    thoughts = [line["text"] for line in of_type(lines, "thought")]
    assert thoughts == sent_thoughts(native)[: len(thoughts)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_file_cut_before_its_last_byte_still_gives_all_thoughts(natives, scenario):
    content, name, native = natives[scenario]
    lines = distilled(native.provider, name, content.rstrip()[:-1])
    assert [line["text"] for line in of_type(lines, "thought")] == sent_thoughts(native)


@pytest.mark.parametrize("scenario", ["claude/happy@1.0.128", "codex/happy@0.50.0", "gemini/happy@0.20.2"])
def test_a_record_cut_in_two_is_said(natives, scenario):
    content, name, native = natives[scenario]
    lines = distilled(native.provider, name, content.rstrip()[: -len(content) // 20])
    assert [line for line in of_type(lines, "error") if "damaged" in line["text"]]


@given(scenario=st.sampled_from(JSONL), seed=st.integers(0, 10**6))
@settings(max_examples=40)
def test_shuffled_records_give_the_same_thoughts_in_ascending_time(natives, scenario, seed):
    content, name, native = natives[scenario]
    records = content.split(b"\n")[:-1]
    random.Random(seed).shuffle(records)
    lines = distilled(native.provider, name, b"\n".join(records) + b"\n")
    assert Counter(line["text"] for line in of_type(lines, "thought")) == Counter(sent_thoughts(native))
    assert len(of_type(lines, "tool")) == sum(step["kind"] == "tool" for step in native.truth["steps"])
    times = [line["ts"] for line in lines[1:]]
    assert times == sorted(times)


@pytest.mark.parametrize("scenario", [name for name in JSONL if name.startswith("claude/")])
def test_answers_before_their_calls_show_no_contents_of_files_either(natives, scenario):
    content, name, native = natives[scenario]

    def told(content: bytes) -> list[dict]:
        lines = of_type(distilled(native.provider, name, content), "tool")
        return sorted(lines, key=lambda line: (line["ts"], json.dumps(line)))

    assert told(b"\n".join(reversed(content.split(b"\n")[:-1]))) == told(content)


@pytest.mark.parametrize("scenario", [name for name in JSONL if "@0.50.0" not in name])
def test_a_file_that_repeats_itself_is_told_once(natives, scenario):
    content, name, native = natives[scenario]
    lines = distilled(native.provider, name, content + content)
    assert [line["text"] for line in of_type(lines, "thought")] == sent_thoughts(native)
    sent = [(step["name"], step["status"]) for step in native.truth["steps"] if step["kind"] == "tool"]
    assert [(line["name"], line["status"]) for line in of_type(lines, "tool")] == sent


@pytest.mark.parametrize("scenario", [name for name in JSONL if name.startswith("codex/") and "@0.50.0" not in name])
def test_an_event_that_stands_there_twice_adds_no_thought_and_no_message(natives, scenario):
    content, name, native = natives[scenario]
    doubled = [
        piece
        for record in content.splitlines(keepends=True)
        for piece in ([record, record] if b'"event_msg"' in record[:120] else [record])
    ]
    assert len(doubled) > len(content.splitlines())
    told, plain = distilled(native.provider, name, b"".join(doubled)), distilled(native.provider, name, content)
    for kind in ("thought", "message"):
        assert of_type(told, kind) == of_type(plain, kind)


@pytest.mark.parametrize("scenario", JSONL)
def test_garbage_between_the_records_is_left_out_and_said(natives, scenario):
    content, name, native = natives[scenario]
    records = content.split(b"\n")
    noise = [
        b"\x00\xff\xfe garbage",
        b'{"type":',
        b"[" * 100_000,
        b'"text"',
        b'{"a":' * 5000,
        b'{"type":"user","message":7}',
    ]
    mixed = [piece for record in records for piece in (record, random.Random(1).choice(noise))]
    lines = distilled(native.provider, name, b"\n".join(mixed))
    assert [line["text"] for line in of_type(lines, "thought")] == sent_thoughts(native)
    assert of_type(lines, "error")


@given(
    provider=st.sampled_from(["claude", "codex", "gemini", "copilot", "opencode"]),
    content=st.binary(max_size=2000),
    json_=st.booleans(),
)
@settings(max_examples=60)
def test_random_bytes_end_in_a_clear_error(provider, content, json_):
    with pytest.raises(TraceError) as caught:
        distilled(provider, "session-x.json" if json_ else "session-x.jsonl", content)
    assert caught.value.what
    assert caught.value.why


_ODD = [
    None, True, -1, 10**30, 1e308, float("nan"), "", "x", "\x00", "2026-11-21T10:00:00.000Z", "\ud800", [], {}, [[]],
    [None], {"type": "text"}, {"text": 5}, [{"type": "tool_use"}], {"content": [7]}, "9999-99-99T99:99:99.999Z",
]  # fmt: skip


def _mutated(record, rng: random.Random):
    """`record` with one value, anywhere in it, replaced by something of another type."""
    if not isinstance(record, dict) or not record:
        return rng.choice(_ODD)
    key = rng.choice(sorted(record))
    if rng.random() < 0.5:
        return {**record, key: rng.choice(_ODD)}
    value = record[key]
    if isinstance(value, list) and value:
        return {**record, key: [_mutated(value[0], rng), *value[1:]]}
    return {**record, key: _mutated(value, rng)}


@given(scenario=st.sampled_from(JSONL), seed=st.integers(0, 10**9))
@settings(max_examples=120)
def test_values_of_unexpected_types_never_break_the_reading(natives, scenario, seed):
    content, name, native = natives[scenario]
    records, rng = content.split(b"\n")[:-1], random.Random(seed)
    for place in rng.sample(range(len(records)), k=len(records) // 3):
        if len(records[place]) < 20_000:
            records[place] = json.dumps(_mutated(decode_record(records[place]), rng)).encode()
    try:
        lines = distilled(native.provider, name, b"\n".join(records))
    except PmError:
        return
    assert lines[0]["type"] == "meta"


@pytest.mark.parametrize("cwd", ["/a\x00b", "/a\ud800b"])
def test_a_folder_of_a_name_that_none_can_have_has_no_hash(natives, cwd):
    content, name, native = natives["claude/bugfix"]
    records = [decode_record(line) for line in content.split(b"\n")[:-1]]
    changed = [json.dumps(record | ({"cwd": cwd} if "cwd" in record else {})).encode() for record in records]
    (meta, *_) = distilled(native.provider, name, b"\n".join(changed))
    assert "project_sha256" not in meta


def test_a_lone_surrogate_becomes_a_replacement_character(natives):
    content, name, native = natives["claude/happy@1.0.128"]
    marked = content.replace(b"Looking for existing helpers", b"Looking \\ud83d for \\ud83d\\ude00 helpers")
    thoughts = [line["text"] for line in of_type(distilled("claude", name, marked), "thought")]
    assert any("Looking \ufffd for \U0001f600 helpers" in thought for thought in thoughts)
    assert len(thoughts) == len(sent_thoughts(native))


def test_a_line_beyond_the_limit_is_left_out_and_said(natives):
    content, name, native = natives["claude/happy@1.0.128"]
    first, _, rest = content.partition(b"\n")
    huge = b'{"type":"user","message":{"content":"' + b"x" * (17 << 20) + b'"}}'
    lines = distilled("claude", name, first + b"\n" + huge + b"\n" + rest)
    assert [line["text"] for line in of_type(lines, "thought")] == sent_thoughts(native)
    assert any("too large" in line["text"] for line in of_type(lines, "error"))


def test_a_line_of_too_many_values_is_left_out_and_said(natives):
    content, name, native = natives["claude/happy@1.0.128"]
    dense = b'{"type":"user","message":[' + b"[]," * 1_000_000 + b"0]}"
    lines = distilled("claude", name, content + dense + b"\n")
    assert [line["text"] for line in of_type(lines, "thought")] == sent_thoughts(native)
    assert any("too many values" in line["text"] for line in of_type(lines, "error"))


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=30), st.integers(1, 50))
def test_lines_are_the_same_whatever_the_size_of_the_reads(lines, size):
    class Slow:
        def __init__(self, content: bytes) -> None:
            self.rest = content

        def read(self, _size: int) -> bytes:
            piece, self.rest = self.rest[:size], self.rest[size:]
            return piece

    content = b"\n".join(lines)
    source = Source()
    assert list(read_lines(Slow(content), source)) == [line for line in lines if line]
    assert source.size == len(content)
    assert not any(isinstance(line, Unreadable) for line in lines)


def test_links_pipes_and_folders_are_refused(natives, tmp_path):
    content, name, _ = natives["claude/happy@1.0.128"]
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / name).write_bytes(content)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real" / name)
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "link.jsonl", tmp_path / "linked" / name, tmp_path / "pipe.jsonl", tmp_path / "real"):
        with pytest.raises(TraceError) as caught:
            session_at(path, "claude")
        assert caught.value.why


def test_links_below_a_providers_folder_are_passed_over(natives, tmp_path):
    content, name, _ = natives["claude/happy@1.0.128"]
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / name).write_bytes(content)
    projects = tmp_path / "home" / ".claude" / "projects"
    (projects / "-real").mkdir(parents=True)
    (projects / "-linked").symlink_to(outside)
    (projects / "-real" / "other.jsonl").symlink_to(outside / name)
    assert find_sessions("claude", environ={"HOME": str(tmp_path / "home")}) == []
    with pytest.raises(NotFoundError):
        session_by_id("claude", Path(name).stem, environ={"HOME": str(tmp_path / "home")})


def test_a_linked_folder_of_subagents_is_passed_over(natives, tmp_path):
    content, name, _ = natives["claude/happy@2.1.197"]
    project, outside = tmp_path / "project", tmp_path / "outside"
    (project / Path(name).stem).mkdir(parents=True)
    outside.mkdir()
    (outside / "agent-evil.jsonl").write_bytes(content)
    (project / name).write_bytes(content)
    (project / Path(name).stem / "subagents").symlink_to(outside)
    assert session_at(project / name, "claude").agents == ()


@pytest.mark.parametrize("identity", ["../../etc/passwd", "a/b", "..", ".hidden", "", "a" * 200, "x\x00y", "a..b"])
def test_an_id_that_is_no_plain_name_is_refused(identity, tmp_path):
    with pytest.raises(UsageError):
        session_by_id("claude", identity, environ={"HOME": str(tmp_path)})


def test_a_label_of_path_tricks_stays_in_the_folder(natives, tmp_path):
    content, name, _ = natives["claude/happy@1.0.128"]
    (tmp_path / name).write_bytes(content)
    made = distill_session(
        tmp_path / name, label="../../up:/etc/\x00\u202e" + "x" * 300, project_root=tmp_path,
        output_dir=tmp_path / "out", redactor=NoRedactor(), provider="claude",
    )  # fmt: skip
    assert made.path.parent == tmp_path / "out"
    assert made.path.name.startswith("trace_20261121_1030_.._.._up___etc___xxx")
    assert len(made.path.name) < 255


_MEASURED = """
import re, sys
from pathlib import Path
from tracer.distill.one import distill_session
from tracer.errors import PmError
try:
    made = distill_session(sys.argv[1], provider=sys.argv[2], project_root=sys.argv[3], output_dir=sys.argv[3] + "/out")
    print("made", made.meta["errors"], made.meta["tools"])
except PmError as error:
    print("error", error.what, error.why)
# VmHWM, not ru_maxrss: the latter begins with the peak of the process that started this one.
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def _measured(path: Path, provider: str, folder: Path) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(path), provider, str(folder)],
        check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3], timeout=300,
    )  # fmt: skip
    told, peak = done.stdout.strip().rsplit("\n", 1)
    return told, int(peak)


@pytest.mark.torture
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("provider", "name", "gigabytes"), [("claude", "s.jsonl", 10), ("codex", "s.jsonl", 2), ("gemini", "s.json", 2)]
)
def test_sparse_gigabytes_end_in_a_clear_error_in_bounded_memory(provider, name, gigabytes, tmp_path):
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(gigabytes << 30)
    told, peak = _measured(path, provider, tmp_path)
    assert told.startswith("error nothing to distill")
    assert peak < 150


@pytest.mark.torture
@pytest.mark.timeout(300)
@pytest.mark.parametrize("provider", ["claude", "codex", "gemini"])
def test_one_line_of_half_a_gigabyte_is_left_out_in_bounded_memory(natives, provider, tmp_path):
    scenario = {"claude": "claude/happy@1.0.128", "codex": "codex/happy@0.50.0", "gemini": "gemini/happy"}[provider]
    content, name, native = natives[scenario]
    path = tmp_path / name
    with path.open("wb") as file:
        file.write(content + b'{"type":"user","text":"')
        for _ in range(500):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n' + content)
    told, peak = _measured(path, provider, tmp_path)
    assert told.startswith("made")
    assert int(told.split()[2]) >= sum(step["kind"] == "tool" for step in native.truth["steps"])
    assert peak < 150


@pytest.mark.torture
@pytest.mark.timeout(300)
def test_a_million_calls_without_results_stay_in_bounded_memory(tmp_path):
    path = tmp_path / "s.jsonl"
    with path.open("w") as file:
        for number in range(300_000):
            block = {
                "type": "tool_use",
                "id": f"t{number}",
                "name": "Bash",
                "input": {"command": f"echo {number}" * 20},
            }
            message = {"id": f"m{number}", "role": "assistant", "content": [block]}
            stamp = f"2026-11-21T{number // 36000:02}:{number // 600 % 60:02}:{number // 10 % 60:02}.000Z"
            file.write(json.dumps({"type": "assistant", "message": message, "timestamp": stamp}) + "\n")
    told, peak = _measured(path, "claude", tmp_path)
    assert told == "made 0 300000"
    assert peak < 150


def _with_long_identifiers(number: int) -> dict:
    """A line of each provider in which everything that identifies something is a megabyte long."""
    long, at = f"{number}" + "x" * (1 << 20), "2026-11-21T10:31:00.000Z"
    claude = {
        "message": {
            "id": long, "role": "assistant", "model": long,
            "content": [{"type": "tool_use", "id": long, "name": "Bash", "input": {}}],
        },
        "type": "assistant", "uuid": long, "agentId": long, "isSidechain": True, "timestamp": at,
    }  # fmt: skip
    call = {"id": long, "name": "read_file", "args": {}, "agentId": long}
    gemini = {"id": long, "type": "gemini", "content": "", "model": long, "tokens": {"input": 1}, "toolCalls": [call]}
    codex = (
        {"type": "event_msg", "payload": {"type": "agent_message", "message": long}},
        {"type": "event_msg", "payload": {"type": "exec_command_end", "exit_code": 0, "call_id": long}},
        {"type": "response_item", "payload": {"type": "function_call", "name": "x", "call_id": long}},
        {
            "type": "response_item",
            "payload": {"type": "custom_tool_call", "name": "exec", "call_id": "c", "input": long},
        },
    )
    codex[3]["payload"]["call_id"] += f"{number}"
    return {"claude": claude, "gemini": gemini, **{f"codex {at}": record for at, record in enumerate(codex)}}


@pytest.mark.torture
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", _with_long_identifiers(0))
def test_identifiers_of_a_megabyte_each_stay_in_bounded_memory(kind, tmp_path):
    path = tmp_path / "s.jsonl"
    with path.open("w") as file:
        for number in range(200):
            file.write(json.dumps(_with_long_identifiers(number)[kind]) + "\n")
    _, peak = _measured(path, kind.split()[0], tmp_path)
    assert peak < 150
