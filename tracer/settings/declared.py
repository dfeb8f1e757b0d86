"""Every setting, declared once: flag, environment name, key, type, documentation, JSON Schema.

Pure data. `run.*` keys are also flags of `pm run`; others have `PM_<SECTION>_<NAME>`. `guarded` settings can start
programs, reach hosts or read keys: a project's files may set them only once the folder is trusted.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

SettingKind = Literal["text", "integer", "number", "duration", "switch", "list", "path", "any"]


_IP = r"(?:\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?|[\da-fA-F]*:[\da-fA-F:.]*(?:/\d{1,3})?)"
FORMS: dict[str, tuple[str, str]] = {
    "web": (r"https?://[^\s/@?#]+/?", "an address such as https://pm.example.org"),
    "address": (rf"{_IP}|\*", "an IP address or a network such as 10.0.0.0/8"),
    "database": (r"postgres(ql)?://\S+|(?!.*://).+", "a SQLite file or a postgresql:// address"),
    "mirror": (r"[^=\s]+=\S.*", "PATTERN=ADDRESS, such as example.org/shop*=/srv/mirrors/shop.git"),
    "blobs": (r"s3://[^\s/?#]+(/[^\s?#]*)?|(?!.*://).+", "a folder or s3://BUCKET/PREFIX"),
}
"""What a text (each of a list) must look like as a whole: a regular expression, and the words for it."""


class Setting(NamedTuple):
    """One setting. A key that ends in `.*` is a family of text values named freely (`executors.claude.command`).

    `default` None means unset. `minimum` is inclusive. `metavar` is the argument of its flag; `form` names one of
    `FORMS`.
    """

    key: str
    kind: SettingKind
    help: str
    default: Any = None
    choices: tuple[str, ...] = ()
    metavar: str = ""
    guarded: bool = False
    minimum: float | None = None
    values: str = ""
    env_name: str = ""
    form: str = ""

    @property
    def flag(self) -> str:
        """The flag of `pm run`, which every `run.*` key has; an empty text for keys without one."""
        section, name = self.key.split(".", 1)
        return f"--{name.replace('_', '-')}" if section == "run" or self.metavar else ""

    @property
    def env(self) -> str:
        """`PM_EXECUTOR` for `run.executor`, `PM_REPL_MODE` for `repl.mode`; empty for families."""
        if self.key.endswith("*") or self.env_name:
            return self.env_name
        name = self.key.removeprefix("run.")
        return "PM_" + name.replace(".", "_").replace("-", "_").upper()

    @property
    def section(self) -> str:
        """The table of the config file, for grouping."""
        return self.key.split(".", 1)[0]


_RUN: tuple[Setting, ...] = (
    Setting("run.executor", "text", "agent that does the work", "auto", metavar="NAME", values="executor"),
    Setting("run.model", "text", "model to ask the executor for", metavar="MODEL"),
    Setting(
        "run.script",
        "path",
        "JSONL file of replies for the scripted executor",
        metavar="FILE",
        guarded=True,
        values="file",
    ),
    Setting(
        "run.kind",
        "text",
        "what the request asks for; auto is a change, unless it only asks",
        "auto",
        ("change", "question", "investigation", "auto"),
        "KIND",
    ),
    Setting(
        "run.permissions", "text", "what the agent may do", "edit", ("read", "edit", "full"), "LEVEL", guarded=True
    ),
    Setting("run.max_iterations", "integer", "answers judged before the task stops", 3, metavar="N", minimum=1),
    Setting("run.test", "text", "test command that must pass (Q7)", metavar="CMD", guarded=True),
    Setting("run.lint", "text", "lint command that must pass (Q8)", metavar="CMD", guarded=True),
    Setting("run.typecheck", "text", "type check command that must pass (Q9)", metavar="CMD", guarded=True),
    Setting(
        "run.coverage",
        "text",
        "coverage report (lcov, Cobertura), or a command that prints one: names changed lines that no test reaches",
        metavar="FILE|CMD",
        guarded=True,
    ),
    Setting("run.budget_usd", "number", "money one task may cost, in US dollars", metavar="USD", minimum=0),
    Setting("run.timeout", "duration", "time one task may take", metavar="TIME", minimum=0),
    Setting(
        "run.silence", "duration", "an agent that writes nothing for this long is ended", 900, metavar="TIME", minimum=1
    ),
    Setting(
        "run.permission_wait",
        "duration",
        "what an agent asks permission for is refused after this long without an answer",
        300,
        metavar="TIME",
        minimum=1,
    ),
    Setting("run.thinking", "switch", "ask agents to show their thinking", default=True),
    Setting(
        "run.fallback",
        "list",
        "executors to ask where the first is unavailable",
        (),
        metavar="NAMES",
        guarded=True,
        values="executor",
    ),
    Setting("run.criteria", "list", "criteria in force, such as Q1-Q6 or Q1-Q9", metavar="Q1-Q9", values="criterion"),
    Setting(
        "run.review",
        "text",
        "second model that reviews the change: auto takes one that did not do the work",
        "off",
        metavar="off|auto|EXECUTOR[:MODEL]",
        guarded=True,
        values="executor",
    ),
    Setting("run.task_id", "text", "id for the new task instead of the next free one", metavar="ID"),
    Setting("run.title", "text", "short title shown in lists", metavar="TEXT"),
    Setting("run.label", "text", "operation:module that the agent's session is filed under", metavar="OP:MODULE"),
    Setting("run.continue_session", "switch", "let a rejection go on in the agent's own session", default=True),
    Setting(
        "run.chunk",
        "text",
        "split a task into subtasks: auto where it lists several pieces of work or is long, always, or never",
        "auto",
        ("auto", "always", "never"),
        "WHEN",
    ),
    Setting(
        "run.isolation",
        "text",
        "where the agent works: folder, a worktree of its own, or auto: the folder unless another task works there",
        "auto",
        ("auto", "folder", "worktree"),
        "WHERE",
    ),
    Setting("run.parallel", "integer", "subtasks worked on at once", 3, metavar="N", minimum=1),
    Setting("run.plan", "path", "file with the subtasks to run", metavar="FILE", values="file"),
    Setting("run.approve_plan", "switch", "show the plan and wait for your word before it runs", default=False),
    Setting("run.into", "text", "new branch that gets the result of subtasks instead of your files", metavar="BRANCH"),
    Setting("run.partial", "switch", "hand over the subtasks that passed even if others did not", default=False),
    Setting(
        "run.on_limit",
        "text",
        "at the iteration limit: ask the user, or stop; auto asks where one is watching",
        "auto",
        ("auto", "ask", "stop"),
        "WHAT",
    ),
)

_GATE: tuple[Setting, ...] = (
    Setting(
        "gate.tests",
        "text",
        "what a task may do to tests: add new ones, change what they expect, or nothing (frozen)",
        "add",
        ("add", "change", "frozen"),
        "WHAT",
        guarded=True,
    ),
    Setting(
        "gate.require",
        "list",
        "checks (tests, lint, typecheck) without which no task ends COMPLETE",
        (),
        metavar="CHECKS",
    ),
    Setting(
        "gate.strength",
        "number",
        "percent of faults put into the change that its tests must notice (Q11)",
        metavar="N",
        minimum=0,
    ),
    Setting("gate.strength_time", "duration", "time to try faults on the tests; 0: no faults are tried", 20, minimum=0),
    Setting("gate.base_tests", "switch", "run the tests once before the agent is asked", default=True, guarded=True),
    Setting("gate.blocks", "integer", "how often a hook sends a host's agent back before it lets go", 3, minimum=0),
    Setting("gate.harness", "list", "further files that steer the tests, as patterns: no task may change them", ()),
    Setting("gate.link", "list", "further folders that git ignores and tests need; they may only read them", ()),
)

_OTHER: tuple[Setting, ...] = (
    Setting("tasks.parallel", "integer", "tasks that run at once", 3, minimum=1),
    Setting("gate.review_budget_usd", "number", "money one review may cost, in US dollars", 1.0, minimum=0),
    Setting(
        "chunk.link",
        "list",
        "folders that git ignores and every subtask's working tree gets a link to",
        ("node_modules", ".venv", "venv"),
    ),
    Setting("repl.mode", "text", "what `pm` opens on a capable terminal", "auto", ("auto", "screen", "line")),
    Setting(
        "repl.theme", "text", "colours of the full screen", "auto", ("auto", "dark", "light", "high-contrast", "mono")
    ),
    Setting("repl.mouse", "switch", "let the full screen use the mouse", default=True),
    Setting(
        "repl.multiline", "text", "always: Enter breaks the line and Alt+Enter submits", "auto", ("auto", "always")
    ),
    Setting("repl.live", "switch", "show the answer's text while it arrives", default=False),
    Setting("repl.notify", "text", "how a finished task calls you back", "bell", ("off", "bell", "osc9", "command")),
    Setting("repl.notify_command", "text", "command run for notify = command", guarded=True),
    Setting("repl.keys.*", "text", 'keys for an action, such as keys.home.diff = "x"; /keys lists the actions'),
    Setting("executors.*", "text", "program to start for an executor, such as executors.claude", guarded=True),
    Setting("agents.*", "list", "command of an Agent Client Protocol agent, run as acp:NAME", guarded=True),
    Setting(
        "sandbox.mode",
        "text",
        "bubblewrap around agents and their commands",
        "auto",
        ("auto", "on", "off"),
        guarded=True,
    ),
    Setting("sandbox.network", "switch", "let sandboxed commands reach the network", default=False, guarded=True),
    Setting(
        "anthropic.allow_commands", "list", "commands allowed without a sandbox, beside the defaults", (), guarded=True
    ),
    Setting("anthropic.base_url", "text", "where the Messages API is reached", guarded=True),
    Setting(
        "anthropic.key_file",
        "path",
        "file with the API key; only its owner may read it (mode 0600)",
        env_name="PM_KEY_FILE",
        guarded=True,
    ),
    Setting(
        "judge.mode",
        "text",
        "score captured sessions: auto does where a key or a recording is there",
        "auto",
        ("auto", "on", "off"),
    ),
    Setting("judge.model", "text", "model that scores captured sessions", "claude-fable-5-2", env_name="JUDGE_MODEL"),
    Setting("judge.votes", "integer", "answers of the judge whose median counts", 1, minimum=1),
    Setting("judge.recording", "path", "answer the judge's questions from this file", guarded=True, values="file"),
    Setting("judge.base_url", "text", "where the judge is reached, if not at anthropic.base_url", guarded=True),
    Setting("judge.timeout", "duration", "time one answer of the judge may take", 600, minimum=1),
    Setting("judge.per_minute", "number", "requests to the judge in a minute, over all workers", 30, minimum=0.1),
    Setting(
        "worker.embedded",
        "text",
        "let pm serve check captures itself, unless they are in PostgreSQL",
        "auto",
        ("auto", "off"),
    ),
    Setting("worker.parallel", "integer", "captures that one worker checks at once", 1, minimum=1),
    Setting("worker.everywhere", "integer", "captures that all workers check at once, 0 for any number", 0, minimum=0),
    Setting("worker.heartbeat", "duration", "jobs of a worker silent for so long go to another", 30, minimum=1),
    Setting("check.exclude", "list", "files, folders or patterns that pm check leaves out", ()),
    Setting("criteria.options.*", "any", "options of single criteria; see the criteria page"),
    Setting("environment.allow", "list", "further environment variables that agents may see", (), guarded=True),
    Setting("capture.server", "text", "where captures are sent", "http://127.0.0.1:8765", guarded=True),
    Setting("capture.key_file", "path", "file with the collector's key (mode 0600)", guarded=True),
    Setting(
        "capture.allow_http", "switch", "send captures unencrypted to another machine", default=False, guarded=True
    ),
    Setting("capture.keep_sent", "text", "how long a sent capture stays on this machine: 30d, 12h, always", "30d"),
    Setting("record.ignore", "list", "files, folders or patterns that are never recorded, beside what git ignores", ()),
    Setting(
        "record.base_tree",
        "switch",
        "without consent to code: send the files of the base commit, secrets replaced, so that the fix can be proven",
        default=True,
    ),
    Setting("record.file_limit", "integer", "bytes of a file beyond which its content is left out", 1 << 20, minimum=1),
    Setting("record.output_limit", "integer", "bytes kept of one command's output", 1 << 20, minimum=1024),
    Setting("redaction.extra_names", "list", "further variables whose values are secret", ()),
    Setting("redaction.extra_rules.*", "text", "rules of your own for what is secret: an RE2 pattern by name"),
)

_COLLECTOR: tuple[Setting, ...] = (
    Setting(
        "collector.database",
        "text",
        "where captures are kept: a SQLite file or a postgresql:// address; collector.sqlite in the state dir if unset",
        guarded=True,
        form="database",
    ),
    Setting(
        "collector.blobs",
        "text",
        "where captured blobs are kept: a folder or s3://BUCKET/PREFIX; collector-blobs in the state dir if unset",
        guarded=True,
        form="blobs",
    ),
    Setting("collector.max_batch_events", "integer", "events that one call may append", 10_000, minimum=1),
    Setting("collector.max_batch_bytes", "integer", "bytes that one call may append", 32 << 20, minimum=1024),
    Setting("collector.max_field_bytes", "integer", "bytes of one text sent inline", 16 << 20, minimum=1024),
    Setting("collector.max_trace_events", "integer", "events that one capture may hold", 10_000_000, minimum=1),
    Setting("collector.max_trace_bytes", "integer", "bytes that one capture may hold", 50 << 30, minimum=1024),
    Setting("collector.max_blob_bytes", "integer", "bytes of one uploaded blob", 256 << 20, minimum=1024),
    Setting(
        "collector.waiting", "integer", "calls that may wait to be stored; more are told to try again", 512, minimum=1
    ),
)

_QA: tuple[Setting, ...] = (
    Setting(
        "qa.sandbox",
        "text",
        "what tests of captured sessions run in: auto takes podman, docker, then bubblewrap as a lesser one; container "
        "takes no lesser one",
        "auto",
        ("auto", "container", "podman", "docker", "bubblewrap"),
        guarded=True,
    ),
    Setting("qa.images", "list", "images that captured sessions may ask for, as patterns", (), guarded=True),
    Setting("qa.python_image", "text", "image for pytest", "docker.io/library/python:3.11-slim", guarded=True),
    Setting("qa.go_image", "text", "image for go test", "docker.io/library/golang:1", guarded=True),
    Setting("qa.node_image", "text", "image for npm test", "docker.io/library/node:22-slim", guarded=True),
    Setting("qa.make_image", "text", "image for make test", "docker.io/library/buildpack-deps:bookworm", guarded=True),
    Setting("qa.pull", "switch", "fetch an allowed image that is not here", default=False, guarded=True),
    Setting(
        "qa.commands",
        "list",
        "beginnings of allowed test commands; * allows everything",
        (
            "pytest",
            "python -m pytest",
            "python3 -m pytest",
            "go test",
            "npm test",
            "npm run test",
            "make test",
            "npx jest",
            "npx vitest",
            "npx mocha",
            "node --test",
            "cargo test",
            "ctest",
        ),
        guarded=True,
    ),
    Setting(
        "qa.build_commands",
        "list",
        "beginnings of allowed build commands; * allows everything",
        ("pip install", "python -m pip install", "npm ci", "npm install", "go build", "go mod download", "make build"),
        guarded=True,
    ),
    Setting("qa.build_network", "switch", "let the build phase reach the network", default=False, guarded=True),
    Setting("qa.network_name", "text", "the engine's network for builds that may have one", "bridge", guarded=True),
    Setting("qa.build_proxy", "text", "HTTP proxy that builds with a network go through", guarded=True),
    Setting("qa.remotes", "list", "hosts that sources may be fetched from over https", (), guarded=True),
    Setting(
        "qa.mirrors",
        "list",
        "where base commits come from that no bundle brings: PATTERN=ADDRESS, by repo_id or task:ID; a folder or https",
        (),
        guarded=True,
        form="mirror",
    ),
    Setting("qa.repeats", "integer", "runs of the tests on the base and on the fix", 3, minimum=1),
    Setting("qa.trials", "integer", "faults planted into a proven fix, to see whether its tests notice", 10, minimum=0),
    Setting("qa.timeout", "duration", "time one run of the tests may take", 600, minimum=1),
    Setting("qa.memory_mb", "integer", "memory one run may use, in MB", 2048, minimum=32),
    Setting("qa.cpus", "number", "processors one run may use", 1.0, minimum=0.1),
    Setting("qa.pids", "integer", "processes and threads one run may have", 256, minimum=8),
    Setting("qa.workspace_mb", "integer", "size of the folders one run may write to, in MB", 1024, minimum=1),
    Setting("qa.cache_mb", "integer", "installed dependencies that are kept for later runs, in MB", 4096, minimum=1),
    Setting("qa.output_mb", "integer", "output one run may write, in MB; more ends it", 64, minimum=1),
)

_SERVICE: tuple[Setting, ...] = (
    Setting("service.metrics", "switch", "offer Prometheus metrics at /metrics, behind the token", default=False),
    Setting(
        "service.otel_endpoint",
        "text",
        "send OpenTelemetry traces of tasks and requests there (OTLP over HTTP), such as http://127.0.0.1:4318",
        guarded=True,
    ),
    Setting("service.access_log", "path", "write a JSON line for each request to this file", guarded=True),
    Setting("service.hosts", "list", "further host names that the service answers to", guarded=True),
    Setting(
        "service.public_url",
        "text",
        "the address under which others reach the service, such as https://pm.example.org behind a proxy",
        guarded=True,
        form="web",
    ),
    Setting(
        "service.trusted_proxies",
        "list",
        "proxies whose X-Forwarded-For and X-Forwarded-Proto are believed: addresses, or networks such as 10.0.0.0/8",
        guarded=True,
        form="address",
    ),
)

SETTINGS: tuple[Setting, ...] = _RUN + _GATE + _OTHER + _COLLECTOR + _QA + _SERVICE
REMOVED = frozenset({"worker.tasks_everywhere", "run.allow_test_changes"})
"""Keys of earlier versions: a file that still sets one is read as if it did not."""


def find_setting(key: str) -> Setting | None:
    """The setting that declares `key`; `repl.keys.stop` belongs to `repl.keys.*`."""
    for setting in SETTINGS:
        if setting.key == key or (
            setting.key.endswith(".*") and key.startswith(setting.key[:-1]) and key != setting.key
        ):
            return setting
    return None


_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "minLength": 1},
    "path": {"type": "string", "minLength": 1},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "duration": {"type": ["string", "number"], "pattern": "^[0-9]+(\\.[0-9]+)?[smhdwSMHDW]?$"},
    "switch": {"type": "boolean"},
    "list": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
    "any": {},
}


def json_schema() -> dict[str, Any]:
    """The schema of a configuration file; keys outside it are errors, as they are for `pm`."""
    root: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pm configuration",
        **_table(),
    }
    for setting in SETTINGS:
        *path, last = setting.key.split(".")
        table = root
        for name in path:
            table = table["properties"].setdefault(name, _table())
        if last == "*":
            table["additionalProperties"] = _property(setting)
        else:
            table["properties"][last] = _property(setting)
    return root


def _table() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _property(setting: Setting) -> dict[str, Any]:
    described = {**_TYPES[setting.kind], "description": setting.help}
    if setting.choices:
        described["enum"] = list(setting.choices)
    if setting.minimum is not None:
        described["minimum"] = setting.minimum
    if setting.form and setting.kind == "text":
        described["pattern"] = f"^(?:{FORMS[setting.form][0]})$"
    if setting.default is not None and setting.default != ():
        described["default"] = setting.default
    return described
