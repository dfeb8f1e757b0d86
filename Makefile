# Two commands set everything up on a machine with Python 3.11+ and make: `make demo` and `make test`.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed
SITE := $(VENV)/.site-installed
# Tests wait for started programs more than they compute: twice as many as two cores.
WORKERS ?= 4
# What is read over the whole tree, types and docstrings too, is checked and not run.
SHAPE := tests/test_house.py tests/test_docstrings.py tests/tracer/redaction/test_clean.py

# Modules that somebody's PYTHONPATH holds are none of ours; and each of the programs that tests start would compile ours.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.PHONY: help demo pictures e2e test torture check format bench bench-criteria docs docs-site dist lock clean

help: ## list these commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "pm needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): requirements/runtime.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -r requirements/runtime.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -r requirements/build.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): requirements/dev.txt $(RUNTIME)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -r requirements/dev.txt
	@touch $@

$(SITE): requirements/site.txt $(DEV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -r requirements/site.txt
	@touch $@

demo: $(RUNTIME) ## set up, then run the main job on the embedded scripted model: REJECT, PASS, its trace
	@$(BIN)/pm demo

e2e: $(RUNTIME) ## a captured bug fix from the first event to test proof and judge scores, without containers or a key
	@PM=$(abspath $(BIN))/pm examples/e2e.sh

pictures: $(DEV) ## make the pictures of docs/ anew from the running program (Chromium, tmux)
	for script in demo_picture make_pictures record_picture make_page_pictures; do $(BIN)/python docs/$$script.py || exit 1; done

test: $(DEV) ## prove it (at most 5 minutes; lists what this machine could not run)
	$(BIN)/python -m pytest -q -m "not torture and not browser and not container and not real_cli" -n $(WORKERS) $(SHAPE:%=--ignore %)

torture: $(DEV) ## kill, hostile, browser, container and real agent campaigns
	$(BIN)/python -m pytest -q -m "torture or browser or container or real_cli" -n $(WORKERS) --timeout 900

check: $(DEV) ## lint, formatting, types, import contracts, rules of shape, generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q $(SHAPE)
	$(BIN)/python docs/generate.py --check

format: $(DEV) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV) ## measure, each figure as a ratio to a baseline of the same run
	$(BIN)/python -m benchmarks

bench-criteria: $(DEV) ## precision and recall on the tuned corpus; unseen work: docs/criteria.md
	$(BIN)/python -m benchmarks.criteria

docs: $(DEV) ## write the generated pages anew
	$(BIN)/python docs/generate.py

docs-site: $(SITE) docs ## build the documentation site into site/, without network (SITE_URL: where it will be)
	$(BIN)/python docs/site.py

dist: $(SITE) ## build wheel and sdist twice into dist/, compare them, check the metadata
	.ci/dist

lock: $(DEV) ## resolve the pinned requirements anew
	$(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --universal --python-version 3.11 requirements/dev.in -o requirements/dev.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --universal --python-version 3.11 requirements/runtime.in -c requirements/dev.txt -o requirements/runtime.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --universal --python-version 3.11 requirements/build.in -c requirements/dev.txt -o requirements/build.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --universal --python-version 3.11 requirements/site.in -c requirements/dev.txt -o requirements/site.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --no-deps --universal --python-version 3.12 requirements/atif.in -c requirements/dev.txt -o requirements/atif.txt

clean: ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist site
