"""What stands in an answer instead of the change that was ordered, in seven languages, and its innocent cousins."""

from __future__ import annotations

import pytest

from runner.gate.answer_text import read_answer
from runner.gate.code_criteria import q2_marks, q3_omissions, review_file
from runner.gate.criterion import ChangedFile, Evidence
from runner.gate.evidence_criteria import q6_termination
from runner.gate.prose import early_ends
from runner.gate.request_kind import asks_for_change, orders_change

ORDERS = {
    "en": "Convert the settings page to TypeScript.",
    "ja": "設定画面をTypeScriptに変換してください。",
    "zh": "把设置页面改写成 TypeScript。",
    "ko": "설정 화면을 TypeScript로 바꿔 주세요.",
    "es": "Convierte la página de ajustes a TypeScript.",
    "de": "Stelle die Einstellungsseite auf TypeScript um.",
    "fr": "Convertis la page des réglages en TypeScript.",
}
INSTEAD = [
    # Announced, and nothing else.
    ("en", "Sure! I'll convert the settings page step by step. Starting now."),
    ("ja", "承知しました。これから設定画面の変換に取りかかります。"),
    ("zh", "明白了。我先看一下页面结构,然后逐步迁移。马上开始。"),
    ("ko", "알겠습니다. 파일 구조를 확인한 다음 변환을 진행하겠습니다. 바로 시작하겠습니다."),
    ("es", "De acuerdo, voy a convertir la página. Empiezo por revisar los componentes."),
    ("de", "Alles klar, ich werde die Seite umstellen. Zuerst sehe ich mir die Komponenten an."),
    ("fr", "D'accord, je vais convertir la page. Je commence par lire les composants."),
    # Told to the user instead.
    ("en", "To convert the page, rename the file to `.tsx` and add types to the props. Good luck!"),
    ("en", "The page is plain JavaScript. You should rename it and type the props."),
    ("ja", "ファイル名を変更し、propsに型を追加してください。"),
    ("zh", "你需要先把文件改名为 `.tsx`,再给属性加上类型。"),
    ("ko", "파일 이름을 변경하고 props에 타입을 추가하시면 됩니다."),
    ("es", "Debes cambiar la extensión del archivo y declarar los tipos de las propiedades."),
    ("de", "Du musst die Datei umbenennen und die Eigenschaften typisieren."),
    ("fr", "Il faut renommer le fichier et déclarer les types des propriétés."),
    # Leave asked for.
    ("en", "I found the page. Do you really want me to convert it?"),
    ("en", "It is one file. Let me know if you want me to apply the change."),
    ("ja", "ファイルを見つけました。変換してもよろしいですか？"),
    ("zh", "页面在 `settings.js`。是否需要我现在迁移?"),
    ("ko", "파일을 찾았습니다. 변환을 진행해도 될까요?"),
    ("es", "He encontrado el archivo. ¿Quieres que lo convierta?"),
    ("de", "Die Seite liegt in `settings.js`. Soll ich sie umstellen?"),
    ("fr", "La page est dans `settings.js`. Voulez-vous que je la convertisse ?"),
    # Claimed, with nothing changed.
    ("en", "I've converted the page and all its components."),
    ("ja", "設定画面の変換が完了しました。"),
    ("zh", "设置页面已经全部迁移完成。"),
    ("ko", "설정 화면을 TypeScript로 모두 바꿨습니다."),
    ("es", "Listo: la página está convertida y revisada."),
    ("de", "Ich habe die Einstellungsseite vollständig auf TypeScript umgestellt."),
    ("fr", "C'est fait : la page a été convertie et relue."),
]
REPORTS = [
    ("en", "Nothing to change: the page is written in TypeScript already, see the first line of `settings.tsx`."),
    ("en", "Which of the two pages do you mean, the one of the shop or the one of the office?"),
    ("de", "Welche Seite ist gemeint, die im Laden oder die im Büro?"),
    ("es", "¿Cuál de las dos páginas, la de la tienda o la de la oficina?"),
]
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
    ("Write me a short plan for the move to Postgres.", "First, move the tables. Then you should switch the reads."),
]
PARTS = """
I did the first page as an example. The other five pages work alike, you can copy it for each of them.
What you still need to do: update the imports in the worker.
Lo que te queda por hacer: cambiar las importaciones del servidor.
Was du noch tun musst: die Importe im Server ändern.
Ce qu'il vous reste à faire : changer les imports du serveur.
I'll leave the cache for a later session since it is the hardest part.
残りの画面も同じように書き換えてください。
其余的页面同样处理即可,你可以照此复制。
나머지 화면은 같은 방식으로 바꾸시면 됩니다.
Las demás páginas son iguales, puedes copiar la primera.
Die übrigen Seiten sind gleich aufgebaut, du kannst die erste kopieren.
Die Kapitel 4 bis 8 folgen in meiner nächsten Antwort.
Les autres pages sont semblables, il vous suffit de copier la première.
""".strip().splitlines()
WHOLE = """
The other five pages work in the same way as before.
Run the migration, then restart the worker; both need your password.
What you need to do before deploying: set the variable and run the migration.
The only thing you need to do is to rotate the key in Vault.
Lo que te queda por hacer es reiniciar el servicio.
Was du noch tun musst: den Dienst neu starten.
Ce qu'il vous reste à faire : relancer le service.
If you like, a cache could be added later.
The remaining files are unchanged, so you can merge right away.
The other two endpoints are covered too, you will find them in the docs.
Los demás archivos no cambian, puedes desplegar ya.
Die übrigen Dateien sind unverändert, du kannst sofort ausrollen.
Les autres fichiers restent inchangés, vous pouvez déployer.
The tests stay as they are, since you excluded them.
残りの画面も同じように書き換えました。
其余页面也用同样的方式完成了迁移。
나머지 화면도 같은 방식으로 바꿨습니다.
Las demás páginas también están convertidas.
Die übrigen Seiten habe ich ebenso umgestellt.
Les autres pages ont été converties de la même façon.
""".strip().splitlines()


@pytest.mark.parametrize(("language", "answer"), INSTEAD)
def test_words_in_place_of_an_ordered_change_are_no_end(language: str, answer: str) -> None:
    assert not q6_termination(Evidence(request=ORDERS[language], answer=answer)).passed


@pytest.mark.parametrize(("language", "answer"), REPORTS)
def test_a_reason_or_a_real_choice_is_let_be(language: str, answer: str) -> None:
    assert q6_termination(Evidence(request=ORDERS[language], answer=answer)).passed


@pytest.mark.parametrize(("request_", "answer"), QUESTIONS)
def test_an_answer_to_a_question_may_give_advice(request_: str, answer: str) -> None:
    assert q6_termination(Evidence(request=request_, answer=answer)).passed


@pytest.mark.parametrize("sentence", PARTS)
def test_a_part_as_a_pattern_for_the_rest_is_no_end(sentence: str) -> None:
    assert early_ends(read_answer(sentence), changed=True)


@pytest.mark.parametrize("sentence", WHOLE)
def test_a_rest_that_is_done_or_excluded_is_let_be(sentence: str) -> None:
    assert not early_ends(read_answer(sentence), changed=True)


def test_a_change_that_was_made_may_be_claimed_and_explained() -> None:
    file = ChangedFile(path="settings.tsx", before=None, after=b"export const a = 1;\n")
    answer = "I've converted the page. You can change the theme in `theme.ts`."
    assert q6_termination(Evidence(request=ORDERS["en"], answer=answer, files=(file,))).passed


@pytest.mark.parametrize("request_", ORDERS.values())
def test_an_order_is_told_in_every_language(request_: str) -> None:
    assert orders_change(request_)


@pytest.mark.parametrize(
    "request_",
    [
        "Fix the parser, but don't change anything else.",
        "The exporter leaks. Fix it.",
        "Could you please rename the column?",
        "Corrige el error, pero no cambies nada más.",
        "Mend half() in calc.py",
        "half() in calc.py is wrong, correct it",
        "The tax in calc.py is added twice - please fix that",
        "half() in calc.py is wrong when n is odd, correct it",
        "If I see it right half() is off by one. It crashes if n is 0, so fix it",
    ],
)
def test_a_limit_on_an_order_leaves_it_an_order(request_: str) -> None:
    assert orders_change(request_)


def test_a_condition_in_one_sentence_says_nothing_of_an_order_in_another() -> None:
    assert asks_for_change("Don't touch the API. half() in calc.py is wrong, correct it.")
    assert not asks_for_change("half() in calc.py looks odd. If it is wrong, correct it.")


@pytest.mark.parametrize(
    "request_",
    [
        "Write a function, answer only, that adds two numbers.",
        "List all TODO comments.",
        "Translate into French: the door is open.",
        "Summarize the module.",
        "Run the tests; if they fail, fix them",
        "When half() is wrong, correct it",
        "Check whether half() in calc.py fails, then fix it",
        "calc.py is broken, how do I fix it",
        "Say what is wrong in calc.py, don't change it",
    ],
)
def test_words_that_are_wanted_are_no_order(request_: str) -> None:
    assert not orders_change(request_)


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
    assert q2_marks(Evidence(request="List all TODO comments in src/.", answer=answer)).passed
    assert not q2_marks(Evidence(request="Resolve all TODO comments in src/.", answer=answer)).passed
    assert q3_omissions(Evidence(request="List all TODO comments in src/.", answer=answer)).passed


@pytest.mark.parametrize(
    "request_",
    [
        "Active sessions are lost after a restart. Why?",
        "Turn on or off: what does the flag do?",
        "Set theory: what is a power set?",
        "Write a commit message for this.",
    ],
)
def test_what_only_looks_like_an_order_is_none(request_: str) -> None:
    assert not orders_change(request_)
