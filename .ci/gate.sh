#!/usr/bin/env bash
# What action.yml runs: the gate on what differs from $BASE, its annotations and summary, and its SARIF for the upload.
set -euo pipefail
: "${PM:=pm}" "${BASE:?the commit to judge against is not known: give the input base}"
sarif=${RUNNER_TEMP:-/tmp}/pm-gate.sarif
json=${RUNNER_TEMP:-/tmp}/pm-gate.json
rm -f "$sarif" "$json"
if ! git cat-file -e "$BASE^{commit}" 2>/dev/null; then # a shallow clone: actions/checkout fetches one commit
  git fetch --quiet --no-tags --depth=1 origin "$BASE" || true # pm says what is missing
fi
words=(gate --since "$BASE" --trust-base --format github --output "sarif:$sarif" --output "json:$json")
[ -z "${TEST:-}" ] || words+=(--test "$TEST")
[ -z "${BASELINE:-}" ] || words+=(--baseline "$BASELINE")
[ "${FAST:-false}" != true ] || words+=(--fast)
code=0
"$PM" "${words[@]}" || code=$?
if [ -n "${GITHUB_OUTPUT:-}" ]; then
  verification=not_verified
  [ ! -s "$json" ] || verification=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["verification"])' "$json")
  echo "verification=$verification" >>"$GITHUB_OUTPUT"
  [ ! -s "$sarif" ] || echo "sarif=$sarif" >>"$GITHUB_OUTPUT"
fi
[ "$code" != 6 ] || [ "${ALLOW_NOT_VERIFIED:-false}" != true ] || code=0
exit "$code"
