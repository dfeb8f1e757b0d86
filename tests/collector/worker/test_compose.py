"""docker-compose.yml and Dockerfile stay true to the product: known settings, no root, no secret, health checks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from repl.registry.parse import parse_command_line
from tracer.settings.declared import SETTINGS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"])


def test_every_service_has_a_health_check_and_no_rights_beyond_its_own(services: dict[str, Any]) -> None:
    assert set(services) == {"api", "worker", "postgres", "minio"}
    for name, service in services.items():
        assert service["healthcheck"]["test"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
    assert services["postgres"]["user"] == "postgres"
    assert "ports" not in services["postgres"]
    assert services["minio"]["profiles"] == ["s3"]


def test_every_variable_of_ours_is_a_setting(services: dict[str, Any]) -> None:
    known = {setting.env for setting in SETTINGS}
    given = {name for service in services.values() for name in service.get("environment", {})}
    ours = {name for name in given if name.startswith("PM_") or name == "JUDGE_MODEL"}
    assert ours
    assert ours <= known


def test_the_commands_of_both_images_are_commands_of_pm(services: dict[str, Any]) -> None:
    for name in ("api", "worker"):
        command, _ = parse_command_line(list(services[name]["command"]))
        assert command.name in {"serve", "admin worker"}
    for words in re.findall(r"^CMD (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE):
        parse_command_line(json.loads(words))


def test_the_images_run_as_a_user_and_hold_no_secret() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"^USER (\w+)$", text, re.MULTILINE)[-1] == "pm"
    assert not re.search(r"(?i)^(ENV|ARG).*(key|token|password|secret)", text, re.MULTILINE)
    assert {"collector", "fixtures", "repl", "requirements", "runner", "service", "tracer"} <= set(
        re.findall(r"^!(\w+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    )
