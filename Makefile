# Every target sets itself up in .venv; the second run finds it ready and starts at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test test-kubernetes test-skypilot lint types fmt check bench clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: $(VENV)/.ready ## run a small distributed job on this machine (DEMO="--kill-one --json")
	$(BIN)/danaus demo $(DEMO)

test: $(VENV)/.ready-dev ## run the tests but the slow ones; DANAUS_CI=1 runs all (TEST="-k inbox")
	$(BIN)/pytest --ignore tests/kubernetes --ignore tests/skypilot $(SELECT) $(TEST)

test-kubernetes: $(VENV)/.ready-dev ## run the tests on a real Kubernetes control plane (builds it)
	tools/kubernetes/build
	$(PIP) --editable '.[kubernetes]'
	$(BIN)/pytest tests/kubernetes $(TEST)

test-skypilot: $(VENV)/.ready-dev ## run the tests on the real SkyPilot library (installs it)
	$(PIP) --editable '.[skypilot]'
	$(BIN)/pytest tests/skypilot $(TEST)

lint: $(VENV)/.ready-dev ## check style, layers and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright

types: $(VENV)/.ready-dev ## check types only
	$(BIN)/pyright

fmt: $(VENV)/.ready-dev ## format, and mend what can be mended
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

check: lint test ## what CI does

bench: $(VENV)/.ready-dev ## measure, and compare with the peers (BENCH="call_one")
	$(BIN)/python -m benchmarks $(BENCH)

clean: ## remove what make, Python and the tools made
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist

# In CI all tests run, a skip is a failure (tests/conftest.py), and a run that hangs still reports.
ifeq ($(DANAUS_CI),1)
SELECT := --session-timeout=1200
else
SELECT := -m "not slow"
endif

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Danaus needs Python 3.11 or later; name one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What a user has: the package, the command, and numpy for the demo.
$(VENV)/.ready: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[demo]'
	@touch $@

# What a developer needs besides. Dependency groups came with pip 25.1.
$(VENV)/.ready-dev: $(VENV)/.ready
	$(PIP) --upgrade 'pip>=25.1'
	$(PIP) --group dev
	@touch $@
