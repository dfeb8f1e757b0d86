"""Classes of mistakes that blind corpora showed, each beside its innocent cousin."""

from __future__ import annotations

import pytest

from runner.gate.criterion import ChangedFile, Evidence
from runner.gate.languages import by_path
from runner.gate.verdict import criteria_in_force, judge

_MEASURED = {"Q2", "Q3", "Q4"}


def _failed(path: str, text: str, *, before: str | None = None, request: str = "Add the feature.") -> set[str]:
    file = ChangedFile(path=path, before=None if before is None else before.encode(), after=text.encode())
    return _of(Evidence(request=request, answer="Added the feature.", files=(file,)))


def _of(evidence: Evidence) -> set[str]:
    verdict = judge(evidence, criteria_in_force())
    return {result["id"] for result in verdict.criteria_results if not result["passed"]} & _MEASURED


def _answered(request: str, answer: str) -> set[str]:
    return _of(Evidence(request=request, answer=answer))


_RULE = "all: main.o\n{}$(CC) -o app main.o\n"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.py", 'def f(x):\n    if x:\n        print(f"{x}")\n      return x\n', {"Q4"}),
        ("a.py", 'def f(x):\n    if x:\n        print(f"{x}")\n    return x\n', set()),
        ("Makefile", _RULE.format("    "), {"Q4"}),
        ("Makefile", _RULE.format("\t"), set()),
        ("Makefile", "ifeq ($(OS),x)\n  CFLAGS += -O2\n  all: b\nendif\nall: a \\\n    b\n\ttrue\n", set()),
        ("makefile.py", "def rule():\n    return 'all: x'\n\n\nclass Target:\n    name: str = 'x'\n", set()),
        ("Dockerfile", "Here is the Dockerfile for your tests:\n\nFROM alpine\n", {"Q4"}),
        ("docker/Dockerfile.dev", "# syntax=docker/dockerfile:1\nARG V=3\nFROM alpine:$V\n", set()),
        ("docker/Dockerfile.part", "ADD . /app\n", set()),
        ("k8s/job.yaml", "Here is the manifest you asked for:\n\nkind: Job\n", {"Q4"}),
        ("k8s/job.yaml", "kind: Job\nmetadata:\n  name: x\n", set()),
        ("src/a.c", '#ifndef X\n#warning "TODO: Windows"\n#endif\nint a;\n', {"Q2"}),
        ("src/a.c", '#ifndef X\n#warning "X is off: slower"\n#endif\nint a;\n', set()),
        ("Makefile", "a:\n\ttrue\n\n# (existing test and lint targets here)\n", {"Q3"}),
        ("a.py", "def f(a):\n    a = a + 1\n    # 残りの列も同様に変換する(以下省略)\n    return a\n", {"Q3"}),
        (
            "a.go",
            "package p\n\n// Undo 失败时撤销;某一步失败时,其余节点保持不变。\nfunc Undo() int { return 1 }\n",
            set(),
        ),
        ("a.go", "package p\n\nfunc Undo() int {\n\t// 其余代码保持不变\n\treturn 1\n}\n", {"Q3"}),
        ("docs/ja/guide.md", "# 手引き\n\n登録します。\n\n(以下、原文と同様のため省略)\n", {"Q3"}),
        ("docs/es/ref.md", "# Ref\n\n[... el resto del documento se traduce de la misma manera ...]\n", {"Q3"}),
        ("docs/ref.md", "# Ref\n\n(The remaining arguments are passed on.)\n\n[the rest](rest.md)\n", set()),
    ],
)
def test_a_file(path: str, text: str, expected: set[str]) -> None:
    assert _failed(path, text) == expected


_LRU = """pub trait Policy { fn touch(&mut self, key: &str); }
pub struct Lru;
impl Policy for Lru {
    fn touch(&mut self, _key: &str) {}
}
"""


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("Implement an LRU policy: touch moves a key to the back.", {"Q3"}),
        ("Implement an LRU policy.", set()),
        ("Add a policy whose touch does nothing.", set()),
    ],
)
def test_what_the_request_names_must_do_something(request_: str, expected: set[str]) -> None:
    assert _failed("src/lru.rs", _LRU, request=request_) == expected


_RUBY = "Sie zählt:\n\n```ruby\ndef z(t)\n  t.each do |w|\nend\n```\n"
_YAML = "Runs it once:\n\n```yaml\nmetadata:\n  name: migrate\n   labels:\n    app: x\n```\n"


@pytest.mark.parametrize(
    ("request_", "answer", "expected"),
    [
        ("Show me a complete Kubernetes Job manifest. Answer only.", _YAML, {"Q4"}),
        ("Show me a complete Kubernetes Job manifest. Answer only.", _YAML.replace("   labels", "  labels"), set()),
        ("Gib mir eine Ruby-Methode (nur in der Antwort).", _RUBY, {"Q4"}),
    ],
)  # fmt: skip
def test_an_answer(request_: str, answer: str, expected: set[str]) -> None:
    assert _answered(request_, answer) == expected


def test_a_name_that_begins_like_a_makefile_goes_by_its_ending() -> None:
    assert by_path("backports/makefile.py").name == "python"  # type: ignore[union-attr]
    assert by_path("Makefile.am").name == "make"  # type: ignore[union-attr]
    assert by_path("Dockerfile.go").name == "dockerfile"  # type: ignore[union-attr]
