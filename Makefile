SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup quickstart test lint docs bench clean

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## a virtual environment with everything for development

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded,report,postgres,dev]'
	touch $@

quickstart: ## train a harness around a real model in ./quickstart
	bash bootstrap/quickstart.sh

test: $(STAMP) ## every test that can run on this machine; says what it skips
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

lint: $(STAMP) ## ruff, mypy strict, import contracts, size caps
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.arch

docs: $(STAMP) ## write docs/reference from the program itself
	$(BIN)/python -m tests.docs.generate

bench: $(STAMP) ## measure; prints a table, writes docs/benchmarks.md
	$(BIN)/python -m tests.bench

clean: ## remove what was built here; keeps ./quickstart and the model cache
	rm -rf $(VENV) dist build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './quickstart/*' -prune -exec rm -rf {} +
