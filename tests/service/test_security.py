"""Who gets in: the token file, the one-time link, the cookie, and what every answer carries."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from service.security import COOKIE, OneTimeCodes, RateLimit, read_or_make_token
from tests.service.support import GOOD, serving
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
    codes = OneTimeCodes()
    with serving(project, [GOOD], codes=codes) as served, httpx2.Client(base_url=served.url) as browser:
        code = codes.new()
        first = browser.get(f"/login?code={code}")
        assert first.status_code == 303
        cookie = first.headers["set-cookie"]
        assert COOKIE in cookie
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert browser.get("/api/tasks").status_code == 200
        with httpx2.Client(base_url=served.url) as other:
            assert other.get(f"/login?code={code}").status_code == 403
            assert other.get("/api/tasks", headers={"cookie": f"{COOKIE}=forged.value"}).status_code == 401


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
    codes = OneTimeCodes()
    with serving(project, [GOOD], codes=codes) as served, httpx2.Client(base_url=served.url) as browser:
        cookie = browser.get(f"/login?code={codes.new()}").headers["set-cookie"].partition(";")[0]
        for foreign in ('prefs={"theme": "dark"}', "a/b=c", "x=["):
            with httpx2.Client(base_url=served.url) as other:
                assert other.get("/", headers={"cookie": f"{foreign}; {cookie}"}).status_code == 200


def test_head_answers_as_get_does_without_the_body(project: Path) -> None:
    codes = OneTimeCodes()
    with serving(project, [GOOD], codes=codes) as served:
        for path in ("/", "/healthz", "/api/tasks", "/static/pm.css"):
            asked, got = served.client.head(path), served.client.get(path)
            assert asked.status_code == 200
            assert asked.content == b""
            assert asked.headers["content-length"] == str(len(got.content))
        assert served.client.head("/nothing").status_code == 404
        code = codes.new()
        with httpx2.Client(base_url=served.url) as browser:
            assert browser.head("/api/tasks").status_code == 401
            assert browser.head(f"/login?code={code}").status_code == 403
            assert browser.get(f"/login?code={code}").status_code == 303, "a look uses nothing up"
