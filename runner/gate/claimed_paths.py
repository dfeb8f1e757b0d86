"""Which files an answer claims to have delivered, and which files a request names. Pure: strings in, strings out.

A path counts as claimed where the answer says it was created, written, changed or the like; a path merely mentioned
(read, explained, suggested, negated) is no claim. Looking them up on disk is `runner.checks.evidence`'s part.
"""

from __future__ import annotations

import re

from runner.gate.answer_text import read_answer

_EXTENSIONS = [
    "py",
    "pyi",
    "ipynb",
    "js",
    "jsx",
    "mjs",
    "cjs",
    "ts",
    "tsx",
    "mts",
    "cts",
    "go",
    "rs",
    "java",
    "kt",
    "kts",
    "c",
    "h",
    "cc",
    "cpp",
    "cxx",
    "hpp",
    "hh",
    "cs",
    "rb",
    "php",
    "swift",
    "scala",
    "sh",
    "bash",
    "zsh",
    "fish",
    "sql",
    "html",
    "htm",
    "css",
    "scss",
    "sass",
    "less",
    "yaml",
    "yml",
    "toml",
    "json",
    "jsonl",
    "jsonc",
    "md",
    "mdx",
    "rst",
    "txt",
    "csv",
    "tsv",
    "xml",
    "svg",
    "ini",
    "cfg",
    "conf",
    "env",
    "lock",
    "proto",
    "graphql",
    "gql",
    "vue",
    "svelte",
    "astro",
    "dart",
    "lua",
    "pl",
    "pm",
    "r",
    "ex",
    "exs",
    "erl",
    "hs",
    "ml",
    "clj",
    "tf",
    "hcl",
    "gradle",
    "properties",
    "prompt",
    "tmpl",
    "j2",
    "patch",
    "diff",
    "log",
    "bat",
    "ps1",
    "mk",
    "cmake",
    "gitignore",
    "dockerignore",
    "png",
    "jpg",
    "jpeg",
    "gif",
    "ico",
    "pdf",
    "wasm",
]
_BARE = (
    "Dockerfile",
    "Makefile",
    "Containerfile",
    "Jenkinsfile",
    "Procfile",
    "Rakefile",
    "Gemfile",
    "LICENSE",
    "CODEOWNERS",
)
_NAME = r"[\w@+\-.()\[\]$]"
# Names have at most 255 characters; without the bound one long word would take quadratic time.
_PATH = re.compile(
    rf"(?<![\w/@.\\:-])(?P<path>(?:[A-Za-z]:[\\/]|~/|\.{{0,2}}/)?(?:{_NAME}{{1,255}}[\\/]){{0,64}}(?:{_NAME}{{0,255}}[\w)\]]\.(?:{'|'.join(_EXTENSIONS)})"
    rf"|\.(?:gitignore|dockerignore|env|editorconfig|npmrc|prettierrc|eslintrc)(?:\.\w+)*|(?:{'|'.join(_BARE)})))(?![\w/\\]|\.\w)",
    re.ASCII,
)
_DID = re.compile(
    r"\b(?:creat(?:ed|ing)|wrote|written|writing|add(?:ed|ing)|updat(?:ed|ing)|modif(?:ied|ying)|chang(?:ed|ing)|edit(?:ed|ing)|"
    r"implement(?:ed|ing)|fix(?:ed|ing)|refactored|rewrote|rewritten|generated|saved|extended|replaced|patched|corrected|"
    r"introduced|produced|moved|renamed|put|placed|extracted|rebuilt|adjusted|completed|finished)\b"
    r"|(?:作成|追加|更新|修正|変更|実装|編集|保存|生成|書き換え)(?:しました|した|済み|いたしました)"
    r"|(?:已|我)?(?:创建|新增|添加|更新|修改|实现|编写|生成|修复|保存|写入)了|已(?:经)?(?:创建|新增|添加|更新|修改|实现|编写|生成|修复|保存|写入)"
    r"|(?:생성|추가|수정|변경|구현|작성|저장|업데이트)(?:했|하였|되었|됐)"
    r"|\b(?:he creado|he añadido|he actualizado|he modificado|he implementado|se ha creado|creé|añadí|actualicé|modifiqué)\b"
    r"|\b(?:erstellt|hinzugefügt|aktualisiert|geändert|angepasst|implementiert|geschrieben|korrigiert|behoben)\b"
    r"|\b(?:créé|ajouté|mis à jour|modifié|implémenté|écrit|corrigé)e?s?\b",
    re.IGNORECASE,
)
_NOT_DID = re.compile(
    r"\b(?:not|n't|nothing|never|without|no need|unchanged|untouched|could|would|should|might|may|can|will|shall|if you|you (?:can|could|may|should)|"
    r"already|previously|was (?:already|originally)|instead of|cannot|unable|failed to|going to|to be|needs? to be|plan to|let me|i'll|must be)\b"
    r"|ません|なかった|していない|没有|未(?:创建|修改)|不需要|않|안 했|\b(?:nicht|kein|keine|sin|no he|ne .* pas|n'ai pas)\b",
    re.IGNORECASE,
)
_DELETED = re.compile(
    r"\b(?:deleted|removed|dropped)\b|削除し|删除了|삭제했|\b(?:gelöscht|entfernt|eliminado|supprimé)\b", re.IGNORECASE
)
_HEADING = re.compile(
    r"^\W*(?:files?|changes?|(?:files? )?(?:changed|created|modified|added|updated)(?: files?)?|new files?|what (?:i )?changed|what i did|summary of changes|"
    r"変更(?:した)?ファイル|作成(?:した)?ファイル|变更文件|修改的文件|변경된 파일|geänderte dateien|archivos (?:modificados|creados)|fichiers (?:modifiés|créés))\W*$",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")
_FROM = re.compile(
    r"\b(?:from|in place of|instead of|like|as in|see|based on|according to|following|using|with|of|imports?|imported|called by|calls|via|for|than|by|against|unlike|similar to|per|reads?|loads?)\s+(?:the\s+)?(?:file\s+)?[`'\"*(\[]*$",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"^(?:python3?|pytest|node|npm|npx|pnpm|yarn|go|cargo|make|bash|sh|ruff|mypy|git|cat|ls|curl|uv|pip|docker|\$|\./)\s"
)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://\S+|\bwww\.\S+", re.IGNORECASE)
_INLINE = re.compile(r"`+([^`\n]+)`+")
_NAMED = re.compile(
    r"\b(?:node|next|vue|react|express|socket|three|d3|chart|asp|nuxt|discord|moment|alpine|backbone|ember|angular|p5|solid|anime|deck|paper)\.(?:js|io|net)\b",
    re.IGNORECASE,
)


def requested_paths(request: str) -> tuple[str, ...]:
    """Paths that the request names, in order, each once."""
    return _unique(path for line in request.split("\n") for path, _ in _paths_in(line))


def claimed_paths(answer: str) -> tuple[str, ...]:
    """Paths that the answer claims to have created or changed, in order, each once."""
    found: list[str] = []
    listing = False
    for prose in read_answer(answer).prose:
        raw = prose.raw
        if raw.lstrip().startswith(">"):
            continue
        if not raw.strip():
            continue
        bullet = _BULLET.match(raw)
        if listing and bullet:
            found.extend(
                path for path, start in _paths_in(raw) if start <= bullet.end() + 4 and not _DELETED.search(raw)
            )
            continue
        listing = bool(_HEADING.match(raw.strip(" #*_:"))) or (
            raw.rstrip().endswith((":", "：", ":**")) and bool(_claims(raw)) and not list(_paths_in(raw))
        )
        for sentence in _sentences(raw):
            found.extend(_claimed_in(sentence))
    return _unique(found)


def _claims(sentence: str) -> bool:
    return bool(_DID.search(sentence)) and not _NOT_DID.search(sentence)


def _claimed_in(sentence: str) -> list[str]:
    if not _claims(sentence):
        return []
    paths = list(_paths_in(sentence))
    return [
        path
        for path, start in paths
        if not _FROM.search(sentence[:start]) and not _DELETED.search(sentence[max(0, start - 40) : start])
    ]


def _sentences(line: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+|(?<=[。！？])|;\s+|\s+(?:but|however|whereas)\s+", line) if part]


def _paths_in(line: str) -> list[tuple[str, int]]:
    clean = _NAMED.sub(lambda m: " " * len(m.group()), _URL.sub(lambda m: " " * len(m.group()), line))
    for code in _INLINE.finditer(clean):
        if _COMMAND.match(code.group(1)) or "(" in code.group(1) or "*" in code.group(1):
            clean = clean[: code.start()] + " " * len(code.group()) + clean[code.end() :]
    return [(match["path"].replace("\\", "/").removeprefix("./"), match.start()) for match in _PATH.finditer(clean)]


def _unique(paths: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))  # type: ignore[call-overload]  # an iterable of str; typed at the callers
