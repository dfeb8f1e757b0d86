"""A proven fix as an environment to train and measure agents in: a Harbor task folder, or a row as SWE-bench has them.

What an agent gets is the base; what it is measured by are the fix's tests, taken over in an environment of their own
together with all that steers them. Only a fix that its tests prove, by name, becomes one.
"""

from __future__ import annotations

import base64
import json
import re
import tarfile
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson

from collector.final.qa_facts import fold_qa
from collector.final.replay import Content
from collector.final.trace_source import StoreSource
from collector.qa.checkout import Checkout, CodeStore, SessionEnd, session_end
from collector.qa.profiles import REPORT_FOLDER, Refusal, alone, code_withdrawn, package_files, scripts_of, steering_of
from collector.qa.sandbox.script import WORKSPACE
from collector.store.blobs import Contents
from collector.store.port import TraceRow, TraceStore
from runner.checks.bought.by_sight import looks_pattern, never_unequal_pattern
from runner.checks.bought.tried import OTHER_VALUES
from runner.checks.harness import is_harness, protected_pattern
from runner.checks.reports import CaseResult
from runner.gate.file_roles import is_test_file
from tracer.capture.document import Qa, Task
from tracer.capture.fields import is_git_folder
from tracer.clock import from_epoch_ms
from tracer.errors import ConflictError
from tracer.export.pieces import Many, Piece, pieces_of
from tracer.export.steps import report_text

_LEFT_OUT: Final = ("node_modules", ".git", ".pm-home", ".venv", "__pycache__", "target", REPORT_FOLDER)
_AGENT_S: Final = 3600


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A proven fix: its trees, its diffs (`patch` of the product, `test_patch`), and how its tests are run."""

    row: TraceRow
    code: CodeStore
    checkout: Checkout
    patch: str
    test_patch: str
    product: tuple[str, ...]
    proof: Mapping[str, Any]
    profile: Mapping[str, Any]
    image: str
    pass_to_pass: tuple[str, ...]

    @property
    def instruction(self) -> str:
        """What the agent is asked."""
        return report_text(Task.model_validate(self.row.metadata["task"]))


async def environment_of(row: TraceRow, folder: Path, *, store: TraceStore, contents: Contents) -> Environment:
    """The environment that a trace's fix makes, with its trees in `folder`. Raises ConflictError: it makes none."""
    qa = fold_qa(await store.qa_facts(row.trace_id))
    proof, profile = _proven(row, qa)
    repo = row.metadata["repo"]
    if withdrawn := code_withdrawn(row.metadata):
        raise _none(row, f"{withdrawn.reason}: {withdrawn.detail}")
    if not (repo.get("bundle_blob_id") or (row.final_state or {}).get("bundle_blob_id")):
        raise _none(row, "its code came neither as a bundle nor as a tree")
    code = CodeStore(folder, commit=str(repo["commit_base"]))
    source = await code.fetch_source(repo, row.final_state, contents=contents, remotes=())

    async def end(base: Callable[[str], Content]) -> SessionEnd:
        return await session_end(await StoreSource.open(row.trace_id, store=store, contents=contents), base)

    steering = steering_of(profile["commands"])
    checkout = source if isinstance(source, Refusal) else await code.checkout(
        commit_base=str(repo["commit_base"]), final_state=row.final_state, contents=contents, session_end=end,
        source=source, steering=steering,
    )  # fmt: skip
    if isinstance(checkout, Refusal):
        raise _none(row, f"{checkout.reason}: {checkout.detail}")
    if checkout.base != qa.tests.detail["checkout"]["base_tree"]:  # type: ignore[union-attr, index, call-overload]
        raise _none(row, "what came with it is not the code that was tested (a mirror's or a remote's was)")
    named = next((path for path in await code.listed(checkout.base) if any(map(is_git_folder, path.split("/")))), None)
    if named is not None:  # a fix that brings one is refused by QA
        raise _none(row, f"{named!r} is .git on other file systems")
    tests = tuple(path for path in checkout.changed if is_test_file(path) and not is_harness(path))
    product = tuple(path for path in checkout.changed if path not in tests and path not in checkout.steering)
    table = proof.get("table_blob_id")
    tests_run = proof["tests"] if table is None else orjson.loads(await contents.read(table))
    return Environment(
        row=row,
        code=code,
        checkout=checkout,
        patch=await code.diff(checkout.base, checkout.head, product),
        test_patch=await code.diff(checkout.base, checkout.head, tests),
        product=product,
        proof=proof,
        profile=profile,
        image=str(qa.tests.detail["sandbox"].get("pinned") or profile["image"]),  # type: ignore[union-attr]
        pass_to_pass=tuple(each["id"] for each in tests_run if each["before"] == each["after"] == "passed"),
    )


def instance_id(repo_id: str, trace_id: str) -> str:
    """A name that may be an image's tag and a file's name."""
    name = re.sub(r"[^\w.-]+", "-", repo_id.replace("/", "__"), flags=re.ASCII).strip("-.")
    return f"{name or 'repository'}-{trace_id[:8]}"


def _proven(row: TraceRow, qa: Qa | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    detail: Mapping[str, Any] = qa.tests.detail if qa is not None and qa.tests is not None else {}
    proof, profile = detail.get("proof") or {}, detail.get("profile") or {}
    if proof.get("verdict") != "proven":
        raise _none(row, f"it is not proven ({proof.get('verdict') or 'not tested'})")
    if proof["level"] != "tests" or proof["counts"]["fail_to_pass"] > len(proof["fail_to_pass"]):
        raise _none(row, "its tests are not known by name")
    if "command" not in profile:
        raise _none(row, "it was proven before profiles were kept with the proof (pm capture qa --step tests)")
    return proof, profile


def _none(row: TraceRow, why: str) -> ConflictError:
    return ConflictError(f"trace {row.trace_id!r} makes no environment", why=why, next_step="pm capture qa")


async def swebench_pieces(row: TraceRow, *, store: TraceStore, contents: Contents) -> AsyncGenerator[Piece]:
    """One row with SWE-bench's keys, its lists as JSON texts; ours stand under `pm`."""
    with tempfile.TemporaryDirectory() as folder:
        made = await environment_of(row, Path(folder), store=store, contents=contents)
        base = str(row.metadata["repo"]["commit_base"])
        value = {
            "instance_id": instance_id(str(row.metadata["repo"]["repo_id"]), row.trace_id),
            "repo": row.metadata["repo"]["repo_id"],
            "base_commit": base,
            "environment_setup_commit": base,
            "problem_statement": made.instruction,
            "hints_text": "",
            "created_at": from_epoch_ms(row.created_at_ms),
            "version": base[:12],
            "patch": made.patch,
            "test_patch": made.test_patch,
            "FAIL_TO_PASS": json.dumps(list(made.proof["fail_to_pass"])),
            "PASS_TO_PASS": json.dumps(list(made.pass_to_pass)),
            "pm": {
                "trace_id": row.trace_id,
                "image": made.image,
                **{key: made.profile[key] for key in ("commands", "setup", "build")},
                "strength": made.proof.get("strength"),
                "flags": made.proof.get("flags") or [],
                "base": made.checkout.source,
            },
        }
        async for piece in pieces_of(value):
            yield piece


async def harbor_pieces(row: TraceRow, *, store: TraceStore, contents: Contents) -> AsyncGenerator[Piece]:
    """The files of a task folder, one by one; `unpack` writes them."""
    with tempfile.TemporaryDirectory() as folder:
        made = await environment_of(row, Path(folder), store=store, contents=contents)
        async for piece in pieces_of({"trace_id": row.trace_id, "files": Many(_files(made, Path(folder)))}):
            yield piece


async def _files(made: Environment, folder: Path) -> AsyncIterator[dict[str, Any]]:
    checkout, profile = made.checkout, made.profile
    lines = [f"RUN {text}" for text in profile["setup"]]
    # What setup installs for its user is for who runs the tests.
    home = [f"ENV HOME={WORKSPACE}/.pm-home"] if lines else []
    begin = [f"FROM {made.image}", "WORKDIR /code", "COPY code/ /code/", *home, *lines]
    yield _text("instruction.md", made.instruction + "\n")
    yield _text("task.toml", _config(made))
    yield _text("environment/Dockerfile", "\n".join([*begin, *(f"RUN {text}" for text in profile["build"]), ""]))
    async for file in _tree(made.code, checkout.base, "environment/code", folder):
        yield file
    yield _text("solution/gold.patch", made.patch)
    async for file in _tree(made.code, checkout.head, "solution/files", folder, only=frozenset(made.product)):
        yield file
    there = await made.code.listed(checkout.head)
    gone = [path for path in made.product if path not in there]
    yield _text("solution/solve.sh", _SOLVE, executable=True)
    yield _text("solution/gone.txt", "".join(f"{path}\n" for path in gone))
    python = "command -v python3 || (apt-get update && apt-get install -y --no-install-recommends python3)"
    verifier = [begin[0], f"RUN {python}", *begin[1:], "RUN cp -a /code /pristine", "COPY . /tests/", ""]
    yield _text("tests/Dockerfile", "\n".join(verifier))
    async for file in _tree(made.code, checkout.tested_base, "tests/code", folder):
        yield file
    yield _text("tests/test.sh", "#!/bin/sh\nexec python3 /tests/verify.py\n", executable=True)
    yield _text("tests/task.json", json.dumps(await _measure(made), indent=1) + "\n")
    for name, text in programs().items():
        yield _text(f"tests/{name}", text)


_SOLVE: Final = """#!/bin/sh
set -e
here=$(dirname "$0")
target=${1:-/code}
[ ! -d "$here/files" ] || cp -R "$here/files/." "$target/"
while IFS= read -r path; do rm -f "$target/$path"; done < "$here/gone.txt"
"""


_READER: Final = ("runner.checks.reports", "runner.checks.report_formats")  # as they import


@cache
def programs() -> dict[str, str]:
    """The verifier, and our own readers of test reports, which it runs."""
    found = {"verify.py": files("collector.handover") / "harbor_verify.txt"}
    for number, name in enumerate(_READER):
        package, _, module = name.rpartition(".")
        found[f"reader/{number}.{name}.txt"] = files(package) / f"{module}.py"
    return {name: place.read_text(encoding="utf-8") for name, place in found.items()}


async def _measure(made: Environment) -> dict[str, Any]:
    """What the verifier goes by."""
    profile = made.profile
    steering = "|".join(f"^{re.escape(path)}$" for path in sorted(steering_of(profile["commands"])))
    packages = await made.code.read_tree(made.checkout.tested_base, package_files(profile["commands"]))
    fixed = made.proof["fail_to_pass"]
    failing = await made.code.failing(made.checkout.tested_base, made.checkout.tests, fixed=fixed)
    scripts = scripts_of(packages)

    def command(files: Mapping[str, object]) -> Sequence[str]:
        run = alone(profile["commands"], tuple(files), scripts=scripts)
        return run[1] if run else profile["command"]

    return {
        "fail_to_pass": list(fixed),
        "pass_to_pass": list(made.pass_to_pass),
        "failing": {path: text.decode("utf-8", "replace") for path, text in failing.items()},
        "failing_command": command(failing),
        "other_values": [{**turn, "command": command(turn["files"])} for turn in await _other_values(made)],
        "build": [["sh", "-c", text] for text in profile["build"]],
        "command": profile["command"],
        "reports": profile["reports"],
        "report_folder": f"{WORKSPACE}/{REPORT_FOLDER}",
        "environment": profile["environment"],
        "told_by_output": profile["told_by_output"],
        "timeout": _AGENT_S,
        "protected": f"{protected_pattern()}|{steering}",
        "looks": looks_pattern(),
        "never_unequal": never_unequal_pattern(),
        "left_out": list(_LEFT_OUT),
        "base": sorted(await made.code.listed(made.checkout.base)),
    }


async def _other_values(made: Environment) -> list[dict[str, Any]]:
    """The mended tests with other values to expect, turn by turn, as far as the proof found that they notice these."""
    heard = set(made.proof.get("other_values_noticed") or ())
    cases = [CaseResult(id=name, outcome="passed") for name in sorted(heard)]
    checkout = made.checkout
    told = await made.code.retold(checkout.tested_base, checkout.tests, cases, checkout.product)
    turns = []
    for turn in OTHER_VALUES if told.files == told.now else ():  # else the agent's own file holds tests
        files = told.files_with("expected", turn) or {}
        texts = {path: text.decode("utf-8", "replace") for path, text in files.items()}
        turns.append({"files": texts, "tests": sorted(told.varied & heard)})
    return turns


def _config(made: Environment) -> str:
    """task.toml; JSON's texts and lists are TOML's."""

    def told(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    repo = made.row.metadata["repo"]
    excluded = told(list(_LEFT_OUT))
    metadata = {
        "trace_id": made.row.trace_id,
        "repo": repo["repo_id"],
        "commit_base": repo["commit_base"],
        "fail_to_pass": list(made.proof["fail_to_pass"]),
        "flags": list(made.proof.get("flags") or []),
        **({"strength": made.proof["strength"]} if made.proof.get("strength") is not None else {}),
    }
    return "\n".join(
        [
            'schema_version = "1.4"',
            f'artifacts = [{{ source = "{WORKSPACE}", exclude = {excluded} }}]',
            "",
            "[task]",
            f'name = "pm-orchestrator/{made.row.trace_id}"',
            "",
            "[metadata]",
            *(f"{key} = {told(value)}" for key, value in metadata.items()),
            "",
            "[agent]",
            f"timeout_sec = {_AGENT_S}",
            "",
            "[verifier]",
            f"timeout_sec = {_AGENT_S}",
            'environment_mode = "separate"',
            "",
            "[environment]",
            f'workdir = "{WORKSPACE}"',
            "",
        ]
    )


async def _tree(
    code: CodeStore, tree: str, below: str, folder: Path, *, only: frozenset[str] | None = None
) -> AsyncIterator[dict[str, Any]]:
    """The files of a tree; links and what else is no file are left out."""
    target = folder / "tree.tar"
    await code.write_tar(tree, target)
    with tarfile.open(target) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            if file is None or (only is not None and member.name not in only):
                continue
            data = file.read()
            executable = bool(member.mode & 0o100)
            try:
                yield _text(f"{below}/{member.name}", data.decode("utf-8"), executable=executable)
            except UnicodeDecodeError:
                held = base64.b64encode(data).decode("ascii")
                yield {"path": f"{below}/{member.name}", "executable": executable, "base64": held}


def _text(path: str, text: str, *, executable: bool = False) -> dict[str, Any]:
    return {"path": path, "executable": executable, "text": text}


def unpack(line: bytes, folder: Path) -> int:
    """Write the files of an exported task below `folder`; how many bytes."""
    size = 0
    for file in orjson.loads(line)["files"]:
        path = PurePosixPath(file["path"])
        if path.is_absolute() or ".." in path.parts or any(map(is_git_folder, path.parts)):
            raise ConflictError("the task cannot be written", why=f"a file of it is called {str(path)!r}")
        data = file["text"].encode() if "text" in file else base64.b64decode(file["base64"])
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o755 if file["executable"] else 0o644)
        size += len(data)
    return size
