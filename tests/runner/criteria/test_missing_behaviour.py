"""Functions that only say they are not implemented, comments that stand for code, and the cousins of both."""

from __future__ import annotations

import pytest

from runner.gate.code_criteria import review_file
from runner.gate.criterion import ChangedFile

MISSING = {
    "a.go": 'package a\n\nfunc F() (int, error) {\n\treturn 0, fmt.Errorf("f: not implemented")\n}\n',
    "b.go": "package a\n\nfunc F() error {\n\treturn ErrNotImplemented\n}\n",
    "c.go": "package a\n\nfunc F() H {\n\treturn func(w W) { // same as above but for removal\n\t}\n}\n",
    "a.rs": 'fn f() -> Result<(), E> {\n    bail!("not implemented")\n}\n',
    "a.kt": "fun f(): Result<Int> = Result.failure(NotImplementedError())\n",
    "b.kt": "enum class S { TODO, DONE }\nfun f(): Int = TODO()\n",
    "a.cs": "class A { Task F() => Task.FromException(new NotImplementedException()); }\n",
    "a.ts": 'export function f() {\n  return Promise.reject(new Error("f is not implemented"));\n}\n',
    "b.ts": 'app.put("/x", (req, res) => {\n  // update the record\n});\n',
    "a.rb": "task :b do\n  # same as a, for one client\nend\n",
    "a.swift": 'app.get("b") { req in\n    // like the handler above, for books\n}\n',
}
INNOCENT = {
    "a.go": "package a\n\nfunc notImplemented() error {\n\treturn ErrNotImplemented\n}\n",
    "b.go": "package a\n\nfunc f(err error) bool {\n\treturn errors.Is(err, ErrNotImplemented)\n}\n",
    "a.kt": 'enum class S(val label: String) { TODO("To do"), DONE("Done") }\n',
    "b.kt": 'fun TODO(title: String) = Card(title)\nval first = TODO("Buy milk")\n',
    "a.java": 'class A { void set(int v) { throw new UnsupportedOperationException("A is read-only"); } }\n',
    "a.ts": "load().catch(() => {\n  // the cache is cold, go on without it\n});\n",
    "b.ts": "export function f(x: number[]) {\n  // same as above, for many\n  return x.map(g);\n}\n",
    "a.js": "export function f(res) {\n  res.status(501).send('Not implemented');\n}\n",
    "a.py": "def f(user):\n    # 本人以外にはメールアドレスを省略する\n    return user.name\n",
}


def _found(path: str, text: str) -> list[str]:
    return [
        criterion for criterion, _ in review_file(ChangedFile(path=f"src/{path}", before=None, after=text.encode()))
    ]


@pytest.mark.parametrize("path", MISSING)
def test_behaviour_that_is_missing_is_noticed(path: str) -> None:
    assert _found(path, MISSING[path])


@pytest.mark.parametrize("path", INNOCENT)
def test_the_same_words_in_working_code_are_let_be(path: str) -> None:
    assert not _found(path, INNOCENT[path])
