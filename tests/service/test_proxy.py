"""The service behind the documented nginx: TLS, a host name of its own, the client's own address."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.collector.http.support import Capture
from tests.service.support import TOKEN, serving
from tests.service.test_serve_command import CODE, ROOT, start
from tests.support.tools import need_program

pytestmark = [pytest.mark.torture, pytest.mark.machine, pytest.mark.timeout(180)]

NAME = "pm.example.org"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def proxied(project: Path, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """`pm serve` of the project behind nginx as the guide has it: the port of its TLS, and its certificate."""
    nginx = need_program("nginx", how="apt-get install nginx")
    openssl = need_program("openssl", how="apt-get install openssl")
    key, cert = tmp_path / "pm.key", tmp_path / "pm.pem"
    made = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={NAME} -addext subjectAltName=DNS:{NAME}".split()
    subprocess.run([openssl, *made, "-keyout", key, "-out", cert], check=True, capture_output=True)
    state = project / ".pm-orchestrator"
    state.mkdir(exist_ok=True)
    (state / "config.toml").write_text(
        f'[service]\npublic_url = "https://{NAME}"\ntrusted_proxies = ["127.0.0.1"]\n'
        f'access_log = "{state}/access.jsonl"\n'
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    trusted = subprocess.run(
        [sys.executable, "-c", CODE, "config", "trust", "--yes"],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert trusted.returncode == 0, trusted.stderr
    service, address = start(project)
    port = free_port()
    site = re.findall(r"```nginx\n(.*?)```", (ROOT / "docs" / "http.md").read_text(), re.DOTALL)[0]
    for written, here in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("listen 80;", f"listen 127.0.0.1:{free_port()};"),
        ("http://127.0.0.1:8765", address),
        ("/etc/ssl/pm.pem", str(cert)),
        ("/etc/ssl/pm.key", str(key)),
    ):
        assert written in site
        site = site.replace(written, here)
    places = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = tmp_path / "nginx.conf"
    config.write_text(f"daemon off; pid {tmp_path}/pid; events {{}} http {{ access_log off; {places} {site} }}")
    proxy = subprocess.Popen([nginx, "-e", "stderr", "-p", tmp_path, "-c", config], stderr=subprocess.PIPE, text=True)
    try:
        for _attempt in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert proxy.poll() is None, proxy.communicate()[1]
            time.sleep(0.05)
        yield port, cert
    finally:
        for process in (proxy, service):
            process.terminate()
            process.communicate(timeout=30)


@pytest.fixture
def behind(project: Path, tmp_path: Path) -> Iterator[httpx2.Client]:
    with proxied(project, tmp_path) as (port, cert):
        context = ssl.create_default_context(cafile=str(cert))
        with httpx2.Client(
            base_url=f"https://127.0.0.1:{port}", verify=context, headers={"host": NAME}, timeout=30
        ) as client:
            client.event_hooks = {"request": [lambda request: request.extensions.update(sni_hostname=NAME)]}
            yield client


def sign_in_link(project: Path) -> str:
    """What `pm serve link` prints."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = subprocess.run(
        [sys.executable, "-c", CODE, "serve", "link"],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.strip()


def test_a_browser_signs_in_and_acts_through_tls_under_a_name_of_its_own(behind: httpx2.Client, project: Path) -> None:
    link = sign_in_link(project)
    assert link.startswith(f"https://{NAME}/login?code=")
    assert behind.get("/", headers={"accept": "text/html"}).status_code == 401
    signed = behind.get(link.partition(NAME)[2])
    assert signed.status_code == 303
    cookie = signed.headers["set-cookie"]
    assert {"Secure", "HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
    own = {"cookie": cookie.partition(";")[0], "accept": "text/html"}
    assert "Tasks in project" in behind.get("/", headers=own).text
    empty = {"content": "prompt="}
    assert behind.post("/tasks", headers={**own, "origin": f"https://{NAME}"}, **empty).status_code == 422
    for foreign in ("https://evil.example", f"http://{NAME}"):
        assert behind.post("/tasks", headers={**own, "origin": foreign}, **empty).status_code == 403, foreign
    assert behind.get("/", headers={**own, "host": "evil.example"}).status_code == 403
    lines = [json.loads(line) for line in (project / ".pm-orchestrator/access.jsonl").read_text().splitlines()]
    assert {line["client"] for line in lines} == {"127.0.0.1"}
    behind.get("/healthz", headers={"x-forwarded-for": "203.0.113.9"})
    for _attempt in range(600):
        last = json.loads((project / ".pm-orchestrator/access.jsonl").read_text().splitlines()[-1])
        if last["path"] == "/healthz":
            break
        time.sleep(0.05)
    assert last["client"] == "127.0.0.1", "what the client itself says of its address is not believed"


def test_what_is_as_large_as_the_service_takes_gets_through_and_the_metrics_do_not(
    behind: httpx2.Client, project: Path
) -> None:
    token = (project / ".pm-orchestrator" / "serve-token").read_text().strip()
    data = b"x" * (3 << 20)
    name = f"sha256:{hashlib.sha256(data).hexdigest()}"
    own = {"authorization": f"Bearer {token}", "content-type": "application/octet-stream"}
    assert behind.put(f"/blobs/{name}", content=data, headers=own).status_code == 201
    assert "nginx" in behind.get("/metrics", headers=own).text


def test_the_job_of_the_retention_deletes_what_is_old_and_nothing_else(tmp_path: Path) -> None:
    need_program("jq", how="apt-get install jq")
    (tmp_path / "project").mkdir()
    job = re.findall(r"```bash\n(.*?)```", (ROOT / "docs" / "operations.md").read_text(), re.DOTALL)[0]
    with serving(tmp_path / "project", []) as served:
        old, new, still_open = Capture(served), Capture(served), Capture(served)
        for each in (old, new):
            assert each.post("/finalize").status_code == 202
        with sqlite3.connect(tmp_path / "project/.pm-orchestrator/collector.sqlite") as database:
            day = "UPDATE traces SET finalized_at_ms = 1700000000000 WHERE trace_id = ?"
            assert database.execute(day, (old.trace_id,)).rowcount == 1
        environ = {**os.environ, "PM_URL": served.url, "PM_TOKEN": TOKEN}
        job = job.replace("limit=500", "limit=1")
        subprocess.run(["bash", "-eu", "-c", job], env=environ, check=True, timeout=60)
        left = {each["trace_id"] for each in served.client.get("/traces").json()["traces"]}
    assert left == {new.trace_id, still_open.trace_id}


def test_the_units_of_the_operator_s_guide_are_units(tmp_path: Path) -> None:
    analyze = need_program("systemd-analyze", how="apt-get install systemd")
    units = re.findall(r"```ini\n(.*?)```", (ROOT / "docs" / "guides" / "operator.md").read_text(), re.DOTALL)
    assert [re.findall(r"^ExecStart=\S+/pm (\w+)", unit, re.MULTILINE) for unit in units] == [["serve"], ["admin"]]
    files = [tmp_path / name for name in ("pm.service", "pm-worker@1.service")]
    for file, unit in zip(files, units, strict=True):
        file.write_text(unit.replace("/opt/pm/bin/pm", sys.executable))
    done = subprocess.run([analyze, "verify", *files], capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "pm.service" in line]
    assert (done.returncode, told) == (0, []), done.stderr
