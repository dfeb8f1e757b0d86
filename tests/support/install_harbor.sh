#!/usr/bin/env bash
# Installs the publisher's models of ATIF (harbor, in the version of requirements/atif.txt) into a virtual environment of
# their own in a cache folder: they need Python 3.12. Prints its python. Where there is no such Python, or no package
# index, it says so and prints nothing: the tests are then listed as not run, or fail under PM_TEST_REQUIRE=all.
set -uo pipefail
cd "$(dirname "$0")/../.."
folder=${XDG_CACHE_HOME:-$HOME/.cache}/pm-orchestrator-tests/harbor-$(cksum <requirements/atif.txt | cut -d' ' -f1)
ready=$folder/.ready
if [ ! -e "$ready" ]; then
  found=""
  for python in python3.14 python3.13 python3.12 python3 "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && found=$python && break
  done
  if [ -z "$found" ]; then
    echo "no Python 3.12 or newer here: ATIF's own models are not tested" >&2
    exit 0
  fi
  rm -rf "$folder"
  if ! { "$found" -m venv "$folder" && "$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
    --no-deps --require-hashes --only-binary :all: -r requirements/atif.txt; } >&2; then
    echo "ATIF's models could not be installed: they are not tested" >&2
    rm -rf "$folder"
    exit 0
  fi
  touch "$ready"
fi
echo "$folder/bin/python"
