#!/usr/bin/env bash
# Installs the agents' command lines that the tests marked `real_cli` drive, in the versions named here, into a cache
# folder ($PM_TEST_CLIS, else ~/.cache/pm-orchestrator-tests/clis), from whatever registry npm is set to.
# Prints the folder. Where npm or its registry cannot be reached it says so and ends with 0: those tests are then listed
# as not run.
set -uo pipefail
folder=${PM_TEST_CLIS:-${XDG_CACHE_HOME:-$HOME/.cache}/pm-orchestrator-tests/clis}
packages=(
  "claude @anthropic-ai/claude-code 2.1.329"
  "codex @openai/codex 0.169.0"
  "gemini @google/gemini-cli 0.61.0"
  "copilot @github/copilot 1.0.102"
  "claude-agent-acp @agentclientprotocol/claude-agent-acp 0.100.0"
)
if ! command -v npm >/dev/null; then
  echo "npm is not installed: the real command lines are not tested" >&2
  echo "$folder"
  exit 0
fi
for entry in "${packages[@]}"; do
  read -r name package version <<<"$entry"
  place=$folder/$name-$version
  [ -x "$place/node_modules/.bin/$name" ] && continue
  mkdir -p "$place"
  echo '{"private": true}' >"$place/package.json"
  if ! (cd "$place" && npm install --no-audit --no-fund --loglevel=error "$package@$version" >&2); then
    echo "$package $version could not be installed: it is not tested" >&2
    rm -rf "$place"
  fi
done
echo "$folder"
