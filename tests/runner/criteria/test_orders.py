"""How an answer may speak: of a part as a pattern for the rest, of advice, of stubs and marks that were asked for."""

from __future__ import annotations

import pytest

from runner.gate.code_criteria import q2_marks, q3_omissions, review_file
from runner.gate.criterion import ChangedFile, Evidence
from runner.gate.evidence_criteria import q5_evidence, q6_termination
from runner.gate.request_kind import settled_kind

QUESTIONS = [
    ("How would I convert the settings page to TypeScript?", "Rename the file, then you should type the props."),
    ("Explain how to rename a branch.", "You can rename it with `git branch -m`."),
    ("What must I change to get longer sessions?", "You need to change `ttl` in `session.yml`."),
    ("Review the importer. Don't change anything.", "You should close the file. The loop could be replaced."),
    ("ログイン画面を修正する方法を教えてください。", "`ttl`を変更してください。"),
    ("怎么修改会话时间?", "你需要修改 `ttl`。"),
    ("로그인 시간을 변경하는 방법을 알려 주세요.", "`ttl` 값을 변경하시면 됩니다."),
    ("¿Cómo cambio la duración de la sesión?", "Debes cambiar `ttl`."),
    ("Wie ändere ich die Dauer der Sitzung?", "Du musst `ttl` ändern."),
    ("Comment changer la durée de la session ?", "Il faut modifier `ttl`."),
]
OPEN = """
You will need to implement the rest.
Let me know if I should continue with the other five pages.
I did not finish the remaining parts.
I'll implement the remaining pages in the next step.
- [x] the first page
- [ ] the other pages
I have converted the first page and the second one, and
""".strip().splitlines()
WHOLE = """
The other five pages work in the same way as before.
Run the migration, then restart the worker; both need your password.
What you need to do before deploying: set the variable and run the migration.
If you like, a cache could be added later.
The remaining files are unchanged, so you can merge right away.
Let me know if you have questions.
- [x] the first page
""".strip().splitlines()


@pytest.mark.parametrize(("request_", "answer"), QUESTIONS)
def test_an_answer_to_a_question_may_give_advice(request_: str, answer: str) -> None:
    asked = Evidence(request=request_, answer=answer, kind=settled_kind("auto", request_))
    assert q5_evidence(asked).passed
    assert q6_termination(asked).passed


def _is_open(*lines: str) -> bool:
    file = ChangedFile(path="a.py", before=None, after=b"A = 1\n")
    asked = Evidence(request="Convert the pages.", answer="\n".join(lines), files=(file,))
    return not q6_termination(asked).passed


@pytest.mark.parametrize("lines", [OPEN[:1], OPEN[1:2], OPEN[2:3], OPEN[3:4], OPEN[4:6], OPEN[6:]])
def test_work_that_the_answer_itself_leaves_open_is_no_end(lines: list[str]) -> None:
    assert _is_open(*lines)


@pytest.mark.parametrize("sentence", WHOLE)
def test_instructions_for_use_and_ideas_are_let_be(sentence: str) -> None:
    assert not _is_open(sentence)


def test_a_change_that_was_made_may_be_claimed_and_explained() -> None:
    file = ChangedFile(path="settings.tsx", before=None, after=b"export const a = 1;\n")
    answer = "I've converted the page. You can change the theme in `theme.ts`."
    assert q6_termination(Evidence(request="Convert the settings page.", answer=answer, files=(file,))).passed


STUB = b'class Sepa(Provider_):\n    def send(self, sum):\n        raise NotImplementedError("sepa")\n'


def _judged(request: str, path: str, text: bytes) -> list[str]:
    return [each for each, _ in review_file(ChangedFile(path=path, before=None, after=text), request=request)]


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        ("sepa.py", "Write the class Sepa; every method should raise NotImplementedError."),
        ("sepa.py", "Write only a stub of the provider."),
        ("sepa.py", "Schreibe nur das Gerüst der Klasse Sepa."),
        ("sepa.py", "Écris seulement le squelette de la classe Sepa."),
        ("lib.rs", "Make the starter file, bodies as todo!() so that the students can fill them in."),
    ],
)
def test_a_stub_that_was_ordered_is_let_be(path: str, request_: str) -> None:
    text = STUB if path.endswith(".py") else b"pub fn f() -> u8 {\n    todo!()\n}\n"
    assert _judged("Add the provider.", path, text)
    assert not _judged(request_, path, text)


@pytest.mark.parametrize(
    "request_",
    [
        "Replace the methods that raise NotImplementedError by real ones.",
        "Write the provider. No method should raise NotImplementedError.",
        "The methods still raise NotImplementedError. Implement them.",
        "Write the provider and a stub server for its tests.",
    ],
)
def test_a_stub_that_was_to_go_is_none_that_was_ordered(request_: str) -> None:
    assert _judged(request_, "sepa.py", STUB)


def test_marks_that_were_asked_for_may_be_listed() -> None:
    answer = "| Place | Comment |\n| --- | --- |\n| `a.ts:3` | TODO: round |\n"
    asked = Evidence(request="List all TODO comments in src/.", answer=answer, kind="question")
    assert q2_marks(asked).passed
    assert not q2_marks(Evidence(request="Resolve all TODO comments in src/.", answer=answer)).passed
    assert q3_omissions(asked).passed
