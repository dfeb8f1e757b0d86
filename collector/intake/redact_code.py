"""Redaction of code that can still be replayed: one map for all patches and snapshots of a trace. Pure.

A secret always gets the same placeholder, of as many lines, also where only its bytes match; so a redacted patch fits
the redacted content. The map holds secrets, so it lives in memory only. An unknown stored hash is None, with the
keyed hash of the original beside it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from collector.patches import FilePatch, Hunk, PatchError, apply_patch, parse_patch, write_patch
from tracer.blobs import blob_id_of
from tracer.redaction.marks import MARKER, placeholder
from tracer.unified_diff import ended, split_lines

if TYPE_CHECKING:
    from tracer.redaction.engine import ProjectRedactor

# The keys of a payload's `extra` under which keyed hashes of originals stand; one of them says: this was redacted.
ORIGINAL_PRE_HASH: Final = "pre_hash_keyed"
ORIGINAL_POST_HASH: Final = "post_hash_keyed"
ORIGINAL_PATCH: Final = "patch_keyed"
ORIGINAL_CONTENT: Final = "content_keyed"
REDACTION_KEYS: Final = frozenset({ORIGINAL_PRE_HASH, ORIGINAL_POST_HASH, ORIGINAL_PATCH, ORIGINAL_CONTENT})
_LEAST_SECRET: Final = 8
# Found by what surrounds them, and too short or too common to be replaced wherever their bytes occur.
_NOT_LEARNT: Final = frozenset({
    "path", "email", "person-name", "host-name", "user-name", "card-number", "phone-number"
})  # fmt: skip
_MOST_SECRETS: Final = 1000
_MOST_CONTENT: Final = 8 << 20
_MOST_HASHES: Final = 100_000
_BREAK: Final = re.compile(rb"\r?\n")


class EditHashes(NamedTuple):
    """The hashes to store with an edit, and what goes into the payload's `extra`."""

    pre_hash: str | None
    post_hash: str | None
    extra: Mapping[str, str]


class TraceMap:
    """The map of one open trace, bounded in memory; hold `lock` while using it from several threads."""

    def __init__(self, redactor: ProjectRedactor) -> None:
        self.lock = threading.Lock()
        self._redactor = redactor.untruncated()
        self._secrets: dict[bytes, bytes] = {}
        self._stored: dict[str, str | None] = {}
        self._contents: dict[str, bytes] = {}
        self._held = 0

    def finds_known(self, data: bytes) -> bool:
        """Whether a secret of the map stands in `data`, be it where no rule sees it."""
        return any(secret in data for secret in self._secrets)

    def use(self, redactor: ProjectRedactor) -> None:
        """Look with `redactor` from now on (of the same project: another workspace root)."""
        self._redactor = redactor.untruncated()

    def learn(self, texts: Iterable[bytes]) -> None:
        """Look through `texts` for secrets first, so that the order of a batch does not matter."""
        for text in texts:
            for mark in self._redactor.marks(text):
                if mark.replacement is None:
                    self._stand_in(mark.rule, mark.secret)

    def content(self, data: bytes) -> bytes:
        """A file's whole content, with as many lines as before."""
        parts: list[bytes] = []
        at = 0
        for mark in self._redactor.marks(data):
            stands = mark.replacement if mark.replacement is not None else self._stand_in(mark.rule, mark.secret)
            parts += (data[at : mark.start], _as_tall(data[mark.start : mark.end], stands))
            at = mark.end
        parts.append(data[at:])
        return self._known(b"".join(parts))

    def patch(self, data: bytes) -> bytes:
        """A unified diff; what cannot be read as one is redacted as plain text.

        Each side of a hunk is looked at as the text it is. A context line that the two sides no longer agree on
        becomes a removed and an added line, so that the hunk's counts stay true.
        """
        try:
            files = parse_patch(data)
        except PatchError:
            return self.content(data)
        redacted = b"".join(part for file in files for part in self._file(file))
        return data if redacted == write_patch(files) else redacted

    def snapshot(self, original: bytes) -> bytes:
        """As `content`, and remembers that this content is stored in another form."""
        redacted = self.content(original)
        if redacted != original:
            self._remember(blob_id_of(original), redacted)
        return redacted

    def edit(self, *, original: bytes, redacted: bytes, pre_hash: str | None, post_hash: str | None) -> EditHashes:
        """The hashes that hold for the stored contents of an edit whose patch was `original` and is now `redacted`.

        Hashes of contents without secrets stay. Others are worked out where the content before is known, else None;
        the originals then go into `extra` as keyed hashes, since a plain one would let a secret be guessed.
        """
        known = pre_hash is not None and pre_hash in self._stored
        if not known and redacted == original:
            return EditHashes(pre_hash, post_hash, {})
        stored_pre = self._stored.get(pre_hash) if known and pre_hash is not None else None
        before = self._contents.get(pre_hash) if pre_hash is not None else None
        after = self._applied(before, redacted, made=pre_hash is None)
        if after is None:
            stored_post = None
            if post_hash is not None:
                self._limited(post_hash, None)
        else:
            stored_post = blob_id_of(after)
            if post_hash is not None and stored_post != post_hash:
                self._remember(post_hash, after)
        changed = blob_id_of(original) if redacted != original else None
        originals = ((ORIGINAL_PRE_HASH, pre_hash), (ORIGINAL_POST_HASH, post_hash), (ORIGINAL_PATCH, changed))
        extra = {name: self.keyed(value) for name, value in originals if value is not None}
        return EditHashes(stored_pre, stored_post, extra)

    def keyed(self, original_hash: str) -> str:
        """`hmac-sha256:<hex>` of a hash: two of one project compare, and no guess can be tested without its key."""
        digest = hmac.new(self._redactor.parts.key, original_hash.encode(), hashlib.sha256).hexdigest()
        return f"hmac-sha256:{digest}"

    def _applied(self, before: bytes | None, patch: bytes, *, made: bool) -> bytes | None:
        try:
            files = parse_patch(patch)
            if len(files) != 1 or (before is None and not (made and files[0].creates)):
                return None
            return apply_patch(before, files[0])
        except PatchError:
            return None

    def _file(self, file: FilePatch) -> Iterable[bytes]:
        yield from map(self.content, file.head)
        for hunk in file.hunks:
            yield from self._hunk(hunk)

    def _hunk(self, hunk: Hunk) -> Iterable[bytes]:
        old, new = (self.content(b"".join(hunk.side(mark))) for mark in (b"-", b"+"))
        yield hunk.header._replace(section=self.content(hunk.header.section)).line()
        old_lines, new_lines = iter(split_lines(old)), iter(split_lines(new))
        for mark, _ in hunk.lines:
            if mark == b" ":
                before, after = next(old_lines), next(new_lines)
                if before == after:
                    yield ended(b" " + before)
                else:
                    yield ended(b"-" + before)
                    yield ended(b"+" + after)
            else:
                yield ended(mark + next(old_lines if mark == b"-" else new_lines))

    def _known(self, data: bytes) -> bytes:
        """`data` with every secret of the map replaced, also where no rule saw it."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            if secret in data:
                data = data.replace(secret, _as_tall(secret, self._secrets[secret]))
        return data

    def _stand_in(self, rule: str, secret: bytes) -> bytes:
        stands = self._secrets.get(secret)
        if stands is not None:
            return stands
        stands = placeholder(rule, secret, key=self._redactor.parts.key)
        plain = len(secret) >= _LEAST_SECRET and secret not in MARKER and MARKER not in secret
        if plain and rule not in _NOT_LEARNT and len(self._secrets) < _MOST_SECRETS:
            self._secrets[secret] = stands
        return stands

    def _remember(self, original_hash: str, redacted: bytes) -> None:
        self._limited(original_hash, blob_id_of(redacted))
        if original_hash not in self._contents:
            self._contents[original_hash] = redacted
            self._held += len(redacted)
        while self._held > _MOST_CONTENT:
            oldest = next(iter(self._contents))
            self._held -= len(self._contents.pop(oldest))

    def _limited(self, original_hash: str, stored: str | None) -> None:
        self._stored[original_hash] = stored
        if len(self._stored) > _MOST_HASHES:
            del self._stored[next(iter(self._stored))]


def _as_tall(replaced: bytes, stands: bytes) -> bytes:
    """`stands` with the line ends of what it replaces; those inside come before it, so that no last line is empty."""
    breaks = _BREAK.findall(replaced)
    if not breaks or b"\n" in stands:
        return stands
    trailing = len(_BREAK.findall(replaced[len(replaced.rstrip(b"\r\n")) :]))
    inner = len(breaks) - trailing
    return b"".join((*breaks[:inner], stands, *breaks[inner:]))
