"""Settings: one declaration, layers with provenance, trust bound to content, secrets refused, comments kept."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.schemas import NewTask
from tests.repl.support import pm
from tracer.clock import parse_duration
from tracer.errors import ConfigError
from tracer.settings.declared import SETTINGS, find_setting, json_schema
from tracer.settings.layers import line_of, load_settings, mistyped_variables, set_value


def written(project: Path, text: str, name: str = "config.toml") -> Path:
    folder = project / ".pm-orchestrator"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_higher_layers_win_and_show_what_they_overrode(project: Path) -> None:
    home = {"HOME": str(project.parent), "XDG_CONFIG_HOME": str(project.parent / "config")}
    user = project.parent / "config" / "pm-orchestrator"
    user.mkdir(parents=True)
    (user / "config.toml").write_text("[run]\nmax_iterations = 4\n")
    folder = written(project, "[run]\nmax_iterations = 5\n")
    written(project, "# mine\n[run]\nmax_iterations = 6\n", "config.local.toml")
    extra = project / "extra.toml"
    extra.write_text("[run]\nmax_iterations = 7\n")
    found = []
    for environ, file, flags in (
        ({}, None, {}),
        ({}, str(extra), {}),
        ({"PM_MAX_ITERATIONS": "8"}, str(extra), {}),
        ({"PM_MAX_ITERATIONS": "8"}, str(extra), {"max_iterations": 9}),
    ):
        settings = load_settings(project=folder, environ={**home, **environ}, extra_file=file, flags=flags)
        found.append((settings.get("run.max_iterations"), settings.origin("run.max_iterations").layer))
    assert found == [(6, "local"), (7, "file"), (8, "environment"), (9, "flag")]
    row = settings.rows["run.max_iterations"]
    assert [value for value, _ in row.overrides] == [8, 7, 6, 5, 4, 3]
    assert line_of(folder / "config.local.toml", "run.max_iterations") == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run]\nmax_iteration = 3\n", "did you mean run.max_iterations"),
        ("[run]\nmax_iterations = 0\n", "is below 1"),
        ("[run]\nmax_iterations = 'many'\n", "is not a whole number"),
        ("[run]\nmax_iterations = true\n", "is not a whole number"),
        ("[run]\nkind = 'chang'\n", "is not one of change"),
        ("[run]\ntimeout = 'soon'\n", "is not a time"),
        ("[run\n", "is not valid TOML"),
        ("[anthropic]\napi_key = 'x'\n", "secrets are not kept in configuration"),
        ("[run]\nmodel = 'sk-ant-api03-abcdefghijklmnop'\n", "looks like a secret"),
    ],
)
def test_a_bad_file_is_one_clear_error_with_its_place(project: Path, text: str, message: str) -> None:
    folder = written(project, text)
    with pytest.raises(ConfigError) as caught:
        load_settings(project=folder, environ={"HOME": str(project.parent)})
    shown = f"{caught.value.what} {caught.value.why} {caught.value.next_step}"
    assert message in shown
    assert "config.toml" in shown
    assert "abcdefghijklmnop" not in shown.replace("'sk-ant-api03-abcdefghijklmnop'", "leak") or "leak" not in shown


def test_a_setting_that_was_removed_since_is_ignored_with_one_line(project: Path) -> None:
    folder = written(project, "[worker]\ntasks_everywhere = 2\nparallel = 3\n")
    settings = load_settings(project=folder, environ={"HOME": str(project.parent)})
    assert settings.get("worker.parallel") == 3
    assert settings.ignored_line() == (
        "ignored: worker.tasks_everywhere, this version has no such setting any more (config.toml)"
    )


def test_guarded_settings_of_a_project_count_only_while_its_file_is_trusted_as_it_is(project: Path) -> None:
    folder = written(project, "[run]\ntest = 'true'\nmax_iterations = 5\n")
    ran = pm("config", "show", "run.test", cwd=project)
    assert "(ignored)" in ran.out
    assert pm("config", "validate", cwd=project).code == 3
    assert json.loads(pm("config", "get", "run.max_iterations", "--json", cwd=project).out)["value"] == 5
    trusted = pm("config", "trust", cwd=project)
    assert (trusted.code, "\n  run.test = true\n" in trusted.out, "max_iterations" in trusted.out) == (0, True, False)
    assert pm("config", "validate", cwd=project).code == 0
    assert pm("config", "get", "run.test", cwd=project).out == "true\n"
    (folder / "config.toml").write_text("[run]\ntest = 'curl evil'\n")
    assert pm("config", "get", "run.test", cwd=project).out == "-\n"
    assert "config trust" in pm("config", "show", cwd=project).err


def test_a_project_s_shared_file_never_gives_full_permissions_however_well_it_is_trusted(project: Path) -> None:
    written(project, "[run]\npermissions = 'full'\nexecutor = 'codex'\n")
    assert pm("config", "trust", cwd=project).code == 0
    assert pm("config", "get", "run.permissions", cwd=project).out == "edit\n"
    assert pm("config", "get", "run.executor", cwd=project).out == "codex\n"
    assert "by a flag or your own configuration only" in pm("config", "show", "run.permissions", cwd=project).out
    ran = pm("config", "validate", cwd=project)
    assert ran.code == 3
    assert "run.permissions" in ran.err
    written(project, "[run]\npermissions = 'read'\n")
    pm("config", "trust", cwd=project)
    assert pm("config", "get", "run.permissions", cwd=project).out == "read\n"
    pm("config", "set", "run.permissions", "full", cwd=project)
    assert pm("config", "get", "run.permissions", cwd=project).out == "full\n", "the person's own file may"


def test_trust_can_be_taken_back(project: Path) -> None:
    written(project, "[run]\ntest = 'true'\n")
    pm("config", "trust", cwd=project)
    pm("config", "trust", "--revoke", cwd=project)
    assert pm("config", "validate", cwd=project).code == 3


@pytest.mark.parametrize(
    ("words", "name", "mode"), [((), "config.local.toml", 0o600), (("--project",), "config.toml", 0o644)]
)
def test_what_is_to_be_committed_can_be_read_by_others(
    project: Path, words: tuple[str, ...], name: str, mode: int
) -> None:
    assert pm("config", "set", "run.test", "true", *words, cwd=project).code == 0
    assert (project / ".pm-orchestrator" / name).stat().st_mode & 0o777 == mode


def test_set_keeps_comments_and_the_trust_of_a_file_the_person_changed(project: Path) -> None:
    text = "# why three\n[run]\nmax_iterations = 3  # enough\n\n# end\n"
    folder = written(project, text, "config.local.toml")
    assert pm("config", "set", "run.max_iterations", "5", cwd=project).code == 0
    assert (folder / "config.local.toml").read_text() == text.replace("= 3", "= 5")
    fresh = project.parent / "fresh"
    fresh.mkdir()
    assert "trusted, as you set it" in pm("config", "set", "run.test", "pytest -q", cwd=fresh).err
    assert pm("config", "get", "run.test", cwd=fresh).out == "pytest -q\n"
    empty = pm("config", "set", "run.test", "", cwd=fresh)
    assert (empty.code, "pm config set run.test --unset" in empty.err) == (2, True)
    assert pm("config", "set", "run.test", "--unset", cwd=fresh).code == 0
    assert pm("config", "get", "run.test", cwd=fresh).out == "-\n"


def test_set_refuses_what_reading_would_refuse_and_leaves_the_file(project: Path) -> None:
    folder = written(project, "[run]\nmax_iterations = 3\n", "config.local.toml")
    for words in (["run.max_iterations", "0"], ["run.nothing", "1"], ["run.model", "sk-ant-api03-abcdefghijklmnop"]):
        assert pm("config", "set", *words, cwd=project).code == 3
    assert pm("config", "set", "run.max_iterations", cwd=project).code == 2
    assert (folder / "config.local.toml").read_text() == "[run]\nmax_iterations = 3\n"


def test_the_schema_accepts_every_default_and_refuses_unknown_keys() -> None:
    schema = json_schema()
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"run": {"max_iterations": 3, "timeout": "15m", "criteria": ["Q1-Q9"]}})
    assert validator.is_valid({"repl": {"keys": {"stop": "c-x"}}, "executors": {"claude": "/opt/claude"}})
    assert not validator.is_valid({"run": {"max_iteration": 3}})
    assert not validator.is_valid({"run": {"kind": "nonsense"}})


def test_every_declared_key_is_found_and_has_help_and_a_name_of_its_own() -> None:
    names = [setting.env for setting in SETTINGS if setting.env]
    assert len(names) == len(set(names))
    for setting in SETTINGS:
        assert setting.help
        assert find_setting(setting.key.replace("*", "name")) is setting


@given(st.floats(min_value=0, max_value=1e6), st.sampled_from(["s", "m", "h", "d", "w", ""]))
def test_durations_read_what_they_write(number: float, unit: str) -> None:
    factor = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[unit]
    assert parse_duration(f"{number:.3f}{unit}") == pytest.approx(float(f"{number:.3f}") * factor)


@given(st.text(max_size=20))
def test_any_text_as_a_duration_is_seconds_or_nothing(text: str) -> None:
    seconds = parse_duration(text)
    assert seconds is None or seconds >= 0


@given(st.integers(min_value=1, max_value=10**9))
def test_what_was_set_is_what_is_read(number: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.toml"
        set_value(path, "run.max_iterations", str(number))
        assert tomllib.loads(path.read_text()) == {"run": {"max_iterations": number}}


def test_what_a_new_task_may_choose_over_http_is_named_as_the_settings_are() -> None:
    chosen = NewTask.model_fields.keys() - {"prompt", "executor"}
    assert {f"run.{name}" for name in chosen} <= {setting.key for setting in SETTINGS}


@pytest.mark.parametrize(
    ("key", "given", "shown"),
    [
        ("service.hosts", "a.example, b.example", "a.example,b.example"),
        ("agents.goose", '["goose", "a,b", " c"]', '["goose", "a,b", " c"]'),
        ("run.criteria", "[]", "[]"),
        ("criteria.options.Q5.names", '["a", "b"]', "a,b"),
        ("service.public_url", "https://pm.example.org", "https://pm.example.org"),
    ],
)
def test_what_get_prints_set_takes(project: Path, key: str, given: str, shown: str) -> None:
    assert pm("config", "set", key, given, cwd=project).code == 0
    first = pm("config", "get", key, cwd=project)
    assert first.out == f"{shown}\n"
    if not key.startswith("criteria.options"):  # free values: a text there stays a text
        assert pm("config", "set", key, first.out.rstrip("\n"), cwd=project).code == 0
        assert pm("config", "get", key, cwd=project).out == first.out


@pytest.mark.parametrize(
    ("key", "wrong", "message"),
    [
        ("service.public_url", "pm.example.org", "is not an address such as https://pm.example.org"),
        ("service.trusted_proxies", "127.0.0.1,nonsense", "'nonsense' is not an IP address or a network"),
        ("collector.database", "mysql://u:hidden-word@host/x", "is not a SQLite file or a postgresql:// address"),
        ("collector.blobs", "s3://", "is not a folder or s3://BUCKET/PREFIX"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_where_it_is_given(
    project: Path, key: str, wrong: str, message: str
) -> None:
    for ran in (
        pm("config", "set", key, wrong, cwd=project),
        pm("config", "validate", cwd=project, **{find_setting(key).env: wrong}),  # type: ignore[union-attr]
    ):
        assert (ran.code, message in ran.err, "hidden-word" in ran.err) == (3, True, False), ran.err
    assert not jsonschema.Draft202012Validator(json_schema()).is_valid({"service": {"public_url": "pm.example.org"}})


def test_addresses_that_can_be_ones_are_taken(project: Path) -> None:
    for key, value in (
        ("service.trusted_proxies", "10.0.0.0/8,::1,127.0.0.1,fd00::/8,*"),
        ("collector.database", "/srv/pm/captures.sqlite"),
        ("collector.database", "postgresql://pm@db.example.org:5432/pm?sslmode=verify-full"),
        ("collector.database", "postgresql:///pm?host=/run/postgresql"),
        ("collector.blobs", "s3://pm-captures/blobs"),
        ("service.public_url", "http://[::1]:8765/"),
    ):
        ran = pm("config", "set", key, value, cwd=project)
        assert ran.code == 0, ran.err


def test_no_command_shows_a_database_s_password(project: Path) -> None:
    address, word = "postgresql://pm:hidden@word@db.example.org/pm?sslpassword=hidden&x=1", "hidden"
    said = pm("config", "set", "collector.database", address, cwd=project)
    assert "PGPASSFILE" in said.err
    for ran in (
        said,
        pm("config", "get", "collector.database", cwd=project),
        pm("config", "show", "collector.database", "--json", cwd=project, PM_COLLECTOR_DATABASE=address),
        pm("config", "show", cwd=project, PM_COLLECTOR_DATABASE=address),
    ):
        assert "postgresql://pm:***@db.example.org/pm?sslpassword=***&x=1" in ran.out
        assert word not in ran.out + ran.err
    assert address in (project / ".pm-orchestrator/config.local.toml").read_text()


def test_a_mirror_without_an_address_is_refused(project: Path) -> None:
    for value in ("bogus", "=/srv/shop.git", "shop="):
        ran = pm("config", "set", "qa.mirrors", value, cwd=project)
        assert (ran.code, "PATTERN=ADDRESS" in ran.err) == (3, True), value
    assert pm("config", "set", "qa.mirrors", "shop*=/srv/a b.git,task:7=https://x.example/y", cwd=project).code == 0


@pytest.mark.parametrize("user", ["pm@", "pm:@", ""])
def test_a_database_without_a_password_is_shown_as_it_is(project: Path, user: str) -> None:
    address = f"postgresql://{user}/pm?host=/run/postgresql&sslpassword="
    said = pm("config", "set", "collector.database", address, cwd=project)
    assert "password is kept" not in said.err
    assert address in said.out


def test_a_mistyped_variable_is_told_and_every_one_of_ours_is_none(project: Path) -> None:
    ran = pm("config", "validate", cwd=project, PM_SERVICE_METRIX="true")
    assert "PM_SERVICE_METRIX is no variable of pm; did you mean PM_SERVICE_METRICS?" in ran.err
    root = Path(__file__).parents[2]
    pages = [*root.glob("docs/**/*.md"), root / "docker-compose.yml", root / "Dockerfile", root / "Makefile"]
    named = {name: "1" for page in pages for name in re.findall(r"\bPM_[A-Z][A-Z_]*[A-Z]\b", page.read_text())}
    assert len(named) > 20
    assert mistyped_variables(named) == []
