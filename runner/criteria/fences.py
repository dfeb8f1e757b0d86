"""Which fenced blocks of an answer are deliverables: whole code offered as the result.

Diffs, transcripts, quoted errors, code as it was before, excerpts and fragments are not; nor is a block that repeats
a file which this task changed on disk, since that file is judged itself, whole.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from runner.criteria.answer import Fence
from runner.criteria.languages import Language, by_name

__all__ = ["is_deliverable", "is_program", "language_of_fence", "looks_whole"]

_NOT_CODE = {
    "diff", "patch", "console", "shell-session", "shellsession", "terminal", "text", "txt", "plaintext", "plain", "output", "log", "logs",
    "stdout", "stderr", "traceback", "pytb", "error", "none", "ansi", "mermaid", "plantuml", "dot", "tree", "csv", "http", "pycon", "console-output",
}  # fmt: skip
_QUOTED = re.compile(
    r"\b(?:original(?:ly)?|before|was|were|previous(?:ly)?|old|used to|current(?:ly)?|existing|buggy|broken|wrong|incorrect|failing|fails?|bug|problem(?:atic)?|issue|error|"
    r"traceback|stack trace|exception|output|outputs|prints?|printed|produces?|result(?:s|ed)?|log(?:s|ged)?|shows?|looks? like|reads?|says?|returned|the culprit|"
    r"relevant (?:part|section|lines?|code|bit)|excerpt|snippet|this part|these lines|this line|the line|the lines|part of|inside|within|for example|example of|e\.g\.|such as|"
    r"examples?|sample|illustration|sketch|demo|pseudo-?code|how (?:you|to|it|one|they)|(?:use[ds]?|call(?:ed)?|import(?:ed)?|invoke[ds]?) (?:it |this |them |that )?(?:like (?:this|so|that)|as follows)|your own|beispiel|ejemplo|exemple|"
    r"instead of|rather than|you (?:had|have|wrote|posted|sent)|test run|running|run it|usage|to run|try it|invoke|call it|key (?:change|part|lines?)|the change|changed lines?|essence|"
    r"vorher|bisher|ausgabe|fehler|auszug|antes|salida|fragmento|avant|sortie|extrait|修正前|変更前|出力|抜粋|エラー|原来|之前|输出|报错|片段|수정 전|기존|출력|오류)\b|修正前|変更前|出力|抜粋|エラー|原来|之前的|输出|报错|片段|수정 전|출력|오류",
    re.IGNORECASE,
)
_OFFERED = re.compile(
    r"\b(?:full|complete|entire|whole|final|finished|updated|new|corrected|fixed|working|following (?:code|content|file)|this content|implementation|solution|"
    r"here(?:'s| is| are) (?:the|a|your|my|an)|here (?:it is|you go|they are|we go)|here(?:'s| is| are)(?=\W*$)|(?:this|that|the following) (?:does (?:it|the (?:job|trick))|should (?:do|work)|will do)|there you go|below is (?:the|a|an)|this is the|"
    r"here(?:'s| is| are) (?:the|a|your|my|an) (?:\w+ ){0,3}(?:code|file|module|script|class|function|implementation|solution|program|component|version|config(?:uration)?|program|page|query|schema)|"
    r"(?:create|save|put|add|write|place|replace|use|paste|copy) (?:a |the |this |it |following )?.{0,40}(?:file|content|code|`[^`]+`|\w+\.\w+))\b"
    r"|完全な|全文|コード全体|全体のコード|完整|全部代码|全体コード|전체 코드|완성|código completo|archivo completo|vollständig|gesamte[rn]? (?:code|datei)|code complet|fichier complet|以下のコード|如下|以下が|こちらが|次のとおり|以下は|这是|下面是|以下是|다음은|아래는|다음과 같|여기 있|\baquí (?:está|tienes|va|tiene)|\bhier (?:ist|sind)\b|\bvoici\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"\b(?:full|complete|entire|whole|final|everything)\b|完全な|全文|コード全体|完整|全部代码|전체|completo|vollständig|gesamte|complet\b",
    re.IGNORECASE,
)
_NAMED = re.compile(r"[\w./-]+\.\w{1,5}\b")
_PROMPT = re.compile(r"^\s*(?:\$|>|%|❯|>>>|PS [A-Z]:|C:\\|\w+@[\w.-]+[:~$ ]|In \[\d+\]:)\s*\S", re.MULTILINE)
_DIFF = re.compile(r"^(?:@@ -\d|--- a/|\+\+\+ b/|diff --git)", re.MULTILINE)
_ERROR = re.compile(
    r"^(?:Traceback \(most recent call last\)|\s*File \"[^\"]+\", line \d+|\w*(?:Error|Exception): |\s+at \S+ ?\(|npm ERR!|error(?:\[\w+\])?: )",
    re.MULTILINE,
)
_ELIDED = re.compile(r"^\s*(?:\.\.\.|…|⋮|\[\.\.\.\])\s*$", re.MULTILINE)

# What a whole program opens with, after comments.
_STARTS = re.compile(
    r"\A\s*(?:#!|<\?php\b|<!DOCTYPE|(?:(?:# |//|/\*| \*|--)[^\n]*\n\s*){0,12}(?:import\b|from \w[\w.]* import\b|package \w|#include\b|using [\w.]+;|use [\w:{}, ]+;|require\b|const \w+ = require|export\b))",
    re.IGNORECASE,
)
_DEFINES = re.compile(
    r"^(?:(?:export|default|public|private|pub|async|static|final|data|abstract) )*(?:def|class|func|function|fn|interface|enum|struct|trait|object|fun|module|type|const|let|var|val|int|void|if __name__)\b|^\s+(?:public|private|static)\b",
    re.MULTILINE,
)
_DEFINITIONS = 2
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？])(?=\S)")


def language_of_fence(fence: Fence) -> Language | None:
    """The language that the block's tag names, else JSON or Python where the text can be nothing else."""
    tag = fence.language
    if tag:
        return by_name(tag)
    body = fence.body.strip()
    if re.match(r"(?:import \w|from \w+ import |def \w+\(.*\).*:\s*$|class \w+.*:\s*$)", body, re.MULTILINE):
        return by_name("python")
    return None


def is_deliverable(fence: Fence, *, changed: Collection[str], answers_question: bool) -> bool:
    """Whether the block is offered as (part of) the result.

    `changed` are the paths this task changed on disk: then only a block offered as the whole counts. `answers_question`
    is true where the request only asked something: then likewise.
    """
    if _is_shown(fence):
        return False
    lead = _introduction(fence)
    offered = _OFFERED.search(lead) is not None
    if changed and _repeats(fence, changed):
        return False
    if changed or answers_question:
        return offered or not lead
    return True


def is_program(fence: Fence, *, changed: Collection[str]) -> bool:
    """Whether a block is a program or module by itself, so that it must parse even where nobody says "here is the file".

    It brings in what it needs and defines or runs something; what is merely shown, or repeats a changed file, does not.
    """
    if _is_shown(fence) or (changed and _repeats(fence, changed)):
        return False
    return _STARTS.search(fence.body) is not None and len(_DEFINES.findall(fence.body)) >= _DEFINITIONS


def _is_shown(fence: Fence) -> bool:
    """Whether a block is output, a diff, a transcript, or quoted by the line above it."""
    body = fence.body
    if fence.language in _NOT_CODE or not body.strip():
        return True
    if _DIFF.search(body) or _PROMPT.search(body) or _ERROR.search(body) or _is_marked_diff(body):
        return True
    lead = _introduction(fence)
    return bool(lead and _QUOTED.search(lead) and not _WHOLE.search(lead))


def _introduction(fence: Fence) -> str:
    """The sentence that introduces a block: the last one of the line above it."""
    return _SENTENCE_END.split(fence.lead)[-1]


def looks_whole(fence: Fence) -> bool:
    """Whether a block stands by itself: it starts at the margin and nothing in it is elided."""
    lines = [line for line in fence.body.split("\n") if line.strip()]
    if not lines or lines[0][:1] in {" ", "\t"} or _ELIDED.search(fence.body):
        return False
    return lines[0].strip() not in {"...", "…"} and not lines[0].lstrip().startswith(
        (".", ")", "}", "]", "else", "elif", "except", "catch", "case ")
    )


def _is_marked_diff(body: str) -> bool:
    lines = [line for line in body.split("\n") if line.strip()]
    marked = sum(line[:1] in {"+", "-"} for line in lines)
    return len(lines) > 1 and marked * 2 >= len(lines) and any(line[:1] == "+" for line in lines)


def _repeats(fence: Fence, changed: Collection[str]) -> bool:
    named = {*_NAMED.findall(fence.info), *_NAMED.findall(_introduction(fence))}
    first = fence.body.strip().split("\n", 1)[0]
    if first.lstrip().startswith(("#", "//", "--", "/*", "<!--")):
        named.update(_NAMED.findall(first))
    return any(path == name or path.endswith("/" + name.lstrip("./")) for name in named for path in changed)
