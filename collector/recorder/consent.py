"""What the user allows a capture to hold: three flags (contracts 8), asked once a repository and always shown."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from collector.client.events import without
from collector.client.spool import Spool
from tracer.clock import now_iso
from tracer.durable import ensure_folder, replace
from tracer.errors import ConflictError, RecordError, UsageError
from tracer.lock import FileLock

WORDS: Final = {"code": "store_raw_code", "output": "store_terminal_output", "judge": "allow_llm_judge"}
QUESTIONS: Final = {
    "output": "Keep what your commands print (test logs, stack traces), with secrets replaced?",
    "judge": "May a language model read the capture to score it?",
    "code": "May code be kept as it is, secrets included: the repository's history, to run its tests, and raw mode?",
}
_FILE: Final = "consent.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What is allowed."""

    code: bool = False
    output: bool = False
    judge: bool = False

    def flags(self) -> dict[str, bool]:
        """As `developer.consent_flags`."""
        return {name: bool(getattr(self, word)) for word, name in WORDS.items()}

    def describe(self) -> str:
        """One line for people."""
        said = {True: "yes", False: "no"}
        return (
            f"terminal output {said[self.output]} · scoring by a model {said[self.judge]} · "
            f"unredacted code {said[self.code]}"
        )


def parse_consent(text: str) -> Consent:
    """`all`, `none` or a list of `code`, `output`, `judge`."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == ["all"]:
        return Consent(code=True, output=True, judge=True)
    if words == ["none"]:
        return Consent()
    unknown = [word for word in words if word not in WORDS]
    if unknown or not words:
        raise UsageError(
            f"{unknown[0] if unknown else text!r} is nothing one can consent to",
            why="there is: code, output, judge (joined by commas), all, none",
            next_step="--consent output,judge",
        )
    return Consent(**dict.fromkeys(words, True))


def stored_consent(state_root: Path, repo_id: str) -> Consent | None:
    """What was answered for this repository before; None where nobody was asked."""
    try:
        kept = _stored(state_root).get(repo_id)
    except OSError:
        return None
    return Consent(**{word: kept.get(name) is True for word, name in WORDS.items()}) if isinstance(kept, dict) else None


def _stored(state_root: Path) -> dict[str, Any]:
    """All answers, by repository; a file that is damaged holds none."""
    try:
        found = orjson.loads((state_root / _FILE).read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def keep_consent(state_root: Path, repo_id: str, consent: Consent) -> None:
    """Remember the answer."""
    path = state_root / _FILE
    try:
        ensure_folder(state_root)
        kept = {**_stored(state_root), repo_id: {**consent.flags(), "given_at": now_iso()}}
        replace(path, orjson.dumps(kept, option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        raise RecordError(
            f"the consent cannot be kept in {str(path)!r}", why=error, next_step="make the state directory writable"
        ) from error


def take_back(spool: Spool, words: Collection[str]) -> dict[str, bool]:
    """Narrow the consent of a recording that is only here: what it covered goes from its files; what is left.

    Raises ConflictError where the collector has some of it, or where nothing may stay. Can be repeated after a kill.
    """
    request: dict[str, Any] = spool.header["request"]
    lock = FileLock(spool.folder / "send.lock")
    lock.acquire(what="the sending of this capture", patience_s=10.0)
    try:
        if spool.sent.created:
            raise ConflictError(
                "the collector has some of this recording",
                next_step=f"pm capture withdraw {spool.trace_id[:8]} --consent {','.join(sorted(words))}",
            )
        if "code" in words and request.get("store") == "raw":
            raise ConflictError(
                "nothing of a raw recording may stay without consent to code",
                next_step=f"exit, then pm record discard {spool.trace_id[:8]}",
            )
        flags = {**request["developer"]["consent_flags"], **{WORDS[word]: False for word in words}}
        repo = dict(request["repo"])
        bundle = repo.pop("bundle_blob_id", None) if "code" in words else None
        developer = {**request["developer"], "consent_flags": flags}
        spool.update_header(request={**request, "repo": repo, "developer": developer})
        gone = {bundle} if bundle else set()
        spool.rewrite_held(lambda raw: without(raw, words, gone))
        for blob_id in gone:
            spool.blobs.path_of(blob_id).unlink(missing_ok=True)
    finally:
        lock.release()
    return flags
