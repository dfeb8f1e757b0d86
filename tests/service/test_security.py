"""Who gets in: the token file, the one-time link, the cookie, and what every answer carries."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from service.security import Gate, RateLimit, Session, read_or_make_token
from tests.service.support import GOOD, TOKEN, serving
from tracer.errors import ConfigError


def test_the_token_is_made_once_private_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "state" / "serve-token"
    token = read_or_make_token(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == token + "\n"
    assert read_or_make_token(path) == token
    assert read_or_make_token(path, new=True) != token


def test_racing_starts_agree_on_one_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _each: read_or_make_token(tmp_path / "serve-token"), range(16)))
    assert len(tokens) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["serve-token"]


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "serve-token"
    read_or_make_token(path)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="can be read by others"):
        read_or_make_token(path)


@pytest.mark.parametrize("text", ["", "short\n", "two tokens-of-more-than-twenty-letters\n"])
def test_a_file_without_a_usable_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "serve-token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="no usable token"):
        read_or_make_token(path)


def test_the_link_works_once_and_leaves_a_cookie_that_scripts_cannot_read(project: Path) -> None:
    codes = Session(TOKEN)
    with serving(project, [GOOD]) as served, httpx2.Client(base_url=served.url) as browser:
        code = codes.link_code()
        first = browser.get(f"/login?code={code}")
        assert first.status_code == 303
        cookie = first.headers["set-cookie"]
        assert codes.cookie in cookie
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert browser.get("/api/tasks").status_code == 200
        with httpx2.Client(base_url=served.url) as other:
            assert other.get(f"/login?code={code}").status_code == 403
            assert other.get("/api/tasks", headers={"cookie": f"{codes.cookie}=forged.value"}).status_code == 401


def test_every_answer_forbids_foreign_scripts_frames_and_sniffing(project: Path) -> None:
    with serving(project, [GOOD]) as served:
        for path in ("/", "/api/tasks", "/nothing", "/healthz"):
            headers = served.client.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe-inline" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"


def test_a_client_that_asks_too_fast_is_told_when_to_come_back() -> None:
    rate = RateLimit(per_second=0.001, burst=2)
    assert [rate.take() == 0 for _each in range(3)] == [True, True, False]


def test_an_origin_that_is_no_address_is_a_foreign_one(project: Path) -> None:
    with serving(project, [GOOD]) as served:
        answer = served.client.get("/api/tasks", headers={"origin": "http://["})
        assert (answer.status_code, answer.headers["content-type"]) == (403, "application/problem+json")


def test_cookies_of_other_programs_on_this_machine_lock_nobody_out(project: Path) -> None:
    codes = Session(TOKEN)
    with serving(project, [GOOD]) as served, httpx2.Client(base_url=served.url) as browser:
        cookie = browser.get(f"/login?code={codes.link_code()}").headers["set-cookie"].partition(";")[0]
        for foreign in ('prefs={"theme": "dark"}', "a/b=c", "x=["):
            with httpx2.Client(base_url=served.url) as other:
                assert other.get("/", headers={"cookie": f"{foreign}; {cookie}"}).status_code == 200


def test_head_answers_as_get_does_without_the_body(project: Path) -> None:
    codes = Session(TOKEN)
    with serving(project, [GOOD]) as served:
        for path in ("/", "/healthz", "/api/tasks", "/static/pm.css"):
            asked, got = served.client.head(path), served.client.get(path)
            assert asked.status_code == 200
            assert asked.content == b""
            assert asked.headers["content-length"] == str(len(got.content))
        assert served.client.head("/nothing").status_code == 404
        code = codes.link_code()
        with httpx2.Client(base_url=served.url) as browser:
            assert browser.head("/api/tasks").status_code == 401
            assert browser.head(f"/login?code={code}").status_code == 403
            assert browser.get(f"/login?code={code}").status_code == 303, "a look uses nothing up"


def test_a_browser_that_is_not_signed_in_gets_a_form_and_comes_back_to_where_it_was(project: Path) -> None:
    html = {"accept": "text/html,application/xhtml+xml"}
    with serving(project, [GOOD]) as served, httpx2.Client(base_url=served.url) as browser:
        page = browser.get("/captures?after=1", headers=html)
        assert (page.status_code, 'value="/captures?after=1"' in page.text) == (401, True)
        assert browser.get("/captures").headers["content-type"] == "application/problem+json", "programs get JSON"
        wrong = browser.post("/login", data={"token": "x" * 40, "next": "/captures"})
        assert (wrong.status_code, "not the token" in wrong.text) == (401, True)
        for target, wanted in (("/captures", "/captures"), ("//evil.example", "/"), ("https://evil.example", "/")):
            signed = browser.post("/login", data={"token": TOKEN, "next": target})
            assert (signed.status_code, signed.headers["location"]) == (303, wanted)
            assert "Secure" not in signed.headers["set-cookie"]
        assert browser.get("/api/tasks").status_code == 200
        foreign = browser.post("/login", data={"token": TOKEN}, headers={"origin": "https://evil.example"})
        assert foreign.status_code == 403


def test_signing_in_to_one_project_keeps_the_cookie_of_another() -> None:
    one, other = Session("a" * 40), Session("b" * 40)
    assert one.cookie != other.cookie
    cookie = one.begin("/", secure=True).headers["set-cookie"]
    assert "Secure" in cookie
    assert one.is_known(cookie.partition(";")[0].encode())
    assert not other.is_known(cookie.partition(";")[0].replace(one.cookie, other.cookie).encode())


def test_a_task_is_started_stopped_resumed_and_undone_by_plain_forms(project: Path) -> None:
    with serving(project, [GOOD]) as served:
        begun = served.client.post("/tasks", data={"prompt": "Implement the login"})
        assert begun.status_code == 303
        task_id = begun.headers["location"].rpartition("/")[2]
        assert served.until_ended(task_id)["status"] == "COMPLETE"
        assert 'value="undo"' in served.client.get(f"/tasks/{task_id}").text
        assert (project / "login.py").exists()
        for there in (False, True):
            assert served.client.post(f"/tasks/{task_id}/act", data={"action": "undo"}).status_code == 303
            assert (project / "login.py").exists() == there
        assert served.client.post(f"/tasks/{task_id}/act", data={"action": "dance"}).status_code == 422
        assert served.client.post("/tasks", data={"prompt": " "}).status_code == 422
        assert served.client.post("/tasks/none/act", data={"action": "stop"}).status_code == 404


@pytest.mark.parametrize(
    ("hosts", "host", "path", "status"),
    [
        ((), "pm.example.org", "/readyz", 200),
        ((), "10.0.0.7:8765", "/api/tasks", 403),
        (("0.0.0.0",), "10.0.0.7:8765", "/api/tasks", 200),
        (("0.0.0.0",), "pm.example.org", "/api/tasks", 403),
        (("pm.example.org",), "pm.example.org", "/api/tasks", 200),
    ],
)
async def test_under_which_names_the_service_answers(hosts: tuple[str, ...], host: str, path: str, status: int) -> None:
    async def answer(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok")

    inner = Starlette(routes=[Route("/{rest:path}", answer)])
    gate = Gate(inner, session=Session(TOKEN), hosts=hosts)
    headers = {"host": host, "authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(gate), base_url="http://x") as client:
        got = await client.get(path, headers=headers)
    assert got.status_code == status
    assert status == 200 or "pm config set service.hosts" in got.json()["next"]
