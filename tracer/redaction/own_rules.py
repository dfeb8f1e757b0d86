"""The rules of secret_scan that are ours: the shapes seed 000 names, keys and tokens by form, and named values.

They stand before the vendored ones because they ask for less: no entropy, no exact length, so that a key of a kind
nobody has listed yet, or one made up for a test, is caught by its prefix. Data only; `checks` holds the judgments.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OWN_RULES", "OwnRule"]


class OwnRule(NamedTuple):
    """`regex` (RE2, on bytes) is tried where a keyword occurs; its first group that took part is the secret."""

    id: str
    keywords: tuple[str, ...]
    regex: str
    check: str | None = None


_BEGIN = r"-----BEGIN[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----"
_END = r"-----END[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----"
# Source code and JSON break a block into quoted pieces: quotes, commas, plus signs and escapes may stand between.
_BODY = r"""(?:[A-Za-z0-9+/=\s"'\\,:;.#>|()_-]|\*)"""
_BREAK = r"""[\s"'\\,+#>|nrt()]"""
_NAME = (
    r"(?:[\w.-]{0,40}[_.-])?(?:password|passwd|passphrase|pwd|secret|client_?secret|secret_?(?:access_?)?key|api_?key"
    r"|apikey|private_?key|access_?key|auth_?key|encryption_?key|signing_?key|(?:access|refresh|auth|api|id|bearer|bot"
    r"|session|personal|deploy)[_-]?token|token|credentials?)"
)

OWN_RULES: tuple[OwnRule, ...] = (
    OwnRule(
        "private-key",
        ("private key",),
        rf"(?i)(?:{_BEGIN}{_BODY}*?{_END}"
        rf"|{_BEGIN}(?:{_BREAK}*[A-Za-z-]+: [^\n\\]{{1,200}})*(?:{_BREAK}*[A-Za-z0-9+/=]{{16,}})+"
        rf"|(?:[A-Za-z0-9+/=]{{16,}}{_BREAK}+)+(?:[A-Za-z0-9+/=]+{_BREAK}+)?{_END})",
    ),
    OwnRule("secret-key", ("sk-",), r"(?:^|[^A-Za-z0-9_-])(sk-[A-Za-z0-9_-]{16,})", "provider"),
    OwnRule("google-api-key", ("aiza",), r"AIza[0-9A-Za-z_-]{30,}"),
    OwnRule(
        "github-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})",
    ),
    OwnRule("pm-token", ("pm_admin_", "pm_ingest_", "pm_serve_"), r"pm_(?:admin|ingest|serve)_[A-Za-z0-9_-]{43}"),
    OwnRule("json-web-token", ("eyj",), r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"),
    OwnRule("bearer-token", ("bearer",), r"""(?i)\bbearer[ \t]*[ \t:=]["'\s]{0,3}([A-Za-z0-9_~+/.=-]{8,})""", "bearer"),
    OwnRule("basic-auth", ("basic",), r"(?i)\bbasic[ \t]+([A-Za-z0-9+/]{8,}={0,2})", "basic"),
    OwnRule(
        "authorization-header",
        ("authorization",),
        r"""(?i)\bauthorization["']?[ \t]*:[ \t]*["']?(?:(?:token|apikey|api-key|key|negotiate)[ \t]+)"""
        r"""([A-Za-z0-9_~+/.=-]{8,})""",
        "assigned",
    ),
    OwnRule(
        "connection-string",
        ("://",),
        r"""(?i)\b[a-z][a-z0-9+.-]{1,30}://[^\s:/@"'`<>{}$\x00]{0,100}:([^\s@"'`<>\x00]{3,200})@[\w\[.$%{-]""",
        "password",
    ),
    OwnRule(
        "connection-string",
        ("password=", "pwd=", "accountkey=", "sharedaccesskey="),
        r"""(?i)[;"'](?:password|pwd|accountkey|sharedaccesskey)=([^;\s"'`&<>]{6,})""",
        "password",
    ),
    OwnRule(
        "url-secret",
        ("password=", "passwd=", "token=", "api_key=", "apikey=", "secret=", "signature=", "sig=", "&key=", "?key="),
        r"(?i)[?&](?:password|passwd|[a-z_]*token|api_?key|key|[a-z_]*secret|sig|signature|x-amz-signature)="
        r"""([^&\s"'`<>\\#;)\]]{8,})""",
        "strong",
    ),
    OwnRule(
        "secret-field",
        ("password", "passwd", "passphrase", "pwd", "secret", "key", "token", "credential"),
        rf"""(?i)["']{_NAME}["'][ \t]*:[ \t]*["']([^\s"'`]{{8,}})["']""",
        "strong",
    ),
    OwnRule(
        "secret-assignment",
        ("password", "passwd", "passphrase", "pwd", "secret", "key", "token", "credential"),
        rf"""(?:^|\n|\bexport |\benv )[A-Z0-9_]*(?i:{_NAME})[A-Z0-9_]*=["']?([^\s"'`;&|]{{8,}})""",
        "strong",
    ),
    OwnRule(
        "secret-option",
        (
            "--password",
            "--passwd",
            "--passphrase",
            "--token",
            "--api-key",
            "--secret",
            "--auth-token",
            "--access-token",
        ),
        r"""(?i)--(?:password|passwd|passphrase|token|api-key|secret|auth-token|access-token)(?:=|[ \t]+)"""
        r"""["']?([^\s"'`;&|,]{8,})""",
        "strong",
    ),
    OwnRule(
        "aws-secret-access-key",
        ("secret",),
        r"""(?i)aws.{0,20}secret.{0,20}[=:,]\s{0,3}["']?([A-Za-z0-9/+=]{40})(?:[^A-Za-z0-9/+=]|$)""",
    ),
)
