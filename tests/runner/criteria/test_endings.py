"""Answers that part from unfinished work, and their innocent cousins, in seven languages."""

from __future__ import annotations

import pytest

from runner.gate.answer_text import read_answer
from runner.gate.prose import early_ends

PARTS = """
The export follows in a separate PR.
I'll convert the remaining files in the next step.
You'll still need to wire the handler up to the queue.
Three of the seven pages are translated so far, I only did these.
I stopped here for now.
I'm going to look at the session code first.
I'll leave the tests and the migration to you.
これからログイン画面に入力検証を追加していきます。
残りの画面は次回対応します。
各メソッドの中身はご自身で実装してください。
接下来我会为订单模块添加导出功能。
剩下的两个接口还没有迁移。
具体逻辑请自行补充。
먼저 기존 코드를 살펴본 뒤 환불 기능을 추가하겠습니다.
나머지 화면은 다음 단계에서 구현하겠습니다.
Voy a añadir la autenticación.
Me falta el controlador.
Tendrás que completar la lógica del cálculo.
Ich werde zunächst die Abfragen prüfen.
Die Tests fehlen noch.
Den Rest baue ich im nächsten Schritt um.
Il me reste à écrire les tests.
Je vais d'abord analyser le module.
Les autres pages seront traduites dans une prochaine étape.
""".strip().splitlines()
INNOCENT = """
The remaining tests pass as well.
Failed deliveries are retried in the next run.
Run the migration and restart the workers before you deploy.
If you want, a cache could be added later.
First I read the failing test, then I corrected the query.
As requested, the mail templates stay as they are.
It is up to you which of the two names is used.
処理はまず差分を取得し、次にサーバーへ送信します。追加しました。
残りのテストもすべて通っています。
必要であれば、キャッシュも追加できます。
系统会先校验字段,然后调用支付接口。测试已通过。
如果以后数据量更大,可以考虑加缓存。已完成。
환불 기능을 추가했습니다. 배포 후에는 워커를 재시작해야 합니다.
He añadido la columna. Ejecuta la migración después de desplegar.
No queda nada pendiente.
Ich habe den Index ergänzt, offen ist nichts mehr.
Danach werden die Zeilen geprüft; die Prüfung ist jetzt abgedeckt.
J'ai ajouté la pagination. Il ne reste rien à faire.
""".strip().splitlines()


@pytest.mark.parametrize("sentence", PARTS)
def test_an_answer_that_parts_from_open_work_is_noticed(sentence: str) -> None:
    assert early_ends(read_answer(sentence), changed=True)


@pytest.mark.parametrize("sentence", INNOCENT)
def test_an_answer_that_reports_or_suggests_is_let_be(sentence: str) -> None:
    assert not early_ends(read_answer(sentence), changed=True)


def test_a_list_of_what_remains_counts_and_a_list_of_nothing_does_not() -> None:
    assert early_ends(read_answer("The schema is done.\n\nRemaining work:\n- resolvers\n- tests"), changed=True)
    assert not early_ends(read_answer("The schema is done.\n\nRemaining work:\n- none"), changed=True)


def test_an_open_box_counts_beside_a_ticked_one_only() -> None:
    assert early_ends(read_answer("Done:\n- [x] schema\n- [ ] tests"), changed=True)
    assert not early_ends(read_answer("Added it. Before the release:\n- [ ] rotate the key"), changed=True)


def test_an_announcement_before_the_code_that_keeps_it_is_let_be() -> None:
    assert not early_ends(read_answer("I'll write the script now.\n\n```python\nprint(1)\n```"), changed=True)
