"""`change` unless a request only asks: the rows of the data file, and what people type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.request import Request
from runner.gate.request_kind import settled_kind
from runner.gate.wording import read

EXAMPLES = [
    (language, means, text)
    for language, row in read("request_kind").items()
    for means in ("asks", "orders")
    for text in row["examples"][means]
]
ASKS = """
why is the build slow
What does this project do?
Explain how our retry decorator works.
Explain this error: TypeError: unsupported operand
Compare asyncio and trio
Review this change.
Find out why the build fails.
Where does the retry happen and who calls it?
Could you please tell me which port the server uses? Thank you!
Hello, why does `fix(3)` fail?
How do I add a column and drop the old one?
List all TODO comments in src/ with file and line. Don't change anything.
Please review my function, just comments, no rewriting.
Python の `pass` と `...` の使い分けを教えてください。
이 오류가 무슨 뜻인지 알려 주세요: "TypeError: 'int' and 'str'"
¿Por qué nuestro linter se queja de la palabra "todo"?
Comment fonctionnent les placeholders ?
Wie ändere ich die Dauer der Sitzung?
怎么修改会话时间?
""".strip().splitlines()
ASKS += ["Explain this:\n```python\nfix()\n```", "1. What is x?\n2. Why is y?"]
CHANGES = """
half(3) returns 2, should be 1.5
PROJ-142
PROJ-142: half() rounds up
[BUG] half rounds the wrong way
As a user I want half(3) to be 1.5 so that my bills are right
tests fail in CI
The tests fail in CI, can you have a look?
login broken
When I click save nothing happens
What happens: a blank page
Traceback (most recent call last): ValueError in calc.py
Review comments are lost on save
List page is broken
Show the name in the header
half() is wrong. Why?
Why is half(3) 2? Fix it.
Why is half(3) 2 and fix it?
Explain the bug, then correct it.
explain why it fails (and repair the test)
Find out why the build fails and repair it.
Can we have dark mode?
Shouldn't half(3) be 1.5?
Why don't you add a cache?
Please help
See #123
Write me a plan. "What is it?"
Die Anmeldung geht nicht
Der Test schlägt fehl, kannst du das beheben?
Login reparieren
ログインできません
テストが CI で失敗します。直してください。
登录按钮没反应，帮我看看
로그인이 안 돼요
El inicio de sesión falla
La connexion échoue
Add dark mode?
""".strip().splitlines()


def test_the_examples_of_the_data_file_mean_what_it_says() -> None:
    for language, means, text in EXAMPLES:
        assert settled_kind("auto", text) == ("question" if means == "asks" else "change"), (language, text)


def test_a_request_that_only_asks_is_a_question() -> None:
    for request in ASKS:
        assert settled_kind("auto", request) == "question", request


def test_whatever_else_is_a_change() -> None:
    for request in (*CHANGES, "", "Thanks!", "why? " * 2_000):
        assert settled_kind("auto", request) == "change", request


@pytest.mark.parametrize("kind", ["change", "question", "investigation"])
def test_a_kind_that_was_given_stands_and_is_recorded(kind: str) -> None:
    for prompt in ("Why?", "Fix it"):
        assert Request(prompt=prompt, workspace="w", kind=kind).draft().data["kind"] == kind


def test_the_kind_is_settled_in_the_record() -> None:
    found = {prompt: Request(prompt=prompt, workspace="w").draft().data["kind"] for prompt in ("Why?", "login broken")}
    assert found == {"Why?": "question", "login broken": "change"}


@given(st.text(max_size=300), st.sampled_from(["Fix it.", "login broken", "直してください"]))
def test_an_order_in_a_line_of_its_own_makes_a_change(text: str, order: str) -> None:
    assert settled_kind("auto", f"{order}\n{text}") == "change"
