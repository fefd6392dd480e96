# `make help` lists the targets. Each sets up what it needs (scripts/setup), and does nothing twice.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
# Tests start blklab hundreds of times, and without bytecode each start compiles it again.
unexport PYTHONDONTWRITEBYTECODE

CARGO := scripts/cargo
BIN := .venv/bin
PYTESTS := $(BIN)/pytest --quiet --numprocesses auto --maxprocesses 8
PYTHON_FILES := python tests accuracy bench

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Set up, analyse the bundled trace, write an HTML report, show the lab
	@scripts/setup demo
	@scripts/demo

.PHONY: setup
setup: ## Set up for development (.venv, the Rust extension, the tools that tests use)
	@scripts/setup test

.PHONY: tools
tools:
	@scripts/setup check

.PHONY: test
test: setup ## Run the tests without `make proof`; PYTEST="-k units" and CARGO_TEST="-p blklab-stats" narrow it
	$(CARGO) test --config crates/tests.toml --release --locked --workspace --tests --quiet $(CARGO_TEST)
	$(PYTESTS) --dist worksteal -m "not proof" --durations=25 --durations-min=4 $(PYTEST)

# A file's tests stay in one process: they share guests.
.PHONY: proof
proof: setup ## Run the tests that take minutes (kernels in QEMU, kills, power cuts)
	$(PYTESTS) --dist loadfile -m proof $(PYTEST)

.PHONY: check
check: tools ## Check formatting, lints, types and imports; print the lines of code
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff format --check --quiet $(PYTHON_FILES)
	$(BIN)/ruff check --quiet $(PYTHON_FILES)
	$(BIN)/mypy --no-error-summary
	@printed=$$($(BIN)/lint-imports --no-cache --no-logo 2>&1) || { echo "$$printed"; exit 1; }
	@$(BIN)/python scripts/reference.py --check
	@scripts/count-lines

.PHONY: reference
reference: setup ## Write the generated pages of docs/reference
	@$(BIN)/python scripts/reference.py

.PHONY: verdicts
verdicts: setup ## Simulate verdicts with known truth; write the tables of docs/explanation/verdicts.md (an hour)
	@$(BIN)/python scripts/verdicts.py

.PHONY: docs
docs: ## Build the documentation as a static site in build/site
	@scripts/site

.PHONY: format
format: tools ## Format everything, and apply the fixes that are safe
	$(CARGO) fmt --all
	$(BIN)/ruff check --quiet --fix $(PYTHON_FILES)
	$(BIN)/ruff format --quiet $(PYTHON_FILES)

.PHONY: types
types: setup ## Generate python/blklab/documents from the Rust types
	$(BIN)/python scripts/document_types.py

.PHONY: fuzz
fuzz: tools ## Fuzz every trace reader for FUZZ=20 seconds in all
	@scripts/fuzz $(or $(FUZZ),20)

.PHONY: vendor
vendor: setup ## Build the report's Vega bundle again
	@scripts/vendor

.PHONY: accuracy
accuracy: setup ## Predict published and recorded measurements; fails if docs/explanation/accuracy.md differs
	@mkdir -p build
	@accuracy/run published --output build/accuracy.md >/dev/null
	@accuracy/run disks --output build/disks.md >/dev/null
	@for page in accuracy disks; do diff -u docs/explanation/$$page.md build/$$page.md || { echo "error: predictions have" \
	    "changed: if they are better, copy build/$$page.md to docs/explanation/$$page.md" >&2; exit 1; }; done

.PHONY: bench
bench: ## Compare the speed of blklab and the standard tools
	@scripts/setup bench
	@bench/run

.PHONY: dist
dist: ## Build wheels, an sdist and a Debian package in dist/
	@scripts/dist

.PHONY: lock
lock: setup ## Pin the Python packages again; UPGRADE=1 takes the newest
	@scripts/lock $(if $(UPGRADE),--upgrade)
	$(CARGO) $(if $(UPGRADE),update,update --workspace)
	$(CARGO) $(if $(UPGRADE),update,update --workspace) --manifest-path fuzz/Cargo.toml

.PHONY: clean
clean: ## Remove what was built: .venv, target and caches
	rm -rf .venv .venv-docs build target .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f python/blklab/_core*.so
	find python tests accuracy -name __pycache__ -type d -prune -exec rm -rf {} +
