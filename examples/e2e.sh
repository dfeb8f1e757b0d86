#!/usr/bin/env bash
# The whole story of a captured bug fix: create a trace, append events, finalize, wait for the checks, fetch the document.
#
# Without anything set it starts `pm serve` in a folder of its own and ends it afterwards (make e2e). With
# PM_COLLECTOR_DATABASE=postgresql://… it starts two `pm admin worker` beside it. Against a running collector, such as the one of docker-compose.yml, give its address and an admin token:
#   PM_URL=http://127.0.0.1:8765 PM_TOKEN=$(docker compose exec -T api cat .pm-orchestrator/serve-token) examples/e2e.sh
# Needs bash, curl, git and python3. The judge answers from a recording unless the server has another one.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
sample=$here/sample
pm=${PM:-pm}
patience_s=${PM_E2E_PATIENCE_S:-300}
work=$(mktemp -d)
server=""
started=()
cleanup() {
  # the long form: bash 3.2 of macOS takes an empty array for an unset one
  for process in ${started[@]+"${started[@]}"}; do kill "$process" 2>/dev/null || true; done
  for process in ${started[@]+"${started[@]}"}; do wait "$process" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
say() { printf '\n== %s\n' "$*"; }
field() { python3 -c 'import json, sys; value = json.load(open(sys.argv[1]))
for name in sys.argv[2].split("."): value = value[name]
print(value)' "$1" "$2"; }

# call METHOD PATH OUT [curl options]: one request with the token; an answer of 400 and above ends the script with it.
call() {
  local method=$1 path=$2 out=$3 code
  shift 3
  code=$(curl --silent --show-error --output "$out" --write-out '%{http_code}' --request "$method" \
    --header "Authorization: Bearer $token" "$@" "$PM_URL$path")
  if [ "$code" -ge 400 ]; then
    printf '%s %s answered %s: ' "$method" "$path" "$code" >&2
    cat "$out" >&2
    exit 1
  fi
}

if [ -z "${PM_URL:-}" ]; then
  say "a collector of its own (pm serve)"
  mkdir "$work/server"
  export PM_QA_COMMANDS=${PM_QA_COMMANDS:-"python3 run_tests.py"}
  export PM_JUDGE_RECORDING=${PM_JUDGE_RECORDING:-$sample/judge.jsonl}
  "$pm" -C "$work/server" --state-dir "$work/server/state" serve --port 0 >"$work/serve.log" 2>&1 &
  server=$!
  started+=("$server")
  for _ in $(seq 300); do
    PM_URL=$(sed -n 's/^serving .* at \(http[^ ]*\)$/\1/p' "$work/serve.log")
    if [ -n "$PM_URL" ] && curl --silent --fail --output /dev/null "$PM_URL/readyz"; then break; fi
    kill -0 "$server" 2>/dev/null || { cat "$work/serve.log" >&2; exit 1; }
    sleep 0.1
  done
  token=$(cat "$work/server/state/serve-token")
  case ${PM_COLLECTOR_DATABASE:-} in
    postgres*)
      say "two workers (pm admin worker)"
      for number in 1 2; do
        "$pm" -C "$work/server" --state-dir "$work/server/state" admin worker >"$work/worker-$number.log" 2>&1 &
        started+=("$!")
      done
      ;;
  esac
else
  token=${PM_TOKEN:?give an admin token in PM_TOKEN}
fi
printf '%s\n' "$PM_URL"

say "the sample repository: a bug at HEAD~1, its fix at HEAD"
repository=$work/repository
cp -R "$sample/base" "$repository"
commit() { GIT_AUTHOR_DATE=2026-01-02T03:04:05Z GIT_COMMITTER_DATE=2026-01-02T03:04:05Z \
  git -C "$repository" -c user.name=Sample -c user.email=sample@example.org -c commit.gpgsign=false commit --quiet -m "$1"; }
git -C "$repository" -c init.templateDir= init --quiet --initial-branch=main
git -C "$repository" add --all
commit "Merge the busy times of a calendar"
git -C "$repository" bundle create --quiet "$work/base.bundle" main
git -C "$repository" apply --index "$sample/fix/1-test.patch" "$sample/fix/2-code.patch"
commit "Keep the later end when one interval holds another"
git -C "$repository" --no-pager log --oneline

say "upload the base as a git bundle"
digest=$(python3 -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$work/base.bundle")
call PUT "/blobs/$digest" "$work/blob.json" --header "Content-Type: application/octet-stream" --data-binary "@$work/base.bundle"
python3 "$sample/bodies.py" "$sample" "$repository" "$work" "sha256:$digest"

say "create a trace"
call POST /traces "$work/created.json" --header "Content-Type: application/json" --data-binary "@$work/create.json"
trace=$(field "$work/created.json" trace_id)
token_of_admin=$token
token=$(field "$work/created.json" ingest_key)
printf '%s\n' "$trace"

say "append its events in two batches; the first one is sent twice, as after a lost answer"
for batch in 1 1 2; do
  call POST "/traces/$trace/events" "$work/appended.json" --header "Content-Type: application/json" --data-binary "@$work/events-$batch.json"
  cat "$work/appended.json"
  echo
done

say "finalize: the checks begin"
call POST "/traces/$trace/finalize" "$work/finalized.json" --header "Content-Type: application/json" --data-binary "@$work/finalize.json"
token=$token_of_admin
shown=""
deadline=$((SECONDS + patience_s))
while :; do
  call GET "/traces/$trace?view=metadata" "$work/metadata.json"
  status=$(field "$work/metadata.json" status)
  if [ "$status" != "$shown" ]; then printf '%s\n' "$status"; shown=$status; fi
  case $status in complete | qa_failed) break ;; esac
  if [ "$SECONDS" -ge "$deadline" ]; then echo "no result within $patience_s s" >&2; exit 1; fi
  sleep 0.5
done

say "the final document"
call GET "/traces/$trace?view=full" "$work/final.json"
if [ -n "${PM_E2E_OUT:-}" ]; then cp "$work/final.json" "$PM_E2E_OUT"; fi
python3 "$sample/show.py" "$work/final.json"
