"""Subagents wherever they are stored, resumed and compacted sessions, availability of thinking, true status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tracer.distill.support import NoRedactor, lines_of, of_type
from tracer.distill.locate.find import find_sessions, session_by_id
from tracer.distill.one import distill_session

SID = "11111111-2222-4333-8444-555555555555"


def stamp(second: int) -> str:
    return f"2026-11-21T10:{second // 60:02}:{second % 60:02}.000Z"


def write(path: Path, records: list) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def distilled(path: Path, provider: str, **options):
    out = path.parent / "out"
    made = distill_session(
        path, provider=provider, project_root=path.parent, output_dir=out, redactor=NoRedactor(), **options
    )
    return lines_of(made.path)


class Claude:
    """Records of Claude Code's files."""

    def __init__(self) -> None:
        self.count = 0

    def line(self, kind: str, second: int, message: dict, **extra) -> dict:
        self.count += 1
        base = {"type": kind, "uuid": f"u{self.count}", "parentUuid": None, "sessionId": SID, "cwd": "/home/dev/proj"}
        return {**base, "version": "2.1.197", "timestamp": stamp(second), "message": message, **extra}

    def said(self, second: int, text: str, **extra) -> dict:
        return self.line("user", second, {"role": "user", "content": text}, **extra)

    def block(self, second: int, block: dict, reply: str = "m", stop: str = "tool_use", **extra) -> dict:
        usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3}
        message = {"id": reply, "model": "claude-x", "content": [block], "stop_reason": stop, "usage": usage}
        return self.line("assistant", second, message, **extra)

    def thought(self, second: int, text: str, reply: str, **extra) -> dict:
        return self.block(second, {"type": "thinking", "thinking": text, "signature": f"s{text}"}, reply, **extra)

    def call(self, second: int, call: str, name: str, arguments: dict, reply: str, **extra) -> dict:
        return self.block(second, {"type": "tool_use", "id": call, "name": name, "input": arguments}, reply, **extra)

    def result(self, second: int, call: str, content: str, rich=None, *, error: bool = False, **extra) -> dict:
        block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": error}
        return self.line("user", second, {"role": "user", "content": [block]}, toolUseResult=rich, **extra)


def claude_with_agent(claude: Claude, **side) -> tuple[list, list]:
    main = [
        claude.said(0, "Do it"),
        claude.thought(1, "delegate", "m1"),
        claude.call(
            2, "T1", "Task", {"description": "look", "prompt": "Find the bug", "subagent_type": "explorer"}, "m1"
        ),
    ]
    agent = [
        claude.said(3, "Find the bug", **side),
        claude.thought(4, "agent thinks", "a1", **side),
        claude.call(5, "B1", "Bash", {"command": "grep bug"}, "a1", **side),
        claude.result(6, "B1", "found", {"stdout": "found", "stderr": ""}, **side),
    ]
    return main, agent


def check_agent(lines: list, agent_id: str, kind: str | None) -> None:
    assert [line["text"] for line in of_type(lines, "thought")] == ["delegate", "agent thinks", "after"]
    assert [(line["name"], line["status"], line.get("agent")) for line in of_type(lines, "tool")] == [
        ("Task", "ok", None),
        ("Bash", "ok", agent_id),
    ]
    (agent,) = lines[0]["agents"]
    assert (agent["id"], agent["type"], agent["prompt"]) == (agent_id, kind, "Find the bug")
    assert "Find the bug" not in json.dumps(lines[1:])
    assert not [line for line in of_type(lines, "message") if line["role"] == "user"]
    assert lines[0]["tokens"]["input"] == 30  # three replies


def test_a_claude_subagent_in_a_folder_of_the_session_belongs_to_its_trace(tmp_path):
    claude = Claude()
    main, agent = claude_with_agent(claude, isSidechain=True, agentId="abc")
    main += [claude.result(7, "T1", "done", {"agentId": "abc"}), claude.thought(8, "after", "m2")]
    path = write(tmp_path / f"{SID}.jsonl", main)
    write(tmp_path / SID / "subagents" / "agent-abc.jsonl", agent)
    write(tmp_path / SID / "subagents" / "agent-abc.meta.json", [{"agentType": "explorer", "toolUseId": "T1"}])
    check_agent(distilled(path, "claude"), "abc", "explorer")


def test_a_claude_subagent_beside_the_session_belongs_to_it_and_warm_ups_do_not(tmp_path):
    claude = Claude()
    main, agent = claude_with_agent(claude, isSidechain=True, agentId="abc")
    main += [claude.result(7, "T1", "done", {"agentId": "abc"}), claude.thought(8, "after", "m2")]
    path = write(tmp_path / f"{SID}.jsonl", main)
    write(tmp_path / "agent-abc.jsonl", agent)
    warm = [claude.said(0, "Warmup", agentId="w"), claude.block(1, {"type": "text", "text": "ok"}, "w1", agentId="w")]
    write(tmp_path / "agent-w.jsonl", warm)
    write(tmp_path / "agent-other.jsonl", [{**record, "sessionId": "another"} for record in agent])
    check_agent(distilled(path, "claude"), "abc", None)


def test_claude_subagents_inside_the_main_file_are_told_apart_by_their_chain(tmp_path):
    claude = Claude()
    main, agent = claude_with_agent(claude, isSidechain=True)
    for record, parent in zip(agent[1:], agent[:-1], strict=True):
        record["parentUuid"] = parent["uuid"]
    main += [*agent, claude.result(7, "T1", "done"), claude.thought(8, "after", "m2")]
    path = write(tmp_path / f"{SID}.jsonl", main)
    check_agent(distilled(path, "claude"), agent[0]["uuid"][:8], "explorer")


def test_a_codex_subagents_thread_belongs_to_its_parents_trace(tmp_path):
    day = tmp_path / ".codex" / "sessions" / "2026" / "11" / "21"
    child = "22222222-2222-4333-8444-555555555555"

    def item(second: int, payload: dict) -> dict:
        return {"timestamp": stamp(second), "type": "response_item", "payload": payload}

    def reasoning(second: int, name: str) -> dict:
        return item(
            second, {"type": "reasoning", "id": f"rs_{name}", "summary": [{"type": "summary_text", "text": name}]}
        )

    meta = {"timestamp": stamp(0), "type": "session_meta", "payload": {"id": SID, "cwd": "/home/dev/proj"}}
    parent = [meta, reasoning(1, "parent"), reasoning(9, "later")]
    path = write(day / f"rollout-2026-11-21T10-00-00-{SID}.jsonl", parent)
    spawned = {"id": child, "session_id": SID, "parent_thread_id": SID, "cwd": "/home/dev/proj", "agent_role": "worker"}
    asked = item(4, {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Help"}]})
    write(
        day.parent / "22" / f"rollout-2026-11-22T00-00-00-{child}.jsonl",
        [{**meta, "payload": spawned}, asked, reasoning(5, "child")],
    )
    environ = {"HOME": str(tmp_path)}
    assert [found.path for found in find_sessions("codex", environ=environ)] == [path]
    assert [file.agent_id for file in session_by_id("codex", SID, environ=environ).agents] == [child]
    lines = distilled(path, "codex")
    assert [(line["text"], line.get("agent")) for line in of_type(lines, "thought")] == [
        ("parent", None),
        ("child", child),
        ("later", None),
    ]
    assert [(agent["id"], agent["type"], agent["prompt"]) for agent in lines[0]["agents"]] == [
        (child, "worker", "Help")
    ]


def gemini_reply(second: int, identity: str, thought: str, **extra) -> dict:
    told = {"subject": thought, "description": "", "timestamp": stamp(second)}
    tokens = {"input": 10, "output": 2, "cached": 1, "thoughts": 3, "total": 15}
    return {
        "id": identity, "type": "gemini", "timestamp": stamp(second), "content": "", "thoughts": [told],
        "tokens": tokens, "model": "gemini-x", **extra,
    }  # fmt: skip


def gemini_header(session_id: str = SID, **extra) -> dict:
    return {"sessionId": session_id, "projectHash": "0" * 64, "startTime": stamp(0), "lastUpdated": stamp(0), **extra}


def test_a_gemini_subagent_belongs_to_its_parents_trace(tmp_path):
    chats = tmp_path / ".gemini" / "tmp" / "proj" / "chats"
    call = {
        "id": "c1",
        "name": "invoke_agent",
        "args": {"agent_name": "generalist", "prompt": "Go"},
        "status": "success",
    }
    call |= {"agentId": "agent1", "timestamp": stamp(6), "result": []}
    reply = gemini_reply(1, "r1", "main")
    path = write(
        chats / "session-2026-11-21T10-00-11111111.jsonl",
        [gemini_header(kind="main"), reply, {**reply, "toolCalls": [call]}, gemini_reply(7, "r2", "end")],
    )
    asked = {"id": "x", "type": "user", "timestamp": stamp(2), "content": [{"text": "Go"}]}
    inner = [gemini_header("sub", kind="subagent"), asked, gemini_reply(3, "r1", "inner")]
    write(chats / SID / "agent1.jsonl", inner)
    lines = distilled(path, "gemini")
    assert [(line["text"], line.get("agent")) for line in of_type(lines, "thought")] == [
        ("**main**", None),
        ("**inner**", "agent1"),
        ("**end**", None),
    ]
    assert [(agent["id"], agent["type"], agent["prompt"]) for agent in lines[0]["agents"]] == [
        ("agent1", "generalist", "Go")
    ]
    assert lines[0]["tokens"] == {"input": 30, "output": 6, "cached": 3, "thinking": 9}


def test_a_rewritten_gemini_history_takes_no_thought_away_and_adds_none_twice(tmp_path):
    rewritten = [
        {"id": "ctx", "type": "user", "content": [{"text": "<session_context>x</session_context>"}]},
        {"id": "r1", "type": "gemini", "timestamp": stamp(1), "content": [{"text": "**one**", "thought": True}]},
        {"id": "old", "type": "gemini", "timestamp": stamp(0), "content": [{"text": "**before**", "thought": True}]},
    ]
    records = [
        gemini_header(),
        gemini_reply(1, "r1", "one"),
        gemini_header(lastUpdated=stamp(2)),
        {"$set": {"messages": rewritten}},
        gemini_reply(3, "r2", "two"),
        {"$set": {"messages": [{"id": "s", "type": "user", "content": "summary of all"}]}},
    ]
    lines = distilled(write(tmp_path / "session-x.jsonl", records), "gemini")
    assert [line["text"] for line in of_type(lines, "thought")] == ["**before**", "**one**", "**two**"]
    assert not of_type(lines, "message")


@pytest.mark.parametrize(
    ("subject", "description", "text"),
    [("S", "D", "**S**\n\nD"), ("", "D", "D"), ("S", "", "**S**"), ("", "", "")],
)
def test_a_gemini_thought_is_written_in_its_normal_form(tmp_path, subject, description, text):
    reply = gemini_reply(1, "r1", "x")
    reply["thoughts"] = [{"subject": subject, "description": description, "timestamp": stamp(1)}]
    lines = distilled(write(tmp_path / "session-x.jsonl", [gemini_header(), reply]), "gemini")
    assert [line["text"] for line in of_type(lines, "thought")] == [text]


@pytest.mark.parametrize(
    ("output", "shown", "status"),
    [
        ("Output: x\nExit Code: 3\nProcess Group PGID: 7", "x", "error"),
        ("Output: x\nExit Code: 0\nSignal: 0\nProcess Group PGID: 7", "x", "ok"),
        ("Output: x\nExit Code: (none)\nSignal: SIGKILL\nProcess Group PGID: 7", "x", "error"),
        ("Output: x\nProcess Group PGID: 7", "x", "ok"),
        ("Output: Exit Code: 3\nProcess Group PGID: 7", "Exit Code: 3", "ok"),
        ("Output: Exit Code: 3\nmore\nProcess Group PGID: 7", "Exit Code: 3\nmore", "ok"),
    ],
)
def test_a_gemini_command_failed_if_its_exit_code_says_so(tmp_path, output, shown, status):
    response = [{"functionResponse": {"response": {"output": output}}}]
    call = {"id": "c", "name": "run_shell_command", "args": {"command": "x"}, "status": "success", "result": response}
    call |= {"resultDisplay": shown, "timestamp": stamp(2)}
    reply = gemini_reply(1, "r1", "x", toolCalls=[call])
    lines = distilled(write(tmp_path / "session-x.jsonl", [gemini_header(), reply]), "gemini")
    assert [line["status"] for line in of_type(lines, "tool")] == [status]


def test_a_resumed_session_is_one_trace_and_its_second_prompt_a_message(tmp_path):
    claude = Claude()
    path = write(
        tmp_path / f"{SID}.jsonl",
        [
            claude.said(0, "First task"),
            claude.thought(1, "one", "m1"),
            {"type": "cost-state", "sessionId": SID, "totalCostUSD": 0.5},
            claude.said(60, "Second task"),
            claude.thought(61, "two", "m2"),
            {"type": "cost-state", "sessionId": SID, "totalCostUSD": 0.75},
        ],
    )
    lines = distilled(path, "claude")
    assert [line["text"] for line in of_type(lines, "thought")] == ["one", "two"]
    assert [(line["role"], line["text"]) for line in of_type(lines, "message")] == [("user", "Second task")]
    assert (lines[0]["cost_usd"], lines[0]["tokens"]["input"]) == (0.75, 20)


def test_since_leaves_the_earlier_run_out_of_lines_tokens_and_cost(tmp_path):
    claude = Claude()
    path = write(
        tmp_path / f"{SID}.jsonl",
        [
            claude.said(0, "First task"),
            claude.thought(1, "one", "m1"),
            {"type": "cost-state", "sessionId": SID, "totalCostUSD": 0.5},
            claude.said(60, "Second task"),
            claude.thought(61, "two", "m2"),
            {"type": "cost-state", "sessionId": SID, "totalCostUSD": 0.75},
        ],
    )
    since_ms = 1_795_255_230_000  # 10:00:30
    lines = distilled(path, "claude", since_ms=since_ms)
    assert [line["text"] for line in of_type(lines, "thought")] == ["two"]
    assert not of_type(lines, "message")
    assert (lines[0]["cost_usd"], lines[0]["tokens"]["input"]) == (0.25, 10)
    whole = distilled(path, "claude")
    assert [line["text"] for line in of_type(whole, "thought")] == ["one", "two"]


def test_codex_totals_of_a_resumed_thread_are_of_the_run_since(tmp_path):
    def used(second: int, count: int) -> dict:
        total = {"input_tokens": count, "cached_input_tokens": 0, "output_tokens": count // 10}
        return {
            "timestamp": stamp(second),
            "type": "event_msg",
            "payload": {"type": "token_count", "info": {"total_token_usage": total}},
        }

    def reasoning(second: int, name: str) -> dict:
        payload = {"type": "reasoning", "id": name, "summary": [{"text": name}]}
        return {"timestamp": stamp(second), "type": "response_item", "payload": payload}

    path = write(
        tmp_path / f"rollout-x-{SID}.jsonl", [reasoning(1, "a"), used(2, 100), reasoning(61, "b"), used(62, 250)]
    )
    lines = distilled(path, "codex", since_ms=1_795_255_230_000)
    assert [line["text"] for line in of_type(lines, "thought")] == ["b"]
    assert lines[0]["tokens"] == {"input": 150, "output": 15, "cached": 0, "thinking": None}


def test_a_compacted_session_keeps_all_and_its_summary_is_no_message(tmp_path):
    claude = Claude()
    boundary = {"type": "system", "subtype": "compact_boundary", "timestamp": stamp(2), "compactMetadata": {}}
    summary = claude.said(3, "This session is being continued from a previous conversation …", isCompactSummary=True)
    command = claude.said(2, "<command-name>/compact</command-name>")
    path = write(
        tmp_path / f"{SID}.jsonl",
        [
            claude.said(0, "Task"),
            claude.thought(1, "one", "m1"),
            boundary,
            command,
            summary,
            claude.thought(4, "two", "m2"),
        ],
    )
    lines = distilled(path, "claude")
    assert [line["text"] for line in of_type(lines, "thought")] == ["one", "two"]
    assert not of_type(lines, "message")


def test_thinking_that_is_not_shown_is_recorded_as_such(tmp_path):
    claude = Claude()
    path = write(
        tmp_path / f"{SID}.jsonl",
        [
            claude.said(0, "Task"),
            claude.thought(1, "all of it", "m1"),
            claude.thought(2, "shortened", "m2", thinkingDisplay="summarized"),
            claude.block(3, {"type": "thinking", "thinking": "", "signature": "abc"}, "m3"),
            claude.block(4, {"type": "redacted_thinking", "data": "zzz"}, "m4"),
        ],
    )
    lines = distilled(path, "claude")
    assert [(line["text"], line["availability"]) for line in of_type(lines, "thought")] == [
        ("all of it", "full"),
        ("shortened", "summary"),
        ("", "withheld"),
        ("", "encrypted"),
    ]
    assert lines[0]["thoughts"] == {"full": 1, "summary": 1, "withheld": 1, "encrypted": 1}


def test_encrypted_codex_reasoning_is_recorded_and_what_only_an_event_told_is_kept(tmp_path):
    def line(second: int, kind: str, payload: dict) -> dict:
        return {"timestamp": stamp(second), "type": kind, "payload": payload}

    records = [
        line(1, "response_item", {"type": "reasoning", "summary": [], "encrypted_content": "xyz"}),
        line(2, "event_msg", {"type": "agent_reasoning", "text": "both"}),
        line(2, "response_item", {"type": "reasoning", "summary": [{"text": "both"}], "content": [{"text": "raw"}]}),
        line(3, "event_msg", {"type": "agent_reasoning", "text": "cut off before its item"}),
    ]
    lines = distilled(write(tmp_path / f"rollout-x-{SID}.jsonl", records), "codex")
    assert [(line["text"], line["availability"]) for line in of_type(lines, "thought")] == [
        ("", "encrypted"),
        ("both", "summary"),
        ("raw", "full"),
        ("cut off before its item", "summary"),
    ]


def test_a_codex_file_from_before_the_envelope_is_read(tmp_path):
    records = [
        {"id": SID, "timestamp": stamp(0), "instructions": None, "git": {}},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Task"}]},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "thinking"}]},
        {"type": "function_call", "name": "shell", "call_id": "c", "arguments": '{"command":["bash","-lc","ls"]}'},
        {"type": "function_call_output", "call_id": "c", "output": '{"output":"x\\n","metadata":{"exit_code":2}}'},
    ]
    lines = distilled(write(tmp_path / f"rollout-x-{SID}.jsonl", records), "codex")
    assert [line["text"] for line in of_type(lines, "thought")] == ["thinking"]
    assert [(line["args_summary"], line["status"]) for line in of_type(lines, "tool")] == [("ls", "error")]


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("apply_patch verification failed: no such lines", "error"),
        ("unsupported call: frobnicate", "error"),
        ("Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated", "ok"),
        ("Chunk ID: 1\nProcess exited with code 2\nOutput:\nProcess exited with code 0\n", "error"),
        ("Chunk ID: 1\nProcess running with session ID 4\nOutput:\n", "ok"),
        ("Plan updated", "ok"),
    ],
)
def test_a_codex_call_has_the_status_its_output_tells(tmp_path, output, status):
    def line(second: int, payload: dict) -> dict:
        return {"timestamp": stamp(second), "type": "response_item", "payload": payload}

    records = [
        line(1, {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}),
        line(2, {"type": "function_call_output", "call_id": "c", "output": output}),
    ]
    lines = distilled(write(tmp_path / f"rollout-x-{SID}.jsonl", records), "codex")
    assert [line["status"] for line in of_type(lines, "tool")] == [status]


def test_calls_without_an_id_are_calls_of_their_own(tmp_path):
    def search(second: int, query: str, **extra) -> dict:
        call = {"type": "web_search_call", "action": {"type": "search", "query": query}, **extra}
        return {"timestamp": stamp(second), "type": "response_item", "payload": call}

    records = [search(1, "one"), search(2, "two", status="failed"), search(3, "three"), search(3, "three")]
    lines = of_type(distilled(write(tmp_path / f"rollout-x-{SID}.jsonl", records), "codex"), "tool")
    assert [(line["args_summary"], line["status"]) for line in lines] == [
        ("type=search query=one", "ok"),
        ("type=search query=two", "error"),
        ("type=search query=three", "ok"),
    ]
    claude = Claude()
    unnamed = [claude.call(second, "", "Bash", {"command": f"echo {second}"}, "m") for second in (1, 2)]
    lines = of_type(distilled(write(tmp_path / f"{SID}.jsonl", [claude.said(0, "Go"), *unnamed]), "claude"), "tool")
    assert [(line["args_summary"], line["status"]) for line in lines] == [
        ("echo 1", "no_result"),
        ("echo 2", "no_result"),
    ]


def test_a_command_that_fails_after_its_first_output_is_an_error(tmp_path):
    def line(second: int, kind: str, payload: dict) -> dict:
        return {"timestamp": stamp(second), "type": kind, "payload": payload}

    ended = {"type": "CommandExecution", "id": "c", "status": "failed", "exit_code": 1, "command": ["x"]}
    records = [
        line(
            1,
            "response_item",
            {"type": "function_call", "name": "exec_command", "call_id": "c", "arguments": '{"cmd":"x"}'},
        ),
        line(2, "response_item", {"type": "function_call_output", "call_id": "c", "output": "Chunk ID: 1\nOutput:\n"}),
        line(9, "event_msg", {"type": "item_completed", "item": ended}),
    ]
    lines = distilled(write(tmp_path / f"rollout-x-{SID}.jsonl", records), "codex")
    assert [line["status"] for line in of_type(lines, "tool")] == ["error"]
    assert lines[0]["errors"] == 1


def test_results_in_another_order_than_the_calls_and_calls_without_one(tmp_path):
    claude = Claude()
    path = write(
        tmp_path / f"{SID}.jsonl",
        [
            claude.said(0, "Task"),
            claude.call(1, "A", "Bash", {"command": "slow"}, "m1"),
            claude.call(1, "B", "Bash", {"command": "fast"}, "m1"),
            claude.call(1, "C", "Bash", {"command": "never"}, "m1"),
            claude.result(2, "B", "Exit code 1\nbad", "Error: Exit code 1\nbad", error=True),
            claude.result(3, "A", "good", {"stdout": "good", "stderr": ""}),
        ],
    )
    lines = distilled(path, "claude")
    assert [(line["args_summary"], line["status"]) for line in of_type(lines, "tool")] == [
        ("slow", "ok"),
        ("fast", "error"),
        ("never", "no_result"),
    ]
    assert lines[0]["success"] is None


@pytest.mark.parametrize(
    ("last", "success"),
    [
        ({"stop": "end_turn"}, True),
        ({"stop": "tool_use"}, None),
        ({"stop": "refusal"}, False),
        ({"stop": "end_turn", "isApiErrorMessage": True}, False),
    ],
)
def test_success_is_what_the_file_tells_and_a_caller_who_knows_better_is_believed(tmp_path, last, success):
    claude = Claude()
    ending = claude.block(1, {"type": "text", "text": "bye"}, "m1", **last)
    path = write(tmp_path / f"{SID}.jsonl", [claude.said(0, "Task"), ending])
    assert distilled(path, "claude")[0]["success"] is success
    assert distilled(path, "claude", success=False)[0]["success"] is False
    assert b'"success":false' in next((tmp_path / "out").glob("*.jsonl")).read_bytes()


def test_a_claude_output_kept_in_a_file_of_its_own_gives_its_real_tail(tmp_path):
    claude = Claude()
    rich = {"stdout": "head", "stderr": "", "persistedOutputPath": f"/elsewhere/{SID}/tool-results/b1.txt"}
    path = write(
        tmp_path / f"{SID}.jsonl",
        [claude.said(0, "T"), claude.call(1, "A", "Bash", {"command": "x"}, "m1"), claude.result(2, "A", "cut", rich)],
    )
    (tmp_path / SID / "tool-results").mkdir(parents=True)
    (tmp_path / SID / "tool-results" / "b1.txt").write_text("line\n" * 50_000 + "the end\n")
    (tool,) = of_type(distilled(path, "claude"), "tool")
    assert tool["output_tail"].endswith("the end")


def test_a_part_of_a_file_has_no_fingerprint(tmp_path):
    claude = Claude()
    part = {"filePath": "/home/dev/proj/a.py", "content": "b\nc\n", "numLines": 3, "startLine": 2, "totalLines": 9}
    path = write(
        tmp_path / f"{SID}.jsonl",
        [
            claude.said(0, "T"),
            claude.call(1, "A", "Read", {"file_path": "/home/dev/proj/a.py", "offset": 2}, "m1"),
            claude.result(2, "A", "2\tb\n3\tc", {"type": "text", "file": part}),
        ],
    )
    (tool,) = of_type(distilled(path, "claude"), "tool")
    assert tool["args_summary"] == "a.py (2 lines)"
    assert tool["offset"] == 2
    assert "sha256" not in tool
    assert "lines" not in tool
