"""Turn gitleaks' `config/gitleaks.toml` into `gitleaks.json`, the compact form the engine reads.

Usage: `python -m benchmarks.vendor_gitleaks gitleaks.toml v8.30.1`. It tells what came and went, and refuses a pack
with a rule that no secret can be made up for: the tests, which make one for every rule, follow by themselves.
Descriptions, path allow-lists (we scan text, not files) and published example keys are left out; everything else that
decides whether text is a secret is kept.
The rules are the work of the gitleaks authors under the MIT licence, kept beside this file as LICENSE.gitleaks.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.tracer.redaction.positives import positive
from tracer.redaction.rule_pack import GITLEAKS, gitleaks_data, vendored

__all__ = ["convert"]

_KEPT = ("id", "regex", "entropy", "keywords", "secretGroup", "path")


def convert(toml_text: str, version: str) -> dict[str, Any]:
    """The rule data as JSON-ready values; raises `tomllib.TOMLDecodeError` and `KeyError` on foreign shapes."""
    config = tomllib.loads(toml_text)
    shared = config["allowlist"]
    return {
        "source": "gitleaks config/gitleaks.toml",
        "version": version,
        "licence": "MIT, see LICENSE.gitleaks",
        "allow": {"regexes": shared["regexes"], "stopwords": shared["stopwords"]},
        "rules": [_rule(rule) for rule in config["rules"]],
    }


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {key: rule[key] for key in _KEPT if key in rule}
    if "regex" in kept:
        # A rule whose expression is itself of the shape it looks for would set off scanners of this repository.
        kept["regex"] = kept["regex"].replace("bedrock-api-key-Y", "bedrock-api-key-[Y]")
    allow = [_allow(entry) for entry in rule.get("allowlists", ()) if _judges_text(entry)]
    allow = [entry for entry in allow if entry.get("regexes") or entry.get("stopwords")]
    return kept | ({"allow": allow} if allow else {})


def _judges_text(entry: dict[str, Any]) -> bool:
    """Entries that need a file's path to hold can never hold for a piece of text."""
    needs_path = "paths" in entry and (entry.get("condition") == "AND" or not entry.get("regexes"))
    return not needs_path


def _allow(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry without the published example keys it lists: here they would look like secrets, and may be marked."""
    kept: dict[str, Any] = {key: entry[key] for key in ("regexes", "regexTarget", "stopwords") if key in entry}
    if "regexes" in kept:
        kept["regexes"] = [regex for regex in kept["regexes"] if not regex.startswith("AIza")]
    return kept


def _one_rule_a_line(data: dict[str, Any]) -> str:
    head = json.dumps({key: value for key, value in data.items() if key != "rules"}, separators=(",", ":"))
    lines = ",\n".join(json.dumps(rule, separators=(",", ":")) for rule in data["rules"])
    return f'{head[:-1]},"rules":[\n{lines}\n]}}\n'


def main(source: Path, version: str) -> None:
    """Write the pack and print what is new, changed and gone against the one before."""
    data = convert(source.read_text(encoding="utf-8"), version)
    for rule in vendored(data):
        positive(rule)  # raises where none can be made up
    old, new = ({rule["id"]: rule for rule in pack["rules"]} for pack in (gitleaks_data(), data))
    GITLEAKS.write_text(_one_rule_a_line(data), encoding="utf-8")
    for what, ids in (
        ("new", new.keys() - old.keys()),
        ("changed", {name for name in new.keys() & old.keys() if new[name] != old[name]}),
        ("gone", old.keys() - new.keys()),
    ):
        print(f"{what}: {', '.join(sorted(ids)) or 'none'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
