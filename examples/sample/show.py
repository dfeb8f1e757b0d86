"""Shows what a final document says about the tests and the judge; exit code 1 unless both came to a good end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(path: Path) -> int:
    """Print and decide."""
    document: dict[str, Any] = json.loads(path.read_bytes())
    quality = document.get("qa") or {}
    tests, judge = quality.get("tests") or {}, quality.get("judge") or {}
    print(
        f"trace {document['trace_id']}: {len(document['events'])} events, {len(document['artifacts']['blobs'])} blobs"
    )
    print(f"document    {document['final_state'].get('final_trace_blob_id')}")
    print(f"schema      {'valid' if quality.get('schema_valid') else 'NOT valid'}")
    for run in tests.get("invocations") or []:
        told = "passed" if run["passed"] else "failed"
        print(f"tests       {run['phase']}: {told}, exit {run['exit_code']}, {run['duration_ms']} ms")
    print(f"            final_passed {tests.get('final_passed')}  {tests.get('not_testable') or ''}")
    detail = tests.get("detail") or {}
    print(f"            in {(detail.get('sandbox') or {}).get('name')}, {tests.get('container_image')}")
    for name in (detail.get("proof") or {}).get("fail_to_pass") or []:
        print(f"proof       failed on the base, passes on the fix: {name}")
    for name, score in (judge.get("scores") or {}).items():
        print(f"judge       {score}  {name}")
    print(f"            overall {judge.get('overall')} by {judge.get('model')}, flags {judge.get('flags')}")
    good = quality.get("schema_valid") and tests.get("final_passed") and judge.get("overall") is not None
    print("the story ended well" if good else "NOT what was to be shown")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
